//! [`Layout`]: the partitions that a collection has now. A split or a merge replaces it by another
//! one.
//!
//! # Invariants
//! 1. Who writes holds the layout for as long as that takes, until all is acknowledged. It is
//!    replaced while nobody does: all that was acknowledged is in the new partitions.
//! 2. The partitions of a layout that was replaced are closed afterwards. A reader that meets a
//!    closed one reads from the newer layout.

use crate::Result;
use crate::partitions_before::{Before, Zero, is_history, spread};
use crate::retention::PartitionRetention;
use crate::write_gate::{Gated, WriteGate};
use quire_collection::{Expiry, Partition, RetentionRule, Write};
use quire_model::{Key, Position};
use std::sync::Arc;

/// The one of `partitions` that a key belongs to, of any collection with as many.
///
/// # Panics
/// If there are none.
pub fn partition_of(key: &Key, partitions: u32) -> u32 {
    // The hash's range is cut into equal parts: u64 hash × partitions / 2^64. So each of n
    // partitions is k of n × k, one after the other.
    let scaled = u128::from(key.hash64()) * u128::from(partitions);
    let partition = (scaled >> 64) as u32;
    assert!(
        partition < partitions,
        "every key belongs to one of the collection's partitions"
    );
    partition
}

/// The partitions of an open collection, and what runs with them.
#[derive(Debug)]
pub(crate) struct Layout {
    /// At least one.
    partitions: Arc<[Partition]>,
    /// What there was before each split and each merge.
    before: Vec<Before>,
    /// The jobs that delete documents by the retention settings, one a partition; none where
    /// retention is off.
    retention: Vec<Arc<PartitionRetention>>,
    gate: Arc<WriteGate>,
}

impl Layout {
    /// Begins the jobs of retention, if there are to be any.
    pub(crate) fn new(
        partitions: Vec<Partition>,
        before: Vec<Before>,
        rule: Option<RetentionRule>,
    ) -> Layout {
        assert!(!partitions.is_empty(), "a collection has a partition");
        assert!(
            is_history(&before, partitions.len() as u32),
            "splits and merges lead to these partitions"
        );
        let start = |rule| {
            let partitions = partitions.iter();
            let jobs = partitions.map(move |partition| PartitionRetention::start(partition, rule));
            jobs.collect()
        };
        Layout {
            retention: rule.map(start).unwrap_or_default(),
            partitions: partitions.into(),
            before,
            gate: Arc::default(),
        }
    }

    pub(crate) fn partitions(&self) -> &Arc<[Partition]> {
        &self.partitions
    }

    pub(crate) fn retention(&self) -> &[Arc<PartitionRetention>] {
        &self.retention
    }

    /// How many partitions there were at first, if there were others.
    pub(crate) fn first_partitions(&self) -> Option<u32> {
        self.before.first().map(Before::partitions)
    }

    /// Positions of now, or of a time before splits and merges, as one of each partition of now.
    ///
    /// # Errors
    /// `Invalid` if there never was this number of partitions.
    pub(crate) fn spread(&self, seen: &[Position]) -> Result<Vec<Position>> {
        spread(seen, self.partitions.len(), &self.before, Zero::Begin)
    }

    /// The partition that a key belongs to.
    pub(crate) fn partition_of(&self, key: &Key) -> u32 {
        partition_of(key, self.partitions.len() as u32)
    }

    /// As [`partition_of`](Layout::partition_of), the partition itself.
    pub(crate) fn of(&self, key: &Key) -> &Partition {
        &self.partitions[self.partition_of(key) as usize]
    }

    /// Has a partition delete what has expired, if these writes to it may.
    pub(crate) fn expect_expired(&self, partition: u32, writes: &[Write]) {
        let expires = |write: &Write| matches!(write.expiry, Expiry::At(_));
        if writes.iter().any(expires)
            && let Some(retention) = self.retention.get(partition as usize)
        {
            retention.expect_expired();
        }
    }
}

impl Gated for Layout {
    fn gate(&self) -> &Arc<WriteGate> {
        &self.gate
    }
}
