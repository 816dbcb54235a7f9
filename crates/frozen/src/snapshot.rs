//! [`Snapshot`]: open partitions in an order, which never change, and indexes over all of them.
//!
//! # Invariants
//! 1. Partitions ascend by their names; a partition's place is that of its shard.
//! 2. The zone maps of a field are gathered when a query first needs them, from the tables of the
//!    files, without reading a section.
//! 3. A merged field gives the same answers as the files.

use crate::merged_fields::MergedFields;
use crate::partition::Partition;
use crate::zone_maps::ZoneMaps;
use crate::{FrozenFile, Result};
use arc_swap::ArcSwap;
use quire_env::Env;
use quire_model::Document;
use quire_query::{
    Answer, Hit, Leaf, Merged, Options, Order, Path, Places, Prepared, Shard, Shards,
};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The partitions of a [`FrozenFolder`](crate::FrozenFolder), as they were at some time. It keeps
/// files open that were replaced or removed since. Any number of threads query it at once, without
/// locks.
#[derive(Debug)]
pub struct Snapshot {
    partitions: Arc<[Arc<Partition>]>,
    /// By path, of fields that some document has.
    zone_maps: ArcSwap<HashMap<Path, Arc<ZoneMaps>>>,
    merged: Arc<MergedFields>,
}

impl Snapshot {
    /// Of partitions that ascend by their names. Fields are merged in `merged_bytes_max` bytes;
    /// `former` is the snapshot that this one comes after.
    pub(crate) fn new(
        env: &Arc<dyn Env>,
        partitions: Vec<Arc<Partition>>,
        merged_bytes_max: u64,
        former: Option<&Snapshot>,
    ) -> Snapshot {
        assert!(
            partitions.is_sorted_by(|a, b| a.name < b.name),
            "partitions ascend by their names"
        );
        let partitions: Arc<[_]> = partitions.into();
        let wanted = former.map(|former| former.merged.wanted());
        let merged = MergedFields::new(
            Arc::clone(env),
            Arc::clone(&partitions),
            merged_bytes_max,
            wanted.into_iter().flatten(),
        );
        Snapshot {
            partitions,
            zone_maps: ArcSwap::default(),
            merged: Arc::new(merged),
        }
    }

    pub(crate) fn partitions(&self) -> &[Arc<Partition>] {
        &self.partitions
    }

    pub(crate) fn partition(&self, name: &str) -> Option<&Arc<Partition>> {
        let found = self
            .partitions
            .binary_search_by(|one| one.name.as_str().cmp(name));
        self.partitions.get(found.ok()?)
    }

    /// The files, in the order of their names. The place of one is [`Hit::shard`].
    pub fn files(&self) -> impl ExactSizeIterator<Item = &FrozenFile> {
        self.partitions.iter().map(|one| &one.file)
    }

    /// How many documents there are.
    #[must_use]
    pub fn documents(&self) -> u64 {
        self.files().map(|file| u64::from(file.documents())).sum()
    }

    /// Answers a query from all files as if they were one.
    ///
    /// # Errors
    /// As [`Prepared::answer_from`]: files that can't have a hit are skipped, so they can't fail.
    pub fn query(&self, query: &Prepared, options: &Options<'_>) -> quire_query::Result<Answer> {
        query.answer_from(self, options)
    }

    /// Passes each hit to a function until it breaks: see [`Prepared::for_each`].
    ///
    /// # Errors
    /// As [`query`](Snapshot::query).
    pub fn for_each(
        &self,
        query: &Prepared,
        options: &Options<'_>,
        each: &mut dyn FnMut(Hit) -> ControlFlow<()>,
    ) -> quire_query::Result<Answer> {
        query.for_each_from(self, options, each)
    }

    /// The document of a hit, if documents are stored.
    ///
    /// # Errors
    /// The file is damaged or can't be read.
    pub fn document(&self, hit: Hit) -> Result<Option<Document>> {
        match self.partitions.get(hit.shard as usize) {
            Some(one) => one.file.read_document(hit.doc),
            None => Ok(None),
        }
    }

    /// Calls `read` with the payload of a hit; false if it has none.
    ///
    /// # Errors
    /// The file is damaged or can't be read.
    pub fn payload(&self, hit: Hit, read: &mut dyn FnMut(&[u8])) -> quire_query::Result<bool> {
        match self.shard(hit.shard) {
            Some(shard) => shard.payload(hit.doc, read),
            None => Ok(false),
        }
    }

    /// Calls `read` with the zone maps of a field. It updates no count that threads share.
    fn with_zone_maps<T>(&self, path: &Path, read: impl FnOnce(&ZoneMaps) -> T) -> Result<T> {
        match self.zone_maps.load().get(path) {
            Some(zone_maps) => Ok(read(zone_maps)),
            None => Ok(read(&*self.gather_zone_maps(path)?)),
        }
    }

    #[cold]
    fn gather_zone_maps(&self, path: &Path) -> Result<Arc<ZoneMaps>> {
        let zone_maps = Arc::new(ZoneMaps::gather(self.files(), path)?);
        // Fields that no document has are not kept: there is no bound on their number.
        if !zone_maps.is_empty() {
            self.zone_maps.rcu(|all| {
                let mut all = HashMap::clone(all);
                all.insert(path.clone(), Arc::clone(&zone_maps));
                all
            });
        }
        Ok(zone_maps)
    }
}

impl Shards for Snapshot {
    fn count(&self) -> u32 {
        u32::try_from(self.partitions.len()).unwrap_or(u32::MAX)
    }

    fn shard(&self, place: u32) -> Option<&dyn Shard> {
        let one = self.partitions.get(place as usize)?;
        Some(&one.file)
    }

    fn candidates(&self, leaf: &Leaf) -> quire_query::Result<Option<Places>> {
        Ok(self.with_zone_maps(&leaf.path, |zone_maps| zone_maps.candidates(&leaf.test))?)
    }

    fn best_first(&self, order: &Order) -> quire_query::Result<Option<Arc<[u32]>>> {
        let best_first = self.with_zone_maps(&order.path, |zone_maps| {
            zone_maps.best_first(order.direction)
        });
        Ok(Some(best_first?))
    }

    fn merged(&self, query: &Prepared) -> quire_query::Result<Option<Arc<dyn Merged>>> {
        let mut uses = Vec::new();
        query.each_use(&mut |path, purpose| uses.push((path, purpose)));
        let mut known = Vec::with_capacity(uses.len());
        for one in uses {
            // A field that no file has needs no merging.
            if !self.with_zone_maps(one.0, ZoneMaps::is_empty)? {
                known.push(one);
            }
        }
        Ok(self.merged.shard(&known))
    }
}
