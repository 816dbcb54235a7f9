//! [`SearchIndex`]: the search tree of a partition, as the store builds and follows it.
//!
//! # Invariants
//! 1. A document is indexed by the newest record that it has in the newer view, so one that changed
//!    several times between two views is indexed once.
//! 2. What was indexed of a document is what the older view holds of it: nothing else is kept.
//! 3. Changes are sets of docids that leave and enter, so writing one again changes nothing.

use super::entries::{Entries, Indexer};
use super::inversion::Inversion;
use super::merger::MergePostings;
use super::{FieldSet, IndexSettings};
use crate::documents::{ROWS, docid_bytes, parse_docid, parse_position};
use crate::record::{Kind, Record};
use bytes::Bytes;
use quire_lsm::{BlockCodec, SmallBytes, TreeSpec};
use quire_model::{DocId, Document, Key, Position};
use quire_seeded::{Bug, seeded};
use quire_store::{BaseView, DerivedTrees, Difference, Error, Result, TreeBatch, TreeId};
use std::ops::Bound;
use std::sync::Arc;

/// Documents that are read at a time.
const READ_AT_ONCE: usize = 256;

/// An inversion of about this many bytes is written out.
const INVERSION_BYTES_MAX: usize = 4 << 20;

/// See the module.
#[derive(Debug)]
pub(crate) struct SearchIndex {
    tree: TreeId,
    fields: Arc<FieldSet>,
    indexer: Indexer,
}

impl SearchIndex {
    pub(crate) fn new(index: &IndexSettings) -> SearchIndex {
        let fields = Arc::new(FieldSet::new(index.fields.clone()));
        SearchIndex {
            tree: index.tree(),
            indexer: Indexer::new(Arc::clone(&fields)),
            fields,
        }
    }

    /// The entries of the document in a record of the log; none if it deleted the document.
    fn entries_of(&self, position: Position, bytes: &Bytes) -> Result<Entries> {
        let refused = |what: String| Error::derived(position, what);
        let record = Record::decode(bytes).map_err(refused)?;
        if record.kind == Kind::Delete {
            return Ok(Entries::default());
        }
        let said = |error: quire_model::Error| refused(error.to_string());
        let document = Document::from_stored(record.document_bytes(bytes)).map_err(said)?;
        let key = Key::decode(record.key).map_err(said)?;
        Ok(self.indexer.entries(&document, &key.to_string()))
    }
}

impl DerivedTrees for SearchIndex {
    fn trees(&self) -> Vec<TreeSpec> {
        vec![TreeSpec {
            codec: BlockCodec::Lz4,
            // A value is looked up in all clusters at once, by a range.
            filter_bits_per_key: 0,
            merger: Some(Arc::new(MergePostings)),
            ..TreeSpec::new(self.tree.0, format!("search-{}", self.tree))
        }]
    }

    fn build(
        &self,
        view: &BaseView,
        cursor: &[u8],
        batch: &mut TreeBatch,
    ) -> Result<Option<Vec<u8>>> {
        match cursor {
            [] => {
                self.fields.clear();
                self.indexer.clear();
            }
            _ => self.load_fields(view.position(), batch)?,
        }
        let mut rows = view
            .tree(ROWS)?
            .scan(Bound::Included(cursor), Bound::Unbounded)?;
        let mut inversion = Inversion::default();
        loop {
            let mut found: Vec<(DocId, Position)> = Vec::with_capacity(READ_AT_ONCE);
            for item in rows.by_ref().take(READ_AT_ONCE) {
                let (docid, row) = item?;
                let row = parse_docid(&docid).zip(parse_position(&row));
                found.push(row.ok_or_else(|| {
                    Error::derived(view.position(), "a row that makes no sense".into())
                })?);
            }
            let Some((last, _)) = found.last().copied() else {
                self.write(inversion, batch);
                return Ok(None);
            };
            let positions: Vec<Position> = found.iter().map(|(_, position)| *position).collect();
            for ((docid, position), record) in found.iter().zip(view.records(&positions)?) {
                let entries = self.entries_of(*position, &record)?;
                inversion.add(*docid, &Entries::default(), &entries);
            }
            if inversion.bytes() >= INVERSION_BYTES_MAX {
                self.write(inversion, batch);
                let next = last.0.checked_add(1);
                return Ok(next.map(|next| docid_bytes(DocId(next)).to_vec()));
            }
        }
    }

    fn follow(
        &self,
        difference: &Difference<'_>,
        from: Position,
        batch: &mut TreeBatch,
    ) -> Result<Option<Position>> {
        self.load_fields(difference.old.position(), batch)?;
        let mut inversion = Inversion::default();
        let mut records: Vec<(Position, Bytes)> = Vec::with_capacity(READ_AT_ONCE);
        let mut left = difference.records(from);
        loop {
            records.clear();
            for item in left.by_ref().take(READ_AT_ONCE) {
                records.push(item?);
            }
            let Some((last, _)) = records.last() else {
                self.write(inversion, batch);
                return Ok(None);
            };
            let next = last.next();
            self.follow_records(difference, &records, &mut inversion)?;
            if inversion.bytes() >= INVERSION_BYTES_MAX {
                self.write(inversion, batch);
                return Ok(Some(next));
            }
        }
    }
}

impl SearchIndex {
    /// Reads which fields the tree has, when that is first needed.
    fn load_fields(&self, position: Position, batch: &TreeBatch) -> Result<()> {
        let tree = batch.stored(self.tree);
        let loaded = tree.map_or(Ok(()), |tree| self.fields.load(tree));
        loaded.map_err(|error| Error::derived(position, error.to_string()))
    }

    fn write(&self, inversion: Inversion, batch: &mut TreeBatch) {
        self.fields.write(self.tree, batch);
        let mut operand = Vec::new();
        for (key, change) in inversion.into_changes() {
            operand.clear();
            change.encode(&mut operand);
            batch.merge(self.tree, &key, &operand);
        }
    }

    /// Takes the documents whose newest record is among these into an inversion.
    fn follow_records(
        &self,
        difference: &Difference<'_>,
        records: &[(Position, Bytes)],
        inversion: &mut Inversion,
    ) -> Result<()> {
        let mut docids = Vec::with_capacity(records.len());
        for (position, bytes) in records {
            let record = Record::decode(bytes).map_err(|what| Error::derived(*position, what))?;
            docids.push((record.docid, record.kind == Kind::Delete));
        }
        let rows = |view: &BaseView| -> Result<Vec<Option<Position>>> {
            let keys: Vec<_> = docids
                .iter()
                .map(|(docid, _)| docid_bytes(*docid))
                .collect();
            let keys: Vec<&[u8]> = keys.iter().map(<[u8; 4]>::as_slice).collect();
            let rows = view.tree(ROWS)?.get_many(&keys)?;
            let position = |row: SmallBytes| parse_position(&row);
            Ok(rows.into_iter().map(|row| row.and_then(position)).collect())
        };
        let (old, new) = (rows(difference.old)?, rows(difference.new)?);
        let mut before = Vec::new();
        let mut after = Vec::new();
        for (at, (position, bytes)) in records.iter().enumerate() {
            let (docid, is_deleted) = docids[at];
            let is_newest = match new[at] {
                Some(newest) => newest == *position,
                None => is_deleted,
            };
            let is_built = difference
                .built
                .is_none_or(|cursor| docid_bytes(docid).as_slice() < cursor);
            if is_newest && is_built {
                if !seeded(Bug::OldValueKept) {
                    before.extend(old[at].map(|old| (docid, old)));
                }
                after.push((docid, self.entries_of(*position, bytes)?));
            }
        }
        let positions: Vec<Position> = before.iter().map(|(_, position)| *position).collect();
        let mut before = before
            .into_iter()
            .zip(difference.old.records(&positions)?)
            .peekable();
        for (docid, after) in after {
            let of_docid = before.next_if(|((old, _), _)| *old == docid);
            let entries =
                of_docid.map(|((_, position), record)| self.entries_of(position, &record));
            inversion.add(docid, &entries.transpose()?.unwrap_or_default(), &after);
        }
        Ok(())
    }
}
