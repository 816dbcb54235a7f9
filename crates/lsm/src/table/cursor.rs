//! Goes through a table in order, or in the reverse order.

use super::block::{Block, BlockCursor};
use super::frame::{self, Handle};
use super::index;
use super::reader::Table;
use crate::direction::{Direction, Start};
use crate::fold::Entry;
use crate::{Damage, Result};
use bytes::Bytes;
use quire_env::{Budget, Charge};
use std::sync::Arc;

/// Bytes read at once by a sequential cursor.
const READ_BYTES: u64 = 256 << 10;

/// How a cursor reads its blocks.
#[derive(Debug, Clone)]
pub(crate) enum Access {
    /// Through the block cache, as point reads do.
    Cached,
    /// Past the cache, ahead and in long reads, from a buffer charged to the budget: for flushes and compactions, which
    /// see each block once.
    Sequential(Arc<Budget>),
}

#[derive(Debug)]
enum Source {
    Cached,
    Sequential(ReadAhead),
}

/// A stretch of the data blocks, read at once.
#[derive(Debug)]
struct ReadAhead {
    buffer: Bytes,
    offset: u64,
    _charge: Charge,
}

impl ReadAhead {
    /// The stored bytes at `handle`.
    fn stored(&mut self, table: &Table, handle: Handle) -> Result<Bytes> {
        if let Some(stored) = self.buffered(handle) {
            return Ok(stored);
        }
        table.frames.check(handle)?;
        let data_end = table.frames.properties.filter_offset.max(handle.end());
        let bytes = (data_end - handle.offset).min(READ_BYTES.max(handle.bytes));
        self.buffer = Bytes::new();
        self.buffer = table.frames.file.read_at(handle.offset, bytes as usize)?;
        self.offset = handle.offset;
        Ok(self.buffered(handle).unwrap_or_default())
    }

    fn buffered(&self, handle: Handle) -> Option<Bytes> {
        let start = usize::try_from(handle.offset.checked_sub(self.offset)?).ok()?;
        let end = start.checked_add(usize::try_from(handle.bytes).ok()?)?;
        (end <= self.buffer.len()).then(|| self.buffer.slice(start..end))
    }
}

/// A block, where it is, and a place in it.
#[derive(Debug)]
struct Level {
    block: Block,
    offset: u64,
    cursor: BlockCursor,
}

/// A place in a table. After an error it is of no use.
#[derive(Debug)]
pub(crate) struct TableCursor {
    table: Arc<Table>,
    source: Source,
    direction: Direction,
    top: BlockCursor,
    leaf: Option<Level>,
    data: Option<Level>,
}

impl TableCursor {
    /// A cursor on the entry where `start` says, to go on from there.
    pub(crate) fn open(
        table: Arc<Table>,
        access: &Access,
        start: Start<'_>,
    ) -> Result<TableCursor> {
        let source = match access {
            Access::Cached => Source::Cached,
            Access::Sequential(budget) => Source::Sequential(ReadAhead {
                buffer: Bytes::new(),
                offset: 0,
                _charge: budget.charge(READ_BYTES.min(table.meta().bytes)),
            }),
        };
        let mut cursor = TableCursor {
            table,
            source,
            direction: start.direction(),
            top: BlockCursor::new(),
            leaf: None,
            data: None,
        };
        let top_offset = cursor.table.frames.footer.top_offset;
        place_in_index(&mut cursor.top, &cursor.table.frames.top, start)
            .map_err(cursor.table.frames.damaged(top_offset))?;
        cursor.open_leaf(start)?;
        cursor.open_data(start)?;
        cursor.settle()?;
        Ok(cursor)
    }

    /// The key it is on, or `None` past the end.
    pub(crate) fn key(&self) -> Option<&[u8]> {
        self.data.as_ref()?.cursor.key()
    }

    /// The entry it is on.
    pub(crate) fn entry(&self) -> Option<Entry> {
        let data = self.data.as_ref()?;
        data.cursor.key().map(|_| data.cursor.entry(&data.block))
    }

    /// Moves on to the entry that comes next on its way.
    pub(crate) fn advance(&mut self) -> Result<()> {
        if let Some(data) = &mut self.data {
            data.cursor
                .go(&data.block, self.direction)
                .map_err(self.table.frames.damaged(data.offset))?;
        }
        self.settle()
    }

    /// Moves on over ends of blocks until it is on an entry or past the last.
    fn settle(&mut self) -> Result<()> {
        let start = self.direction.start();
        while self
            .data
            .as_ref()
            .is_some_and(|data| data.cursor.key().is_none())
        {
            if let Some(leaf) = &mut self.leaf {
                leaf.cursor
                    .go(&leaf.block, self.direction)
                    .map_err(self.table.frames.damaged(leaf.offset))?;
            }
            if self
                .leaf
                .as_ref()
                .is_some_and(|leaf| leaf.cursor.key().is_none())
            {
                let top_offset = self.table.frames.footer.top_offset;
                self.top
                    .go(&self.table.frames.top, self.direction)
                    .map_err(self.table.frames.damaged(top_offset))?;
                self.open_leaf(start)?;
            }
            self.open_data(start)?;
        }
        Ok(())
    }

    /// Opens the index block that the top cursor is on, at `start`.
    fn open_leaf(&mut self, start: Start<'_>) -> Result<()> {
        let frames = &self.table.frames;
        let handle =
            handle(&frames.top, &self.top).map_err(frames.damaged(frames.footer.top_offset))?;
        self.leaf = match (handle, &self.source) {
            (None, _) => None,
            (Some(handle), Source::Cached) => {
                Some(self.level(self.table.block(handle)?, handle, start, place_in_index)?)
            }
            (Some(handle), Source::Sequential(_)) => {
                let block =
                    Block::parse(frames.read(handle)?.0).map_err(frames.damaged(handle.offset))?;
                Some(self.level(block, handle, start, place_in_index)?)
            }
        };
        Ok(())
    }

    /// Opens the data block that the index cursor is on, at `start`.
    fn open_data(&mut self, start: Start<'_>) -> Result<()> {
        let frames = &self.table.frames;
        let handle = match &self.leaf {
            Some(leaf) => handle(&leaf.block, &leaf.cursor).map_err(frames.damaged(leaf.offset))?,
            None => None,
        };
        self.data = match (handle, &mut self.source) {
            (None, _) => None,
            (Some(handle), Source::Cached) => {
                Some(self.level(self.table.block(handle)?, handle, start, BlockCursor::place)?)
            }
            (Some(handle), Source::Sequential(ahead)) => {
                let stored = ahead.stored(&self.table, handle)?;
                let contents = frame::open(frames.footer.salt, handle.offset, &stored);
                let block = contents.and_then(|(contents, _)| Block::parse(contents));
                let block = block.map_err(frames.damaged(handle.offset))?;
                Some(self.level(block, handle, start, BlockCursor::place)?)
            }
        };
        Ok(())
    }

    fn level(
        &self,
        block: Block,
        handle: Handle,
        start: Start<'_>,
        place: fn(&mut BlockCursor, &Block, Start<'_>) -> std::result::Result<(), Damage>,
    ) -> Result<Level> {
        let mut cursor = BlockCursor::new();
        place(&mut cursor, &block, start).map_err(self.table.frames.damaged(handle.offset))?;
        Ok(Level {
            block,
            offset: handle.offset,
            cursor,
        })
    }
}

/// Moves a cursor over an index to the block where `start` is. An entry's key is at or after all keys of its block: what is
/// before a key may be in the block where the key would be, or in the one before.
fn place_in_index(
    cursor: &mut BlockCursor,
    block: &Block,
    start: Start<'_>,
) -> std::result::Result<(), Damage> {
    let Start::Before(key) = start else {
        return cursor.place(block, start);
    };
    cursor.seek(block, key)?;
    match cursor.key() {
        Some(_) => Ok(()),
        None => cursor.last(block),
    }
}

/// The handle that an index cursor is on.
fn handle(block: &Block, cursor: &BlockCursor) -> std::result::Result<Option<Handle>, Damage> {
    cursor
        .key()
        .map(|_| index::decode(cursor.value(block)))
        .transpose()
}
