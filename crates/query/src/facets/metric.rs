//! [`Metric`]: a measure of the documents of a bucket, and its state.
//!
//! # Invariants
//! 1. The state does not depend on the order of the documents, nor on how they are split into
//!    shards.

use super::faceted::{Faceted, Stats};
use crate::aggregate::Gathered;
use crate::aggregated::Aggregated;
use crate::measure::Measure;
use crate::meter::Meter;
use crate::number_sum::NumberSum;
use crate::percentile::Percentile;
use crate::value::number;
use crate::{Path, Result};
use quire_index::term;
use quire_model::ordered::OrderedValue;

/// A measure of the documents of a bucket.
#[derive(Debug, Clone, PartialEq)]
pub enum Metric {
    /// One value: a count, the least, the greatest, a sum, a mean, a number of different values.
    Measure(Measure),
    /// How many values, each once for each document.
    Values(Path),
    /// Statistics of numbers.
    Stats(Path),
    /// The numbers that these percents of the numbers, 0 to 100, are at or below, within 1 %.
    Percentiles(Path, Vec<f64>),
}

impl Metric {
    /// The field it is about; none for a count of documents.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Metric::Measure(measure) => measure.path(),
            Metric::Values(path) | Metric::Stats(path) | Metric::Percentiles(path, _) => Some(path),
        }
    }

    /// As [`path`](Self::path), to be changed.
    #[must_use]
    pub fn path_mut(&mut self) -> Option<&mut Path> {
        match self {
            Metric::Measure(measure) => measure.path_mut(),
            Metric::Values(path) | Metric::Stats(path) | Metric::Percentiles(path, _) => Some(path),
        }
    }
}

/// The state of a metric of one bucket.
#[derive(Debug)]
pub(crate) enum MetricState {
    Measure(Gathered),
    Values(u64),
    Stats(Box<StatsState>),
    Percentiles(Box<Percentile>),
}

/// What statistics are made of.
#[derive(Debug)]
pub(crate) struct StatsState {
    count: u64,
    min: f64,
    max: f64,
    sum: NumberSum,
    squares: NumberSum,
}

impl MetricState {
    pub(crate) fn new(metric: &Metric) -> MetricState {
        match metric {
            Metric::Measure(measure) => MetricState::Measure(Gathered::new(measure)),
            Metric::Values(_) => MetricState::Values(0),
            Metric::Stats(_) => MetricState::Stats(Box::new(StatsState {
                count: 0,
                min: f64::INFINITY,
                max: f64::NEG_INFINITY,
                sum: NumberSum::default(),
                squares: NumberSum::default(),
            })),
            Metric::Percentiles(..) => MetricState::Percentiles(Box::new(Percentile::new(0.0))),
        }
    }

    /// About what it takes at first, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<MetricState>()
            + match self {
                MetricState::Stats(_) => size_of::<StatsState>(),
                MetricState::Percentiles(_) => size_of::<Percentile>(),
                _ => 0,
            }
    }

    /// Adds a document, for a count.
    pub(crate) fn add_document(&mut self) {
        if let MetricState::Measure(gathered) = self {
            gathered.add_documents(1);
        }
    }

    /// Adds a value of a document, which is not null.
    pub(crate) fn add(&mut self, value: &[u8], meter: &mut Meter) -> Result<()> {
        debug_assert!(value != term::NULL, "null is no value of a metric");
        match self {
            MetricState::Measure(gathered) => gathered.add(value, 1, meter),
            MetricState::Values(count) => {
                *count += 1;
                Ok(())
            }
            MetricState::Stats(_) | MetricState::Percentiles(_) => match term::decode(value) {
                Some(value) => self.add_number(&value, meter),
                None => Ok(()),
            },
        }
    }

    fn add_number(&mut self, value: &OrderedValue<'_>, meter: &mut Meter) -> Result<()> {
        let Some(number) = number(value).filter(|number| number.is_finite()) else {
            return Ok(());
        };
        match self {
            MetricState::Percentiles(numbers) => numbers.add(number, 1, meter),
            MetricState::Stats(stats) => {
                stats.count += 1;
                stats.min = stats.min.min(number);
                stats.max = stats.max.max(number);
                stats.sum.add(value, 1);
                stats.squares.add(&OrderedValue::Float(number * number), 1);
                Ok(())
            }
            MetricState::Measure(_) | MetricState::Values(_) => Ok(()),
        }
    }

    /// Adds the state of other documents, of the same metric.
    pub(crate) fn join(&mut self, other: MetricState, meter: &mut Meter) -> Result<()> {
        match (self, other) {
            (MetricState::Measure(all), MetricState::Measure(one)) => all.join(one, meter)?,
            (MetricState::Values(all), MetricState::Values(count)) => *all += count,
            (MetricState::Stats(all), MetricState::Stats(one)) => all.join(&one),
            (MetricState::Percentiles(all), MetricState::Percentiles(one)) => {
                all.join(&one, meter)?;
            }
            (state, other) => unreachable!("{other:?} is no state of {state:?}'s metric"),
        }
        Ok(())
    }

    /// What it says.
    pub(crate) fn finish(self, metric: &Metric) -> Faceted {
        match self {
            MetricState::Measure(gathered) => Faceted::Measured(gathered.finish()),
            MetricState::Values(count) => Faceted::Measured(Aggregated::Count(count)),
            MetricState::Stats(stats) => Faceted::Stats(Box::new(stats.finish())),
            MetricState::Percentiles(numbers) => {
                let percents = match metric {
                    Metric::Percentiles(_, percents) => percents.as_slice(),
                    _ => &[],
                };
                let numbers = percents.iter().map(|percent| numbers.at(*percent));
                Faceted::Percentiles(numbers.collect())
            }
        }
    }
}

impl StatsState {
    fn join(&mut self, other: &StatsState) {
        self.count += other.count;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum.join(&other.sum);
        self.squares.join(&other.squares);
    }

    fn finish(self) -> Stats {
        let is_any = self.count > 0;
        Stats {
            count: self.count,
            min: is_any.then_some(self.min),
            max: is_any.then_some(self.max),
            sum: self.sum.to_f64(),
            avg: self.sum.mean(self.count),
            sum_of_squares: self.squares.to_f64(),
        }
    }
}
