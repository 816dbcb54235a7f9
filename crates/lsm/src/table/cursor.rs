//! Goes through a table in order, or in the reverse order.

use super::block::{Block, BlockCursor};
use super::frame::{self, Handle};
use super::node::{Contents, Leaf, Node};
use super::reader::Table;
use crate::Result;
use crate::direction::{Direction, Start};
use crate::fold::Entry;
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

/// A data block, where it is, and a place in it.
#[derive(Debug)]
struct Data {
    block: Arc<Block>,
    offset: u64,
    cursor: BlockCursor,
}

/// A place in a table. After an error it is of no use.
#[derive(Debug)]
pub(crate) struct TableCursor {
    table: Arc<Table>,
    source: Source,
    direction: Direction,
    /// The number of the index block it is in; `None` past the end.
    top: Option<usize>,
    /// That index block, and the number in it of the data block; `None` past its end.
    leaf: Option<(Arc<Leaf>, Option<usize>)>,
    data: Option<Data>,
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
            top: None,
            leaf: None,
            data: None,
        };
        cursor.top = cursor.table.top.place(start);
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
            if let Some((leaf, index)) = &mut self.leaf {
                *index = index.and_then(|index| leaf.next(index, self.direction));
                if index.is_none() {
                    let next = |index| self.table.top.next(index, self.direction);
                    self.top = self.top.and_then(next);
                    self.open_leaf(start)?;
                }
            }
            self.open_data(start)?;
        }
        Ok(())
    }

    /// Opens the index block that the cursor is in, at `start`.
    fn open_leaf(&mut self, start: Start<'_>) -> Result<()> {
        let leaf = match (self.top, &self.source) {
            (None, _) => None,
            (Some(index), Source::Cached) => self.table.child(&self.table.top, index)?,
            (Some(index), Source::Sequential(_)) => self
                .table
                .top
                .handle(index)
                .map(|handle| self.read(handle))
                .transpose()?,
        };
        self.leaf = leaf.map(|leaf| {
            let index = leaf.place(start);
            (leaf, index)
        });
        Ok(())
    }

    /// An index block, past the cache.
    fn read(&self, handle: Handle) -> Result<Arc<Leaf>> {
        let frames = &self.table.frames;
        let leaf = Leaf::parse(frames.read(handle)?.0).map_err(frames.damaged(handle.offset))?;
        Ok(Arc::new(leaf))
    }

    /// Opens the data block that the cursor is in, at `start`.
    fn open_data(&mut self, start: Start<'_>) -> Result<()> {
        self.data = None;
        let Some((leaf, Some(index))) = &self.leaf else {
            return Ok(());
        };
        let Some(handle) = leaf.handle(*index) else {
            return Ok(());
        };
        let damaged = self.table.frames.damaged(handle.offset);
        let block = match &mut self.source {
            Source::Cached => self.table.child(leaf, *index)?,
            Source::Sequential(ahead) => {
                let stored = ahead.stored(&self.table, handle)?;
                let contents = frame::open(self.table.frames.footer.salt, handle.offset, &stored);
                let block = contents.and_then(|(contents, _)| Block::parse(contents));
                Some(Arc::new(block.map_err(&damaged)?))
            }
        };
        if let Some(block) = block {
            let mut cursor = BlockCursor::new();
            cursor.place(&block, start).map_err(damaged)?;
            self.data = Some(Data {
                block,
                offset: handle.offset,
                cursor,
            });
        }
        Ok(())
    }
}

impl<T: Contents> Node<T> {
    /// The number of the block below where `start` is. A separator is at or after all keys of its block: what is before a
    /// key may be in the block where the key would be, or in the one before.
    fn place(&self, start: Start<'_>) -> Option<usize> {
        let last = self.len().checked_sub(1)?;
        match start {
            Start::From(key) => Some(self.find(key)).filter(|&index| index <= last),
            Start::Before(key) => Some(self.find(key).min(last)),
            Start::Last => Some(last),
        }
    }

    /// The number of the next block.
    fn next(&self, index: usize, direction: Direction) -> Option<usize> {
        match direction {
            Direction::Forwards => Some(index + 1).filter(|&next| next < self.len()),
            Direction::Backwards => index.checked_sub(1),
        }
    }
}
