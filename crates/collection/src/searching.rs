//! Queries of a partition's view through its search index.

use crate::documents::{ROWS, docid_bytes, parse_row};
use crate::fitting::fitting;
use crate::record::{Kind, Record};
use crate::search::{
    COLUMN_BLOCK_BITS, CachedChanges, Change, Changed, ColumnsAt, Documents, ID, LiveColumns,
    LiveShard, SearchTree,
};
use crate::search::{Exceptions, count_with_many, fields_with_many, is_listed, refused_fields};
use crate::types::with_key;
use crate::{Error, PartitionView, Result};
use bytes::Bytes;
use quire_model::{DocId, Document, Key, Position};
use quire_query::{Path, Prepared};
use quire_seeded::{Bug, seeded};
use quire_store::{TreeId, TreeState, WeakStore};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of the documents that an index is behind; values that queries take out of them take as
/// much again at most. Where there are more, queries read all documents, one after the other.
const CHANGED_BYTES_MAX: usize = 16 << 20;

/// Bytes of documents that are read at a time, if it is more than one.
const READ_BYTES: u64 = 1 << 20;

impl PartitionView {
    /// The view as a shard of a query, which finds documents by the search index; `None` if there
    /// is no index of all fields of the query that is complete. The field `apart` is known without
    /// an index, if there is one.
    ///
    /// # Errors
    /// Damage on disk, by file and offset.
    pub fn search(&self, query: &Prepared, apart: Option<&Path>) -> Result<Option<LiveShard<'_>>> {
        let has_all = |tree: &&SearchTree| {
            let mut has_all = true;
            query.each_use(&mut |path, _| {
                has_all &= Some(path) == apart || tree.fields.includes(path.as_str());
            });
            has_all || seeded(Bug::LeftOutFieldSearched)
        };
        let trees = self.search_trees().iter().rev().filter(has_all);
        let built = trees.filter_map(|tree| Some((tree, self.built(tree)?)));
        let Some((tree, built)) = built.take(1).next() else {
            return Ok(None);
        };
        let shard = match self.has_fields(tree, built, (query, apart)) {
            Ok(false) => return Ok(None),
            Ok(true) => self.shard(tree, built, query.is_about(ID)),
            Err(error) => Err(error),
        };
        match shard {
            Err(Error::Index { what }) => {
                self.rebuild_search_tree(tree.id, &what);
                Ok(None)
            }
            shard => shard,
        }
    }

    /// Whether a tree has all fields of a query but the one apart that documents have: it may have
    /// refused some.
    fn has_fields(
        &self,
        tree: &SearchTree,
        built: Position,
        (query, apart): (&Prepared, Option<&Path>),
    ) -> Result<bool> {
        let shown = self.store_view().tree(tree.id)?;
        if !self.exceptions(tree, built)?.refused || seeded(Bug::RefusedFieldSearched) {
            return Ok(true);
        }
        let mut has_all = Ok(true);
        query.each_use(&mut |path, _| {
            if matches!(has_all, Ok(true)) && Some(path) != apart {
                has_all = is_listed(shown, path.as_str());
            }
        });
        has_all
    }

    pub(crate) fn exceptions(&self, tree: &SearchTree, built: Position) -> Result<Exceptions> {
        let shown = self.store_view().tree(tree.id)?;
        let state = self.search_state();
        state.exceptions(tree.id, built, || Exceptions::of_tree(shown))
    }

    /// Of how many documents a search tree does not have all values of a field, as there are too
    /// many; of at most a hundred fields.
    pub(crate) fn documents_with_many(&self, tree: &SearchTree) -> Result<BTreeMap<String, u64>> {
        let mut documents = BTreeMap::new();
        if self.built(tree).is_some() {
            let shown = self.store_view().tree(tree.id)?;
            for path in fields_with_many(shown)? {
                let count = count_with_many(shown, &path)?;
                if count > 0 {
                    documents.insert(path, count);
                }
            }
        }
        Ok(documents)
    }

    /// The fields that a search tree has refused; at most a hundred.
    pub(crate) fn refused_fields(&self, tree: &SearchTree) -> Result<Vec<String>> {
        match self.built(tree) {
            Some(_) => refused_fields(self.store_view().tree(tree.id)?),
            None => Ok(Vec::new()),
        }
    }

    /// Whether an answer from a shard of this view failed because the search index is damaged. Then
    /// the index is built anew in the background.
    pub fn index_is_damaged(&self, shard: &LiveShard<'_>) -> bool {
        let damage = shard.tree.zip(shard.damage());
        if let Some((tree, what)) = damage {
            self.rebuild_search_tree(tree, what);
        }
        damage.is_some()
    }

    /// Has a search tree built anew that is damaged in this view.
    pub(crate) fn rebuild_search_tree(&self, tree: TreeId, what: &str) {
        let store = self.search_state().store.get();
        if let Some(store) = store.and_then(WeakStore::upgrade) {
            store.rebuild_tree(self.store_view(), tree, what);
            // Views that are made from now on do not use the tree as it was.
            self.search_state().forget(store.position());
        }
    }

    /// The position that a search tree is at; `None` if it is not complete.
    pub(crate) fn built(&self, tree: &SearchTree) -> Option<Position> {
        match self.store_view().tree_state(tree.id)? {
            TreeState::Complete { built } => Some(built),
            TreeState::Building => None,
        }
    }

    pub(crate) fn shard(
        &self,
        tree: &SearchTree,
        built: Position,
        with_keys: bool,
    ) -> Result<Option<LiveShard<'_>>> {
        let Some(changed) = self.changed_after(built, with_keys)? else {
            return Ok(None);
        };
        let totals = self.store_view().summary();
        let doc_end = totals.documents + totals.deleted;
        let documents = PartitionDocuments {
            view: self,
            with_keys,
        };
        let mut columns =
            LiveColumns::new(self.store_view().tree(tree.columns)?, COLUMN_BLOCK_BITS);
        columns.shared = Some(self.search_state().shared_reads(tree.id, built));
        let mut shard = LiveShard::new(
            self.store_view().tree(tree.id)?,
            Box::new(documents),
            u32::try_from(doc_end).unwrap_or(u32::MAX),
            changed,
            columns,
        );
        shard.doc_count = Some(totals.documents);
        shard.has_many = self.exceptions(tree, built)?.many;
        shard.tree = Some(tree.id);
        shard.followed = Some((Arc::clone(&self.search_state().followed), self.position()));
        shard.kept_columns = Some(ColumnsAt {
            numbers: Arc::clone(&self.search_state().numbers),
            terms: Arc::clone(&self.search_state().terms),
            at: self.position(),
            built,
        });
        Ok(Some(shard))
    }

    /// The documents that changed after a position, as they are in this view; `None` if they take
    /// too much memory.
    pub(crate) fn changed_after(
        &self,
        after: Position,
        with_keys: bool,
    ) -> Result<Option<Arc<Changed>>> {
        let find = |known: &CachedChanges| self.changes_since(known);
        let state = self.search_state();
        state.changes(after, self.position(), with_keys, find)
    }

    /// What changed after what is known, up to this view; `None` if all together takes too much
    /// memory.
    fn changes_since(&self, known: &CachedChanges) -> Result<Option<BTreeMap<u32, Change>>> {
        let seen = match seeded(Bug::ChangeMissed) && known.to <= known.after() {
            true => known.to.next(),
            false => known.to,
        };
        let mut added: BTreeMap<u32, Change> = BTreeMap::new();
        let bytes_max = self
            .search_state()
            .changed_bytes_max()
            .min(CHANGED_BYTES_MAX);
        let mut bytes_kept = known.changed.bytes();
        for item in self.store_view().log_from(seen.next()) {
            let (position, bytes) = item?;
            let record = self.record(position, &bytes)?;
            let Some(change) = change_of(position, &record, &bytes, known.with_keys)? else {
                continue;
            };
            bytes_kept += change.bytes();
            let before = added.insert(record.docid.0, change);
            bytes_kept -= before.as_ref().map_or(0, Change::bytes);
            if bytes_kept > bytes_max {
                return Ok(None);
            }
        }
        Ok(Some(added))
    }

    pub(crate) fn record<'a>(&self, position: Position, bytes: &'a Bytes) -> Result<Record<'a>> {
        Record::decode(bytes).map_err(|what| Error::Corrupt {
            partition: self.number(),
            position,
            what,
        })
    }
}

/// What a record changes, with its key in a field if that is wanted; none if another partition has
/// the document.
pub(crate) fn change_of(
    position: Position,
    record: &Record<'_>,
    bytes: &Bytes,
    with_key: bool,
) -> Result<Option<Change>> {
    let document = match record.kind {
        Kind::Foreign | Kind::Begin => return Ok(None),
        Kind::Delete => None,
        Kind::Put | Kind::Patch => Some(document(record, bytes, with_key)?),
    };
    Ok(Some(Change::new(position, document)))
}

/// The document of a record, with its key in a field if that is wanted.
fn document(record: &Record<'_>, bytes: &Bytes, with_keys: bool) -> Result<Document> {
    let document = Document::from_stored(record.document_bytes(bytes))?;
    match with_keys {
        true => with_key(document, &Key::decode(record.key)?),
        false => Ok(document),
    }
}

/// The documents of a view.
struct PartitionDocuments<'v> {
    view: &'v PartitionView,
    with_keys: bool,
}

impl Documents for PartitionDocuments<'_> {
    fn documents(&self, docids: &[DocId]) -> Result<Vec<Document>> {
        let keys: Vec<_> = docids.iter().map(|docid| docid_bytes(*docid)).collect();
        let keys: Vec<&[u8]> = keys.iter().map(<[u8; 4]>::as_slice).collect();
        let trees = self.view.store_view().point_view(&[ROWS])?;
        let mut rows = Vec::with_capacity(docids.len());
        for (docid, row) in docids.iter().zip(trees.get_many(ROWS, &keys)?) {
            let row = row.as_deref().and_then(parse_row);
            rows.push(row.ok_or_else(|| Error::Index {
                what: format!("it has document number {docid}, which has no row"),
            })?);
        }
        let count = fitting(rows.iter().map(|row| row.bytes), READ_BYTES);
        let positions: Vec<Position> = rows.iter().map(|row| row.position).take(count).collect();
        let records = trees.records(&positions)?;
        let found = positions.iter().zip(&records);
        found
            .map(|(position, bytes)| {
                document(&self.view.record(*position, bytes)?, bytes, self.with_keys)
            })
            .collect()
    }
}
