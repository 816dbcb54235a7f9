//! [`TermColumn`]: the values of a field in memory, one for each document, where few differ.
//!
//! # Layout
//! Documents lie in pages. A page has a *code* for each of its documents: the number of its term in
//! the order in which terms came, or one that says that it has none. A dictionary has the terms,
//! and their order.

use super::followed_columns::{FollowedColumn, FollowedColumns, NotKept};
use hashbrown::HashMap;
use quire_index::{DocSet, term};
use quire_model::Document;
use quire_query::{Column, End, NO_ORDINAL, Ordinals, Path, Result};
use quire_seeded::Bug;
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

/// Documents of a page. A page is copied when a document changes that a query reads.
const PAGE_DOCS: usize = 512;

/// The code of a document without a value.
const NO_CODE: u16 = u16::MAX;

/// Terms have fewer bytes than this together.
const TERMS_BYTES_MAX: usize = 1 << 20;

/// What a term takes besides its bytes, about.
const TERM_BYTES: usize = 64;

type Page = [u16; PAGE_DOCS];

/// Fields with few different terms.
pub(crate) type FollowedTerms = FollowedColumns<TermColumn>;

/// See the module. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct TermColumn {
    pages: Arc<Pages>,
    /// How many documents there are, where that is known.
    docs: Option<u64>,
}

#[derive(Debug, Clone, Default)]
struct Pages {
    pages: Vec<Arc<Page>>,
    /// How many documents have each code.
    counts: Vec<u64>,
    dictionary: Arc<Dictionary>,
}

/// Different terms. One stays when no document has it any more.
#[derive(Debug, Clone, Default)]
struct Dictionary {
    /// By code.
    terms: Vec<Arc<[u8]>>,
    codes: HashMap<Arc<[u8]>, u16>,
    bytes: usize,
    order: OnceLock<Order>,
}

/// Ordinals, which are numbers of terms in ascending order.
#[derive(Debug, Clone)]
struct Order {
    /// By code.
    ordinals: Vec<u16>,
    /// By ordinal.
    codes: Vec<u16>,
}

impl Dictionary {
    fn order(&self) -> &Order {
        self.order.get_or_init(|| {
            let mut codes: Vec<u16> = (0..NO_CODE).take(self.terms.len()).collect();
            codes.sort_unstable_by_key(|code| self.terms.get(usize::from(*code)));
            let mut ordinals = vec![0; codes.len()];
            for (ordinal, code) in (0..).zip(&codes) {
                if let Some(slot) = ordinals.get_mut(usize::from(*code)) {
                    *slot = ordinal;
                }
            }
            Order { ordinals, codes }
        })
    }

    /// The term at a place in ascending order.
    fn term(&self, ordinal: u64) -> &[u8] {
        let place = usize::try_from(ordinal).ok();
        let code = place.and_then(|place| self.order().codes.get(place));
        let term = code.and_then(|code| self.terms.get(usize::from(*code)));
        term.map_or(&[], |term| term)
    }
}

impl Pages {
    fn page_of(&self, doc: u32) -> Option<&Page> {
        self.pages.get(doc as usize / PAGE_DOCS).map(|page| &**page)
    }

    fn code_of(&self, doc: u32) -> u16 {
        let page = self.page_of(doc);
        let code = page.and_then(|page| page.get(doc as usize % PAGE_DOCS));
        code.copied().unwrap_or(NO_CODE)
    }

    fn set_code(&mut self, doc: u32, code: u16) {
        let place = doc as usize / PAGE_DOCS;
        if self.pages.len() <= place {
            if code == NO_CODE {
                return;
            }
            self.pages.resize(place + 1, Arc::new([NO_CODE; PAGE_DOCS]));
        }
        let page = self.pages.get_mut(place).map(Arc::make_mut);
        if let Some(slot) = page.and_then(|page| page.get_mut(doc as usize % PAGE_DOCS)) {
            let before = std::mem::replace(slot, code);
            if let Some(count) = self.counts.get_mut(usize::from(before)) {
                *count -= 1;
            }
            if let Some(count) = self.counts.get_mut(usize::from(code)) {
                *count += 1;
            }
        }
    }

    /// The code of a term, which is added if it is new.
    fn code(&mut self, term: &[u8]) -> std::result::Result<u16, NotKept> {
        if let Some(code) = self.dictionary.codes.get(term) {
            return Ok(*code);
        }
        let code = u16::try_from(self.dictionary.terms.len()).unwrap_or(NO_CODE);
        if code == NO_CODE || self.dictionary.bytes + term.len() > TERMS_BYTES_MAX {
            return Err(NotKept);
        }
        let dictionary = Arc::make_mut(&mut self.dictionary);
        let term: Arc<[u8]> = term.into();
        dictionary.bytes += term.len();
        dictionary.terms.push(Arc::clone(&term));
        dictionary.codes.insert(term, code);
        dictionary.order = OnceLock::new();
        self.counts.push(0);
        Ok(code)
    }

    fn ordinal_of_doc(&self, doc: u32, order: &Order) -> u64 {
        let ordinal = order.ordinals.get(usize::from(self.code_of(doc)));
        ordinal.map_or(NO_ORDINAL, |ordinal| u64::from(*ordinal))
    }
}

impl TermColumn {
    /// The same column, of a shard with this many documents.
    pub(super) fn of_docs(self, docs: u64) -> TermColumn {
        TermColumn {
            docs: Some(docs),
            ..self
        }
    }

    /// Makes the values of some documents those of another column, by the ordinals of these; those
    /// without an ordinal are left as they are.
    ///
    /// # Errors
    /// None if a value is none that can be kept; else those of the column.
    pub(super) fn set_ordinals(
        &mut self,
        docs: &[u32],
        ordinals: &[u64],
        codes: &mut Codes<'_>,
    ) -> Result<std::result::Result<(), NotKept>> {
        let pages = Arc::make_mut(&mut self.pages);
        let there = docs.iter().zip(ordinals);
        for (doc, ordinal) in there.filter(|(_, ordinal)| **ordinal != NO_ORDINAL) {
            let code = match codes.known.get(ordinal) {
                Some(code) => *code,
                None => {
                    codes.term.clear();
                    codes.column.term(*ordinal, &mut codes.term)?;
                    match pages.code(&codes.term) {
                        Ok(code) => *codes.known.entry(*ordinal).or_insert(code),
                        Err(not_kept) => return Ok(Err(not_kept)),
                    }
                }
            };
            pages.set_code(*doc, code);
        }
        Ok(Ok(()))
    }
}

/// What codes the ordinals of another column have.
pub(super) struct Codes<'c> {
    column: &'c dyn Column,
    known: HashMap<u64, u16>,
    term: Vec<u8>,
}

impl<'c> Codes<'c> {
    pub(super) fn of(column: &'c dyn Column) -> Codes<'c> {
        Codes {
            column,
            known: HashMap::new(),
            term: Vec::new(),
        }
    }
}

impl FollowedColumn for TermColumn {
    const NOT_BROUGHT_UP: Bug = Bug::TermsNotBroughtUp;

    fn set_document(
        &mut self,
        doc: u32,
        path: &Path,
        document: Option<&Document>,
    ) -> std::result::Result<(), NotKept> {
        let (mut first, mut next) = (Vec::new(), Vec::new());
        let mut kept = Ok(());
        if let Some(document) = document {
            let _ = path.visit(document.root(), &mut |value| {
                next.clear();
                // An array or an object is no value.
                if !term::encode(value, &mut next) {
                    return ControlFlow::Continue(());
                }
                if first.is_empty() {
                    std::mem::swap(&mut first, &mut next);
                } else if first != next {
                    kept = Err(NotKept);
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            });
        }
        kept?;
        self.set_term(doc, (!first.is_empty()).then_some(&first))
    }

    fn set_term(&mut self, doc: u32, term: Option<&[u8]>) -> std::result::Result<(), NotKept> {
        let pages = Arc::make_mut(&mut self.pages);
        let code = match term {
            Some(term) => pages.code(term)?,
            None => NO_CODE,
        };
        pages.set_code(doc, code);
        Ok(())
    }

    fn bytes(&self) -> u64 {
        let dictionary = &self.pages.dictionary;
        let of_terms = dictionary.bytes + dictionary.terms.len() * TERM_BYTES;
        TermColumn::bytes_of((self.pages.pages.len() * PAGE_DOCS) as u32) + of_terms as u64
    }

    fn bytes_of(docs: u32) -> u64 {
        let pages = u64::from(docs).div_ceil(PAGE_DOCS as u64);
        pages * (size_of::<Page>() + size_of::<Arc<Page>>()) as u64
    }
}

impl Column for TermColumn {
    fn has_many(&self) -> bool {
        false
    }

    fn ordinal_end(&self) -> u64 {
        self.pages.dictionary.terms.len() as u64
    }

    fn ends(&self, docs: &[u32], _: End, out: &mut Vec<u64>) -> Result<()> {
        let order = self.pages.dictionary.order();
        out.clear();
        let ordinals = docs
            .iter()
            .map(|doc| self.pages.ordinal_of_doc(*doc, order));
        out.extend(ordinals);
        Ok(())
    }

    fn ordinals(&self, docs: &[u32], out: &mut Ordinals) -> Result<()> {
        let order = self.pages.dictionary.order();
        out.clear();
        for doc in docs {
            let ordinal = self.pages.ordinal_of_doc(*doc, order);
            out.ordinals
                .extend((ordinal != NO_ORDINAL).then_some(ordinal));
            out.end_document();
        }
        Ok(())
    }

    fn count(&self, docs: &DocSet, counts: &mut [u64]) -> Result<bool> {
        let mut of_codes = Vec::new();
        let of_codes = match self.docs == Some(docs.len()) {
            true => &self.pages.counts,
            false => {
                of_codes.resize(self.pages.counts.len(), 0);
                docs.each_word(|first, mut bits| {
                    let page = self.pages.page_of(first).map(|page| page.as_chunks().0);
                    let codes: Option<&[u16; 64]> =
                        page.and_then(|page| page.get(first as usize % PAGE_DOCS / 64));
                    let Some(codes) = codes else { return };
                    while bits != 0 {
                        // Documents without a value have a code past the end.
                        let code = codes[bits.trailing_zeros() as usize % 64];
                        if let Some(count) = of_codes.get_mut(usize::from(code)) {
                            *count += 1;
                        }
                        bits &= bits - 1;
                    }
                });
                &of_codes
            }
        };
        let ordinals = &self.pages.dictionary.order().ordinals;
        for (ordinal, more) in ordinals.iter().zip(of_codes) {
            if let Some(count) = counts.get_mut(usize::from(*ordinal)) {
                *count += more;
            }
        }
        Ok(true)
    }

    fn term(&self, ordinal: u64, out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(self.pages.dictionary.term(ordinal));
        Ok(())
    }

    fn ordinal_of(&self, term: &[u8]) -> Result<u64> {
        let dictionary = &self.pages.dictionary;
        let codes = &dictionary.order().codes;
        let is_before = |code: &u16| {
            dictionary
                .terms
                .get(usize::from(*code))
                .is_some_and(|one| **one < *term)
        };
        Ok(codes.partition_point(is_before) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn document(json: &str) -> Document {
        Document::from_json(json.as_bytes()).unwrap()
    }

    /// Documents that are set, in pages that are next to each other or far apart.
    fn any_sets() -> impl Strategy<Value = Vec<(u32, Option<u8>)>> {
        let doc = prop_oneof![0u32..70, 500u32..530, 5_000u32..5_010];
        vec((doc, proptest::option::weighted(0.8, 0u8..20)), 0..200)
    }

    proptest! {
        #[test]
        fn documents_are_counted_by_the_terms_that_they_have_now(
            sets in any_sets(),
            wanted in vec(0u32..6_000, 0..300),
        ) {
            let (path, mut column) = (Path::new("n"), TermColumn::default());
            let mut now = BTreeMap::new();
            for (doc, value) in sets {
                let document = value.map(|value| document(&format!(r#"{{"n":"{value}"}}"#)));
                column.set_document(doc, &path, document.as_ref()).unwrap();
                now.remove(&doc);
                now.extend(value.map(|value| (doc, value.to_string())));
            }
            let there: DocSet = now.keys().copied().collect();
            let some: DocSet = now.keys().copied().filter(|doc| doc % 3 > 0).collect();
            let others: DocSet = wanted.into_iter().collect();
            let with_others = &there | &others;
            let of_all = column.clone().of_docs(with_others.len());
            for (column, docs) in [
                (&column, &there), (&column, &some), (&column, &others),
                (&of_all, &some), (&of_all, &with_others),
            ] {
                let mut right: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
                for (_, value) in now.iter().filter(|(doc, _)| docs.contains(**doc)) {
                    let mut term = Vec::new();
                    prop_assert!(term::encode(quire_model::ValueRef::String(value), &mut term));
                    *right.entry(term).or_default() += 1;
                }
                let mut counts = vec![0; column.ordinal_end() as usize];
                prop_assert!(column.count(docs, &mut counts).unwrap());
                let mut found = BTreeMap::new();
                for (ordinal, count) in (0..).zip(counts).filter(|(_, count)| *count > 0) {
                    let mut term = Vec::new();
                    column.term(ordinal, &mut term).unwrap();
                    prop_assert_eq!(column.ordinal_of(&term).unwrap(), ordinal);
                    found.insert(term, count);
                }
                prop_assert_eq!(found, right);
            }
        }
    }

    #[test]
    fn several_values_and_too_many_terms_are_not_kept() {
        let path = Path::new("n");
        let set = |column: &mut TermColumn, json: &str| {
            column.set_document(3, &path, Some(&document(json)))
        };
        let mut column = TermColumn::default();
        for json in [
            "{}",
            r#"{"n":[]}"#,
            r#"{"n":{"m":1}}"#,
            r#"{"n":[7.0,7]}"#,
            r#"{"n":null}"#,
        ] {
            assert_eq!(set(&mut column, json), Ok(()), "{json}");
        }
        assert_eq!(set(&mut column, r#"{"n":[7,8]}"#), Err(NotKept));
        let long = format!(r#"{{"n":"{}"}}"#, "x".repeat(TERMS_BYTES_MAX));
        assert_eq!(set(&mut column, &long), Err(NotKept));
        let kept = column.ordinal_end();
        for number in 0..u64::from(NO_CODE) - kept {
            assert_eq!(set(&mut column, &format!(r#"{{"n":"{number}"}}"#)), Ok(()));
        }
        assert_eq!(set(&mut column, r#"{"n":"one more"}"#), Err(NotKept));
        assert_eq!(column.ordinal_end(), u64::from(NO_CODE));
    }
}
