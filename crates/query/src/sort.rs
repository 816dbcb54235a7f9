//! Sort keys: what hits of all shards are ordered by, as bytes; and the first hits of one shard, by
//! ordinals.
//!
//! # Layout
//! ```text
//! sort key   for each order | term |, complemented if descending; or | 0xff | without a value,
//!            | 0x00 | where these come first
//! ```
//! No term is a prefix of another, and none begins with 0xff or 0x00: keys compare bytewise, order
//! after order.

use crate::batches::Batches;
use crate::meter::Meter;
use crate::top::Top;
use crate::values::Values;
use crate::{Column, End, Hit, NO_ORDINAL, Order, Ordinals, Path, Result, Segment, Shard, Value};
use quire_index::DocSet;
use quire_model::ordered::{Direction, OrderedValue};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::cmp::Ordering;

const NO_VALUE: u8 = 0xff;
const NO_VALUE_FIRST: u8 = 0x00;

/// What a hit is ordered by.
pub(crate) type SortKey = SmallVec<[u8; 32]>;

/// The first hits so far of all shards.
pub(crate) type TopHits = Top<(SortKey, Hit)>;

/// The largest ordinal that can be.
const ORDINAL_MAX: u64 = NO_ORDINAL - 1;

/// Memory that a hit takes beside its key.
const HIT_BYTES: usize = size_of::<(SortKey, Hit)>();

/// The name of sorting in an error.
const SORTING: &str = "sorting all hits";

/// Appends what a document is ordered by, or that there is nothing, to a sort key.
pub(crate) fn push_value(key: &mut SortKey, value: Option<&Value>, order: &Order) {
    match value.or(order.missing.as_ref()) {
        None if order.missing_first => key.push(NO_VALUE_FIRST),
        value => push_key(key, value.map(Value::term), order.direction),
    }
}

/// Appends a term, or that there is none, to a sort key. Keys without one come last.
fn push_key(key: &mut SortKey, term: Option<&[u8]>, direction: Direction) {
    match (term, direction) {
        (None, _) => key.push(NO_VALUE),
        (Some(term), Direction::Ascending) => key.extend_from_slice(term),
        (Some(term), Direction::Descending) => key.extend(term.iter().map(|byte| !byte)),
    }
}

/// The term that a sort key begins with, if it begins with one.
pub(crate) fn first_term(key: &[u8], direction: Direction) -> Option<Vec<u8>> {
    let (_, rest) = OrderedValue::decode(key, direction).ok()?;
    let term = key.get(..key.len() - rest.len())?;
    Some(match direction {
        Direction::Ascending => term.to_vec(),
        Direction::Descending => term.iter().map(|byte| !byte).collect(),
    })
}

/// The best value that a hit of a shard can have; none if no document has a value.
pub(crate) fn best<'s>(shard: &'s dyn Shard, order: &Order) -> Result<Option<Cow<'s, [u8]>>> {
    let range = shard.field(&order.path)?.and_then(|info| info.range);
    Ok(range.map(|(least, most)| match order.direction {
        Direction::Ascending => least,
        Direction::Descending => most,
    }))
}

/// Whether hits whose first value is `best` come after all that are kept.
pub(crate) fn is_outranked(best: Option<&[u8]>, direction: Direction, top: &TopHits) -> bool {
    let Some((worst, _)) = top.worst() else {
        return false;
    };
    // No hit comes after one without a value; and one with an equal value may come before it.
    match (first_term(worst, direction), best, direction) {
        (None, ..) => false,
        (Some(_), None, _) => true,
        (Some(worst), Some(best), Direction::Ascending) => best > worst.as_slice(),
        (Some(worst), Some(best), Direction::Descending) => best < worst.as_slice(),
    }
}

/// Keeps a hit if it is among the first.
pub(crate) fn offer(top: &mut TopHits, key: SortKey, hit: Hit, meter: &mut Meter) -> Result<bool> {
    let bytes = |key: &SortKey| HIT_BYTES + key.len();
    meter.take(bytes(&key), SORTING)?;
    match top.offer((key, hit)) {
        None => Ok(true),
        Some((pushed_out, other)) => {
            meter.give(bytes(&pushed_out));
            Ok(other != hit)
        }
    }
}

/// One order of a query, in one segment.
struct OrderColumn<'s> {
    direction: Direction,
    column: Option<Box<dyn Column + 's>>,
}

impl OrderColumn<'_> {
    /// Replaces `out` by a number for each document. The numbers order the documents.
    fn keys(&self, docs: &[u32], out: &mut Vec<u64>) -> Result<()> {
        let Some(column) = &self.column else {
            out.clear();
            out.resize(docs.len(), NO_ORDINAL);
            return Ok(());
        };
        match self.direction {
            Direction::Ascending => column.ends(docs, End::Smallest, out),
            Direction::Descending => {
                column.ends(docs, End::Largest, out)?;
                for ordinal in out.iter_mut().filter(|ordinal| **ordinal != NO_ORDINAL) {
                    *ordinal = ORDINAL_MAX.saturating_sub(*ordinal);
                }
                Ok(())
            }
        }
    }

    /// The largest number that a document which does not come after `term` has.
    fn key_max(&self, term: &[u8]) -> Result<u64> {
        let Some(column) = &self.column else {
            return Ok(NO_ORDINAL);
        };
        let ordinal = column.ordinal_of(term)?;
        Ok(match self.direction {
            Direction::Ascending => ordinal,
            Direction::Descending => ORDINAL_MAX.saturating_sub(ordinal),
        })
    }

    /// Appends the value behind a number to a sort key.
    fn push_key(&self, number: u64, key: &mut SortKey, term: &mut Vec<u8>) -> Result<()> {
        match &self.column {
            Some(column) if number != NO_ORDINAL => {
                term.clear();
                let ordinal = match self.direction {
                    Direction::Ascending => number,
                    Direction::Descending => ORDINAL_MAX.saturating_sub(number),
                };
                column.term(ordinal, term)?;
                push_key(key, Some(term), self.direction);
            }
            _ => push_key(key, None, self.direction),
        }
        Ok(())
    }
}

/// How hits are ordered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sorting<'q> {
    pub(crate) orders: &'q [Order],
    /// How many hits are kept.
    pub(crate) hits_max: u64,
    /// There is one shard alone: if it has one segment, ordinals order all hits, and no value is
    /// read.
    pub(crate) is_alone: bool,
}

impl Sorting<'_> {
    /// Offers the hits of one shard to `top`, segment by segment, those with the best values first.
    /// The others are skipped once they can't have any of the first hits.
    pub(crate) fn shard(
        &self,
        shard: &dyn Shard,
        place: u32,
        docs: &DocSet,
        top: &mut TopHits,
        meter: &mut Meter,
    ) -> Result<()> {
        let Some(first) = self.orders.first() else {
            return Ok(());
        };
        let paths: SmallVec<[&Path; 4]> = self.orders.iter().map(|order| &order.path).collect();
        let mut segments = shard.segments_to_order(&paths, docs)?;
        let mut of_terms = self.orders.iter().map(|order| order.is_by_terms_in(shard));
        if !of_terms.try_fold(true, |all, one| one.map(|one| all && one))? {
            for segment in segments {
                let docs = segment.docs.as_ref().unwrap_or(docs);
                self.by_values(&segment.columns, place, docs, top, meter)?;
            }
            return Ok(());
        }
        let is_alone = self.is_alone && segments.len() == 1;
        segments.sort_by(|one, other| {
            let (one, other) = (best_in(one, first), best_in(other, first));
            compare_best(&one, &other, first.direction)
        });
        let mut columns = Vec::with_capacity(self.orders.len());
        for segment in segments {
            let is_late = match best_in(&segment, first) {
                Best::Unknown => false,
                Best::Nothing => is_outranked(None, first.direction, top),
                Best::Term(term) => is_outranked(Some(term), first.direction, top),
            };
            if is_late && !is_alone {
                break;
            }
            columns.clear();
            let directions = self.orders.iter().map(|order| order.direction);
            let of_orders = directions.zip(segment.columns);
            columns.extend(of_orders.map(|(direction, column)| OrderColumn { direction, column }));
            let docs = segment.docs.as_ref().unwrap_or(docs);
            self.segment(&columns, is_alone, place, docs, top, meter)?;
        }
        Ok(())
    }

    /// Offers the hits of one segment to `top`. The first ones are found by ordinals; only their
    /// values are read.
    fn segment(
        &self,
        columns: &[OrderColumn<'_>],
        is_alone: bool,
        place: u32,
        docs: &DocSet,
        top: &mut TopHits,
        meter: &mut Meter,
    ) -> Result<()> {
        let Some((first, others)) = columns.split_first() else {
            return Ok(());
        };
        let mut key_max = NO_ORDINAL;
        if let Some((worst, _)) = top.worst()
            && let Some(term) = first_term(worst, first.direction)
        {
            key_max = first.key_max(&term)?;
        }
        let entry_bytes = size_of::<(Numbers, u32)>();
        let entries = usize::try_from(docs.len().min(self.hits_max)).unwrap_or(usize::MAX);
        let bytes = entries.saturating_mul(entry_bytes);
        meter.take(bytes, SORTING)?;
        let own = self.first_in_segment(first, others, docs, key_max)?;
        let mut term = Vec::new();
        for (place_among, (numbers, doc)) in (0u64..).zip(own.into_sorted()) {
            let mut key = SortKey::new();
            debug_assert!(
                numbers.len() == columns.len(),
                "a hit has a number for each order"
            );
            if is_alone {
                key.extend(place_among.to_be_bytes());
            } else {
                for (column, number) in columns.iter().zip(numbers) {
                    column.push_key(number, &mut key, &mut term)?;
                }
            }
            // They come in order: if one is not among the first, none behind it is.
            if !offer(top, key, Hit { shard: place, doc }, meter)? {
                break;
            }
        }
        meter.give(bytes);
        Ok(())
    }

    /// Offers the hits of a segment whose ordinals don't order them: the values of each document
    /// are read.
    fn by_values(
        &self,
        columns: &[Option<Box<dyn Column + '_>>],
        place: u32,
        docs: &DocSet,
        top: &mut TopHits,
        meter: &mut Meter,
    ) -> Result<()> {
        let mut batches = Batches::new(docs);
        let (mut keys, mut ordinals, mut term) = (Vec::new(), Ordinals::default(), Vec::new());
        while let Some(batch) = batches.next_batch() {
            keys.clear();
            keys.resize(batch.len(), SortKey::new());
            for (order, column) in self.orders.iter().zip(columns) {
                let Some(column) = column else {
                    for key in &mut keys {
                        push_value(key, None, order);
                    }
                    continue;
                };
                column.ordinals(batch, &mut ordinals)?;
                for (key, own) in keys.iter_mut().zip(ordinals.iter()) {
                    let mut values = Values::new();
                    for ordinal in own {
                        term.clear();
                        column.term(*ordinal, &mut term)?;
                        values.push(Value::of_term(&term));
                    }
                    let value = order.best_of(values.into_iter());
                    push_value(key, value.as_ref(), order);
                }
            }
            for (key, doc) in keys.drain(..).zip(batch) {
                offer(
                    top,
                    key,
                    Hit {
                        shard: place,
                        doc: *doc,
                    },
                    meter,
                )?;
            }
        }
        Ok(())
    }

    /// The first documents of a segment, by their numbers in each order. Documents whose first
    /// number is above `key_max` are left out.
    fn first_in_segment(
        &self,
        first: &OrderColumn<'_>,
        others: &[OrderColumn<'_>],
        docs: &DocSet,
        key_max: u64,
    ) -> Result<Top<(Numbers, u32)>> {
        let mut own: Top<(Numbers, u32)> = Top::new(self.hits_max);
        let mut batches = Batches::new(docs);
        let (mut numbers, mut few, mut of_few) = (Vec::new(), Vec::new(), Vec::new());
        while let Some(batch) = batches.next_batch() {
            first.keys(batch, &mut numbers)?;
            assert!(
                numbers.len() == batch.len(),
                "a column gives one ordinal for each document"
            );
            few.clear();
            of_few.clear();
            for (doc, number) in batch.iter().zip(&numbers) {
                let is_late = own
                    .worst()
                    .is_some_and(|(worst, _)| worst.first().is_some_and(|worst| number > worst));
                if *number <= key_max && !is_late {
                    few.push(*doc);
                    of_few.push(Numbers::from_slice(&[*number]));
                }
            }
            for other in others {
                other.keys(&few, &mut numbers)?;
                assert!(
                    numbers.len() == few.len(),
                    "a column gives one ordinal for each document"
                );
                for (own, number) in of_few.iter_mut().zip(&numbers) {
                    own.push(*number);
                }
            }
            for (doc, numbers) in few.iter().zip(of_few.drain(..)) {
                own.offer((numbers, *doc));
            }
        }
        Ok(own)
    }
}

/// The best value that a hit of a segment can have.
enum Best<'s> {
    Unknown,
    Term(&'s [u8]),
    /// None has a value.
    Nothing,
}

fn best_in<'a>(segment: &'a Segment<'_>, order: &Order) -> Best<'a> {
    let Some(Some(column)) = segment.columns.first() else {
        return Best::Nothing;
    };
    match (column.zone(), order.direction) {
        (None, _) => Best::Unknown,
        (Some((least, _)), Direction::Ascending) => Best::Term(least),
        (Some((_, most)), Direction::Descending) => Best::Term(most),
    }
}

/// Puts segments with better values first, those without any last.
fn compare_best(one: &Best<'_>, other: &Best<'_>, direction: Direction) -> Ordering {
    let place = |best: &Best<'_>| match best {
        Best::Unknown => 0,
        Best::Term(_) => 1,
        Best::Nothing => 2,
    };
    match (one, other, direction) {
        (Best::Term(one), Best::Term(other), Direction::Ascending) => one.cmp(other),
        (Best::Term(one), Best::Term(other), Direction::Descending) => other.cmp(one),
        _ => place(one).cmp(&place(other)),
    }
}

/// What a document is ordered by in one segment: a number for each order.
type Numbers = SmallVec<[u64; 2]>;
