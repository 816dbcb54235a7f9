//! [`LiveShard`]: a live partition as a [`query::Shard`](Shard).
//!
//! # Invariants
//! 1. The postings are as of a position at or before the shard's. Every document that changed in
//!    between is in `changed`, as it is at the shard's position: it is taken out of what postings
//!    say, and tested directly.
//! 2. A test on long values is decided by reading the documents: a posting of a hash only says
//!    which to read. So is any test on a field of which a document has more values than are
//!    indexed.

use super::changed::Changed;
use super::followed::FollowedLeaves;
use super::live_columns::LiveColumns;
use super::number_column::{First, FollowedNumbers, NumberColumn};
use super::postings::{FoundPosting, Postings};
use super::shared_reads::FieldDocs;
use super::term_column::FollowedTerms;
use super::{key, postings::SeePosting};
use crate::{Error, Result};
use parking_lot::Mutex;
use quire_index::{DocSet, term};
use quire_model::ordered::Direction;
use quire_model::{DocId, Document, Position};
use quire_query::{
    Access, AccessCosts, Column, Estimate, FieldInfo, Found, Leaf, Order, Path, Segment, Shard,
    TermRange, Test, WantedFirst,
};
use quire_seeded::{Bug, seeded};
use quire_store::TreeId;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::{Bound, ControlFlow};
use std::sync::{Arc, OnceLock};

/// Postings that an estimate looks at, and one in this number of documents more. What has more is
/// only bounded. A range that has more is *broad*: columns are faster to read than its postings.
const ESTIMATE_POSTINGS_MAX: usize = 256;
const DOCS_OF_A_POSTING: usize = 4096;

/// Of a broad range documents are tested one by one if they are fewer than one in this number.
pub(super) const FEW_PART: u64 = 8;

/// From this number of values on, the documents of a list are collected as bits: a set would be
/// rebuilt for each value.
const LONG_LIST: usize = 8;

/// Estimates that are kept for a query, and entries whose postings are.
const ESTIMATES_KEPT_MAX: usize = 32;
const POSTINGS_KEPT_MAX: usize = 32;

/// One of the first documents of an order is found in the time in which the values of about this
/// number of documents are read from a column, by postings, or from numbers that are followed.
const FIRST_PART: u64 = 24;
const FIRST_PART_OF_NUMBERS: u64 = 4;

/// See [`LiveShard::numbers_as_terms_max`].
const NUMBERS_AS_TERMS_MAX: u64 = 4096;

/// See [`LiveShard::values_bytes_max`].
const VALUES_BYTES_MAX: usize = 4 << 20;

/// What an estimate says of a broad range.
pub(super) const BROAD: Found = Found(Some([1, 0]));
pub(super) const NARROW: Found = Found(Some([0, 0]));

/// Reads documents by docid.
pub(crate) trait Documents: Send + Sync {
    /// The documents of the first docids, in their order: of all, unless they are large, and of one
    /// at least. The key is in the field `_id` of a document that has none.
    ///
    /// # Errors
    /// IndexDamage, by file and offset.
    fn documents(&self, docids: &[DocId]) -> Result<Vec<Document>>;
}

/// A live partition as a shard of a query: what its search index says, and the documents that
/// changed since.
pub struct LiveShard<'v> {
    postings: &'v dyn Postings,
    documents: Box<dyn Documents + 'v>,
    doc_end: u32,
    changed: Arc<Changed>,
    /// All documents, once a query needs to know them.
    docs: OnceLock<DocSet>,
    /// How many they are, where that is known without them.
    pub(crate) doc_count: Option<u64>,
    pub(crate) columns: LiveColumns<'v>,
    /// A range with this many postings or more is broad.
    pub(crate) broad_postings_min: usize,
    fields: Mutex<HashMap<Path, Option<FieldInfo<'static>>>>,
    /// What was estimated: a query needs it more than once.
    estimates: Mutex<Vec<(Leaf, Estimate)>>,
    /// The postings of entries that estimates have read.
    kept: Mutex<Vec<(Vec<u8>, DocSet)>>,
    /// Whether documents may have more values of a field than are indexed.
    pub(crate) has_many: bool,
    /// What earlier queries found, and the position of this shard.
    pub(crate) followed: Option<(&'v FollowedLeaves, Position)>,
    /// Columns that earlier queries read.
    pub(crate) kept_columns: Option<ColumnsAt<'v>>,
    /// Those of numbers that this query needed, or that are not kept.
    pub(super) needed_numbers: Mutex<NeededNumbers>,
    /// Numbers that are followed as terms have at most this many different values.
    pub(crate) numbers_as_terms_max: u64,
    /// The tree that the postings are of.
    pub(crate) tree: Option<TreeId>,
    damage: OnceLock<String>,
    /// Bytes of values that a query may bring into memory at once, of documents that are read as
    /// the index does not have these values.
    pub(crate) values_bytes_max: usize,
    needs_scan: OnceLock<()>,
}

/// Columns of numbers by field, as far as they were looked for.
type NeededNumbers = SmallVec<[(Path, Option<NumberColumn>); 2]>;

/// Columns that queries share, and the positions of a shard and of its index.
pub(crate) struct ColumnsAt<'v> {
    pub(crate) numbers: &'v FollowedNumbers,
    pub(crate) terms: &'v FollowedTerms,
    pub(crate) at: Position,
    pub(crate) built: Position,
}

/// Shown the key of a posting without its cluster, the cluster, and the posting.
pub(super) type EachPosting<'a> = dyn FnMut(
        &[u8],
        u16,
        FoundPosting<'_>,
    ) -> std::result::Result<ControlFlow<()>, quire_index::IndexDamage>
    + 'a;

impl<'v> LiveShard<'v> {
    /// A shard of the docids below `doc_end`.
    pub(crate) fn new(
        postings: &'v dyn Postings,
        documents: Box<dyn Documents + 'v>,
        doc_end: u32,
        changed: Arc<Changed>,
        columns: LiveColumns<'v>,
    ) -> LiveShard<'v> {
        assert!(
            changed.docs().max().is_none_or(|doc| doc < doc_end),
            "a changed document has a docid below the end"
        );
        LiveShard {
            postings,
            documents,
            doc_end,
            changed,
            docs: OnceLock::new(),
            doc_count: None,
            columns,
            broad_postings_min: ESTIMATE_POSTINGS_MAX + doc_end as usize / DOCS_OF_A_POSTING,
            fields: Mutex::default(),
            estimates: Mutex::default(),
            kept: Mutex::default(),
            has_many: true,
            followed: None,
            kept_columns: None,
            needed_numbers: Mutex::default(),
            numbers_as_terms_max: NUMBERS_AS_TERMS_MAX,
            tree: None,
            damage: OnceLock::new(),
            values_bytes_max: VALUES_BYTES_MAX,
            needs_scan: OnceLock::new(),
        }
    }

    /// All documents. Reading them takes longer than a query for a rare value, which needs none of
    /// them.
    pub(super) fn all_docs(&self) -> Result<&DocSet> {
        if let Some(docs) = self.docs.get() {
            return Ok(docs);
        }
        let mut everything = key::field("");
        key::push_present(&mut everything);
        let indexed = self.postings_of(&everything)?;
        let docs = self.with_changed(indexed, &self.changed.there());
        Ok(self.docs.get_or_init(|| docs))
    }

    /// How many documents there are.
    pub(super) fn all_count(&self) -> Result<u64> {
        match self.doc_count {
            Some(count) => Ok(count),
            None => Ok(self.all_docs()?.len()),
        }
    }

    /// All documents that changed since the index, as they are.
    pub(super) fn all_changed(&self) -> &Changed {
        &self.changed
    }

    /// The documents that changed since the index.
    pub(crate) fn changed_docs(&self) -> &DocSet {
        self.changed.docs()
    }

    /// What is wrong with the index, if an answer failed because of that.
    pub(crate) fn damage(&self) -> Option<&str> {
        self.damage.get().map(String::as_str)
    }

    /// Where it is kept.
    pub(crate) fn damage_slot(&self) -> &OnceLock<String> {
        &self.damage
    }

    /// Keeps what is wrong with the index.
    pub(crate) fn failed(&self, error: Error) -> quire_query::Error {
        match &error {
            Error::Index { what } => drop(self.damage.set(what.clone())),
            Error::ValuesTooLarge { .. } => drop(self.needs_scan.set(())),
            _ => {}
        }
        quire_query::Error::shard(error)
    }

    /// Whether an answer failed because it would have held too many values at once. Reading the
    /// documents one after the other holds those of one.
    pub fn needs_scan(&self) -> bool {
        self.needs_scan.get().is_some()
    }

    /// What postings say, with those of the changed documents instead that are found in `changed`.
    fn with_changed(&self, mut docs: DocSet, changed: &DocSet) -> DocSet {
        if !seeded(Bug::ChangedCountedTwice) {
            docs -= self.changed_docs();
        }
        docs |= changed;
        docs
    }

    fn accepting(&self, docs: DocSet, leaf: &Leaf) -> DocSet {
        self.with_changed(docs, &self.changed.matching(&leaf.path, &leaf.test))
    }

    /// Keeps the documents of an entry for the next one who needs them.
    pub(super) fn keep_postings(&self, entry: &[u8], docs: DocSet) {
        let mut kept = self.kept.lock();
        if kept.len() < POSTINGS_KEPT_MAX {
            kept.push((entry.to_vec(), docs));
        }
    }

    fn kept_postings(&self, entry: &[u8]) -> Option<DocSet> {
        let mut kept = self.kept.lock();
        let place = kept.iter().position(|(known, _)| known == entry)?;
        Some(kept.swap_remove(place).1)
    }

    /// The documents of all clusters of the postings under `prefix`.
    fn postings_of(&self, prefix: &[u8]) -> Result<DocSet> {
        if let Some(kept) = self.kept_postings(prefix) {
            return Ok(kept);
        }
        let mut docs = DocSet::empty();
        let Some(end) = key::after_prefix(prefix) else {
            return Ok(docs);
        };
        self.each_posting(prefix, &end, &mut |found, cluster, posting| {
            if found.len() == prefix.len() {
                posting.add_to(&mut docs, cluster)?;
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(docs)
    }

    /// Shows each posting between two keys: the key without the cluster, the cluster, the posting.
    pub(super) fn each_posting(
        &self,
        from: &[u8],
        to: &[u8],
        each: &mut EachPosting<'_>,
    ) -> Result<()> {
        self.each_posting_by(Direction::Ascending, (from, to), each)
    }

    /// As [`each_posting`](Self::each_posting), in the order of the keys or in the reverse one.
    pub(super) fn each_posting_by(
        &self,
        direction: Direction,
        (from, to): (&[u8], &[u8]),
        each: &mut EachPosting<'_>,
    ) -> Result<()> {
        let mut damaged = None;
        let see: &mut SeePosting<'_> = &mut |key, posting| {
            let Some((entry, cluster)) = key::split_cluster(key) else {
                damaged = Some("a key of the search index is cut short".to_string());
                return ControlFlow::Break(());
            };
            match each(entry, cluster, posting) {
                Ok(flow) => flow,
                Err(damage) => {
                    damaged = Some(damage.to_string());
                    ControlFlow::Break(())
                }
            }
        };
        match direction {
            Direction::Ascending => self.postings.visit(from, to, see)?,
            Direction::Descending => self.postings.visit_back(from, to, see)?,
        }
        match damaged {
            None => Ok(()),
            Some(what) => Err(Error::Index { what }),
        }
    }

    /// The documents that the postings of terms, not of hashes, give for a test on a field.
    fn matches_terms(&self, field: &[u8], test: &Test) -> Result<DocSet> {
        match test {
            Test::Eq(value) => self.postings_of_term(field, value.term()),
            Test::In(values) if values.len() < LONG_LIST => {
                let mut docs = DocSet::empty();
                for value in values {
                    docs |= &self.postings_of_term(field, value.term())?;
                }
                Ok(docs)
            }
            Test::In(values) => {
                let mut bits = vec![0u64; (self.doc_end as usize).div_ceil(64)];
                let mut docs = DocSet::empty();
                for value in values {
                    let prefix = [field, &*key::of_term(value.term())].concat();
                    let Some(end) = key::after_prefix(&prefix) else {
                        continue;
                    };
                    self.each_posting(&prefix, &end, &mut |found, cluster, posting| {
                        if found.len() == prefix.len() {
                            add_bits(posting, cluster, &mut bits, &mut docs)?;
                        }
                        Ok(ControlFlow::Continue(()))
                    })?;
                }
                docs |= &DocSet::from_bits(&bits);
                Ok(docs)
            }
            Test::Exists => {
                let mut present = field.to_vec();
                key::push_present(&mut present);
                self.postings_of(&present)
            }
            Test::Range(range) => {
                let (from, to) = term_keys(field, test);
                let mut bits = vec![0u64; (self.doc_end as usize).div_ceil(64)];
                let mut docs = DocSet::empty();
                self.each_posting(&from, &to, &mut |entry, cluster, posting| {
                    let term = entry.get(field.len()..).unwrap_or_default();
                    if range.contains(term) {
                        add_bits(posting, cluster, &mut bits, &mut docs)?;
                    }
                    Ok(ControlFlow::Continue(()))
                })?;
                docs |= &DocSet::from_bits(&bits);
                Ok(docs)
            }
        }
    }

    fn postings_of_term(&self, field: &[u8], term: &[u8]) -> Result<DocSet> {
        self.postings_of(&[field, &*key::of_term(term)].concat())
    }

    /// The documents with more values of a field than are indexed.
    pub(super) fn many_values(&self, field: &[u8]) -> Result<DocSet> {
        match self.has_many && !seeded(Bug::ManyValuesForgotten) {
            true => self.postings_of(&[field, &[key::MANY]].concat()),
            false => Ok(DocSet::empty()),
        }
    }

    /// The documents that a test needs to be read for: the index has a hash of a long value, or not
    /// all values.
    pub(super) fn candidates(&self, field: &[u8], test: &Test) -> Result<DocSet> {
        if matches!(test, Test::Exists) {
            return Ok(DocSet::empty());
        }
        let mut docs = self.many_values(field)?;
        docs |= &self.long_candidates(field, test)?;
        Ok(docs)
    }

    fn long_candidates(&self, field: &[u8], test: &Test) -> Result<DocSet> {
        match test {
            Test::Exists => Ok(DocSet::empty()),
            Test::Eq(value) if value.term().len() <= key::TERM_BYTES_MAX => Ok(DocSet::empty()),
            Test::Eq(value) => self.postings_of_term(field, value.term()),
            Test::In(values) => {
                let mut docs = DocSet::empty();
                let long = |term: &[u8]| term.len() > key::TERM_BYTES_MAX;
                for value in values.iter().filter(|value| long(value.term())) {
                    docs |= &self.postings_of_term(field, value.term())?;
                }
                Ok(docs)
            }
            Test::Range(_) if !takes_strings(test) => Ok(DocSet::empty()),
            Test::Range(_) => self.long_values(field),
        }
    }

    /// The documents with a long value in a field.
    fn long_values(&self, field: &[u8]) -> Result<DocSet> {
        let (from, to) = key::long_terms(field);
        let mut docs = DocSet::empty();
        self.each_posting(&from, &to, &mut |_, cluster, posting| {
            posting.add_to(&mut docs, cluster)?;
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(docs)
    }

    /// Whether the postings have the terms of all values of a field: none is long, and no document
    /// has more than are indexed.
    pub(super) fn has_all_terms(&self, field: &[u8]) -> Result<bool> {
        Ok(self.long_values(field)?.is_empty() && self.many_values(field)?.is_empty())
    }

    /// Those of `docs` whose document fulfils the leaf.
    fn read_and_test(&self, docs: &DocSet, leaf: &Leaf) -> Result<DocSet> {
        let mut kept = DocSet::empty();
        let mut scratch = Vec::new();
        self.read(docs, &mut |doc, document| {
            if leaf.accepts(document.root(), &mut scratch) {
                kept.insert(doc);
            }
            ControlFlow::Continue(())
        })?;
        Ok(kept)
    }

    /// Shows the documents of docids that did not change, batch by batch, until `see` breaks.
    pub(crate) fn read(
        &self,
        docs: &DocSet,
        see: &mut dyn FnMut(u32, &Document) -> ControlFlow<()>,
    ) -> Result<()> {
        let unchanged = docs - self.changed_docs();
        let (mut batch, mut left) = ([0; 256], unchanged.iter());
        loop {
            let count = left.next_many(&mut batch);
            let Some(docids) = batch.get(..count).filter(|docids| !docids.is_empty()) else {
                return Ok(());
            };
            let ids: Vec<DocId> = docids.iter().copied().map(DocId).collect();
            let mut rest = ids.as_slice();
            while !rest.is_empty() {
                let documents = self.documents.documents(rest)?;
                let (read, others) = rest.split_at(documents.len().clamp(1, rest.len()));
                for (doc, document) in read.iter().zip(&documents) {
                    if see(doc.0, document).is_break() {
                        return Ok(());
                    }
                }
                rest = others;
            }
        }
    }

    fn known_estimate(&self, leaf: &Leaf) -> Option<Estimate> {
        let estimates = self.estimates.lock();
        let known = estimates.iter().find(|(known, _)| known == leaf);
        known.map(|(_, estimate)| *estimate)
    }

    /// How many postings the terms between two keys have, and the documents in them, if that is not
    /// a broad range.
    fn narrow(&self, from: &[u8], to: &[u8]) -> Result<Option<u64>> {
        let (mut seen, mut docs) = (0, 0u64);
        self.each_posting(from, to, &mut |_, _, posting| {
            seen += 1;
            docs += u64::from(posting.len()?);
            Ok(match seen < self.broad_postings_min {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            })
        })?;
        Ok((seen < self.broad_postings_min).then_some(docs))
    }

    /// The range of a test that columns answer faster than postings; `found` may be by an estimate.
    fn broad<'l>(&self, leaf: &'l Leaf, found: Found) -> Result<Option<&'l TermRange>> {
        let Test::Range(range) = &leaf.test else {
            return Ok(None);
        };
        let is_broad = match found {
            BROAD => true,
            NARROW => false,
            _ if let Some(known) = self.known_estimate(leaf) => known.found == BROAD,
            _ => {
                let (from, to) = term_keys(&key::field(leaf.path.as_str()), &leaf.test);
                self.narrow(&from, &to)?.is_none()
            }
        };
        Ok(is_broad.then_some(range))
    }

    /// Those of `docs` that fulfil the leaf, by reading them.
    fn by_documents(&self, leaf: &Leaf, docs: &DocSet) -> Result<DocSet> {
        let mut kept = self.read_and_test(docs, leaf)?;
        kept |= &(&self.changed.matching(&leaf.path, &leaf.test) & docs);
        Ok(kept)
    }

    /// Shows the first or the last entry between two keys.
    pub(super) fn end_of_postings(
        &self,
        from: &[u8],
        to: &[u8],
        is_last: bool,
        show: &mut dyn FnMut(&[u8]),
    ) -> Result<()> {
        let see: &mut SeePosting<'_> = &mut |key, _| {
            if let Some((entry, _)) = key::split_cluster(key) {
                show(entry);
            }
            ControlFlow::Break(())
        };
        match is_last {
            true => self.postings.visit_back(from, to, see),
            false => self.postings.visit(from, to, see),
        }
    }

    fn matching_by_columns(&self, leaf: &Leaf, range: &TermRange) -> Result<DocSet> {
        let (mut docs, marked) = self.in_range(&leaf.path, range)?;
        docs |= &self.read_and_test(&marked, leaf)?;
        Ok(self.accepting(docs, leaf))
    }

    fn matching(&self, leaf: &Leaf, found: Found) -> quire_query::Result<Arc<DocSet>> {
        let range = self.broad(leaf, found);
        let range = range.map_err(|error| self.failed(error))?;
        if let Some(known) = self.known_docs_by(leaf, range.is_some()) {
            return Ok(known);
        }
        let docs = match range {
            Some(range) => match self.numbers(&leaf.path)? {
                Some(numbers) => Ok(numbers.docs_in(range)),
                None => self.matching_by_columns(leaf, range),
            },
            None => self.matching_by_postings(leaf),
        };
        let docs = Arc::new(docs.map_err(|error| self.failed(error))?);
        if let Some((followed, position)) = &self.followed {
            followed.follow(leaf, Arc::clone(&docs), *position, range.is_some());
        }
        Ok(docs)
    }

    fn matching_by_postings(&self, leaf: &Leaf) -> Result<DocSet> {
        let field = key::field(leaf.path.as_str());
        let mut docs = self.matches_terms(&field, &leaf.test)?;
        let candidates = self.candidates(&field, &leaf.test)?;
        if !candidates.is_empty() {
            if matches!(&leaf.test, Test::Eq(_) | Test::In(_)) {
                // What the hash alone found is not decided yet.
                docs -= &candidates;
            }
            let undecided = &candidates - &docs;
            docs |= &self.read_and_test(&undecided, leaf)?;
        }
        Ok(self.accepting(docs, leaf))
    }

    /// The documents that have a field, by the postings alone.
    pub(super) fn field_docs(&self, path: &Path) -> Result<Arc<FieldDocs>> {
        let shared = self.columns.shared.as_deref();
        if let Some(read) = shared.and_then(|shared| shared.field(path)) {
            return Ok(read);
        }
        let field = key::field(path.as_str());
        let present = [field.as_slice(), &[key::PRESENT]].concat();
        let several = [field.as_slice(), &[key::SEVERAL]].concat();
        let null = self.postings_of_term(&field, term::NULL)?;
        let read = Arc::new(FieldDocs {
            present: &self.postings_of(&present)? | &null,
            has_several: !self.postings_of(&several)?.is_empty(),
        });
        if let Some(shared) = shared {
            shared.keep_field(path, &read);
        }
        Ok(read)
    }

    fn field_info(&self, path: &Path) -> Result<Option<FieldInfo<'static>>> {
        let (docs, many) = match self.kept_numbers(path) {
            Some(numbers) => (numbers.there(), false),
            None => {
                let indexed = self.field_docs(path)?;
                let all = (Bound::Unbounded, Bound::Unbounded);
                let docs = indexed.present.clone();
                let docs = self.with_changed(docs, &self.changed.between(path, all));
                (
                    docs.len(),
                    self.changed.has_many(path) || indexed.has_several,
                )
            }
        };
        Ok((docs > 0).then_some(FieldInfo {
            filterable: true,
            sortable: true,
            many,
            docs,
            // Of all terms: none would say that there is no value.
            range: Some((Cow::Borrowed(&[]), Cow::Borrowed(&[u8::MAX]))),
            distinct: None,
        }))
    }

    /// The documents that have a value at `path`, up to the first `docs_min` by the order and all
    /// that are level with the last of these.
    fn first_docs(&self, order: &Order, docs_min: u64) -> Result<Option<DocSet>> {
        match self.first_numbers(order, |numbers| numbers.first(order.direction, docs_min)) {
            Some(First::Docs(docs)) => return Ok(Some(docs)),
            Some(First::Unknown) => return Ok(None),
            // Few postings have them.
            Some(First::Level) | None => {}
        }
        let field = key::field(order.path.as_str());
        if !self.has_all_terms(&field)? {
            return Ok(None);
        }
        let (from, to) = key::terms(&field);
        let mut docs = DocSet::empty();
        let mut last: Option<Vec<u8>> = None;
        self.each_posting_by(
            order.direction,
            (&from, &to),
            &mut |entry, cluster, posting| {
                let term = entry.get(field.len()..).unwrap_or_default();
                if last.as_deref() != Some(term) {
                    docs -= self.changed_docs();
                    if docs.len() >= docs_min && last.is_some() {
                        return Ok(ControlFlow::Break(()));
                    }
                    last = Some(term.to_vec());
                }
                posting.add_to(&mut docs, cluster)?;
                Ok(ControlFlow::Continue(()))
            },
        )?;
        docs -= self.changed_docs();
        let is_all = docs.len() < docs_min;
        let bounds = match (&last, order.direction) {
            _ if is_all => (Bound::Unbounded, Bound::Unbounded),
            (None, _) => (Bound::Unbounded, Bound::Unbounded),
            (Some(last), Direction::Ascending) => (Bound::Unbounded, Bound::Included(&**last)),
            (Some(last), Direction::Descending) => (Bound::Included(&**last), Bound::Unbounded),
        };
        Ok(Some(self.with_changed(
            docs,
            &self.changed.between(&order.path, bounds),
        )))
    }
}

/// Whether a string can fulfil a test.
pub(super) fn takes_strings(test: &Test) -> bool {
    let mut empty = Vec::new();
    let is_term = term::encode(quire_model::ValueRef::String(""), &mut empty);
    debug_assert!(is_term, "a string has a term");
    let strings = term::type_range(&empty);
    let (lower, upper) = test.bounds();
    let first = |bound: &[u8]| bound.first().copied().unwrap_or_default();
    let below = match upper {
        Bound::Included(upper) => first(upper) < strings.start,
        Bound::Excluded(upper) => upper <= [strings.start].as_slice(),
        Bound::Unbounded => false,
    };
    let above = match lower {
        Bound::Included(lower) | Bound::Excluded(lower) => first(lower) >= strings.end,
        Bound::Unbounded => false,
    };
    !below && !above
}

/// Keys between which all terms of a field lie that can fulfil a test.
pub(super) fn term_keys(field: &[u8], test: &Test) -> (Vec<u8>, Vec<u8>) {
    let (first, end) = key::terms(field);
    let (lower, upper) = test.bounds();
    let from = match lower {
        Bound::Included(lower) | Bound::Excluded(lower) => [field, lower].concat().max(first),
        Bound::Unbounded => first,
    };
    let to = match upper {
        Bound::Included(upper) => key::after_prefix(&[field, upper].concat()),
        Bound::Excluded(upper) => Some([field, upper].concat()),
        Bound::Unbounded => None,
    };
    (from, to.map_or(end.clone(), |to| to.min(end)))
}

/// Adds a posting to the bits of all docids, or to `docs` what they do not hold.
fn add_bits(
    posting: FoundPosting<'_>,
    cluster: u16,
    bits: &mut [u64],
    docs: &mut DocSet,
) -> std::result::Result<(), quire_index::IndexDamage> {
    let first = usize::from(cluster) << 10;
    match bits.get_mut(first..) {
        // The last cluster's bits may end early: what is past the last docid is not there.
        Some(bits) if !bits.is_empty() => posting.add_to_bits(bits),
        _ => posting.add_to(docs, cluster),
    }
}

impl Shard for LiveShard<'_> {
    fn doc_end(&self) -> u32 {
        self.doc_end
    }

    fn doc_count(&self) -> quire_query::Result<u64> {
        self.all_count().map_err(|error| self.failed(error))
    }

    fn docs(&self) -> quire_query::Result<DocSet> {
        let docs = self.all_docs().map_err(|error| self.failed(error))?;
        Ok(docs.clone())
    }

    fn field(&self, path: &Path) -> quire_query::Result<Option<FieldInfo<'_>>> {
        if let Some(info) = self.fields.lock().get(path) {
            return Ok(info.clone());
        }
        let info = self.field_info(path).map_err(|error| self.failed(error))?;
        self.fields.lock().insert(path.clone(), info.clone());
        Ok(info)
    }

    fn estimate(&self, leaf: &Leaf) -> quire_query::Result<Estimate> {
        if let Some(known) = self.known_estimate(leaf) {
            return Ok(known);
        }
        let estimate = self.estimated(leaf).map_err(|error| self.failed(error))?;
        let mut known = self.estimates.lock();
        if known.len() < ESTIMATES_KEPT_MAX {
            known.push((leaf.clone(), estimate));
        }
        Ok(estimate)
    }

    fn count(&self, leaves: &[&Leaf]) -> quire_query::Result<Option<u64>> {
        let known = leaves.iter().map(|leaf| Some(self.known_docs(leaf)?.docs));
        let Some(mut known) = known.collect::<Option<SmallVec<[Arc<DocSet>; 4]>>>() else {
            return Ok(None);
        };
        known.sort_by_key(|docs| docs.len());
        Ok(known.split_first().map(|(fewest, others)| {
            let others: SmallVec<[&DocSet; 4]> = others.iter().map(|docs| &**docs).collect();
            fewest.intersection_len_of(&others)
        }))
    }

    fn paths(&self, leaf: &Leaf, estimate: &Estimate, docs: Option<u64>) -> AccessCosts {
        self.access_paths(leaf, estimate, docs)
    }

    fn matches_by(&self, access: Access, leaf: &Leaf, found: Found) -> quire_query::Result<DocSet> {
        match access {
            Access::Postings => self.matches(leaf, NARROW),
            Access::Column => self.matches(leaf, BROAD),
            Access::Documents => self
                .all_docs()
                .and_then(|docs| self.by_documents(leaf, docs))
                .map_err(|error| self.failed(error)),
            Access::Scan => self.matches(leaf, found),
        }
    }

    fn retain_by(
        &self,
        access: Access,
        leaf: &Leaf,
        found: Found,
        docs: &mut DocSet,
    ) -> quire_query::Result<()> {
        match access {
            Access::Postings => self.retain(leaf, NARROW, docs),
            Access::Column => self.retain(leaf, BROAD, docs),
            Access::Documents => {
                let kept = self.by_documents(leaf, docs);
                *docs = kept.map_err(|error| self.failed(error))?;
                Ok(())
            }
            Access::Scan => self.retain(leaf, found, docs),
        }
    }

    fn matches(&self, leaf: &Leaf, found: Found) -> quire_query::Result<DocSet> {
        Ok(Arc::unwrap_or_clone(self.matching(leaf, found)?))
    }

    fn retain(&self, leaf: &Leaf, found: Found, docs: &mut DocSet) -> quire_query::Result<()> {
        let is_few = docs.len() < self.doc_count()? / FEW_PART;
        let broad = || self.broad(leaf, found).map_err(|error| self.failed(error));
        if is_few && let Some(range) = broad()? {
            if let Some(numbers) = self.numbers(&leaf.path)? {
                if let Some(known) = self.known_docs_instead_of(leaf, docs.len()) {
                    *docs &= &*known.docs;
                    return Ok(());
                }
                if !self.is_worth_finding_by_numbers(leaf, docs.len()) {
                    numbers.retain(range, docs);
                    return Ok(());
                }
            } else if self.known_docs_by(leaf, true).is_none()
                && !self.is_worth_finding(leaf, docs.len())
            {
                *docs = self.retained(&leaf.path, range, docs)?;
                return Ok(());
            }
        }
        *docs &= &*self.matching(leaf, found)?;
        Ok(())
    }

    fn first(&self, order: &Order, docs: u64) -> quire_query::Result<Option<DocSet>> {
        self.first_docs(order, docs)
            .map_err(|error| self.failed(error))
    }

    fn first_of(
        &self,
        order: &Order,
        wanted: WantedFirst<'_>,
    ) -> quire_query::Result<Option<DocSet>> {
        match self.first_numbers(order, |numbers| numbers.first_of(order.direction, wanted)) {
            Some(First::Docs(docs)) => Ok(Some(docs)),
            Some(First::Unknown) => Ok(None),
            Some(First::Level) | None => {
                let first = self.first(order, wanted.tested_max)?;
                Ok(first.and_then(|first| wanted.enough_in(&first)))
            }
        }
    }

    fn first_part(&self, order: &Order) -> u64 {
        match self.kept_numbers(&order.path) {
            Some(_) => FIRST_PART_OF_NUMBERS,
            None => FIRST_PART,
        }
    }

    /// All values in memory: queries use [`segments`](Shard::segments).
    fn column(&self, path: &Path) -> quire_query::Result<Option<Box<dyn Column + '_>>> {
        let segment = self.listed(&[path], self.docs()?);
        let segment = segment.map_err(|error| self.failed(error))?;
        Ok(segment.columns.into_iter().next().flatten())
    }

    fn segments(&self, paths: &[&Path], docs: &DocSet) -> quire_query::Result<Vec<Segment<'_>>> {
        if let Some(segment) = self.segment_of_kept(paths)? {
            return Ok(vec![segment]);
        }
        self.segments_of(paths, docs)
            .map_err(|error| self.failed(error))
    }

    fn segments_to_order(
        &self,
        paths: &[&Path],
        docs: &DocSet,
    ) -> quire_query::Result<Vec<Segment<'_>>> {
        match self.segment_of_numbers(paths)? {
            Some(segment) => Ok(vec![segment]),
            None => self.segments(paths, docs),
        }
    }

    fn orders_at_once(&self, order: &Order) -> bool {
        self.kept_numbers(&order.path).is_some()
    }

    fn document(&self, doc: u32) -> quire_query::Result<Option<Document>> {
        if let Some(change) = self.changed.change(doc) {
            return Ok(change.document.clone());
        }
        let docs = self.all_docs().map_err(|error| self.failed(error))?;
        if !docs.contains(doc) {
            return Ok(None);
        }
        let documents = self
            .documents
            .documents(&[DocId(doc)])
            .map_err(|error| self.failed(error))?;
        Ok(documents.into_iter().next())
    }
}
