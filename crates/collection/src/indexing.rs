//! The search index of an open partition: which one it is to have, and what it is like.

use crate::documents::{Totals, parse_docid};
use crate::index::DocumentIndex;
use crate::{Partition, Result};
use quire_model::{DocId, Position};
use quire_search::{IndexFigures, IndexSettings};
use quire_store::{StoreStats, TreeId};
use std::sync::Arc;

impl Partition {
    /// Makes the search index that these settings say the only one; it is built in the background.
    /// Until it is complete, queries use the one before.
    ///
    /// # Errors
    /// As of [`Store::add_trees`](quire_store::Store::add_trees): the index is as it was.
    pub fn set_index(&self, index: Option<&IndexSettings>) -> Result<()> {
        let index = index.map(|index| (index, Arc::new(DocumentIndex::new(index)) as Arc<_>));
        Ok(self.indexes().set(self.store(), index, true)?)
    }

    /// The search index, beside the other figures of the partition; `None` if there is none.
    pub fn index_figures(&self, stats: &StoreStats) -> Option<IndexFigures> {
        if self.indexes().is_empty() {
            return None;
        }
        let view = self.view().ok()?;
        let built = |tree| self.built_documents(tree, view.totals());
        self.indexes().figures((&view, stats), &built, &|position| {
            self.age_of_next(position)
        })
    }

    /// About how many documents a tree that is being built has.
    fn built_documents(&self, id: TreeId, totals: Totals) -> u64 {
        let built = match self.store().building() {
            Some((building, cursor)) if building == id => parse_docid(&cursor),
            _ => None,
        };
        // Docids of deleted documents are not used again.
        let docids = (totals.documents + totals.deleted).max(1);
        let built = u64::from(built.unwrap_or(DocId(0)).0).min(docids);
        (u128::from(built) * u128::from(totals.documents) / u128::from(docids)) as u64
    }

    /// How long ago the record after a position was written, in microseconds; 0 if there is none.
    fn age_of_next(&self, position: Position) -> u64 {
        let mut after = self.tail(position).into_iter().flatten();
        match after.next() {
            Some(Ok(change)) => {
                let age = self.env().now_micros().saturating_sub(change.time_micros);
                u64::try_from(age).unwrap_or(0)
            }
            _ => 0,
        }
    }
}
