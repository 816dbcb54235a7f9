//! [`RowIndexWork`]: the search indexes of an open partition, with what rows they are made of.

use crate::indexed_columns::IndexedColumns;
use crate::machine::{ROWS, Totals, WideRows};
use crate::row_index::RowIndex;
use crate::{Result, Schema};
use parking_lot::Mutex;
use quire_search::{IndexSettings, PartitionIndexes, ViewIndexes, ViewOf};
use quire_store::{DerivedTrees, Store, TreeId, TreeState, View, WeakStore};
use std::sync::Arc;

/// The search index that a partition is to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WideIndex {
    /// Which fields it has. Another name of a column needs another generation, and so does a column
    /// where undeclared fields are kept: see [`Schema::adds_to`].
    pub settings: IndexSettings,
    /// The field of documents that has their key.
    pub key_field: String,
}

/// What derives an index, and what it reads.
pub(crate) type Derived = (Arc<dyn DerivedTrees>, Arc<IndexedColumns>);

impl WideIndex {
    /// What derives it in a partition.
    pub(crate) fn derived(&self, partition: u32, schema: &Arc<Schema>) -> Derived {
        let fields = self.settings.fields.clone();
        let columns = Arc::new(IndexedColumns::new(fields, &self.key_field, schema));
        let source = RowIndex::new(partition, &self.settings, Arc::clone(&columns));
        (Arc::new(source), columns)
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct RowIndexWork {
    indexes: PartitionIndexes,
    /// The store, for views: one that is kept does not keep it open.
    pub(crate) store: WeakStore<WideRows>,
    /// Those of the newest index.
    columns: Mutex<Option<Arc<IndexedColumns>>>,
}

impl RowIndexWork {
    pub(crate) fn new(
        indexes: PartitionIndexes,
        store: WeakStore<WideRows>,
        columns: Option<Arc<IndexedColumns>>,
    ) -> RowIndexWork {
        RowIndexWork {
            indexes,
            store,
            columns: Mutex::new(columns),
        }
    }

    pub(crate) fn indexes(&self) -> &PartitionIndexes {
        &self.indexes
    }

    pub(crate) fn columns(&self) -> Option<Arc<IndexedColumns>> {
        self.columns.lock().clone()
    }

    /// No index, for a view that is not queried.
    pub(crate) fn none(&self) -> ViewIndexes {
        self.indexes.none()
    }

    /// A view of these trees and of the indexes, by which rows are what they are by this schema.
    pub(crate) fn view(
        &self,
        store: &Store<WideRows>,
        trees: &[TreeId],
        schema: &Arc<Schema>,
        view_of: &ViewOf<WideRows>,
    ) -> Result<(Arc<View<Totals>>, ViewIndexes)> {
        let (view, indexes) = self.indexes.view(store, trees, view_of)?;
        // The schema of the indexes changes before their list does.
        let Some(columns) = self.columns() else {
            return Ok((view, indexes.without_trees()));
        };
        let of_index = columns.schema();
        if !Arc::ptr_eq(&of_index, schema) && !schema.is_like(&of_index) {
            return Ok((view, indexes.without_trees()));
        }
        if columns.take_early()
            && let Some(tree) = indexes.newest()
        {
            let what = "rows came before the schema that they were written by";
            store.rebuild_tree(&view, tree, what);
            self.indexes.state().forget(store.position());
            return Ok((view, indexes.without_trees()));
        }
        if columns.is_anywhere()
            && let Some(tree) = indexes.newest()
            && let Some(TreeState::Complete { built }) = view.tree_state(tree)
        {
            columns.find_groups((view.base(), &view.summary().moves), built)?;
        }
        Ok((view, indexes))
    }

    /// Makes the index that these settings say the only one.
    pub(crate) fn set(
        &self,
        store: &Store<WideRows>,
        (partition, schema): (u32, &Arc<Schema>),
        index: Option<&WideIndex>,
    ) -> Result<()> {
        let Some(index) = index else {
            *self.columns.lock() = None;
            return Ok(self.indexes.set(store, None, false)?);
        };
        let before = self.columns();
        // An index before it reads rows by the schema that it was made with.
        let others_hold = before
            .as_ref()
            .is_some_and(|before| schema.has_columns_of(&before.schema()));
        let (source, columns) = index.derived(partition, schema);
        let set = || {
            let index = Some((&index.settings, source));
            self.indexes.set(store, index, others_hold)
        };
        let is_same = store.tree_state(index.settings.tree()).is_some();
        if let Some(before) = before.filter(|_| is_same) {
            before.set_schema(schema);
            return Ok(set()?);
        }
        let view = store.view_of(&[ROWS])?;
        columns.find_groups((view.base(), &view.summary().moves), view.position())?;
        if !others_hold {
            // If the new one can't be added, there is none: no view reads that of other names.
            self.indexes.hide();
        }
        let before = self.columns.lock().replace(columns);
        let set = set();
        if set.is_err() && others_hold {
            *self.columns.lock() = before;
        }
        Ok(set?)
    }
}
