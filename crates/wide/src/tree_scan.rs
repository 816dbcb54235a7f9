//! Whole trees of a view, in the order of their keys.

use crate::machine::{EXPIRIES, KEYS, NAMES, ROWS, tree_of};
use crate::{Error, GROUPS_MAX, Result, Schema, WidePartition, WideView};
use quire_lsm::Scan;
use quire_model::DocId;
use quire_store::{Store, TreeId};
use std::ops::Bound;
use std::sync::Arc;

/// All entries of a tree.
pub(crate) fn scan(view: &WideView, tree: TreeId) -> Result<Scan> {
    Ok(view.tree(tree)?.scan(Bound::Unbounded, Bound::Unbounded)?)
}

/// All trees: those of keys and rows, and the hot and the cold one of each group.
pub(crate) fn all_trees() -> impl Iterator<Item = TreeId> {
    let groups = (0..GROUPS_MAX as u8).flat_map(|group| [(group, false), (group, true)]);
    let groups = groups.map(|(group, is_cold)| tree_of(group, is_cold));
    [KEYS, ROWS, NAMES, EXPIRIES].into_iter().chain(groups)
}

/// The docid that a key of a tree begins with.
pub(crate) fn docid_of(view: &WideView, key: &[u8]) -> Result<DocId> {
    let docid = key.first_chunk().copied().map(u32::from_be_bytes);
    let docid = docid.ok_or_else(|| view.corrupt("a key is cut short".into()))?;
    Ok(DocId(docid))
}

impl WidePartition {
    /// As [`flushed_view`](WidePartition::flushed_view), of all trees.
    pub(crate) fn flushed_view_of_all(&self, schema: &Arc<Schema>) -> Result<WideView> {
        let all = (GROUPS_MAX as u8, u16::MAX);
        self.view_of(schema, all, &[EXPIRIES], Store::flushed_view_of)
    }

    pub(crate) fn corrupt(&self, what: String) -> Error {
        Error::Corrupt {
            partition: self.number(),
            what,
        }
    }
}
