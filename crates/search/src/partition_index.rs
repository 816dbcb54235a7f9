//! [`PartitionIndexes`]: the search indexes of an open partition, which are added, replaced and
//! dropped.
//!
//! # Order
//! 1. The tree of new settings is added, and built in the background.
//! 2. Queries use the tree before it until the new one is complete. The first view that finds it
//!    complete takes the old one out of the list.
//! 3. A background job drops the trees that are not in the list. One that fails, or that a crash
//!    prevents, is made up for when the partition is opened again.

use super::state::{SearchState, SearchTree, is_search_tree};
use super::view::{IndexedView, ViewIndexes};
use super::{IndexSettings, Result};
use quire_env::{Env, JobClass};
use quire_model::Position;
use quire_store::{
    DerivedTrees, ErrorKind, Machine, Rebuilt, Shared, Store, StoreStats, TreeId, TreeState, View,
};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Makes a view of some trees of a store.
pub type ViewOf<M> =
    dyn Fn(&Store<M>, &[TreeId]) -> quire_store::Result<Arc<View<<M as Machine>::Summary>>>;

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

/// See the module. Cheap to clone.
#[derive(Debug, Clone)]
pub struct PartitionIndexes {
    partition: u32,
    env: Arc<dyn Env>,
    state: Arc<SearchState>,
}

impl PartitionIndexes {
    /// Those of a partition that was opened, of this number: the one of these settings, if it is
    /// there.
    pub fn new<M: Machine>(
        partition: u32,
        shared: &Shared,
        store: &Store<M>,
        index: Option<&IndexSettings>,
    ) -> PartitionIndexes {
        let state = Arc::new(SearchState::new(
            Arc::clone(shared.index_reads()),
            Arc::clone(shared.index_changes()),
        ));
        let opened = index.filter(|index| store.tree_state(index.tree()).is_some());
        state.set_trees(opened.map(SearchTree::new).into_iter().collect());
        PartitionIndexes {
            partition,
            env: Arc::clone(shared.env()),
            state,
        }
    }

    /// None of them, for a view that is not queried.
    pub fn none(&self) -> ViewIndexes {
        ViewIndexes::new(Arc::default(), Arc::clone(&self.state))
    }

    /// What queries share of them.
    pub fn state(&self) -> &SearchState {
        &self.state
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.state.trees().is_empty()
    }

    /// Lets no view from now on have an index, until another one is [set](PartitionIndexes::set).
    pub fn hide(&self) {
        self.state.set_trees(Vec::new());
    }

    /// Makes the index that these settings say the only one; the source derives it, in the
    /// background. Until it is complete, queries use the one before, unless `others_hold` is
    /// false: that one says what documents are no more.
    ///
    /// # Errors
    /// As of [`Store::add_trees`]: the index is as it was.
    pub fn set<M: Machine>(
        &self,
        store: &Store<M>,
        index: Option<(&IndexSettings, Arc<dyn DerivedTrees>)>,
        others_hold: bool,
    ) -> Result<()> {
        let changing = self.state.changing.lock();
        let mut kept = Vec::new();
        if let Some((index, source)) = index {
            let id = index.tree();
            if store.tree_state(id).is_none() {
                store.add_trees(source)?;
            }
            // The newest that is complete, if it is not this one.
            let others = self.state.trees();
            let mut others = others.iter().rev().filter(|other| other.id != id);
            let is_complete =
                |id: TreeId| matches!(store.tree_state(id), Some(TreeState::Complete { .. }));
            if others_hold {
                kept.extend(others.find(|other| is_complete(other.id)).cloned());
            }
            kept.push(SearchTree::new(index));
        }
        self.state.set_trees(kept);
        if !others_hold {
            // Queries of views from before may still find something.
            self.state.forget(store.position());
        }
        drop(changing);
        self.drop_unlisted(store);
        Ok(())
    }

    /// A view of these trees that `apply` writes, and of the indexes, made by `view_of`.
    ///
    /// # Errors
    /// Those of `view_of`.
    pub fn view<M: Machine>(
        &self,
        store: &Store<M>,
        applied: &[TreeId],
        view_of: &ViewOf<M>,
    ) -> quire_store::Result<(Arc<View<M::Summary>>, ViewIndexes)> {
        let trees = self.state.trees();
        let with = |trees| ViewIndexes::new(trees, Arc::clone(&self.state));
        if trees.is_empty() {
            return Ok((view_of(store, applied)?, with(trees)));
        }
        let search_trees = trees.iter().flat_map(|tree| [tree.id, tree.columns]);
        let ids: SmallVec<[TreeId; 4]> = applied.iter().copied().chain(search_trees).collect();
        match view_of(store, &ids) {
            Ok(view) => {
                self.replace(store, &trees, &view);
                Ok((view, with(trees)))
            }
            // A search tree was dropped since it was in the list.
            Err(error) if error.kind() == ErrorKind::Invalid => {
                Ok((view_of(store, applied)?, with(Arc::default())))
            }
            Err(error) => Err(error),
        }
    }

    /// The newest index, beside the other figures of the partition; `None` if there is none.
    /// `documents_built` says about how many documents a tree has that is being built, and
    /// `age_of_next` how many microseconds ago the record after a position was written.
    pub fn figures(
        &self,
        (view, stats): (&dyn IndexedView, &StoreStats),
        documents_built: &dyn Fn(TreeId) -> u64,
        age_of_next: &dyn Fn(Position) -> u64,
    ) -> Option<IndexFigures> {
        let newest = self.state.trees().last()?.clone();
        let position = view.position();
        let tree = stats.trees.iter().find(|tree| tree.id == newest.id)?;
        let (complete, built, documents) = match tree.state {
            TreeState::Complete { built } => (true, built.min(position), view.doc_count()),
            TreeState::Building => (false, position, documents_built(newest.id)),
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
            lag_micros: age_of_next(built),
            records: stats.derived_records,
            busy_micros: stats.derive_micros,
            trees: trees.collect(),
            error: stats.derive_error.clone(),
            rebuilt: tree.rebuilt.clone().unwrap_or_default(),
            refused_fields: view.refused_fields(&newest).unwrap_or_default(),
            documents_with_many: view.documents_with_many(&newest).unwrap_or_default(),
        })
    }

    /// Has the trees dropped that the newest one has replaced, if that is complete in this view.
    fn replace<M: Machine>(&self, store: &Store<M>, trees: &[SearchTree], view: &View<M::Summary>) {
        let is_complete = |id| matches!(view.tree_state(id), Some(TreeState::Complete { .. }));
        if let [_, .., newest] = trees
            && is_complete(newest.id)
            && self.state.keep_from(newest.id)
        {
            self.drop_unlisted(store);
        }
    }

    /// Drops the search trees that are not in the list, in the background.
    fn drop_unlisted<M: Machine>(&self, store: &Store<M>) {
        if self.unlisted(store).is_empty() {
            return;
        }
        let (indexes, of_job) = (self.clone(), store.clone());
        let job = move || {
            let _changing = indexes.state.changing.lock();
            for id in indexes.unlisted(&of_job) {
                // It goes together with one that is built together with it.
                if of_job.trees().iter().all(|tree| tree.id != id) {
                    continue;
                }
                match of_job.drop_trees(id) {
                    Err(error) if error.kind() == ErrorKind::Closed => return,
                    Err(error) => tracing::warn!(
                        partition = indexes.partition,
                        %id,
                        %error,
                        "a search tree that is not used could not be dropped"
                    ),
                    Ok(()) => {}
                }
            }
        };
        self.env
            .schedule(JobClass::Compaction, Duration::ZERO, Box::new(job));
    }

    fn unlisted<M: Machine>(&self, store: &Store<M>) -> Vec<TreeId> {
        let listed = self.state.trees();
        let ids = store.trees().into_iter().map(|tree| tree.id);
        let is_listed = |id: TreeId| {
            let mut listed = listed.iter();
            listed.any(|tree| tree.id == id || tree.columns == id)
        };
        let applied: Vec<u32> = M::trees().iter().map(|tree| tree.id).collect();
        ids.filter(|id| is_search_tree(*id) && !applied.contains(&id.0) && !is_listed(*id))
            .collect()
    }
}
