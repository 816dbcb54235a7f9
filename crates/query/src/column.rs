//! [`Column`]: the values of a field by document.

use crate::Result;
use quire_index::{DocSet, Numbers};
use std::ops::ControlFlow;

/// Which of a document's values it is ordered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The smallest.
    Smallest,
    /// The largest.
    Largest,
}

/// The ordinal that says that a document has no value.
pub const NO_ORDINAL: u64 = u64::MAX;

/// The values of a field by document, as ordinals: numbers whose order is that of the values,
/// within this column alone.
///
/// Ordinals are below [`ordinal_end`](Column::ordinal_end), need not be dense, and stand for one
/// value each. Each call is about a batch of docids, ascending, of some 1,000.
pub trait Column {
    /// The terms of the smallest and the largest value, or wider bounds; none if not known.
    fn zone(&self) -> Option<(&[u8], &[u8])> {
        None
    }

    /// Whether a document may have several values.
    fn has_many(&self) -> bool {
        true
    }

    /// The numbers that ordinals stand for, if they do without being looked up.
    fn numbers(&self) -> Option<Numbers> {
        None
    }

    /// More than any ordinal, and at most [`NO_ORDINAL`]. Small where ordinals are numbers of a
    /// dictionary: what counts by ordinal then takes an array.
    fn ordinal_end(&self) -> u64;

    /// Replaces `out` by one ordinal for each document: of its smallest or its largest value,
    /// [`NO_ORDINAL`] without any.
    fn ends(&self, docs: &[u32], end: End, out: &mut Vec<u64>) -> Result<()>;

    /// Replaces `out` by all values of each document.
    fn ordinals(&self, docs: &[u32], out: &mut Ordinals) -> Result<()>;

    /// Adds to `counts`, by ordinal, how many of some documents have each value. False, and nothing
    /// added, if reading the values of the documents is no slower.
    fn count(&self, docs: &DocSet, counts: &mut [u64]) -> Result<bool> {
        let _ = (docs, counts);
        Ok(false)
    }

    /// Appends the term of the value that an ordinal, which came from this column, stands for.
    fn term(&self, ordinal: u64, out: &mut Vec<u8>) -> Result<()>;

    /// Shows the terms of many ordinals, ascending, until `see` breaks.
    fn each_term(
        &self,
        ordinals: &[u64],
        see: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut term = Vec::new();
        for ordinal in ordinals {
            term.clear();
            self.term(*ordinal, &mut term)?;
            if see(&term).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// The ordinal that separates the values: those below `term` have smaller ordinals, the others
    /// have this one or greater. No value need have it.
    fn ordinal_of(&self, term: &[u8]) -> Result<u64>;
}

/// The values of a batch of documents.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Ordinals {
    /// Where the ordinals of each document end.
    pub ends: Vec<u32>,
    /// The ordinals, document after document; those of one document ascending, each once.
    pub ordinals: Vec<u64>,
}

impl Ordinals {
    /// Removes all.
    pub fn clear(&mut self) {
        self.ends.clear();
        self.ordinals.clear();
    }

    /// Ends a document: its ordinals are those pushed since the one before ended.
    pub fn end_document(&mut self) {
        // A batch has far fewer.
        debug_assert!(
            u32::try_from(self.ordinals.len()).is_ok(),
            "a batch is small"
        );
        self.ends
            .push(u32::try_from(self.ordinals.len()).unwrap_or(u32::MAX));
    }

    /// The ordinals of the document at a place; none past the end.
    #[must_use]
    pub fn of(&self, place: usize) -> &[u64] {
        let start = match place {
            0 => Some(&0),
            _ => self.ends.get(place - 1),
        };
        let end = self.ends.get(place);
        let range = start
            .zip(end)
            .map(|(start, end)| *start as usize..*end as usize);
        range
            .and_then(|range| self.ordinals.get(range))
            .unwrap_or_default()
    }

    /// The ordinals of each document.
    pub fn iter(&self) -> impl Iterator<Item = &[u64]> {
        let starts = std::iter::once(&0).chain(&self.ends);
        starts.zip(&self.ends).map(|(start, end)| {
            let range = *start as usize..*end as usize;
            self.ordinals.get(range).unwrap_or_default()
        })
    }
}
