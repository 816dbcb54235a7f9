//! [`DocumentIndex`]: the search index of a partition, as the store builds and follows it.
//!
//! # Invariants
//! 1. A document is indexed by the newest record that it has in the newer view, so one that changed
//!    several times between two views is indexed once.
//! 2. What was indexed of a document is what the older view holds of it.

use crate::documents::{ROWS, docid_bytes, parse_docid, parse_row};
use crate::fitting::fitting;
use crate::record::{Kind, Record, Row};
use bytes::Bytes;
use quire_env::Charge;
use quire_lsm::{SmallBytes, TreeSpec};
use quire_model::{DocId, Document, Key, Position};
use quire_search::{IndexChanges, IndexSettings, IndexTrees};
use quire_seeded::{Bug, seeded};
use quire_store::{BaseView, DerivedTrees, Difference, Error, Result, TreeBatch};
use std::collections::VecDeque;
use std::ops::Bound;

/// Documents that are read at a time, at most; fewer if they are large.
const READ_AT_ONCE: usize = 256;

/// Bytes of documents that are read at a time, if it is more than one.
const READ_BYTES: usize = 1 << 20;

/// Reading records takes their bytes, and once more while they are decompressed.
const READ_COPIES: u64 = 2;

/// See the module.
#[derive(Debug)]
pub(crate) struct DocumentIndex(IndexTrees);

impl DocumentIndex {
    pub(crate) fn new(index: &IndexSettings) -> DocumentIndex {
        DocumentIndex(IndexTrees::new(index))
    }
}

impl DerivedTrees for DocumentIndex {
    fn trees(&self) -> Vec<TreeSpec> {
        self.0.specs()
    }

    fn build(
        &self,
        view: &BaseView,
        cursor: &[u8],
        batch: &mut TreeBatch,
    ) -> Result<Option<Vec<u8>>> {
        let mut changes = match cursor {
            [] => self.0.begin(),
            _ => self.0.go_on(view.position(), batch)?,
        };
        let mut rows = view
            .tree(ROWS)?
            .scan(Bound::Included(cursor), Bound::Unbounded)?;
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
                changes.write(&self.0, batch);
                return Ok(None);
            };
            let (positions, _room) = room_for(batch, found.iter().map(|(_, row)| *row));
            let records = view.records(&positions)?;
            let of_rows = found.iter().zip(&records);
            let new: Vec<_> = of_rows
                .map(|((docid, row), record)| (*docid, row.position, record))
                .collect();
            add_new(&mut changes, &new)?;
            if changes.is_full() {
                changes.write(&self.0, batch);
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
        let mut changes = self.0.go_on(difference.old.position(), batch)?;
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
                changes.write(&self.0, batch);
                return Ok(None);
            };
            let next = last.next();
            self.follow_records(difference, &records, &mut changes, batch, room.is_some())?;
            if changes.is_full() {
                changes.write(&self.0, batch);
                return Ok(Some(next));
            }
        }
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

/// Takes documents that were not there before, by their records.
fn add_new(changes: &mut IndexChanges, records: &[(DocId, Position, &Bytes)]) -> Result<()> {
    let mut documents = Vec::with_capacity(records.len());
    for (docid, position, bytes) in records {
        let found = document_of(*position, bytes)?;
        documents.extend(found.map(|(document, key)| (*docid, document, key)));
    }
    changes.add_new(&documents);
    Ok(())
}

/// What a record says of its document.
#[derive(Debug, Clone, Copy)]
struct Head {
    docid: DocId,
    is_deleted: bool,
    is_created: bool,
}

impl DocumentIndex {
    /// Takes the documents whose newest record is among these. `has_room` says that there is room
    /// for the records before them, too.
    fn follow_records(
        &self,
        difference: &Difference<'_>,
        records: &[(Position, Bytes)],
        changes: &mut IndexChanges,
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
        add_new(changes, &created)?;
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
                let new = document_of(new.0, new.1)?;
                changes.add_changed(docid, document_of(*position, old)?, new);
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
