//! [`Shard`]: documents that can be queried, wherever they are stored.

use crate::{Access, AccessCost, Column, Leaf, Order, Path, Result};
use quire_index::DocSet;
use quire_model::Document;
use smallvec::{SmallVec, smallvec};
use std::borrow::Cow;

/// Documents of which the first ones in an order are wanted.
#[derive(Debug, Clone, Copy)]
pub struct WantedFirst<'d> {
    /// Of these.
    pub docs: &'d DocSet,
    /// How many are needed at least.
    pub hits_min: u64,
    /// About how many documents of the shard are tested for them.
    pub tested_max: u64,
}

impl WantedFirst<'_> {
    /// Those that are among the first documents of the shard; none if they are too few.
    pub fn enough_in(&self, first: &DocSet) -> Option<DocSet> {
        let hits = first & self.docs;
        (hits.len() >= self.hits_min).then_some(hits)
    }
}

/// Documents with indexes: all that the planner and the executor know of them.
///
/// Docids are below [`doc_end`](Shard::doc_end) and never change during the life of the shard. Only
/// the planner knows and, or, not: a shard answers one [`Leaf`] at a time. A field that the shard
/// does not know has no values: no document matches. A field that it has, but can't filter or sort
/// by, is an error of kind [`Unsupported`](crate::ErrorKind::Unsupported).
///
/// Many threads may query one shard at once.
pub trait Shard: Send + Sync {
    /// One more than the highest docid.
    fn doc_end(&self) -> u32;

    /// How many documents there are: as many as docids, unless some docids have no document.
    ///
    /// # Errors
    /// The shard can't be read. This holds for all methods.
    fn doc_count(&self) -> Result<u64> {
        Ok(self.doc_end().into())
    }

    /// All documents: [`DocSet::full`] unless some docids have no document.
    fn docs(&self) -> Result<DocSet> {
        Ok(DocSet::full(self.doc_end()))
    }

    /// What is known of a field; none if no document has it. Reads no values.
    fn field(&self, path: &Path) -> Result<Option<FieldInfo<'_>>>;

    /// How many documents match, within bounds, and the cost of finding them. It reads no values
    /// and must be fast: the planner calls it for every leaf in every shard, and then skips most
    /// shards.
    ///
    /// # Errors
    /// [`NotFilterable`](crate::Error::NotFilterable) too; a leaf with an estimate can be answered.
    fn estimate(&self, leaf: &Leaf) -> Result<Estimate>;

    /// How many documents match all of some leaves (one or more), if counting is cheaper than
    /// building the sets.
    fn count(&self, leaves: &[&Leaf]) -> Result<Option<u64>> {
        let _ = leaves;
        Ok(None)
    }

    /// The documents that match. `found` comes from an estimate of the same leaf, or is the
    /// default.
    fn matches(&self, leaf: &Leaf, found: Found) -> Result<DocSet>;

    /// Keeps the documents that match: by the leaf's set, or by testing each document where `docs`
    /// are few.
    fn retain(&self, leaf: &Leaf, found: Found, docs: &mut DocSet) -> Result<()> {
        *docs &= &self.matches(leaf, found)?;
        Ok(())
    }

    /// The ways in which a leaf can be executed: on `docs` documents that are known, or on all.
    fn paths(&self, leaf: &Leaf, estimate: &Estimate, docs: Option<u64>) -> AccessCosts {
        let _ = (leaf, docs);
        smallvec![AccessCost {
            access: Access::Postings,
            nanos: estimate.nanos,
        }]
    }

    /// As [`matches`](Shard::matches), in one of the ways that [`paths`](Shard::paths) gives.
    fn matches_by(&self, access: Access, leaf: &Leaf, found: Found) -> Result<DocSet> {
        let _ = access;
        self.matches(leaf, found)
    }

    /// As [`retain`](Shard::retain), in one of the ways that [`paths`](Shard::paths) gives.
    fn retain_by(
        &self,
        access: Access,
        leaf: &Leaf,
        found: Found,
        docs: &mut DocSet,
    ) -> Result<()> {
        let _ = access;
        self.retain(leaf, found, docs)
    }

    /// The documents that come first by a field: about `docs` of them, or all that have a value.
    /// Documents with equal values are either all in the set or none of them. None if the shard
    /// can't find them at a cost of about their number.
    fn first(&self, order: &Order, docs: u64) -> Result<Option<DocSet>> {
        let _ = (order, docs);
        Ok(None)
    }

    /// Those of some documents that come first by a field, and all that are level with the last of
    /// these. None if they are not among the documents that are tested, or if these can't be found.
    fn first_of(&self, order: &Order, wanted: WantedFirst<'_>) -> Result<Option<DocSet>> {
        let first = self.first(order, wanted.tested_max)?;
        Ok(first.and_then(|first| wanted.enough_in(&first)))
    }

    /// What [`first`](Shard::first) finds is looked at if that is at most one in this number of the
    /// documents whose values would have to be read otherwise.
    fn first_part(&self, order: &Order) -> u64 {
        let _ = order;
        3
    }

    /// The documents that match all of some leaves (one or more) and come first by a field: at most
    /// `hits_max`, in that order, equal ones by docid. None if the shard has no quicker way to them
    /// than leaf by leaf.
    fn top(&self, leaves: &[&Leaf], order: &Order, hits_max: u64) -> Result<Option<Vec<u32>>> {
        let _ = (leaves, order, hits_max);
        Ok(None)
    }

    /// The values of a field by document; none if no document has it.
    ///
    /// # Errors
    /// [`NotSortable`](crate::Error::NotSortable) too.
    fn column(&self, path: &Path) -> Result<Option<Box<dyn Column + '_>>>;

    /// The values of fields for some documents, in segments: each has some of the documents, and
    /// ordinals of its own. All together have each document once. By default one segment has all,
    /// with the columns of the shard.
    ///
    /// # Errors
    /// As of [`column`](Shard::column).
    fn segments(&self, paths: &[&Path], docs: &DocSet) -> Result<Vec<Segment<'_>>> {
        let _ = docs;
        let columns = paths.iter().map(|path| self.column(path));
        Ok(vec![Segment {
            docs: None,
            columns: columns.collect::<Result<_>>()?,
        }])
    }

    /// As [`segments`](Shard::segments), of which only the order of ordinals and the terms behind
    /// some are needed.
    ///
    /// # Errors
    /// As of [`column`](Shard::column).
    fn segments_to_order(&self, paths: &[&Path], docs: &DocSet) -> Result<Vec<Segment<'_>>> {
        self.segments(paths, docs)
    }

    /// Whether documents that are known are ordered by a field at little more than a look at each.
    fn orders_at_once(&self, order: &Order) -> bool {
        let _ = order;
        false
    }

    /// The document; none if there is none under this docid, or if the shard keeps no documents.
    fn document(&self, doc: u32) -> Result<Option<Document>>;

    /// Calls `read` with the bytes that were stored along with the document; false if there are
    /// none.
    fn payload(&self, doc: u32, read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let _ = (doc, read);
        Ok(false)
    }
}

/// Some documents of a shard, and their values.
pub struct Segment<'s> {
    /// Which documents; none if it has all that were wanted.
    pub docs: Option<DocSet>,
    /// The column of each field that was wanted; none if no document here has a value.
    pub columns: Vec<Option<Box<dyn Column + 's>>>,
}

/// What a shard knows of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldInfo<'a> {
    /// Whether leaves about it can be answered.
    pub filterable: bool,
    /// Whether it has a [`Column`].
    pub sortable: bool,
    /// Whether some document has several values.
    pub many: bool,
    /// How many documents have a value, null included.
    pub docs: u64,
    /// The terms of its smallest and its largest value, or wider bounds.
    pub range: Option<TermPair<'a>>,
    /// How many different values, if that is known.
    pub distinct: Option<u64>,
}

/// Ways to execute a leaf.
pub type AccessCosts = SmallVec<[AccessCost; 3]>;

/// Two terms.
pub type TermPair<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

/// How many documents a leaf matches, and at what cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// At least this many.
    pub at_least: u64,
    /// At most this many.
    pub at_most: u64,
    /// This many are expected: a guess within the bounds.
    pub expected: u64,
    /// About how long [`Shard::matches`] takes, in nanoseconds; 0 if that is not known.
    pub nanos: u64,
    /// What [`Shard::matches`] costs.
    pub cost: Cost,
    /// Passed back to the shard when the leaf is executed.
    pub found: Found,
}

/// What a shard found when it estimated a leaf, so that it need not search again. The numbers have
/// a meaning to the shard alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Found(pub Option<[u64; 2]>);

impl Estimate {
    /// Exactly this many.
    #[must_use]
    pub fn exactly(docs: u64, cost: Cost) -> Estimate {
        Estimate::between(docs, docs, cost)
    }

    /// Between two bounds, and nothing more is known.
    #[must_use]
    pub fn between(at_least: u64, at_most: u64, cost: Cost) -> Estimate {
        Estimate {
            at_least,
            at_most,
            expected: at_least + at_most.saturating_sub(at_least) / 2,
            nanos: 0,
            cost,
            found: Found::default(),
        }
    }
}

/// What finding the documents that match a leaf costs, the cheapest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cost {
    /// The set is stored.
    Stored,
    /// The set is built, at a cost of about its size.
    Built,
    /// The values of all documents are read.
    Scanned,
}
