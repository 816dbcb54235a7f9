//! Reads a whole table file and checks all that can be checked.

use super::block::{Block, BlockCursor};
use super::file::TableFile;
use super::filter;
use super::footer::{HEADER_BYTES, decode_header};
use super::frame::Handle;
use super::index;
use super::writer::Digest;
use crate::entry_kind::EntryKind;
use crate::{Error, Result, TableMeta, deadline};
use bytes::Bytes;
use quire_env::Env;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};

/// What was read and found right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableCheck {
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Blocks and filter pages.
    pub blocks: u64,
    /// Entries.
    pub entries: u64,
}

/// Reads every byte of the table file at `path` and checks that it is the one `meta` describes: the
/// checksum and place of every block, the order of keys, the index, the counts, and that the filter
/// denies no key.
///
/// Memory: the filter of the table, one block of each kind, and the list of its blocks.
///
/// # Errors
/// `Corrupt` naming file and offset, `UnsupportedVersion`, or those of the machine.
pub fn verify_table(env: &dyn Env, path: &Path, meta: &TableMeta) -> Result<TableCheck> {
    let mut verify = TableVerify::open(env, path, meta)?;
    while verify.step()?.is_some() {}
    Ok(TableCheck {
        bytes: verify.check.file.bytes,
        blocks: verify.check.blocks + 2,
        entries: verify.check.entries,
    })
}

/// As [`verify_table`], a block at a time. The file stays open, so its name may go meanwhile.
#[derive(Debug)]
pub struct TableVerify {
    check: Check,
    leaves: Vec<(Vec<u8>, Handle)>,
    /// Data blocks to come.
    blocks: VecDeque<(Vec<u8>, Handle)>,
    /// Bytes that steps have read.
    read: u64,
    done: bool,
}

impl TableVerify {
    /// Reads the ends of the file, its filter and its index.
    ///
    /// # Errors
    /// As of [`verify_table`].
    pub fn open(env: &dyn Env, path: &Path, meta: &TableMeta) -> Result<TableVerify> {
        let check = Check::new(TableFile::open(env, path, meta)?, path)?;
        check.header()?;
        let file = &check.file;
        let leaves = check.children(&file.top, file.footer.top_offset, None)?;
        let mut blocks = VecDeque::new();
        for (separator, leaf) in &leaves {
            let contents = file.read(*leaf)?.contents;
            let block = Block::parse(contents).map_err(file.damaged(leaf.offset))?;
            blocks.extend(check.children(&block, leaf.offset, Some(separator))?);
        }
        Ok(TableVerify {
            check,
            leaves,
            blocks,
            read: 0,
            done: false,
        })
    }

    /// Checks the next block, or, after the last, all that remains. Returns the bytes read; `None`
    /// at the end.
    ///
    /// # Errors
    /// As of [`verify_table`]; nothing comes after one.
    pub fn step(&mut self) -> Result<Option<u64>> {
        if self.done {
            return Ok(None);
        }
        let Some((separator, handle)) = self.blocks.pop_front() else {
            self.done = true;
            self.rest()?;
            return Ok(Some(self.check.file.bytes.saturating_sub(self.read)));
        };
        if let Err(error) = self.check.data_block(handle, &separator) {
            self.done = true;
            return Err(error);
        }
        self.read += handle.bytes;
        Ok(Some(handle.bytes))
    }

    /// What comes after the data blocks.
    fn rest(&mut self) -> Result<()> {
        let check = &mut self.check;
        check.counts()?;
        if let Some(ranges) = check.file.ranges() {
            check.frame(ranges)?;
        }
        check.offset("offset of the filter", check.file.properties.filter_offset)?;
        for page in 0..check.file.properties.filter.pages() {
            check.frame(check.file.filter_page(page))?;
        }
        check.offset("offset of the index", check.file.properties.index_offset)?;
        for (_, leaf) in &self.leaves {
            check.frame(*leaf)?;
        }
        check.offset("offset of the top index", check.file.footer.top_offset)?;
        for crc in check.file.end_crcs {
            check.digest.add(crc);
        }
        let (digest, expected) = (check.digest.finish(), check.file.footer.digest);
        if digest != expected {
            return Err(check.wrong("digest of all blocks", check.file.bytes, expected, digest));
        }
        Ok(())
    }
}

/// The check in progress.
#[derive(Debug)]
struct Check {
    file: TableFile,
    path: PathBuf,
    filter: Vec<u8>,
    digest: Digest,
    /// Where the next frame must begin.
    next: u64,
    blocks: u64,
    entries: u64,
    tombstones: u64,
    operands: u64,
    timed: u64,
    soonest: u64,
    value_bytes: u64,
    key_bytes: u64,
    last_key: Option<Vec<u8>>,
    last_separator: Option<Vec<u8>>,
}

impl Check {
    /// Reads the filter; checks nothing else yet.
    fn new(file: TableFile, path: &Path) -> Result<Check> {
        let mut filter = Vec::new();
        for page in 0..file.properties.filter.pages() {
            let handle = file.filter_page(page);
            let contents = file.read(handle)?.contents;
            if contents.len() != file.properties.filter.page_bytes(page) {
                let (what, offset) = ("filter page", handle.offset);
                let (expected, found) = (handle.bytes, contents.len() as u64);
                return Err(Error::Corrupt {
                    path: path.to_path_buf(),
                    what,
                    offset,
                    expected,
                    found,
                });
            }
            filter.extend_from_slice(&contents);
        }
        Ok(Check {
            digest: Digest::new(file.footer.salt),
            file,
            path: path.to_path_buf(),
            filter,
            next: HEADER_BYTES as u64,
            blocks: 0,
            entries: 0,
            tombstones: 0,
            operands: 0,
            timed: 0,
            soonest: u64::MAX,
            value_bytes: 0,
            key_bytes: 0,
            last_key: None,
            last_separator: None,
        })
    }

    fn wrong(&self, what: &'static str, offset: u64, expected: u64, found: u64) -> Error {
        Error::Corrupt {
            path: self.path.clone(),
            what,
            offset,
            expected,
            found,
        }
    }

    fn header(&self) -> Result<()> {
        let mut header = [0; HEADER_BYTES];
        self.file.io.read_exact_at(0, &mut header)?;
        let salt = decode_header(&header, &self.path)?;
        if salt != self.file.footer.salt {
            return Err(self.wrong("salt of a table file", 12, self.file.footer.salt, salt));
        }
        Ok(())
    }

    /// The entries of the index block at `offset`, whose last key must be `last`.
    fn children(
        &self,
        block: &Block,
        offset: u64,
        last: Option<&Vec<u8>>,
    ) -> Result<Vec<(Vec<u8>, Handle)>> {
        let damaged = self.file.damaged(offset);
        let mut cursor = BlockCursor::new();
        cursor.first(block).map_err(&damaged)?;
        let mut children = Vec::new();
        while let Some(key) = cursor.key() {
            children.push((
                key.to_vec(),
                index::decode(cursor.value(block)).map_err(&damaged)?,
            ));
            cursor.advance(block).map_err(&damaged)?;
        }
        if last.is_some() && last != children.last().map(|(key, _)| key) {
            return Err(self.wrong("last key of an index block", offset, 1, 0));
        }
        Ok(children)
    }

    /// Checks that the last frame ended at `offset`.
    fn offset(&self, what: &'static str, offset: u64) -> Result<()> {
        if self.next != offset {
            return Err(self.wrong(what, self.next, self.next, offset));
        }
        Ok(())
    }

    /// Reads the next frame, which must be the one at `handle`.
    fn frame(&mut self, handle: Handle) -> Result<Bytes> {
        self.offset("offset of a block", handle.offset)?;
        let opened = self.file.read(handle)?;
        self.digest.add(opened.crc);
        self.next = handle.end();
        self.blocks += 1;
        Ok(opened.contents)
    }

    fn data_block(&mut self, handle: Handle, separator: &[u8]) -> Result<()> {
        let contents = self.frame(handle)?;
        let damaged = self.file.damaged(handle.offset);
        let block = Block::parse(contents).map_err(&damaged)?;
        let mut cursor = BlockCursor::new();
        cursor.first(&block).map_err(&damaged)?;
        while let Some(key) = cursor.key() {
            if self.last_key.as_deref().is_some_and(|last| last >= key)
                || self
                    .last_separator
                    .as_deref()
                    .is_some_and(|last| last >= key)
                || key > separator
            {
                return Err(self.wrong("order of keys", handle.offset, self.entries, self.entries));
            }
            if self.entries == 0 && key != self.file.properties.smallest {
                return Err(self.wrong("smallest key", handle.offset, 0, 1));
            }
            self.filter_holds(key, handle)?;
            self.entries += 1;
            self.tombstones += u64::from(cursor.kind() == EntryKind::Delete);
            self.operands += u64::from(cursor.kind() == EntryKind::Merge);
            if cursor.kind() == EntryKind::PutUntil {
                let (deadline, _) = deadline::split(cursor.value(&block));
                self.timed += 1;
                self.soonest = self.soonest.min(deadline);
            }
            self.key_bytes += key.len() as u64;
            self.value_bytes += cursor.value(&block).len() as u64;
            key.clone_into(self.last_key.get_or_insert_default());
            cursor.advance(&block).map_err(&damaged)?;
        }
        separator.clone_into(self.last_separator.get_or_insert_default());
        Ok(())
    }

    fn filter_holds(&self, key: &[u8], handle: Handle) -> Result<()> {
        let shape = self.file.properties.filter;
        if shape.lines > 0 {
            let hash = filter::hash(key);
            let line = filter::line_of(&self.filter, shape.line(hash));
            if !line.is_some_and(|line| shape.may_hold(&line, hash)) {
                return Err(self.wrong(
                    "filter's answer for a key that is here",
                    handle.offset,
                    1,
                    0,
                ));
            }
        }
        Ok(())
    }

    fn counts(&self) -> Result<()> {
        let properties = &self.file.properties;
        let counts = [
            ("entries of a table", properties.entries, self.entries),
            (
                "tombstones of a table",
                properties.tombstones,
                self.tombstones,
            ),
            ("operands of a table", properties.operands, self.operands),
            ("deadlines of a table", properties.timed, self.timed),
            (
                "first deadline of a table",
                properties.soonest,
                self.soonest * u64::from(self.timed > 0),
            ),
            ("key bytes of a table", properties.key_bytes, self.key_bytes),
            (
                "value bytes of a table",
                properties.value_bytes,
                self.value_bytes,
            ),
            (
                "data blocks of a table",
                properties.data_blocks,
                self.blocks,
            ),
        ];
        for (what, expected, found) in counts {
            if expected != found {
                return Err(self.wrong(what, self.file.footer.properties_offset, expected, found));
            }
        }
        if self.last_key.as_ref() != Some(&properties.largest) {
            return Err(self.wrong("largest key", self.file.footer.properties_offset, 1, 0));
        }
        Ok(())
    }
}
