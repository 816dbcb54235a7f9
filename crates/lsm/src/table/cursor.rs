//! Goes through a table in order, or in the reverse order.

use super::block::BlockCursor;
use super::blocks::{Access, Blocks, Held};
use super::frame::Handle;
use super::node::{Contents, Leaf, Node};
use super::reader::Table;
use crate::Result;
use crate::direction::{Direction, Start};
use crate::entry::{Entry, EntryRef};
use std::ops::ControlFlow;
use std::sync::Arc;

/// A data block, and where it is.
#[derive(Debug)]
struct Data {
    block: Held,
    offset: u64,
}

/// A place in a table. After an error it is of no use.
#[derive(Debug)]
pub(crate) struct TableCursor {
    table: Arc<Table>,
    access: Access,
    blocks: Blocks,
    direction: Direction,
    /// The number of the index block it is in; `None` past the end.
    top: Option<usize>,
    /// That index block, and the number in it of the data block; `None` past its end.
    leaf: Option<(Arc<Leaf>, Option<usize>)>,
    data: Option<Data>,
    /// The place in that; on no entry if there is none.
    place: BlockCursor,
}

impl TableCursor {
    /// A cursor on the entry where `start` says, to go on from there.
    pub(crate) fn open(table: Arc<Table>, access: Access, start: Start<'_>) -> Result<TableCursor> {
        let mut cursor = TableCursor {
            blocks: Blocks::new(&table, access),
            access,
            table,
            direction: start.direction(),
            top: None,
            leaf: None,
            data: None,
            place: BlockCursor::new(),
        };
        cursor.top = cursor.table.top.place(start);
        cursor.open_leaf(start)?;
        cursor.open_data(start)?;
        cursor.settle()?;
        Ok(cursor)
    }

    /// The key it is on, or `None` past the end.
    #[inline]
    pub(crate) fn key(&self) -> Option<&[u8]> {
        self.place.key()
    }

    /// The first eight bytes of that key as a number.
    #[inline]
    pub(crate) fn word(&self) -> Option<u64> {
        self.place.word()
    }

    /// The entry it is on, where it lies.
    #[inline]
    pub(crate) fn entry_ref(&self) -> Option<EntryRef<'_>> {
        self.place.entry_ref(&self.data.as_ref()?.block)
    }

    /// The entry it is on.
    pub(crate) fn entry(&self) -> Option<Entry> {
        let data = self.data.as_ref()?;
        self.key().map(|_| data.block.entry(&self.place))
    }

    /// Moves on to the entry that comes next on its way. Returns what [`word`](Self::word) is then.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<Option<u64>> {
        if let Some(data) = &self.data {
            let moved = self.place.go(&data.block, self.direction);
            moved.map_err(|damage| self.table.file.damaged(data.offset)(damage))?;
            if let Some(word) = self.place.word() {
                return Ok(Some(word));
            }
        }
        self.settle()?;
        Ok(self.word())
    }

    /// Shows `each` the entry it is on, and values that come next in the same block, while their
    /// keys' words come before `end` on the way. It stays on the last that it showed.
    #[inline]
    pub(crate) fn visit(
        &mut self,
        end: u64,
        each: &mut impl FnMut(EntryRef<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        match &self.data {
            Some(data) => self.place.visit(&data.block, self.direction, end, each),
            None => ControlFlow::Continue(()),
        }
    }

    /// Moves on over ends of blocks until it is on an entry or past the last.
    fn settle(&mut self) -> Result<()> {
        let start = self.direction.start();
        while self.data.is_some() && self.place.key().is_none() {
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
        let leaf = match (self.top, self.access) {
            (None, _) => None,
            (Some(index), Access::Cached) => self.table.child(&self.table.top, index)?,
            (Some(index), Access::Sequential) => self
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
        let file = &self.table.file;
        let contents = file.read(handle)?.contents;
        let leaf = Leaf::parse(contents, false).map_err(file.damaged(handle.offset))?;
        Ok(Arc::new(leaf))
    }

    /// Opens the data block that the cursor is in, at `start`.
    fn open_data(&mut self, start: Start<'_>) -> Result<()> {
        self.data = None;
        self.place.leave();
        let Some((leaf, Some(index))) = &self.leaf else {
            return Ok(());
        };
        let Some(handle) = leaf.handle(*index) else {
            return Ok(());
        };
        let block = self.blocks.get(&self.table, leaf, *index, self.direction)?;
        if let Some(block) = block {
            let damaged = self.table.file.damaged(handle.offset);
            self.place.place(&block, start).map_err(damaged)?;
            self.data = Some(Data {
                block,
                offset: handle.offset,
            });
        }
        Ok(())
    }
}

impl<T: Contents> Node<T> {
    /// The number of the block below where `start` is. A separator is at or after all keys of its
    /// block: what is before a key may be in the block where the key would be, or in the one
    /// before.
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
