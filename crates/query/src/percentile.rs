//! [`Percentile`]: the number that a part of all numbers are at or below: exact of few numbers,
//! within 1 % of itself of many.
//!
//! # Invariants
//! 1. The value does not depend on the order of the numbers, nor on how they are split: whether
//!    they are few depends on all of them, and no bins are ever joined.
//!
//! Source: Masson, Rim, Lee 2019, "DDSketch: a fast and fully-mergeable quantile sketch with
//! relative-error guarantees".

use crate::Result;
use crate::meter::Meter;
use sketches_ddsketch::{Config, DDSketch};
use std::fmt;

/// Numbers that are kept as they are: 16 KiB.
pub(crate) const FEW_MAX: usize = 2048;

/// The largest error of a value of many numbers, as a part of it.
const ERROR_MAX: f64 = 0.01;

/// More bins than there are between [`LEAST`] and the largest float, so none are joined.
const BINS_MAX: u32 = 1 << 17;

/// Numbers closer to 0 than this count as 0 among many.
const LEAST: f64 = 1e-300;

/// Halvings that find the place of a number in a sketch.
const HALVINGS: usize = 40;

const PURPOSE: &str = "finding a percentile";

/// See the module.
pub(crate) struct Percentile {
    numbers: Numbers,
    percent: f64,
}

enum Numbers {
    /// At most [`FEW_MAX`].
    Few(Vec<f64>),
    /// More than that.
    Many(Box<DDSketch>),
}

impl fmt::Debug for Percentile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Percentile")
            .field("percent", &self.percent)
            .finish_non_exhaustive()
    }
}

impl Percentile {
    /// Of `percent`, 0 to 100, of the numbers.
    pub(crate) fn new(percent: f64) -> Percentile {
        debug_assert!((0.0..=100.0).contains(&percent), "a query checks this");
        Percentile {
            numbers: Numbers::Few(Vec::new()),
            percent,
        }
    }

    /// Adds a number `times` times. An infinite one is left out.
    pub(crate) fn add(&mut self, number: f64, times: u64, meter: &mut Meter) -> Result<()> {
        if !number.is_finite() {
            return Ok(());
        }
        if let Numbers::Few(few) = &mut self.numbers {
            let room = FEW_MAX - few.len();
            if let Ok(more) = usize::try_from(times)
                && more <= room
            {
                few.resize(few.len() + more, number);
                return meter.take(more * size_of::<f64>(), PURPOSE);
            }
        }
        let sketch = self.many(meter)?;
        let bins = sketch.length();
        sketch.add_with_count(number, times);
        take_bins(bins, sketch, meter)
    }

    /// Adds the numbers of another one.
    pub(crate) fn join(&mut self, other: &Percentile, meter: &mut Meter) -> Result<()> {
        match &other.numbers {
            Numbers::Few(few) => few
                .iter()
                .try_for_each(|number| self.add(*number, 1, meter)),
            Numbers::Many(many) => {
                let sketch = self.many(meter)?;
                let bins = sketch.length();
                let joined = sketch.merge(many);
                debug_assert!(joined.is_ok(), "all sketches have one configuration");
                take_bins(bins, sketch, meter)
            }
        }
    }

    /// The sketch; there is one afterwards.
    fn many(&mut self, meter: &mut Meter) -> Result<&mut DDSketch> {
        if let Numbers::Few(few) = &mut self.numbers {
            let few = std::mem::take(few);
            let mut sketch = DDSketch::new(Config::new(ERROR_MAX, BINS_MAX, LEAST));
            few.iter().for_each(|number| sketch.add(*number));
            meter.give(few.len() * size_of::<f64>());
            take_bins(0, &sketch, meter)?;
            self.numbers = Numbers::Many(Box::new(sketch));
        }
        match &mut self.numbers {
            Numbers::Many(sketch) => Ok(sketch),
            Numbers::Few(_) => unreachable!("few numbers became many"),
        }
    }

    /// The number, which is one of them if they are few; none of none.
    pub(crate) fn value(self) -> Option<f64> {
        let percent = self.percent;
        self.into_distribution().at(percent)
    }

    /// All numbers, in order.
    pub(crate) fn into_distribution(self) -> Distribution {
        Distribution(match self.numbers {
            Numbers::Few(mut few) => {
                few.sort_unstable_by(f64::total_cmp);
                Numbers::Few(few)
            }
            many => many,
        })
    }
}

fn take_bins(before: usize, sketch: &DDSketch, meter: &mut Meter) -> Result<()> {
    let more = sketch.length().saturating_sub(before);
    meter.take(more * size_of::<u64>(), PURPOSE)
}

/// Numbers in order, or a sketch of them.
pub(crate) struct Distribution(Numbers);

impl Distribution {
    /// The number that `percent` of all are at or below; none of none.
    pub(crate) fn at(&self, percent: f64) -> Option<f64> {
        match &self.0 {
            Numbers::Few(few) => {
                let place = percent / 100.0 * few.len().checked_sub(1)? as f64;
                few.get(place as usize).copied()
            }
            Numbers::Many(sketch) => sketch.quantile(percent / 100.0).ok().flatten(),
        }
    }

    /// As [`at`](Self::at), between two numbers by how near each is; none of none.
    ///
    /// Source: Hazen 1914, as t-digests do it for numbers that they keep apart.
    pub(crate) fn between(&self, percent: f64) -> Option<f64> {
        match &self.0 {
            Numbers::Few(few) => between(few, percent),
            Numbers::Many(_) => self.at(percent),
        }
    }

    /// How many percent of all numbers are below `number`, of equal ones half; none of none. The
    /// inverse of [`between`](Self::between).
    pub(crate) fn percent_below(&self, number: f64) -> Option<f64> {
        let part = match &self.0 {
            Numbers::Few(few) => part_below(few, number)?,
            Numbers::Many(sketch) => {
                let (mut low, mut high) = (0.0, 1.0);
                let at = |part: f64| sketch.quantile(part).ok().flatten();
                if number < sketch.min()? {
                    return Some(0.0);
                }
                if number > sketch.max()? {
                    return Some(100.0);
                }
                for _ in 0..HALVINGS {
                    let middle = (low + high) / 2.0;
                    match at(middle)? <= number {
                        true => low = middle,
                        false => high = middle,
                    }
                }
                low
            }
        };
        Some(100.0 * part)
    }
}

/// See [`Distribution::between`]; `sorted` is ascending.
pub(crate) fn between(sorted: &[f64], percent: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = (percent / 100.0 * sorted.len() as f64 - 0.5).clamp(0.0, last as f64);
    let (before, part) = (place as usize, place.fract());
    let lower = sorted.get(before).copied()?;
    let upper = sorted.get(before + 1).copied().unwrap_or(lower);
    // A sum, as the difference of two floats may be infinite.
    Some(match lower == upper {
        true => lower,
        false => lower * (1.0 - part) + upper * part,
    })
}

fn part_below(sorted: &[f64], number: f64) -> Option<f64> {
    let (first, last) = (*sorted.first()?, *sorted.last()?);
    let count = sorted.len() as f64;
    let below = sorted.partition_point(|other| *other < number);
    let to = sorted.partition_point(|other| *other <= number);
    if to > below {
        return Some((below + to) as f64 / 2.0 / count);
    }
    if number < first || number > last {
        return Some(if number < first { 0.0 } else { 1.0 });
    }
    // The middles of the runs of numbers that are equal, beside the place.
    let (lower, upper) = (*sorted.get(below - 1)?, *sorted.get(below)?);
    let (from, end) = (part_below(sorted, lower)?, part_below(sorted, upper)?);
    Some(from + (end - from) * ((number - lower) / (upper - lower)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(numbers: &[f64], percent: f64) -> Percentile {
        let mut meter = Meter::new(4 << 20);
        let mut all = Percentile::new(percent);
        for number in numbers {
            all.add(*number, 1, &mut meter).unwrap();
        }
        all
    }

    fn is_right(mut numbers: Vec<f64>, percent: f64) -> std::result::Result<(), TestCaseError> {
        let found = of(&numbers, percent).value();
        numbers.retain(|number| number.is_finite());
        numbers.sort_by(f64::total_cmp);
        let place = (percent / 100.0 * (numbers.len() as f64 - 1.0)) as usize;
        match (numbers.get(place), found) {
            (None, None) => {}
            (Some(right), Some(found)) if numbers.len() <= FEW_MAX => {
                prop_assert_eq!(right.to_bits(), found.to_bits());
            }
            (Some(right), Some(found)) => {
                let error = (found - right).abs();
                prop_assert!(error <= 0.0101 * right.abs() + LEAST, "{found} for {right}");
            }
            (right, found) => prop_assert!(false, "{found:?} for {right:?}"),
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn a_percentile_of_few_numbers_is_one_of_them(
            numbers in proptest::collection::vec(any::<f64>(), 0..200),
            percent in 0.0..=100.0,
        ) {
            is_right(numbers, percent)?;
        }

        #[test]
        fn how_numbers_are_split_changes_nothing(
            numbers in proptest::collection::vec(-1e6..1e6_f64, 0..40),
            times in 1..120_u64,
            apart in 0_usize..40,
            percent in 0.0..=100.0,
        ) {
            let mut meter = Meter::new(4 << 20);
            let mut parts = [Percentile::new(percent), Percentile::new(percent)];
            let mut whole = Percentile::new(percent);
            for (at, number) in numbers.iter().enumerate() {
                parts[usize::from(at < apart)].add(*number, times, &mut meter).unwrap();
                whole.add(*number, times, &mut meter).unwrap();
            }
            let [mut joined, other] = parts;
            joined.join(&other, &mut meter).unwrap();
            let (joined, whole) = (joined.into_distribution(), whole.into_distribution());
            prop_assert_eq!(joined.at(percent), whole.at(percent));
            prop_assert_eq!(joined.between(percent), whole.between(percent));
            prop_assert_eq!(joined.percent_below(7.0), whole.percent_below(7.0));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn a_percentile_of_many_numbers_is_within_one_percent(
            numbers in proptest::collection::vec(any::<f64>(), FEW_MAX..2 * FEW_MAX),
            percent in 0.0..=100.0,
        ) {
            is_right(numbers, percent)?;
        }
    }

    #[test]
    fn between_two_numbers_it_is_nearer_to_the_nearer() {
        let all = of(&[101.0, 1.0, 151.0, 51.0], 0.0).into_distribution();
        let found = [0.0, 5.0, 25.0, 50.0, 75.0, 95.0, 100.0].map(|percent| all.between(percent));
        let expected = [1.0, 1.0, 26.0, 76.0, 126.0, 151.0, 151.0].map(Some);
        assert_eq!(found, expected);
        assert_eq!(of(&[], 0.0).into_distribution().between(50.0), None);
    }

    #[test]
    fn percents_below_numbers_are_the_inverse() {
        let all = of(&[1.0, 51.0, 101.0, 101.0, 151.0], 0.0).into_distribution();
        let found = [0.0, 1.0, 26.0, 101.0, 151.0, 152.0].map(|number| all.percent_below(number));
        assert_eq!(found, [0.0, 10.0, 20.0, 60.0, 90.0, 100.0].map(Some));
        let many: Vec<f64> = (0..10_000).map(f64::from).collect();
        let many = of(&many, 0.0).into_distribution();
        let found = many.percent_below(2_500.0).unwrap();
        assert!((found - 25.0).abs() < 0.6, "{found}");
        assert_eq!(many.percent_below(-1.0), Some(0.0));
        assert_eq!(many.percent_below(1e9), Some(100.0));
        assert_eq!(of(&[], 0.0).into_distribution().percent_below(1.0), None);
    }
}
