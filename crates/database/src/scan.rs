//! A scan over all partitions of a collection, merged in key order.

use crate::Result;
use quire_collection::{Found, PartitionScan};
use quire_seeded::{Bug, seeded};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::fmt;

/// Documents in key order, merged from the partitions. Ends after the first error.
pub struct Scan {
    heads: BinaryHeap<PartitionHead>,
    failed: Option<crate::Error>,
}

impl fmt::Debug for Scan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scan")
            .field("partitions", &self.heads.len())
            .finish_non_exhaustive()
    }
}

/// The next document of one partition, and what follows it. The smallest key is the greatest head.
struct PartitionHead {
    found: Found,
    rest: PartitionScan,
}

impl PartialEq for PartitionHead {
    fn eq(&self, other: &PartitionHead) -> bool {
        self.found.key == other.found.key
    }
}

impl Eq for PartitionHead {}

impl PartialOrd for PartitionHead {
    fn partial_cmp(&self, other: &PartitionHead) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for PartitionHead {
    fn cmp(&self, other: &PartitionHead) -> Ordering {
        other.found.key.cmp(&self.found.key)
    }
}

impl Scan {
    pub(crate) fn new(partitions: Vec<PartitionScan>) -> Scan {
        let mut scan = Scan {
            heads: BinaryHeap::new(),
            failed: None,
        };
        for partition in partitions {
            scan.push(partition);
        }
        scan
    }

    fn push(&mut self, mut rest: PartitionScan) {
        match rest.next() {
            Some(Ok(found)) => self.heads.push(PartitionHead { found, rest }),
            Some(Err(error)) => self.failed = Some(error.into()),
            None if seeded(Bug::ScanEndsWithFirstPartition) => self.heads.clear(),
            None => {}
        }
    }
}

impl Iterator for Scan {
    type Item = Result<Found>;

    fn next(&mut self) -> Option<Result<Found>> {
        if let Some(error) = self.failed.take() {
            self.heads.clear();
            return Some(Err(error));
        }
        let PartitionHead { found, rest } = self.heads.pop()?;
        self.push(rest);
        Some(Ok(found))
    }
}
