//! Postings: which documents have which value, by the value's code.
//!
//! # Invariants
//! 1. A value's docids are in the sets if they take fewer bytes there, otherwise in the list,
//!    ordered by code and then by docid. So the documents of a range of values are one slice of the
//!    list, and the sets of the frequent values in the range.
//! 2. The number of documents of a value is known without reading them.
//!
//! # Layout of the sets (little-endian)
//! ```text
//! | sets, one after another | directory: 24 bytes for each | sets (8) |
//!   sets   see `set_view.rs` of the index
//!   entry  | code of the value (8) | docids in the sets before this one (8) | end of the set (8) |
//!          ends are from the start of the first set
//! ```

use crate::Result;
use crate::le;
use crate::spool::{Spool, Spooled, Spools};
use crate::table::SectionKind;
use quire_index::{Column, ColumnWriter, DocSet, IndexDamage, SetView, encode_set};
use std::ops::Range;

const ENTRY_BYTES: usize = 24;
/// The fewest bytes of a set.
const SET_BYTES_MIN: usize = 14;

/// Writes the postings of a field, value by value.
#[derive(Debug)]
pub(crate) struct PostingsWriter {
    documents: u32,
    counts: (ColumnWriter, Spool),
    list: (ColumnWriter, Spool),
    sets: Spool,
    directory: Vec<u8>,
    pairs: u64,
    pairs_in_sets: u64,
    code: u64,
    /// Of the value that is begun.
    docids: Vec<u32>,
    set: DocSet,
    is_large: bool,
    encoded: Vec<u8>,
}

impl PostingsWriter {
    /// For documents below `documents`.
    pub(crate) fn new(spools: &Spools, documents: u32) -> PostingsWriter {
        PostingsWriter {
            documents,
            counts: (ColumnWriter::new(), spools.spool()),
            list: (ColumnWriter::new(), spools.spool()),
            sets: spools.spool(),
            directory: Vec::new(),
            pairs: 0,
            pairs_in_sets: 0,
            code: 0,
            docids: Vec::new(),
            set: DocSet::empty(),
            is_large: false,
            encoded: Vec::new(),
        }
    }

    /// How many values there are so far.
    pub(crate) fn values(&self) -> u64 {
        self.code
    }

    /// How many docids there are, of all values so far.
    pub(crate) fn pairs(&self) -> u64 {
        self.pairs
    }

    /// Begins the next value, which `docids` documents have.
    pub(crate) fn begin(&mut self, docids: u64) {
        let (counts, spool) = &mut self.counts;
        counts.push(self.pairs, spool.bytes());
        self.pairs += docids;
        // Certainly a set: its docids are never held as a list.
        self.is_large = docids > u64::from(self.documents / 16).max(64);
    }

    /// A document that has it, in ascending order.
    pub(crate) fn docid(&mut self, docid: u32) {
        self.docids.push(docid);
        if self.is_large && self.docids.len() >= PIECE_DOCIDS {
            self.set.extend(self.docids.drain(..));
        }
    }

    /// Ends the value.
    pub(crate) fn end(&mut self) -> Result<()> {
        let docids = self.docids.len() as u64 + self.set.len();
        let in_list = docids * u64::from(32 - self.documents.leading_zeros()) / 8;
        self.encoded.clear();
        if self.is_large || in_list > (ENTRY_BYTES + SET_BYTES_MIN) as u64 {
            self.set.extend(self.docids.iter().copied());
            encode_set(&self.set, &mut self.encoded);
        }
        let in_set = (self.encoded.len() + ENTRY_BYTES) as u64;
        if !self.encoded.is_empty() && (self.is_large || in_set <= in_list) {
            self.sets.bytes().extend_from_slice(&self.encoded);
            for number in [self.code, self.pairs_in_sets, self.sets.len()] {
                self.directory.extend_from_slice(&number.to_le_bytes());
            }
            self.pairs_in_sets += docids;
        } else {
            let (list, spool) = &mut self.list;
            for docid in &self.docids {
                list.push((*docid).into(), spool.bytes());
            }
        }
        debug_assert!(
            self.pairs_in_sets <= self.pairs,
            "docids in sets are some of all"
        );
        self.code += 1;
        self.docids.clear();
        self.set = DocSet::empty();
        self.counts.1.settle()?;
        self.list.1.settle()?;
        self.sets.settle()
    }

    /// The sections.
    pub(crate) fn finish(mut self) -> Result<Vec<(SectionKind, Spooled)>> {
        let (mut counts, mut counts_spool) = self.counts;
        counts.push(self.pairs, counts_spool.bytes());
        assert!(
            counts.rows() == self.code + 1,
            "there is a count for each value, and the sum"
        );
        assert!(
            self.directory.len().is_multiple_of(ENTRY_BYTES),
            "the directory has whole entries"
        );
        counts.finish(counts_spool.bytes());
        let (list, mut list_spool) = self.list;
        list.finish(list_spool.bytes());
        let sets = (self.directory.len() / ENTRY_BYTES) as u64;
        let out = self.sets.bytes();
        out.extend_from_slice(&self.directory);
        out.extend_from_slice(&sets.to_le_bytes());
        Ok(vec![
            (SectionKind::Counts, counts_spool.finish()?),
            (SectionKind::Docids, list_spool.finish()?),
            (SectionKind::Sets, self.sets.finish()?),
        ])
    }
}

/// Docids that are held before they are added to a set.
const PIECE_DOCIDS: usize = 1 << 16;

/// The sets of a field, in place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sets<'a> {
    bytes: &'a [u8],
    directory: &'a [[u8; ENTRY_BYTES]],
}

impl<'a> Sets<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Option<Sets<'a>> {
        let rest = bytes.len().checked_sub(8)?;
        let sets = usize::try_from(le::u64_at(bytes, rest)?).ok()?;
        Sets::of(bytes, sets)
    }

    /// The same, of which it is known how many there are.
    #[inline]
    pub(crate) fn of(bytes: &'a [u8], sets: usize) -> Option<Sets<'a>> {
        let rest = bytes.len().checked_sub(8)?;
        let start = rest.checked_sub(sets.checked_mul(ENTRY_BYTES)?)?;
        let (sets, directory) = bytes.get(..rest)?.split_at_checked(start)?;
        Some(Sets {
            bytes: sets,
            directory: directory.as_chunks().0,
        })
    }

    /// How many.
    pub(crate) fn len(self) -> usize {
        self.directory.len()
    }

    fn number(self, entry: usize, at: usize) -> Option<u64> {
        le::u64_at(self.directory.get(entry)?, at)
    }

    /// The first set whose code is not below `code`.
    fn place(self, code: u64) -> usize {
        self.directory
            .partition_point(|entry| le::u64_at(entry, 0).is_some_and(|found| found < code))
    }

    /// A set, by its place.
    pub(crate) fn set(self, place: usize) -> Result<SetView<'a>, IndexDamage> {
        let range = self.start(place) as usize..self.start(place + 1) as usize;
        let bytes = self.bytes.get(range).ok_or(IndexDamage {
            what: "sets",
            offset: 0,
        })?;
        SetView::new(bytes)
    }

    /// Where a set begins, and the one before it ends.
    fn start(self, place: usize) -> u64 {
        let before = place.checked_sub(1);
        before
            .and_then(|before| self.number(before, 16))
            .unwrap_or(0)
    }
}

/// The documents of one value.
#[derive(Debug)]
pub(crate) enum ValueDocs<'a> {
    /// As they lie in the file.
    Set(SetView<'a>),
    /// Few, collected from the list.
    List(DocSet),
}

impl ValueDocs<'_> {
    /// The documents that both have.
    pub(crate) fn and(self, other: ValueDocs<'_>) -> DocSet {
        match (self, other) {
            (ValueDocs::Set(a), ValueDocs::Set(b)) => a.and(b),
            (ValueDocs::List(mut list), ValueDocs::Set(set))
            | (ValueDocs::Set(set), ValueDocs::List(mut list)) => {
                list.and_view(set);
                list
            }
            (ValueDocs::List(mut a), ValueDocs::List(b)) => {
                a &= &b;
                a
            }
        }
    }

    /// How many documents both have.
    pub(crate) fn count_with(&self, other: &ValueDocs<'_>) -> u64 {
        match (self, other) {
            (ValueDocs::Set(a), ValueDocs::Set(b)) => a.intersection_len(*b),
            (ValueDocs::List(list), ValueDocs::Set(set))
            | (ValueDocs::Set(set), ValueDocs::List(list)) => list.intersection_len_view(*set),
            (ValueDocs::List(a), ValueDocs::List(b)) => a.intersection_len(b),
        }
    }
}

/// Appends the docids that bits stand for, the lowest for `first`.
#[inline]
pub(crate) fn push_docids(first: u32, bits: u64, docids: &mut Vec<u32>) {
    let mut left = bits;
    while left != 0 {
        docids.push(first + left.trailing_zeros());
        left &= left - 1;
    }
}

/// The postings of a field, in place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Postings<'a> {
    pub(crate) counts: Column<'a>,
    pub(crate) list: Column<'a>,
    pub(crate) sets: Sets<'a>,
    /// One more than the greatest docid.
    pub(crate) documents: u32,
}

impl<'a> Postings<'a> {
    /// The documents of one value.
    pub(crate) fn of_value(&self, code: u64) -> Result<ValueDocs<'a>, IndexDamage> {
        let place = self.sets.place(code);
        if self.sets.number(place, 0) == Some(code) {
            return Ok(ValueDocs::Set(self.sets.set(place)?));
        }
        // A set that is made piece by piece is copied for each.
        Ok(ValueDocs::List(
            self.docs_of_value(code)?.into_iter().collect(),
        ))
    }

    /// The set of the documents of one value, in place, if it is stored as one.
    pub(crate) fn set_of_value(&self, code: u64) -> Result<Option<SetView<'a>>, IndexDamage> {
        let place = self.sets.place(code);
        let is_set = self.sets.number(place, 0) == Some(code);
        is_set.then(|| self.sets.set(place)).transpose()
    }

    /// The documents of one value, as a list.
    pub(crate) fn docs_of_value(&self, code: u64) -> Result<Vec<u32>, IndexDamage> {
        let place = self.sets.place(code);
        if self.sets.number(place, 0) == Some(code) {
            let (set, mut docids) = (self.sets.set(place)?, Vec::new());
            set.each_word(|first, bits| push_docids(first, bits, &mut docids));
            return Ok(docids);
        }
        let start = self.listed_before(code, place)?;
        let count = self.counts.step(code)?;
        let end = start.saturating_add(count).min(self.list.rows());
        // What the file says is no reason to take much memory.
        let mut docids = Vec::with_capacity(count.min(PIECE_DOCIDS as u64) as usize);
        self.each_listed(start..end, |piece| {
            docids.extend(piece.iter().map(|docid| *docid as u32))
        })?;
        Ok(docids)
    }

    /// The documents that have a value of one of some ranges of codes.
    pub(crate) fn of_values<'r>(
        &self,
        ranges: impl Iterator<Item = &'r Range<u64>> + Clone,
    ) -> Result<DocSet, IndexDamage> {
        let (mut sets, mut listed) = (0, 0);
        for codes in ranges.clone() {
            sets += self.sets_among(codes).len();
            listed += self.listed_among(codes)?;
        }
        // Sorting a docid costs about as much as clearing a few words of bits.
        if sets == 0 && listed < u64::from(self.documents / 512) + 16 {
            let mut few = Vec::with_capacity(listed as usize);
            for codes in ranges {
                self.each_in_list(codes, |piece| {
                    few.extend(piece.iter().map(|docid| *docid as u32));
                })?;
            }
            few.sort_unstable();
            few.dedup();
            return Ok(few.into_iter().collect());
        }
        let mut bits = vec![0u64; (self.documents as usize).div_ceil(64)];
        for codes in ranges {
            self.each_in_list(codes, |piece| {
                for docid in piece {
                    if let Some(word) = bits.get_mut(*docid as usize / 64) {
                        *word |= 1 << (docid % 64);
                    }
                }
            })?;
            for place in self.sets_among(codes) {
                self.sets.set(place)?.add_to_bits(&mut bits);
            }
        }
        Ok(DocSet::from_bits(&bits))
    }

    /// The indexes of the sets of some codes.
    fn sets_among(&self, codes: &Range<u64>) -> Range<usize> {
        self.sets.place(codes.start)..self.sets.place(codes.end)
    }

    /// About what collecting the documents of some codes costs, in nanoseconds.
    pub(crate) fn cost(&self, codes: &Range<u64>) -> Result<u64, IndexDamage> {
        let (sets, listed) = (self.sets_among(codes), self.listed_among(codes)?);
        let set_bytes = self
            .sets
            .start(sets.end)
            .saturating_sub(self.sets.start(sets.start));
        let all = self.counts.get(codes.end)?;
        let in_sets = all
            .saturating_sub(self.counts.get(codes.start)?)
            .saturating_sub(listed);
        // Clusters of two bytes a docid are lists, which are read one by one; bits are joined 64 at
        // a time.
        let of_sets = match set_bytes / 2 >= in_sets {
            true => in_sets.saturating_add(in_sets / 4),
            false => set_bytes / 4,
        };
        Ok((2 * listed + 50 * sets.len() as u64).saturating_add(of_sets))
    }

    /// How many docids some codes have in the list.
    fn listed_among(&self, codes: &Range<u64>) -> Result<u64, IndexDamage> {
        Ok(self
            .listed_at(codes.end)?
            .saturating_sub(self.listed_at(codes.start)?))
    }

    /// Where in the list the docids of a code begin.
    fn listed_at(&self, code: u64) -> Result<u64, IndexDamage> {
        self.listed_before(code, self.sets.place(code))
    }

    /// The same, with the first set whose code is not below it.
    fn listed_before(&self, code: u64, place: usize) -> Result<u64, IndexDamage> {
        let in_sets = match self.sets.number(place, 8) {
            Some(before) => before,
            None => {
                let all = self.counts.get(self.counts.rows().saturating_sub(1))?;
                all.saturating_sub(self.list.rows())
            }
        };
        Ok(self
            .counts
            .get(code)?
            .saturating_sub(in_sets)
            .min(self.list.rows()))
    }

    /// Calls `each` with the docids of the list, piece by piece.
    fn each_in_list(
        &self,
        codes: &Range<u64>,
        each: impl FnMut(&[u64]),
    ) -> Result<(), IndexDamage> {
        self.each_listed(
            self.listed_at(codes.start)?..self.listed_at(codes.end)?,
            each,
        )
    }

    /// The same of a part of the list.
    fn each_listed(
        &self,
        part: Range<u64>,
        mut each: impl FnMut(&[u64]),
    ) -> Result<(), IndexDamage> {
        let Range { start: mut at, end } = part;
        let mut piece = [0; 64];
        while at < end {
            let count = (end - at).min(piece.len() as u64) as usize;
            let piece = piece.get_mut(..count).unwrap_or_default();
            self.list.read(at, piece)?;
            each(piece);
            at += count as u64;
        }
        Ok(())
    }
}
