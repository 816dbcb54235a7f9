//! [`SearchIndex`]: the search tree of a partition, as the store builds and follows it.
//!
//! # Invariants
//! 1. A document is indexed by the newest record that it has in the newer view, so one that changed
//!    several times between two views is indexed once.
//! 2. What was indexed of a document is what the older view holds of it: nothing else is kept.
//! 3. Changes are sets of docids that leave and enter, so writing one again changes nothing.

use super::column_blocks::{COLUMN_BLOCK_BITS, block_key};
use super::column_changes::ColumnChanges;
use super::column_merger::MergeColumns;
use super::inversion::Inversion;
use super::merger::MergePostings;
use super::new_documents::{NewChanges, NewDocuments};
use super::values::{Slot, Values, each_changed};
use super::{FieldSet, IndexSettings, Indexer};
use crate::documents::{ROWS, docid_bytes, parse_docid, parse_row};
use crate::fitting::fitting;
use crate::record::{Kind, Record, Row};
use bytes::Bytes;
use quire_env::Charge;
use quire_lsm::{BlockCodec, SmallBytes, TreeSpec};
use quire_model::{DocId, Document, Key, Position, ValueRef};
use quire_seeded::{Bug, seeded};
use quire_store::{BaseView, DerivedTrees, Difference, Error, Result, TreeBatch, TreeId};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

/// Documents that are read at a time, at most; fewer if they are large.
const READ_AT_ONCE: usize = 256;

/// Bytes of documents that are read at a time, if it is more than one.
const READ_BYTES: usize = 1 << 20;

/// Reading records takes their bytes, and once more while they are decompressed.
const READ_COPIES: u64 = 2;

/// Changes of about this many bytes are written out.
const CHANGES_BYTES_MAX: usize = 4 << 20;

/// Values of a document that take no allocation.
const FOUND_INLINE: usize = 48;

/// See the module.
#[derive(Debug)]
pub(crate) struct SearchIndex {
    tree: TreeId,
    columns: TreeId,
    fields: Arc<FieldSet>,
}

/// What the documents of one batch change. Each takes the values of a document before and after
/// all that happened to it, and writes its own trees.
#[derive(Debug)]
struct Changes {
    indexer: Indexer,
    new: NewDocuments,
    inversion: Inversion,
    columns: ColumnChanges,
    /// Those of the last new document that was not taken value by value; their memory is used
    /// again.
    values: Values,
}

impl Changes {
    /// Takes documents that were not there before, by their records. Fields with one value in a
    /// document are taken field by field, so that the terms of a field stay in the processor's
    /// caches.
    fn add_new(&mut self, records: &[(DocId, Position, &Bytes)]) -> Result<()> {
        let mut documents = Vec::with_capacity(records.len());
        for (docid, position, bytes) in records {
            let found = document_of(*position, bytes)?;
            documents.extend(found.map(|(document, key)| (*docid, document, key)));
        }
        let mut single: Vec<Vec<(DocId, ValueRef<'_>)>> = Vec::new();
        let mut found = SmallVec::<[(Slot, ValueRef<'_>); FOUND_INLINE]>::new();
        for (docid, document, key) in &documents {
            self.inversion.add_document(*docid);
            found.clear();
            let (few_max, mut are_few) = (self.indexer.few_max(), true);
            self.indexer.each_value(document, key, &mut |slot, value| {
                are_few &= found.len() < few_max;
                if are_few {
                    found.push((slot, value));
                }
            });
            if !are_few {
                let mut values = std::mem::take(&mut self.values);
                self.indexer.take_values(document, key, &mut values);
                self.add_new_values(*docid, values);
                continue;
            }
            // Fields come in the order of their slots in most documents.
            if !found.is_sorted_by_key(|(slot, _)| *slot) {
                found.sort_by_key(|(slot, _)| *slot);
            }
            for of_field in found.chunk_by(|(a, _), (b, _)| a == b) {
                let [(slot, value)] = of_field else {
                    self.add_new_few(*docid, of_field);
                    continue;
                };
                while single.len() <= slot.index() {
                    single.push(Vec::with_capacity(documents.len()));
                }
                if let Some(of_slot) = single.get_mut(slot.index()) {
                    of_slot.push((*docid, *value));
                }
            }
        }
        for (slot, of_slot) in (0..).map(Slot).zip(&single) {
            for (docid, value) in self.new.add_single(slot, of_slot) {
                self.add_new_few(docid, &[(slot, value)]);
            }
        }
        Ok(())
    }

    /// Takes what a document that was not there before has in a field.
    fn add_new_few(&mut self, docid: DocId, few: &[(Slot, ValueRef<'_>)]) {
        let mut values = std::mem::take(&mut self.values);
        self.indexer.take_few(few, &mut values);
        self.add_new_values(docid, values);
    }

    /// Takes fields of a document that was not there before.
    fn add_new_values(&mut self, docid: DocId, values: Values) {
        for (slot, terms) in values.fields() {
            if !self.new.add(slot, docid, terms) {
                self.inversion.add_field(slot, docid, terms);
                self.columns.add(slot.0, docid, terms.iter());
            }
        }
        self.values = values;
    }

    fn add(&mut self, docid: DocId, before: &Values, after: &Values) {
        self.inversion.add(docid, before, after);
        each_changed(before, after, |slot, _, after| {
            self.columns.add(slot.0, docid, after.iter());
        });
    }

    /// Whether it is as large as one that is to be written.
    fn is_full(&self) -> bool {
        let of_values = self.new.bytes() + self.inversion.bytes() + self.columns.bytes();
        self.indexer.bytes() + of_values >= CHANGES_BYTES_MAX
    }

    fn write(self, index: &SearchIndex, batch: &mut TreeBatch) {
        let Changes {
            indexer,
            new,
            inversion,
            columns,
            ..
        } = self;
        index.fields.write(index.tree, batch);
        new.write(
            &indexer,
            &mut Written {
                indexer: &indexer,
                index,
                batch,
            },
        );
        let mut operand = Vec::new();
        inversion.each_change(&indexer, |key, change| {
            operand.clear();
            change.encode(&mut operand);
            batch.merge(index.tree, key, &operand);
        });
        columns.each_operand(|slot, block, operand| {
            if let Some(field) = indexer.field(Slot(slot)) {
                batch.merge(index.columns, &block_key(&field.key, block), operand);
            }
        });
    }

    /// Takes a document that was there before, by its record then and its newest one.
    fn add_changed(
        &mut self,
        docid: DocId,
        (old_position, old): (Position, &Bytes),
        (new_position, new): (Position, &Bytes),
    ) -> Result<()> {
        let old = document_of(old_position, old)?;
        let new = document_of(new_position, new)?;
        let mut values = |found: Option<(Document, Key)>| {
            let found = found.map(|(document, key)| self.indexer.values(&document, &key));
            found.unwrap_or_default()
        };
        let [before, after] = match (old, new) {
            (Some((old, key)), Some((new, _))) => self.indexer.values_that_differ(&old, &new, &key),
            (old, new) => [values(old), values(new)],
        };
        self.add(docid, &before, &after);
        Ok(())
    }
}

/// The document in a record of the log, and its key; none if it deleted the document.
fn document_of(position: Position, bytes: &Bytes) -> Result<Option<(Document, Key)>> {
    let refused = |what: String| Error::derived(position, what);
    let record = Record::decode(bytes).map_err(refused)?;
    if record.kind == Kind::Delete {
        return Ok(None);
    }
    let said = |error: quire_model::Error| refused(error.to_string());
    let document = Document::from_stored(record.document_bytes(bytes)).map_err(said)?;
    let key = Key::decode(record.key).map_err(said)?;
    Ok(Some((document, key)))
}

/// Writes what new documents change.
struct Written<'a> {
    indexer: &'a Indexer,
    index: &'a SearchIndex,
    batch: &'a mut TreeBatch,
}

impl NewChanges for Written<'_> {
    fn posting(&mut self, key: &[u8], operand: &[u8]) {
        self.batch.merge(self.index.tree, key, operand);
    }

    fn column(&mut self, slot: Slot, block: u32, operand: &[u8]) {
        if let Some(field) = self.indexer.field(slot) {
            let key = block_key(&field.key, block);
            self.batch.merge(self.index.columns, &key, operand);
        }
    }
}

impl SearchIndex {
    pub(crate) fn new(index: &IndexSettings) -> SearchIndex {
        let fields = Arc::new(FieldSet::new(index.fields.clone()));
        SearchIndex {
            tree: index.tree(),
            columns: index.columns(),
            fields,
        }
    }

    fn begin(&self) -> Changes {
        Changes {
            indexer: Indexer::new(Arc::clone(&self.fields)),
            new: NewDocuments::default(),
            values: Values::default(),
            inversion: Inversion::default(),
            columns: ColumnChanges::new(COLUMN_BLOCK_BITS),
        }
    }
}

impl DerivedTrees for SearchIndex {
    fn trees(&self) -> Vec<TreeSpec> {
        let search = TreeSpec {
            // Keys are long, and alike: a quarter to a third smaller than by LZ4, for as much CPU.
            codec: BlockCodec::Zstd { level: 1 },
            // A value is looked up in all clusters at once, by a range.
            filter_bits_per_key: 0,
            merger: Some(Arc::new(MergePostings)),
            ..TreeSpec::new(self.tree.0, format!("search-{}", self.tree))
        };
        let columns = TreeSpec {
            codec: BlockCodec::Lz4,
            merger: Some(Arc::new(MergeColumns)),
            ..TreeSpec::new(self.columns.0, format!("columns-{}", self.tree))
        };
        vec![search, columns]
    }

    fn build(
        &self,
        view: &BaseView,
        cursor: &[u8],
        batch: &mut TreeBatch,
    ) -> Result<Option<Vec<u8>>> {
        match cursor {
            [] => self.fields.clear(),
            _ => self.load_fields(view.position(), batch)?,
        }
        let mut rows = view
            .tree(ROWS)?
            .scan(Bound::Included(cursor), Bound::Unbounded)?;
        let mut changes = self.begin();
        let mut left: VecDeque<(DocId, Row)> = VecDeque::new();
        loop {
            if left.is_empty() {
                for item in rows.by_ref().take(READ_AT_ONCE) {
                    let (docid, row) = item?;
                    let row = parse_docid(&docid).zip(parse_row(&row));
                    left.push_back(row.ok_or_else(|| {
                        Error::derived(view.position(), "a row that makes no sense".into())
                    })?);
                }
            }
            let count = fitting(left.iter().map(|(_, row)| row.bytes), READ_BYTES as u64);
            let found: Vec<(DocId, Row)> = left.drain(..count).collect();
            let Some((last, _)) = found.last().copied() else {
                changes.write(self, batch);
                return Ok(None);
            };
            let (positions, _room) = room_for(batch, found.iter().map(|(_, row)| *row));
            let records = view.records(&positions)?;
            let of_rows = found.iter().zip(&records);
            let new: Vec<_> = of_rows
                .map(|((docid, row), record)| (*docid, row.position, record))
                .collect();
            changes.add_new(&new)?;
            if changes.is_full() {
                changes.write(self, batch);
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
        let mut changes = self.begin();
        let mut records: Vec<(Position, Bytes)> = Vec::with_capacity(READ_AT_ONCE);
        let mut left = difference.records(from);
        loop {
            records.clear();
            // Room for a large record, and for the one before it of its document, which is mostly
            // about as long.
            let next_bytes = left.next_block_bytes();
            let is_large = next_bytes > READ_BYTES;
            let room = is_large.then(|| batch.room((1 + READ_COPIES) * next_bytes as u64));
            let mut bytes = 0;
            while records.len() < READ_AT_ONCE && bytes < READ_BYTES {
                if !records.is_empty() && left.next_block_bytes() > READ_BYTES {
                    break;
                }
                let Some(record) = left.next().transpose()? else {
                    break;
                };
                bytes += record.1.len();
                records.push(record);
            }
            let Some((last, _)) = records.last() else {
                changes.write(self, batch);
                return Ok(None);
            };
            let next = last.next();
            self.follow_records(difference, &records, &mut changes, batch, room.is_some())?;
            if changes.is_full() {
                changes.write(self, batch);
                return Ok(Some(next));
            }
        }
    }
}

/// What a record says of its document.
#[derive(Debug, Clone, Copy)]
struct Head {
    docid: DocId,
    is_deleted: bool,
    is_created: bool,
}

impl SearchIndex {
    /// Reads which fields the tree has, when that is first needed.
    fn load_fields(&self, position: Position, batch: &TreeBatch) -> Result<()> {
        let tree = batch.stored(self.tree);
        let loaded = tree.map_or(Ok(()), |tree| self.fields.load(tree));
        loaded.map_err(|error| Error::derived(position, error.to_string()))
    }

    /// Takes the documents whose newest record is among these. `has_room` says that there is room
    /// for the records before them, too.
    fn follow_records(
        &self,
        difference: &Difference<'_>,
        records: &[(Position, Bytes)],
        changes: &mut Changes,
        batch: &TreeBatch,
        has_room: bool,
    ) -> Result<()> {
        let mut heads = Vec::with_capacity(records.len());
        for record_at in records {
            let (position, bytes) = record_at;
            let record = Record::decode(bytes).map_err(|what| Error::derived(*position, what))?;
            if record.has_no_key() {
                continue;
            }
            let head = Head {
                docid: record.docid,
                is_deleted: record.kind == Kind::Delete,
                is_created: record.created,
            };
            heads.push((head, record_at));
        }
        let new = rows(difference.new, heads.iter().map(|(head, _)| head.docid))?;
        let is_newest = |(head, newest, (position, _)): &(Head, Option<Row>, &(Position, _))| {
            let is_built = difference
                .built
                .is_none_or(|cursor| docid_bytes(head.docid).as_slice() < cursor);
            is_built && newest.map_or(head.is_deleted, |newest| newest.position == *position)
        };
        let all = heads.into_iter().zip(new);
        let newest: Vec<_> = all
            .map(|((head, record), newest)| (head, newest, record))
            .filter(is_newest)
            .collect();
        // A document that was created since is not in the older view. Only the newest record of the
        // others is looked up there: to find it goes back over all records since.
        let older = newest.iter().filter(|(head, ..)| !head.is_created);
        let mut old = rows(difference.old, older.map(|(head, ..)| head.docid))?.into_iter();
        let (mut created, mut before, mut after) = (Vec::new(), Vec::new(), Vec::new());
        for (head, _, (position, bytes)) in newest {
            let docid = head.docid;
            let old = match head.is_created {
                true => None,
                false => old.next().flatten(),
            };
            match old.filter(|_| !seeded(Bug::OldValueKept)) {
                Some(old) => {
                    before.push(old);
                    after.push((docid, (*position, bytes)));
                }
                None => created.push((docid, *position, bytes)),
            }
        }
        changes.add_new(&created)?;
        let mut after = after.into_iter();
        let mut before = before.as_slice();
        while !before.is_empty() {
            let count = fitting(before.iter().map(|row| row.bytes), READ_BYTES as u64);
            let (now, later) = before.split_at(count);
            before = later;
            let (positions, _room) = match has_room {
                true => (now.iter().map(|row| row.position).collect(), None),
                false => room_for(batch, now.iter().copied()),
            };
            let records = difference.old.records(&positions)?;
            for ((position, old), (docid, new)) in positions.iter().zip(&records).zip(&mut after) {
                changes.add_changed(docid, (*position, old), new)?;
            }
        }
        Ok(())
    }
}

/// The positions of records that are read together, and the room for them if they are large.
fn room_for(batch: &TreeBatch, rows: impl Iterator<Item = Row>) -> (Vec<Position>, Option<Charge>) {
    let (positions, lengths): (Vec<_>, Vec<_>) =
        rows.map(|row| (row.position, u64::from(row.bytes))).unzip();
    let bytes: u64 = lengths.iter().sum();
    let is_large = bytes > READ_BYTES as u64;
    let room = is_large.then(|| batch.room(READ_COPIES * bytes)).flatten();
    (positions, room)
}

/// The rows of documents in a view.
fn rows(view: &BaseView, docids: impl Iterator<Item = DocId>) -> Result<Vec<Option<Row>>> {
    let keys: Vec<_> = docids.map(docid_bytes).collect();
    let keys: Vec<&[u8]> = keys.iter().map(<[u8; 4]>::as_slice).collect();
    let rows = view.tree(ROWS)?.get_many(&keys)?;
    let parsed = |row: SmallBytes| parse_row(&row);
    Ok(rows.into_iter().map(|row| row.and_then(parsed)).collect())
}
