//! Deciding writes: what each does, given the newest state and the writes before it in its batch.

use crate::documents::{Documents, KEYS, KeyEntry, ROWS, docid_bytes, parse_position};
use crate::record::{Kind, Record, Row};
use crate::{Action, Condition, Effect, Error, Expiry, Result, Triggers, Write, Written};
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
        /// Where its record is, if that is known.
        row: Option<Row>,
    },
    /// As absent, but for what is left of it.
    Expired { docid: DocId, row: Row },
}

/// What a document has beside its fields.
#[derive(Debug, Clone, Copy, Default)]
struct Attributes {
    external: Option<u64>,
    expires: Option<i64>,
}

/// For whom writes are decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writer {
    /// To whom a document that has expired is one that was deleted.
    Client,
    /// The engine itself, which deletes these.
    Engine,
}

/// Decides a batch of writes in one transaction.
pub(crate) struct Decider<'w, 'a, 'b> {
    partition: u32,
    time_micros: i64,
    triggers: Triggers<'a>,
    writer: Writer,
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
        writer: Writer,
        transaction: &'a mut Transaction<'b, Documents>,
    ) -> Self {
        Decider {
            partition,
            time_micros,
            triggers,
            writer,
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

    /// Does what a record of the partition that this one is split from says, whatever its version
    /// there: this one's documents have other numbers.
    pub(crate) fn adopt(&mut self, record: &Record<'w>) -> Result<()> {
        self.time_micros = record.time_micros;
        let attributes = Attributes {
            external: record.external,
            expires: record.expires,
        };
        let old = match self.newest(record.key)? {
            State::Present { docid, row } => Some((docid, self.row(docid, row)?)),
            State::Absent { .. } | State::Expired { .. } => None,
        };
        let docid = match old {
            Some((docid, _)) => docid,
            None => self.new_docid()?,
        };
        let old = old.map(|(_, row)| row);
        let (key, document) = (record.key, record.document);
        let row = self.append(record.kind, old, docid, key, document, attributes);
        self.created += u32::from(old.is_none());
        let external = record.external;
        match record.kind {
            Kind::Delete => drop(self.written.insert(key, State::Absent { external })),
            _ => self.remember(key, docid, row),
        }
        Ok(())
    }

    /// Holds the positions up to `end`, which does not count: others have the records there.
    pub(crate) fn hold_positions(&mut self, end: Position, time_micros: i64) {
        while self.transaction.next_position() < end && !seeded(Bug::SplitPositionNotHeld) {
            self.transaction
                .append(Record::foreign(time_micros).encode());
        }
    }

    fn one(&mut self, write: &'w Write) -> Result<Written> {
        let encoded = write.key.encoded();
        let state = self.state(encoded)?;
        self.check(write, &state)?;
        let given = write.condition.external();
        let time_micros = self.time_micros;
        match (&write.action, state) {
            (Action::Put(document), State::Absent { external }) => {
                let attributes = Attributes {
                    external: given.or(external.map(next)),
                    expires: self.expires(write.expiry, None),
                };
                let document = self.triggers.run(&write.key, None, document, time_micros)?;
                self.create(encoded, &document, attributes)
            }
            (Action::Put(document), State::Expired { docid, row }) => {
                let document = self.triggers.run(&write.key, None, document, time_micros)?;
                let attributes = self.attributes(write, row, None);
                let written = self.update(Kind::Put, encoded, docid, row, &document, attributes);
                Ok(Written {
                    effect: Effect::Created,
                    ..written
                })
            }
            (Action::Put(document), State::Present { docid, row }) => {
                let old = self.row(docid, row)?;
                let before = self.before(old)?;
                let before = before.as_ref();
                let document = self
                    .triggers
                    .run(&write.key, before, document, time_micros)?;
                let attributes = self.attributes(write, old, None);
                Ok(self.update(Kind::Put, encoded, docid, old, &document, attributes))
            }
            (Action::Patch(_), State::Absent { .. } | State::Expired { .. }) => {
                Err(Error::NotFound {
                    key: write.key.clone(),
                })
            }
            (Action::Patch(patch), State::Present { docid, row }) => {
                let row = self.row(docid, row)?;
                let attributes = self.attributes(write, row, row.expires);
                let old = self.document(row.position)?;
                let new = old.merge_patch(patch)?;
                if new == old && given.is_none() && attributes.expires == row.expires {
                    return Ok(self.answer(Effect::Unchanged, row));
                }
                let new = self
                    .triggers
                    .run(&write.key, Some(&old), &new, time_micros)?;
                // A large one is not held beside the new record.
                drop(old);
                Ok(self.update(Kind::Patch, encoded, docid, row, &new, attributes))
            }
            (Action::Delete, State::Absent { external }) => match given {
                None => Ok(self.answer(
                    Effect::Unchanged,
                    Row {
                        position: Position(0),
                        bytes: 0,
                        external,
                        expires: None,
                    },
                )),
                Some(_) => {
                    let docid = self.new_docid()?;
                    let attributes = Attributes {
                        external: given,
                        expires: None,
                    };
                    let row = self.append(Kind::Delete, None, docid, encoded, &[], attributes);
                    self.created += 1;
                    self.written
                        .insert(encoded, State::Absent { external: given });
                    Ok(self.answer(Effect::Unchanged, row))
                }
            },
            (Action::Delete, State::Expired { docid, row }) => {
                let written = self.delete(encoded, docid, row, given);
                Ok(Written {
                    effect: Effect::Unchanged,
                    ..written
                })
            }
            (Action::Delete, State::Present { docid, row }) => {
                let old = self.row(docid, row)?;
                if let Some(before) = self.before(old)? {
                    self.triggers
                        .run_removal(&write.key, &before, time_micros)?;
                }
                Ok(self.delete(encoded, docid, old, given))
            }
        }
    }

    /// When a document expires after a write; no earlier than now, so that the order of the tree of
    /// expiries is that in which they become due.
    fn expires(&self, expiry: Expiry, usual: Option<i64>) -> Option<i64> {
        match expiry {
            Expiry::Usual => usual,
            Expiry::Never => None,
            Expiry::At(time) => Some(time.max(self.time_micros)),
        }
    }

    /// What a document has after a write, beside its fields.
    fn attributes(&self, write: &Write, old: Row, usual: Option<i64>) -> Attributes {
        Attributes {
            external: write.condition.external().or(old.external.map(next)),
            expires: self.expires(write.expiry, usual),
        }
    }

    /// Deletes a document; `given` is the external version that the write has.
    fn delete(&mut self, encoded: &'w [u8], docid: DocId, old: Row, given: Option<u64>) -> Written {
        let attributes = Attributes {
            external: given.or(old.external.map(next)),
            expires: None,
        };
        let row = self.append(Kind::Delete, Some(old), docid, encoded, &[], attributes);
        let external = attributes.external;
        self.written.insert(encoded, State::Absent { external });
        self.answer(Effect::Deleted, row)
    }

    /// The key's newest state; a document that has expired is told apart, unless it is the engine
    /// that writes.
    fn state(&self, encoded: &[u8]) -> Result<State> {
        let state = self.newest(encoded)?;
        let State::Present { docid, row } = state else {
            return Ok(state);
        };
        let is_client = self.writer == Writer::Client && !seeded(Bug::ExpiredDocumentWritten);
        let may_expire = row.is_some() || self.transaction.machine().has_expiring();
        if !(is_client && may_expire) {
            return Ok(state);
        }
        let row = self.row(docid, row)?;
        match row.has_expired(self.time_micros) {
            true => Ok(State::Expired { docid, row }),
            false => Ok(State::Present {
                docid,
                row: Some(row),
            }),
        }
    }

    /// The key's newest state: from this batch, else from the trees.
    fn newest(&self, encoded: &[u8]) -> Result<State> {
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
            (Condition::Always, _)
            | (Condition::IfAbsent, State::Absent { .. } | State::Expired { .. }) => Ok(()),
            (Condition::IfAbsent, State::Present { docid, row, .. }) => {
                let row = self.row(*docid, *row)?;
                conflict(match row.external {
                    Some(version) => format!("it exists already (external version {version})"),
                    None => format!("it exists already (version {})", row.position),
                })
            }
            (Condition::IfVersion(required), State::Absent { .. } | State::Expired { .. }) => {
                conflict(format!(
                    "version {required} required, but it does not exist"
                ))
            }
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
            State::Expired { row, .. } => row.external,
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
                    expires: None,
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
        attributes: Attributes,
    ) -> Result<Written> {
        let docid = self.new_docid()?;
        let document = document.as_bytes();
        let row = self.append(Kind::Put, None, docid, encoded, document, attributes);
        if !seeded(Bug::DocidGivenTwice) {
            self.created += 1;
        }
        self.remember(encoded, docid, row);
        Ok(self.answer(Effect::Created, row))
    }

    /// Writes a document anew.
    fn update(
        &mut self,
        kind: Kind,
        encoded: &'w [u8],
        docid: DocId,
        old: Row,
        document: &Document,
        attributes: Attributes,
    ) -> Written {
        let document = document.as_bytes();
        let row = self.append(kind, Some(old), docid, encoded, document, attributes);
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
        attributes: Attributes,
    ) -> Row {
        let Attributes { external, expires } = attributes;
        let record = Record {
            kind,
            created: superseded.is_none(),
            time_micros: self.time_micros,
            docid,
            superseded,
            external,
            expires,
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
            expires,
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
