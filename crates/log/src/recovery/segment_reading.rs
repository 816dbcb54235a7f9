//! A segment while an inspection reads it.

use crate::Result;
use crate::format::block::{BlockHeader, BlockKind, Salt};
use crate::format::footer::{self, footer_bytes};
use crate::format::index::BlockIndex;
use crate::reading::walk::BlockWalk;
use quire_env::ReadFile;
use quire_model::Position;
use quire_pack::Dictionary;
use std::path::PathBuf;
use std::sync::Arc;

/// A segment being read.
#[derive(Debug)]
pub(crate) struct SegmentReading {
    pub(crate) path: PathBuf,
    pub(crate) salt: Salt,
    pub(crate) base: Position,
    /// Base of the next segment.
    pub(crate) next_base: Option<Position>,
    /// The next segment is unsynced, so this one may get its footer late.
    pub(crate) next_is_unsynced: bool,
    pub(crate) file: Arc<dyn ReadFile>,
    pub(crate) file_bytes: u64,
    pub(crate) walk: BlockWalk,
    /// The dictionary of this segment, if it has one that can be read.
    pub(crate) dictionary: Option<Arc<Dictionary>>,
    /// Compaction removed records of it.
    pub(crate) compacted: bool,
    /// What its footer should say; `None` after any damage.
    pub(crate) index: Option<BlockIndex>,
    /// Bytes proven durable so far.
    pub(crate) durable: u64,
    /// The group of records that continues in the next block, if one does.
    pub(crate) unfinished: Option<Unfinished>,
    /// Bytes that were reported as read.
    pub(crate) reported: u64,
}

/// Where a group began whose end was not read yet.
#[derive(Debug)]
pub(crate) struct Unfinished {
    pub(crate) first: Position,
    pub(crate) offset: u64,
    pub(crate) blocks: u64,
}

impl SegmentReading {
    pub(crate) fn footer(&self) -> Result<Option<BlockIndex>> {
        footer::load(self.file.as_ref(), self.file_bytes, self.base, self.salt)
    }

    /// Whether the bytes that were not read yet can't be a footer, even a damaged one: they are
    /// longer than that, or hold blocks of records from `next` on.
    pub(crate) fn remainder_is_no_footer(&mut self, next: Position) -> Result<bool> {
        let offset = self.walk.offset;
        let remaining = self.file_bytes.saturating_sub(offset);
        if let Some(index) = &self.index
            && remaining > footer_bytes(index.entries().len())
        {
            return Ok(true);
        }
        let is_later =
            |header: &BlockHeader| header.kind == BlockKind::Records && header.first >= next;
        let later = self
            .walk
            .find_header(offset, &mut |_, header| is_later(header))?;
        Ok(later.is_some())
    }
}
