//! [`Shard`]: documents that can be queried, wherever they are kept.

use crate::{Column, Leaf, Order, Path, Result};
use quire_index::DocSet;
use quire_model::Document;
use std::borrow::Cow;

/// Documents with indexes: what the planner asks, and all that it knows.
///
/// Docids are below [`doc_end`](Shard::doc_end) and never change while the shard is there. Only the
/// planner knows and, or, not: a shard answers a [`Leaf`] at a time. A field that the shard does
/// not know has no values: no document matches. One that it has, but can't filter or sort by, is an
/// error of kind [`Unsupported`](crate::ErrorKind::Unsupported).
///
/// A query may ask one shard from many threads at once.
pub trait Shard: Send + Sync {
    /// One more than the highest docid.
    fn doc_end(&self) -> u32;

    /// How many documents there are: as many as docids, unless some of these have none.
    ///
    /// # Errors
    /// The shard can't be read; so too in what follows.
    fn doc_count(&self) -> Result<u64> {
        Ok(self.doc_end().into())
    }

    /// The documents that there are: [`DocSet::full`] unless some docids have none.
    fn docs(&self) -> Result<DocSet> {
        Ok(DocSet::full(self.doc_end()))
    }

    /// What is known of a field; none if no document has it. Reads no values.
    fn field(&self, path: &Path) -> Result<Option<FieldInfo<'_>>>;

    /// How many documents match, within bounds, and what it costs to know which. Reads no values;
    /// quick: it is asked of every leaf in every shard, most of which are then passed over.
    ///
    /// # Errors
    /// [`NotFilterable`](crate::Error::NotFilterable) too; what was estimated can be answered.
    fn estimate(&self, leaf: &Leaf) -> Result<Estimate>;

    /// How many documents match all of some leaves (one or more), if that can be had for less than
    /// the sets.
    fn count(&self, leaves: &[&Leaf]) -> Result<Option<u64>> {
        let _ = leaves;
        Ok(None)
    }

    /// The documents that match. `found` is of an estimate for the same leaf, or by default.
    fn matches(&self, leaf: &Leaf, found: Found) -> Result<DocSet>;

    /// Keeps the documents that match: by the set, or by looking at these documents alone where
    /// they are few.
    fn retain(&self, leaf: &Leaf, found: Found, docs: &mut DocSet) -> Result<()> {
        *docs &= &self.matches(leaf, found)?;
        Ok(())
    }

    /// Documents that come before all others by a field: about so many, or all that have a value,
    /// and with each all whose value is the same. None if they can't be had for about their number.
    fn first(&self, order: &Order, docs: u64) -> Result<Option<DocSet>> {
        let _ = (order, docs);
        Ok(None)
    }

    /// The values of a field by document; none if no document has it.
    ///
    /// # Errors
    /// [`NotSortable`](crate::Error::NotSortable) too.
    fn column(&self, path: &Path) -> Result<Option<Box<dyn Column + '_>>>;

    /// As [`column`](Shard::column), with the values of these documents at least. A shard that makes
    /// its columns when they are needed makes a small one faster.
    ///
    /// # Errors
    /// As of [`column`](Shard::column).
    fn column_of(&self, path: &Path, docs: &DocSet) -> Result<Option<Box<dyn Column + '_>>> {
        let _ = docs;
        self.column(path)
    }

    /// The document; none if there is none under this docid, or if the shard keeps no documents.
    fn document(&self, doc: u32) -> Result<Option<Document>>;

    /// Shows `read` the bytes that were given along with the document; false if there are none.
    fn payload(&self, doc: u32, read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let _ = (doc, read);
        Ok(false)
    }
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
    /// The terms of its smallest and its largest value; they may be wider than what is there.
    pub range: Option<TermPair<'a>>,
    /// How many different values, if that is known.
    pub distinct: Option<u64>,
}

/// Two terms.
pub type TermPair<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

/// How many documents a leaf matches, and at what cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// So many at least.
    pub at_least: u64,
    /// So many at most.
    pub at_most: u64,
    /// What [`Shard::matches`] costs.
    pub cost: Cost,
    /// Given back when the leaf is asked.
    pub found: Found,
}

/// What a shard found when it estimated a leaf, and need not look for again: numbers that mean
/// something to itself alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Found(pub Option<[u64; 2]>);

impl Estimate {
    /// Exactly so many.
    #[must_use]
    pub fn exactly(docs: u64, cost: Cost) -> Estimate {
        Estimate {
            at_least: docs,
            at_most: docs,
            cost,
            found: Found::default(),
        }
    }
}

/// What the documents that match a leaf cost, the cheapest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cost {
    /// The set is there.
    Stored,
    /// It is put together, for about the size of the answer.
    Built,
    /// The values of all documents are looked at.
    Scanned,
}
