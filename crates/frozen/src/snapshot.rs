//! [`Snapshot`]: open partitions in an order, which never change, and what is known of all of them at once.
//!
//! # Invariants
//! 1. Partitions ascend by their names; a partition's place is that of its shard.
//! 2. What is known of a field is gathered when a query first needs it, from the tables of the
//!    files: no section is touched.
//! 3. What is merged of a field answers as the files do.

use crate::merged_fields::MergedFields;
use crate::partition::Partition;
use crate::zone_maps::Spans;
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

/// The partitions of a [`FrozenFolder`](crate::FrozenFolder), as they were at some time. Files that
/// were replaced or removed since stay open as long as it is there. Any number of threads query it
/// at once, without locks.
#[derive(Debug)]
pub struct Snapshot {
    partitions: Arc<[Arc<Partition>]>,
    /// By path, of fields that some document has.
    spans: ArcSwap<HashMap<Path, Arc<Spans>>>,
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
            spans: ArcSwap::default(),
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
    /// As of [`Prepared::answer_from`]: files that can't have a hit are not asked, so they can't
    /// fail.
    pub fn query(&self, query: &Prepared, options: &Options<'_>) -> quire_query::Result<Answer> {
        query.answer_from(self, options)
    }

    /// Shows each hit to a function until it breaks: see [`Prepared::for_each`].
    ///
    /// # Errors
    /// As of [`query`](Snapshot::query).
    pub fn for_each(
        &self,
        query: &Prepared,
        options: &Options<'_>,
        each: &mut dyn FnMut(Hit) -> ControlFlow<()>,
    ) -> quire_query::Result<Answer> {
        query.for_each_from(self, options, each)
    }

    /// The document of a hit, if documents were kept.
    ///
    /// # Errors
    /// The file is damaged or can't be read.
    pub fn document(&self, hit: Hit) -> Result<Option<Document>> {
        match self.partitions.get(hit.shard as usize) {
            Some(one) => one.file.read_document(hit.doc),
            None => Ok(None),
        }
    }

    /// Shows `read` the payload of a hit; false if it has none.
    ///
    /// # Errors
    /// The file is damaged or can't be read.
    pub fn payload(&self, hit: Hit, read: &mut dyn FnMut(&[u8])) -> quire_query::Result<bool> {
        match self.shard(hit.shard) {
            Some(shard) => shard.payload(hit.doc, read),
            None => Ok(false),
        }
    }

    /// Asks the spans of a field. Threads that ask at once touch no common count.
    fn with_spans<T>(&self, path: &Path, ask: impl FnOnce(&Spans) -> T) -> Result<T> {
        match self.spans.load().get(path) {
            Some(spans) => Ok(ask(spans)),
            None => Ok(ask(&*self.gather_spans(path)?)),
        }
    }

    #[cold]
    fn gather_spans(&self, path: &Path) -> Result<Arc<Spans>> {
        let spans = Arc::new(Spans::gather(self.files(), path)?);
        // What no document has would be without end.
        if !spans.is_empty() {
            self.spans.rcu(|all| {
                let mut all = HashMap::clone(all);
                all.insert(path.clone(), Arc::clone(&spans));
                all
            });
        }
        Ok(spans)
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
        Ok(self.with_spans(&leaf.path, |spans| spans.candidates(&leaf.test))?)
    }

    fn best_first(&self, order: &Order) -> quire_query::Result<Option<Arc<[u32]>>> {
        let by_ordinal = self.with_spans(&order.path, |spans| spans.best_first(order.direction));
        Ok(Some(by_ordinal?))
    }

    fn merged(&self, query: &Prepared) -> quire_query::Result<Option<Arc<dyn Merged>>> {
        let mut uses = Vec::new();
        query.each_use(&mut |path, purpose| uses.push((path, purpose)));
        let mut known = Vec::with_capacity(uses.len());
        for one in uses {
            // Of a field that no file has there is nothing to merge.
            if !self.with_spans(one.0, Spans::is_empty)? {
                known.push(one);
            }
        }
        Ok(self.merged.shard(&known))
    }
}
