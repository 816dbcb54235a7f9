//! Columns of a live partition: ordinals by document, made of a field's postings.
//!
//! # Invariants
//! 1. A [`BaseColumn`] has the ordinals of the values of its field, dense and in the order of
//!    terms.
//! 2. A [`LiveColumn`] leaves room after each of these for values that only changed documents have:
//!    ordinal `o` of the base is `(o + 1) << GAP_BITS` here, and a value between `o - 1` and `o`
//!    that is new is `(o << GAP_BITS) | k`, where `k` counts from 1.

use quire_index::term;
use quire_model::Document;
use quire_query::{Column, End, NO_ORDINAL, Ordinals, Path, Result};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Bits for the values between two values of the base.
const GAP_BITS: u32 = 31;

/// The ordinals of the values that postings give each document.
#[derive(Debug, Default)]
pub(crate) struct BaseColumn {
    /// Terms, one after another, ascending, and where each ends.
    terms: Vec<u8>,
    ends: Vec<usize>,
    /// Where the ordinals of each document end.
    doc_ends: Vec<u32>,
    /// Ordinals, document by document, ascending.
    ordinals: Vec<u32>,
}

/// Makes a [`BaseColumn`].
#[derive(Debug)]
pub(crate) struct ColumnBuilder {
    terms: BTreeMap<Vec<u8>, Vec<u32>>,
    doc_end: u32,
}

impl ColumnBuilder {
    /// Adds documents with a value of this term.
    pub(crate) fn add(&mut self, term: &[u8], docs: impl Iterator<Item = u32>) {
        match self.terms.get_mut(term) {
            Some(known) => known.extend(docs),
            None => drop(self.terms.insert(term.to_vec(), docs.collect())),
        }
    }

    /// The column.
    pub(crate) fn finish(self) -> BaseColumn {
        let mut doc_ends = vec![0u32; self.doc_end as usize + 1];
        let docs_of = || self.terms.values().flatten();
        for doc in docs_of() {
            if let Some(count) = doc_ends.get_mut(*doc as usize + 1) {
                *count += 1;
            }
        }
        let mut sum = 0;
        for end in &mut doc_ends {
            sum += *end;
            *end = sum;
        }
        // `doc_ends` begins with 0: the start of each document, which moves to its end here.
        let mut ordinals = vec![0u32; sum as usize];
        let (mut terms, mut ends) = (Vec::new(), Vec::new());
        for (ordinal, (term, docs)) in (0..).zip(&self.terms) {
            terms.extend_from_slice(term);
            ends.push(terms.len());
            for doc in docs {
                if let Some(at) = doc_ends.get_mut(*doc as usize) {
                    ordinals[*at as usize] = ordinal;
                    *at += 1;
                }
            }
        }
        doc_ends.pop();
        BaseColumn {
            terms,
            ends,
            doc_ends,
            ordinals,
        }
    }
}

impl BaseColumn {
    /// A builder for docids below `doc_end`.
    pub(crate) fn builder(doc_end: u32) -> ColumnBuilder {
        ColumnBuilder {
            terms: BTreeMap::new(),
            doc_end,
        }
    }

    fn of_doc(&self, doc: u32) -> &[u32] {
        let at = doc as usize;
        let start = at
            .checked_sub(1)
            .and_then(|before| self.doc_ends.get(before));
        let start = start.copied().unwrap_or(0) as usize;
        let end = self.doc_ends.get(at).map_or(start, |end| *end as usize);
        self.ordinals.get(start..end).unwrap_or_default()
    }

    fn term(&self, ordinal: usize) -> &[u8] {
        let start = ordinal.checked_sub(1).map_or(0, |before| self.ends[before]);
        let end = self.ends.get(ordinal).copied().unwrap_or(start);
        self.terms.get(start..end).unwrap_or_default()
    }

    /// The first ordinal whose term is `wanted` or greater, and whether it is `wanted`.
    fn search(&self, wanted: &[u8]) -> (usize, bool) {
        let (mut low, mut high) = (0, self.ends.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            match self.term(middle) < wanted {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        (low, low < self.ends.len() && self.term(low) == wanted)
    }
}

/// A column with the values of changed documents in it.
#[derive(Debug)]
pub(crate) struct LiveColumn {
    base: Arc<BaseColumn>,
    /// The ordinals of the documents that changed, ascending.
    changed: BTreeMap<u32, Vec<u64>>,
    /// Terms that the base does not have, by ordinal.
    new_terms: BTreeMap<u64, Vec<u8>>,
}

impl LiveColumn {
    /// The column of `path`; documents that changed have the values that they have now.
    pub(crate) fn new<'d>(
        base: Arc<BaseColumn>,
        path: &Path,
        changed: impl Iterator<Item = (u32, Option<&'d Document>)>,
    ) -> LiveColumn {
        let mut of_docs: Vec<(u32, Vec<Vec<u8>>)> = Vec::new();
        let mut new: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
        for (doc, document) in changed {
            let mut terms = Vec::new();
            if let Some(document) = document {
                let _ = path.visit(document.root(), &mut |value| {
                    let mut bytes = Vec::new();
                    if term::encode(value, &mut bytes) {
                        terms.push(bytes);
                    }
                    ControlFlow::Continue(())
                });
            }
            terms.sort_unstable();
            terms.dedup();
            let unknown = terms.iter().filter(|term| !base.search(term).1);
            new.extend(unknown.map(|term| (term.clone(), 0)));
            of_docs.push((doc, terms));
        }
        let (mut gap, mut in_gap) = (0, 0);
        for (term, ordinal) in &mut new {
            let after = base.search(term).0 as u64;
            in_gap = if after == gap { in_gap + 1 } else { 1 };
            gap = after;
            *ordinal = gap << GAP_BITS | in_gap;
        }
        let ordinal_of = |term: &Vec<u8>| match base.search(term) {
            (ordinal, true) => spread(ordinal as u64),
            (_, false) => new.get(term).copied().unwrap_or(NO_ORDINAL),
        };
        let changed = of_docs.iter().map(|(doc, terms)| {
            let ordinals = terms.iter().map(ordinal_of).collect();
            (*doc, ordinals)
        });
        LiveColumn {
            changed: changed.collect(),
            new_terms: new
                .iter()
                .map(|(term, ordinal)| (*ordinal, term.clone()))
                .collect(),
            base,
        }
    }

    fn is_dense(&self) -> bool {
        self.changed.is_empty()
    }

    fn here(&self, ordinal: u32) -> u64 {
        match self.is_dense() {
            true => ordinal.into(),
            false => spread(ordinal.into()),
        }
    }

    /// Shows the ordinals of a document, ascending.
    fn each(&self, doc: u32, mut see: impl FnMut(u64)) {
        match self.changed.get(&doc) {
            Some(ordinals) => ordinals.iter().copied().for_each(see),
            None => self
                .base
                .of_doc(doc)
                .iter()
                .for_each(|ordinal| see(self.here(*ordinal))),
        }
    }
}

fn spread(ordinal: u64) -> u64 {
    (ordinal + 1) << GAP_BITS
}

impl Column for LiveColumn {
    fn ordinal_end(&self) -> u64 {
        let base_end = self.base.ends.len() as u64;
        match self.is_dense() {
            true => base_end,
            false => spread(base_end),
        }
    }

    fn ends(&self, docs: &[u32], end: End, out: &mut Vec<u64>) -> Result<()> {
        out.clear();
        for doc in docs {
            let mut found = NO_ORDINAL;
            self.each(*doc, |ordinal| {
                if found == NO_ORDINAL || end == End::Largest {
                    found = ordinal;
                }
            });
            out.push(found);
        }
        Ok(())
    }

    fn ordinals(&self, docs: &[u32], out: &mut Ordinals) -> Result<()> {
        out.clear();
        for doc in docs {
            self.each(*doc, |ordinal| out.ordinals.push(ordinal));
            out.end_document();
        }
        Ok(())
    }

    fn term(&self, ordinal: u64, out: &mut Vec<u8>) -> Result<()> {
        let term = match (self.is_dense(), self.new_terms.get(&ordinal)) {
            (true, _) => self
                .base
                .term(usize::try_from(ordinal).unwrap_or(usize::MAX)),
            (false, Some(term)) => term,
            (false, None) => {
                let base = (ordinal >> GAP_BITS).wrapping_sub(1);
                self.base.term(usize::try_from(base).unwrap_or(usize::MAX))
            }
        };
        out.extend_from_slice(term);
        Ok(())
    }

    fn ordinal_of(&self, term: &[u8]) -> Result<u64> {
        let (ordinal, is_known) = self.base.search(term);
        if self.is_dense() {
            return Ok(ordinal as u64);
        }
        if is_known {
            return Ok(spread(ordinal as u64));
        }
        // The first new value that is not less, or the base's next one.
        let gap = (ordinal as u64) << GAP_BITS;
        let in_gap = self.new_terms.range(gap..spread(ordinal as u64));
        let mut not_less = in_gap.filter(|(_, new)| new.as_slice() >= term);
        Ok(not_less
            .next()
            .map_or(spread(ordinal as u64), |(found, _)| *found))
    }
}
