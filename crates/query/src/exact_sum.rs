//! [`ExactSum`]: a sum of numbers that does not depend on their order.
//!
//! Floats that are added one by one are rounded at each step, so shards that are added in another
//! order give another sum. Here the sum is kept whole, as an integer of units of 2^-1074 (the
//! smallest float), and rounded once. Positive and negative numbers are added up apart.
//!
//! Source: Kulisch 2002, "Advanced Arithmetic for the Digital Computer" (the long accumulator).

use quire_model::ordered::OrderedValue;
use std::cmp::Ordering;

/// Binary exponent of the unit.
const UNIT: i32 = -1074;

/// Bits of the largest float in units, and 128 for how many of them there can be.
const LIMBS: usize = (1074 + 1024 + 128_usize).div_ceil(64);

const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

type Limbs = [u64; LIMBS];

/// A sum that is rounded only when it is read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ExactSum {
    positive: Box<Limbs>,
    negative: Box<Limbs>,
}

impl Default for ExactSum {
    fn default() -> ExactSum {
        ExactSum {
            positive: Box::new([0; LIMBS]),
            negative: Box::new([0; LIMBS]),
        }
    }
}

impl ExactSum {
    /// Adds a number `times` times; false if the value is not a finite number.
    pub(crate) fn add(&mut self, value: &OrderedValue<'_>, times: u64) -> bool {
        let (negative, magnitude, exponent) = match *value {
            OrderedValue::Int(value) => (value < 0, value.unsigned_abs(), 0),
            OrderedValue::UInt(value) => (false, value, 0),
            OrderedValue::Float(value) if value.is_finite() => {
                const MANTISSA_BITS: u32 = 52;
                let bits = value.to_bits();
                let fraction = bits & ((1 << MANTISSA_BITS) - 1);
                match (bits >> MANTISSA_BITS) as i32 & 0x7ff {
                    0 => (value.is_sign_negative(), fraction, UNIT),
                    exponent => (
                        value.is_sign_negative(),
                        fraction | 1 << MANTISSA_BITS,
                        exponent - 1075,
                    ),
                }
            }
            _ => return false,
        };
        let product = u128::from(magnitude) * u128::from(times);
        self.add_units(negative, product, exponent);
        true
    }

    /// Adds an integer.
    pub(crate) fn add_integer(&mut self, value: i128) {
        self.add_units(value < 0, value.unsigned_abs(), 0);
    }

    /// Adds floats, at most some thousands, and returns how many of them are finite: the others are
    /// left out.
    pub(crate) fn add_floats(&mut self, values: &[f64]) -> u64 {
        /// Exponents that are not further apart than this are added up as one integer.
        const SPREAD_MAX: i32 = 56;
        let exponent = |value: &f64| (value.to_bits() >> 52) as i32 & 0x7ff;
        let there = || values.iter().filter(|value| **value != 0.0).map(exponent);
        let (least, most) = (there().min().unwrap_or(1), there().max().unwrap_or(1));
        if least == 0 || most == 0x7ff || most - least > SPREAD_MAX || values.len() > 1 << 16 {
            let added = |value: &&f64| self.add(&OrderedValue::Float(**value), 1);
            return values.iter().filter(added).count() as u64;
        }
        let mut sum = 0i128;
        for value in values.iter().filter(|value| **value != 0.0) {
            let mantissa = value.to_bits() & ((1 << 52) - 1) | 1 << 52;
            let shifted = i128::from(mantissa) << (exponent(value) - least);
            sum += if value.is_sign_negative() {
                -shifted
            } else {
                shifted
            };
        }
        self.add_units(sum < 0, sum.unsigned_abs(), least - 1075);
        values.len() as u64
    }

    /// Adds `product` × 2^`exponent`.
    fn add_units(&mut self, negative: bool, product: u128, exponent: i32) {
        let limbs = match negative {
            true => &mut self.negative,
            false => &mut self.positive,
        };
        // An exponent is the unit's at least.
        let shift = (exponent - UNIT).unsigned_abs();
        let (limb, bits) = (shift as usize / 64, shift % 64);
        let low = (product as u64 as u128) << bits;
        let high = ((product >> 64) as u64 as u128) << bits;
        let mut carry = 0_u128;
        let parts = [
            low as u64 as u128,
            (low >> 64) + (high as u64 as u128),
            high >> 64,
        ];
        let parts = parts.into_iter().chain(std::iter::repeat(0));
        for (index, (limb, part)) in limbs.iter_mut().skip(limb).zip(parts).enumerate() {
            if index > 2 && carry == 0 {
                break;
            }
            carry += u128::from(*limb) + part;
            *limb = carry as u64;
            carry >>= 64;
        }
        debug_assert!(carry == 0, "the sum fits its limbs");
    }

    /// Adds another sum.
    pub(crate) fn join(&mut self, other: &ExactSum) {
        add_limbs(&mut self.positive, &other.positive);
        add_limbs(&mut self.negative, &other.negative);
    }

    /// The float nearest to the sum divided by `count`; none of no numbers.
    ///
    /// The quotient is rounded once: it is finite although the sum may be above the largest float.
    pub(crate) fn mean(&self, count: u64) -> Option<f64> {
        if count == 0 {
            return None;
        }
        Some(
            match self.positive.iter().rev().cmp(self.negative.iter().rev()) {
                Ordering::Equal => 0.0,
                Ordering::Greater => quotient(&difference(&self.positive, &self.negative), count),
                Ordering::Less => -quotient(&difference(&self.negative, &self.positive), count),
            },
        )
    }

    /// The nearest float.
    pub(crate) fn to_f64(&self) -> f64 {
        match self.positive.iter().rev().cmp(self.negative.iter().rev()) {
            Ordering::Equal => 0.0,
            Ordering::Greater => nearest(&difference(&self.positive, &self.negative)),
            Ordering::Less => -nearest(&difference(&self.negative, &self.positive)),
        }
    }
}

/// Adds `more` to `all`.
fn add_limbs(all: &mut Limbs, more: &Limbs) {
    let mut carry = false;
    for (limb, more) in all.iter_mut().zip(more) {
        let (first, over) = limb.overflowing_add(*more);
        let (second, over_too) = first.overflowing_add(u64::from(carry));
        *limb = second;
        carry = over || over_too;
    }
    debug_assert!(!carry, "the sum fits its limbs");
}

/// `larger` less `smaller`.
fn difference(larger: &Limbs, smaller: &Limbs) -> Limbs {
    let mut out = *larger;
    let mut borrow = false;
    for (limb, other) in out.iter_mut().zip(smaller) {
        let (first, under) = limb.overflowing_sub(*other);
        let (second, under_too) = first.overflowing_sub(u64::from(borrow));
        *limb = second;
        borrow = under || under_too;
    }
    assert!(!borrow, "a difference is not below zero");
    out
}

/// The float nearest to a number of units divided by `count`, which is not 0.
fn quotient(limbs: &Limbs, count: u64) -> f64 {
    // With a limb below the units for the first 64 bits behind them.
    let mut digits = [0_u64; LIMBS + 1];
    let mut rest = 0_u128;
    let units = limbs.iter().rev().copied();
    for (digit, limb) in digits.iter_mut().rev().zip(units.chain([0])) {
        let part = rest << 64 | u128::from(limb);
        *digit = (part / u128::from(count)) as u64;
        rest = part % u128::from(count);
    }
    let [fraction, units @ ..] = &digits;
    // Fewer units than a normal float has: the float is that number of units.
    if let [low, high @ ..] = units
        && *low < 1 << 53
        && high.iter().all(|limb| *limb == 0)
    {
        let half = 1 << 63;
        let is_up = match fraction.cmp(&half) {
            Ordering::Less => false,
            Ordering::Equal => rest > 0 || low % 2 == 1,
            Ordering::Greater => true,
        };
        return f64::from_bits(low + u64::from(is_up));
    }
    let Some(top) = digits.iter().rposition(|digit| *digit != 0) else {
        return 0.0;
    };
    let digit = |index: Option<usize>| index.and_then(|index| digits.get(index)).copied();
    let high = digit(Some(top)).unwrap_or(0);
    let next = digit(top.checked_sub(1)).unwrap_or(0);
    let shift = high.leading_zeros();
    let both = (u128::from(high) << 64 | u128::from(next)) << shift;
    let lower = digits.iter().take(top.saturating_sub(1));
    let is_more = rest > 0 || both as u64 != 0 || lower.into_iter().any(|digit| *digit != 0);
    let mantissa = (both >> 64) as u64 | u64::from(is_more);
    // The mantissa has its top bit, so it is 1 to 2 times 2^63.
    let exponent = UNIT - 64 + 64 * top as i32 - shift as i32 + 63;
    mantissa as f64 / TWO_TO_63 * power_of_two(exponent)
}

fn nearest(limbs: &Limbs) -> f64 {
    let Some(top) = limbs.iter().rposition(|limb| *limb != 0) else {
        return 0.0;
    };
    let limb = |index: Option<usize>| index.and_then(|index| limbs.get(index)).copied();
    let high = limb(Some(top)).unwrap_or(0);
    let next = limb(top.checked_sub(1)).unwrap_or(0);
    // The top 64 bits, and in the last of them whether anything follows: rounding to 53 is then
    // right.
    let shift = match top {
        0 => 0,
        _ => high.leading_zeros(),
    };
    let both = (u128::from(high) << 64 | u128::from(next)) << shift;
    let rest = both as u64 != 0
        || limbs
            .iter()
            .take(top.saturating_sub(1))
            .any(|limb| *limb != 0);
    let mantissa = (both >> 64) as u64 | u64::from(top > 0 && rest);
    let exponent = UNIT + 64 * top as i32 - shift as i32;
    mantissa as f64 * power_of_two(exponent)
}

/// 2^`exponent`; infinite where no float is that large.
fn power_of_two(exponent: i32) -> f64 {
    match exponent {
        ..-1022 => f64::from_bits(1 << (exponent - UNIT).max(0)),
        -1022..=1023 => f64::from_bits(((exponent + 1023) as u64) << 52),
        _ => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sum(values: &[OrderedValue<'_>]) -> f64 {
        let mut sum = ExactSum::default();
        assert!(values.iter().all(|value| sum.add(value, 1)));
        sum.to_f64()
    }

    fn floats(values: &[f64]) -> f64 {
        sum(&values
            .iter()
            .map(|value| OrderedValue::Float(*value))
            .collect::<Vec<_>>())
    }

    #[test]
    fn what_cancels_out_leaves_no_trace() {
        assert_eq!(floats(&[1e300, 1.0, -1e300]), 1.0);
        assert_eq!(floats(&[0.1; 10]), 1.0);
        assert_eq!(floats(&[f64::MAX, f64::MAX, -f64::MAX]), f64::MAX);
        assert_eq!(floats(&[f64::MAX, f64::MAX]), f64::INFINITY);
        assert_eq!(floats(&[5e-324, -5e-324, -5e-324]), -5e-324);
        assert_eq!(
            sum(&[
                OrderedValue::Int(i64::MAX),
                OrderedValue::UInt(u64::MAX),
                OrderedValue::Int(i64::MIN)
            ]),
            u64::MAX as f64
        );
        assert_eq!(floats(&[]), 0.0);
        // Half way between two floats, and a bit more.
        assert_eq!(
            floats(&[9_007_199_254_740_992.0, 1.0]),
            9_007_199_254_740_992.0
        );
        assert_eq!(
            floats(&[9_007_199_254_740_992.0, 1.0, 1e-300]),
            9_007_199_254_740_994.0
        );
        assert!(!ExactSum::default().add(&OrderedValue::Float(f64::NAN), 1));
        assert!(!ExactSum::default().add(&OrderedValue::Null, 1));
    }

    #[test]
    fn a_mean_is_finite_where_the_sum_is_not() {
        let mean = |values: &[f64]| {
            let mut sum = ExactSum::default();
            for value in values {
                assert!(sum.add(&OrderedValue::Float(*value), 1));
            }
            sum.mean(values.len() as u64)
        };
        assert_eq!(mean(&[f64::MAX, f64::MAX]), Some(f64::MAX));
        assert_eq!(mean(&[-f64::MAX, -f64::MAX, -f64::MAX]), Some(-f64::MAX));
        assert_eq!(mean(&[5e-324, 5e-324, 5e-324]), Some(5e-324));
        assert_eq!(mean(&[5e-324, 0.0]), Some(0.0));
        assert_eq!(mean(&[5e-324, 1e-323]), Some(1e-323));
        assert_eq!(mean(&[1.0, 2.0]), Some(1.5));
        assert_eq!(mean(&[]), None);
    }

    proptest! {
        #[test]
        fn a_mean_of_integers_is_rounded_once(
            values in proptest::collection::vec(-1_000_000_i64..1_000_000, 1..50),
            value: f64,
            times in 1_u64..u64::MAX,
        ) {
            let mut sum = ExactSum::default();
            for value in &values {
                prop_assert!(sum.add(&OrderedValue::Int(*value), 1));
            }
            let exact: i64 = values.iter().sum();
            let count = values.len() as u64;
            prop_assert_eq!(sum.mean(count), Some(exact as f64 / count as f64));
            prop_assume!(value.is_finite());
            let mut sum = ExactSum::default();
            sum.add(&OrderedValue::Float(value), times);
            prop_assert_eq!(sum.mean(times), Some(value));
        }

        #[test]
        fn one_value_is_its_own_sum_and_order_does_not_matter(
            value: f64,
            others in proptest::collection::vec(any::<f64>(), 0..20),
            times in 1_u64..u64::MAX,
        ) {
            prop_assume!(value.is_finite());
            prop_assert_eq!(floats(&[value]), value);
            let finite: Vec<_> = others
                .into_iter()
                .filter(|value| value.is_finite())
                .collect();
            let reversed: Vec<_> = finite.iter().rev().copied().collect();
            prop_assert_eq!(floats(&finite), floats(&reversed));
            // Adds it `times` times, and subtracts it once less.
            let mut sum = ExactSum::default();
            sum.add(&OrderedValue::Float(value), times);
            sum.add(&OrderedValue::Float(-value), times - 1);
            prop_assert_eq!(sum.to_f64(), value);
        }

        #[test]
        fn floats_that_are_added_together_are_those_added_one_by_one(
            values in proptest::collection::vec(any::<f64>(), 0..20),
            near in proptest::collection::vec(-9e6..9e6f64, 0..20),
        ) {
            for values in [values, near] {
                let (mut one_by_one, mut together) = (ExactSum::default(), ExactSum::default());
                let added = |value: &&f64| one_by_one.add(&OrderedValue::Float(**value), 1);
                let count = values.iter().filter(added).count() as u64;
                prop_assert_eq!(together.add_floats(&values), count);
                prop_assert_eq!(one_by_one.to_f64(), together.to_f64());
            }
        }

        #[test]
        fn sums_of_integers_are_exact(values in proptest::collection::vec(any::<i64>(), 0..50)) {
            let exact: i128 = values.iter().map(|value| i128::from(*value)).sum();
            prop_assert_eq!(
                sum(&values
                    .iter()
                    .map(|value| OrderedValue::Int(*value))
                    .collect::<Vec<_>>()),
                exact as f64
            );
        }
    }
}
