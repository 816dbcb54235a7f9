//! A scan over all partitions of a collection, merged in key order. A document is read when it is
//! next of all: a large one of each partition would take much memory.

use crate::Result;
use quire_collection::{Found, PartitionScan};
use quire_model::Key;
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

/// A partition and its next document's key. The smallest key is the greatest head.
struct PartitionHead {
    key: Key,
    /// Of its record; 0 if that is in memory.
    bytes: u64,
    scan: PartitionScan,
}

impl PartialEq for PartitionHead {
    fn eq(&self, other: &PartitionHead) -> bool {
        self.key == other.key
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
        other.key.cmp(&self.key)
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

    /// The bytes of the record that is read for the next document; 0 if there is none to be read.
    pub fn next_record_bytes(&self) -> u64 {
        self.heads.peek().map_or(0, |head| head.bytes)
    }

    fn push(&mut self, mut scan: PartitionScan) {
        match scan.peek() {
            Ok(Some((key, bytes))) => self.heads.push(PartitionHead { key, bytes, scan }),
            Err(error) => self.failed = Some(error.into()),
            Ok(None) if seeded(Bug::ScanEndsWithFirstPartition) => self.heads.clear(),
            Ok(None) => {}
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
        let PartitionHead { mut scan, .. } = self.heads.pop()?;
        match scan.next()? {
            Ok(found) => {
                self.push(scan);
                Some(Ok(found))
            }
            Err(error) => {
                self.heads.clear();
                Some(Err(error.into()))
            }
        }
    }
}
