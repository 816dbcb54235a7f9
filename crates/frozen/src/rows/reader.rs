//! [`Rows`]: reads rows by docid.

use super::block::{BY_SYMBOLS, HEADER_BYTES, ROW_BYTES_MAX, WITH_DICTIONARY, checksum};
use super::directory::{Directory, DirectoryHead};
use crate::format::is_right;
use crate::le;
use crate::sections::{Section, Sections};
use crate::{Error, Result};
use arc_swap::ArcSwapOption;
use bytes::Bytes;
use quire_index::IndexDamage;
use quire_pack::{Dictionary, Packing, Symbols, unpack, unpack_lz4_behind};
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// The rows of one kind of an open file.
#[derive(Default)]
pub(crate) struct Rows {
    /// The dictionary, loaded when it is first needed.
    dictionary: OnceLock<Option<Dictionary>>,
    /// The symbols, likewise.
    symbols: OnceLock<Option<Box<Symbols>>>,
    /// What opening the directory found.
    head: OnceLock<Box<DirectoryHead>>,
    /// The block that was read last.
    last: ArcSwapOption<Block>,
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").finish_non_exhaustive()
    }
}

struct Block {
    number: u64,
    raw: Vec<u8>,
}

impl Rows {
    /// The directory that is this section, opened once.
    pub(crate) fn directory<'a>(&'a self, section: Section<'a>) -> Result<Directory<'a>> {
        if let Some(head) = self.head.get() {
            return Ok(Directory::with_head(section, head));
        }
        let directory = Directory::new(section)?;
        self.head.get_or_init(|| Box::new(directory.head()));
        Ok(directory)
    }

    /// Calls `read` with the row of a document; false, without a call, if it is empty.
    pub(crate) fn read(
        &self,
        sections: &Sections,
        directory: &Directory<'_>,
        docid: u32,
        read: &mut dyn FnMut(&[u8]),
    ) -> Result<bool> {
        let damaged = |damage| directory.section.damaged(damage);
        let mut ends = [0; 2];
        directory
            .ends
            .read(docid.into(), &mut ends)
            .map_err(damaged)?;
        let [start, end] = ends;
        if start >= end {
            return Ok(false);
        }
        let number = directory.block_of(docid).map_err(damaged)?;
        let block = directory.rows_around(number, start..end).map_err(damaged)?;
        let missing = IndexDamage {
            what: "row",
            offset: 0,
        };
        let within = start
            .checked_sub(block.start)
            .zip(end.checked_sub(block.start));
        let show = |raw: &[u8], read: &mut dyn FnMut(&[u8])| {
            let row = within.and_then(|(start, end)| raw.get(start as usize..end as usize));
            row.map(read).ok_or_else(|| damaged(missing))
        };
        if block == (start..end) {
            // The only row of its block.
            self.with_block(sections, directory, number, block, |raw| show(&raw, read))??;
            return Ok(true);
        }
        let last = self.last.load();
        match last.as_ref().filter(|block| block.number == number) {
            Some(block) => show(&block.raw, read)?,
            None => {
                let raw =
                    self.with_block(sections, directory, number, block, |raw| raw.into_owned())?;
                let block = Arc::new(Block { number, raw });
                self.last.store(Some(Arc::clone(&block)));
                show(&block.raw, read)?;
            }
        }
        Ok(true)
    }

    /// Calls `read` with a block, checked and unpacked, whose rows are at `rows` of the
    /// concatenation of all.
    fn with_block<T>(
        &self,
        sections: &Sections,
        directory: &Directory<'_>,
        number: u64,
        rows: Range<u64>,
        read: impl FnOnce(Cow<'_, [u8]>) -> T,
    ) -> Result<T> {
        let damaged = |damage| directory.section.damaged(damage);
        let offset = directory.offsets.get(number).map_err(damaged)?;
        let length = directory.lengths.get(number).map_err(damaged)?;
        let raw_length = rows.end.checked_sub(rows.start);
        let read = sections.with_bytes_at(offset, length, |block| {
            let raw = self.open_block(directory, block, offset, raw_length?);
            raw.map(read)
        })?;
        read.ok_or_else(|| Error::corrupt(sections.path(), "block of rows", offset))
    }

    fn open_block<'b>(
        &self,
        directory: &Directory<'_>,
        block: &'b [u8],
        offset: u64,
        raw_length: u64,
    ) -> Option<Cow<'b, [u8]>> {
        let (header, stored) = block.split_at_checked(HEADER_BYTES)?;
        let how = *header.first()?;
        let crc = checksum(stored, offset, raw_length, how);
        is_right(le::u32_at(header, 1)?, crc).then_some(())?;
        if how == BY_SYMBOLS {
            let symbols = || Symbols::new(directory.dictionary).map(Box::new);
            let symbols = self.symbols.get_or_init(symbols).as_ref()?;
            let raw = symbols.unpack(stored, usize::try_from(raw_length).ok()?);
            return raw.map(Cow::Owned);
        }
        // A block holds at most its size and one more row. A byte of LZ4 unpacks to at most 255.
        let packing = Packing::decode(how & !WITH_DICTIONARY)?;
        let length_max = match packing {
            Packing::Lz4 => stored.len().saturating_mul(255),
            Packing::None | Packing::Zstd => 2 * ROW_BYTES_MAX,
        };
        let raw_length = usize::try_from(raw_length)
            .ok()
            .filter(|raw| *raw <= length_max)?;
        let dictionary = match how & WITH_DICTIONARY {
            0 => &[],
            _ => directory.dictionary,
        };
        match packing {
            Packing::None => (stored.len() == raw_length).then_some(Cow::Borrowed(stored)),
            Packing::Lz4 => {
                let mut raw = vec![0; raw_length];
                unpack_lz4_behind(dictionary, stored, &mut raw)?;
                Some(Cow::Owned(raw))
            }
            Packing::Zstd => {
                let bytes = || Dictionary::new(Bytes::copy_from_slice(dictionary));
                let dictionary = match dictionary.is_empty() {
                    true => None,
                    false => Some(self.dictionary.get_or_init(bytes).as_ref()?),
                };
                let stored = Bytes::copy_from_slice(stored);
                let raw = unpack(packing, stored, raw_length, dictionary)?;
                Some(Cow::Owned(raw.into()))
            }
        }
    }

    /// Reads every block, in order.
    pub(crate) fn verify(&self, sections: &Sections, directory: &Directory<'_>) -> Result<()> {
        let damaged = |damage| directory.section.damaged(damage);
        (0..directory.blocks()).try_for_each(|number| {
            let rows = directory.rows_of(number).map_err(damaged)?;
            self.with_block(sections, directory, number, rows, |_| ())
        })
    }
}
