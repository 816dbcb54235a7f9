//! [`Gathering`]: the values of one field, of the documents since the last run was written.
//!
//! # Invariants
//! 1. A value is held once, under a number that it gets when it first occurs. A document is a list
//!    of these numbers.
//! 2. The hash of a value of few bytes is these bytes, mixed: no other value has it.
//! 3. A run is sorted by value. The docids of a value ascend, since documents come in docid order.
//!    So runs merge by their values, and the docids of a later run follow those of an earlier one.
//!
//! # A run's part of a field, in a temporary file
//! ```text
//! values     for each, in order: | length | value | docids | the first docid | distances of the
//!            others |
//! documents  for each, in order: | values | the place of each among the run's values, ascending |
//!   lengths, counts, docids and places are variable-length integers
//! ```

use crate::prefix::prefix;
use crate::spool::{Spool, put_number};
use crate::{Error, Result};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

/// Stands for the only number of a document that has no value.
const NONE: u32 = u32::MAX >> 1;
/// Marks the last number of a document.
const LAST: u32 = 1 << 31;

/// Up to this number, the values of a document are compared one by one.
const FEW: usize = 16;

/// The most bytes that fit a hash beside their number.
const SHORT: usize = 7;

/// A value of few bytes as a number that is its own hash: mixing loses nothing.
fn mixed(term: &[u8]) -> Option<u64> {
    let mut bytes = [0; 8];
    bytes.get_mut(..term.len())?.copy_from_slice(term);
    (term.len() <= SHORT).then_some(())?;
    let key = u64::from_le_bytes(bytes) | (term.len() as u64) << 56;
    let spread = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Some(spread ^ spread >> 32)
}

/// The hash is the key.
#[derive(Debug, Default)]
struct Same(u64);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxhash_rust::xxh3::xxh3_64(bytes);
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// The gathered values of one field.
#[derive(Debug, Default)]
pub(crate) struct Gathering {
    /// The values, concatenated, and where each ends.
    text: Vec<u8>,
    ends: Vec<usize>,
    /// The values of at most [`SHORT`] bytes.
    by_bytes: HashMap<u64, u32, BuildHasherDefault<Same>>,
    /// Of the others the last value of each hash; before it, those with the same.
    by_hash: HashMap<u64, u32, BuildHasherDefault<Same>>,
    same_hash: Vec<u32>,
    numbers: Vec<u32>,
    /// Where the numbers of the open document begin.
    open: usize,
}

/// Traits of the values of a run, by which their encoding is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Traits {
    /// All are integers.
    pub(crate) integers: bool,
    /// All are of this length.
    pub(crate) length: Option<usize>,
    /// Bytes of all values, and of the prefixes that each shares with the one before.
    pub(crate) bytes: u64,
    pub(crate) shared: u64,
}

impl Traits {
    /// Of no values.
    pub(crate) const NONE: Traits = Traits {
        integers: true,
        length: None,
        bytes: 0,
        shared: 0,
    };

    /// Of these values and those.
    pub(crate) fn and(self, other: Traits) -> Traits {
        Traits {
            integers: self.integers && other.integers,
            length: match (self.bytes, other.bytes) {
                (0, _) => other.length,
                (_, 0) => self.length,
                _ => self.length.filter(|length| Some(*length) == other.length),
            },
            bytes: self.bytes + other.bytes,
            shared: self.shared + other.shared,
        }
    }

    fn add(self, value: &[u8], before: &[u8]) -> Traits {
        let integer = || {
            let decoded = quire_index::term::decode(value);
            matches!(decoded, Some(quire_model::ordered::OrderedValue::Int(_)))
        };
        self.and(Traits {
            integers: self.integers && integer(),
            length: Some(value.len()),
            bytes: value.len() as u64,
            shared: quire_index::shared(value, before) as u64,
        })
    }
}

/// Where a field's part of a run is, and its traits.
#[derive(Debug, Clone)]
pub(crate) struct FieldRun {
    pub(crate) values: Range<u64>,
    pub(crate) documents: Range<u64>,
    pub(crate) traits: Traits,
}

impl Gathering {
    /// Adds a value of the open document. A value that is added twice counts once.
    pub(crate) fn add(&mut self, term: &[u8]) -> Result<()> {
        let number = self.number(term)?;
        self.add_number(number);
        Ok(())
    }

    /// Adds the value of this number.
    pub(crate) fn add_number(&mut self, number: u32) {
        let open = self.numbers.get(self.open..).unwrap_or_default();
        // Of more, duplicates are removed when the document ends.
        if open.len() >= FEW || !open.contains(&number) {
            self.numbers.push(number);
        }
    }

    /// How many values the open document has.
    pub(crate) fn open_values(&self) -> usize {
        self.numbers.len() - self.open
    }

    /// The number of a value.
    pub(crate) fn number(&mut self, term: &[u8]) -> Result<u32> {
        let next = self.ends.len() as u32;
        let before = match mixed(term) {
            Some(key) => match self.by_bytes.entry(key) {
                Entry::Occupied(found) => return Ok(*found.get()),
                Entry::Vacant(free) => {
                    free.insert(next);
                    NONE
                }
            },
            None => {
                let hash = xxhash_rust::xxh3::xxh3_64(term);
                let mut same = self.by_hash.get(&hash).copied();
                while let Some(number) = same {
                    if self.value(number) == term {
                        return Ok(number);
                    }
                    same = self.same_hash.get(number as usize).copied();
                    same = same.filter(|number| *number != NONE);
                }
                self.by_hash.insert(hash, next).unwrap_or(NONE)
            }
        };
        if next == NONE {
            return Err(Error::TooLarge {
                what: "the values of a run",
                limit: NONE.into(),
                found: NONE.into(),
            });
        }
        self.text.extend_from_slice(term);
        self.ends.push(self.text.len());
        self.same_hash.push(before);
        Ok(next)
    }

    fn value(&self, number: u32) -> &[u8] {
        let number = number as usize;
        let start = number
            .checked_sub(1)
            .and_then(|before| self.ends.get(before));
        let end = self.ends.get(number).copied().unwrap_or(0);
        let range = start.copied().unwrap_or(0)..end;
        self.text.get(range).unwrap_or_default()
    }

    /// Ends the open document.
    pub(crate) fn end_document(&mut self) {
        if self.numbers.len() > self.open + FEW {
            let mut open = self.numbers.split_off(self.open);
            open.sort_unstable();
            open.dedup();
            self.numbers.extend(open);
        }
        if self.numbers.len() == self.open {
            self.numbers.push(NONE);
        }
        if let Some(last) = self.numbers.last_mut() {
            *last |= LAST;
        }
        self.open = self.numbers.len();
    }

    /// Bytes of what it holds, about: it takes up to twice that, and keeps it for the next run.
    pub(crate) fn used(&self) -> usize {
        // A slot of a map takes 17 bytes, and an eighth to a half of the slots are free.
        self.text.len()
            + self.ends.len() * (8 + 4)
            + (self.by_bytes.len() + self.by_hash.len()) * 24
            + self.numbers.len() * 4
    }

    fn capacity(&self) -> usize {
        self.text.capacity()
            + self.ends.capacity() * (8 + 4)
            + (self.by_bytes.capacity() + self.by_hash.capacity()) * 20
            + self.numbers.capacity() * 4
    }

    /// Forgets all, and keeps the memory if most of it was used: the next run is likely like this.
    fn clear(&mut self) {
        if self.capacity() > 2 * self.used() {
            *self = Gathering::default();
            return;
        }
        self.text.clear();
        self.ends.clear();
        self.by_bytes.clear();
        self.by_hash.clear();
        self.same_hash.clear();
        self.numbers.clear();
        self.open = 0;
    }

    /// How many different values there are.
    pub(crate) fn values(&self) -> usize {
        self.ends.len()
    }

    /// Appends its part of the run, whose first document is `first`, and becomes empty.
    pub(crate) fn write_run(
        &mut self,
        first: u32,
        documents: bool,
        out: &mut Spool,
    ) -> Result<FieldRun> {
        let gathered = &*self;
        // By the first eight bytes, which decide most comparisons without reading the values.
        let mut order: Vec<_> = (0..gathered.ends.len() as u32)
            .map(|number| (prefix(gathered.value(number)), number))
            .collect();
        order.sort_unstable_by(|a, b| {
            let whole = || gathered.value(a.1).cmp(gathered.value(b.1));
            a.0.cmp(&b.0).then_with(whole)
        });
        let mut places = vec![0u32; order.len()];
        for (place, (_, number)) in (0..).zip(&order) {
            if let Some(to) = places.get_mut(*number as usize) {
                *to = place;
            }
        }
        let (ends, docids) = gathered.by_place(first, &places);
        assert!(ends.len() == order.len(), "each value has its docids");
        assert!(
            ends.is_sorted(),
            "the docids of a value follow those of the one before"
        );

        let start = out.len();
        let (mut traits, mut before, mut from) = (Traits::NONE, &[][..], 0);
        for ((_, number), end) in order.iter().zip(&ends) {
            let value = gathered.value(*number);
            traits = traits.add(value, before);
            before = value;
            let docids = docids.get(from..*end).unwrap_or_default();
            debug_assert!(docids.is_sorted(), "docids of a value ascend");
            from = *end;
            let bytes = out.bytes();
            put_number(bytes, value.len() as u64);
            bytes.extend_from_slice(value);
            put_number(bytes, docids.len() as u64);
            let mut last = 0;
            for docid in docids {
                put_number(bytes, u64::from(docid - last));
                last = *docid;
            }
            out.settle()?;
        }
        let middle = out.len();
        if documents {
            gathered.write_documents(&places, out)?;
        }
        self.clear();
        Ok(FieldRun {
            values: start..middle,
            documents: middle..out.len(),
            traits,
        })
    }

    /// The docids, by the place of their value and then ascending; where those of each place end.
    fn by_place(&self, first: u32, places: &[u32]) -> (Vec<usize>, Vec<u32>) {
        let place = |number: u32| places.get((number & !LAST) as usize).copied();
        let mut starts = vec![0usize; places.len() + 1];
        for place in self.numbers.iter().filter_map(|number| place(*number)) {
            if let Some(count) = starts.get_mut(place as usize + 1) {
                *count += 1;
            }
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        let mut docids = vec![0; sum];
        let mut docid = first;
        for number in &self.numbers {
            if let Some(at) = place(*number).and_then(|place| starts.get_mut(place as usize)) {
                if let Some(to) = docids.get_mut(*at) {
                    *to = docid;
                }
                *at += 1;
            }
            docid += u32::from(number & LAST != 0);
        }
        // Each start has moved to its end.
        starts.pop();
        (starts, docids)
    }

    fn write_documents(&self, places: &[u32], out: &mut Spool) -> Result<()> {
        let mut of_document = Vec::new();
        for number in &self.numbers {
            of_document.extend(places.get((number & !LAST) as usize));
            if number & LAST != 0 {
                of_document.sort_unstable();
                let bytes = out.bytes();
                put_number(bytes, of_document.len() as u64);
                of_document
                    .drain(..)
                    .for_each(|place: u32| put_number(bytes, place.into()));
                out.settle()?;
            }
        }
        Ok(())
    }
}
