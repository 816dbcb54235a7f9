//! [`Gathered`]: the state of an aggregate, from columns of shards and from documents alike.
//!
//! # Invariants
//! 1. The state does not depend on the order of the documents, nor on how they are split into
//!    shards.

use crate::approximate_distinct::ApproximateDistinct;
use crate::batches::Batches;
use crate::meter::{ENTRY_BYTES, Meter};
use crate::number_sum::NumberSum;
use crate::percentile::Percentile;
use crate::value::number;
use crate::{Aggregated, Column, Measure, Ordinals, Result, Value};
use quire_index::{DocSet, term};
use quire_model::ordered::OrderedValue;
use std::collections::{BTreeMap, BTreeSet};

/// Ordinals below this are counted in an array.
const ARRAY_ORDINALS_MAX: u64 = 1 << 16;

/// Larger ordinals are gathered up to this number, sorted, and counted by runs.
const GATHERED_ORDINALS_MAX: usize = 1 << 16;

/// The state of one aggregate.
#[derive(Debug)]
pub(crate) enum Gathered {
    Count(u64),
    Min(Option<Value>),
    Max(Option<Value>),
    Sum(NumberSum),
    Avg(NumberSum, u64),
    Distinct(BTreeSet<Value>),
    ApproximateDistinct(ApproximateDistinct),
    Percentile(Box<Percentile>),
    Terms(BTreeMap<Value, u64>, u64),
    /// Documents by n, of the interval from n × the width on; n is an integer.
    Histogram(BTreeMap<Value, u64>, f64),
}

impl Gathered {
    pub(crate) fn new(measure: &Measure) -> Gathered {
        match measure {
            Measure::Count => Gathered::Count(0),
            Measure::Min(_) => Gathered::Min(None),
            Measure::Max(_) => Gathered::Max(None),
            Measure::Sum(_) => Gathered::Sum(NumberSum::default()),
            Measure::Avg(_) => Gathered::Avg(NumberSum::default(), 0),
            Measure::Distinct(_) => Gathered::Distinct(BTreeSet::new()),
            Measure::ApproximateDistinct(_) => Gathered::ApproximateDistinct(Default::default()),
            Measure::Percentile { percent, .. } => {
                Gathered::Percentile(Box::new(Percentile::new(*percent)))
            }
            Measure::Terms { limit, .. } => Gathered::Terms(BTreeMap::new(), *limit),
            Measure::Histogram { interval, .. } => Gathered::Histogram(BTreeMap::new(), *interval),
            // The state of groups is made of their plan.
            Measure::Group(_) => Gathered::Count(0),
        }
    }

    /// Adds documents, for a count.
    pub(crate) fn add_documents(&mut self, documents: u64) {
        if let Gathered::Count(count) = self {
            *count += documents;
        }
    }

    /// Adds the values of one document, each once.
    pub(crate) fn add_document(&mut self, values: &[Value], meter: &mut Meter) -> Result<()> {
        match self {
            Gathered::Histogram(counts, width) => {
                let numbers = values.iter().map(Value::get);
                let intervals: BTreeSet<_> = numbers
                    .filter_map(|value| interval_of(&value, *width))
                    .collect();
                for interval in &intervals {
                    add_count(counts, interval.term(), 1, meter)?;
                }
                Ok(())
            }
            _ => values
                .iter()
                .try_for_each(|value| self.add(value.term(), 1, meter)),
        }
    }

    /// Adds the values that a column has of some documents; `many` says that a document may have
    /// several.
    pub(crate) fn add_column(
        &mut self,
        column: &dyn Column,
        many: bool,
        docs: &DocSet,
        meter: &mut Meter,
    ) -> Result<()> {
        let mut batches = Batches::new(docs);
        let mut ordinals = Ordinals::default();
        if many && let Gathered::Histogram(..) = self {
            // Several values of a document may be in one interval, so counts of values do not do:
            // the values of each document are read together.
            while let Some(batch) = batches.next() {
                column.ordinals(batch, &mut ordinals)?;
                for of_document in ordinals.iter() {
                    let values = of_document.iter().map(|ordinal| value_of(column, *ordinal));
                    let values: Result<Vec<_>> = values.filter_map(Result::transpose).collect();
                    self.add_document(&values?, meter)?;
                }
            }
            return Ok(());
        }
        let mut counter = OrdinalCounter::new(column);
        while let Some(batch) = batches.next() {
            column.ordinals(batch, &mut ordinals)?;
            counter.count(&ordinals.ordinals, self, meter)?;
        }
        counter.finish(self, meter)
    }

    /// Adds a value that `documents` documents have.
    pub(crate) fn add(&mut self, value: &[u8], documents: u64, meter: &mut Meter) -> Result<()> {
        if value == term::NULL {
            return Ok(());
        }
        match self {
            Gathered::Count(_) => {}
            Gathered::Min(least) => {
                if least.as_ref().is_none_or(|least| value < least.term()) {
                    *least = Value::from_term(value);
                }
            }
            Gathered::Max(most) => {
                if most.as_ref().is_none_or(|most| value > most.term()) {
                    *most = Value::from_term(value);
                }
            }
            Gathered::Sum(sum) => {
                if let Some(value) = term::decode(value) {
                    sum.add(&value, documents);
                }
            }
            Gathered::Avg(sum, count) => {
                if let Some(value) = term::decode(value)
                    && sum.add(&value, documents)
                {
                    *count += documents;
                }
            }
            Gathered::Distinct(values) => {
                if !values.contains(value)
                    && let Some(value) = Value::from_term(value)
                {
                    meter.take(
                        ENTRY_BYTES + value.term().len(),
                        "counting different values",
                    )?;
                    values.insert(value);
                }
            }
            Gathered::ApproximateDistinct(values) => values.add(value, meter)?,
            Gathered::Percentile(numbers) => {
                if let Some(value) = term::decode(value).as_ref().and_then(number) {
                    numbers.add(value, documents, meter)?;
                }
            }
            Gathered::Terms(counts, _) => add_count(counts, value, documents, meter)?,
            Gathered::Histogram(counts, width) => {
                let interval = term::decode(value).and_then(|value| interval_of(&value, *width));
                if let Some(interval) = interval {
                    add_count(counts, interval.term(), documents, meter)?;
                }
            }
        }
        Ok(())
    }

    /// The result.
    pub(crate) fn finish(self) -> Aggregated {
        match self {
            Gathered::Count(count) => Aggregated::Count(count),
            Gathered::Min(value) | Gathered::Max(value) => Aggregated::Value(value),
            Gathered::Sum(sum) => Aggregated::Number(Some(sum.to_f64())),
            Gathered::Avg(sum, count) => {
                Aggregated::Number((count > 0).then(|| sum.to_f64() / count as f64))
            }
            Gathered::Distinct(values) => Aggregated::Count(values.len() as u64),
            Gathered::ApproximateDistinct(values) => Aggregated::Count(values.count()),
            Gathered::Percentile(numbers) => Aggregated::Number(numbers.value()),
            Gathered::Terms(counts, limit) => {
                let all: u64 = counts.values().sum();
                let mut terms: Vec<_> = counts.into_iter().collect();
                // Stable: equal counts stay in the order of their values.
                terms.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
                terms.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
                let given: u64 = terms.iter().map(|(_, count)| count).sum();
                assert!(given <= all, "the terms given are some of all");
                Aggregated::Terms {
                    terms,
                    others: all - given,
                }
            }
            Gathered::Histogram(counts, width) => Aggregated::Histogram(
                counts
                    .into_iter()
                    .map(|(n, count)| (n.as_f64().unwrap_or(0.0) * width, count))
                    .collect(),
            ),
        }
    }
}

fn add_count(
    counts: &mut BTreeMap<Value, u64>,
    term: &[u8],
    documents: u64,
    meter: &mut Meter,
) -> Result<()> {
    match counts.get_mut(term) {
        Some(count) => *count += documents,
        None => {
            meter.take(ENTRY_BYTES + term.len(), "counting by value")?;
            if let Some(value) = Value::from_term(term) {
                counts.insert(value, documents);
            }
        }
    }
    Ok(())
}

/// The n of the interval that contains a number.
fn interval_of(value: &OrderedValue<'_>, width: f64) -> Option<Value> {
    Some(Value::from((number(value)? / width).floor()))
}

fn value_of(column: &dyn Column, ordinal: u64) -> Result<Option<Value>> {
    let mut term = Vec::new();
    column.term(ordinal, &mut term)?;
    Ok(Value::from_term(&term))
}

/// Counts how often each ordinal of a column occurs.
struct OrdinalCounter<'c> {
    column: &'c dyn Column,
    /// By ordinal; empty if ordinals are too large for it.
    counts: Vec<u64>,
    /// Ordinals that were not counted yet.
    gathered: Vec<u64>,
    term: Vec<u8>,
}

impl<'c> OrdinalCounter<'c> {
    fn new(column: &'c dyn Column) -> OrdinalCounter<'c> {
        let end = column.ordinal_end();
        OrdinalCounter {
            column,
            counts: match end {
                0..=ARRAY_ORDINALS_MAX => vec![0; end as usize],
                _ => Vec::new(),
            },
            gathered: Vec::new(),
            term: Vec::new(),
        }
    }

    fn count(&mut self, ordinals: &[u64], into: &mut Gathered, meter: &mut Meter) -> Result<()> {
        if self.column.ordinal_end() <= ARRAY_ORDINALS_MAX {
            for ordinal in ordinals {
                if let Some(count) = self.counts.get_mut(*ordinal as usize) {
                    *count += 1;
                }
            }
            return Ok(());
        }
        self.gathered.extend_from_slice(ordinals);
        match self.gathered.len() >= GATHERED_ORDINALS_MAX {
            true => self.flush(into, meter),
            false => Ok(()),
        }
    }

    fn flush(&mut self, into: &mut Gathered, meter: &mut Meter) -> Result<()> {
        let mut gathered = std::mem::take(&mut self.gathered);
        gathered.sort_unstable();
        for run in gathered.chunk_by(|one, next| one == next) {
            if let Some(ordinal) = run.first() {
                self.add(*ordinal, run.len() as u64, into, meter)?;
            }
        }
        debug_assert!(gathered.is_sorted(), "runs are of sorted ordinals");
        gathered.clear();
        self.gathered = gathered;
        Ok(())
    }

    fn finish(mut self, into: &mut Gathered, meter: &mut Meter) -> Result<()> {
        self.flush(into, meter)?;
        let counts = std::mem::take(&mut self.counts);
        for (ordinal, count) in (0..).zip(counts) {
            if count > 0 {
                self.add(ordinal, count, into, meter)?;
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        ordinal: u64,
        count: u64,
        into: &mut Gathered,
        meter: &mut Meter,
    ) -> Result<()> {
        self.term.clear();
        self.column.term(ordinal, &mut self.term)?;
        into.add(&self.term, count, meter)
    }
}
