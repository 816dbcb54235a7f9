//! [`OpenField`]: the sections of a field that queries have used, opened.
//!
//! Opening a section reads its end, its directory and the table of the file, each of which lies
//! elsewhere: where a query works on a handful of documents, that takes longer than the work. So
//! what opening found is kept side by side, for as long as the file is open.
//!
//! # Invariants
//! 1. What is kept says the same as the file, which never changes.
//! 2. A section is opened when it is first used: what is damaged is an error then, and each time.

use crate::postings::Sets;
use crate::prefix::prefix;
use crate::table::{FieldEntry, SectionKind};
use bytes::Bytes;
use quire_index::{Column, ColumnHead, Dictionary, DictionaryHead, Frame};
use quire_query::TermBounds;
use std::ops::Bound;
use std::sync::OnceLock;

/// The opened sections of a field.
#[derive(Debug)]
pub(crate) struct OpenField {
    /// The prefixes of its bounds: no value has one that is less, or greater.
    least: u64,
    greatest: u64,
    pub(crate) many: bool,
    pub(crate) filterable: bool,
    /// Whether there are docids by value.
    pub(crate) has_postings: bool,
    /// Whether there are codes by document.
    pub(crate) has_codes: bool,
    pub(crate) dictionary: OnceLock<OpenDictionary>,
    pub(crate) counts: OnceLock<OpenColumn>,
    pub(crate) codes: OnceLock<OpenColumn>,
    pub(crate) docids: OnceLock<OpenColumn>,
    pub(crate) sets: OnceLock<OpenSets>,
    /// What the blocks of its codes have in common, if that is known.
    pub(crate) frame: OnceLock<Option<Frame>>,
}

impl OpenField {
    /// A field of which no section is opened; `has` tells which it has.
    pub(crate) fn new(entry: &FieldEntry<Bytes>, has: impl Fn(SectionKind) -> bool) -> OpenField {
        OpenField {
            least: prefix(&entry.least),
            greatest: prefix(&entry.greatest),
            many: entry.many,
            filterable: entry.filterable,
            has_postings: has(SectionKind::Docids),
            has_codes: has(SectionKind::Codes),
            dictionary: OnceLock::new(),
            counts: OnceLock::new(),
            codes: OnceLock::new(),
            docids: OnceLock::new(),
            sets: OnceLock::new(),
            frame: OnceLock::new(),
        }
    }

    /// Whether both bounds lie among the values, as far as their first bytes say.
    #[inline]
    pub(crate) fn surely_contains(&self, (lower, upper): TermBounds<'_>) -> bool {
        let is_among = |bound: Bound<&[u8]>| match bound {
            Bound::Included(term) | Bound::Excluded(term) => {
                (self.least + 1..self.greatest).contains(&prefix(term))
            }
            Bound::Unbounded => false,
        };
        self.least < self.greatest && is_among(lower) && is_among(upper)
    }
}

/// A column and its head.
#[derive(Debug)]
pub(crate) struct OpenColumn {
    bytes: Bytes,
    head: ColumnHead,
}

impl OpenColumn {
    pub(crate) fn new(bytes: &Bytes, column: &Column<'_>) -> OpenColumn {
        OpenColumn {
            bytes: bytes.clone(),
            head: column.head(),
        }
    }

    #[inline]
    pub(crate) fn column(&self) -> Column<'_> {
        Column::with_head(&self.bytes, &self.head)
    }
}

/// Doc sets, and how many.
#[derive(Debug)]
pub(crate) struct OpenSets {
    bytes: Bytes,
    sets: usize,
}

impl OpenSets {
    pub(crate) fn new(bytes: &Bytes, sets: Sets<'_>) -> OpenSets {
        OpenSets {
            bytes: bytes.clone(),
            sets: sets.len(),
        }
    }

    #[inline]
    pub(crate) fn sets(&self) -> Option<Sets<'_>> {
        Sets::of(&self.bytes, self.sets)
    }
}

/// A dictionary and its head.
#[derive(Debug)]
pub(crate) struct OpenDictionary {
    bytes: Bytes,
    head: DictionaryHead,
}

impl OpenDictionary {
    pub(crate) fn new(bytes: &Bytes, dictionary: &Dictionary<'_>) -> OpenDictionary {
        OpenDictionary {
            bytes: bytes.clone(),
            head: dictionary.head(),
        }
    }

    #[inline]
    pub(crate) fn dictionary(&self) -> Dictionary<'_> {
        Dictionary::with_head(&self.bytes, &self.head)
    }
}
