//! Columns of a live partition's segments: a layer of a block, or documents one by one.

use super::column_blocks::{FieldBlock, damaged};
use super::number::Number;
use quire_index::{ColumnBlock, DocSet, IndexDamage, Numbers, term};
use quire_query::{Column, End, Error, NO_ORDINAL, Ordinals, Result, TermBounds};
use quire_seeded::{Bug, seeded};
use std::ops::{Bound, ControlFlow, Range};
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

/// Documents of several terms are sorted if they are fewer than one in this number; else all are
/// looked at.
const SORTED_PART: usize = 16;

/// What one document has in a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TermsOf<'c> {
    None,
    One(&'c [u8]),
    Several,
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
    /// An ordinal is the place of a term.
    terms: Terms,
    has_many: bool,
    by_term: OnceLock<ByTerm>,
    /// What each document has, if all have one number or null.
    numbers: OnceLock<Option<Vec<Number>>>,
}

/// The documents of each term, ascending, one term after the other.
#[derive(Debug)]
struct ByTerm {
    docs: Vec<u32>,
    /// Where the documents of each term begin, and where all end.
    starts: Vec<u32>,
}

impl ByTerm {
    fn new(listed: &Listed) -> ByTerm {
        let mut starts = vec![0; listed.terms.len() + 1];
        for ordinal in &listed.ordinals {
            if let Some(count) = starts.get_mut(*ordinal as usize + 1) {
                *count += 1;
            }
        }
        let mut end = 0;
        for start in &mut starts {
            end += *start;
            *start = end;
        }
        let (mut docs, mut next) = (vec![0; listed.ordinals.len()], starts.clone());
        for (doc, ordinals) in listed.rows() {
            for ordinal in ordinals {
                let Some(next) = next.get_mut(*ordinal as usize) else {
                    continue;
                };
                if let Some(slot) = docs.get_mut(*next as usize) {
                    *slot = doc;
                }
                *next += 1;
            }
        }
        ByTerm { docs, starts }
    }

    /// The documents of terms that follow each other; one with several of them is there as often.
    fn of(&self, places: Range<usize>) -> &[u32] {
        let ends = self
            .starts
            .get(places.start)
            .zip(self.starts.get(places.end));
        let docs = ends.and_then(|(start, end)| self.docs.get(*start as usize..*end as usize));
        docs.unwrap_or_default()
    }
}

/// Documents in any order.
pub(super) fn set_of(mut docs: Vec<u32>) -> DocSet {
    docs.sort_unstable();
    docs.dedup();
    docs.into_iter().collect()
}

/// Different terms, ascending.
#[derive(Debug, Default)]
struct Terms {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
}

impl Terms {
    fn len(&self) -> usize {
        self.ends.len()
    }

    fn get(&self, place: usize) -> Option<&[u8]> {
        let end = *self.ends.get(place)?;
        let before = place
            .checked_sub(1)
            .and_then(|before| self.ends.get(before));
        self.bytes.get(before.copied().unwrap_or(0)..end)
    }

    fn last(&self) -> Option<&[u8]> {
        self.get(self.len().checked_sub(1)?)
    }

    fn push(&mut self, term: &[u8]) {
        debug_assert!(self.last() < Some(term), "terms ascend");
        self.bytes.extend_from_slice(term);
        self.ends.push(self.bytes.len());
    }

    /// How many come first of which `is_before` is true.
    fn partition_point(&self, is_before: impl Fn(&[u8]) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.get(middle).is_some_and(&is_before) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }
}

/// Documents and their terms on the way to a [`ListedColumn`].
#[derive(Debug, Default)]
pub(crate) struct ListedBuilder {
    bytes: Vec<u8>,
    pairs: Vec<Pair>,
}

/// A document, and a term of it in the bytes.
#[derive(Debug, Clone, Copy)]
struct Pair {
    /// The first bytes of the term, zeros past its end.
    prefix: u64,
    start: usize,
    end: usize,
    doc: u32,
}

impl ListedBuilder {
    /// Adds a term of a document, which `write` writes; nothing if it returns false. Returns about
    /// the bytes of memory that it takes.
    pub(crate) fn add(&mut self, doc: u32, write: impl FnOnce(&mut Vec<u8>) -> bool) -> usize {
        let start = self.bytes.len();
        if !write(&mut self.bytes) {
            self.bytes.truncate(start);
            return 0;
        }
        let term = self.bytes.get(start..).unwrap_or_default();
        let mut prefix = [0; 8];
        let length = term.len().min(8);
        if let (Some(prefix), Some(first)) = (prefix.get_mut(..length), term.get(..length)) {
            prefix.copy_from_slice(first);
        }
        self.pairs.push(Pair {
            prefix: u64::from_be_bytes(prefix),
            start,
            end: self.bytes.len(),
            doc,
        });
        size_of::<Pair>() + self.bytes.len() - start
    }

    /// Adds a term of a document.
    pub(crate) fn add_term(&mut self, doc: u32, term: &[u8]) {
        self.add(doc, |bytes| {
            bytes.extend_from_slice(term);
            true
        });
    }

    /// The column of all that was added, in any order.
    pub(crate) fn finish(self) -> ListedColumn {
        let ListedBuilder { bytes, mut pairs } = self;
        let term = |pair: &Pair| bytes.get(pair.start..pair.end).unwrap_or_default();
        pairs.sort_unstable_by(|a, b| {
            let by_prefix = a.prefix.cmp(&b.prefix);
            by_prefix.then_with(|| (term(a), a.doc).cmp(&(term(b), b.doc)))
        });
        let mut terms = Terms::default();
        let mut of_docs: Vec<(u32, u32)> = Vec::with_capacity(pairs.len());
        for pair in &pairs {
            if terms.last() != Some(term(pair)) {
                terms.push(term(pair));
            }
            of_docs.push((pair.doc, terms.len() as u32 - 1));
        }
        of_docs.sort_unstable();
        of_docs.dedup();
        let mut column = Listed::default();
        for of_doc in of_docs.chunk_by(|(a, _), (b, _)| a == b) {
            let ordinals = of_doc.iter().map(|(_, ordinal)| *ordinal);
            column.push(of_doc.first().map_or(0, |(doc, _)| *doc), ordinals);
        }
        ListedColumn(Arc::new(Listed { terms, ..column }))
    }
}

impl Listed {
    /// Adds a document after all others, with the ordinals of its terms.
    fn push(&mut self, doc: u32, ordinals: impl Iterator<Item = u32>) {
        let before = self.ordinals.len();
        self.ordinals.extend(ordinals);
        self.has_many |= self.ordinals.len() > before + 1;
        self.docs.push(doc);
        self.ends.push(self.ordinals.len() as u32);
    }

    fn by_term(&self) -> &ByTerm {
        self.by_term.get_or_init(|| ByTerm::new(self))
    }

    /// Whether the terms may all be numbers or null. Terms of a type lie together.
    fn may_be_numbers(&self) -> bool {
        let is_number = |place| self.terms.get(place).and_then(Number::of_term).is_some();
        let last = self.terms.len().checked_sub(1);
        !self.has_many && last.is_some_and(|last| is_number(last) && is_number(0))
    }

    fn numbers(&self) -> Option<&[Number]> {
        let numbers = self.numbers.get_or_init(|| {
            if !self.may_be_numbers() {
                return None;
            }
            let of_terms =
                (0..self.terms.len()).map(|place| Number::of_term(self.terms.get(place)?));
            let of_terms = of_terms.collect::<Option<Vec<Number>>>()?;
            let of_docs = self.ordinals.iter();
            let numbers = of_docs.map(|ordinal| of_terms.get(*ordinal as usize).copied());
            numbers.collect()
        });
        numbers.as_deref()
    }

    /// The documents, and the ordinals of each.
    fn rows(&self) -> impl Iterator<Item = (u32, &[u32])> {
        let mut begin = 0;
        self.docs.iter().zip(&self.ends).map(move |(doc, end)| {
            let ordinals = self.ordinals.get(begin..*end as usize);
            begin = *end as usize;
            (*doc, ordinals.unwrap_or_default())
        })
    }
}

impl ListedColumn {
    /// The values of the documents of two columns: of those in `newer_docs` by the newer one.
    pub(crate) fn joined(
        older: &ListedColumn,
        newer: &ListedColumn,
        newer_docs: &DocSet,
    ) -> ListedColumn {
        let (older, newer) = (&*older.0, &*newer.0);
        // A column has no term without a document.
        let mut is_used = vec![false; older.terms.len()];
        let mut left = newer_docs.iter().peekable();
        let mut kept = Vec::with_capacity(older.docs.len());
        for (doc, ordinals) in older.rows() {
            while left.next_if(|newer| *newer < doc).is_some() {}
            if left.peek() != Some(&doc) {
                kept.push((doc, ordinals));
                for ordinal in ordinals {
                    if let Some(is_used) = is_used.get_mut(*ordinal as usize) {
                        *is_used = true;
                    }
                }
            }
        }
        let mut terms = Terms::default();
        let mut places = [vec![0; older.terms.len()], vec![0; newer.terms.len()]];
        let (mut a, mut b) = (0, 0);
        loop {
            let next = [older.terms.get(a), newer.terms.get(b)];
            let (of_older, of_newer) = match next {
                [None, None] => break,
                [Some(_), None] => (true, false),
                [None, Some(_)] => (false, true),
                [Some(one), Some(other)] => (one <= other, other <= one),
            };
            let of_older_used = of_older && is_used.get(a) == Some(&true);
            let [one, other] = next;
            if let Some(term) = one.filter(|_| of_older_used).or(other.filter(|_| of_newer)) {
                terms.push(term);
            }
            let place = (terms.len() as u32).saturating_sub(1);
            let [of_a, of_b] = &mut places;
            if of_older && let Some(slot) = of_a.get_mut(a) {
                *slot = place;
            }
            if of_newer && let Some(slot) = of_b.get_mut(b) {
                *slot = place;
            }
            a += usize::from(of_older);
            b += usize::from(of_newer);
        }
        let [of_older, of_newer] = &places;
        let mut column = Listed::default();
        let mut newer_rows = newer.rows().peekable();
        let mut add = |doc: u32, ordinals: &[u32], places: &[u32]| {
            let place = |ordinal: &u32| places.get(*ordinal as usize).copied();
            column.push(doc, ordinals.iter().filter_map(place));
        };
        for (doc, ordinals) in kept {
            while let Some((doc, ordinals)) = newer_rows.next_if(|(newer, _)| *newer < doc) {
                add(doc, ordinals, of_newer);
            }
            add(doc, ordinals, of_older);
        }
        newer_rows.for_each(|(doc, ordinals)| add(doc, ordinals, of_newer));
        ListedColumn(Arc::new(Listed { terms, ..column }))
    }

    #[cfg(test)]
    pub(crate) fn is_same(&self, other: &ListedColumn) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Bytes of memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        let Listed {
            docs,
            ends,
            ordinals,
            terms,
            ..
        } = &*self.0;
        let by_term = ordinals.len() + terms.len() + 1;
        let of_numbers = match self.0.may_be_numbers() {
            true => docs.len() * size_of::<Number>(),
            false => 0,
        };
        let numbers = docs.capacity() + ends.capacity() + ordinals.capacity() + by_term;
        numbers * size_of::<u32>()
            + of_numbers
            + terms.bytes.capacity()
            + terms.ends.capacity() * size_of::<usize>()
    }

    /// The documents with a value between two bounds.
    pub(crate) fn docs_between(&self, (lower, upper): TermBounds<'_>) -> DocSet {
        let terms = &self.0.terms;
        let place = |term: &[u8]| terms.partition_point(|other| other < term);
        let after = |term: &[u8]| terms.partition_point(|other| other <= term);
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
        let docs = self.0.by_term().of(start..end);
        if end - start == 1 {
            return docs.iter().copied().collect();
        }
        if docs.len() < self.0.docs.len() / SORTED_PART {
            return set_of(docs.to_vec());
        }
        let is_in = |ordinal: &u32| (start..end).contains(&(*ordinal as usize));
        let found = self.0.rows().filter(|(_, own)| own.iter().any(is_in));
        found.map(|(doc, _)| doc).collect()
    }

    /// The documents with one of these terms.
    pub(crate) fn docs_with<'t>(&self, wanted: impl Iterator<Item = &'t [u8]>) -> DocSet {
        let (terms, by_term) = (&self.0.terms, self.0.by_term());
        let mut docs = Vec::new();
        for term in wanted {
            let place = terms.partition_point(|other| other < term);
            if terms.get(place) == Some(term) {
                docs.extend_from_slice(by_term.of(place..place + 1));
            }
        }
        set_of(docs)
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

    /// The least or the greatest term that is not null, of some documents.
    pub(crate) fn end(&self, of: &DocSet, end: End) -> Option<&[u8]> {
        let is_value = |ordinal: &u32| self.0.terms.get(*ordinal as usize) != Some(term::NULL);
        let rows = self.0.rows().filter(|(doc, _)| of.contains(*doc));
        let ordinals = rows.flat_map(|(_, ordinals)| ordinals.iter().copied().filter(is_value));
        let found = match end {
            End::Smallest => ordinals.min(),
            End::Largest => ordinals.max(),
        };
        self.0.terms.get(found? as usize)
    }

    /// Makes ready what finds documents by their terms, and numbers by their documents.
    pub(crate) fn make_ready(&self) {
        self.0.by_term();
        self.0.numbers();
    }

    /// The documents and what each has, if all have one number or null.
    pub(crate) fn numbers_of(
        &self,
    ) -> Option<impl ExactSizeIterator<Item = (u32, Number)> + Clone> {
        let numbers = self.0.numbers()?;
        debug_assert_eq!(numbers.len(), self.0.docs.len(), "each document has one");
        Some(self.0.docs.iter().copied().zip(numbers.iter().copied()))
    }

    /// What a document has.
    pub(crate) fn terms_of(&self, doc: u32) -> TermsOf<'_> {
        match self.of(doc) {
            [] => TermsOf::None,
            [ordinal] => match self.0.terms.get(*ordinal as usize) {
                Some(term) => TermsOf::One(term),
                None => TermsOf::None,
            },
            _ => TermsOf::Several,
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
        Some((self.0.terms.get(0)?, self.0.terms.last()?))
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
        out.extend_from_slice(term.unwrap_or_default());
        Ok(())
    }

    fn ordinal_of(&self, term: &[u8]) -> Result<u64> {
        Ok(self.0.terms.partition_point(|other| other < term) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// Few documents and terms, some of them alike in their first bytes.
    fn any_pairs() -> impl Strategy<Value = Vec<(u32, Vec<u8>)>> {
        let term = prop_oneof![
            vec(0u8..3, 0..3),
            vec(0u8..3, 0..3).prop_map(|end| [b"12345678".as_slice(), &end].concat()),
        ];
        vec((0u32..20, term), 0..40)
    }

    fn text(column: &ListedColumn) -> String {
        format!("{:?}", column.0)
    }

    proptest! {
        #[test]
        fn a_joined_column_is_that_of_the_newest_values(
            older in any_pairs(),
            newer in any_pairs(),
            deleted in vec(0u32..20, 0..4),
        ) {
            let docs = newer.iter().map(|(doc, _)| *doc).chain(deleted);
            let docs: DocSet = docs.collect();
            let of = |pairs: &[(u32, Vec<u8>)]| {
                let mut builder = ListedBuilder::default();
                pairs.iter().for_each(|(doc, term)| builder.add_term(*doc, term));
                builder.finish()
            };
            let joined = ListedColumn::joined(&of(&older), &of(&newer), &docs);
            let left = older.into_iter().filter(|(doc, _)| !docs.contains(*doc));
            let all: Vec<_> = left.chain(newer).collect();
            prop_assert_eq!(text(&joined), text(&of(&all)));
            for (doc, term) in &all {
                let mut found = Vec::new();
                let only: DocSet = [*doc].into_iter().collect();
                joined.each_term(&only, &mut |_, term| found.push(term.to_vec()));
                prop_assert!(found.is_sorted_by(|a, b| a < b) && found.contains(term));
                let bound = Bound::Included(term.as_slice());
                prop_assert!(joined.docs_between((bound, bound)).contains(*doc));
            }
            let mut terms: Vec<&[u8]> = all.iter().map(|(_, term)| &**term).collect();
            terms.extend([b"1".as_slice(), b"12345678"]);
            for (lower, upper) in terms.iter().zip(terms.iter().rev()) {
                let with = |is_in: &dyn Fn(&[u8]) -> bool| -> DocSet {
                    let found = all.iter().filter(|(_, term)| is_in(term));
                    found.map(|(doc, _)| *doc).collect::<std::collections::BTreeSet<_>>()
                        .into_iter().collect()
                };
                let bounds = (Bound::Included(*lower), Bound::Excluded(*upper));
                prop_assert_eq!(
                    joined.docs_between(bounds),
                    with(&|term| *lower <= term && term < *upper)
                );
                prop_assert_eq!(
                    joined.docs_with([*lower, *upper].into_iter()),
                    with(&|term| term == *lower || term == *upper)
                );
            }
        }
    }
}
