//! Where a cursor gets its data blocks: from a map of the file, the block cache, or chunks of
//! the file that it reads ahead.
//!
//! A scan goes through what may be looked at in the map; the system is told ahead what a longer one
//! will come to. Elsewhere its first blocks come through the cache, as those of point reads do: a
//! short scan may be done again. What a longer one finds there it takes; the rest it reads ahead
//! and past the cache, so that it costs few calls and drives nothing out. Flushes and compactions
//! see each block once, and do not use the cache at all.

use super::block::{Block, BlockCursor};
use super::footer::HEADER_BYTES;
use super::frame::{self, Handle};
use super::node::Leaf;
use super::prefetched::Prefetched;
use super::reader::Table;
use crate::direction::Direction;
use crate::entry::Entry;
use crate::{Result, SmallBytes};
use bytes::Bytes;
use quire_env::{Cached, Charge};
use std::ops::Deref;
use std::sync::Arc;

/// Bytes read at once by flushes and compactions, which have more of them prefetched: a compaction
/// of many tables has a buffer for each.
const SEQUENTIAL_BYTES: u64 = 64 << 10;

/// Bytes read at once by a scan, at least and at most: there may be many, and they may be kept for
/// long.
const SCAN_BYTES_MIN: u64 = 16 << 10;
const SCAN_BYTES_MAX: u64 = 64 << 10;

/// The first bytes of a scan, this many, come through the cache, whether it holds them or not.
const CACHED_BYTES: u64 = 64 << 10;

/// The system is told ahead of this many bytes of a map that a scan will read.
const WILL_NEED_BYTES: u64 = 256 << 10;

/// How a cursor reads its blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// With the block cache, as reads do.
    Cached,
    /// Past the cache: for flushes and compactions.
    Sequential,
}

/// A data block that a cursor is in.
#[derive(Debug)]
pub(super) enum Held {
    /// What is kept of it holds it.
    Shared(Arc<Block>),
    /// Its bytes are those of a map, which are checked for now only: what is kept of it is copied.
    Mapped(Block),
}

impl Held {
    /// The entry that a cursor in it is on, to keep.
    pub(super) fn entry(&self, cursor: &BlockCursor) -> Entry {
        match self {
            Held::Shared(block) => cursor.entry(block),
            Held::Mapped(block) => Entry {
                kind: cursor.kind(),
                value: SmallBytes::copy_from_slice(cursor.value(block)),
            },
        }
    }
}

impl Deref for Held {
    type Target = Block;

    #[inline]
    fn deref(&self) -> &Block {
        match self {
            Held::Shared(block) => block,
            Held::Mapped(block) => block,
        }
    }
}

/// The data blocks of a table, for one cursor. What is read ahead is charged to the budget.
#[derive(Debug)]
pub(super) struct Blocks {
    access: Access,
    /// Bytes of blocks that came through the cache.
    cached: u64,
    /// A chunk of the file, and where it begins.
    buffer: Bytes,
    offset: u64,
    /// Bytes to read next.
    ahead: u64,
    /// What is prefetched, for one who reads the file from its beginning to its end.
    prefetched: Prefetched,
    /// Bytes that were looked at in the map, less what was then said of those that come.
    looked_at: i64,
    charge: Charge,
}

impl Blocks {
    pub(super) fn new(table: &Table, access: Access) -> Blocks {
        Blocks {
            access,
            cached: 0,
            buffer: Bytes::new(),
            offset: 0,
            ahead: match access {
                Access::Cached => SCAN_BYTES_MIN,
                Access::Sequential => SEQUENTIAL_BYTES,
            },
            prefetched: Prefetched::default(),
            looked_at: 0,
            charge: table.budget.charge(0),
        }
    }

    /// The data block numbered `index` below `leaf`, `None` if there is none; those that come next
    /// are next on the way.
    ///
    /// # Errors
    /// `Corrupt`, or those of the machine.
    pub(super) fn get(
        &mut self,
        table: &Table,
        leaf: &Leaf,
        index: usize,
        direction: Direction,
    ) -> Result<Option<Held>> {
        let Some(handle) = leaf.handle(index) else {
            return Ok(None);
        };
        if self.access == Access::Cached
            && let Some(mapped) = &table.mapped
            && mapped.shows(leaf, index)
        {
            self.say_what_comes(table, handle, direction);
            return Ok(Some(Held::Mapped(mapped.block(&table.file, handle)?)));
        }
        if self.buffered(handle).is_none() && self.access == Access::Cached {
            if self.cached < CACHED_BYTES {
                let block = table.child(leaf, index)?;
                self.cached += block.as_ref().map_or(0, |block| block.bytes());
                return Ok(block.map(Held::Shared));
            }
            if let Some(block) = table.cached_child(leaf, index) {
                // Where much is cached, less is worth reading.
                self.ahead = (self.ahead / 2).max(SCAN_BYTES_MIN);
                return Ok(Some(Held::Shared(block)));
            }
        }
        if self.access == Access::Cached {
            table.counters.block_reads.add(1);
        }
        let stored = self.stored(table, handle, direction)?;
        let damaged = table.file.damaged(handle.offset);
        let opened = frame::open(table.file.footer.salt, handle.offset, &stored);
        let opened = opened.map_err(&damaged)?;
        if opened.as_stored && table.mapped.is_some() {
            leaf.set_in_place(index);
        }
        let block = Block::parse(opened.contents).map_err(damaged)?;
        Ok(Some(Held::Shared(Arc::new(block))))
    }

    /// Tells the system what comes after the block at `handle`, once a scan has gone on for a
    /// while.
    fn say_what_comes(&mut self, table: &Table, handle: Handle, direction: Direction) {
        self.looked_at += handle.bytes as i64;
        if self.looked_at < SCAN_BYTES_MAX as i64 {
            return;
        }
        // The next time in the middle of what is said now.
        self.looked_at -= WILL_NEED_BYTES as i64 / 2;
        let start = match direction {
            Direction::Forwards => handle.end(),
            Direction::Backwards => handle.offset.saturating_sub(WILL_NEED_BYTES),
        };
        table.file.io.will_need(start, WILL_NEED_BYTES);
    }

    /// The stored bytes at `handle`, and with them those that come next.
    fn stored(&mut self, table: &Table, handle: Handle, direction: Direction) -> Result<Bytes> {
        if let Some(stored) = self.buffered(handle) {
            return Ok(stored);
        }
        table.file.check(handle)?;
        let ahead = self.ahead.max(handle.bytes);
        let (start, end) = match direction {
            Direction::Forwards => {
                let data_end = table.file.properties.filter_offset.max(handle.end());
                (handle.offset, data_end.min(handle.offset + ahead))
            }
            Direction::Backwards => {
                let data_start = (HEADER_BYTES as u64).min(handle.offset);
                let start = handle.end().saturating_sub(ahead);
                (start.max(data_start), handle.end())
            }
        };
        let next = match direction {
            Direction::Forwards => end,
            Direction::Backwards => start.saturating_sub(ahead),
        };
        let io = &table.file.io;
        if self.access == Access::Cached {
            io.will_need(next, ahead);
        } else if let Some(more) = self.prefetched.before(start..end, io.prefetch_bytes()) {
            io.will_need(more.start, more.end - more.start);
        }
        // The old buffer goes before the new one comes.
        self.buffer = Bytes::new();
        self.charge.resize(end - start);
        self.buffer = table.file.io.read_at(start, (end - start) as usize)?;
        self.offset = start;
        if self.access == Access::Cached {
            self.ahead = (2 * self.ahead).min(SCAN_BYTES_MAX);
        }
        Ok(self.buffered(handle).unwrap_or_default())
    }

    fn buffered(&self, handle: Handle) -> Option<Bytes> {
        let start = usize::try_from(handle.offset.checked_sub(self.offset)?).ok()?;
        let end = start.checked_add(usize::try_from(handle.bytes).ok()?)?;
        (end <= self.buffer.len()).then(|| self.buffer.slice(start..end))
    }
}
