//! [`Numbers`]: ordinals that stand for numbers, without a dictionary.
//!
//! Each number has a *key*, a u64 that sorts as the numbers do; an ordinal is its distance from the
//! least key. Null, if a document has it, is ordinal 0, and the others are one more.

use crate::{number_key, term};
use quire_model::ordered::OrderedValue;

/// Decimals have at most this many digits after the point.
pub(super) const SCALE_MAX: u8 = 9;

/// Integers up to here are floats as they are.
pub(super) const EXACT_MAX: i64 = 1 << 53;

/// What a key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NumberKind {
    Integers,
    /// Integers divided by 10 to this power.
    Decimals(u8),
    Floats,
}

/// A number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// An integer.
    Int(i64),
    /// A float, or an integer as one.
    Float(f64),
}

/// What ordinals stand for that are numbers less the least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbers {
    pub(super) kind: NumberKind,
    /// The least key.
    pub(super) base: u64,
    pub(super) has_null: bool,
    /// More than any ordinal.
    pub(super) end: u64,
}

pub(super) fn power_of_ten(scale: u8) -> f64 {
    10f64.powi(i32::from(scale.min(SCALE_MAX)))
}

/// The integer that a float is 10^`scale` times smaller than, if dividing gives the float back.
pub(super) fn scaled(value: f64, scale: u8) -> Option<i64> {
    let scaled = (value * power_of_ten(scale)).round();
    let is_exact = scaled.abs() <= EXACT_MAX as f64 && scaled / power_of_ten(scale) == value;
    is_exact.then_some(scaled as i64)
}

impl Numbers {
    pub(super) fn decode(
        kind: u8,
        scale: u8,
        base: u64,
        has_null: bool,
        end: u64,
    ) -> Option<Numbers> {
        let kind = match (kind, scale) {
            (1, 0) => NumberKind::Integers,
            (2, 1..=SCALE_MAX) => NumberKind::Decimals(scale),
            (3, 0) => NumberKind::Floats,
            _ => return None,
        };
        Some(Numbers {
            kind,
            base,
            has_null,
            end,
        })
    }

    /// Ordinals that are keys: 0 is null, another one the key of an integer, or of a float.
    #[must_use]
    pub fn of_keys(are_integers: bool) -> Numbers {
        Numbers {
            kind: match are_integers {
                true => NumberKind::Integers,
                false => NumberKind::Floats,
            },
            base: 1,
            has_null: true,
            end: u64::MAX,
        }
    }

    /// The bytes that name the kind.
    pub(super) fn encode_kind(&self) -> [u8; 2] {
        match self.kind {
            NumberKind::Integers => [1, 0],
            NumberKind::Decimals(scale) => [2, scale],
            NumberKind::Floats => [3, 0],
        }
    }

    pub(super) fn ordinal_of_key(&self, key: u64) -> u64 {
        key.saturating_sub(self.base)
            .saturating_add(u64::from(self.has_null))
    }

    /// The key of the number that an ordinal stands for; none for null.
    #[inline]
    pub(super) fn key(&self, ordinal: u64) -> Option<u64> {
        let distance = ordinal.checked_sub(u64::from(self.has_null))?;
        Some(self.base.wrapping_add(distance))
    }

    /// The number that an ordinal stands for; none for null.
    #[must_use]
    #[inline]
    pub fn number(&self, ordinal: u64) -> Option<Number> {
        let key = self.key(ordinal)?;
        Some(match self.kind {
            NumberKind::Integers => Number::Int(number_key::to_int(key)),
            NumberKind::Decimals(scale) => {
                Number::Float(number_key::to_int(key) as f64 / power_of_ten(scale))
            }
            NumberKind::Floats => Number::Float(number_key::to_float(key)),
        })
    }

    /// Replaces `out` by the numbers of ordinals as floats, which are not rounded; those of null
    /// and of no value (`u64::MAX`) are left out. False, and nothing replaced, for integers.
    pub fn floats(&self, ordinals: &[u64], out: &mut Vec<f64>) -> bool {
        let nulls = u64::from(self.has_null);
        let there = ordinals
            .iter()
            .filter(|ordinal| **ordinal != u64::MAX && **ordinal >= nulls);
        let keys = there.map(|ordinal| self.base.wrapping_add(ordinal - nulls));
        match self.kind {
            NumberKind::Integers => return false,
            NumberKind::Decimals(scale) => {
                let unit = power_of_ten(scale);
                out.clear();
                out.extend(keys.map(|key| number_key::to_int(key) as f64 / unit));
            }
            NumberKind::Floats => {
                out.clear();
                out.extend(keys.map(number_key::to_float));
            }
        }
        true
    }

    /// The sum of integers, and how many they are; of no value (`u64::MAX`) and null there is none.
    /// None if these are no integers.
    #[must_use]
    pub fn sum_of_integers(&self, ordinals: &[u64]) -> Option<(i128, u64)> {
        if self.kind != NumberKind::Integers {
            return None;
        }
        let nulls = u64::from(self.has_null);
        let (mut sum, mut count) = (0u128, 0u64);
        for ordinal in ordinals {
            let is_there = *ordinal != u64::MAX && *ordinal >= nulls;
            sum += u128::from(if is_there { *ordinal - nulls } else { 0 });
            count += u64::from(is_there);
        }
        let of_base = i128::from(number_key::to_int(self.base)) * i128::from(count);
        Some((of_base + sum as i128, count))
    }

    fn append_term_of_key(&self, key: u64, out: &mut Vec<u8>) {
        let value = match self.kind {
            NumberKind::Integers => OrderedValue::Int(number_key::to_int(key)),
            NumberKind::Decimals(scale) => {
                OrderedValue::Float(number_key::to_int(key) as f64 / power_of_ten(scale))
            }
            NumberKind::Floats => OrderedValue::Float(number_key::to_float(key)),
        };
        term::encode_ordered(value, out);
    }

    /// Appends the term of an ordinal.
    pub(super) fn append_term(&self, ordinal: u64, out: &mut Vec<u8>) {
        match ordinal.checked_sub(u64::from(self.has_null)) {
            None => out.extend_from_slice(term::NULL),
            Some(distance) => self.append_term_of_key(self.base.wrapping_add(distance), out),
        }
    }

    /// See [`ColumnBlock::ordinal_of`](super::ColumnBlock::ordinal_of).
    pub(super) fn ordinal_of(&self, bound: &[u8]) -> u64 {
        let (mut low, mut high) = (0, self.end);
        let mut term = Vec::new();
        while low < high {
            let middle = low + (high - low) / 2;
            term.clear();
            self.append_term(middle, &mut term);
            match term.as_slice() < bound {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }
}
