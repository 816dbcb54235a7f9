//! Blocks read where they lie, in a map of their file: nothing is copied but values that somebody
//! keeps, and the block cache holds none of them.
//!
//! # Invariants
//! 1. A block is compared with its checksum at each access: the system may have dropped it, and
//!    read it from the disk again just now. It costs little, as a search in a block
//!    that is not in the processor's caches waits for memory anyway. A cursor compares it when it
//!    comes to the block.
//! 2. A block of a file that was there when the tree was opened is read by a call first: what the
//!    disk can't read is an error then, and in a map it would end the process. What was just
//!    written is in the system's memory, and is looked at at once.
//! 3. Only blocks that are stored as they are, are looked at here.

use super::block::{self, Block};
use super::file::TableFile;
use super::frame::{self, Handle};
use super::node::{Contents, Node};
use crate::entry::{Entry, Visit};
use crate::{BlockCodec, Result, TableDamage, TreeSpec};
use bytes::Bytes;
use quire_env::FileMap;

/// Where a table comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The manifest names it.
    Manifest,
    /// It was written by this process, to the same spec.
    JustWritten,
}

/// A table's file as memory.
#[derive(Debug)]
pub(super) struct Mapped {
    map: FileMap,
    /// Whether all blocks may be looked at, or those alone of which their index block says so.
    all: bool,
}

impl Mapped {
    /// That of the table of `file`; `None` if it is not to be mapped.
    pub(super) fn open(
        file: &TableFile,
        spec: &TreeSpec,
        origin: Origin,
    ) -> Result<Option<Mapped>> {
        if !spec.mapped {
            return Ok(None);
        }
        Ok(Some(Mapped {
            map: file.io.map_at_random()?,
            all: origin == Origin::JustWritten && spec.codec == BlockCodec::None,
        }))
    }

    /// Whether the data block numbered `index` below `node` may be looked at.
    pub(super) fn shows<T: Contents>(&self, node: &Node<T>, index: usize) -> bool {
        self.all || node.is_in_place(index)
    }

    /// Has the processor fetch what is at `offset`.
    pub(super) fn prefetch(&self, offset: u64) {
        self.map.prefetch(offset);
    }

    /// The contents of the data block at `handle`, for who keeps them.
    ///
    /// # Errors
    /// `Corrupt`, or those of [`FileMap::look`].
    pub(super) fn copy(&self, file: &TableFile, handle: Handle) -> Result<Bytes> {
        self.look(file, handle, |contents| {
            Ok(Bytes::copy_from_slice(contents))
        })
    }

    /// What the data block at `handle` says of `key`.
    ///
    /// # Errors
    /// `Corrupt`, or those of [`FileMap::look`].
    pub(super) fn get(
        &self,
        file: &TableFile,
        handle: Handle,
        key: &[u8],
        visit: &mut Visit<'_>,
    ) -> Result<Option<Entry>> {
        let get = |contents: &[u8]| block::visit_entry(contents, key, visit);
        self.look(file, handle, get)
    }

    /// The data block at `handle`, for who goes through it now.
    ///
    /// # Errors
    /// `Corrupt`, or those of [`FileMap::part`].
    pub(super) fn block(&self, file: &TableFile, handle: Handle) -> Result<Block> {
        file.check(handle)?;
        let mut stored = self.map.part(handle.offset, handle.bytes as usize)?;
        let contents = frame::open_as_stored(file.footer.salt, handle.offset, &stored);
        let block = contents.map(<[u8]>::len).and_then(|length| {
            stored.truncate(length);
            Block::parse(stored)
        });
        block.map_err(file.damaged(handle.offset))
    }

    /// What `look` makes of the contents of the data block at `handle`.
    fn look<T>(
        &self,
        file: &TableFile,
        handle: Handle,
        look: impl FnOnce(&[u8]) -> std::result::Result<T, TableDamage>,
    ) -> Result<T> {
        file.check(handle)?;
        let (salt, offset) = (file.footer.salt, handle.offset);
        let looked = self.map.look(offset, handle.bytes as usize, |stored| {
            look(frame::open_as_stored(salt, offset, stored)?)
        })?;
        looked.map_err(file.damaged(offset))
    }
}
