//! [`Top`]: the first few in an order, without sorting all.

use std::collections::BinaryHeap;

/// The `limit` smallest of what is offered, in a heap of that size with the largest on top.
#[derive(Debug)]
pub(crate) struct Top<T> {
    limit: usize,
    heap: BinaryHeap<T>,
}

impl<T: Ord> Top<T> {
    pub(crate) fn new(limit: u64) -> Top<T> {
        Top {
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
            heap: BinaryHeap::new(),
        }
    }

    /// The largest that is kept, once `limit` are kept: items that are not smaller need not be
    /// offered.
    pub(crate) fn worst(&self) -> Option<&T> {
        match self.heap.len() >= self.limit {
            true => self.heap.peek(),
            false => None,
        }
    }

    /// Whether nothing is ever kept.
    pub(crate) fn is_nothing(&self) -> bool {
        self.limit == 0
    }

    /// Keeps `item` if it is among the smallest. Returns the item that it replaced, or `item`
    /// itself if it is not kept.
    pub(crate) fn offer(&mut self, item: T) -> Option<T> {
        if self.heap.len() < self.limit {
            self.heap.push(item);
            return None;
        }
        debug_assert!(
            self.heap.len() == self.limit,
            "the heap never exceeds its limit"
        );
        match self.heap.peek_mut() {
            Some(mut worst) if item < *worst => Some(std::mem::replace(&mut *worst, item)),
            _ => Some(item),
        }
    }

    /// What was kept, smallest first.
    pub(crate) fn into_sorted(self) -> Vec<T> {
        self.heap.into_sorted_vec()
    }
}
