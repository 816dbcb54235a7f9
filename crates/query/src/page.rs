//! [`Page`]: the hits of a query without an order, in the order of shards and docids.

use crate::Hit;
use quire_index::DocSet;
use std::ops::ControlFlow;

/// Which hits are still needed.
pub(crate) struct Page<'e> {
    pub(crate) skip: u64,
    pub(crate) left: u64,
    pub(crate) each: &'e mut dyn FnMut(Hit) -> ControlFlow<()>,
}

impl Page<'_> {
    pub(crate) fn show(&mut self, shard: u32, docs: &DocSet) {
        let skipped = self.skip.min(docs.len());
        self.skip -= skipped;
        let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
        for doc in docs.iter().skip(skipped) {
            if self.left == 0 {
                return;
            }
            debug_assert!(self.skip == 0, "hits follow the skipped ones");
            self.left -= 1;
            if (self.each)(Hit { shard, doc }).is_break() {
                self.left = 0;
            }
        }
    }
}
