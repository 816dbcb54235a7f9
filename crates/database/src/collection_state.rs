//! What an open collection and its views share: name, settings, partitions.

use crate::Result;
use crate::attached::AttachedTriggers;
use crate::retention::PartitionRetention;
use crate::settings::CollectionSettings;
use crate::usage::Usage;
use parking_lot::RwLock;
use quire_collection::{Expiry, Partition, Write};
use quire_env::{Env, Gate};
use quire_model::{Document, Key};
use std::sync::Arc;

/// The one of `count` partitions that a key belongs to.
pub(crate) fn partition_of(key: &Key, count: usize) -> u32 {
    // The hash's range is cut into equal parts: u64 hash × partitions / 2^64.
    let scaled = u128::from(key.hash64()) * count as u128;
    let partition = (scaled >> 64) as u32;
    debug_assert!(
        (partition as usize) < count,
        "every key belongs to one of the collection's partitions"
    );
    partition
}

/// An open collection. Handles and views hold it.
#[derive(Debug)]
pub(crate) struct CollectionState {
    pub(crate) name: String,
    /// What no other collection of any database has.
    pub(crate) identity: [u8; 16],
    pub(crate) usage: Arc<Usage>,
    pub(crate) settings: RwLock<Arc<CollectionSettings>>,
    pub(crate) triggers: AttachedTriggers,
    /// At least one.
    pub(crate) partitions: Vec<Partition>,
    /// The jobs that delete documents by the retention settings, one a partition; none where
    /// retention is off.
    pub(crate) retention: Vec<Arc<PartitionRetention>>,
    /// Notified when something new is visible in any partition. It is the database's, so it is
    /// notified of other collections too.
    pub(crate) changed: Arc<dyn Gate>,
}

impl CollectionState {
    pub(crate) fn env(&self) -> &Arc<dyn Env> {
        // A collection has one partition at least.
        self.partitions[0].env()
    }

    pub(crate) fn settings(&self) -> Arc<CollectionSettings> {
        Arc::clone(&self.settings.read())
    }

    /// The key that a document carries in the collection's key field.
    pub(crate) fn key_of(&self, document: &Document) -> Result<Key> {
        self.settings.read().key_of(document)
    }

    /// The partition that a key belongs to.
    pub(crate) fn partition_of(&self, key: &Key) -> u32 {
        partition_of(key, self.partitions.len())
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

    /// The documents under many keys, in the order of the keys. Calls `get` once for each
    /// partition that has any of them, with the partition's number.
    pub(crate) fn get_many<T>(
        &self,
        keys: &[Key],
        absent: impl Fn() -> T,
        mut get: impl FnMut(usize, &[&Key]) -> quire_collection::Result<Vec<T>>,
    ) -> Result<Vec<T>> {
        let mut found: Vec<T> = Vec::new();
        found.resize_with(keys.len(), absent);
        let partitions = self.partitions.len();
        let mut by_partition: Vec<(Vec<usize>, Vec<&Key>)> = vec![Default::default(); partitions];
        for (index, key) in keys.iter().enumerate() {
            let (indices, part) = &mut by_partition[self.partition_of(key) as usize];
            indices.push(index);
            part.push(key);
        }
        for (partition, (indices, part)) in by_partition.into_iter().enumerate() {
            if part.is_empty() {
                continue;
            }
            let documents = get(partition, &part)?;
            assert_eq!(
                documents.len(),
                part.len(),
                "a partition answers each key that it is given"
            );
            for (index, document) in indices.into_iter().zip(documents) {
                found[index] = document;
            }
        }
        Ok(found)
    }
}
