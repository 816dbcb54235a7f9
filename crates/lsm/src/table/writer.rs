//! Writes a table file, front to back.

use super::block::{BlockBuilder, DATA_RESTART, INDEX_RESTART};
use super::filter::{self, Shape};
use super::footer::{self, Footer};
use super::frame::{self, Fit, Handle};
use super::index;
use super::properties::Properties;
use super::ranges;
use crate::entry::EntryRef;
use crate::entry_kind::EntryKind;
use crate::range_tombstones::is_before;
use crate::{
    BlockCodec, Error, KEY_BYTES_MAX, Result, TableMeta, TreeContext, TreeSpec, VALUE_BYTES_MAX,
};
use quire_env::{AppendFile, Charge, FileId};
use quire_pack::Packer;
use quire_seeded::{Bug, seeded};
use xxhash_rust::xxh3::Xxh3;

/// Bytes handed to the file at once.
const WRITE_BYTES: usize = 256 << 10;

/// A table with this many bytes of deleted ranges takes no more of them, if they can go into
/// another: they are in memory while it is open.
const RANGES_BYTES_MAX: usize = 1 << 20;

/// The length of an index block, if data blocks are not larger and four of them not smaller.
const INDEX_BYTES: usize = 4 << 10;

/// A table takes no more entries than this: it bounds what the writer keeps for the filter (8 bytes
/// each).
const ENTRIES_MAX: usize = 4 << 20;

/// Bytes of an index block: over small data blocks, those of several.
fn index_block_bytes(block_bytes: usize) -> usize {
    (4 * block_bytes).min(block_bytes.max(INDEX_BYTES))
}

/// A table file being written. Dropped before [`finish`](Self::finish), it leaves part of a file.
#[derive(Debug)]
pub(crate) struct TableWriter {
    out: Output,
    tree: String,
    block_bytes: usize,
    /// How data blocks fill pages, if they do.
    fit: Option<Fit>,
    table_bytes_max: u64,
    filter_bits_per_key: u32,
    data: BlockBuilder,
    index: Index,
    hashes: Vec<u64>,
    ranges: Vec<u8>,
    file: FileId,
    properties: Properties,
    charge: Charge,
}

impl TableWriter {
    /// Begins a table in `output`, new and empty.
    pub(crate) fn new(
        spec: &TreeSpec,
        context: &TreeContext,
        file: FileId,
        output: Box<dyn AppendFile>,
    ) -> Result<TableWriter> {
        let mut salt = [0; 8];
        context.env.random(&mut salt);
        let properties = Properties {
            tree: spec.id,
            entries: 0,
            tombstones: 0,
            operands: 0,
            key_bytes: 0,
            value_bytes: 0,
            data_blocks: 0,
            filter_offset: 0,
            filter: Shape::of(0, 0),
            index_offset: 0,
            smallest: Vec::new(),
            largest: Vec::new(),
            ranges: 0,
            ranges_offset: 0,
            timed: 0,
            soonest: 0,
        };
        Ok(TableWriter {
            out: Output::begin(output, u64::from_le_bytes(salt), spec.codec)?,
            tree: spec.name.clone(),
            block_bytes: spec.block_bytes,
            fit: Fit::of(spec.codec, spec.block_bytes),
            table_bytes_max: spec.table_bytes_max,
            filter_bits_per_key: spec.filter_bits_per_key,
            data: BlockBuilder::new(DATA_RESTART),
            index: Index::new(index_block_bytes(spec.block_bytes)),
            hashes: Vec::new(),
            ranges: Vec::new(),
            file,
            properties,
            charge: context.budget.charge(WRITE_BYTES as u64),
        })
    }

    /// Adds an entry; keys ascend strictly.
    ///
    /// # Errors
    /// `TooLarge` for a value that folding made too long, or those of the machine; the table is
    /// then of no use.
    pub(crate) fn add(&mut self, said: EntryRef<'_>) -> Result<()> {
        let EntryRef { key, kind, value } = said;
        for (what, limit, found) in [
            ("key", KEY_BYTES_MAX, key.len()),
            ("value", VALUE_BYTES_MAX, value.len()),
        ] {
            if found > limit {
                let (limit, found) = (limit as u64, found as u64);
                return Err(Error::TooLarge {
                    tree: self.tree.clone(),
                    what,
                    limit,
                    found,
                });
            }
        }
        debug_assert!(
            self.properties.entries == 0 || self.data.last_key() < key,
            "keys ascend"
        );
        if !self.data.is_empty()
            && self.data.bytes() + key.len() + value.len() > self.block_bytes_max()
        {
            self.finish_block(Some(key))?;
            if seeded(Bug::FirstKeyOfBlockLost) {
                return Ok(());
            }
        }
        if self.properties.entries == 0 {
            self.properties.smallest = key.to_vec();
        }
        self.data.add(key, kind, value);
        if self.filter_bits_per_key > 0 {
            self.hashes.push(filter::hash(key));
        }
        let properties = &mut self.properties;
        properties.entries += 1;
        properties.tombstones += u64::from(kind == EntryKind::Delete);
        properties.operands += u64::from(kind == EntryKind::Merge);
        if kind == EntryKind::PutUntil {
            properties.note_deadline(value);
        }
        properties.key_bytes += key.len() as u64;
        properties.value_bytes += value.len() as u64;
        Ok(())
    }

    /// Adds a range of keys that are deleted from older runs; ranges ascend and are apart.
    pub(crate) fn add_range(&mut self, from: &[u8], to: &[u8]) {
        debug_assert!(is_before(from, to), "a deleted range has a key");
        ranges::encode(from, to, &mut self.ranges);
        self.properties.ranges += 1;
    }

    /// True if the next range belongs in another table.
    pub(crate) fn is_full_of_ranges(&self) -> bool {
        self.ranges.len() >= RANGES_BYTES_MAX.min(self.table_bytes_max as usize)
    }

    /// True if it has no entry.
    pub(crate) fn is_empty(&self) -> bool {
        self.properties.entries == 0
    }

    /// The key that was added last.
    pub(crate) fn last_key(&self) -> &[u8] {
        self.data.last_key()
    }

    /// The longest data block where the next one begins, unless of one entry.
    fn block_bytes_max(&self) -> usize {
        match self.fit {
            Some(fit) => fit.contents_bytes(self.out.offset),
            None => self.block_bytes,
        }
    }

    /// True if the table has its full size and the next entry belongs in another.
    pub(crate) fn is_full(&self) -> bool {
        self.out.offset + (self.data.bytes() + self.ranges.len()) as u64 >= self.table_bytes_max
            || self.properties.entries >= ENTRIES_MAX as u64
    }

    /// Writes the data block that is open; `next` is the key after it, if there is one.
    fn finish_block(&mut self, next: Option<&[u8]>) -> Result<()> {
        let handle = self
            .data
            .finish(|contents| self.out.frame(contents, self.fit))?;
        self.properties.data_blocks += 1;
        self.index.add(self.data.last_key(), next, handle);
        let kept =
            WRITE_BYTES + self.index.bytes + 8 * self.hashes.capacity() + self.ranges.capacity();
        self.charge.resize(kept as u64);
        Ok(())
    }

    /// Completes the table and syncs the file (not its directory). It has at least one entry.
    ///
    /// # Errors
    /// Those of the machine.
    pub(crate) fn finish(mut self) -> Result<TableMeta> {
        assert!(self.properties.entries > 0, "a table has an entry");
        if !self.data.is_empty() {
            self.finish_block(None)?;
        }
        self.properties.largest = self.data.last_key().to_vec();

        if !self.ranges.is_empty() {
            self.properties.ranges_offset = self.out.frame(&self.ranges, None)?.offset;
        }
        assert!(
            self.filter_bits_per_key == 0 || self.hashes.len() as u64 == self.properties.entries,
            "a filter has a hash of each entry"
        );
        self.properties.filter = Shape::of(self.hashes.len(), self.filter_bits_per_key);
        self.properties.filter_offset = self.out.offset;
        // Bits of hashes do not compress.
        let packer = self.out.packer.take();
        for page in self
            .properties
            .filter
            .build(&self.hashes)
            .chunks(self.properties.filter.whole_page_bytes())
        {
            self.out.frame(page, None)?;
        }
        self.out.packer = packer;

        self.properties.index_offset = self.out.offset;
        let top = self.index.finish(|leaf| self.out.frame(leaf, None))?;
        let top_offset = self.out.frame(&top, None)?.offset;
        let properties_offset = self.out.frame(&self.properties.encode(), None)?.offset;
        let written = &self.properties;
        assert!(written.data_blocks > 0, "entries are in blocks");
        assert!(
            written.tombstones + written.operands + written.timed <= written.entries,
            "an entry has one kind"
        );
        assert!(
            written.ranges_offset <= written.filter_offset
                && written.filter_offset <= written.index_offset
                && written.index_offset <= top_offset
                && top_offset < properties_offset,
            "the parts of a table are in the order that its readers check"
        );
        debug_assert!(written.smallest <= written.largest, "keys ascend");
        let (bytes, digest) = self.out.finish(top_offset, properties_offset)?;
        assert!(bytes > properties_offset, "the footer comes last");
        let Properties {
            entries,
            tombstones,
            operands,
            smallest,
            largest,
            ..
        } = self.properties;
        Ok(TableMeta {
            file: self.file,
            bytes,
            entries,
            tombstones,
            operands,
            smallest,
            largest,
            digest,
        })
    }
}

/// The index of the table so far. Its blocks are written after the data, so they wait here.
#[derive(Debug)]
struct Index {
    block_bytes: usize,
    open: BlockBuilder,
    /// Finished blocks with the last key of each.
    closed: Vec<(Vec<u8>, Vec<u8>)>,
    /// Bytes of the finished blocks.
    bytes: usize,
    separator: Vec<u8>,
    value: Vec<u8>,
}

impl Index {
    fn new(block_bytes: usize) -> Index {
        let open = BlockBuilder::new(INDEX_RESTART);
        Index {
            block_bytes,
            open,
            closed: Vec::new(),
            bytes: 0,
            separator: Vec::new(),
            value: Vec::new(),
        }
    }

    /// Adds a block whose last key is `last`, before one that begins with `next`.
    fn add(&mut self, last: &[u8], next: Option<&[u8]>, handle: Handle) {
        match next {
            Some(next) if seeded(Bug::SeparatorOneTooFar) => next.clone_into(&mut self.separator),
            Some(next) => index::separator(last, next, &mut self.separator),
            None => last.clone_into(&mut self.separator),
        }
        index::encode(handle, &mut self.value);
        let bytes = self.open.bytes() + self.separator.len() + self.value.len();
        if !self.open.is_empty() && bytes > self.block_bytes {
            self.close();
        }
        self.open.add(&self.separator, EntryKind::Put, &self.value);
    }

    fn close(&mut self) {
        let block = self.open.finish(<[u8]>::to_vec);
        self.bytes += block.len();
        self.closed.push((self.open.last_key().to_vec(), block));
    }

    /// Hands each block to `write`; returns the block that names them all.
    fn finish(&mut self, mut write: impl FnMut(&[u8]) -> Result<Handle>) -> Result<Vec<u8>> {
        if !self.open.is_empty() {
            self.close();
        }
        let mut top = BlockBuilder::new(INDEX_RESTART);
        for (last, block) in &self.closed {
            index::encode(write(block)?, &mut self.value);
            top.add(last, EntryKind::Put, &self.value);
        }
        Ok(top.finish(<[u8]>::to_vec))
    }
}

/// The file, behind a buffer, with its running digest.
#[derive(Debug)]
struct Output {
    file: Box<dyn AppendFile>,
    salt: u64,
    version: u32,
    packer: Option<Packer>,
    digest: Digest,
    buffer: Vec<u8>,
    frame: Vec<u8>,
    /// Where the next byte goes: the file's length and what is in the buffer.
    offset: u64,
}

impl Output {
    fn begin(file: Box<dyn AppendFile>, salt: u64, codec: BlockCodec) -> Result<Output> {
        let (buffer, frame) = (Vec::with_capacity(WRITE_BYTES), Vec::new());
        let version = footer::version_of(codec);
        let mut out = Output {
            file,
            salt,
            version,
            packer: codec.packer(),
            digest: Digest::new(salt),
            buffer,
            frame,
            offset: 0,
        };
        out.write(&footer::encode_header(salt, version))?;
        Ok(out)
    }

    fn frame(&mut self, contents: &[u8], fit: Option<Fit>) -> Result<Handle> {
        let mut frame = std::mem::take(&mut self.frame);
        let handle = Handle {
            offset: self.offset,
            bytes: 0,
        };
        let (salt, packer) = (self.salt, self.packer.as_mut());
        let crc = frame::seal(salt, self.offset, contents, packer, fit, &mut frame);
        self.digest.add(crc);
        let written = self.write(&frame);
        let bytes = frame.len() as u64;
        self.frame = frame;
        written.map(|()| Handle { bytes, ..handle })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if self.buffer.len() + bytes.len() > WRITE_BYTES {
            self.flush()?;
        }
        if bytes.len() >= WRITE_BYTES {
            self.file.append(bytes)?;
        } else {
            self.buffer.extend_from_slice(bytes);
        }
        self.offset += bytes.len() as u64;
        debug_assert!(self.buffer.len() <= WRITE_BYTES, "the buffer is bounded");
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        if !self.buffer.is_empty() {
            self.file.append(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }

    /// Writes the footer and syncs. Returns length and digest of the file.
    fn finish(mut self, top_offset: u64, properties_offset: u64) -> Result<(u64, u64)> {
        let digest = self.digest.finish();
        self.write(
            &Footer {
                salt: self.salt,
                digest,
                top_offset,
                properties_offset,
                version: self.version,
            }
            .encode(),
        )?;
        self.flush()?;
        if !seeded(Bug::TableUnsynced) {
            self.file.sync()?;
        }
        Ok((self.offset, digest))
    }
}

/// The digest of a file's frames, as they come.
pub(super) struct Digest(Xxh3);

impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Digest").field(&self.finish()).finish()
    }
}

impl Digest {
    /// That of no frames in a file of this salt.
    pub(super) fn new(salt: u64) -> Digest {
        Digest(Xxh3::with_seed(salt))
    }

    /// Adds the next frame by its CRC.
    pub(super) fn add(&mut self, crc: u32) {
        self.0.update(&crc.to_le_bytes());
    }

    /// The digest of the frames so far.
    pub(super) fn finish(&self) -> u64 {
        self.0.digest()
    }
}
