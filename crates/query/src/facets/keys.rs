//! [`Keys`]: the keys of the buckets of a facet, each with a number.
//!
//! A key has a part for each source, which has numbers of its own. A value of a column is made a
//! part once for each ordinal, and then found by it.

use super::column::FieldColumn;
use super::facet::{BucketKey, Buckets, Missing, Source};
use crate::dates::millis_of;
use crate::groups::GroupKey;
use crate::meter::{ENTRY_BYTES, Meter};
use crate::value::number;
use crate::{Result, Value};
use quire_index::term;
use smallvec::SmallVec;
use std::collections::HashMap;

/// Ordinals below this are looked up in an array.
const ARRAY_ORDINALS_MAX: u64 = 1 << 16;

/// Parts of larger ordinals that are kept.
const KEPT_ORDINALS_MAX: usize = 1 << 16;

/// Combinations of the parts of one document.
const COMBINATIONS_MAX: usize = 1 << 16;

const FACETING: &str = "buckets of a facet";

/// The numbers of parts or keys of one document.
type Few = SmallVec<[u32; 2]>;

/// See the module.
#[derive(Debug)]
pub(crate) struct Keys {
    parts: Vec<Parts>,
    /// The numbers of keys by the numbers of their parts; empty if keys have one part.
    tuples: HashMap<SmallVec<[u32; 4]>, u32>,
}

/// The parts that one source has given.
#[derive(Debug, Default)]
struct Parts {
    numbers: HashMap<GroupKey, u32>,
    /// What the ordinals of the segment stand for.
    array: Vec<Option<Converted>>,
    others: HashMap<u64, Converted>,
}

/// What a value was made of.
#[derive(Debug, Clone, Default)]
struct Converted {
    parts: Few,
    /// It has no key, and should have one.
    is_unread: bool,
}

impl Keys {
    pub(crate) fn new(buckets: &Buckets) -> Keys {
        Keys {
            parts: buckets.by.iter().map(|_| Parts::default()).collect(),
            tuples: HashMap::new(),
        }
    }

    /// Forgets what the ordinals of the segment before stood for.
    pub(crate) fn begin_segment(&mut self, fields: &[usize], columns: &[FieldColumn<'_>]) {
        for (parts, field) in self.parts.iter_mut().zip(fields) {
            let end = columns.get(*field).map_or(0, FieldColumn::ordinal_end);
            parts.array.clear();
            parts.others.clear();
            if end <= ARRAY_ORDINALS_MAX {
                parts.array.resize(end as usize, None);
            }
        }
    }

    /// Replaces `keys` by the numbers of the keys of a document, each once. Returns how many of its
    /// values have none and should have one.
    pub(crate) fn of_document(
        &mut self,
        buckets: &Buckets,
        fields: &[usize],
        columns: &mut [FieldColumn<'_>],
        place: usize,
        keys: &mut Vec<u32>,
        meter: &mut Meter,
    ) -> Result<u64> {
        keys.clear();
        let mut unread = 0;
        let mut of_sources: SmallVec<[Few; 2]> = SmallVec::new();
        for ((source, parts), field) in buckets.by.iter().zip(&mut self.parts).zip(fields) {
            let mut few = Few::new();
            if let Some(column) = columns.get_mut(*field) {
                unread += parts.of_document(source, column, place, &mut few, meter)?;
            }
            if few.is_empty() {
                return Ok(unread);
            }
            few.sort_unstable();
            few.dedup();
            of_sources.push(few);
        }
        if let [only] = of_sources.as_slice() {
            keys.extend_from_slice(only);
            return Ok(unread);
        }
        let mut tuples: Vec<SmallVec<[u32; 4]>> = vec![SmallVec::new()];
        for few in &of_sources {
            let longer = tuples.len().saturating_mul(few.len());
            if longer > COMBINATIONS_MAX {
                meter.take(usize::MAX, FACETING)?;
            }
            let extended = tuples.iter().flat_map(|tuple| {
                few.iter().map(move |part| {
                    let mut tuple = tuple.clone();
                    tuple.push(*part);
                    tuple
                })
            });
            tuples = extended.collect();
        }
        for tuple in tuples {
            keys.push(self.number_of(tuple, meter)?);
        }
        Ok(unread)
    }

    /// Shows the numbers of the keys of a value, each once, where keys have one part. Returns
    /// whether it has none and should have one.
    pub(crate) fn of_term(
        &mut self,
        source: &Source,
        term: &[u8],
        meter: &mut Meter,
        each: &mut dyn FnMut(u32, &mut Meter) -> Result<()>,
    ) -> Result<bool> {
        debug_assert!(
            self.parts.len() == 1,
            "a key of several parts has several values"
        );
        let Some(parts) = self.parts.first_mut() else {
            return Ok(false);
        };
        let mut converted = parts.converted(source, term, meter)?;
        converted.parts.sort_unstable();
        converted.parts.dedup();
        converted
            .parts
            .iter()
            .try_for_each(|key| each(*key, meter))?;
        Ok(converted.is_unread)
    }

    /// Adds the keys that other documents have. Returns the number here of each key, by its number
    /// there.
    pub(crate) fn join(&mut self, other: Keys, meter: &mut Meter) -> Result<Vec<u32>> {
        let mut numbers = Vec::with_capacity(other.parts.len());
        for (all, parts) in self.parts.iter_mut().zip(other.parts) {
            let mut of_parts = vec![0; parts.numbers.len()];
            for (term, number) in parts.numbers {
                of_parts[number as usize] = all.number(&term, meter)?;
            }
            numbers.push(of_parts);
        }
        if let [_] = numbers.as_slice() {
            return Ok(numbers.swap_remove(0));
        }
        let mut of_tuples = vec![0; other.tuples.len()];
        for (tuple, number) in other.tuples {
            let parts = numbers.iter().zip(&tuple);
            let tuple = parts.map(|(of_parts, part)| of_parts[*part as usize]);
            of_tuples[number as usize] = self.number_of(tuple.collect(), meter)?;
        }
        Ok(of_tuples)
    }

    /// The number of a key of several parts; there is one afterwards.
    fn number_of(&mut self, tuple: SmallVec<[u32; 4]>, meter: &mut Meter) -> Result<u32> {
        if let Some(number) = self.tuples.get(&tuple) {
            return Ok(*number);
        }
        meter.take(ENTRY_BYTES + 4 * tuple.len(), FACETING)?;
        let number = self.tuples.len() as u32;
        self.tuples.insert(tuple, number);
        Ok(number)
    }

    /// The parts of each key, by its number.
    pub(crate) fn into_keys(self) -> Vec<SmallVec<[GroupKey; 1]>> {
        let parts = self.parts.into_iter().map(|parts| {
            let mut terms = vec![GroupKey::new(); parts.numbers.len()];
            for (term, number) in parts.numbers {
                terms[number as usize] = term;
            }
            terms
        });
        let parts: Vec<Vec<GroupKey>> = parts.collect();
        if let [only] = parts.as_slice() {
            return only
                .iter()
                .map(|term| SmallVec::from([term.clone()]))
                .collect();
        }
        let mut keys = vec![SmallVec::new(); self.tuples.len()];
        for (tuple, number) in self.tuples {
            let terms = parts.iter().zip(tuple);
            keys[number as usize] = terms
                .map(|(terms, at)| terms[at as usize].clone())
                .collect();
        }
        keys
    }
}

impl Parts {
    fn of_document(
        &mut self,
        source: &Source,
        column: &mut FieldColumn<'_>,
        place: usize,
        few: &mut Few,
        meter: &mut Meter,
    ) -> Result<u64> {
        let ordinals: SmallVec<[u64; 4]> = SmallVec::from_slice(column.of(place));
        if ordinals.is_empty() {
            let converted = match &source.missing {
                Missing::LeftOut => return Ok(0),
                Missing::Null => self.number(term::NULL, meter).map(|part| Converted {
                    parts: Few::from_slice(&[part]),
                    is_unread: false,
                })?,
                Missing::As(value) => self.converted(source, value.term(), meter)?,
            };
            few.extend_from_slice(&converted.parts);
            return Ok(u64::from(converted.is_unread));
        }
        let mut unread = 0;
        for ordinal in ordinals {
            let kept = match self.array.get(ordinal as usize) {
                Some(kept) => kept.as_ref(),
                None => self.others.get(&ordinal),
            };
            if let Some(kept) = kept {
                few.extend_from_slice(&kept.parts);
                unread += u64::from(kept.is_unread);
                continue;
            }
            let converted = self.converted(source, column.term(ordinal)?, meter)?;
            few.extend_from_slice(&converted.parts);
            unread += u64::from(converted.is_unread);
            match self.array.get_mut(ordinal as usize) {
                Some(kept) => *kept = Some(converted),
                None => {
                    if self.others.len() >= KEPT_ORDINALS_MAX {
                        self.others.clear();
                    }
                    self.others.insert(ordinal, converted);
                }
            }
        }
        Ok(unread)
    }

    /// The parts of a value.
    fn converted(&mut self, source: &Source, value: &[u8], meter: &mut Meter) -> Result<Converted> {
        let mut converted = Converted::default();
        let cast = match &source.cast {
            None => None,
            Some(cast) => match cast.of_term(value) {
                None => return Ok(converted),
                cast => cast,
            },
        };
        let value = cast.as_ref().map_or(value, Value::term);
        let decoded = term::decode(value);
        let mut push = |value: &Value| {
            converted.parts.push(self.number(value.term(), meter)?);
            Ok(())
        };
        match &source.key {
            BucketKey::Value(wanted) if wanted.accepts(value) => {
                converted.parts.push(self.number(value, meter)?);
            }
            BucketKey::Value(_) => {}
            BucketKey::Interval { width, offset } => {
                let found = decoded.as_ref().and_then(number);
                let start = found.map(|found| interval_start(found, *width, *offset));
                if let Some(start) = start.filter(|start| start.is_finite()) {
                    push(&Value::from(start))?;
                }
            }
            BucketKey::Date(rounding) => {
                let millis = decoded.as_ref().and_then(millis_of);
                match millis.and_then(|millis| rounding.start(millis)) {
                    Some(start) => push(&Value::from(start))?,
                    None => converted.is_unread = true,
                }
            }
            BucketKey::DateRanges(ranges) => match decoded.as_ref().and_then(millis_of) {
                None => converted.is_unread = true,
                Some(millis) => {
                    for (place, range) in (0_i64..).zip(ranges) {
                        if is_within(millis, *range) {
                            push(&Value::from(place))?;
                        }
                    }
                }
            },
        }
        Ok(converted)
    }

    fn number(&mut self, part: &[u8], meter: &mut Meter) -> Result<u32> {
        if let Some(number) = self.numbers.get(part) {
            return Ok(*number);
        }
        meter.take(ENTRY_BYTES + part.len(), FACETING)?;
        let number = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
        assert!(number < u32::MAX, "the memory of a query bounds its keys");
        self.numbers.insert(GroupKey::from_slice(part), number);
        Ok(number)
    }
}

/// Where the interval with a number begins.
pub(crate) fn interval_start(number: f64, width: f64, offset: f64) -> f64 {
    let start = ((number - offset) / width).floor() * width + offset;
    // One zero.
    start + 0.0
}

/// Whether a moment is within a range, its end not included.
pub(crate) fn is_within(millis: i64, (from, to): (Option<i64>, Option<i64>)) -> bool {
    from.is_none_or(|from| from <= millis) && to.is_none_or(|to| millis < to)
}
