//! Output: a compacted segment while it is written.

use crate::directory::LogDirectory;
use crate::format::block::Salt;
use crate::format::footer;
use crate::format::header::HEADER_BYTES;
use crate::format::index::BlockIndex;
use crate::format::records::BlockBuilder;
use crate::options::WRITE_BYTES;
use crate::{Error, Result};
use quire_env::AppendFile;
use quire_model::Position;
use quire_pack::Packer;
use quire_seeded::{Bug, seeded};

/// A compacted segment being written.
pub(crate) struct Output<'a> {
    directory: &'a LogDirectory,
    file: Box<dyn AppendFile>,
    base: Position,
    /// After the last record that it has.
    next: Position,
    index: BlockIndex,
    block_bytes: usize,
    packer: Packer,
    filling: BlockBuilder,
    encoded: Vec<u8>,
}

impl<'a> Output<'a> {
    pub(crate) fn begin(
        directory: &'a LogDirectory,
        mut file: Box<dyn AppendFile>,
        base: Position,
        next: Position,
    ) -> Result<Output<'a>> {
        let (preamble, packer) = directory.preamble(None)?;
        let positions = Some((next.0 - base.0) as u32);
        let identity = directory.identity;
        file.append(&preamble.encode(identity, base, HEADER_BYTES as u64, positions))?;
        let block_bytes = directory.settings.lock().block_bytes;
        Ok(Output {
            directory,
            file,
            base,
            next: base,
            index: BlockIndex::compacted(base, preamble.bytes()),
            block_bytes,
            packer,
            filling: BlockBuilder::sparse(block_bytes),
            encoded: Vec::new(),
        })
    }

    /// The position after the last record that it has.
    pub(crate) fn next(&self) -> Position {
        self.next
    }

    pub(crate) fn push(&mut self, position: Position, record: &[u8]) -> Result<()> {
        self.next = position.next();
        let full = self.filling.raw_bytes() + record.len() > self.block_bytes;
        if full && !self.filling.is_empty() {
            self.end_block()?;
        }
        if !self.filling.push_at(position, record) {
            self.end_block()?;
            self.filling.push_at(position, record);
        }
        Ok(())
    }

    pub(crate) fn end_block(&mut self) -> Result<()> {
        if self.filling.is_empty() {
            return Ok(());
        }
        let next = BlockBuilder::sparse(self.block_bytes);
        let block = std::mem::replace(&mut self.filling, next).finish(false);
        let length = block.encode(
            &mut self.packer,
            HEADER_BYTES as u64,
            Salt::new(self.directory.identity, self.base),
            self.index.end(),
            &mut self.encoded,
        ) as u64;
        let fits = self.index.push_at(
            block.first(),
            block.records(),
            block.positions(),
            length,
            block.payload().len() as u64,
        );
        if !fits {
            return Err(Error::TooLarge {
                what: "a compacted segment in bytes",
                limit: u32::MAX.into(),
                found: self.index.end() + length,
            });
        }
        if self.encoded.len() >= WRITE_BYTES {
            self.write_out()?;
        }
        Ok(())
    }

    pub(crate) fn write_out(&mut self) -> Result<()> {
        self.file.append(&self.encoded)?;
        self.encoded.clear();
        self.encoded.shrink_to(2 * WRITE_BYTES);
        Ok(())
    }

    pub(crate) fn finish(mut self, next: Position, removed_bytes: u64) -> Result<BlockIndex> {
        self.end_block()?;
        self.write_out()?;
        assert_eq!(
            self.file.len(),
            self.index.end(),
            "the index of a compacted segment ends where its blocks do"
        );
        self.index.finish_compacted(next, removed_bytes);
        let salt = Salt::new(self.directory.identity, self.base);
        self.file
            .append(&footer::encode(&self.index, self.base, salt))?;
        if !seeded(Bug::CompactedUnsynced) {
            self.file.sync()?;
        }
        Ok(self.index)
    }
}
