//! Records of partitions that are merged, as the new partition has them.
//!
//! A record names groups that have cells of its row, and cold ones among them, as they are in the
//! old partition. In the new one the row may have its cells in others: records that move them, and
//! those that remove expired cells, are left out, as its own jobs do that. So a record that changes
//! a row is made anew, of what the new partition has of the row.
//!
//! # Invariants
//! 1. Each write and each deletion of an old partition is one record, in its order.
//! 2. A column stays in the group where it was gathered, whichever it moves to in the old ones
//!    meanwhile.

use crate::docids::Docids;
use crate::machine::{ROWS, WideRows};
use crate::record::{self, CellChange, CellOp, Head, Kind, Tailed};
use crate::row::Row;
use crate::stored::Stored;
use crate::tiers::{Tiers, groups_of};
use crate::{Error, Result, WidePartition, cell_key};
use bytes::Bytes;
use quire_model::{DocId, Position};
use quire_seeded::{Bug, seeded};
use quire_store::Transaction;
use std::collections::HashMap;

/// What it takes to have records of old partitions in the new one.
#[derive(Debug)]
pub(crate) struct Adoption {
    docids: Vec<Docids>,
    /// The columns that have moved in old partitions since they were gathered, with the group where
    /// they are in the new one.
    stay: HashMap<u32, u8>,
}

/// What records of a transaction have made of rows; none of those that they have deleted.
type Written = HashMap<DocId, Option<Row>>;

impl Adoption {
    pub(crate) fn new(docids: Vec<Docids>) -> Adoption {
        Adoption {
            docids,
            stay: HashMap::new(),
        }
    }

    /// Appends what records of an old partition, given by its place among them, are in the new one.
    ///
    /// # Errors
    /// `Corrupt`; `DocIdsExhausted`.
    pub(crate) fn adopt(
        &mut self,
        old: &WidePartition,
        number: usize,
        records: &[Bytes],
        transaction: &mut Transaction<'_, WideRows>,
    ) -> Result<()> {
        let (mut written, mut next_docid) = (Written::new(), transaction.machine().next_docid);
        for bytes in records {
            let (head, changes) = record::decode(bytes).map_err(|what| old.corrupt(what))?;
            match head.kind {
                Kind::Write | Kind::Delete => {}
                Kind::PassColumn | Kind::MoveColumn => {
                    self.note_moves(&changes);
                    continue;
                }
                // Others change no row that anyone sees.
                Kind::Move | Kind::Expire | Kind::Foreign => continue,
            }
            let docid = match head.created {
                true => self.make(number, head.docid, &mut next_docid),
                false => self.docids[number].of(head.docid),
            };
            let Some(docid) = docid else {
                return Err(match head.created {
                    true => Error::DocIdsExhausted {
                        partition: old.number(),
                    },
                    false => old.corrupt(format!("a record of no row, document {}", head.docid)),
                });
            };
            let row = match written.get(&docid) {
                Some(row) => *row,
                None if head.created => None,
                None => {
                    let row = transaction.get(ROWS, &cell_key::row(docid))?;
                    row.as_deref().and_then(Row::decode)
                }
            };
            if row.is_none() != head.created {
                return Err(old.corrupt(format!("a record of no row, document {}", head.docid)));
            }
            let (record, row) = self.record(docid, row, &head, &changes);
            transaction.append(record);
            written.insert(docid, row);
            if head.kind == Kind::Delete {
                self.docids[number].forget(head.docid);
            }
        }
        Ok(())
    }

    /// Gives a docid to a row that was made; none if there is none.
    fn make(&mut self, number: usize, of_old: DocId, next_docid: &mut u32) -> Option<DocId> {
        let docid = (*next_docid < u32::MAX).then_some(DocId(*next_docid))?;
        *next_docid += 1;
        self.docids[number].made(of_old, docid);
        Some(docid)
    }

    /// Notes where columns stay that move on in an old partition.
    fn note_moves(&mut self, changes: &[CellChange<'_>]) {
        for change in changes {
            if let Some(moved) = change.progress()
                && !seeded(Bug::MergedColumnStrays)
            {
                self.stay.entry(change.column).or_insert(moved.from);
            }
        }
    }

    /// A record of a row in the new partition, and what it has of the row then.
    fn record(
        &self,
        docid: DocId,
        row: Option<Row>,
        head: &Head<'_>,
        changes: &[CellChange<'_>],
    ) -> (Vec<u8>, Option<Row>) {
        let is_deleted = head.kind == Kind::Delete;
        // A row that is put has none of the cells that it had.
        let is_cleared = is_deleted || head.cleared != 0 || head.tailed == Tailed::Whole;
        let kept = row.filter(|_| !is_cleared);
        let cleared = row.filter(|_| is_cleared);
        let mut body = Vec::new();
        let (mut changed, mut timed, mut expiring) = (0u16, 0u16, 0u16);
        let mut before: Option<CellChange<'_>> = None;
        for change in changes {
            let stays = self.stay.get(&change.column);
            let group = stays.copied().unwrap_or(change.group);
            let new = CellChange { group, ..*change };
            changed |= 1 << group;
            if head.tiers.time_of(change.group).is_some() {
                timed |= 1 << group;
            }
            let expires = |value| Stored::split(value).is_ok_and(|one| one.expires.is_some());
            if change.op == CellOp::Put && expires(change.value) {
                expiring |= 1 << group;
            }
            // Members of a column that moves are removed from both of its groups there.
            let is_again = new.op == CellOp::DeleteMembers && before == Some(new);
            if !is_again {
                new.encode(&mut body);
            }
            before = Some(new);
        }
        let groups = changed | kept.map_or(0, |row| row.groups);
        let mut tiers = Tiers::of_cold(kept.map_or(0, |row| row.tiers.cold));
        for group in groups_of(groups) {
            let is_changed = changed & (1 << group) != 0;
            let unchanged = || head.tiers.time_of(group).or(kept?.tiers.time_of(group));
            let time = match is_changed {
                true => (timed & (1 << group) != 0).then_some(head.time_micros),
                false => unchanged(),
            };
            if let Some(time) = time {
                tiers.set_time(group, time);
            }
        }
        let head = Head {
            docid,
            cleared: cleared.map_or(0, |row| row.groups),
            groups,
            cleared_cold: cleared.map_or(0, |row| row.tiers.cold),
            tiers,
            expiring: expiring | kept.map_or(0, |row| row.expiring),
            ..*head
        };
        let mut record = head.encode();
        record.extend_from_slice(&body);
        let row = Row {
            version: Position(0),
            time_micros: head.time_micros,
            groups,
            tiers,
            expiring: head.expiring,
        };
        (record, (!is_deleted).then_some(row))
    }
}
