//! The search index of an open partition: which one it is to have, and what it is like.

use crate::record;
use crate::row_index_work::WideIndex;
use crate::{Result, Schema, WidePartition};
use quire_model::Position;
use quire_search::IndexFigures;
use quire_store::{StoreStats, TreeId};
use std::sync::Arc;

impl WidePartition {
    /// Makes the search index that these settings say the only one; it is built in the background.
    /// Until it is complete, queries use the one before, if columns have the names that they had.
    /// To be called before a changed schema is used: a view by it has the index.
    ///
    /// # Errors
    /// As of [`Store::add_trees`](quire_store::Store::add_trees): the index is as it was.
    pub fn set_index(&self, schema: &Arc<Schema>, index: Option<&WideIndex>) -> Result<()> {
        let of_rows = (self.number(), schema);
        self.row_index().set(self.store(), of_rows, index)
    }

    /// The search index, beside the other figures of the partition; `None` if there is none.
    pub fn index_figures(&self, stats: &StoreStats) -> Option<IndexFigures> {
        let columns = self.row_index().columns()?;
        let view = self.indexed_view(&columns.schema()).ok()?;
        let rows = (view.count(), view.rows_made());
        let built = |tree| self.built_rows(tree, rows);
        let age_of_next = |position: Position| {
            let mut after = view.store_view().log_from(position.next());
            let next = after.next().and_then(|item| item.ok());
            let micros =
                next.and_then(|(_, bytes)| Some(record::decode(&bytes).ok()?.0.time_micros));
            let age = micros.map(|micros| self.env().now_micros().saturating_sub(micros));
            age.and_then(|age| u64::try_from(age).ok()).unwrap_or(0)
        };
        let indexes = self.row_index().indexes();
        indexes.figures((&view, stats), &built, &age_of_next)
    }

    /// About how many rows a tree that is being built has.
    fn built_rows(&self, id: TreeId, (rows, made): (u64, u32)) -> u64 {
        let built = match self.store().building() {
            Some((building, cursor)) if building == id => cursor.as_slice().try_into().ok(),
            _ => None,
        };
        let built = built.map_or(0, u32::from_be_bytes).min(made);
        (u128::from(built) * u128::from(rows) / u128::from(made.max(1))) as u64
    }
}
