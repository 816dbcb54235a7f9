//! Columns of a live partition's segments: a layer of a block, or documents one by one.

use super::column_blocks::{FieldBlock, damaged};
use quire_index::{ColumnBlock, IndexDamage, Numbers};
use quire_query::{Column, End, Error, NO_ORDINAL, Ordinals, Result};
use quire_seeded::{Bug, seeded};
use std::sync::{Arc, OnceLock};

/// A packed layer of a block. The documents that it is asked for are all covered.
#[derive(Debug)]
pub(crate) struct LayerColumn<'s> {
    block: Arc<FieldBlock>,
    place: usize,
    /// Where the shard keeps what is wrong with its index.
    damage: &'s OnceLock<String>,
}

impl<'s> LayerColumn<'s> {
    pub(crate) fn new(
        block: Arc<FieldBlock>,
        place: usize,
        damage: &'s OnceLock<String>,
    ) -> LayerColumn<'s> {
        LayerColumn {
            block,
            place,
            damage,
        }
    }

    fn view(&self) -> Result<ColumnBlock<'_>> {
        let view = self.block.packed(self.place);
        view.map_err(|damage| self.failed(damage))
    }

    fn failed(&self, damage: IndexDamage) -> Error {
        let _ = self.damage.set(damage.to_string());
        Error::shard(damaged(damage))
    }
}

impl Column for LayerColumn<'_> {
    fn zone(&self) -> Option<(&[u8], &[u8])> {
        let place = match seeded(Bug::ColumnZoneStale) {
            true => self.block.oldest()?,
            false => self.place,
        };
        self.block.packed(place).ok()?.zone()
    }

    fn has_many(&self) -> bool {
        self.view().is_ok_and(|block| block.has_many())
    }

    fn numbers(&self) -> Option<Numbers> {
        self.view().ok()?.numbers()
    }

    fn ordinal_end(&self) -> u64 {
        self.view().map_or(0, |block| block.ordinal_end())
    }

    fn ends(&self, docs: &[u32], end: End, out: &mut Vec<u64>) -> Result<()> {
        let is_greatest = end == End::Largest;
        let read = self.view()?.ends(docs, self.block.first, is_greatest, out);
        read.map_err(|damage| self.failed(damage))
    }

    fn ordinals(&self, docs: &[u32], out: &mut Ordinals) -> Result<()> {
        out.clear();
        let read = self.view()?.ordinals(docs, self.block.first, |ordinals| {
            out.ordinals.extend_from_slice(ordinals);
            out.end_document();
        });
        read.map_err(|damage| self.failed(damage))
    }

    fn term(&self, ordinal: u64, out: &mut Vec<u8>) -> Result<()> {
        let read = self.view()?.term(ordinal, out);
        read.map_err(|damage| self.failed(damage))
    }

    fn ordinal_of(&self, term: &[u8]) -> Result<u64> {
        let found = self.view()?.ordinal_of(term);
        found.map_err(|damage| self.failed(damage))
    }
}

/// The values of some documents, in memory.
#[derive(Debug, Default)]
pub(crate) struct ListedColumn {
    /// Ascending.
    docs: Vec<u32>,
    /// Where the ordinals of each document end.
    ends: Vec<u32>,
    /// Document by document, ascending.
    ordinals: Vec<u32>,
    /// Different terms, ascending: an ordinal is the place of one.
    terms: Vec<Vec<u8>>,
    has_many: bool,
}

impl ListedColumn {
    /// Of documents and their terms, in any order.
    pub(crate) fn new(mut pairs: Vec<(u32, Vec<u8>)>) -> ListedColumn {
        pairs.sort_unstable();
        pairs.dedup();
        let mut terms: Vec<Vec<u8>> = pairs.iter().map(|(_, term)| term.clone()).collect();
        terms.sort_unstable();
        terms.dedup();
        let mut column = ListedColumn::default();
        for of_doc in pairs.chunk_by(|(a, _), (b, _)| a == b) {
            column.docs.extend(of_doc.first().map(|(doc, _)| *doc));
            column.has_many |= of_doc.len() > 1;
            for (_, term) in of_doc {
                let ordinal = terms.partition_point(|other| other < term);
                column.ordinals.push(ordinal as u32);
            }
            column.ends.push(column.ordinals.len() as u32);
        }
        ListedColumn { terms, ..column }
    }

    fn of(&self, doc: u32) -> &[u32] {
        let Ok(at) = self.docs.binary_search(&doc) else {
            return &[];
        };
        let start = at.checked_sub(1).and_then(|before| self.ends.get(before));
        let start = start.copied().unwrap_or(0) as usize;
        let end = self.ends.get(at).map_or(start, |end| *end as usize);
        self.ordinals.get(start..end).unwrap_or_default()
    }
}

impl Column for ListedColumn {
    fn zone(&self) -> Option<(&[u8], &[u8])> {
        Some((self.terms.first()?, self.terms.last()?))
    }

    fn has_many(&self) -> bool {
        self.has_many
    }

    fn ordinal_end(&self) -> u64 {
        self.terms.len() as u64
    }

    fn ends(&self, docs: &[u32], end: End, out: &mut Vec<u64>) -> Result<()> {
        out.clear();
        out.extend(docs.iter().map(|doc| {
            let ordinals = self.of(*doc);
            let found = match end {
                End::Smallest => ordinals.first(),
                End::Largest => ordinals.last(),
            };
            found.map_or(NO_ORDINAL, |ordinal| u64::from(*ordinal))
        }));
        Ok(())
    }

    fn ordinals(&self, docs: &[u32], out: &mut Ordinals) -> Result<()> {
        out.clear();
        for doc in docs {
            let ordinals = self.of(*doc).iter().map(|ordinal| u64::from(*ordinal));
            out.ordinals.extend(ordinals);
            out.end_document();
        }
        Ok(())
    }

    fn term(&self, ordinal: u64, out: &mut Vec<u8>) -> Result<()> {
        let place = usize::try_from(ordinal).ok();
        let term = place.and_then(|place| self.terms.get(place));
        out.extend_from_slice(term.map_or(&[], Vec::as_slice));
        Ok(())
    }

    fn ordinal_of(&self, term: &[u8]) -> Result<u64> {
        Ok(self.terms.partition_point(|other| other.as_slice() < term) as u64)
    }
}
