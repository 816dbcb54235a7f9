//! A partition's view as its search indexes see it.

use crate::indexed_columns::{RowFields, groups_in_all};
use crate::indexed_rows::IndexedRows;
use crate::record;
use crate::row_index::is_change;
use crate::{Error, ErrorKind, WideView};
use quire_lsm::TreeSnapshot;
use quire_model::{DocId, Document, Key, Position};
use quire_search::{Change, IndexedView, Result, SearchTree, SeeDocument, ViewIndexes, with_key};
use quire_store::{TreeId, TreeState};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// Bytes of rows that are read at a time, if it is more than one.
const READ_BYTES: usize = 1 << 20;

impl WideView {
    /// What the indexes of the view have of rows.
    fn row_fields(&self) -> &RowFields {
        self.row_fields.get_or_init(|| self.find_row_fields())
    }

    fn find_row_fields(&self) -> RowFields {
        let columns = self.row_index.columns();
        let key_field = columns.as_ref().map_or("", |columns| columns.key_field());
        let (schema, fields) = (self.shared_schema(), self.indexes.fields());
        let mut fields = RowFields::new(schema, key_field, fields, 0);
        let columns = self.schema().columns().iter();
        let columns = columns.filter(|column| fields.has(column.number));
        fields.groups = groups_in_all(schema, columns, self.moves());
        fields
    }

    fn indexed_rows(&self) -> IndexedRows<'_> {
        let (view, fields) = (self.store_view().base(), self.row_fields());
        IndexedRows::new(self.partition(), view, fields)
    }

    /// The rows that changed after a position, with their last changes; `None` if the log no longer
    /// has these.
    fn rows_changed(&self, after: Position) -> Result<Option<BTreeMap<DocId, Position>>> {
        let (mut changed, mut seen) = (BTreeMap::new(), after);
        for item in self.store_view().log_from(after.next()) {
            let (position, bytes) = item?;
            if position != seen.next() {
                return Ok(None);
            }
            seen = position;
            let decoded = record::decode(&bytes);
            let (head, cells) = decoded.map_err(|what| self.damaged(position, what))?;
            if is_change(&head, &cells, self.row_fields()) {
                changed.insert(head.docid, position);
            }
        }
        Ok((seen == self.position()).then_some(changed))
    }

    fn damaged(&self, position: Position, what: String) -> quire_search::Error {
        quire_search::Error::Corrupt {
            partition: self.partition(),
            position,
            what,
        }
    }

    /// What went wrong with rows, for those who query.
    fn refused(&self, error: Error) -> quire_search::Error {
        match error {
            Error::Store(error) => error.into(),
            Error::Model(error) => error.into(),
            error => self.damaged(self.position(), error.to_string()),
        }
    }
}

impl IndexedView for WideView {
    fn indexes(&self) -> &ViewIndexes {
        &self.indexes
    }

    fn tree(&self, tree: TreeId) -> Result<&TreeSnapshot> {
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
        self.rows_made()
    }

    /// Families are in no index.
    fn includes(&self, tree: &SearchTree, path: &str) -> bool {
        tree.fields.includes(path) && self.schema().family_of(path).is_none()
    }

    fn documents(&self, docids: &[DocId], with_keys: bool) -> Result<Vec<Document>> {
        let rows = self.indexed_rows();
        let (mut documents, mut bytes) = (Vec::with_capacity(docids.len()), 0);
        for docid in docids {
            let row = rows.row(*docid).map_err(|error| self.refused(error))?;
            let (document, key) = row.ok_or_else(|| quire_search::Error::Index {
                what: format!("it has document number {docid}, which has no row"),
            })?;
            bytes += document.as_bytes().len();
            documents.push(match with_keys {
                true => with_key(document, &key)?,
                false => document,
            });
            if bytes >= READ_BYTES {
                break;
            }
        }
        Ok(documents)
    }

    fn columns_hash(&self) -> u64 {
        self.row_fields().hash()
    }

    fn each_change(
        &self,
        after: Position,
        with_keys: bool,
        see: &mut dyn FnMut(u32, Change) -> ControlFlow<()>,
    ) -> Result<bool> {
        let Some(changed) = self.rows_changed(after)? else {
            return Ok(false);
        };
        let rows = self.indexed_rows();
        for (docid, position) in changed {
            let document = match rows.row(docid) {
                // The index has no such row: reading it by a scan says what is wrong with it.
                Err(error) if error.kind() == ErrorKind::TooLarge => return Ok(false),
                row => match row.map_err(|error| self.refused(error))? {
                    Some((document, key)) if with_keys => Some(with_key(document, &key)?),
                    row => row.map(|(document, _)| document),
                },
            };
            if see(docid.0, Change::new(position, document)).is_break() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn docs_changed(&self, after: Position) -> Result<BTreeSet<DocId>> {
        let changed = self.rows_changed(after)?;
        let changed = changed.ok_or_else(|| quire_search::Error::Index {
            what: format!("changes after position {after} are not in the log"),
        })?;
        Ok(changed.into_keys().collect())
    }

    fn each_document(&self, see: &mut SeeDocument<'_>) -> Result<()> {
        let rows = self.indexed_rows();
        let all = rows.each_from(DocId(0), &mut |docid, document: Document, key: Key| {
            see(docid, &document, &key);
            Ok::<_, Error>(true)
        });
        all.map(|_| ()).map_err(|error| self.refused(error))
    }

    fn rebuild(&self, tree: TreeId, what: &str) -> Option<Position> {
        let store = self.row_index.store.upgrade()?;
        store.rebuild_tree(self.store_view(), tree, what);
        Some(store.position())
    }
}
