//! [`Percentile`]: the number that a part of all numbers are at or below, within 1 % of itself.
//!
//! # Invariants
//! 1. The value does not depend on the order of the numbers: no bins are ever joined.
//!
//! Source: Masson, Rim, Lee 2019, "DDSketch: a fast and fully-mergeable quantile sketch with
//! relative-error guarantees".

use crate::Result;
use crate::meter::Meter;
use sketches_ddsketch::{Config, DDSketch};
use std::fmt;

/// The largest error of a value, as a part of it.
const ERROR_MAX: f64 = 0.01;

/// More bins than there are between [`LEAST`] and the largest float, so none are joined.
const BINS_MAX: u32 = 1 << 17;

/// Numbers closer to 0 than this count as 0.
const LEAST: f64 = 1e-300;

/// See the module.
pub(crate) struct Percentile {
    sketch: DDSketch,
    percent: f64,
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
            sketch: DDSketch::new(Config::new(ERROR_MAX, BINS_MAX, LEAST)),
            percent,
        }
    }

    /// Adds a number `times` times. An infinite one is left out.
    pub(crate) fn add(&mut self, number: f64, times: u64, meter: &mut Meter) -> Result<()> {
        if !number.is_finite() {
            return Ok(());
        }
        let bins = self.sketch.length();
        self.sketch.add_with_count(number, times);
        let more = self.sketch.length().saturating_sub(bins);
        meter.take(more * size_of::<u64>(), "finding a percentile")
    }

    /// Adds the numbers of another one.
    pub(crate) fn join(&mut self, other: &Percentile, meter: &mut Meter) -> Result<()> {
        let bins = self.sketch.length();
        let joined = self.sketch.merge(&other.sketch);
        debug_assert!(joined.is_ok(), "all sketches have one configuration");
        let more = self.sketch.length().saturating_sub(bins);
        meter.take(more * size_of::<u64>(), "finding a percentile")
    }

    /// The number; none of none.
    pub(crate) fn value(&self) -> Option<f64> {
        self.at(self.percent)
    }

    /// That of another percent; none of none.
    pub(crate) fn at(&self, percent: f64) -> Option<f64> {
        self.sketch.quantile(percent / 100.0).ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_percentile_is_within_one_percent(
            mut numbers in proptest::collection::vec(any::<f64>(), 0..200),
            percent in 0.0..=100.0,
        ) {
            let mut meter = Meter::new(4 << 20);
            let mut sketch = Percentile::new(percent);
            for number in &numbers {
                sketch.add(*number, 1, &mut meter).unwrap();
            }
            numbers.retain(|number| number.is_finite());
            numbers.sort_by(f64::total_cmp);
            let place = (percent / 100.0 * (numbers.len() as f64 - 1.0)) as usize;
            match (numbers.get(place), sketch.value()) {
                (None, None) => {}
                (Some(right), Some(found)) => {
                    let error = (found - right).abs();
                    prop_assert!(error <= 0.0101 * right.abs() + LEAST, "{found} for {right}");
                }
                (right, found) => prop_assert!(false, "{found:?} for {right:?}"),
            }
        }
    }
}
