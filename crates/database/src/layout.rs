//! [`Layout`]: the partitions that a collection has now. A split replaces it by another one.
//!
//! # Invariants
//! 1. Who writes holds the layout for as long as that takes, until all is acknowledged. A split
//!    replaces it while nobody does: all that was acknowledged is in the new partitions.
//! 2. The partitions of a layout that was replaced are closed afterwards. A reader that meets a
//!    closed one reads from the newer layout.

use crate::cursor::expand_cursor;
use crate::retention::PartitionRetention;
use crate::write_gate::{Gated, WriteGate};
use crate::{Error, Result};
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

/// A position of each partition that there is now, or that there was before a split, as one of each
/// of the `partitions` of now: that of an old partition holds for all that it has become. `before`
/// says how many there were before each split.
///
/// # Errors
/// `Invalid` if there never was this number of partitions.
pub(crate) fn spread(
    seen: &[Position],
    partitions: usize,
    before: &[u32],
) -> Result<Vec<Position>> {
    let had = before.iter().any(|count| *count as usize == seen.len());
    let spread = (had || seen.len() == partitions).then(|| expand_cursor(seen, partitions));
    spread.flatten().ok_or_else(|| {
        let what = format!("{} positions for {partitions} partitions", seen.len());
        Error::Invalid(what)
    })
}

/// The partitions of an open collection, and what runs with them.
#[derive(Debug)]
pub(crate) struct Layout {
    /// At least one.
    partitions: Arc<[Partition]>,
    /// How many there were before each split.
    before: Vec<u32>,
    /// The jobs that delete documents by the retention settings, one a partition; none where
    /// retention is off.
    retention: Vec<Arc<PartitionRetention>>,
    gate: Arc<WriteGate>,
}

impl Layout {
    /// Begins the jobs of retention, if there are to be any.
    pub(crate) fn new(
        partitions: Vec<Partition>,
        before: Vec<u32>,
        rule: Option<RetentionRule>,
    ) -> Layout {
        assert!(!partitions.is_empty(), "a collection has a partition");
        assert!(
            before
                .iter()
                .all(|count| partitions.len().is_multiple_of(*count as usize)),
            "a split makes a multiple of the partitions"
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

    /// Positions of now, or of a time before a split, as one of each partition of now: that of an
    /// old partition holds for all that it has become.
    ///
    /// # Errors
    /// `Invalid` if there never was this number of partitions.
    pub(crate) fn spread(&self, seen: &[Position]) -> Result<Vec<Position>> {
        spread(seen, self.partitions.len(), &self.before)
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
