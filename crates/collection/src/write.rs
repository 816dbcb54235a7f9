//! Deciding writes: what each does, given the newest state and the writes before it in its batch.

use crate::documents::{Documents, KEYS, ROWS, docid_bytes, parse_docid, parse_position};
use crate::record::{Kind, Record, Row};
use crate::{Action, Condition, Effect, Error, Result, Write, Written};
use quire_model::{DocId, Document, Key, Position};
use quire_seeded::{Bug, seeded};
use quire_store::Transaction;
use std::collections::HashMap;

/// A group of records that survives a crash together holds about this number of bytes at most; a
/// longer batch is cut.
pub(crate) const GROUP_BYTES: usize = 32 << 20;

/// What is known of a key in this batch.
#[derive(Debug, Clone, Copy)]
enum State {
    Absent,
    Present {
        docid: DocId,
        /// Where its record is, if this batch wrote it.
        row: Option<Row>,
    },
}

/// Decides a batch of writes in one transaction.
pub(crate) struct Decider<'w, 'a, 'b> {
    partition: u32,
    time_micros: i64,
    transaction: &'a mut Transaction<'b, Documents>,
    /// Keys that this batch has written.
    written: HashMap<&'w [u8], State>,
    created: u32,
    bytes: usize,
}

impl<'w, 'a, 'b> Decider<'w, 'a, 'b> {
    pub(crate) fn new(
        partition: u32,
        time_micros: i64,
        transaction: &'a mut Transaction<'b, Documents>,
    ) -> Self {
        Decider {
            partition,
            time_micros,
            transaction,
            written: HashMap::new(),
            created: 0,
            bytes: 0,
        }
    }

    /// Decides writes from the front, each on its own, until the group is full; at least one. Gives
    /// a result for each that was decided.
    pub(crate) fn decide(mut self, writes: &'w [Write]) -> Vec<Result<Written>> {
        let mut results = Vec::with_capacity(writes.len());
        for write in writes {
            if self.bytes >= GROUP_BYTES {
                break;
            }
            results.push(self.one(write));
        }
        results
    }

    fn one(&mut self, write: &'w Write) -> Result<Written> {
        let encoded = write.key.encoded();
        let state = self.state(encoded)?;
        self.check(write, &state)?;
        match (&write.action, state) {
            (Action::Put(document), State::Absent) => self.create(encoded, document),
            (Action::Put(document), State::Present { docid, row }) => {
                let old = self.row(docid, row)?;
                Ok(self.update(Kind::Put, encoded, docid, old, document))
            }
            (Action::Patch(_), State::Absent) => Err(Error::NotFound {
                key: write.key.clone(),
            }),
            (Action::Patch(patch), State::Present { docid, row }) => {
                let row = self.row(docid, row)?;
                let old = self.document(row.position)?;
                let new = old.merge_patch(patch)?;
                if new == old {
                    return Ok(self.unchanged(row.position));
                }
                // A large one is not held beside the new record.
                drop(old);
                Ok(self.update(Kind::Patch, encoded, docid, row, &new))
            }
            (Action::Delete, State::Absent) => Ok(self.unchanged(Position(0))),
            (Action::Delete, State::Present { docid, row }) => {
                let old = self.row(docid, row)?;
                let row = self.append(Kind::Delete, Some(old), docid, encoded, &[]);
                self.written.insert(encoded, State::Absent);
                Ok(Written {
                    effect: Effect::Deleted,
                    version: row.position,
                    partition: self.partition,
                })
            }
        }
    }

    /// The key's newest state: from this batch, else from the trees.
    fn state(&self, encoded: &[u8]) -> Result<State> {
        if let Some(state) = self.written.get(encoded)
            && !seeded(Bug::BatchDecidedApart)
        {
            return Ok(*state);
        }
        let Some(value) = self.transaction.get(KEYS, encoded)? else {
            return Ok(State::Absent);
        };
        let docid = parse_docid(&value)
            .ok_or_else(|| self.corrupt("a docid in the keys tree has a wrong length"))?;
        Ok(State::Present { docid, row: None })
    }

    fn check(&self, write: &Write, state: &State) -> Result<()> {
        let conflict = |reason: String| {
            Err(Error::Conflict {
                key: write.key.clone(),
                reason,
            })
        };
        match (write.condition, state) {
            (Condition::Always, _) | (Condition::IfAbsent, State::Absent) => Ok(()),
            (Condition::IfAbsent, State::Present { docid, row, .. }) => {
                let version = self.row(*docid, *row)?.position;
                conflict(format!("it exists already (version {version})"))
            }
            (Condition::IfVersion(required), State::Absent) => conflict(format!(
                "version {required} required, but it does not exist"
            )),
            (Condition::IfVersion(required), State::Present { docid, row, .. }) => {
                let version = self.row(*docid, *row)?.position;
                if version == required {
                    return Ok(());
                }
                conflict(format!(
                    "version {required} required, but it has version {version}"
                ))
            }
        }
    }

    /// Where a document's record is, and how long.
    fn row(&self, docid: DocId, known: Option<Row>) -> Result<Row> {
        if let Some(row) = known {
            return Ok(row);
        }
        let value = self.transaction.get(ROWS, &docid_bytes(docid))?;
        let no_row = || self.corrupt(&format!("document number {docid} has no row"));
        let value = value.ok_or_else(no_row)?;
        match Row::decode(&value) {
            Some(row) => Ok(row),
            // A row of the first version does not say how long its record is.
            None => {
                let position = parse_position(&value).ok_or_else(no_row)?;
                let bytes = self.transaction.record(position)?.len() as u32;
                Ok(Row { position, bytes })
            }
        }
    }

    fn document(&self, version: Position) -> Result<Document> {
        let bytes = self.transaction.record(version)?;
        let record = Record::decode(&bytes).map_err(|what| Error::Corrupt {
            partition: self.partition,
            position: version,
            what,
        })?;
        Ok(Document::from_stored(record.document_bytes(&bytes))?)
    }

    fn create(&mut self, encoded: &'w [u8], document: &Document) -> Result<Written> {
        let next = self
            .transaction
            .machine()
            .next_docid
            .checked_add(self.created);
        // The last number is never given out, so that "the next docid" always has a value.
        let docid = match next {
            Some(next) if next < u32::MAX => DocId(next),
            _ => {
                return Err(Error::DocIdsExhausted {
                    partition: self.partition,
                });
            }
        };
        let row = self.append(Kind::Put, None, docid, encoded, document.as_bytes());
        if !seeded(Bug::DocidGivenTwice) {
            self.created += 1;
        }
        self.remember(encoded, docid, row);
        Ok(Written {
            effect: Effect::Created,
            version: row.position,
            partition: self.partition,
        })
    }

    fn update(
        &mut self,
        kind: Kind,
        encoded: &'w [u8],
        docid: DocId,
        old: Row,
        document: &Document,
    ) -> Written {
        let row = self.append(kind, Some(old), docid, encoded, document.as_bytes());
        self.remember(encoded, docid, row);
        Written {
            effect: Effect::Updated,
            version: row.position,
            partition: self.partition,
        }
    }

    fn remember(&mut self, encoded: &'w [u8], docid: DocId, row: Row) {
        let row = Some(row);
        self.written.insert(encoded, State::Present { docid, row });
    }

    /// Appends a record; one that supersedes none creates its document.
    fn append(
        &mut self,
        kind: Kind,
        superseded: Option<Row>,
        docid: DocId,
        key: &[u8],
        document: &[u8],
    ) -> Row {
        let record = Record {
            kind,
            created: superseded.is_none(),
            time_micros: self.time_micros,
            docid,
            superseded,
            key,
            document,
        }
        .encode();
        let bytes = record.len();
        self.bytes += bytes;
        Row {
            position: self.transaction.append(record),
            bytes: bytes as u32,
        }
    }

    fn unchanged(&self, version: Position) -> Written {
        Written {
            effect: Effect::Unchanged,
            version,
            partition: self.partition,
        }
    }

    fn corrupt(&self, what: &str) -> Error {
        Error::Corrupt {
            partition: self.partition,
            position: Position(0),
            what: what.to_string(),
        }
    }
}

/// The key's text, for messages about encoded keys.
pub(crate) fn key_of(record: &Record<'_>) -> Result<Key> {
    Ok(Key::decode(record.key)?)
}
