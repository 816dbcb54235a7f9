//! [`Batches`]: docids a thousand at a time, as columns are read.

/// Docids in a batch.
const BATCH_DOCS: usize = 1024;

/// Cuts docids into batches, all in the same room.
pub(crate) struct Batches<I> {
    docs: I,
    batch: Vec<u32>,
}

impl<I: Iterator<Item = u32>> Batches<I> {
    pub(crate) fn new(docs: I) -> Batches<I> {
        Batches {
            docs,
            batch: Vec::new(),
        }
    }

    /// The next batch; none at the end.
    pub(crate) fn next(&mut self) -> Option<&[u32]> {
        self.batch.clear();
        self.batch.extend(self.docs.by_ref().take(BATCH_DOCS));
        (!self.batch.is_empty()).then_some(&self.batch)
    }
}
