//! [`Snapshot`]: open partitions in an order, which never change, and indexes over all of them.
//!
//! # Invariants
//! 1. Partitions ascend by their names; a partition's place is that of its shard.
//! 2. The zone maps of a field are gathered when a query first needs them, from the tables of the
//!    files, without reading a section.
//! 3. The directory of a field's values is gathered in the background, when a value is looked up
//!    for the second time that zone maps do not narrow down to a few files.
//! 4. A merged field gives the same answers as the files.

use crate::merged_fields::MergedFields;
use crate::partition::Partition;
use crate::path_map::PathMap;
use crate::top::top;
use crate::value_directory::ValueDirectory;
use crate::zone_maps::{FilesWith, ZoneMaps};
use crate::{FolderOptions, FrozenFile, Result};
use arc_swap::ArcSwap;
use quire_env::{Env, JobClass};
use quire_model::Document;
use quire_query::{
    Answer, Execute, Hit, Leaf, Options, Order, Path, Places, Prepared, Shard, Shards,
};
use smallvec::SmallVec;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The partitions of a [`FrozenFolder`](crate::FrozenFolder), as they were at some time. It keeps
/// files open that were replaced or removed since. Any number of threads query it at once, without
/// locks.
#[derive(Debug)]
pub struct Snapshot {
    partitions: Arc<[Arc<Partition>]>,
    /// By path, of fields that some document has.
    zone_maps: ArcSwap<PathMap<Arc<ZoneMaps>>>,
    merged: Arc<MergedFields>,
    env: Arc<dyn Env>,
    /// Bytes that are left for directories of values.
    directory_bytes: Arc<AtomicU64>,
}

impl Snapshot {
    /// Of partitions that ascend by their names; `former` is the snapshot that this one comes
    /// after.
    pub(crate) fn new(
        env: &Arc<dyn Env>,
        partitions: Vec<Arc<Partition>>,
        options: &FolderOptions,
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
            options.merged_bytes_max,
            wanted.into_iter().flatten(),
        );
        Snapshot {
            partitions,
            zone_maps: ArcSwap::default(),
            merged: Arc::new(merged),
            env: Arc::clone(env),
            directory_bytes: Arc::new(AtomicU64::new(options.directory_bytes_max)),
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

    /// The file at a place, if there is one.
    #[must_use]
    pub fn file(&self, place: u32) -> Option<&FrozenFile> {
        self.partitions.get(place as usize).map(|one| &one.file)
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
    fn with_zone_maps<T>(&self, path: &Path, read: impl FnOnce(&Arc<ZoneMaps>) -> T) -> Result<T> {
        match self.zone_maps.load().get(path) {
            Some(zone_maps) => Ok(read(zone_maps)),
            None => Ok(read(&self.gather_zone_maps(path)?)),
        }
    }

    /// Whether there is a directory of the values of a field.
    #[cfg(test)]
    pub(crate) fn has_directory(&self, path: &str) -> bool {
        let zone_maps = self.zone_maps.load();
        let own = zone_maps.get(&Path::new(path));
        own.is_some_and(|zone_maps| zone_maps.has_directory())
    }

    /// Gathers the directory of a field in the background, if it fits.
    #[cold]
    fn gather_directory(&self, path: &Path, zone_maps: &Arc<ZoneMaps>) {
        let (zone_maps, path) = (Arc::clone(zone_maps), path.clone());
        let (partitions, left) = (
            Arc::clone(&self.partitions),
            Arc::clone(&self.directory_bytes),
        );
        let gather = move || {
            // If a file can't be read, a query on it reports the error.
            let directory = directory_within(&partitions, &path, &left).unwrap_or_default();
            zone_maps.set_directory(directory);
        };
        self.env
            .schedule(JobClass::Compaction, Duration::ZERO, Box::new(gather));
    }

    #[cold]
    fn gather_zone_maps(&self, path: &Path) -> Result<Arc<ZoneMaps>> {
        let zone_maps = Arc::new(ZoneMaps::gather(self.files(), path)?);
        // Fields that no document has are not kept: there is no bound on their number.
        if !zone_maps.is_empty() {
            self.zone_maps.rcu(|all| {
                let mut all = PathMap::clone(all);
                all.insert(path.clone(), Arc::clone(&zone_maps));
                all
            });
        }
        Ok(zone_maps)
    }
}

/// The directory of a field, if it pays and takes no more bytes than are `left`.
fn directory_within(
    partitions: &[Arc<Partition>],
    path: &Path,
    left: &AtomicU64,
) -> Result<Option<ValueDirectory>> {
    let bytes = ValueDirectory::bytes_for(partitions, path)?;
    let take = |left: u64| left.checked_sub(bytes);
    if left
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
        .is_err()
    {
        return Ok(None);
    }
    let directory = ValueDirectory::gather(partitions, path);
    let taken = match &directory {
        Ok(Some(directory)) => directory.bytes(),
        _ => 0,
    };
    assert!(taken <= bytes, "a directory takes what was reserved for it");
    left.fetch_add(bytes - taken, Ordering::Relaxed);
    directory
}

/// The place of the only file that may have documents which fulfil all leaves, if there is one;
/// `maps` are the zone maps of each. Directories come first: mostly one of them knows.
fn only_place(leaves: &[&Leaf], maps: &[&ZoneMaps]) -> Option<u32> {
    let mut all: Option<Places> = None;
    for by_directory in [true, false] {
        for (leaf, maps) in leaves.iter().zip(maps) {
            if maps.has_directory() != by_directory {
                continue;
            }
            all = match (all, maps.known_files_with(&leaf.test)) {
                (Some(mut all), Some(one)) => {
                    all.retain(|place| one.binary_search(place).is_ok());
                    Some(all)
                }
                (all, one) => all.or(one),
            };
            if let Some([place]) = all.as_deref() {
                return Some(*place);
            }
        }
    }
    None
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
        let candidates = self.with_zone_maps(&leaf.path, |zone_maps| {
            match zone_maps.files_with(&leaf.test) {
                FilesWith::Known(places) => places,
                FilesWith::NeedsDirectory(places) => {
                    self.gather_directory(&leaf.path, zone_maps);
                    places
                }
            }
        });
        Ok(candidates?)
    }

    fn best_first(&self, order: &Order) -> quire_query::Result<Option<Arc<[u32]>>> {
        let best_first = self.with_zone_maps(&order.path, |zone_maps| {
            zone_maps.best_first(order.direction)
        });
        Ok(Some(best_first?))
    }

    fn top(
        &self,
        leaves: &[&Leaf],
        order: &Order,
        hits_max: u64,
        show: &mut dyn FnMut(Hit) -> ControlFlow<()>,
    ) -> quire_query::Result<bool> {
        let all = self.zone_maps.load();
        // A field that has no zone maps yet gets them where the query is planned.
        let mut maps = SmallVec::<[&ZoneMaps; 4]>::new();
        for leaf in leaves {
            match all.get(&leaf.path) {
                Some(own) => maps.push(own),
                None => return Ok(false),
            }
        }
        let Some(place) = only_place(leaves, &maps) else {
            return Ok(false);
        };
        let Some(one) = self.partitions.get(place as usize) else {
            return Ok(false);
        };
        let find = |at: usize, path: &Path| {
            let known = || all.get(path).map(AsRef::as_ref);
            if let Some(maps) = maps.get(at).copied().or_else(known) {
                let number = maps.number_in(place);
                return number.map(|number| one.file.field_of(number)).transpose();
            }
            let field = one.file.field_at(path)?;
            if field.is_some() {
                self.gather_zone_maps(path)?;
            }
            Ok(field)
        };
        let Some(docs) = top(leaves, order, hits_max, one.file.documents(), find)? else {
            return Ok(false);
        };
        for doc in docs {
            if show(Hit { shard: place, doc }).is_break() {
                break;
            }
        }
        Ok(true)
    }

    fn with_merged(
        &self,
        query: &Prepared,
        execute: Execute<'_>,
    ) -> quire_query::Result<Option<Answer>> {
        let is_of_no_file = |path: &Path| self.with_zone_maps(path, |maps| maps.is_empty());
        self.merged.with_shard(query, is_of_no_file, execute)
    }
}
