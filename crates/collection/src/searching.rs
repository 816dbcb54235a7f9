//! Queries of a partition's view through its search index.

use crate::documents::{ROWS, docid_bytes, parse_position};
use crate::record::{Kind, Record};
use crate::search::{
    COLUMN_BLOCK_BITS, CachedChanges, Changed, Documents, ID, LiveColumns, LiveShard, SearchTree,
};
use crate::types::with_key;
use crate::{Error, PartitionView, Result};
use bytes::Bytes;
use quire_model::{DocId, Document, Key, Position};
use quire_query::Prepared;
use quire_store::TreeState;
use std::sync::Arc;

impl PartitionView {
    /// The view as a shard of a query, which finds documents by the search index; `None` if there
    /// is no index of all fields of the query that is complete.
    ///
    /// # Errors
    /// Damage on disk, by file and offset.
    pub fn search(&self, query: &Prepared) -> Result<Option<LiveShard<'_>>> {
        let has_all = |tree: &&SearchTree| {
            let mut has_all = true;
            query.each_use(&mut |path, _| has_all &= tree.fields.includes(path.as_str()));
            has_all
        };
        let trees = self.search_trees().iter().rev().filter(has_all);
        let built = trees.filter_map(|tree| Some((tree, self.built(tree)?)));
        let Some((tree, built)) = built.take(1).next() else {
            return Ok(None);
        };
        self.shard(tree, built, query.is_about(ID)).map(Some)
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
    ) -> Result<LiveShard<'_>> {
        let totals = self.store_view().summary();
        let doc_end = totals.documents + totals.deleted;
        let documents = PartitionDocuments {
            view: self,
            with_keys,
        };
        LiveShard::new(
            self.store_view().tree(tree.id)?,
            Box::new(documents),
            u32::try_from(doc_end).unwrap_or(u32::MAX),
            self.changed_after(built, with_keys)?,
            LiveColumns::new(self.store_view().tree(tree.columns)?, COLUMN_BLOCK_BITS),
        )
    }

    /// The documents that changed after a position, as they are in this view.
    fn changed_after(&self, after: Position, with_keys: bool) -> Result<Arc<Changed>> {
        let (state, to) = (self.search_state(), self.position());
        let cached = state.cached_changes(after, to, with_keys);
        let (mut changed, seen) = match cached {
            Some(cached) if cached.to == to => return Ok(cached.changed),
            Some(cached) => (Changed::clone(&cached.changed), cached.to),
            None => (Changed::default(), after),
        };
        for item in self.store_view().log_from(seen.next()) {
            let (position, bytes) = item?;
            let record = self.record(position, &bytes)?;
            let document = match record.kind {
                Kind::Delete => None,
                Kind::Put | Kind::Patch => Some(document(&record, &bytes, with_keys)?),
            };
            changed.insert(record.docid.0, document);
        }
        let changed = Arc::new(changed);
        state.cache_changes(CachedChanges {
            after,
            to,
            with_keys,
            changed: Arc::clone(&changed),
        });
        Ok(changed)
    }

    pub(crate) fn record<'a>(&self, position: Position, bytes: &'a Bytes) -> Result<Record<'a>> {
        Record::decode(bytes).map_err(|what| Error::Corrupt {
            partition: self.number(),
            position,
            what,
        })
    }
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
        let mut positions = Vec::with_capacity(docids.len());
        for (docid, row) in docids.iter().zip(trees.get_many(ROWS, &keys)?) {
            let position = row.as_deref().and_then(parse_position);
            positions.push(position.ok_or_else(|| Error::Index {
                what: format!("it has document number {docid}, which has no row"),
            })?);
        }
        let records = trees.records(&positions)?;
        let found = positions.iter().zip(&records);
        found
            .map(|(position, bytes)| {
                document(&self.view.record(*position, bytes)?, bytes, self.with_keys)
            })
            .collect()
    }
}
