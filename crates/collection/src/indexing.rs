//! Adding, replacing and dropping the search index of an open partition.
//!
//! # Order
//! 1. The tree of new settings is added, and built in the background.
//! 2. Queries use the tree before it until the new one is complete. The first view that finds it
//!    complete takes the old one out of the list.
//! 3. A background job drops the trees that are not in the list. One that fails, or that a crash
//!    prevents, is made up for when the partition is opened again.

use crate::search::{SearchIndex, SearchTree, is_search_tree};
use crate::{IndexSettings, Partition, PartitionView, Result};
use quire_env::JobClass;
use quire_store::{DerivedTrees, Rebuilt, TreeId, TreeState};
use std::sync::Arc;
use std::time::Duration;

/// What a partition's search index is like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexFigures {
    /// Whether queries use it.
    pub complete: bool,
    /// Records that are not in it yet.
    pub lag: u64,
    /// Bytes of its table files and memtables.
    pub bytes: u64,
    /// How often it was built anew since the partition was opened, as it was damaged, and why the
    /// last time.
    pub rebuilt: Rebuilt,
    /// Fields that are not in it, as a partition has at most 10,000 and a path at most 1,024 bytes:
    /// the first hundred.
    pub refused_fields: Vec<String>,
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

    /// The search index; `None` if there is none.
    pub fn index_figures(&self) -> Option<IndexFigures> {
        let newest = self.search_state().trees().last()?.clone();
        let view = self.view().ok()?;
        let trees = self.store().trees();
        let tree = trees.iter().find(|tree| tree.id == newest.id)?;
        let columns = trees.iter().find(|tree| tree.id == newest.columns);
        let bytes = [Some(tree), columns].into_iter().flatten();
        let bytes = bytes.map(|tree| tree.figures.table_bytes + tree.figures.memtable_bytes);
        let (complete, lag) = match tree.state {
            TreeState::Complete { built } => (true, self.position().0.saturating_sub(built.0)),
            TreeState::Building => (false, self.position().0),
        };
        Some(IndexFigures {
            complete,
            lag,
            bytes: bytes.sum(),
            rebuilt: tree.rebuilt.clone().unwrap_or_default(),
            refused_fields: view.refused_fields(&newest).unwrap_or_default(),
        })
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
