//! Deciding a write: what it does, given the newest state of its row. Of a row, docid and version
//! are read, not its cells: but for an operand by which a cell can outgrow its limit.

use crate::column_notes::ColumnWork;
use crate::expiry_work::ExpiryWork;
use crate::machine::{KEYS, ROWS, WideRows, tree_of};
use crate::record::{CellChange, CellOp, Head, Kind, Tailed};
use crate::row::Row;
use crate::row_write::{Action, CellExpiry, What, check_change, name_of, too_long};
use crate::schema::{Column, Schema};
use crate::stored::{self, Stored};
use crate::tier_work::TierWork;
use crate::tiers::Tiers;
use crate::triggers::{Before, Triggers, with_triggers};
use crate::{
    CELL_BYTES_MAX, Cell, Change, Condition, Effect, Error, Operand, Result, RowWrite, Written,
    cell_key,
};
use quire_model::{DocId, Key, Position};
use quire_seeded::{Bug, seeded};
use quire_store::{Transaction, TreeId};
use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::atomic::Ordering;

/// The longest record: what one write of a row can change.
const RECORD_BYTES_MAX: usize = 32 << 20;

/// The changes of a record.
#[derive(Debug, Default)]
struct Changes {
    bytes: Vec<u8>,
    /// The groups of their cells.
    groups: u16,
    /// Those in which cells are put that expire.
    expiring: u16,
    /// Whether one is of a column that moves, behind its place.
    is_behind: bool,
}

/// Decides a write in its transaction.
pub(crate) struct Decider<'a, 'b> {
    pub(crate) partition: u32,
    pub(crate) time_micros: i64,
    pub(crate) schema: &'a Schema,
    pub(crate) tiers: &'a TierWork,
    pub(crate) expiry: &'a ExpiryWork,
    pub(crate) columns: &'a ColumnWork,
    pub(crate) triggers: Triggers<'a>,
    /// Whether records are for those who tail the log.
    pub(crate) is_tailed: bool,
    pub(crate) transaction: &'a mut Transaction<'b, WideRows>,
}

impl Decider<'_, '_> {
    pub(crate) fn decide(mut self, write: &RowWrite) -> Result<Written> {
        let found = self.row(&write.key)?;
        check(write, found.map(|(_, row)| row))?;
        let write = &*self.triggered(write, found.as_ref())?;
        match (write.action, found) {
            (Action::Put | Action::Patch { creates: true }, None) => self.create(write),
            (Action::Patch { creates: false } | Action::Renew, None) => Err(Error::NotFound {
                key: write.key.clone(),
            }),
            (Action::Delete, None) => Ok(self.written(Effect::Unchanged, Position(0))),
            (Action::Patch { .. }, Some((_, row))) if write.changes.is_empty() => {
                Ok(self.written(Effect::Unchanged, row.version))
            }
            (Action::Put, Some((docid, row))) => {
                let cleared = Row {
                    groups: 0,
                    tiers: Tiers::default(),
                    expiring: 0,
                    ..row
                };
                self.update(write, docid, cleared, Some(row))
            }
            (Action::Patch { .. } | Action::Renew, Some((docid, row))) => {
                self.update(write, docid, row, None)
            }
            (Action::Delete, Some((docid, row))) => {
                let head = Head {
                    kind: Kind::Delete,
                    created: false,
                    time_micros: self.time_micros,
                    docid,
                    cleared: row.groups,
                    groups: 0,
                    cleared_cold: row.tiers.cold,
                    version: Position(0),
                    tiers: Tiers::default(),
                    expiring: 0,
                    key: write.key.encoded(),
                    tailed: self.tailed(false),
                };
                let version = self.transaction.append(head.encode());
                Ok(self.written(Effect::Deleted, version))
            }
        }
    }

    /// The write with what triggers change by it.
    fn triggered<'w>(
        &self,
        write: &'w RowWrite,
        found: Option<&(DocId, Row)>,
    ) -> Result<Cow<'w, RowWrite>> {
        let is_change = match (write.action, found) {
            (Action::Put | Action::Patch { creates: true }, None) => true,
            (Action::Patch { creates: false } | Action::Renew | Action::Delete, None) => false,
            (Action::Patch { .. }, Some(_)) => !write.changes.is_empty(),
            (Action::Put | Action::Renew | Action::Delete, Some(_)) => true,
        };
        if self.triggers.is_empty() || !is_change {
            return Ok(Cow::Borrowed(write));
        }
        let before = Before {
            partition: self.partition,
            transaction: &*self.transaction,
            row: found,
            time_micros: self.time_micros,
        };
        let written = with_triggers(self.triggers, self.schema, &before, write)?;
        Ok(Cow::Owned(written))
    }

    fn row(&self, key: &Key) -> Result<Option<(DocId, Row)>> {
        let Some(docid) = self.transaction.get(KEYS, key.encoded())? else {
            return Ok(None);
        };
        let row = self.transaction.get(ROWS, &docid)?;
        let row = row.as_deref().and_then(Row::decode);
        match (<[u8; 4]>::try_from(&*docid), row) {
            (Ok(docid), Some(row)) => Ok(Some((DocId(u32::from_be_bytes(docid)), row))),
            _ => Err(Error::Corrupt {
                partition: self.partition,
                what: format!("document {key} is in the tree keys, and its row is not in rows"),
            }),
        }
    }

    fn create(&mut self, write: &RowWrite) -> Result<Written> {
        let docid = self.transaction.machine().next_docid;
        // The last number is never given out, so that "the next docid" always has a value.
        if docid == u32::MAX {
            return Err(Error::DocIdsExhausted {
                partition: self.partition,
            });
        }
        let changes = self.changes(write, DocId(docid), None)?;
        let groups = changes.groups;
        let head = Head {
            kind: Kind::Write,
            created: true,
            time_micros: self.time_micros,
            docid: DocId(docid),
            cleared: 0,
            groups,
            cleared_cold: 0,
            version: Position(0),
            tiers: self.tiers_after(None, groups),
            expiring: changes.expiring,
            key: write.key.encoded(),
            tailed: self.tailed(true),
        };
        self.append(head, &changes, Effect::Created)
    }

    /// Changes `row`; if it was cleared before, `cleared` is what it was. What is cold stays where
    /// it is, so no cell is read, and a move brings all of it back soon.
    fn update(
        &mut self,
        write: &RowWrite,
        docid: DocId,
        row: Row,
        cleared: Option<Row>,
    ) -> Result<Written> {
        let before = cleared.is_none().then_some(&row);
        let changes = self.changes(write, docid, before)?;
        let groups = changes.groups;
        let mut tiers = self.tiers_after(Some(&row), groups);
        if groups & row.tiers.cold != 0 {
            self.tiers.want(docid, 0);
            if seeded(Bug::ColdCellsForgotten) {
                tiers.cold &= !groups;
            }
        }
        let head = Head {
            kind: Kind::Write,
            created: false,
            time_micros: self.time_micros,
            docid,
            cleared: cleared.map_or(0, |row| row.groups),
            groups: row.groups | groups,
            cleared_cold: cleared.map_or(0, |row| row.tiers.cold),
            version: Position(0),
            tiers,
            expiring: row.expiring | changes.expiring,
            key: match self.is_tailed {
                true => write.key.encoded(),
                false => &[],
            },
            tailed: self.tailed(cleared.is_some()),
        };
        self.append(head, &changes, Effect::Updated)
    }

    /// What a record has for those who tail the log, if it has all cells of its row or not.
    fn tailed(&self, is_whole: bool) -> Tailed {
        match (self.is_tailed, is_whole) {
            (false, _) => Tailed::No,
            (true, false) => Tailed::Key,
            (true, true) => Tailed::Whole,
        }
    }

    /// What a row says of tiers once cells of `changed` groups are written.
    fn tiers_after(&self, row: Option<&Row>, changed: u16) -> Tiers {
        let mut tiers = Tiers::of_cold(row.map_or(0, |row| row.tiers.cold));
        let has_cells = changed | row.map_or(0, |row| row.groups);
        let groups = self.schema.groups.iter().zip(0u8..);
        let tiered = groups.filter(|(group, _)| group.tiers.is_some());
        for (_, group) in tiered.filter(|(_, group)| has_cells & (1 << group) != 0) {
            let is_changed = changed & (1 << group) != 0;
            let before = row.filter(|_| !is_changed).map(|row| row.time_of(group));
            tiers.set_time(group, before.unwrap_or(self.time_micros));
        }
        tiers
    }

    fn append(&mut self, head: Head<'_>, changes: &Changes, effect: Effect) -> Result<Written> {
        let mut record = head.encode();
        record.extend_from_slice(&changes.bytes);
        if record.len() > RECORD_BYTES_MAX {
            return Err(Error::TooLarge {
                what: "the write of one document".into(),
                bytes: record.len(),
                bytes_max: RECORD_BYTES_MAX,
                hint: "; write its cells in parts",
            });
        }
        if head.expiring != 0 {
            self.expiry.is_expected.store(true, Ordering::Relaxed);
        }
        let version = self.transaction.append(record);
        if changes.is_behind {
            self.columns.note(head.docid, version);
        }
        Ok(self.written(effect, version))
    }

    /// The changes as a record has them; `before` is the row, if its cells stay.
    fn changes(&self, write: &RowWrite, docid: DocId, before: Option<&Row>) -> Result<Changes> {
        let mut changes = Changes::default();
        let moves = self.transaction.machine().moves();
        let mut named = HashSet::new();
        for change in &write.changes {
            let column = self.schema.declared(&change.column)?;
            check_change(column, change)?;
            self.check_undeclared(column, change)?;
            let member = change.member.as_deref().unwrap_or_default().as_bytes();
            let is_one = !matches!(change.what, What::RemoveMembers(_));
            if is_one && !named.insert((column.number, &change.member)) {
                let what = format!("{}: it is changed twice in one write", name_of(change));
                return Err(Error::Invalid(what));
            }
            let (op, value) = match &change.what {
                What::Set(cell) => self.put(column, change, cell),
                What::Remove if column.family && change.member.is_none() => {
                    (CellOp::DeleteMembers, Vec::new())
                }
                What::Remove => (CellOp::Delete, Vec::new()),
                What::Merge(operand) => self.merge((docid, before), column, change, operand)?,
                // No member is before it, and a record has "to the last" as an empty name.
                What::RemoveMembers(Some(to)) if to.is_empty() => continue,
                What::RemoveMembers(to) => {
                    let to = to.as_deref().unwrap_or_default();
                    (CellOp::DeleteMembers, to.as_bytes().to_vec())
                }
            };
            let stored = Stored::split(&value).ok().filter(|_| op == CellOp::Put);
            let bytes = stored.map_or(value.len(), |stored| stored.cell.len());
            if bytes > CELL_BYTES_MAX {
                return Err(too_long(change, bytes));
            }
            let expires = stored.is_some_and(|stored| stored.expires.is_some());
            let groups = match op {
                CellOp::DeleteMembers => moves.groups_in_row(column, docid),
                _ => [Some(moves.group_of(column, docid, member)), None],
            };
            for group in groups.into_iter().flatten() {
                changes.groups |= 1 << group;
                changes.expiring |= u16::from(expires) << group;
                changes.is_behind |= moves.is_behind(column.number, group);
                let change = CellChange {
                    op,
                    group,
                    column: column.number,
                    member,
                    value: &value,
                };
                change.encode(&mut changes.bytes);
            }
        }
        Ok(changes)
    }

    /// Refuses a member of `_rest` that documents could not show: the key field or a column has its
    /// name. One that is there can be removed.
    fn check_undeclared(&self, column: &Column, change: &Change) -> Result<()> {
        let member = change.member.as_deref().unwrap_or_default();
        let is_written = matches!(change.what, What::Set(_) | What::Merge(_));
        let is_taken = || self.schema.is_taken(member, self.triggers.key_field);
        match column.number == 0 && is_written && is_taken() {
            true => Err(Error::Invalid(format!(
                "{}: the key or a column has this name",
                name_of(change)
            ))),
            false => Ok(()),
        }
    }

    /// A cell as a record has it: none, if its time of expiry has passed.
    fn put(&self, column: &Column, change: &Change, cell: &Cell) -> (CellOp, Vec<u8>) {
        let expires = change.expiry.resolve(column.time_to_live, self.time_micros);
        match expires.is_some_and(|expires| expires <= self.time_micros) {
            true => (CellOp::Delete, Vec::new()),
            false => (CellOp::Put, stored::encode(cell, expires)),
        }
    }

    /// An operand as a record has it.
    ///
    /// The cell is read if it may have expired, or is to expire: a tree knows no clock, so the
    /// record has what the operand makes of the cell then. It is read, too, if it could become too
    /// long, as later reads could not merge it.
    fn merge(
        &self,
        (docid, before): (DocId, Option<&Row>),
        column: &Column,
        change: &Change,
        operand: &Operand,
    ) -> Result<(CellOp, Vec<u8>)> {
        let member = change.member.as_deref().unwrap_or_default().as_bytes();
        let group = self.transaction.machine().moves();
        let group = group.group_of(column, docid, member);
        let may_expire = before.is_some_and(|row| row.expiring & (1 << group) != 0);
        let may_expire = may_expire && !seeded(Bug::ExpiredCellMerged);
        let is_to_expire = change.expiry != CellExpiry::Usual || column.time_to_live.is_some();
        let as_it_is = || {
            let mut value = Vec::new();
            operand.encode(&mut value);
            (CellOp::Merge, value)
        };
        if !may_expire && !is_to_expire && !operand.grows() {
            return Ok(as_it_is());
        }
        let key = cell_key::encode(docid, column.number, member);
        let base = before.map(|row| {
            let tree = tree_of(group, row.is_cold(group));
            self.cell(tree, &key, column)
        });
        let base = base.transpose()?.flatten();
        let is_there = base.is_some();
        let merged = operand.apply(base);
        if merged.bytes() > CELL_BYTES_MAX {
            return Err(too_long(change, merged.bytes()));
        }
        // A cell that is there keeps its time.
        let stays = is_there || !may_expire && !is_to_expire;
        match change.expiry == CellExpiry::Usual && stays {
            true => Ok(as_it_is()),
            false => Ok(self.put(column, change, &merged)),
        }
    }

    /// The cell under a key of a tree, unless it has expired.
    fn cell(&self, tree: TreeId, key: &[u8], column: &Column) -> Result<Option<Cell>> {
        let Some(bytes) = self.transaction.get(tree, key)? else {
            return Ok(None);
        };
        stored::cell_at(&bytes, self.time_micros).map_err(|what| Error::Corrupt {
            partition: self.partition,
            what: format!("column {:?}: {what}", column.name),
        })
    }

    fn written(&self, effect: Effect, version: Position) -> Written {
        Written {
            effect,
            version,
            partition: self.partition,
        }
    }
}

fn check(write: &RowWrite, row: Option<Row>) -> Result<()> {
    let reason = match (write.condition, row) {
        (Condition::Always, _) | (Condition::IfAbsent, None) => return Ok(()),
        (Condition::IfAbsent, Some(row)) => {
            format!("it exists already (version {})", row.version)
        }
        (Condition::IfVersion(required), Some(row)) if row.version == required => return Ok(()),
        (Condition::IfVersion(required), Some(row)) => format!(
            "version {required} required, but it has version {}",
            row.version
        ),
        (Condition::IfVersion(required), None) => {
            format!("version {required} required, but it does not exist")
        }
    };
    Err(Error::Conflict {
        key: write.key.clone(),
        reason,
    })
}
