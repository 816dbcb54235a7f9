//! [`Directory`]: which block has which rows, read in place.

use crate::Result;
use crate::le;
use crate::sections::Section;
use quire_index::{Column, ColumnHead, IndexDamage};
use std::ops::Range;

const FOOTER_BYTES: usize = 4 * 8;

/// A directory, in place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Directory<'a> {
    pub(super) section: Section<'a>,
    pub(super) ends: Column<'a>,
    pub(super) firsts: Column<'a>,
    pub(super) offsets: Column<'a>,
    pub(super) lengths: Column<'a>,
    pub(super) dictionary: &'a [u8],
}

/// Where the parts of a directory are, and the heads of its columns: kept, so that a directory is
/// opened once.
#[derive(Debug)]
pub(super) struct DirectoryHead {
    /// The bytes of each column, and what opening it found.
    columns: [(Range<usize>, ColumnHead); 4],
    dictionary: Range<usize>,
}

impl<'a> Directory<'a> {
    /// What is to be kept of it.
    pub(super) fn head(&self) -> DirectoryHead {
        let mut start = 0;
        let columns = [self.ends, self.firsts, self.offsets, self.lengths].map(|column| {
            let bytes = start..start + column.bytes();
            start = bytes.end;
            (bytes, column.head())
        });
        DirectoryHead {
            columns,
            dictionary: start..start + self.dictionary.len(),
        }
    }

    /// The directory that has this head, in the same section.
    pub(super) fn with_head(section: Section<'a>, head: &'a DirectoryHead) -> Directory<'a> {
        let bytes: &'a [u8] = section.bytes;
        let part = |range: &Range<usize>| bytes.get(range.clone()).unwrap_or_default();
        let column =
            |(range, head): &'a (Range<usize>, ColumnHead)| Column::with_head(part(range), head);
        let [ends, firsts, offsets, lengths] = &head.columns;
        Directory {
            section,
            ends: column(ends),
            firsts: column(firsts),
            offsets: column(offsets),
            lengths: column(lengths),
            dictionary: part(&head.dictionary),
        }
    }

    pub(crate) fn new(section: Section<'a>) -> Result<Directory<'a>> {
        let damaged = || {
            section.damaged(quire_index::IndexDamage {
                what: "directory of rows",
                offset: 0,
            })
        };
        let bytes: &'a [u8] = section.bytes;
        let parse = || {
            let (mut parts, footer) =
                bytes.split_at_checked(bytes.len().checked_sub(FOOTER_BYTES)?)?;
            let mut before = 0;
            let mut columns = [None; 4];
            for (column, at) in columns.iter_mut().zip((0..).step_by(8)) {
                let end = le::u64_at(footer, at)?;
                let length = usize::try_from(end.checked_sub(before)?).ok()?;
                let (part, rest) = parts.split_at_checked(length)?;
                *column = Some(Column::new(part).ok()?);
                (parts, before) = (rest, end);
            }
            let [ends, firsts, offsets, lengths] = columns;
            Some(Directory {
                section,
                ends: ends?,
                firsts: firsts?,
                offsets: offsets?,
                lengths: lengths?,
                dictionary: parts,
            })
        };
        let directory = parse().ok_or_else(damaged)?;
        let blocks = directory.firsts.rows();
        match blocks == directory.offsets.rows() && blocks == directory.lengths.rows() {
            true => Ok(directory),
            false => Err(damaged()),
        }
    }

    /// How many blocks.
    pub(crate) fn blocks(&self) -> u64 {
        self.firsts.rows()
    }

    /// Bytes of all blocks in the file, and bytes of all rows.
    pub(crate) fn bytes(&self) -> Result<(u64, u64)> {
        let damaged = |damage| self.section.damaged(damage);
        let mut stored = 0u64;
        for block in 0..self.blocks() {
            stored = stored.saturating_add(self.lengths.get(block).map_err(damaged)?);
        }
        let last = self.ends.rows().saturating_sub(1);
        Ok((stored, self.ends.get(last).map_err(damaged)?))
    }

    /// Bytes of the dictionary; 0 without.
    pub(crate) fn dictionary_bytes(&self) -> usize {
        self.dictionary.len()
    }
}

impl Directory<'_> {
    /// The block that holds the row of a document.
    pub(super) fn block_of(&self, docid: u32) -> Result<u64, IndexDamage> {
        if self.is_row_by_row() {
            return Ok(docid.into());
        }
        let begun = self.firsts.lower_bound(u64::from(docid) + 1)?;
        Ok(begun.saturating_sub(1))
    }

    /// Whether each row is a block of its own: there are as many.
    fn is_row_by_row(&self) -> bool {
        self.blocks().checked_add(1) == Some(self.ends.rows())
    }

    /// Where the rows of a block are in the concatenation of all; `row` is where one of them is.
    pub(super) fn rows_around(
        &self,
        block: u64,
        row: Range<u64>,
    ) -> Result<Range<u64>, IndexDamage> {
        match self.is_row_by_row() {
            true => Ok(row),
            false => self.rows_of(block),
        }
    }

    /// Where the rows of a block are in the concatenation of all.
    pub(super) fn rows_of(&self, block: u64) -> Result<Range<u64>, IndexDamage> {
        let start = self.ends.get(self.firsts.get(block)?)?;
        let end = match block + 1 < self.blocks() {
            true => self.ends.get(self.firsts.get(block + 1)?)?,
            false => self.ends.get(self.ends.rows().saturating_sub(1))?,
        };
        Ok(start..end)
    }
}
