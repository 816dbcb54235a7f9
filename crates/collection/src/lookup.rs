//! Looking documents up as of one position: key → docid → position → record.

use crate::documents::{KEYS, KeyEntry, ROWS, docid_bytes, parse_row};
use crate::record::{Kind, Record, Row};
use crate::{Error, Found, Result, Within};
use bytes::Bytes;
use quire_env::Env;
use quire_lsm::SmallBytes;
use quire_model::{DocId, Document, Key, Position};
use quire_seeded::{Bug, seeded};
use quire_store::PointView;
use std::hint::black_box;

/// The most bytes of records that are prefetched before they are read: a part of the smallest cache
/// of a processor's core.
const PREFETCHED_BYTES_MAX: usize = 16 << 10;

/// A record that was to be read.
enum Fetched {
    Record(Position, Bytes),
    /// It did not fit: its length in bytes.
    Longer(u64),
    /// Its document has expired.
    Expired,
}

/// What documents that have expired are to a lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expired {
    /// As if they were deleted.
    Absent,
    /// What they were: a query has found them, before they were deleted.
    Read,
}

/// The time at which documents that expire are looked up.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AsOf<'a> {
    /// That of a view: microseconds since 1970 UTC.
    View(i64),
    /// Now. The clock is read only if a document has an expiry.
    Now(&'a dyn Env),
}

/// Looks documents of a partition up.
#[derive(Debug)]
pub(crate) struct DocumentLookup<'a> {
    partition: u32,
    store: PointView<'a>,
    as_of: AsOf<'a>,
}

impl<'a> DocumentLookup<'a> {
    pub(crate) fn new(partition: u32, store: PointView<'a>, as_of: AsOf<'a>) -> Self {
        DocumentLookup {
            partition,
            store,
            as_of,
        }
    }

    /// Whether the document of a row has expired.
    pub(crate) fn has_expired(&self, row: Row) -> bool {
        let now = || match self.as_of {
            AsOf::View(time) => time,
            AsOf::Now(env) => env.now_micros(),
        };
        row.expires.is_some() && row.has_expired(now()) && !seeded(Bug::ExpiredDocumentRead)
    }

    /// The document under `key`.
    ///
    /// # Errors
    /// Damage on disk, by file and offset.
    pub(crate) fn get(&self, key: &Key) -> Result<Option<Found>> {
        let Some(docid) = self.docid_of(key)? else {
            return Ok(None);
        };
        let row = self.row(docid, self.store.get(ROWS, &docid_bytes(docid))?)?;
        if self.has_expired(row) {
            return Ok(None);
        }
        let record = self.store.record(row.position)?;
        let found = self.found(key.clone(), docid, row.position, &record)?;
        Ok(Some(found))
    }

    /// The documents under many keys, in the order of `keys`; each step is done for all of them at
    /// once.
    ///
    /// # Errors
    /// Damage on disk, by file and offset.
    pub(crate) fn get_many(&self, keys: &[&Key]) -> Result<Vec<Option<Found>>> {
        if let [key] = keys {
            return Ok(vec![self.get(key)?]);
        }
        let encoded: Vec<&[u8]> = keys.iter().map(|key| key.encoded()).collect();
        let (mut wanted, mut docids) = self.docids_of(&encoded)?;
        let mut rows = self.rows(&docids)?;
        if rows.iter().any(|row| self.has_expired(*row)) {
            let all = wanted.into_iter().zip(docids).zip(rows);
            let there = all.filter(|(_, row)| !self.has_expired(*row));
            ((wanted, docids), rows) = there.unzip();
        }
        let versions: Vec<_> = rows.into_iter().map(|row| row.position).collect();
        let records = self.store.records(&versions)?;
        prefetch(&records);
        let mut found = Vec::new();
        found.resize_with(keys.len(), || None);
        let documents = docids.iter().zip(&versions).zip(&records);
        for (index, ((docid, version), record)) in wanted.into_iter().zip(documents) {
            if let (Some(slot), Some(key)) = (found.get_mut(index), keys.get(index)) {
                *slot = Some(self.found(Key::clone(key), *docid, *version, record)?);
            }
        }
        Ok(found)
    }

    /// The document under `key`, unless its record is longer than `bytes_max`.
    ///
    /// # Errors
    /// Damage on disk, by file and offset.
    pub(crate) fn get_up_to(&self, key: &Key, bytes_max: u64) -> Result<Within> {
        let Some(docid) = self.docid_of(key)? else {
            return Ok(Within::Absent);
        };
        let row = self.row(docid, self.store.get(ROWS, &docid_bytes(docid))?)?;
        if self.has_expired(row) {
            return Ok(Within::Absent);
        }
        if u64::from(row.bytes) > bytes_max {
            return Ok(Within::Longer(row.bytes.into()));
        }
        let record = self.store.record(row.position)?;
        let found = self.found(key.clone(), docid, row.position, &record)?;
        Ok(Within::Found(found))
    }

    /// The documents under many keys, in the order of `keys`, as far as their records fit in
    /// `bytes_left`, which is reduced by what was read. No other record is read.
    ///
    /// # Errors
    /// Damage on disk, by file and offset.
    pub(crate) fn get_within(&self, keys: &[&Key], bytes_left: &mut u64) -> Result<Vec<Within>> {
        let encoded: Vec<&[u8]> = keys.iter().map(|key| key.encoded()).collect();
        let (wanted, docids) = self.docids_of(&encoded)?;
        let fetched = self.fetch_within(&docids, bytes_left, Expired::Absent)?;
        let mut found = Vec::new();
        found.resize_with(keys.len(), || Within::Absent);
        let fetched = docids.iter().zip(fetched);
        for (index, (docid, fetched)) in wanted.into_iter().zip(fetched) {
            if let (Some(slot), Some(key)) = (found.get_mut(index), keys.get(index)) {
                *slot = match fetched {
                    Fetched::Record(version, record) => {
                        let key = Key::clone(key);
                        Within::Found(self.found(key, *docid, version, &record)?)
                    }
                    Fetched::Longer(bytes) => Within::Longer(bytes),
                    Fetched::Expired => Within::Absent,
                };
            }
        }
        Ok(found)
    }

    /// The documents of docids, as [`get_within`](Self::get_within).
    ///
    /// # Errors
    /// Damage on disk, by file and offset; so too a docid without a document.
    pub(crate) fn documents_within(
        &self,
        docids: &[DocId],
        bytes_left: &mut u64,
    ) -> Result<Vec<Within>> {
        let fetched = self.fetch_within(docids, bytes_left, Expired::Read)?;
        let found = docids.iter().zip(fetched).map(|(docid, fetched)| {
            Ok(match fetched {
                Fetched::Record(version, record) => {
                    Within::Found(self.found_by_docid(*docid, version, &record)?)
                }
                Fetched::Longer(bytes) => Within::Longer(bytes),
                Fetched::Expired => Within::Absent,
            })
        });
        found.collect()
    }

    /// The records of docids that the keys tree names, as far as they fit.
    fn fetch_within(
        &self,
        docids: &[DocId],
        bytes_left: &mut u64,
        expired: Expired,
    ) -> Result<Vec<Fetched>> {
        let keys: Vec<_> = docids.iter().map(|docid| docid_bytes(*docid)).collect();
        let keys: Vec<&[u8]> = keys.iter().map(<[u8; 4]>::as_slice).collect();
        let rows = self.store.get_many(ROWS, &keys)?;
        let (mut fetched, mut fitting, mut versions) = (Vec::new(), Vec::new(), Vec::new());
        for (index, (row, docid)) in rows.into_iter().zip(docids).enumerate() {
            let row = self.row(*docid, row)?;
            if expired == Expired::Absent && self.has_expired(row) {
                fetched.push(Fetched::Expired);
                continue;
            }
            let bytes = u64::from(row.bytes);
            if bytes > *bytes_left {
                fetched.push(Fetched::Longer(bytes));
                continue;
            }
            *bytes_left -= bytes;
            fitting.push(index);
            versions.push(row.position);
            fetched.push(Fetched::Record(row.position, Bytes::new()));
        }
        let records = self.store.records(&versions)?;
        prefetch(&records);
        for (index, record) in fitting.into_iter().zip(records) {
            if let Some(Fetched::Record(_, slot)) = fetched.get_mut(index) {
                *slot = record;
            }
        }
        Ok(fetched)
    }

    fn docid_of(&self, key: &Key) -> Result<Option<DocId>> {
        match self.store.get(KEYS, key.encoded())? {
            Some(value) => self.docid(&value),
            None => Ok(None),
        }
    }

    /// Which of the keys have a document, by index, and its docid.
    fn docids_of(&self, encoded: &[&[u8]]) -> Result<(Vec<usize>, Vec<DocId>)> {
        let mut wanted = Vec::with_capacity(encoded.len());
        let mut docids = Vec::with_capacity(encoded.len());
        for (index, value) in self.store.get_many(KEYS, encoded)?.iter().enumerate() {
            let docid = value.as_ref().map(|value| self.docid(value)).transpose()?;
            if let Some(docid) = docid.flatten() {
                wanted.push(index);
                docids.push(docid);
            }
        }
        Ok((wanted, docids))
    }

    /// The docid in a value of the keys tree; none if its document was deleted.
    pub(crate) fn docid(&self, value: &[u8]) -> Result<Option<DocId>> {
        match KeyEntry::decode(value) {
            Some(KeyEntry::Document(docid)) => Ok(Some(docid)),
            Some(KeyEntry::Deleted(_)) => Ok(None),
            None => Err(self.corrupt(self.store.position(), KeyEntry::WRONG_LENGTH)),
        }
    }

    /// The versions of documents that the keys tree names, so each must have one.
    pub(crate) fn versions(&self, docids: &[DocId]) -> Result<Vec<Position>> {
        let rows = self.rows(docids)?;
        Ok(rows.into_iter().map(|row| row.position).collect())
    }

    /// The rows of documents that the keys tree names, so each must have one.
    pub(crate) fn rows(&self, docids: &[DocId]) -> Result<Vec<Row>> {
        let keys: Vec<_> = docids.iter().map(|docid| docid_bytes(*docid)).collect();
        let keys: Vec<&[u8]> = keys.iter().map(<[u8; 4]>::as_slice).collect();
        let rows = self.store.get_many(ROWS, &keys)?;
        let rows = rows.into_iter().zip(docids);
        rows.map(|(row, docid)| self.row(*docid, row)).collect()
    }

    fn row(&self, docid: DocId, row: Option<SmallBytes>) -> Result<Row> {
        row.as_deref().and_then(parse_row).ok_or_else(|| {
            let what = format!("document number {docid} has no row");
            self.corrupt(self.store.position(), &what)
        })
    }

    /// The records at positions.
    pub(crate) fn records(&self, positions: &[Position]) -> Result<Vec<Bytes>> {
        Ok(self.store.records(positions)?)
    }

    /// The document in a record that the index led to: checks that it is the one meant.
    pub(crate) fn found(
        &self,
        key: Key,
        docid: DocId,
        version: Position,
        bytes: &Bytes,
    ) -> Result<Found> {
        let record = Record::decode(bytes).map_err(|what| self.corrupt(version, &what))?;
        if record.kind == Kind::Delete || record.docid != docid || record.key != key.encoded() {
            let what = format!("the index has document {key} here, the log another record");
            return Err(self.corrupt(version, &what));
        }
        let document = Document::from_stored(record.document_bytes(bytes))?;
        Ok(Found {
            key,
            version,
            external: record.external,
            expires_micros: record.expires,
            partition: self.partition,
            document,
        })
    }

    /// The document in a record that a docid led to, under the key that the record has.
    pub(crate) fn found_by_docid(
        &self,
        docid: DocId,
        version: Position,
        bytes: &Bytes,
    ) -> Result<Found> {
        let record = Record::decode(bytes).map_err(|what| self.corrupt(version, &what))?;
        self.found(Key::decode(record.key)?, docid, version, bytes)
    }

    fn corrupt(&self, position: Position, what: &str) -> Error {
        Error::Corrupt {
            partition: self.partition,
            position,
            what: what.to_string(),
        }
    }
}

/// Reads a byte of each line of memory that records lie in, so that these are in the processor's
/// caches when the documents are read: they are brought there side by side, where a document's
/// reader waits for one after the other.
fn prefetch(records: &[Bytes]) {
    const LINE_BYTES: usize = 64;
    let mut lines = PREFETCHED_BYTES_MAX / LINE_BYTES;
    for record in records {
        for byte in record.iter().step_by(LINE_BYTES).take(lines) {
            black_box(*byte);
        }
        lines = lines.saturating_sub(record.len().div_ceil(LINE_BYTES));
    }
}
