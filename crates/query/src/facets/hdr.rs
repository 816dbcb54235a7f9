//! [`HdrBins`]: a histogram of numbers from 0 on, each kept to some decimal digits.
//!
//! A bin has the numbers whose first bits are equal: it is as narrow, compared with its numbers, as
//! the digits want.
//!
//! # Invariants
//! 1. What it says does not depend on the order of the numbers, nor on how they are split.
//!
//! Source: HdrHistogram, `DoubleHistogram`.

use crate::meter::{ENTRY_BYTES, Meter};
use crate::{Error, Result};
use std::collections::BTreeMap;

/// The most decimal digits.
pub(crate) const DIGITS_MAX: u8 = 5;

/// The bits behind the first of a number that are kept, by decimal digits.
const BITS: [u32; DIGITS_MAX as usize + 1] = [0, 4, 7, 10, 14, 17];

/// The fraction bits of a float.
const FRACTION_BITS: u32 = 52;

/// See the module.
#[derive(Debug)]
pub(crate) struct HdrBins {
    kept_bits: u32,
    /// How many numbers have these first bits, which compare as the numbers do.
    bins: BTreeMap<u64, u64>,
    count: u64,
    /// The least number above 0; infinite of none.
    least: f64,
}

impl HdrBins {
    /// Of numbers with this many digits, at most [`DIGITS_MAX`].
    pub(crate) fn new(digits: u8) -> HdrBins {
        HdrBins {
            kept_bits: BITS[usize::from(digits.min(DIGITS_MAX))],
            bins: BTreeMap::new(),
            count: 0,
            least: f64::INFINITY,
        }
    }

    /// Adds a number.
    ///
    /// # Errors
    /// `Invalid` if it is below 0; `TooLarge` past the memory of the query.
    pub(crate) fn add(&mut self, number: f64, meter: &mut Meter) -> Result<()> {
        if number < 0.0 {
            return Err(Error::Invalid(format!(
                "a histogram by digits ([hdr]) has no numbers below 0, and there is {number}"
            )));
        }
        // One zero.
        self.add_many(self.bin_of(number + 0.0), 1, meter)?;
        if number > 0.0 {
            self.least = self.least.min(number);
        }
        Ok(())
    }

    fn add_many(&mut self, bin: u64, count: u64, meter: &mut Meter) -> Result<()> {
        self.count += count;
        if let Some(known) = self.bins.get_mut(&bin) {
            *known += count;
            return Ok(());
        }
        self.bins.insert(bin, count);
        meter.take(ENTRY_BYTES, "finding a percentile")
    }

    /// Adds the numbers of another one, of as many digits.
    pub(crate) fn join(&mut self, other: &HdrBins, meter: &mut Meter) -> Result<()> {
        debug_assert!(self.kept_bits == other.kept_bits, "of one metric");
        self.least = self.least.min(other.least);
        let mut bins = other.bins.iter();
        bins.try_for_each(|(bin, count)| self.add_many(*bin, *count, meter))
    }

    /// The greatest number that is in one bin with the one that `percent` of all are at or below;
    /// none of none.
    pub(crate) fn at(&self, percent: f64) -> Option<f64> {
        // An error of the product must not lead to the next number.
        let wanted = (percent.next_down() * self.count as f64 / 100.0).ceil();
        let wanted = (wanted as u64).max(1);
        let mut seen = 0;
        let (bin, _) = self.bins.iter().find(|(_, count)| {
            seen += **count;
            seen >= wanted
        })?;
        Some(self.greatest_of(*bin))
    }

    /// How many percent of all numbers are in the bin of `number` or below it; none of none.
    pub(crate) fn percent_below(&self, number: f64) -> Option<f64> {
        if self.count == 0 || number < 0.0 {
            return (self.count > 0).then_some(0.0);
        }
        let below = self.bins.range(..=self.bin_of(number + 0.0));
        let below: u64 = below.map(|(_, count)| count).sum();
        Some(100.0 * below as f64 / self.count as f64)
    }

    fn bin_of(&self, number: f64) -> u64 {
        number.to_bits() >> (FRACTION_BITS - self.kept_bits)
    }

    /// Numbers are told apart as finely as those next to the least one are.
    fn greatest_of(&self, bin: u64) -> f64 {
        let shift = FRACTION_BITS - self.kept_bits;
        let (lower, next) = (
            f64::from_bits(bin << shift),
            f64::from_bits((bin + 1) << shift),
        );
        let power_of_two = f64::from_bits(self.least.to_bits() & !((1 << FRACTION_BITS) - 1));
        let unit = power_of_two / f64::from(1_u32 << self.kept_bits);
        match lower > 0.0 && next.is_finite() {
            true => (next - unit).max(lower),
            false => lower,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(numbers: &[f64], digits: u8) -> HdrBins {
        let (mut bins, mut meter) = (HdrBins::new(digits), Meter::new(1 << 20));
        for number in numbers {
            bins.add(*number, &mut meter).unwrap();
        }
        bins
    }

    #[test]
    fn bins_are_as_wide_as_three_digits_want() {
        let bins = of(&[1.0, 51.0, 101.0, 151.0], 3);
        let found = [0.0, 1.0, 25.0, 50.0, 75.0, 99.0].map(|percent| bins.at(percent).unwrap());
        let expected = [
            1.0,
            1.0,
            1.0,
            51.030_273_437_5,
            101.061_523_437_5,
            151.124_023_437_5,
        ];
        assert_eq!(found, expected);
        // Of a greater least number.
        let bins = of(&[51.0, 126.0, 1101.0], 3);
        let found = [1.0, 50.0, 99.0].map(|percent| bins.at(percent).unwrap());
        assert_eq!(found, [51.0, 126.031_25, 1_101.968_75]);
        assert_eq!(bins.percent_below(126.01), Some(200.0 / 3.0));
        assert_eq!(bins.percent_below(1.0), Some(0.0));
        assert_eq!(of(&[0.0], 3).at(50.0), Some(0.0));
        assert_eq!(of(&[], 3).at(50.0), None);
        assert_eq!(of(&[], 3).percent_below(1.0), None);
    }

    #[test]
    fn a_number_below_zero_is_refused() {
        let failed = HdrBins::new(3).add(-1.0, &mut Meter::new(1 << 20));
        assert!(matches!(failed, Err(Error::Invalid(_))), "{failed:?}");
    }

    proptest! {
        #[test]
        fn it_is_within_its_digits(
            numbers in proptest::collection::vec(0.0..1e12_f64, 1..60),
            digits in 0..=DIGITS_MAX,
            apart in 0_usize..60,
            percent in 0.0..=100.0,
        ) {
            let mut meter = Meter::new(1 << 20);
            let (first, second) = numbers.split_at(apart.min(numbers.len()));
            let mut bins = of(first, digits);
            bins.join(&of(second, digits), &mut meter).unwrap();
            prop_assert_eq!(bins.at(percent), of(&numbers, digits).at(percent));
            let mut numbers = numbers;
            numbers.sort_by(f64::total_cmp);
            let wanted = (percent.next_down() * numbers.len() as f64 / 100.0).ceil() as usize;
            let right = numbers[wanted.max(1) - 1];
            let found = bins.at(percent).unwrap();
            let error = right / f64::from(1_u32 << BITS[usize::from(digits)]);
            prop_assert!((found - right).abs() <= error, "{found} for {right}");
        }
    }
}
