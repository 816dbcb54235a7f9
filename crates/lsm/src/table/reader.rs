//! A table file open for reading.

use super::block::Block;
use super::filter;
use super::footer::{FOOTER_BYTES, Footer, HEADER_BYTES};
use super::frame::{self, Handle, Opened, TRAILER_BYTES};
use super::mapped::{Mapped, Origin};
use super::node::{Contents, Leaf, Node};
use super::pages::{Answer, Asking, PagedFilter};
use super::properties::Properties;
use super::ranges;
use crate::entry::{Entry, Visit};
use crate::range_tombstones::RangeTombstones;
use crate::{Codec, Damage, Error, Result, TableFiles, TableMeta, TreeContext, TreeSpec};
use quire_env::{BlockCache, BlockKey, Budget, Cached, Charge, Env, ReadFile, Tally};
use quire_seeded::{Bug, seeded};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Index blocks and filter pages lie beside each other, and are few: so many bytes are read along
/// with one.
const NEIGHBOURS_BYTES: u64 = 64 << 10;

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

/// A table file without cache or tree: the checked ends, and blocks by handle.
#[derive(Debug)]
pub(super) struct Frames {
    pub(super) file: Arc<dyn ReadFile>,
    pub(super) bytes: u64,
    pub(super) footer: Footer,
    pub(super) properties: Properties,
    pub(super) top: Block,
    /// The ranges of keys that it deletes from older runs, and the bytes of memory that they take.
    pub(super) tombstones: (RangeTombstones, u64),
    /// CRCs of the top index and the properties.
    pub(super) end_crcs: [u32; 2],
}

/// A corrupt file, and how.
fn corrupt(path: &Path, what: &'static str, offset: u64, expected: u64, found: u64) -> Error {
    Error::Corrupt {
        path: path.to_path_buf(),
        what,
        offset,
        expected,
        found,
    }
}

impl Frames {
    /// Opens the file and checks footer, properties and top index, and that they are those of
    /// `meta`.
    pub(super) fn open(env: &dyn Env, path: &Path, meta: &TableMeta) -> Result<Frames> {
        let file = env.open_read(path)?;
        let bytes = file.len()?;
        if bytes != meta.bytes || bytes < (HEADER_BYTES + FOOTER_BYTES) as u64 {
            return Err(corrupt(
                path,
                "length of a table file",
                bytes,
                meta.bytes,
                bytes,
            ));
        }
        let footer_offset = bytes - FOOTER_BYTES as u64;
        let mut footer = [0; FOOTER_BYTES];
        file.read_exact_at(footer_offset, &mut footer)?;
        let footer = Footer::decode(&footer, footer_offset, path)?;
        if footer.digest != meta.digest {
            return Err(corrupt(
                path,
                "digest of a table file",
                footer_offset + 8,
                meta.digest,
                footer.digest,
            ));
        }
        let top = read_frame(
            file.as_ref(),
            footer.salt,
            Handle {
                offset: footer.top_offset,
                bytes: footer.properties_offset - footer.top_offset,
            },
        )?;
        let end = read_frame(
            file.as_ref(),
            footer.salt,
            Handle {
                offset: footer.properties_offset,
                bytes: footer_offset - footer.properties_offset,
            },
        )?;
        let end_crcs = [top.crc, end.crc];
        let properties = Properties::decode(&end.contents, footer.version)
            .map_err(|damage| damage.in_file(path, footer.properties_offset))?;
        let top =
            Block::parse(top.contents).map_err(|damage| damage.in_file(path, footer.top_offset))?;
        let mut frames = Frames {
            file,
            bytes,
            footer,
            properties,
            top,
            tombstones: (RangeTombstones::default(), 0),
            end_crcs,
        };
        frames.check_properties(meta)?;
        if let Some(handle) = frames.ranges() {
            let contents = frames.read(handle)?.contents;
            frames.tombstones = ranges::decode(&contents, frames.properties.ranges)
                .map_err(frames.damaged(handle.offset))?;
        }
        Ok(frames)
    }

    /// Where the deleted ranges are, if there are any.
    pub(super) fn ranges(&self) -> Option<Handle> {
        let properties = &self.properties;
        (properties.ranges > 0).then(|| Handle {
            offset: properties.ranges_offset,
            bytes: properties.filter_offset - properties.ranges_offset,
        })
    }

    /// Compares the properties with the file's shape and with `meta`.
    fn check_properties(&self, meta: &TableMeta) -> Result<()> {
        let properties = &self.properties;
        let wrong = |what, expected, found| {
            Err(corrupt(
                self.file.path(),
                what,
                self.footer.properties_offset,
                expected,
                found,
            ))
        };
        let counts = [
            ("entries of a table", meta.entries, properties.entries),
            (
                "tombstones of a table",
                meta.tombstones,
                properties.tombstones,
            ),
            ("operands of a table", meta.operands, properties.operands),
            (
                "bytes of filter pages",
                filter_bytes(properties),
                properties
                    .index_offset
                    .wrapping_sub(properties.filter_offset),
            ),
        ];
        for (what, expected, found) in counts {
            if expected != found {
                return wrong(what, expected, found);
            }
        }
        if properties.ranges_offset > properties.filter_offset {
            return wrong(
                "offset of the deleted ranges",
                properties.filter_offset,
                properties.ranges_offset,
            );
        }
        if properties.filter_offset > properties.index_offset {
            return wrong(
                "offset of the filter",
                properties.index_offset,
                properties.filter_offset,
            );
        }
        if properties.index_offset > self.footer.top_offset {
            return wrong(
                "offset of the index",
                self.footer.top_offset,
                properties.index_offset,
            );
        }
        if properties.filter.probes > filter::PROBES_MAX {
            return wrong(
                "probes of a filter",
                u64::from(filter::PROBES_MAX),
                u64::from(properties.filter.probes),
            );
        }
        if properties.smallest != meta.smallest || properties.largest != meta.largest {
            return wrong("key range of a table", meta.entries, properties.entries);
        }
        Ok(())
    }

    /// The frame at `handle`, read from the file and checked.
    pub(super) fn read(&self, handle: Handle) -> Result<Opened> {
        self.check(handle)?;
        read_frame(self.file.as_ref(), self.footer.salt, handle)
    }

    /// The same for a frame whose neighbours will be asked for too: the system begins to read some
    /// of them.
    pub(super) fn read_among_others(&self, handle: Handle) -> Result<Opened> {
        let start = handle.offset / NEIGHBOURS_BYTES * NEIGHBOURS_BYTES;
        self.file.will_need(start, NEIGHBOURS_BYTES);
        self.read(handle)
    }

    /// Refuses a handle that leads out of the file: nothing of its length is allocated.
    pub(super) fn check(&self, handle: Handle) -> Result<()> {
        if handle.end() > self.bytes {
            return Err(corrupt(
                self.file.path(),
                "end of a block",
                handle.offset,
                self.bytes,
                handle.end(),
            ));
        }
        Ok(())
    }

    /// Adds file and offset to damage found in the block at `offset`.
    pub(super) fn damaged(&self, offset: u64) -> impl Fn(Damage) -> Error {
        move |damage| damage.in_file(self.file.path(), offset)
    }

    /// Where the filter page numbered `page` is.
    pub(super) fn filter_page(&self, page: u32) -> Handle {
        Handle {
            offset: self.properties.filter_offset
                + u64::from(page)
                    * (self.properties.filter.whole_page_bytes() + TRAILER_BYTES) as u64,
            bytes: (self.properties.filter.page_bytes(page) + TRAILER_BYTES) as u64,
        }
    }
}

/// Stored bytes of all filter pages.
fn filter_bytes(properties: &Properties) -> u64 {
    let shape = properties.filter;
    u64::from(shape.lines) * filter::LINE_BYTES as u64
        + u64::from(shape.pages()) * TRAILER_BYTES as u64
}

fn read_frame(file: &dyn ReadFile, salt: u64, handle: Handle) -> Result<Opened> {
    let too_long = |_| {
        corrupt(
            file.path(),
            "length of a block",
            handle.offset,
            usize::MAX as u64,
            handle.bytes,
        )
    };
    let stored = file.read_at(
        handle.offset,
        usize::try_from(handle.bytes).map_err(too_long)?,
    )?;
    frame::open(salt, handle.offset, &stored)
        .map_err(|damage| damage.in_file(file.path(), handle.offset))
}

/// A table of a tree. Shared by the runs of all snapshots that see it.
#[derive(Debug)]
pub(crate) struct Table {
    pub(super) frames: Arc<Frames>,
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
        let frames = Arc::new(Frames::open(context.env.as_ref(), &path, &meta)?);
        if frames.properties.tree != spec.id {
            let (expected, found) = (u64::from(spec.id), u64::from(frames.properties.tree));
            return Err(corrupt(
                &path,
                "tree of a table",
                frames.footer.properties_offset,
                expected,
                found,
            ));
        }
        let top = Node::<Leaf>::decode(&frames.top, true)
            .map_err(frames.damaged(frames.footer.top_offset))?;
        Ok(Table {
            _pinned: context
                .budget
                .charge(Cached::bytes(&frames.top) + top.bytes() + frames.tombstones.1),
            filter: PagedFilter::new(Arc::clone(&frames), &context.filters),
            mapped: Mapped::open(&frames, spec, origin)?,
            cached: !spec.mapped || spec.codec != Codec::None,
            frames,
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
        &self.frames.tombstones.0
    }

    /// How many those are.
    pub(crate) fn range_tombstone_count(&self) -> u64 {
        self.frames.properties.ranges
    }

    /// How many of its values have a deadline.
    pub(crate) fn timed(&self) -> u64 {
        self.frames.properties.timed
    }

    /// Whether one of these deadlines has passed.
    pub(crate) fn has_expired(&self, now: u64) -> bool {
        let properties = &self.frames.properties;
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

    /// The page of its filter that knows of keys of this hash, to be asked by [`get`](Self::get).
    pub(crate) fn asking(&self, hash: u64) -> Asking<'_> {
        self.filter.asking(hash)
    }

    /// What the table says of `key`, whose filter hash is `hash`; a value may be lent.
    ///
    /// # Errors
    /// `Corrupt`, or those of the machine.
    pub(crate) fn get(
        &self,
        key: &[u8],
        hash: u64,
        asking: &Asking<'_>,
        visit: &mut Visit<'_>,
    ) -> Result<Option<Entry>> {
        let answer = asking.ask(hash);
        match answer {
            Answer::No => {
                self.counters.filter_checks.add(1);
                self.counters.filter_negatives.add(1);
                return Ok(None);
            }
            Answer::Maybe => self.counters.filter_checks.add(1),
            Answer::Unasked => {}
        }
        let found = self.search(key, visit)?;
        if answer == Answer::Unasked && found.is_none() {
            self.filter.was_no(hash);
        }
        Ok(found)
    }

    /// Has the system begin to read what [`get`](Self::get) will, and says whether the key may be
    /// there.
    pub(crate) fn announce(&self, key: &[u8], hash: u64, asking: &Asking<'_>) -> bool {
        if asking.rules_out(hash) {
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
            self.frames.file.will_need(handle.offset, handle.bytes);
        }
        true
    }

    /// Whether reads of it may wait for the disk, as far as this thread's last ones tell.
    pub(crate) fn may_wait(&self) -> bool {
        self.frames.file.may_wait()
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
            return mapped.get(&self.frames, handle, key, visit);
        }
        let Some(block) = self.child(&leaf, index)? else {
            return Ok(None);
        };
        let found = block.get(key);
        found.map_err(self.frames.damaged(handle.offset))
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
            Some(mapped) if mapped.shows(node, index) => (mapped.copy(&self.frames, handle)?, true),
            _ => {
                self.counters.block_reads.add(1);
                let opened = match T::READ_IN_PLACE {
                    true => self.frames.read(handle)?,
                    false => self.frames.read_among_others(handle)?,
                };
                (opened.contents, opened.as_stored)
            }
        };
        let contents =
            T::parse(contents, self.cached).map_err(self.frames.damaged(handle.offset))?;
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
        // Asked for again: only then is it worth a slot, which costs more to fill than to use.
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
