use super::*;
use proptest::prelude::*;

fn any_float() -> impl Strategy<Value = f64> {
    let edges = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        1.5,
        2.5,
        f64::MIN_POSITIVE,
        f64::MAX,
        f64::MIN,
        5e-324,
        f64::INFINITY,
    ];
    prop_oneof![
        any::<u64>()
            .prop_map(f64::from_bits)
            .prop_filter("NaN has no place", |value| !value.is_nan()),
        prop::sample::select(edges.to_vec()),
        (any::<i64>(), 0..64).prop_map(|(value, shift)| (value >> shift) as f64),
        (-1000_i32..1000).prop_map(|value| f64::from(value) / 8.0),
        (0..64_i32, -2_i32..3).prop_map(|(power, step)| 2_f64.powi(power) + f64::from(step)),
    ]
}

fn any_value() -> impl Strategy<Value = OrderedValue<'static>> {
    let any_bytes =
        || prop::collection::vec(prop_oneof![Just(0), Just(1), Just(0xff), any::<u8>()], 0..6);
    prop_oneof![
        1 => Just(OrderedValue::Null),
        1 => any::<bool>().prop_map(OrderedValue::Bool),
        4 => (any::<i64>(), 0..64).prop_map(|(value, shift)| OrderedValue::Int(value >> shift)),
        2 => (1_u64 << 63..=u64::MAX).prop_map(OrderedValue::UInt),
        // Near the floats, where rounding would show.
        2 => (0..64_u32, -3_i64..4).prop_map(|(power, step)| {
            let value = (1_i64.wrapping_shl(power)).wrapping_add(step);
            OrderedValue::Int(value)
        }),
        5 => any_float().prop_map(OrderedValue::Float),
        3 => "[a\\x00\\x01é]{0,4}".prop_map(|text| OrderedValue::String(text.into())),
        3 => any_bytes().prop_map(|bytes| OrderedValue::Bytes(bytes.into())),
        2 => any::<i64>().prop_map(OrderedValue::Timestamp),
    ]
}

fn encode(values: &[OrderedValue<'_>], direction: Direction) -> Vec<u8> {
    let mut out = Vec::new();
    for value in values {
        value.encode(direction, &mut out).unwrap();
    }
    out
}

/// Bit by bit: what `==` on floats would not tell apart.
fn is_same(a: &OrderedValue<'_>, b: &OrderedValue<'_>) -> bool {
    match (a, b) {
        (OrderedValue::Float(a), OrderedValue::Float(b)) => a.to_bits() == b.to_bits(),
        _ => a == b && std::mem::discriminant(a) == std::mem::discriminant(b),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]
    #[test]
    fn bytes_sort_as_values_do_and_decode_to_them(
        a in any_value(),
        b in any_value(),
        next in any_value(),
    ) {
        for direction in [Direction::Ascending, Direction::Descending] {
            let (left, right) = (
                encode(std::slice::from_ref(&a), direction),
                encode(std::slice::from_ref(&b), direction),
            );
            let order = if direction == Direction::Ascending {
                a.cmp(&b)
            } else {
                b.cmp(&a)
            };
            prop_assert_eq!(left.cmp(&right), order);

            let pair = encode(&[a.clone(), next.clone()], direction);
            let (first, rest) = OrderedValue::decode(&pair, direction)?;
            prop_assert!(is_same(&first, &a), "{:?} {:?}", first, a);
            let (second, rest) = OrderedValue::decode(rest, direction)?;
            prop_assert!(is_same(&second, &next), "{:?} {:?}", second, next);
            prop_assert!(rest.is_empty());
        }
    }

    #[test]
    fn composites_sort_element_by_element(
        a in prop::collection::vec(any_value(), 3),
        b in prop::collection::vec(any_value(), 3),
        shared in 0_usize..3,
        down in any::<[bool; 3]>(),
    ) {
        let mut b = b;
        b[..shared].clone_from_slice(&a[..shared]);
        let (mut left, mut right, mut order) = (Vec::new(), Vec::new(), Ordering::Equal);
        for ((a, b), down) in a.iter().zip(&b).zip(down) {
            let direction = if down {
                Direction::Descending
            } else {
                Direction::Ascending
            };
            a.encode(direction, &mut left)?;
            b.encode(direction, &mut right)?;
            order = order.then(if down { b.cmp(a) } else { a.cmp(b) });
        }
        prop_assert_eq!(left.cmp(&right), order);
    }

    #[test]
    fn arbitrary_bytes_decode_to_a_value_of_exactly_those_bytes_or_not_at_all(bytes in damaged()) {
        for direction in [Direction::Ascending, Direction::Descending] {
            if let Ok((value, rest)) = OrderedValue::decode(&bytes, direction) {
                let again = encode(&[value], direction);
                prop_assert_eq!(&again[..], &bytes[..bytes.len() - rest.len()]);
            }
        }
    }
}

/// Random bytes, and encodings with one byte changed or cut off.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let one_off = (
        any_value(),
        any::<prop::sample::Index>(),
        any::<u8>(),
        any::<bool>(),
        any::<bool>(),
    );
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..16),
        one_off.prop_map(|(value, index, byte, cut, down)| {
            let mut bytes = encode(
                &[value],
                if down {
                    Direction::Descending
                } else {
                    Direction::Ascending
                },
            );
            let index = index.index(bytes.len());
            if cut {
                bytes.truncate(index)
            } else {
                bytes[index] = byte
            }
            bytes
        }),
    ]
}

#[test]
fn the_order_is_as_documented() {
    let p53 = 1_i64 << 53;
    let ascending = [
        OrderedValue::Null,
        OrderedValue::Bool(false),
        OrderedValue::Bool(true),
        OrderedValue::Float(f64::NEG_INFINITY),
        OrderedValue::Float(-1e300),
        OrderedValue::Int(i64::MIN),
        OrderedValue::Float(i64::MIN as f64),
        OrderedValue::Int(-2),
        OrderedValue::Float(-1.5),
        OrderedValue::Int(-1),
        OrderedValue::Float(-1.0),
        OrderedValue::Float(-5e-324),
        OrderedValue::Int(0),
        OrderedValue::Float(-0.0),
        OrderedValue::Float(0.0),
        OrderedValue::Float(5e-324),
        OrderedValue::Float(0.5),
        OrderedValue::Int(1),
        OrderedValue::Float(1.0),
        OrderedValue::Float(1.5),
        OrderedValue::Int(2),
        OrderedValue::Float(p53 as f64),
        OrderedValue::Int(p53 + 1),
        OrderedValue::Float((p53 + 2) as f64),
        OrderedValue::Int(i64::MAX),
        OrderedValue::UInt(1 << 63),
        OrderedValue::Float(2_f64.powi(63)),
        OrderedValue::UInt(u64::MAX),
        OrderedValue::Float(2_f64.powi(64)),
        OrderedValue::Float(f64::MAX),
        OrderedValue::Float(f64::INFINITY),
        OrderedValue::String("".into()),
        OrderedValue::String("\0".into()),
        OrderedValue::String("a".into()),
        OrderedValue::String("a\0".into()),
        OrderedValue::String("a\u{1}".into()),
        OrderedValue::Bytes(Cow::Borrowed(&[])),
        OrderedValue::Timestamp(i64::MIN),
        OrderedValue::Timestamp(-1),
        OrderedValue::Timestamp(0),
    ];
    for pair in ascending.windows(2) {
        assert!(pair[0] < pair[1], "{pair:?}");
        assert!(
            encode(&pair[..1], Direction::Ascending) < encode(&pair[1..], Direction::Ascending),
            "{pair:?}"
        );
        assert!(
            encode(&pair[..1], Direction::Descending) > encode(&pair[1..], Direction::Descending),
            "{pair:?}"
        );
    }
}

#[test]
fn nan_is_refused_and_leaves_the_output_as_it_was() {
    let mut out = vec![7];
    assert_eq!(
        OrderedValue::Float(f64::NAN).encode(Direction::Descending, &mut out),
        Err(Error::NaN)
    );
    assert_eq!(out, [7]);
}

#[test]
fn encodings_never_change() {
    let cases: [(OrderedValue<'_>, &[u8]); 9] = [
        (OrderedValue::Null, &[0x01]),
        (OrderedValue::Int(0), &[0x53, 1]),
        (OrderedValue::Int(42), &[0x5a, 0b0101_0000, 1]),
        (OrderedValue::Int(-42), &[0x4c, 0b1010_1111, 1]),
        (OrderedValue::Float(1.5), &[0x55, 0b1000_0000, 3]),
        (OrderedValue::Float(0.5), &[0x54, 0x07, 0xff, 0, 3]),
        (
            OrderedValue::Float(2_f64.powi(64)),
            &[0x95, 0x08, 0x40, 0, 3],
        ),
        (
            OrderedValue::String("a\0b".into()),
            &[0xa0, b'a', 0, 0xff, b'b', 0, 1],
        ),
        (
            OrderedValue::Timestamp(1),
            &[0xb0, 0x80, 0, 0, 0, 0, 0, 0, 1],
        ),
    ];
    for (value, bytes) in cases {
        assert_eq!(
            encode(std::slice::from_ref(&value), Direction::Ascending),
            bytes,
            "{value:?}"
        );
    }
}
