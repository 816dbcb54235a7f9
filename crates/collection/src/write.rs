//! Deciding writes: what each does, given the newest state and the writes before it in its batch.

use crate::documents::{Documents, KEYS, KeyEntry, ROWS, docid_bytes, parse_position};
use crate::record::{Kind, Record, Row};
use crate::{Action, Condition, Effect, Error, Result, Triggers, Write, Written};
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
    Absent {
        /// The external version of the deletion.
        external: Option<u64>,
    },
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
    triggers: Triggers<'a>,
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
        triggers: Triggers<'a>,
        transaction: &'a mut Transaction<'b, Documents>,
    ) -> Self {
        Decider {
            partition,
            time_micros,
            triggers,
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
        let given = write.condition.external();
        match (&write.action, state) {
            (Action::Put(document), State::Absent { external }) => {
                let external = given.or(external.map(next));
                let time_micros = self.time_micros;
                let document = self.triggers.run(&write.key, None, document, time_micros)?;
                self.create(encoded, &document, external)
            }
            (Action::Put(document), State::Present { docid, row }) => {
                let old = self.row(docid, row)?;
                let before = self.before(old)?;
                let (before, time_micros) = (before.as_ref(), self.time_micros);
                let document = self
                    .triggers
                    .run(&write.key, before, document, time_micros)?;
                Ok(self.update(Kind::Put, encoded, docid, old, &document, given))
            }
            (Action::Patch(_), State::Absent { .. }) => Err(Error::NotFound {
                key: write.key.clone(),
            }),
            (Action::Patch(patch), State::Present { docid, row }) => {
                let row = self.row(docid, row)?;
                let old = self.document(row.position)?;
                let new = old.merge_patch(patch)?;
                if new == old && given.is_none() {
                    return Ok(self.answer(Effect::Unchanged, row));
                }
                let time_micros = self.time_micros;
                let new = self
                    .triggers
                    .run(&write.key, Some(&old), &new, time_micros)?;
                // A large one is not held beside the new record.
                drop(old);
                Ok(self.update(Kind::Patch, encoded, docid, row, &new, given))
            }
            (Action::Delete, State::Absent { external }) => match given {
                None => Ok(self.answer(
                    Effect::Unchanged,
                    Row {
                        position: Position(0),
                        bytes: 0,
                        external,
                    },
                )),
                Some(_) => {
                    let docid = self.new_docid()?;
                    let row = self.append(Kind::Delete, None, docid, encoded, &[], given);
                    self.created += 1;
                    self.written
                        .insert(encoded, State::Absent { external: given });
                    Ok(self.answer(Effect::Unchanged, row))
                }
            },
            (Action::Delete, State::Present { docid, row }) => {
                let old = self.row(docid, row)?;
                if let Some(before) = self.before(old)? {
                    let time_micros = self.time_micros;
                    self.triggers
                        .run_removal(&write.key, &before, time_micros)?;
                }
                let external = given.or(old.external.map(next));
                let row = self.append(Kind::Delete, Some(old), docid, encoded, &[], external);
                self.written.insert(encoded, State::Absent { external });
                Ok(self.answer(Effect::Deleted, row))
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
            return Ok(State::Absent { external: None });
        };
        match KeyEntry::decode(&value) {
            Some(KeyEntry::Document(docid)) => Ok(State::Present { docid, row: None }),
            Some(KeyEntry::Deleted(version)) => Ok(State::Absent {
                external: Some(version),
            }),
            None => Err(self.corrupt(KeyEntry::WRONG_LENGTH)),
        }
    }

    fn check(&self, write: &Write, state: &State) -> Result<()> {
        let conflict = |reason: String| {
            Err(Error::Conflict {
                key: write.key.clone(),
                reason,
            })
        };
        match (write.condition, state) {
            (Condition::Always, _) | (Condition::IfAbsent, State::Absent { .. }) => Ok(()),
            (Condition::IfAbsent, State::Present { docid, row, .. }) => {
                let version = self.row(*docid, *row)?.position;
                conflict(format!("it exists already (version {version})"))
            }
            (Condition::IfVersion(required), State::Absent { .. }) => conflict(format!(
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
            (Condition::External(given), _) => match self.current_external(state)? {
                Some(current) if current >= given => conflict(format!(
                    "current version [{current}] is higher or equal to the one provided [{given}]"
                )),
                _ => Ok(()),
            },
            (Condition::ExternalOrEqual(given), _) => match self.current_external(state)? {
                Some(current) if current > given => conflict(format!(
                    "current version [{current}] is higher than the one provided [{given}]"
                )),
                _ => Ok(()),
            },
        }
    }

    /// The external version that the document, or its deletion, has.
    fn current_external(&self, state: &State) -> Result<Option<u64>> {
        Ok(match *state {
            State::Absent { external } => external,
            State::Present { docid, row } => self.row(docid, row)?.external,
        })
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
                Ok(Row {
                    position,
                    bytes,
                    external: None,
                })
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

    /// The document that a row has, if there are triggers to see it.
    fn before(&self, row: Row) -> Result<Option<Document>> {
        match self.triggers.is_empty() {
            true => Ok(None),
            false => self.document(row.position).map(Some),
        }
    }

    fn new_docid(&self) -> Result<DocId> {
        let next = self
            .transaction
            .machine()
            .next_docid
            .checked_add(self.created);
        // The last number is never given out, so that "the next docid" always has a value.
        match next {
            Some(next) if next < u32::MAX => Ok(DocId(next)),
            _ => Err(Error::DocIdsExhausted {
                partition: self.partition,
            }),
        }
    }

    fn create(
        &mut self,
        encoded: &'w [u8],
        document: &Document,
        external: Option<u64>,
    ) -> Result<Written> {
        let docid = self.new_docid()?;
        let document = document.as_bytes();
        let row = self.append(Kind::Put, None, docid, encoded, document, external);
        if !seeded(Bug::DocidGivenTwice) {
            self.created += 1;
        }
        self.remember(encoded, docid, row);
        Ok(self.answer(Effect::Created, row))
    }

    /// Writes a document anew; `given` is the external version that the write has.
    fn update(
        &mut self,
        kind: Kind,
        encoded: &'w [u8],
        docid: DocId,
        old: Row,
        document: &Document,
        given: Option<u64>,
    ) -> Written {
        let external = given.or(old.external.map(next));
        let document = document.as_bytes();
        let row = self.append(kind, Some(old), docid, encoded, document, external);
        self.remember(encoded, docid, row);
        self.answer(Effect::Updated, row)
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
        external: Option<u64>,
    ) -> Row {
        let record = Record {
            kind,
            created: superseded.is_none(),
            time_micros: self.time_micros,
            docid,
            superseded,
            external,
            key,
            document,
        }
        .encode();
        let bytes = record.len();
        self.bytes += bytes;
        Row {
            position: self.transaction.append(record),
            bytes: bytes as u32,
            external,
        }
    }

    fn answer(&self, effect: Effect, row: Row) -> Written {
        Written {
            effect,
            version: row.position,
            external: row.external,
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

/// The external version after a write that has none.
fn next(version: u64) -> u64 {
    version.saturating_add(1)
}

/// The key's text, for messages about encoded keys.
pub(crate) fn key_of(record: &Record<'_>) -> Result<Key> {
    Ok(Key::decode(record.key)?)
}
