//! Columns of a live partition's segments: a layer of a block, or documents one by one.

use super::column_blocks::{FieldBlock, damaged};
use quire_index::{ColumnBlock, DocSet, IndexDamage, Numbers};
use quire_query::{Column, End, Error, NO_ORDINAL, Ordinals, Result, TermBounds};
use quire_seeded::{Bug, seeded};
use std::ops::{Bound, ControlFlow};
use std::sync::{Arc, OnceLock};

/// A packed layer of a block. The documents that are wanted of it are all contained.
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

    fn each_term(
        &self,
        ordinals: &[u64],
        see: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let read = self.view()?.each_term(ordinals, see);
        read.map_err(|damage| self.failed(damage))
    }

    fn ordinal_of(&self, term: &[u8]) -> Result<u64> {
        let found = self.view()?.ordinal_of(term);
        found.map_err(|damage| self.failed(damage))
    }
}

/// The values of some documents, in memory. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct ListedColumn(Arc<Listed>);

#[derive(Debug, Default)]
struct Listed {
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
        pairs.sort_unstable_by(|(a, one), (b, other)| (one, a).cmp(&(other, b)));
        let mut terms: Vec<Vec<u8>> = Vec::new();
        let mut of_docs: Vec<(u32, u32)> = Vec::with_capacity(pairs.len());
        for (doc, term) in pairs {
            if terms.last() != Some(&term) {
                terms.push(term);
            }
            of_docs.push((doc, terms.len() as u32 - 1));
        }
        of_docs.sort_unstable();
        of_docs.dedup();
        let mut column = Listed::default();
        for of_doc in of_docs.chunk_by(|(a, _), (b, _)| a == b) {
            column.docs.extend(of_doc.first().map(|(doc, _)| *doc));
            column.has_many |= of_doc.len() > 1;
            column
                .ordinals
                .extend(of_doc.iter().map(|(_, ordinal)| *ordinal));
            column.ends.push(column.ordinals.len() as u32);
        }
        ListedColumn(Arc::new(Listed { terms, ..column }))
    }

    #[cfg(test)]
    pub(crate) fn is_same(&self, other: &ListedColumn) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Bytes of memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        let of_term = |term: &Vec<u8>| size_of::<Vec<u8>>() + term.capacity();
        let Listed {
            docs,
            ends,
            ordinals,
            terms,
            ..
        } = &*self.0;
        let numbers = docs.capacity() + ends.capacity() + ordinals.capacity();
        numbers * size_of::<u32>() + terms.iter().map(of_term).sum::<usize>()
    }

    /// The documents with a value between two bounds.
    pub(crate) fn docs_between(&self, (lower, upper): TermBounds<'_>) -> DocSet {
        let terms = &self.0.terms;
        let place = |term: &[u8]| terms.partition_point(|other| other.as_slice() < term);
        let after = |term: &[u8]| terms.partition_point(|other| other.as_slice() <= term);
        let start = match lower {
            Bound::Unbounded => 0,
            Bound::Included(lower) => place(lower),
            Bound::Excluded(lower) => after(lower),
        };
        let end = match upper {
            Bound::Unbounded => terms.len(),
            Bound::Included(upper) => after(upper),
            Bound::Excluded(upper) => place(upper),
        };
        if start >= end {
            return DocSet::empty();
        }
        let is_in = |ordinal: &u32| (start..end).contains(&(*ordinal as usize));
        let mut begin = 0;
        let docs = self.0.docs.iter().zip(&self.0.ends);
        let found = docs.filter(|(_, end)| {
            let end = **end as usize;
            let ordinals = self.0.ordinals.get(begin..end).unwrap_or_default();
            begin = end;
            ordinals.iter().any(is_in)
        });
        found.map(|(doc, _)| *doc).collect()
    }

    /// Shows the terms of some documents, ascending, each once.
    pub(crate) fn each_term(&self, docs: &DocSet, see: &mut dyn FnMut(u32, &[u8])) {
        for doc in docs {
            for ordinal in self.of(doc) {
                if let Some(term) = self.0.terms.get(*ordinal as usize) {
                    see(doc, term);
                }
            }
        }
    }

    fn of(&self, doc: u32) -> &[u32] {
        let Ok(at) = self.0.docs.binary_search(&doc) else {
            return &[];
        };
        let start = at.checked_sub(1).and_then(|before| self.0.ends.get(before));
        let start = start.copied().unwrap_or(0) as usize;
        let end = self.0.ends.get(at).map_or(start, |end| *end as usize);
        self.0.ordinals.get(start..end).unwrap_or_default()
    }
}

impl Column for ListedColumn {
    fn zone(&self) -> Option<(&[u8], &[u8])> {
        Some((self.0.terms.first()?, self.0.terms.last()?))
    }

    fn has_many(&self) -> bool {
        self.0.has_many
    }

    fn ordinal_end(&self) -> u64 {
        self.0.terms.len() as u64
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
        let term = place.and_then(|place| self.0.terms.get(place));
        out.extend_from_slice(term.map_or(&[], Vec::as_slice));
        Ok(())
    }

    fn ordinal_of(&self, term: &[u8]) -> Result<u64> {
        Ok(self
            .0
            .terms
            .partition_point(|other| other.as_slice() < term) as u64)
    }
}
