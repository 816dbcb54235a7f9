//! Reading a partition as of one position.

use crate::documents::{KEYS, ROWS, Totals, docid_bytes, parse_docid, parse_position};
use crate::record::{Kind, Record};
use crate::{Error, Found, PartitionScan, Result};
use bytes::Bytes;
use quire_model::{DocId, Document, Key, Position};
use std::ops::Bound;
use std::sync::Arc;

/// A consistent read of one partition. It pins memory and files while it is held. Cheap to clone.
#[derive(Debug, Clone)]
pub struct PartitionView {
    partition: u32,
    view: Arc<quire_store::View<Totals>>,
}

impl PartitionView {
    pub(crate) fn new(partition: u32, view: quire_store::View<Totals>) -> PartitionView {
        PartitionView {
            partition,
            view: Arc::new(view),
        }
    }

    /// The last record that it sees.
    pub fn position(&self) -> Position {
        self.view.position()
    }

    /// Documents in it.
    pub fn count(&self) -> u64 {
        self.view.summary().documents
    }

    /// The document under `key`.
    ///
    /// # Errors
    /// Damage on disk, by file and offset.
    pub fn get(&self, key: &Key) -> Result<Option<Found>> {
        Ok(self.get_many(std::slice::from_ref(key))?.pop().flatten())
    }

    /// The documents under many keys, in the order asked for; each step is done for all of them at once.
    ///
    /// # Errors
    /// Damage on disk, by file and offset.
    pub fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Found>>> {
        let encoded: Vec<_> = keys.iter().map(Key::encoded).collect();
        let slices: Vec<&[u8]> = encoded.iter().map(|key| key.as_ref()).collect();
        let docids = self
            .view
            .tree(KEYS)
            .get_many(&slices)
            .map_err(quire_store::Error::from)?;
        let mut wanted = Vec::with_capacity(keys.len());
        for (index, docid) in docids.into_iter().enumerate() {
            if let Some(docid) = docid {
                wanted.push((index, self.docid(&docid)?));
            }
        }
        let docids: Vec<DocId> = wanted.iter().map(|(_, docid)| *docid).collect();
        let positions = self.positions(&docids)?;
        let records = self.view.records(&positions)?;
        let mut found: Vec<Option<Found>> =
            std::iter::repeat_with(|| None).take(keys.len()).collect();
        for (((index, docid), version), record) in wanted.into_iter().zip(positions).zip(records) {
            let (Some(slot), Some(key)) = (found.get_mut(index), keys.get(index)) else {
                continue;
            };
            let encoded = key.encoded();
            *slot = Some(self.found(key.clone(), encoded.as_ref(), docid, version, &record)?);
        }
        Ok(found)
    }

    /// Documents in key order, between two bounds.
    ///
    /// # Errors
    /// Damage on disk, by file and offset.
    pub fn scan(&self, from: Bound<&Key>, to: Bound<&Key>) -> Result<PartitionScan> {
        let from = from.map(|key| key.encoded());
        let to = to.map(|key| key.encoded());
        let keys = self
            .view
            .tree(KEYS)
            .scan(
                from.as_ref().map(AsRef::as_ref),
                to.as_ref().map(AsRef::as_ref),
            )
            .map_err(quire_store::Error::from)?;
        Ok(PartitionScan::new(self.clone(), keys))
    }

    pub(crate) fn store_view(&self) -> &quire_store::View<Totals> {
        &self.view
    }

    pub(crate) fn docid(&self, value: &[u8]) -> Result<DocId> {
        parse_docid(value).ok_or_else(|| {
            self.corrupt(
                self.position(),
                "a docid in the keys tree has a wrong length",
            )
        })
    }

    /// The positions of documents that the keys tree names, so each must have one.
    pub(crate) fn positions(&self, docids: &[DocId]) -> Result<Vec<Position>> {
        let keys: Vec<_> = docids.iter().map(|docid| docid_bytes(*docid)).collect();
        let slices: Vec<&[u8]> = keys.iter().map(<[u8; 4]>::as_slice).collect();
        let rows = self
            .view
            .tree(ROWS)
            .get_many(&slices)
            .map_err(quire_store::Error::from)?;
        rows.into_iter()
            .zip(docids)
            .map(|(row, docid)| {
                row.as_deref().and_then(parse_position).ok_or_else(|| {
                    self.corrupt(
                        self.position(),
                        &format!("document number {docid} has no row"),
                    )
                })
            })
            .collect()
    }

    /// The records at positions.
    pub(crate) fn records(&self, positions: &[Position]) -> Result<Vec<Bytes>> {
        Ok(self.view.records(positions)?)
    }

    /// The document in a record that the index led to: checks that it is the one meant.
    pub(crate) fn found(
        &self,
        key: Key,
        encoded_key: &[u8],
        docid: DocId,
        version: Position,
        bytes: &Bytes,
    ) -> Result<Found> {
        let record = Record::decode(bytes).map_err(|what| self.corrupt(version, &what))?;
        if record.kind == Kind::Delete || record.docid != docid || record.key != encoded_key {
            return Err(self.corrupt(
                version,
                &format!("the index has document {key} here, the log another record"),
            ));
        }
        let document = Document::from_stored(record.document_bytes(bytes))?;
        Ok(Found {
            key,
            version,
            partition: self.partition,
            document,
        })
    }

    pub(crate) fn corrupt(&self, position: Position, what: &str) -> Error {
        Error::Corrupt {
            partition: self.partition,
            position,
            what: what.to_string(),
        }
    }
}
