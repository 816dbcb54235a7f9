//! Tailing: the records of a partition's log as changes of rows.
//!
//! The log is a write-ahead log, so a record has what its row needs and no more: a patch does not
//! have the row's key. While a partition is [tailed](WidePartition::set_log_retention), records
//! have what those who tail need too.
//!
//! # Invariants
//! 1. A tail passes over no change of a row that it does not have. One that meets such a record
//!    ends with an error, unless it began before all that is there.
//! 2. What changes no row is no change: moves of cells between tiers and groups, and the removal of
//!    cells that have expired, whose time their change has said.

use crate::record::{self, CellChange, CellOp, Head, Kind, Tailed};
use crate::row_change::{CellEvent, RowAction, RowCell, RowChange};
use crate::stored::Stored;
use crate::{Cell, Error, Operand, Result, Schema, WidePartition};
use bytes::Bytes;
use quire_model::{Key, Position};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

type Records = Box<dyn Iterator<Item = quire_store::Result<(Position, Bytes)>> + Send>;

/// The changes of a partition, in order. It ends after an error.
pub struct RowTail {
    partition: u32,
    schema: Arc<Schema>,
    key_field: String,
    records: Records,
    /// Whether the first change is still to come, of a tail from the beginning.
    is_before_all: bool,
}

impl fmt::Debug for RowTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowTail")
            .field("partition", &self.partition)
            .finish_non_exhaustive()
    }
}

impl WidePartition {
    /// The changes after `seen` that are visible now, in order, by the names that columns have in
    /// this schema. After position 0 they are all that the log has.
    ///
    /// # Errors
    /// `Gone` if the log no longer holds the first of them; `Closed`.
    pub fn tail(&self, schema: &Arc<Schema>, key_field: &str, seen: Position) -> Result<RowTail> {
        let is_before_all = seen == Position(0);
        let records = loop {
            let first = self.store().log_first();
            let from = match is_before_all {
                true => Position(first.0.saturating_sub(1)),
                false => seen,
            };
            match self.store().tail(from) {
                Ok(records) => break records,
                // It was dropped just now.
                Err(error) if is_gone(&error) && is_before_all => {}
                Err(error) if is_gone(&error) => {
                    return Err(Error::LogGone {
                        partition: self.number(),
                        seen,
                        next: self.store().log_first(),
                    });
                }
                Err(error) => return Err(error.into()),
            }
        };
        Ok(RowTail {
            partition: self.number(),
            schema: Arc::clone(schema),
            key_field: key_field.to_string(),
            records: Box::new(records),
            is_before_all,
        })
    }
}

fn is_gone(error: &quire_store::Error) -> bool {
    error.kind() == quire_store::ErrorKind::Gone
}

/// Whether a record is a change of a row, of this partition or of another one.
pub(crate) fn is_change(head: &Head<'_>) -> bool {
    matches!(head.kind, Kind::Write | Kind::Delete | Kind::Foreign)
}

impl RowTail {
    fn read(&mut self) -> Result<Option<RowChange>> {
        // The first and the last record that lacks what is needed.
        let mut lost: Option<(Position, Position)> = None;
        while let Some(item) = self.records.next() {
            let (position, bytes) = item?;
            let (head, changes) = record::decode(&bytes).map_err(|what| self.corrupt(what))?;
            if !is_change(&head) {
                continue;
            }
            if head.tailed == Tailed::No {
                let first = lost.map_or(position, |(first, _)| first);
                lost = (!self.is_before_all).then_some((first, position));
                continue;
            }
            if lost.is_some() {
                break;
            }
            self.is_before_all = false;
            if head.kind != Kind::Foreign {
                let bytes = bytes.len() as u64;
                return self.change(position, &head, &changes, bytes).map(Some);
            }
        }
        match lost {
            Some((first, last)) => Err(Error::LogGone {
                partition: self.partition,
                seen: Position(first.0.saturating_sub(1)),
                next: last.next(),
            }),
            None => Ok(None),
        }
    }

    fn change(
        &self,
        version: Position,
        head: &Head<'_>,
        changes: &[CellChange<'_>],
        bytes: u64,
    ) -> Result<RowChange> {
        let action = match head.kind {
            Kind::Delete => Ok(RowAction::Delete),
            _ if head.tailed == Tailed::Whole => self.cells(changes).map(RowAction::Put),
            _ => self.events(changes).map(RowAction::Patch),
        };
        Ok(RowChange {
            version,
            partition: self.partition,
            time_micros: head.time_micros,
            key: Key::decode(head.key)?,
            action: action.map_err(|what| self.corrupt(what))?,
            bytes,
        })
    }

    /// The cells of a row that had none before, in the order of its trees.
    fn cells(&self, changes: &[CellChange<'_>]) -> std::result::Result<Vec<RowCell>, String> {
        type Place<'a> = (u8, u32, &'a [u8]);
        let mut cells: BTreeMap<Place<'_>, (Cell, Option<i64>)> = BTreeMap::new();
        for change in changes {
            let place = (change.group, change.column, change.member);
            match change.op {
                CellOp::Put => {
                    let stored = Stored::split(change.value)?;
                    cells.insert(place, (Cell::decode(stored.cell)?, stored.expires));
                }
                CellOp::Merge => {
                    let (mut cell, expires) = match cells.remove(&place) {
                        Some((cell, expires)) => (Some(cell), expires),
                        None => (None, None),
                    };
                    for operand in Operand::decode_all(change.value)? {
                        cell = Some(operand.apply(cell));
                    }
                    cells.extend(cell.map(|cell| (place, (cell, expires))));
                }
                CellOp::DeleteMembers => {
                    let is_gone = |(group, column, member): &Place<'_>| {
                        let is_before_end = change.value.is_empty() || *member < change.value;
                        let is_there = *member >= change.member && is_before_end;
                        (*group, *column) == (change.group, change.column) && is_there
                    };
                    cells.retain(|place, _| !is_gone(place));
                }
                CellOp::Delete | CellOp::Forget | CellOp::Progress => {
                    cells.remove(&place);
                }
            }
        }
        let mut row = Vec::with_capacity(cells.len());
        for ((_, column, member), (cell, expires_micros)) in cells {
            let names = self.cell_names(column, member)?;
            if let Some((column, member)) = names {
                row.push(RowCell {
                    column,
                    member,
                    cell,
                    expires_micros,
                });
            }
        }
        Ok(row)
    }

    fn events(&self, changes: &[CellChange<'_>]) -> std::result::Result<Vec<CellEvent>, String> {
        let mut events = Vec::new();
        let mut before: Option<&CellChange<'_>> = None;
        for change in changes {
            // Members of a column that moves are removed from both of its groups.
            let is_again = before.is_some_and(|before| {
                let of = |change: &CellChange<'_>| (change.op, change.column);
                let is_same = of(before) == of(change) && before.member == change.member;
                is_same && change.op == CellOp::DeleteMembers && before.value == change.value
            });
            before = Some(change);
            if !is_again {
                self.add_events(change, &mut events)?;
            }
        }
        Ok(events)
    }

    fn add_events(
        &self,
        change: &CellChange<'_>,
        events: &mut Vec<CellEvent>,
    ) -> std::result::Result<(), String> {
        if change.op == CellOp::DeleteMembers {
            let some = |text: String| (!text.is_empty()).then_some(text);
            if let Some(column) = self.schema.numbered(change.column) {
                events.push(CellEvent::MembersRemoved {
                    column: column.name.clone(),
                    from: some(text(change.member)?),
                    to: some(text(change.value)?),
                });
            }
            return Ok(());
        }
        let Some((column, member)) = self.cell_names(change.column, change.member)? else {
            return Ok(());
        };
        match change.op {
            CellOp::Put => {
                let stored = Stored::split(change.value)?;
                events.push(CellEvent::Set(RowCell {
                    column,
                    member,
                    cell: Cell::decode(stored.cell)?,
                    expires_micros: stored.expires,
                }));
            }
            CellOp::Merge => {
                let operands = Operand::decode_all(change.value)?.into_iter();
                events.extend(operands.map(|operand| CellEvent::Merged {
                    column: column.clone(),
                    member: member.clone(),
                    operand,
                }));
            }
            CellOp::Delete => events.push(CellEvent::Removed { column, member }),
            CellOp::DeleteMembers | CellOp::Forget | CellOp::Progress => {}
        }
        Ok(())
    }

    /// The names of a cell's column and member. A field that is not declared is named as a column,
    /// as in a document. None of what no reader sees.
    fn cell_names(
        &self,
        column: u32,
        member: &[u8],
    ) -> std::result::Result<Option<(String, Option<String>)>, String> {
        let Some(column) = self.schema.numbered(column) else {
            return Ok(None);
        };
        let member = text(member)?;
        Ok(match (column.number, column.family) {
            (0, _) if self.schema.is_taken(&member, &self.key_field) => None,
            (0, _) => Some((member, None)),
            (_, true) => Some((column.name.clone(), Some(member))),
            (_, false) => Some((column.name.clone(), None)),
        })
    }

    fn corrupt(&self, what: String) -> Error {
        Error::Corrupt {
            partition: self.partition,
            what,
        }
    }
}

fn text(bytes: &[u8]) -> std::result::Result<String, String> {
    let text = std::str::from_utf8(bytes);
    Ok(text
        .map_err(|_| "the name of a member is no text")?
        .to_string())
}

impl Iterator for RowTail {
    type Item = Result<RowChange>;

    fn next(&mut self) -> Option<Result<RowChange>> {
        let read = self.read();
        if read.is_err() {
            self.records = Box::new(std::iter::empty());
        }
        read.transpose()
    }
}
