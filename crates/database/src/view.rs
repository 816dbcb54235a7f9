//! Consistent reads over all partitions of a collection.

use crate::Result;
use crate::collection_state::CollectionState;
use crate::scan::Scan;
use quire_collection::{Found, PartitionView};
use quire_env::Env;
use quire_model::{Key, Position};
use std::ops::RangeBounds;
use std::sync::Arc;

/// A consistent read: each partition as of one position. It pins memory and files while it is held.
#[derive(Debug, Clone)]
pub struct View {
    collection: Arc<CollectionState>,
    partitions: Vec<PartitionView>,
}

impl View {
    pub(crate) fn new(collection: Arc<CollectionState>, partitions: Vec<PartitionView>) -> View {
        assert_eq!(
            partitions.len(),
            collection.partitions.len(),
            "a view has each partition of its collection"
        );
        View {
            collection,
            partitions,
        }
    }

    pub(crate) fn partitions(&self) -> &[PartitionView] {
        &self.partitions
    }

    pub(crate) fn env(&self) -> &Arc<dyn Env> {
        self.collection.env()
    }

    /// The name of the collection.
    pub fn collection_name(&self) -> &str {
        &self.collection.name
    }

    /// How many partitions the collection has.
    pub fn partition_count(&self) -> u32 {
        self.partitions.len() as u32
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

    /// The documents under many keys, in the order of the keys; each partition is read once.
    ///
    /// # Errors
    /// `Corrupt` if the bytes on disk are damaged.
    pub fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Found>>> {
        let get = |partition: usize, keys: &[&Key]| self.partitions[partition].get_many(keys);
        self.collection.get_many(keys, || None, get)
    }

    /// The documents in a range of keys, in key order.
    ///
    /// # Errors
    /// `Corrupt` if the bytes on disk are damaged.
    pub fn scan(&self, range: impl RangeBounds<Key>) -> Result<Scan> {
        let bounds = (range.start_bound(), range.end_bound());
        let scans = self
            .partitions
            .iter()
            .map(|one| one.scan(bounds.0, bounds.1));
        let scans = scans.collect::<quire_collection::Result<Vec<_>>>()?;
        Ok(Scan::new(scans))
    }
}
