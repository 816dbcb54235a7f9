//! [`Gathered`]: the state of an aggregate, from columns of shards and from documents alike.
//!
//! # Invariants
//! 1. The state does not depend on the order of the documents, nor on how they are split into
//!    shards.

use crate::approximate_distinct::ApproximateDistinct;
use crate::batches::Batches;
use crate::meter::{ENTRY_BYTES, Meter};
use crate::number_sum::NumberSum;
use crate::ordinal_counter::{FlatValues, count_terms};
use crate::percentile::Percentile;
use crate::slice::Slice;
use crate::value::number;
use crate::{Aggregated, Column, End, Function, Measure, NO_ORDINAL, Ordinals, Result, Value};
use quire_index::{DocSet, Number, Numbers, term};
use quire_model::ordered::OrderedValue;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The name of counting in an error.
const COUNTING: &str = "counting by value";

/// Floats that are added to a sum together.
const FLOATS_AT_ONCE: usize = 4096;

/// The terms of all values but null are not less.
const AFTER_NULL: &[u8] = &[0x02];

/// The state of one aggregate.
#[derive(Debug)]
pub(crate) enum Gathered {
    Count(u64),
    Min(Option<Value>),
    Max(Option<Value>),
    Sum(NumberSum),
    Avg(NumberSum, u64),
    Distinct(BTreeSet<Value>, Slice),
    ApproximateDistinct(ApproximateDistinct),
    Percentile(Box<Percentile>),
    Terms(HashMap<Value, u64>, u64, Slice),
    /// Documents by n, of the interval from n × the width on; n is an integer.
    Histogram(BTreeMap<Value, u64>, f64),
}

impl Gathered {
    pub(crate) fn new(measure: &Measure) -> Gathered {
        match measure {
            Measure::Count => Gathered::Count(0),
            Measure::Min(_) | Measure::Of(Function::Min, _) => Gathered::Min(None),
            Measure::Max(_) | Measure::Of(Function::Max, _) => Gathered::Max(None),
            Measure::Sum(_) | Measure::Of(Function::Sum, _) => Gathered::Sum(NumberSum::default()),
            Measure::Avg(_) | Measure::Of(Function::Avg, _) => {
                Gathered::Avg(NumberSum::default(), 0)
            }
            Measure::Distinct(_) => Gathered::Distinct(BTreeSet::new(), Slice::ALL),
            Measure::ApproximateDistinct(_) => Gathered::ApproximateDistinct(Default::default()),
            Measure::Percentile { percent, .. } => {
                Gathered::Percentile(Box::new(Percentile::new(*percent)))
            }
            Measure::Terms { limit, .. } => Gathered::Terms(HashMap::new(), *limit, Slice::ALL),
            Measure::Histogram { interval, .. } => Gathered::Histogram(BTreeMap::new(), *interval),
            // The state of groups is made of their plan.
            Measure::Group(_) => Gathered::Count(0),
        }
    }

    /// The initial state for the values of one slice.
    pub(crate) fn of_slice(measure: &Measure, slice: Slice) -> Gathered {
        match Gathered::new(measure) {
            Gathered::Distinct(values, _) => Gathered::Distinct(values, slice),
            Gathered::Terms(counts, limit, _) => Gathered::Terms(counts, limit, slice),
            other => other,
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

    /// Adds the values that a column has of some documents.
    pub(crate) fn add_column(
        &mut self,
        column: &dyn Column,
        docs: &DocSet,
        meter: &mut Meter,
    ) -> Result<()> {
        match self {
            Gathered::Min(_) => self.add_end(column, End::Smallest, docs, meter),
            Gathered::Max(_) => self.add_end(column, End::Largest, docs, meter),
            Gathered::Sum(_) | Gathered::Avg(..) if let Some(numbers) = column.numbers() => {
                self.add_numbers(column, &numbers, docs)
            }
            Gathered::Histogram(..) if column.has_many() => {
                self.add_documents_of(column, docs, meter)
            }
            Gathered::Histogram(counts, width) if let Some(numbers) = column.numbers() => {
                add_intervals(counts, *width, column, &numbers, docs, meter)
            }
            _ => {
                let mut add = |term: &[u8], count| self.add(term, count, meter);
                count_terms(column, docs, &mut add)
            }
        }
    }

    /// Several values of a document may be in one interval, so counts of values do not do: the
    /// values of each document are read together.
    fn add_documents_of(
        &mut self,
        column: &dyn Column,
        docs: &DocSet,
        meter: &mut Meter,
    ) -> Result<()> {
        let (mut batches, mut ordinals) = (Batches::new(docs), Ordinals::default());
        while let Some(batch) = batches.next_batch() {
            column.ordinals(batch, &mut ordinals)?;
            for of_document in ordinals.iter() {
                let values = of_document.iter().map(|ordinal| value_of(column, *ordinal));
                let values: Result<Vec<_>> = values.filter_map(Result::transpose).collect();
                self.add_document(&values?, meter)?;
            }
        }
        Ok(())
    }

    /// Adds the smallest or the largest value of a column: its ordinal is found, and looked up.
    fn add_end(
        &mut self,
        column: &dyn Column,
        end: End,
        docs: &DocSet,
        meter: &mut Meter,
    ) -> Result<()> {
        // Null is no value here, and the smallest one there.
        let first = column.ordinal_of(AFTER_NULL)?;
        let (mut batches, mut values) = (Batches::new(docs), FlatValues::default());
        let mut found: Option<u64> = None;
        while let Some(batch) = batches.next_batch() {
            let values = values.read(column, batch)?.iter();
            let there = values.filter(|value| **value >= first && **value != NO_ORDINAL);
            let one = match end {
                End::Smallest => there.min(),
                End::Largest => there.max(),
            };
            found = match (found, one, end) {
                (None, one, _) => one.copied(),
                (found, None, _) => found,
                (Some(found), Some(one), End::Smallest) => Some(found.min(*one)),
                (Some(found), Some(one), End::Largest) => Some(found.max(*one)),
            };
        }
        let mut term = Vec::new();
        if let Some(ordinal) = found {
            column.term(ordinal, &mut term)?;
            self.add(&term, 1, meter)?;
        }
        Ok(())
    }

    /// Adds numbers to a sum, batch by batch.
    fn add_numbers(&mut self, column: &dyn Column, numbers: &Numbers, docs: &DocSet) -> Result<()> {
        let (Gathered::Sum(sum) | Gathered::Avg(sum, _)) = &mut *self else {
            return Ok(());
        };
        let (mut batches, mut values) = (Batches::new(docs), FlatValues::default());
        let (mut floats, mut added, mut total) = (Vec::new(), 0, 0i128);
        while let Some(batch) = batches.next_batch() {
            let values = values.read(column, batch)?;
            if let Some((of_batch, count)) = numbers.sum_of_integers(values) {
                // Each is below 2^64, so 2^32 documents do not overflow it.
                total += of_batch;
                added += count;
            } else if numbers.floats(values, &mut floats) {
                for floats in floats.chunks(FLOATS_AT_ONCE) {
                    added += sum.add_floats(floats);
                }
            }
        }
        sum.add_integer(total);
        if let Gathered::Avg(_, count) = self {
            *count += added;
        }
        Ok(())
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
            Gathered::Distinct(values, slice) => {
                if slice.contains(value)
                    && !values.contains(value)
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
            Gathered::Terms(counts, _, slice) => match counts.get_mut(value) {
                Some(count) => *count += documents,
                None if !slice.contains(value) => {}
                None => {
                    meter.take(ENTRY_BYTES + value.len(), COUNTING)?;
                    if let Some(value) = Value::from_term(value) {
                        counts.insert(value, documents);
                    }
                }
            },
            Gathered::Histogram(counts, width) => {
                let interval = term::decode(value).and_then(|value| interval_of(&value, *width));
                if let Some(interval) = interval {
                    add_count(counts, interval.term(), documents, meter)?;
                }
            }
        }
        Ok(())
    }

    /// Adds what was gathered of other documents, for the same measure.
    pub(crate) fn join(&mut self, other: Gathered, meter: &mut Meter) -> Result<()> {
        match (&mut *self, other) {
            (_, Gathered::Count(count)) => self.add_documents(count),
            (_, Gathered::Min(value) | Gathered::Max(value)) => {
                if let Some(value) = value {
                    self.add(value.term(), 1, meter)?;
                }
            }
            (Gathered::Sum(all), Gathered::Sum(sum)) => all.join(&sum),
            (Gathered::Avg(all, of), Gathered::Avg(sum, count)) => {
                all.join(&sum);
                *of += count;
            }
            (_, Gathered::Distinct(values, _)) => {
                let mut values = values.iter();
                values.try_for_each(|value| self.add(value.term(), 1, meter))?;
            }
            (Gathered::ApproximateDistinct(all), Gathered::ApproximateDistinct(values)) => {
                all.join(values, meter)?;
            }
            (Gathered::Percentile(all), Gathered::Percentile(numbers)) => {
                all.join(&numbers, meter)?;
            }
            (_, Gathered::Terms(counts, ..)) => {
                let mut counts = counts.iter();
                counts.try_for_each(|(value, count)| self.add(value.term(), *count, meter))?;
            }
            (Gathered::Histogram(all, _), Gathered::Histogram(counts, _)) => {
                let mut counts = counts.iter();
                counts.try_for_each(|(interval, count)| {
                    add_count(all, interval.term(), *count, meter)
                })?;
            }
            (state, other) => unreachable!("{other:?} is no state of {state:?}'s measure"),
        }
        Ok(())
    }

    /// The result.
    pub(crate) fn finish(self) -> Aggregated {
        match self {
            Gathered::Count(count) => Aggregated::Count(count),
            Gathered::Min(value) | Gathered::Max(value) => Aggregated::Value(value),
            Gathered::Sum(sum) => Aggregated::Number(Some(sum.to_f64())),
            Gathered::Avg(sum, count) => Aggregated::Number(sum.mean(count)),
            Gathered::Distinct(values, _) => Aggregated::Count(values.len() as u64),
            Gathered::ApproximateDistinct(values) => Aggregated::Count(values.count()),
            Gathered::Percentile(numbers) => Aggregated::Number(numbers.value()),
            Gathered::Terms(counts, limit, _) => {
                let mut terms: Vec<_> = counts.into_iter().collect();
                let others = keep_first_terms(&mut terms, limit);
                Aggregated::Terms { terms, others }
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

/// Keeps the first `limit` of some values, most frequent first, then by value. Gives how many
/// documents the others have, added up.
pub(crate) fn keep_first_terms(terms: &mut Vec<(Value, u64)>, limit: u64) -> u64 {
    let all: u64 = terms.iter().map(|(_, count)| count).sum();
    let order =
        |(a, of_a): &(Value, u64), (b, of_b): &(Value, u64)| of_b.cmp(of_a).then_with(|| a.cmp(b));
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    if limit < terms.len() {
        terms.select_nth_unstable_by(limit, order);
        terms.truncate(limit);
    }
    terms.sort_unstable_by(order);
    let given: u64 = terms.iter().map(|(_, count)| count).sum();
    assert!(given <= all, "the terms given are some of all");
    all - given
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
            meter.take(ENTRY_BYTES + term.len(), COUNTING)?;
            if let Some(value) = Value::from_term(term) {
                counts.insert(value, documents);
            }
        }
    }
    Ok(())
}

/// Counts documents that have at most one value by interval.
fn add_intervals(
    counts: &mut BTreeMap<Value, u64>,
    width: f64,
    column: &dyn Column,
    numbers: &Numbers,
    docs: &DocSet,
    meter: &mut Meter,
) -> Result<()> {
    let (mut batches, mut values) = (Batches::new(docs), FlatValues::default());
    let mut intervals: Vec<f64> = Vec::new();
    while let Some(batch) = batches.next_batch() {
        let ordinals = values.read(column, batch)?.iter();
        let there = ordinals.filter(|ordinal| **ordinal != NO_ORDINAL);
        let found = there.filter_map(|ordinal| numbers.number(*ordinal));
        intervals.clear();
        intervals.extend(found.map(|number| match number {
            Number::Int(value) => (value as f64 / width).floor(),
            Number::Float(value) => (value / width).floor(),
        }));
        intervals.sort_unstable_by(f64::total_cmp);
        for same in intervals.chunk_by(|one, next| one == next) {
            if let Some(n) = same.first() {
                add_count(counts, Value::from(*n).term(), same.len() as u64, meter)?;
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
