//! A segment as readers see it: a file, and the index of the blocks that are in it so far.

use crate::directory::LogDirectory;
use crate::format::block::{BLOCK_HEADER_BYTES, BlockFault, BlockHeader, BlockKind, Salt};
use crate::format::dictionary::Dictionaries;
use crate::format::header::{HEADER_BYTES, segment_path};
use crate::format::index::{BlockIndex, BlockRange};
use crate::format::records::RecordBlock;
use crate::writing::syncer::Syncer;
use crate::{Error, Result};
use bytes::Bytes;
use parking_lot::RwLock;
use quire_env::{BlockCache, BlockKey, ReadFile};
use quire_model::Position;
use quire_pack::Dictionary;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Segments in order of position, without a gap between them.
pub(crate) type Segments = Arc<Vec<Arc<Segment>>>;

/// A segment file, open for reading.
#[derive(Debug)]
pub(crate) struct Segment {
    base: Position,
    path: PathBuf,
    salt: Salt,
    file: Arc<dyn ReadFile>,
    /// The same file opened under its name, if `file` was opened before it had that name.
    named: OnceLock<Arc<dyn ReadFile>>,
    /// The owner id of this open file in the block cache.
    owner: u64,
    index: RwLock<BlockIndex>,
    /// Compaction removed records of it.
    compacted: bool,
    file_bytes: AtomicU64,
    dictionaries: Arc<Dictionaries>,
    /// The dictionary of this segment, once a block needed it.
    dictionary: OnceLock<Arc<Dictionary>>,
    /// Syncs its file, if the log rotated to the next segment before this one was durable.
    unsynced: OnceLock<Arc<Syncer>>,
}

impl Segment {
    pub(crate) fn new(
        directory: &LogDirectory,
        base: Position,
        file: Arc<dyn ReadFile>,
        file_bytes: u64,
        index: BlockIndex,
    ) -> Segment {
        Segment {
            base,
            path: segment_path(&directory.dir, base),
            salt: Salt::new(directory.identity, base),
            file,
            named: OnceLock::new(),
            owner: directory.cache.new_owner(),
            dictionaries: directory.dictionaries.clone(),
            dictionary: OnceLock::new(),
            unsynced: OnceLock::new(),
            compacted: index.compaction().is_some(),
            index: RwLock::new(index),
            file_bytes: AtomicU64::new(file_bytes),
        }
    }

    pub(crate) fn base(&self) -> Position {
        self.base
    }

    pub(crate) fn salt(&self) -> Salt {
        self.salt
    }

    /// The path of its name, which it may not have yet.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn file(&self) -> &Arc<dyn ReadFile> {
        self.named.get().unwrap_or(&self.file)
    }

    /// Sets its file opened under its name.
    pub(crate) fn set_named(&self, file: Arc<dyn ReadFile>) {
        // A segment gets its name once.
        self.named.get_or_init(|| file);
    }

    /// Whether compaction may have removed records of this segment.
    pub(crate) fn is_compacted(&self) -> bool {
        self.compacted
    }

    /// Bytes on disk.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.file_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn set_file_bytes(&self, bytes: u64) {
        self.file_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Leaves the segment unsynced: all its blocks are written, and [`sync`](Self::sync) makes them
    /// durable later.
    pub(crate) fn leave_unsynced(&self, syncer: Arc<Syncer>) {
        // The log rotates from a segment once.
        self.unsynced.get_or_init(|| syncer);
    }

    /// Makes the segment durable, if the log rotated from it before it was.
    pub(crate) fn sync(&self) -> Result<()> {
        match self.unsynced.get() {
            Some(syncer) => syncer.sync(self.index.read().end()),
            None => Ok(()),
        }
    }

    /// The index, to read or change. Locked only for a moment.
    pub(crate) fn index(&self) -> &RwLock<BlockIndex> {
        &self.index
    }

    /// The record at `position`, which this segment holds.
    pub(crate) fn record(&self, position: Position, cache: &BlockCache) -> Result<Bytes> {
        self.record_in(&self.block(position, cache)?, position)
    }

    /// The record at `position` of a block of this segment.
    pub(crate) fn record_in(&self, block: &RecordBlock, position: Position) -> Result<Bytes> {
        block.record(position).ok_or_else(|| self.missing(position))
    }

    /// The block that holds `position`: from the cache, or with one read of the file.
    pub(crate) fn block(&self, position: Position, cache: &BlockCache) -> Result<RecordBlock> {
        self.block_at(self.range_of(position)?, cache)
    }

    /// The block at `range`: from the cache, or with one read of the file. A block that was read is
    /// put into the cache.
    pub(crate) fn block_at(&self, range: BlockRange, cache: &BlockCache) -> Result<RecordBlock> {
        let key = BlockKey {
            owner: self.owner,
            offset: range.offset,
        };
        if let Some(payload) = cache.get::<Bytes>(key)
            && let Some(block) =
                RecordBlock::from_checked(range.first, Bytes::clone(&payload), self.compacted)
        {
            return Ok(block);
        }
        let bytes = self
            .file()
            .read_at(range.offset, range.length)
            .map_err(|error| self.read_error(error, range))?;
        let block = self.decode(range, &bytes)?;
        cache.insert(key, Arc::new(block.payload().clone()));
        Ok(block)
    }

    /// Where the block lies that holds `position`.
    pub(crate) fn range_of(&self, position: Position) -> Result<BlockRange> {
        self.index
            .read()
            .find(position)
            .ok_or_else(|| self.missing(position))
    }

    /// Where the blocks lie that hold `positions`, which ascend, up to the first position that is
    /// after this segment. The first position is in this segment.
    pub(crate) fn ranges_of(
        &self,
        mut positions: impl Iterator<Item = Position>,
    ) -> Result<Vec<BlockRange>> {
        let Some(first) = positions.next() else {
            return Ok(Vec::new());
        };
        let index = self.index.read();
        let found = index.find(first).map(|range| {
            let others = positions.map_while(|position| index.find(position));
            std::iter::once(range).chain(others).collect()
        });
        drop(index);
        found.ok_or_else(|| self.missing(first))
    }

    /// Where the block lies that holds `position`. If `position` is in a gap: the block before the
    /// gap, or after it if none is before. `None` if the segment has no blocks.
    pub(crate) fn range_near(&self, position: Position) -> Option<BlockRange> {
        self.index.read().find_or_first(position)
    }

    /// Checks and decodes the block that was read from `range`.
    pub(crate) fn decode(&self, range: BlockRange, bytes: &Bytes) -> Result<RecordBlock> {
        let corrupt = |fault: BlockFault| self.corrupt(range, fault.what);
        let header = self.header_of(range, bytes).map_err(corrupt)?;
        let stored = bytes.slice(BLOCK_HEADER_BYTES.min(bytes.len())..);
        header.check_payload(&stored).map_err(corrupt)?;
        let dictionary = self.dictionary_for(&header)?;
        RecordBlock::decode(&header, stored, dictionary.map(Arc::as_ref)).map_err(corrupt)
    }

    /// Whether the segment has a dictionary before its blocks.
    pub(crate) fn has_dictionary(&self) -> bool {
        self.index.read().start() > HEADER_BYTES as u64
    }

    /// The dictionary, if the segment has one.
    pub(crate) fn load_dictionary(&self) -> Result<Option<Arc<Dictionary>>> {
        match self.has_dictionary() {
            true => self.dictionaries.load(self.file().as_ref(), self.salt),
            false => Ok(None),
        }
    }

    /// The dictionary, if the block under `header` needs it. The first such block costs a read of
    /// the file.
    pub(crate) fn dictionary_for(&self, header: &BlockHeader) -> Result<Option<&Arc<Dictionary>>> {
        if header.with_dictionary && self.dictionary.get().is_none() {
            let loaded = self.load_dictionary().map_err(|error| match error {
                // Name the records of the block: they are what is lost.
                Error::Corrupt {
                    path, offset, what, ..
                } => Error::Corrupt {
                    path,
                    offset,
                    what,
                    positions: Some((header.first, header.last())),
                },
                error => error,
            })?;
            if let Some(dictionary) = loaded {
                let _ = self.dictionary.set(dictionary);
            }
        }
        Ok(self.dictionary.get())
    }

    /// The header of the block that was read from `range`.
    pub(crate) fn header_of(
        &self,
        range: BlockRange,
        bytes: &[u8],
    ) -> std::result::Result<BlockHeader, BlockFault> {
        let header = BlockHeader::decode(bytes, self.salt, range.offset)?;
        let is_meant = match self.compacted {
            false => header.kind == BlockKind::Records && header.next() == range.next,
            true => header.kind == BlockKind::Sparse && header.next() <= range.next,
        };
        if !is_meant || header.first != range.first || header.file_bytes() != range.length as u64 {
            return Err(BlockFault::certain(
                "block that is not the one in the index",
            ));
        }
        Ok(header)
    }

    /// The error of a read of `range`: a file that ends too early is damaged, anything else is an
    /// error of the machine.
    pub(crate) fn read_error(&self, error: quire_env::Error, range: BlockRange) -> Error {
        match error.kind() {
            quire_env::ErrorKind::UnexpectedEnd => {
                self.corrupt(range, "file ends before the block does")
            }
            _ => Error::Env(error),
        }
    }

    pub(crate) fn corrupt(&self, range: BlockRange, what: &'static str) -> Error {
        let last = Position(range.next.0.saturating_sub(1));
        Error::corrupt(self.path(), range.offset, what, Some((range.first, last)))
    }

    /// Why this segment has no record at `position`.
    fn missing(&self, position: Position) -> Error {
        if self.compacted && position >= self.base && position < self.index.read().next() {
            return Error::Superseded { position };
        }
        Error::corrupt(
            self.path(),
            0,
            "segment has no such record",
            Some((position, position)),
        )
    }
}

/// The segment that holds `position`; an error if it was dropped.
pub(crate) fn segment_of(segments: &[Arc<Segment>], position: Position) -> Result<&Arc<Segment>> {
    let after = segments.partition_point(|segment| segment.base() <= position);
    match after.checked_sub(1).and_then(|at| segments.get(at)) {
        Some(segment) => Ok(segment),
        None => {
            let first = segments.first().map_or(position, |segment| segment.base());
            Err(Error::Dropped { position, first })
        }
    }
}
