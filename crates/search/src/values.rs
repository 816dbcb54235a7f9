//! [`Values`]: the terms of a document, field by field. Of a long one it is the [entry](key), so
//! they are small, however large the document.
//!
//! # Invariants
//! 1. Fields ascend by slot, each once, and have one term or more.
//! 2. The terms of a field ascend, each once; those of long values come last.
//! 3. Values of the same document by the same [`Indexer`](super::Indexer) are equal.
//! 4. While they are added, equal ones take room twice at most: a document of millions of equal
//!    values takes little.
//! 5. A field with more terms than [`Limits`] allow has one entry instead of them, of
//!    [`MANY`](key::MANY). Which fields have it follows from the document alone.

use super::key;
use quire_index::term;
use std::collections::BTreeSet;
use std::ops::Range;

/// A field's number in the [`Indexer`](super::Indexer) that gave it. It means nothing elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Slot(pub(crate) u32);

impl Slot {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// See the module. The default is that of a document that is not there.
#[derive(Debug, Default)]
pub(crate) struct Values {
    is_there: bool,
    /// Terms, in the order in which they were found.
    bytes: Vec<u8>,
    /// Where each term is; those of a field are neighbours.
    terms: Vec<(Slot, Range<u32>)>,
    /// Which terms each field has.
    fields: Vec<(Slot, Range<u32>)>,
    /// The number of terms at which equal ones are dropped.
    crowd: usize,
    limits: Limits,
    /// Fields with more terms than are kept.
    many: BTreeSet<Slot>,
    /// Whether the document has more terms than are kept.
    has_many: bool,
}

/// This many terms, equal ones among them, are kept while they are added, however few they are.
const CROWD_MIN: usize = 4096;

/// How many terms of a document are indexed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Of one field.
    pub(crate) field: usize,
    /// Of all fields. In a document with more, those with several terms have too many.
    pub(crate) document: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            field: 8 << 10,
            document: 16 << 10,
        }
    }
}

impl Values {
    /// Whether there is a document.
    pub(crate) fn is_there(&self) -> bool {
        self.is_there
    }

    /// The fields that it has values in, ascending.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (Slot, Terms<'_>)> {
        let terms_of = |range: &Range<u32>| self.terms.get(as_usize(range)).unwrap_or_default();
        self.fields.iter().map(move |(slot, range)| {
            let (bytes, terms) = (self.bytes.as_slice(), terms_of(range));
            (*slot, Terms { bytes, terms })
        })
    }

    /// Bytes of memory that it takes.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        let ranges = self.terms.capacity() + self.fields.capacity();
        self.bytes.capacity() + ranges * size_of::<(Slot, Range<u32>)>()
    }

    /// Becomes those of a document without values.
    pub(super) fn begin(&mut self, limits: Limits) {
        self.is_there = true;
        self.bytes.clear();
        self.terms.clear();
        self.fields.clear();
        self.crowd = CROWD_MIN;
        self.limits = limits;
        self.many.clear();
        self.has_many = false;
    }

    /// The fields with more terms than are kept.
    pub(super) fn many(&self) -> impl Iterator<Item = Slot> {
        self.many.iter().copied()
    }

    /// Adds a value, whose term `encode` appends, or not if it has none.
    pub(super) fn push(&mut self, slot: Slot, encode: impl FnOnce(&mut Vec<u8>) -> bool) {
        if !self.many.is_empty() && self.many.contains(&slot) {
            return;
        }
        let start = self.bytes.len() as u32;
        if encode(&mut self.bytes) {
            self.terms.push((slot, start..self.bytes.len() as u32));
        }
        if self.terms.len() >= self.crowd {
            self.drop_equal();
        }
    }

    /// Drops terms that are there twice, and their bytes.
    fn drop_equal(&mut self) {
        self.sort();
        self.drop_many();
        // The bytes are moved to the front in the order in which they lie.
        self.terms.sort_unstable_by_key(|(_, range)| range.start);
        let mut end = 0;
        for (_, range) in &mut self.terms {
            self.bytes.copy_within(as_usize(range), end as usize);
            *range = end..end + (range.end - range.start);
            end = range.end;
        }
        self.bytes.truncate(end as usize);
        self.crowd = CROWD_MIN.max(2 * self.terms.len());
    }

    /// Leaves one entry of each field with more terms than are kept. The terms are sorted.
    fn drop_many(&mut self) {
        let Limits { field, document } = self.limits;
        let by_field = || self.terms.chunk_by(|(a, _), (b, _)| a == b);
        if !self.has_many {
            // A field counts as one term more than it may have, at most: so does one whose terms
            // are gone. Then it does not matter when they went.
            let count = |terms: &[(Slot, Range<u32>)]| match terms.first() {
                Some((slot, _)) if self.many.contains(slot) => field + 1,
                _ => terms.len().min(field + 1),
            };
            self.has_many = by_field().map(count).sum::<usize>() > document;
        }
        let most = if self.has_many { 1 } else { field };
        let over = by_field().filter(|terms| terms.len() > most);
        let over: BTreeSet<Slot> = over.filter_map(|terms| Some(terms.first()?.0)).collect();
        if over.is_empty() {
            return;
        }
        let mut last = None;
        let bytes = &mut self.bytes;
        self.terms.retain_mut(|(slot, range)| {
            if !over.contains(slot) {
                return true;
            }
            // The first term becomes the entry.
            if let Some(first) = bytes.get_mut(range.start as usize) {
                *first = key::MANY;
            }
            range.end = range.start + 1;
            last.replace(*slot) != Some(*slot)
        });
        self.many.extend(over);
    }

    /// Sorts the terms by field and value, each once.
    fn sort(&mut self) {
        let bytes = self.bytes.as_slice();
        let of = |(slot, range): &(Slot, Range<u32>)| (*slot, slice(bytes, range));
        self.terms.sort_unstable_by(|a, b| of(a).cmp(&of(b)));
        self.terms.dedup_by(|a, b| of(a) == of(b));
    }

    /// Groups what was added by field.
    pub(super) fn finish(&mut self) {
        // Fields come in the order of their slots in most documents, with one value each.
        if !self.terms.is_sorted_by(|(a, _), (b, _)| a < b) {
            self.sort();
        }
        if self.terms.len() > self.limits.field || !self.many.is_empty() {
            self.drop_many();
        }
        let mut begin = 0;
        for of_field in self.terms.chunk_by(|(a, _), (b, _)| a == b) {
            let end = begin + of_field.len() as u32;
            if let Some((slot, _)) = of_field.first() {
                self.fields.push((*slot, begin..end));
            }
            begin = end;
        }
    }
}

fn as_usize(range: &Range<u32>) -> Range<usize> {
    range.start as usize..range.end as usize
}

fn slice<'a>(bytes: &'a [u8], range: &Range<u32>) -> &'a [u8] {
    bytes.get(as_usize(range)).unwrap_or_default()
}

/// The terms that a document has in one field: one or more, ascending, each once. None for a field
/// that it does not have.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Terms<'a> {
    bytes: &'a [u8],
    terms: &'a [(Slot, Range<u32>)],
}

impl<'a> Terms<'a> {
    /// How many.
    pub(crate) fn len(self) -> usize {
        self.terms.len()
    }

    /// The terms.
    pub(crate) fn iter(self) -> impl DoubleEndedIterator<Item = &'a [u8]> {
        self.terms
            .iter()
            .map(move |(_, range)| slice(self.bytes, range))
    }

    /// Whether one is not null.
    pub(crate) fn has_value(self) -> bool {
        // Null comes first.
        self.iter()
            .next_back()
            .is_some_and(|last| last != term::NULL)
    }

    /// The *suffixes* of the postings of these terms, ascending, each once: what a key has behind
    /// the field and before the cluster.
    pub(crate) fn suffixes(self) -> impl Iterator<Item = &'a [u8]> {
        self.iter()
    }

    /// Whether there are several, or more than are kept.
    pub(crate) fn has_several(self) -> bool {
        self.len() > 1 || self.iter().next() == Some(&[key::MANY])
    }

    /// Whether one is of a long value, or there are more than are kept.
    pub(crate) fn has_long(self) -> bool {
        // They come last.
        self.iter().next_back().is_some_and(key::is_long)
    }

    /// Shows the suffix of each posting that a document with these terms is in, each once.
    pub(crate) fn each_suffix(self, mut see: impl FnMut(&[u8])) {
        if self.has_value() {
            see(&[key::PRESENT]);
        }
        if self.has_several() {
            see(&[key::SEVERAL]);
        }
        self.suffixes().for_each(see);
    }
}

impl PartialEq for Terms<'_> {
    fn eq(&self, other: &Terms<'_>) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl Eq for Terms<'_> {}

/// Shows each field that differs, with its terms before and after.
pub(crate) fn each_changed<'a>(
    before: &'a Values,
    after: &'a Values,
    mut see: impl FnMut(Slot, Terms<'a>, Terms<'a>),
) {
    let (mut before, mut after) = (before.fields().peekable(), after.fields().peekable());
    loop {
        let slot = match (before.peek(), after.peek()) {
            (Some((old, _)), Some((new, _))) => *old.min(new),
            (Some((slot, _)), None) | (None, Some((slot, _))) => *slot,
            (None, None) => return,
        };
        let old = before.next_if(|(of, _)| *of == slot);
        let new = after.next_if(|(of, _)| *of == slot);
        let [old, new] = [old, new].map(|found| found.map_or(Terms::default(), |found| found.1));
        if old != new {
            see(slot, old, new);
        }
    }
}
