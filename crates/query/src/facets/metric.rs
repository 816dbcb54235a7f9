//! [`Metric`]: a measure of the documents of a bucket, and its state.
//!
//! # Invariants
//! 1. The state does not depend on the order of the documents, nor on how they are split into
//!    shards.

use super::deviation::Deviations;
use super::faceted::{Faceted, Stats};
use super::hdr::HdrBins;
use super::weighted::WeightedMean;
use crate::aggregate::Gathered;
use crate::aggregated::Aggregated;
use crate::measure::Measure;
use crate::meter::Meter;
use crate::number_sum::NumberSum;
use crate::percentile::Percentile;
use crate::value::number;
use crate::{Path, Result, Value};
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
    /// The numbers that these percents of the numbers, 0 to 100, are at or below.
    Percentiles(Path, Vec<f64>, Quantiles),
    /// How many percent of the numbers are below each of these, of equal ones half.
    PercentsBelow(Path, Vec<f64>, Quantiles),
    /// The median of how far numbers are from their median. All numbers are kept in memory.
    MedianDeviation(Path),
    /// The mean of numbers, each with a weight, of documents that have one weight.
    WeightedAvg {
        /// The numbers.
        path: Path,
        /// The weights.
        weight: Path,
        /// The weight of a document without one.
        weight_missing: Option<Value>,
    },
}

/// How percentiles are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantiles {
    /// Between two numbers by how near each is; exact of up to 2,048 numbers, within 1 % of more.
    Interpolated,
    /// One of the numbers, to this many decimal digits: 0 to 5. None is below 0.
    Digits(u8),
}

impl Metric {
    /// The field it is about; none for a count of documents.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Metric::Measure(measure) => measure.path(),
            Metric::Values(path)
            | Metric::Stats(path)
            | Metric::Percentiles(path, ..)
            | Metric::PercentsBelow(path, ..)
            | Metric::MedianDeviation(path)
            | Metric::WeightedAvg { path, .. } => Some(path),
        }
    }

    /// As [`path`](Self::path), to be changed.
    #[must_use]
    pub fn path_mut(&mut self) -> Option<&mut Path> {
        match self {
            Metric::Measure(measure) => measure.path_mut(),
            Metric::Values(path)
            | Metric::Stats(path)
            | Metric::Percentiles(path, ..)
            | Metric::PercentsBelow(path, ..)
            | Metric::MedianDeviation(path)
            | Metric::WeightedAvg { path, .. } => Some(path),
        }
    }

    /// The field of the weights.
    #[must_use]
    pub fn weight(&self) -> Option<&Path> {
        match self {
            Metric::WeightedAvg { weight, .. } => Some(weight),
            _ => None,
        }
    }

    /// As [`weight`](Self::weight), to be changed.
    #[must_use]
    pub fn weight_mut(&mut self) -> Option<&mut Path> {
        match self {
            Metric::WeightedAvg { weight, .. } => Some(weight),
            _ => None,
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
    Digits(Box<HdrBins>),
    Deviations(Deviations),
    Weighted(Box<WeightedMean>),
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
            Metric::Percentiles(.., quantiles) | Metric::PercentsBelow(.., quantiles) => {
                match quantiles {
                    Quantiles::Interpolated => {
                        MetricState::Percentiles(Box::new(Percentile::new(0.0)))
                    }
                    Quantiles::Digits(digits) => {
                        MetricState::Digits(Box::new(HdrBins::new(*digits)))
                    }
                }
            }
            Metric::MedianDeviation(_) => MetricState::Deviations(Deviations::default()),
            Metric::WeightedAvg { .. } => MetricState::Weighted(Box::default()),
        }
    }

    /// About what it takes at first, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<MetricState>()
            + match self {
                MetricState::Stats(_) => size_of::<StatsState>(),
                MetricState::Percentiles(_) => size_of::<Percentile>(),
                MetricState::Digits(_) => size_of::<HdrBins>(),
                MetricState::Weighted(_) => size_of::<WeightedMean>(),
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
            _ => match term::decode(value) {
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
            MetricState::Digits(bins) => bins.add(number, meter),
            MetricState::Deviations(numbers) => numbers.add(number, meter),
            MetricState::Stats(stats) => {
                stats.count += 1;
                stats.min = stats.min.min(number);
                stats.max = stats.max.max(number);
                stats.sum.add(value, 1);
                stats.squares.add(&OrderedValue::Float(number * number), 1);
                Ok(())
            }
            MetricState::Measure(_) | MetricState::Values(_) | MetricState::Weighted(_) => Ok(()),
        }
    }

    /// Adds a value of a document that has this weight.
    pub(crate) fn add_weighted(&mut self, value: &[u8], weight: f64) {
        let value = term::decode(value);
        if let (MetricState::Weighted(mean), Some(number)) = (self, value.as_ref().and_then(number))
        {
            mean.add(number, weight);
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
            (MetricState::Digits(all), MetricState::Digits(one)) => all.join(&one, meter)?,
            (MetricState::Deviations(all), MetricState::Deviations(one)) => all.join(one, meter)?,
            (MetricState::Weighted(all), MetricState::Weighted(one)) => all.join(&one),
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
                let all = numbers.into_distribution();
                of_each(
                    metric,
                    |percent| all.between(percent),
                    |number| all.percent_below(number),
                )
            }
            MetricState::Digits(bins) => of_each(
                metric,
                |percent| bins.at(percent),
                |number| bins.percent_below(number),
            ),
            MetricState::Deviations(numbers) => number_of(numbers.finish()),
            MetricState::Weighted(mean) => number_of(mean.finish()),
        }
    }
}

fn number_of(number: Option<f64>) -> Faceted {
    Faceted::Measured(Aggregated::Number(number))
}

/// What is said of each percent or of each number of a metric.
fn of_each(
    metric: &Metric,
    at: impl Fn(f64) -> Option<f64>,
    below: impl Fn(f64) -> Option<f64>,
) -> Faceted {
    Faceted::Percentiles(match metric {
        Metric::Percentiles(_, percents, _) => percents.iter().map(|one| at(*one)).collect(),
        Metric::PercentsBelow(_, numbers, _) => numbers.iter().map(|one| below(*one)).collect(),
        _ => Vec::new(),
    })
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
