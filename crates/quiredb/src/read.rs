//! Consistent reads over all partitions of a collection.

use crate::{Collection, Result};
use quire_collection::{Found, PartitionScan, PartitionView};
use quire_model::{Key, Position};
use quire_seeded::{Bug, seeded};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::fmt;
use std::ops::RangeBounds;

/// A consistent read: each partition as of one position. It pins memory and files while it is held.
#[derive(Debug, Clone)]
pub struct View {
    collection: Collection,
    partitions: Vec<PartitionView>,
}

impl View {
    pub(crate) fn new(collection: Collection, partitions: Vec<PartitionView>) -> View {
        View {
            collection,
            partitions,
        }
    }

    pub(crate) fn partitions(&self) -> &[PartitionView] {
        &self.partitions
    }

    /// The collection that it is of.
    pub fn collection(&self) -> &Collection {
        &self.collection
    }

    /// The last position that it sees in each partition.
    pub fn positions(&self) -> Vec<Position> {
        self.partitions
            .iter()
            .map(PartitionView::position)
            .collect()
    }

    /// How many documents there are.
    pub fn count(&self) -> u64 {
        self.partitions.iter().map(PartitionView::count).sum()
    }

    /// The document under `key`.
    ///
    /// # Errors
    /// `Corrupt` if the bytes on disk are damaged.
    pub fn get(&self, key: &Key) -> Result<Option<Found>> {
        Ok(self.partitions[self.collection.partition_of(key) as usize].get(key)?)
    }

    /// The documents under many keys, in the order asked for; each partition is asked once.
    ///
    /// # Errors
    /// `Corrupt` if the bytes on disk are damaged.
    pub fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Found>>> {
        get_many(&self.collection, keys, |partition, keys| {
            self.partitions[partition].get_many(keys)
        })
    }

    /// The documents of one partition, in key order.
    pub(crate) fn scan_partition(&self, number: u32) -> Result<Option<PartitionScan>> {
        let scan = |partition: &PartitionView| {
            partition.scan(std::ops::Bound::Unbounded, std::ops::Bound::Unbounded)
        };
        let partition = self.partitions.get(number as usize);
        Ok(partition.map(scan).transpose()?)
    }

    /// The documents in a range of keys, in key order.
    ///
    /// # Errors
    /// `Corrupt` if the bytes on disk are damaged.
    pub fn scan(&self, range: impl RangeBounds<Key>) -> Result<Scan> {
        let mut scan = Scan {
            heads: BinaryHeap::new(),
            failed: None,
        };
        for partition in &self.partitions {
            scan.push(partition.scan(range.start_bound(), range.end_bound())?);
        }
        Ok(scan)
    }
}

/// The documents under many keys, in the order asked for: `get` is asked once for each partition
/// that has any, by number.
pub(crate) fn get_many(
    collection: &Collection,
    keys: &[Key],
    get: impl Fn(usize, &[&Key]) -> quire_collection::Result<Vec<Option<Found>>>,
) -> Result<Vec<Option<Found>>> {
    let mut found: Vec<Option<Found>> = Vec::new();
    found.resize_with(keys.len(), || None);
    let partitions = collection.partitions().len();
    let mut by_partition: Vec<(Vec<usize>, Vec<&Key>)> = vec![Default::default(); partitions];
    for (index, key) in keys.iter().enumerate() {
        let (indices, part) = &mut by_partition[collection.partition_of(key) as usize];
        indices.push(index);
        part.push(key);
    }
    for (partition, (indices, part)) in by_partition.into_iter().enumerate() {
        if part.is_empty() {
            continue;
        }
        for (index, document) in indices.into_iter().zip(get(partition, &part)?) {
            found[index] = document;
        }
    }
    Ok(found)
}

/// Documents in key order, merged from the partitions. Ends after the first error.
pub struct Scan {
    heads: BinaryHeap<Head>,
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
struct Head {
    found: Found,
    rest: PartitionScan,
}

impl PartialEq for Head {
    fn eq(&self, other: &Head) -> bool {
        self.found.key == other.found.key
    }
}

impl Eq for Head {}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Head) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Head {
    fn cmp(&self, other: &Head) -> Ordering {
        other.found.key.cmp(&self.found.key)
    }
}

impl Scan {
    fn push(&mut self, mut rest: PartitionScan) {
        match rest.next() {
            Some(Ok(found)) => self.heads.push(Head { found, rest }),
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
        let Head { found, rest } = self.heads.pop()?;
        self.push(rest);
        Some(Ok(found))
    }
}
