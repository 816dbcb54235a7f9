//! [`Docids`]: the docids that the rows of an old partition get in the one that it is merged into.

use crate::ordinals::Ordinals;
use quire_model::DocId;
use std::collections::HashMap;

/// The docids in the new partition of the rows of an old one.
#[derive(Debug)]
pub(crate) struct Docids {
    /// The first.
    base: u32,
    /// The docids that it had given when it was gathered end here.
    end: u32,
    /// Those of them that had a row.
    live: Ordinals,
    /// Rows that were made since.
    made: HashMap<u32, DocId>,
}

impl Docids {
    /// Of a partition that has made this number of rows.
    pub(crate) fn new(base: u32, end: u32) -> Docids {
        Docids {
            base,
            end,
            live: Ordinals::default(),
            made: HashMap::new(),
        }
    }

    /// Adds the next row.
    pub(crate) fn push(&mut self, docid: DocId) {
        self.live.push(docid.0.into());
    }

    /// The docid after those of all rows that were gathered; none if there are too many of them.
    pub(crate) fn next(&self) -> Option<u32> {
        let rows = u32::try_from(self.live.count()).ok()?;
        self.base.checked_add(rows)
    }

    /// How many docids all of these have.
    pub(crate) fn given(all: &[Docids]) -> u32 {
        all.last().and_then(Docids::next).unwrap_or(0)
    }

    /// The docid of a row; none if it was no row when it was gathered, and is none since.
    pub(crate) fn of(&self, docid: DocId) -> Option<DocId> {
        if docid.0 >= self.end {
            return self.made.get(&docid.0).copied();
        }
        let ordinal = self.live.ordinal(docid.0.into())?;
        Some(DocId(self.base + ordinal as u32))
    }

    /// Notes the docid of a row that was made since.
    pub(crate) fn made(&mut self, of_old: DocId, docid: DocId) {
        self.made.insert(of_old.0, docid);
    }

    /// Forgets a row that was deleted.
    pub(crate) fn forget(&mut self, of_old: DocId) {
        self.made.remove(&of_old.0);
    }
}
