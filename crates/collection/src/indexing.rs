//! Adding, replacing and dropping the search index of an open partition.
//!
//! # Order
//! 1. The tree of new settings is added, and built in the background.
//! 2. Queries use the tree before it until the new one is complete. The first view that finds it
//!    complete takes the old one out of the list.
//! 3. A background job drops the trees that are not in the list. One that fails, or that a crash
//!    prevents, is made up for when the partition is opened again.

use crate::documents::{Totals, parse_docid};
use crate::search::{SearchIndex, SearchTree, is_search_tree};
use crate::{IndexSettings, Partition, PartitionView, Result};
use quire_env::JobClass;
use quire_model::{DocId, Position};
use quire_store::{DerivedTrees, Rebuilt, StoreStats, TreeId, TreeState};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What a partition's search index is like. Events are counted since the partition was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexFigures {
    /// Whether queries use it.
    pub complete: bool,
    /// Documents that it was built of, about; all, once it is complete.
    pub documents: u64,
    /// Records that are not in it yet.
    pub lag: u64,
    /// How long ago the oldest of them was written, in microseconds.
    pub lag_micros: u64,
    /// Records that were taken into it after they were written.
    pub records: u64,
    /// How long it took to build and to follow records, in microseconds.
    pub busy_micros: u64,
    /// Name and bytes, of table files and memtables, of each of its trees.
    pub trees: Vec<(String, u64)>,
    /// Why the work on it last failed, if it has not succeeded since.
    pub error: Option<String>,
    /// How often it was built anew since the partition was opened, as it was damaged, and why the
    /// last time.
    pub rebuilt: Rebuilt,
    /// Fields that are not in it, as there are at most 10,000: the first hundred.
    pub refused_fields: Vec<String>,
    /// By field: documents with more values of it than are indexed. At most a hundred fields.
    pub documents_with_many: BTreeMap<String, u64>,
}

impl Partition {
    /// Makes the search index that these settings say the only one; it is built in the background.
    /// Until it is complete, queries use the one before.
    ///
    /// # Errors
    /// As of [`Store::add_trees`](quire_store::Store::add_trees): the index is as it was.
    pub fn set_index(&self, index: Option<&IndexSettings>) -> Result<()> {
        let state = self.search_state();
        let changing = state.changing.lock();
        let mut kept = Vec::new();
        if let Some(index) = index {
            let id = index.tree();
            if self.store().tree_state(id).is_none() {
                let source: Arc<dyn DerivedTrees> = Arc::new(SearchIndex::new(index));
                self.store().add_trees(source)?;
            }
            // The newest that is complete, if it is not this one.
            let others = state.trees();
            let mut others = others.iter().rev().filter(|other| other.id != id);
            kept.extend(others.find(|other| self.is_complete(other.id)).cloned());
            kept.push(SearchTree::new(index));
        }
        state.set_trees(kept);
        drop(changing);
        self.drop_unlisted_trees();
        Ok(())
    }

    /// The search index, beside the other figures of the partition; `None` if there is none.
    pub fn index_figures(&self, stats: &StoreStats) -> Option<IndexFigures> {
        let newest = self.search_state().trees().last()?.clone();
        let view = self.view().ok()?;
        let (totals, position) = (view.totals(), self.position());
        let tree = stats.trees.iter().find(|tree| tree.id == newest.id)?;
        let (complete, built, documents) = match tree.state {
            TreeState::Complete { built } => (true, built.min(position), totals.documents),
            TreeState::Building => (false, position, self.built_documents(newest.id, totals)),
        };
        let is_of_index = |id: TreeId| id == newest.id || id == newest.columns;
        let trees = stats.trees.iter().filter(|tree| is_of_index(tree.id));
        let trees = trees.map(|tree| {
            let bytes = tree.figures.table_bytes + tree.figures.memtable_bytes;
            (tree.name.clone(), bytes)
        });
        Some(IndexFigures {
            complete,
            documents,
            lag: position.0 - built.0,
            lag_micros: self.age_of_next(built),
            records: stats.derived_records,
            busy_micros: stats.derive_micros,
            trees: trees.collect(),
            error: stats.derive_error.clone(),
            rebuilt: tree.rebuilt.clone().unwrap_or_default(),
            refused_fields: view.refused_fields(&newest).unwrap_or_default(),
            documents_with_many: view.documents_with_many(&newest).unwrap_or_default(),
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

    fn is_complete(&self, tree: TreeId) -> bool {
        matches!(
            self.store().tree_state(tree),
            Some(TreeState::Complete { .. })
        )
    }

    /// Has the trees dropped that the newest one has replaced, if that is complete in this view.
    pub(crate) fn replace_search_trees(&self, view: &PartitionView) {
        if let [_, .., newest] = view.search_trees()
            && view.built(newest).is_some()
            && self.search_state().keep_from(newest.id)
        {
            self.drop_unlisted_trees();
        }
    }

    /// Drops the search trees that are not in the list, in the background.
    fn drop_unlisted_trees(&self) {
        if self.unlisted_trees().is_empty() {
            return;
        }
        let partition = self.clone();
        let job = move || {
            let _changing = partition.search_state().changing.lock();
            for id in partition.unlisted_trees() {
                // It goes together with one that is built together with it.
                if partition.store().trees().iter().all(|tree| tree.id != id) {
                    continue;
                }
                match partition.store().drop_trees(id) {
                    Err(error) if error.kind() == quire_store::ErrorKind::Closed => return,
                    Err(error) => tracing::warn!(
                        partition = partition.number(),
                        %id,
                        %error,
                        "a search tree that is not used could not be dropped"
                    ),
                    Ok(()) => {}
                }
            }
        };
        self.env()
            .schedule(JobClass::Compaction, Duration::ZERO, Box::new(job));
    }

    fn unlisted_trees(&self) -> Vec<TreeId> {
        let listed = self.search_state().trees();
        let ids = self.store().trees().into_iter().map(|tree| tree.id);
        let is_listed = |id: TreeId| {
            let mut listed = listed.iter();
            listed.any(|tree| tree.id == id || tree.columns == id)
        };
        ids.filter(|id| is_search_tree(*id) && !is_listed(*id))
            .collect()
    }
}
