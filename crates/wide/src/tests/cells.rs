//! Cells and operands: bytes that come back, folds that may be cut anywhere, and bytes of no sense.

use crate::merging::CellMerger;
use crate::{Cell, Operand, record};
use proptest::collection::vec;
use proptest::prelude::*;
use quire_lsm::BytesMerger;

fn any_cell() -> impl Strategy<Value = Cell> {
    let json = vec(0..4u8, 0..3).prop_map(|numbers| Cell::Json(format!("{numbers:?}")));
    prop_oneof![
        "[ab]{0,3}".prop_map(Cell::String),
        vec(any::<u8>(), 0..4).prop_map(Cell::Bytes),
        any::<i64>().prop_map(Cell::Int),
        (-1e9..1e9f64).prop_map(Cell::Float),
        any::<bool>().prop_map(Cell::Bool),
        any::<i64>().prop_map(Cell::Timestamp),
        json,
    ]
}

fn any_operand() -> impl Strategy<Value = Operand> {
    prop_oneof![
        any::<i64>().prop_map(Operand::Add),
        "[ab]{0,3}".prop_map(|text| Operand::Append(Cell::String(text))),
        vec(any::<u8>(), 0..4).prop_map(|bytes| Operand::Append(Cell::Bytes(bytes))),
        vec(0..4u8, 0..3).prop_map(|numbers| Operand::AddToSet(format!("{numbers:?}"))),
        any_cell().prop_map(Operand::Max),
    ]
}

fn applied(base: Option<&[u8]>, operand: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    CellMerger.apply(b"", base, operand, &mut out).unwrap();
    out
}

/// Integers and floats of which some are equal, and some would be if they were rounded.
fn any_number() -> impl Strategy<Value = Cell> {
    let great = 1i64 << 60;
    prop_oneof![
        (-2..3i64).prop_map(Cell::Int),
        (-4..5i32).prop_map(|halves| Cell::Float(f64::from(halves) / 2.0)),
        (-2..3i64).prop_map(move |step| Cell::Int(great + step)),
        (-2..3i64).prop_map(move |step| Cell::Float((great + 256 * step) as f64)),
        prop::sample::select(vec![i64::MIN, i64::MAX]).prop_map(Cell::Int),
        prop::sample::select(vec![-1e300, -(2f64.powi(63)), 2f64.powi(63), 1e300])
            .prop_map(Cell::Float),
    ]
}

#[test]
fn maxima_of_integers_and_floats_are_one_operand() {
    let mut all = Vec::new();
    for number in 0..1000 {
        let cell = match number % 2 {
            0 => Cell::Int(number),
            _ => Cell::Float(number as f64 + 0.5),
        };
        let (mut one, mut both) = (Vec::new(), Vec::new());
        Operand::Max(cell).encode(&mut one);
        match all.is_empty() {
            true => both = one,
            false => CellMerger.combine(b"", &all, &one, &mut both).unwrap(),
        }
        all = both;
    }
    let max = vec![Operand::Max(Cell::Float(999.5))];
    assert_eq!(Operand::decode_all(&all), Ok(max));
}

proptest! {
    #[test]
    fn the_greatest_number_is_one_wherever_maxima_are_cut(
        base in proptest::option::of(any_number()), numbers in vec(any_number(), 2..6), at: usize,
    ) {
        let operands: Vec<_> = numbers.into_iter().map(Operand::Max).collect();
        let one_by_one = operands.iter().fold(base.clone(), |cell, one| Some(one.apply(cell)));
        let (older, newer) = operands.split_at(1 + at % (operands.len() - 1));
        let fold = |part: &[Operand]| {
            let (first, others) = part.split_first().unwrap();
            others.iter().fold(first.clone(), |one, next| one.then(next).unwrap())
        };
        let both = fold(older).then(&fold(newer)).unwrap();
        prop_assert_eq!(Some(both.apply(base)), one_by_one);
    }

    #[test]
    fn operands_give_one_cell_wherever_they_are_cut(
        base in proptest::option::of(any_cell()), operands in vec(any_operand(), 2..6), at: usize,
    ) {
        let encoded: Vec<_> = operands
            .iter()
            .map(|one| {
                let mut out = Vec::new();
                one.encode(&mut out);
                out
            })
            .collect();
        let mut one_by_one = base.as_ref().map(Cell::encode);
        for operand in &encoded {
            one_by_one = Some(applied(one_by_one.as_deref(), operand));
        }
        let combine = |parts: &[Vec<u8>]| {
            let mut parts = parts.iter().cloned();
            let first = parts.next().unwrap();
            parts.fold(first, |older, newer| {
                let mut out = Vec::new();
                CellMerger.combine(b"", &older, &newer, &mut out).unwrap();
                out
            })
        };
        let (older, newer) = encoded.split_at(1 + at % (encoded.len() - 1));
        let base = base.as_ref().map(Cell::encode);
        let part = applied(base.as_deref(), &combine(older));
        prop_assert_eq!(Some(applied(Some(&part), &combine(newer))), one_by_one.clone());
        let both = combine(&[combine(older), combine(newer)]);
        prop_assert_eq!(Some(applied(base.as_deref(), &both)), one_by_one);
    }

    #[test]
    fn cells_come_back_and_any_bytes_never_panic(
        cell in any_cell(), noise in vec(any::<u8>(), 0..60),
    ) {
        prop_assert_eq!(Cell::decode(&cell.encode()), Ok(cell.clone()));
        prop_assert_eq!(cell.encode().len(), cell.bytes());
        let _ = (Cell::decode(&noise), Operand::decode_all(&noise), record::decode(&noise));
    }
}
