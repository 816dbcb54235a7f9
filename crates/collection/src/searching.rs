//! A partition's view as its search indexes see it.

use crate::documents::{ROWS, docid_bytes, parse_row};
use crate::fitting::fitting;
use crate::record::{Kind, Record};
use crate::{Error, PartitionView, Result};
use bytes::Bytes;
use quire_lsm::TreeSnapshot;
use quire_model::{DocId, Document, Key, Position};
use quire_query::{Path, Prepared};
use quire_search::{Change, IndexedView, LiveShard, SeeDocument, ViewIndexes, with_key};
use quire_store::{TreeId, TreeState};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Bytes of documents that are read at a time, if it is more than one.
const READ_BYTES: u64 = 1 << 20;

impl PartitionView {
    fn indexed(&self) -> &dyn IndexedView {
        self
    }

    /// The view as a shard of a query, which finds documents by the search index; `None` if there
    /// is no index of all fields of the query that is complete. The field `apart` is known without
    /// an index, if there is one.
    ///
    /// # Errors
    /// Damage on disk, by file and offset.
    pub fn search(
        &self,
        query: &Prepared,
        apart: Option<&Path>,
    ) -> Result<Option<Box<LiveShard<'_>>>> {
        Ok(self.indexed().search(query, apart)?)
    }

    /// Whether an answer from a shard of this view failed because the search index is damaged. Then
    /// the index is built anew in the background.
    pub fn index_is_damaged(&self, shard: &LiveShard<'_>) -> bool {
        self.indexed().index_is_damaged(shard)
    }

    /// Compares each complete search index with the documents. Gives what is wrong. An index of
    /// which something is wrong is built anew in the background.
    ///
    /// # Errors
    /// Damage to documents on disk, by file and offset.
    pub(crate) fn check_search(&self) -> Result<Vec<String>> {
        Ok(self.indexed().check_search()?)
    }

    /// The paths with one of some prefixes that its documents have values at, and perhaps some that
    /// they had; `None` if only the documents tell.
    ///
    /// # Errors
    /// Damage on disk, by file and offset.
    pub fn paths_below(&self, prefixes: &[String]) -> Result<Option<BTreeSet<String>>> {
        Ok(self.indexed().paths_below(prefixes)?)
    }

    pub(crate) fn record<'a>(&self, position: Position, bytes: &'a Bytes) -> Result<Record<'a>> {
        Record::decode(bytes).map_err(|what| Error::Corrupt {
            partition: self.number(),
            position,
            what,
        })
    }
}

impl IndexedView for PartitionView {
    fn indexes(&self) -> &ViewIndexes {
        self.view_indexes()
    }

    fn tree(&self, tree: TreeId) -> quire_search::Result<&TreeSnapshot> {
        Ok(self.store_view().tree(tree)?)
    }

    fn tree_state(&self, tree: TreeId) -> Option<TreeState> {
        self.store_view().tree_state(tree)
    }

    fn position(&self) -> Position {
        self.store_view().position()
    }

    fn doc_count(&self) -> u64 {
        self.count()
    }

    fn doc_end(&self) -> u32 {
        let totals = self.totals();
        u32::try_from(totals.documents + totals.deleted).unwrap_or(u32::MAX)
    }

    fn documents(&self, docids: &[DocId], with_keys: bool) -> quire_search::Result<Vec<Document>> {
        let keys: Vec<_> = docids.iter().map(|docid| docid_bytes(*docid)).collect();
        let keys: Vec<&[u8]> = keys.iter().map(<[u8; 4]>::as_slice).collect();
        let trees = self.store_view().point_view(&[ROWS])?;
        let mut rows = Vec::with_capacity(docids.len());
        for (docid, row) in docids.iter().zip(trees.get_many(ROWS, &keys)?) {
            let row = row.as_deref().and_then(parse_row);
            rows.push(row.ok_or_else(|| quire_search::Error::Index {
                what: format!("it has document number {docid}, which has no row"),
            })?);
        }
        let count = fitting(rows.iter().map(|row| row.bytes), READ_BYTES);
        let positions: Vec<Position> = rows.iter().map(|row| row.position).take(count).collect();
        let records = trees.records(&positions)?;
        let found = positions.iter().zip(&records);
        found
            .map(|(position, bytes)| {
                Ok(document(&self.record(*position, bytes)?, bytes, with_keys)?)
            })
            .collect()
    }

    fn each_change(
        &self,
        after: Position,
        with_keys: bool,
        see: &mut dyn FnMut(u32, Change) -> ControlFlow<()>,
    ) -> quire_search::Result<bool> {
        for item in self.store_view().log_from(after.next()) {
            let (position, bytes) = item?;
            let record = self.record(position, &bytes)?;
            if let Some(change) = change_of(position, &record, &bytes, with_keys)?
                && see(record.docid.0, change).is_break()
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn docs_changed(&self, after: Position) -> quire_search::Result<BTreeSet<DocId>> {
        let mut changed = BTreeSet::new();
        for item in self.store_view().log_from(after.next()) {
            let (position, bytes) = item?;
            changed.insert(self.record(position, &bytes)?.docid);
        }
        Ok(changed)
    }

    fn each_document(&self, see: &mut SeeDocument<'_>) -> quire_search::Result<()> {
        let mut rows = self.rows()?;
        loop {
            let batch = rows.next_batch()?;
            if batch.is_empty() {
                return Ok(());
            }
            for (docid, found) in batch {
                see(docid, &found.document, &found.key);
            }
        }
    }

    fn rebuild(&self, tree: TreeId, what: &str) -> Option<Position> {
        let store = self.store().upgrade()?;
        store.rebuild_tree(self.store_view(), tree, what);
        Some(store.position())
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
        true => Ok(with_key(document, &Key::decode(record.key)?)?),
        false => Ok(document),
    }
}
