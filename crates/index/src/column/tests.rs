//! Columns of every shape, against the values they were written from.

use super::zone::{ENTRY_BYTES, FOOTER_BYTES};
use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

/// Values of every shape that an encoding is for, some blocks long.
fn values() -> impl Strategy<Value = Vec<u64>> {
    let any_length = 0usize..9_000;
    let shaped =
        (any_length, 0u32..6, any::<u64>(), 0u32..64).prop_map(|(rows, shape, seed, shift)| {
            let random = |row: usize| {
                (row as u64 + seed)
                    .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                    .rotate_left(29)
            };
            let value = |row: usize| match shape {
                0 => seed,
                1 => (seed >> 2).saturating_add(random(row) >> shift >> 2),
                2 => (seed >> 24) + row as u64 * (seed >> 44) + random(row) % 3,
                3 => {
                    if random(row).is_multiple_of(3) {
                        0
                    } else {
                        (seed >> 1) + random(row) % 1000
                    }
                }
                4 => random(row / 700) >> shift,
                _ => random(row),
            };
            (0..rows).map(value).collect()
        });
    prop_oneof![shaped, vec(0u64..3, 0..300), vec(any::<u64>(), 0..70)]
}

fn encoded(values: &[u64]) -> Vec<u8> {
    let (mut writer, mut bytes) = (ColumnWriter::new(), Vec::new());
    values
        .iter()
        .for_each(|value| writer.push(*value, &mut bytes));
    assert_eq!(writer.rows(), values.len() as u64);
    writer.finish(&mut bytes);
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn every_read_and_every_scan_says_what_was_written(
        values in values(),
        a: prop::sample::Index,
        b: prop::sample::Index,
        any_range in any::<[u64; 2]>(),
        exact: bool,
    ) {
        let bytes = encoded(&values);
        prop_assert!(
            bytes.len() <= 8 + values.len().div_ceil(BLOCK_ROWS) * ENTRY_BYTES + 8 * values.len()
        );
        let column = Column::new(&bytes).unwrap();
        prop_assert_eq!(column.rows(), values.len() as u64);
        prop_assert!(column.get(values.len() as u64).is_err());
        if values.is_empty() {
            return Ok(());
        }
        let (mut from, mut to) = (a.index(values.len()), b.index(values.len()));
        let (mut low, mut high) = if exact {
            (values[from], values[to])
        } else {
            (any_range[0], any_range[1])
        };
        if from > to {
            (from, to) = (to, from)
        }
        if low > high {
            (low, high) = (high, low)
        }

        let mut some = vec![1; to - from];
        column.read(from as u64, &mut some).unwrap();
        prop_assert_eq!(&some, &values[from..to]);
        let rows: Vec<_> = (0..values.len() as u32).step_by(1 + from % 977).collect();
        column.gather(&rows, &mut some).unwrap();
        prop_assert!(rows.iter().map(|row| &values[*row as usize]).eq(&some));
        prop_assert_eq!(column.get(to as u64), Ok(values[to]));

        let wanted =
            |row: &u32| values[*row as usize] != 0 && (low..=high).contains(&values[*row as usize]);
        let expected: DocSet = (0..values.len() as u32).filter(wanted).collect();
        prop_assert_eq!(
            &DocSet::from_bits(&column.scan(low..=high).unwrap()),
            &expected
        );
        prop_assert!(column.scan_cost(&(low..=high)).unwrap() <= values.len() as u64);
        let some: DocSet = rows.iter().copied().collect();
        let mut kept = some.clone();
        column.retain(&(low..=high), &mut kept).unwrap();
        prop_assert_eq!(&kept, &(&some & &expected));
        let frame = column.frame().unwrap();
        let head = column.head();
        for column in [column, Column::with_head(&bytes, &head)] {
            prop_assert_eq!(column.get(to as u64), Ok(values[to]));
            prop_assert!(column.get(values.len() as u64).is_err());
            for frame in [None, frame] {
                let mut kept_rows = rows.clone();
                column.keep(&(low..=high), frame, &mut kept_rows).unwrap();
                prop_assert!(kept.iter().eq(kept_rows));
            }
            for rows in [rows.clone(), (from as u32..=to as u32).collect()] {
                let Some(frame) = frame else {
                    break;
                };
                let mut words: Vec<(u32, u64)> = Vec::new();
                for row in &rows {
                    match words.last_mut() {
                        Some((first, bits)) if *first == row / 64 * 64 => *bits |= 1 << (row % 64),
                        _ => words.push((row / 64 * 64, 1 << (row % 64))),
                    }
                }
                column.keep_words(&(low..=high), frame, &mut words).unwrap();
                prop_assert!(words.iter().all(|(_, bits)| *bits != 0));
                let is_kept = |row: &u32| {
                    let first = row / 64 * 64;
                    words.iter().any(|(at, bits)| *at == first && bits >> (row % 64) & 1 == 1)
                };
                prop_assert!(rows.iter().all(|row| is_kept(row) == wanted(row)));
            }
        }

        let mut sorted = values.clone();
        sorted.sort_unstable();
        let bytes = encoded(&sorted);
        let below = sorted.partition_point(|value| *value < low) as u64;
        prop_assert_eq!(Column::new(&bytes).unwrap().lower_bound(low), Ok(below));
    }

    #[test]
    fn neighbours_are_compared_at_once_as_one_by_one(
        values in vec(0u64..400, 1..9_000),
        base: u32,
        wanted in vec(any::<u64>(), 1..150),
        bounds in any::<[u16; 2]>(),
    ) {
        let values: Vec<u64> = values.iter().map(|value| value + u64::from(base)).collect();
        let bytes = encoded(&values);
        let column = Column::new(&bytes).unwrap();
        let Some(frame) = column.frame().unwrap() else {
            return Ok(());
        };
        let [low, high] = bounds.map(|bound| u64::from(base) + u64::from(bound % 500));
        let at = |first: u32| values.iter().skip(first as usize).take(64);
        let rows = (0u32..).step_by(64).zip(&wanted).take_while(|(at, _)| {
            (*at as usize) < values.len()
        });
        let mut words: Vec<(u32, u64)> = rows
            .map(|(first, bits)| (first, bits & u64::MAX >> (64 - at(first).count())))
            .collect();
        let expected = words.iter().map(|(first, bits)| {
            let kept = (0..64).zip(at(*first)).filter(|(_, value)| {
                **value != 0 && (low..=high).contains(*value)
            });
            (*first, bits & kept.fold(0, |kept, (bit, _)| kept | 1 << bit))
        });
        let expected: Vec<_> = expected.filter(|(_, bits)| *bits != 0).collect();
        column.keep_words(&(low..=high), frame, &mut words).unwrap();
        prop_assert_eq!(words, expected);
        let past = values.len().next_multiple_of(64) as u32;
        prop_assert!(column.keep_words(&(low..=high), frame, &mut vec![(past, 1)]).is_err());
    }

    #[test]
    fn blocks_of_numbers_of_few_bits_have_a_frame_in_common(
        seed: u64,
        rows in prop_oneof![1usize..64, BLOCK_ROWS..BLOCK_ROWS + 64, 1usize..9_000],
    ) {
        let random = |row: usize| (row as u64 ^ seed).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        let values: Vec<_> = (0..rows).map(|row| match row % BLOCK_ROWS {
            0 => 1,
            1 => 500,
            _ => 1 + random(row) % 500,
        }).collect();
        let bytes = encoded(&values);
        let column = Column::new(&bytes).unwrap();
        let has_frame = column.frame().unwrap().is_some();
        match rows % BLOCK_ROWS {
            // One value takes no bits: alone it is a frame, behind other blocks it is not theirs.
            1 => prop_assert_eq!(has_frame, rows == 1),
            // A few rows may lie on a line, and are encoded as that then.
            2..8 => {}
            _ => prop_assert!(has_frame),
        }
    }

    #[test]
    fn bytes_that_are_no_column_are_refused_or_harmless(
        values in values(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        tail: bool,
        low: u64,
    ) {
        let mut bytes = encoded(&values);
        for (at, to) in damage {
            let last = bytes.len().min(300);
            let at = if tail {
                bytes.len() - 1 - at.index(last)
            } else {
                at.index(bytes.len())
            };
            bytes[at] = to;
        }
        let Ok(column) = Column::new(&bytes) else {
            return Ok(());
        };
        let mut set = DocSet::full(9_000);
        let _ = (
            column.scan(low..=u64::MAX),
            column.retain(&(low..=low), &mut set),
            column.lower_bound(low),
        );
        let _ = (
            column.get(0),
            column.get(4_500),
            column.read(4_000, &mut [0; 200]),
            column.gather(&[0, 5_000], &mut Vec::new()),
        );
    }
}

#[test]
fn each_shape_takes_the_encoding_that_is_meant_for_it() {
    let bytes_of = |value: &dyn Fn(u64) -> u64| {
        let values: Vec<_> = (0..4096).map(value).collect();
        let bytes = encoded(&values);
        let zone = Column::new(&bytes).unwrap().zone(0).unwrap();
        (zone.encoding, bytes.len() - ENTRY_BYTES - FOOTER_BYTES)
    };
    assert_eq!(bytes_of(&|_| 7), (Encoding::Line, 0), "constant");
    assert_eq!(
        bytes_of(&|row| 1_000_000 + row),
        (Encoding::Line, 0),
        "a line"
    );
    assert_eq!(
        bytes_of(&|row| 1_000_000 + row * 77 % 128),
        (Encoding::Line, 7 * 512),
        "a frame"
    );
    assert_eq!(
        bytes_of(&|row| if row % 9 == 0 {
            0
        } else {
            1_000_000 + row * 77 % 100
        }),
        (Encoding::Gaps, 7 * 512)
    );
    assert_eq!(
        bytes_of(&|row| row / 1000 * 999_983 % 7 + 1),
        (Encoding::Runs, 8 + 2)
    );
}
