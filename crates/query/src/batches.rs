//! [`Batches`]: docids, a thousand at a time, as columns are read.

use quire_index::{DocSet, Iter};

/// Docids in a batch.
const BATCH_DOCS: usize = 1024;

/// Cuts the docids of a set into batches, which share one buffer.
pub struct Batches<'a> {
    docs: Iter<'a>,
    batch: Vec<u32>,
}

impl<'a> Batches<'a> {
    /// Of the docids of a set.
    #[must_use]
    pub fn new(docs: &'a DocSet) -> Batches<'a> {
        Batches {
            docs: docs.iter(),
            batch: vec![0; BATCH_DOCS.min(usize::try_from(docs.len()).unwrap_or(BATCH_DOCS))],
        }
    }

    /// The next batch; none at the end.
    pub fn next_batch(&mut self) -> Option<&[u32]> {
        let count = self.docs.next_many(&mut self.batch);
        debug_assert!(count <= BATCH_DOCS, "a batch has a bound");
        self.batch.get(..count).filter(|batch| !batch.is_empty())
    }
}
