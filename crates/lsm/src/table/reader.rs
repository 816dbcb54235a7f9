//! A table of a tree, open for reading.

use super::file::{TableFile, corrupt};
use super::frame::Handle;
use super::mapped::{Mapped, Origin};
use super::node::{Contents, Leaf, Node};
use super::paged_filter::{Answer, FilterQuery, PagedFilter};
use crate::entry::{Entry, Visit};
use crate::range_tombstones::RangeTombstones;
use crate::{BlockCodec, Result, TableFiles, TableMeta, TreeContext, TreeSpec};
use quire_env::{BlockCache, BlockKey, Budget, Cached, Charge, Tally};
use quire_seeded::{Bug, seeded};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a tree counts of its reads.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Questions to a filter whose page was in memory.
    pub(crate) filter_checks: Tally,
    /// Answers "no".
    pub(crate) filter_negatives: Tally,
    /// Blocks read from a file.
    pub(crate) block_reads: Tally,
}

/// A table of a tree. Shared by the runs of all snapshots that see it.
#[derive(Debug)]
pub(crate) struct Table {
    pub(super) file: Arc<TableFile>,
    filter: Arc<PagedFilter>,
    pub(super) top: Node<Leaf>,
    pub(super) mapped: Option<Mapped>,
    /// Whether data blocks come from the cache, as far as the tree's spec tells: a few others do
    /// all the same.
    cached: bool,
    meta: TableMeta,
    files: Arc<TableFiles>,
    cache: Arc<BlockCache>,
    owner: u64,
    pub(super) counters: Arc<Counters>,
    obsolete: AtomicBool,
    pub(super) budget: Arc<Budget>,
    _pinned: Charge,
}

impl Table {
    /// Opens a table of the tree of `spec`: reads its footer, properties and top index, which stay
    /// in memory.
    ///
    /// # Errors
    /// `Corrupt` if the file is not the one that `meta` describes, `UnsupportedVersion`, or those
    /// of the machine.
    pub(crate) fn open(
        context: &TreeContext,
        counters: &Arc<Counters>,
        spec: &TreeSpec,
        meta: TableMeta,
        origin: Origin,
    ) -> Result<Table> {
        let path = context.files.path(meta.file)?;
        let file = Arc::new(TableFile::open(context.env.as_ref(), &path, &meta)?);
        if file.properties.tree != spec.id {
            let (expected, found) = (u64::from(spec.id), u64::from(file.properties.tree));
            return Err(corrupt(
                &path,
                "tree of a table",
                file.footer.properties_offset,
                expected,
                found,
            ));
        }
        let top =
            Node::<Leaf>::decode(&file.top, true).map_err(file.damaged(file.footer.top_offset))?;
        let filters = &context.filters;
        let filter = PagedFilter::new(Arc::clone(&file), filters.frames(), filters.job());
        let filter = Arc::new(filter);
        filters.register(&filter);
        Ok(Table {
            _pinned: context
                .budget
                .charge(Cached::bytes(&file.top) + top.bytes() + file.tombstones.1),
            filter,
            mapped: Mapped::open(&file, spec, origin)?,
            cached: !spec.mapped || spec.codec != BlockCodec::None,
            file,
            top,
            owner: match seeded(Bug::CacheKeyedByFileNumber) {
                true => meta.file.number,
                false => context.cache.new_owner(),
            },
            meta,
            files: Arc::clone(&context.files),
            cache: Arc::clone(&context.cache),
            counters: Arc::clone(counters),
            obsolete: AtomicBool::new(false),
            budget: Arc::clone(&context.budget),
        })
    }

    /// What the manifest keeps of it.
    pub(crate) fn meta(&self) -> &TableMeta {
        &self.meta
    }

    /// The ranges of keys that it deletes from older runs.
    pub(crate) fn range_tombstones(&self) -> &RangeTombstones {
        &self.file.tombstones.0
    }

    /// How many those are.
    pub(crate) fn range_tombstone_count(&self) -> u64 {
        self.file.properties.ranges
    }

    /// How many of its values have a deadline.
    pub(crate) fn timed(&self) -> u64 {
        self.file.properties.timed
    }

    /// Whether one of these deadlines has passed.
    pub(crate) fn has_expired(&self, now: u64) -> bool {
        let properties = &self.file.properties;
        properties.timed > 0 && properties.soonest <= now
    }

    /// Says that no manifest names the file any more: it is removed with the last holder of this
    /// table.
    pub(crate) fn set_obsolete(&self) {
        if seeded(Bug::ReplacedFilesRemovedAtOnce) {
            let _ = self.files.remove(self.meta.file);
        }
        self.obsolete.store(true, Ordering::Release);
    }

    /// The query of its filter for keys of this hash, for [`get`](Self::get).
    pub(crate) fn query(&self, hash: u64) -> FilterQuery<'_> {
        self.filter.query(hash)
    }

    /// What the table says of `key`, whose filter hash is `hash`; a value may be shown to the
    /// visitor.
    ///
    /// # Errors
    /// `Corrupt`, or those of the machine.
    pub(crate) fn get(
        &self,
        key: &[u8],
        hash: u64,
        query: &FilterQuery<'_>,
        visit: &mut Visit<'_>,
    ) -> Result<Option<Entry>> {
        let answer = query.answer(hash);
        match answer {
            Answer::No => {
                self.counters.filter_checks.add(1);
                self.counters.filter_negatives.add(1);
                return Ok(None);
            }
            Answer::Maybe => self.counters.filter_checks.add(1),
            Answer::Unknown => {}
        }
        let found = self.search(key, visit)?;
        if answer == Answer::Unknown && found.is_none() {
            self.filter.was_no(hash);
        }
        Ok(found)
    }

    /// Has the system begin to read what [`get`](Self::get) will, and says whether the key may be
    /// there.
    pub(crate) fn announce(&self, key: &[u8], hash: u64, query: &FilterQuery<'_>) -> bool {
        if query.rules_out(hash) {
            return false;
        }
        let index = self.top.find(key);
        let handle = match self.cached_child(&self.top, index) {
            Some(leaf) => {
                let index = leaf.find(key);
                let cached = self.cached && self.cached_child(&leaf, index).is_some();
                leaf.handle(index).filter(|_| !cached)
            }
            None => self.top.handle(index),
        };
        if let Some(handle) = handle {
            self.file.io.will_need(handle.offset, handle.bytes);
        }
        true
    }

    /// Whether reads of it may wait for the disk, as far as this thread's last ones tell.
    pub(crate) fn may_wait(&self) -> bool {
        self.file.io.may_wait()
    }

    /// What its blocks say of `key`.
    fn search(&self, key: &[u8], visit: &mut Visit<'_>) -> Result<Option<Entry>> {
        let Some(leaf) = self.child(&self.top, self.top.find(key))? else {
            return Ok(None);
        };
        // A page of the map that lies near is found while the index is searched.
        let index = leaf.find_guessing(key, |offset| {
            self.mapped
                .iter()
                .for_each(|mapped| mapped.prefetch(offset));
        });
        let Some(handle) = leaf.handle(index) else {
            return Ok(None);
        };
        if let Some(mapped) = &self.mapped
            && mapped.shows(&leaf, index)
        {
            return mapped.get(&self.file, handle, key, visit);
        }
        let Some(block) = self.child(&leaf, index)? else {
            return Ok(None);
        };
        let found = block.get(key);
        found.map_err(self.file.damaged(handle.offset))
    }

    /// The block numbered `index` below `node`: from its slot, the cache, or the file. One that is
    /// looked at in a map from now on does not go into the cache.
    pub(super) fn child<T: Contents>(
        &self,
        node: &Node<T>,
        index: usize,
    ) -> Result<Option<Arc<T>>> {
        if let Some(found) = self.cached_child(node, index) {
            return Ok(Some(found));
        }
        let Some(handle) = node.handle(index) else {
            return Ok(None);
        };
        let mapped = self.mapped.as_ref().filter(|_| T::READ_IN_PLACE);
        let (contents, as_stored) = match mapped {
            Some(mapped) if mapped.shows(node, index) => (mapped.copy(&self.file, handle)?, true),
            _ => {
                self.counters.block_reads.add(1);
                let opened = match T::READ_IN_PLACE {
                    true => self.file.read(handle)?,
                    false => self.file.read_among_others(handle)?,
                };
                (opened.contents, opened.as_stored)
            }
        };
        let contents = T::parse(contents, self.cached).map_err(self.file.damaged(handle.offset))?;
        let contents = Arc::new(contents);
        if as_stored && mapped.is_some() {
            node.set_in_place(index);
        } else {
            self.cache.insert(self.key(handle), Arc::clone(&contents));
        }
        Ok(Some(contents))
    }

    /// The block numbered `index` below `node`, if it is in its slot or the cache.
    pub(super) fn cached_child<T: Contents>(&self, node: &Node<T>, index: usize) -> Option<Arc<T>> {
        if let Some(child) = node.child(index) {
            self.cache.found_past();
            return Some(child);
        }
        let found = self.cache.get(self.key(node.handle(index)?))?;
        // Used again: only then is it worth a slot, which costs more to fill than to use.
        node.set_child(index, &found);
        Some(found)
    }

    fn key(&self, handle: Handle) -> BlockKey {
        BlockKey {
            owner: self.owner,
            offset: handle.offset,
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if *self.obsolete.get_mut() {
            // A file that can't be removed is an orphan, which the store removes when it opens
            // next.
            let _ = self.files.remove(self.meta.file);
        }
    }
}
