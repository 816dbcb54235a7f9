//! What an open collection and its views share: name, settings, partitions.

use crate::Result;
use crate::attached::AttachedTriggers;
use crate::layout::{Layout, partition_of};
use crate::settings::CollectionSettings;
use crate::usage::Usage;
use crate::write_gate::{read_current, write_current};
use arc_swap::ArcSwap;
use parking_lot::RwLock;
use quire_env::{Env, Gate};
use quire_model::{Document, Key};
use std::sync::Arc;

/// An open collection. Handles and views hold it.
#[derive(Debug)]
pub(crate) struct CollectionState {
    pub(crate) name: String,
    /// What no other collection of any database has.
    pub(crate) identity: [u8; 16],
    pub(crate) env: Arc<dyn Env>,
    pub(crate) usage: Arc<Usage>,
    pub(crate) settings: RwLock<Arc<CollectionSettings>>,
    pub(crate) triggers: AttachedTriggers,
    pub(crate) layout: ArcSwap<Layout>,
    /// Notified when something new is visible in any partition. It is the database's, so it is
    /// notified of other collections too.
    pub(crate) changed: Arc<dyn Gate>,
}

impl CollectionState {
    /// See [`read_current`].
    pub(crate) fn read<T>(&self, read: impl Fn(&Layout) -> Result<T>) -> Result<T> {
        read_current(&self.layout, read)
    }

    /// See [`write_current`].
    pub(crate) fn write<T>(&self, write: impl FnOnce(&Layout) -> T) -> T {
        write_current(&self.layout, |layout| write(layout))
    }

    pub(crate) fn settings(&self) -> Arc<CollectionSettings> {
        Arc::clone(&self.settings.read())
    }

    /// The key that a document carries in the collection's key field.
    pub(crate) fn key_of(&self, document: &Document) -> Result<Key> {
        self.settings.read().key_of(document)
    }
}

/// The documents under many keys of a collection of `partitions`, in the order of the keys. Calls
/// `get` once for each partition that has any of them, with the partition's number.
pub(crate) fn get_many<T>(
    partitions: usize,
    keys: &[Key],
    absent: impl Fn() -> T,
    mut get: impl FnMut(usize, &[&Key]) -> quire_collection::Result<Vec<T>>,
) -> Result<Vec<T>> {
    let mut found: Vec<T> = Vec::new();
    found.resize_with(keys.len(), absent);
    let mut by_partition: Vec<(Vec<usize>, Vec<&Key>)> = vec![Default::default(); partitions];
    for (index, key) in keys.iter().enumerate() {
        let (indices, part) = &mut by_partition[partition_of(key, partitions as u32) as usize];
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
