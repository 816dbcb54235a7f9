//! Salvaging a partition: its whole records as writes that would make the same documents again, and
//! what its trees still know of those that are lost.

use crate::documents::{Documents, KEYS, ROWS, parse_docid, parse_position};
use crate::record::{Kind, Record};
use crate::write::key_of;
use crate::{Condition, Error, Expiry, Result, Write};
use bytes::Bytes;
use quire_lsm::SmallBytes;
use quire_model::{Document, Key, Position};
use quire_store::{Damage, Place, SalvagedTrees, Shared};
use std::ops::Bound;

/// The number of entries of the index read at a time.
const BATCH: usize = 1024;

/// What a salvage comes upon.
#[derive(Debug, Clone)]
pub enum Salvaged {
    /// This number of further bytes was read.
    Read(u64),
    /// Something is wrong.
    Damage(Damage),
    /// A change of a document, as a write that makes the same change: the whole document, or its
    /// deletion. They come in the order of their positions.
    Write(Position, Write),
    /// A record whose bytes are those that were written, and make no sense.
    Senseless(Position, String),
    /// The writes from the first position to the last, which come next, were done together with
    /// others that are lost.
    Part(Position, Position),
}

/// A partition that nobody has open, being salvaged: its log is read as this is iterated.
#[derive(Debug)]
pub struct Salvage {
    store: quire_store::Salvage,
}

impl Salvage {
    /// Begins to salvage the partition at a place, and tells `progress` how many bytes are read
    /// meanwhile. Only reads.
    ///
    /// # Errors
    /// Only what the machine reports, of files that can't even be opened.
    pub fn begin(shared: &Shared, place: &Place, progress: &mut dyn FnMut(u64)) -> Result<Salvage> {
        let store = quire_store::salvage::<Documents>(shared, place, progress)?;
        Ok(Salvage { store })
    }

    /// The index of its documents, if all of it is whole.
    pub fn index(&self) -> Option<SalvagedIndex> {
        self.store.trees().map(|trees| SalvagedIndex { trees })
    }

    /// Where nothing says how far the log went: the last position that anything in it speaks of,
    /// once this has been iterated to its end.
    pub fn end_unknown(&self) -> Option<Position> {
        self.store.end_unknown()
    }

    /// Bytes after the last whole write, as a crash leaves them; no damage.
    pub fn torn_bytes(&self) -> u64 {
        self.store.torn_bytes()
    }
}

impl Iterator for Salvage {
    type Item = Result<Salvaged>;

    fn next(&mut self) -> Option<Result<Salvaged>> {
        loop {
            return Some(match self.store.next()? {
                Ok(quire_store::Salvaged::Read(bytes)) => Ok(Salvaged::Read(bytes)),
                Ok(quire_store::Salvaged::Damage(damage)) => Ok(Salvaged::Damage(damage)),
                Ok(quire_store::Salvaged::Part(first, last)) => Ok(Salvaged::Part(first, last)),
                Ok(quire_store::Salvaged::Record(position, bytes)) => Ok(match write_of(&bytes) {
                    Ok(Some(write)) => Salvaged::Write(position, write),
                    Ok(None) => continue,
                    Err(what) => Salvaged::Senseless(position, what),
                }),
                Err(error) => Err(error.into()),
            });
        }
    }
}

/// The write that makes the change of a record; `None` if another partition has it.
fn write_of(bytes: &Bytes) -> std::result::Result<Option<Write>, String> {
    let record = Record::decode(bytes)?;
    if record.has_no_key() {
        return Ok(None);
    }
    let key = key_of(&record).map_err(|error| error.to_string())?;
    let condition = record.external.map(Condition::ExternalOrEqual);
    let condition = condition.unwrap_or_default();
    if record.kind == Kind::Delete {
        let write = Write::delete(key);
        return Ok(Some(Write { condition, ..write }));
    }
    let document = Document::from_bytes(record.document_bytes(bytes));
    let document = document.map_err(|error| format!("document {key}: {error}"))?;
    let write =
        Write::put(key, document).expiring(record.expires.map_or_else(Expiry::default, Expiry::At));
    Ok(Some(Write { condition, ..write }))
}

/// Which documents there were at one position, and the version of each.
#[derive(Debug, Clone)]
pub struct SalvagedIndex {
    trees: SalvagedTrees,
}

impl SalvagedIndex {
    /// The position.
    pub fn position(&self) -> Position {
        self.trees.position()
    }

    /// Key and version of each document, in key order.
    ///
    /// # Errors
    /// Damage on disk, by file and offset.
    pub fn entries(&self) -> Result<impl Iterator<Item = Result<(Key, Position)>> + use<>> {
        let (Some(keys), Some(rows)) = (self.trees.tree(KEYS), self.trees.tree(ROWS)) else {
            return Err(self.wrong("a tree is missing"));
        };
        let scan = keys.scan(Bound::Unbounded, Bound::Unbounded);
        let mut scan = scan.map_err(quire_store::Error::from)?;
        let (rows, index) = (rows.clone(), self.clone());
        let batches = std::iter::from_fn(move || {
            let batch: std::result::Result<Vec<_>, _> = scan.by_ref().take(BATCH).collect();
            let batch = batch.map_err(quire_store::Error::from);
            match batch {
                Ok(batch) if batch.is_empty() => None,
                Ok(mut batch) => {
                    // The others are deletions that keep an external version.
                    batch.retain(|(_, docid)| parse_docid(docid).is_some());
                    Some(index.versions(&rows, &batch))
                }
                Err(error) => Some(vec![Err(error.into())]),
            }
        });
        Ok(batches.flatten())
    }

    fn versions(
        &self,
        rows: &quire_lsm::TreeSnapshot,
        entries: &[(SmallBytes, SmallBytes)],
    ) -> Vec<Result<(Key, Position)>> {
        let docids: Vec<&[u8]> = entries.iter().map(|(_, docid)| docid.as_ref()).collect();
        let versions = match rows.get_many(&docids).map_err(quire_store::Error::from) {
            Ok(versions) => versions,
            Err(error) => return vec![Err(error.into())],
        };
        let entries = entries.iter().zip(versions);
        let entry = |((key, _), version): (&(SmallBytes, SmallBytes), Option<SmallBytes>)| {
            let version = version.as_deref().and_then(parse_position);
            let version = version.ok_or_else(|| self.wrong("a document has no row"))?;
            Ok((Key::decode(key)?, version))
        };
        entries.map(entry).collect()
    }

    fn wrong(&self, what: &str) -> Error {
        Error::Corrupt {
            partition: 0,
            position: self.position(),
            what: what.to_string(),
        }
    }
}
