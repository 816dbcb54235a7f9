//! Deciding a write: what it does, given the newest state of its row. Of a row, docid and version
//! are read, not its cells: but for an operand by which a cell can outgrow its limit.

use crate::machine::{KEYS, ROWS, WideRows, tree_of};
use crate::record::{CellChange, CellOp, Head, Kind};
use crate::row::Row;
use crate::schema::{Column, Schema};
use crate::tier_work::TierWork;
use crate::tiers::Tiers;
use crate::{CELL_BYTES_MAX, Cell, Error, MEMBER_BYTES_MAX, Operand, Result, cell_key};
use quire_model::{DocId, Key, Position};
use quire_seeded::{Bug, seeded};
use quire_store::Transaction;
use std::collections::HashSet;

/// The longest record: what one write of a row can change.
const RECORD_BYTES_MAX: usize = 32 << 20;

/// What must hold for a write to be done; judged in the order of the log, against the newest state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Condition {
    /// Nothing.
    #[default]
    Always,
    /// No row has this key.
    IfAbsent,
    /// The row's version is this one.
    IfVersion(Position),
}

/// What a write did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// There was no row; now there is.
    Created,
    /// The row was replaced or patched.
    Updated,
    /// The row was removed.
    Deleted,
    /// A patch without a change, or the removal of a row that is not there: nothing was written.
    Unchanged,
}

/// The acknowledgement of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// What it did.
    pub effect: Effect,
    /// The row's version now: the position of its record. Where nothing was written, the version
    /// it has (0 when there is no row).
    pub version: Position,
    /// The partition that the key belongs to.
    pub partition: u32,
}

/// A change of a cell, or of members of a column family.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    column: String,
    member: Option<String>,
    what: What,
}

#[derive(Debug, Clone, PartialEq)]
enum What {
    Set(Cell),
    Remove,
    Merge(Operand),
    /// From the member, or from the first, up to this one, or to the last.
    RemoveMembers(Option<String>),
}

impl Change {
    /// Sets a column.
    pub fn set(column: impl Into<String>, cell: Cell) -> Change {
        Change {
            column: column.into(),
            member: None,
            what: What::Set(cell),
        }
    }

    /// Removes the cell of a column, or all members of a family.
    pub fn remove(column: impl Into<String>) -> Change {
        Change {
            column: column.into(),
            member: None,
            what: What::Remove,
        }
    }

    /// Changes a column by an operand, without reading it.
    pub fn merge(column: impl Into<String>, operand: Operand) -> Change {
        Change {
            column: column.into(),
            member: None,
            what: What::Merge(operand),
        }
    }

    /// The same change of one member of a family.
    #[must_use]
    pub fn of_member(mut self, member: impl Into<String>) -> Change {
        self.member = Some(member.into());
        self
    }

    /// Removes the members of a family from `from`, or from the first, up to `to`, which stays, or
    /// to the last; however many there are.
    pub fn remove_members(
        column: impl Into<String>,
        from: Option<String>,
        to: Option<String>,
    ) -> Change {
        Change {
            column: column.into(),
            member: from,
            what: What::RemoveMembers(to),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Put,
    Patch { creates: bool },
    Delete,
}

/// One write of one row: all its changes take effect together or not at all.
#[derive(Debug, Clone, PartialEq)]
pub struct RowWrite {
    key: Key,
    condition: Condition,
    action: Action,
    changes: Vec<Change>,
}

impl RowWrite {
    fn new(key: Key, action: Action) -> RowWrite {
        RowWrite {
            key,
            condition: Condition::Always,
            action,
            changes: Vec::new(),
        }
    }

    /// Makes the changes the row: cells that they do not name are removed.
    pub fn put(key: Key) -> RowWrite {
        RowWrite::new(key, Action::Put)
    }

    /// Changes a row; other cells stay. The row must exist.
    pub fn patch(key: Key) -> RowWrite {
        RowWrite::new(key, Action::Patch { creates: false })
    }

    /// As [`patch`](RowWrite::patch), of a row that may not exist.
    pub fn upsert(key: Key) -> RowWrite {
        RowWrite::new(key, Action::Patch { creates: true })
    }

    /// Removes a row.
    pub fn delete(key: Key) -> RowWrite {
        RowWrite::new(key, Action::Delete)
    }

    /// With one more change.
    #[must_use]
    pub fn with(mut self, change: Change) -> RowWrite {
        self.changes.push(change);
        self
    }

    /// With more changes.
    #[must_use]
    pub fn with_all(mut self, changes: impl IntoIterator<Item = Change>) -> RowWrite {
        self.changes.extend(changes);
        self
    }

    /// Only if this holds.
    #[must_use]
    pub fn condition(mut self, condition: Condition) -> RowWrite {
        self.condition = condition;
        self
    }

    /// The row's key.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The same in one write a change, as a seeded bug does it.
    pub(crate) fn apart(self) -> Vec<RowWrite> {
        let mut changes = self.changes.clone().into_iter();
        let first = RowWrite {
            changes: changes.next().into_iter().collect(),
            ..self
        };
        let key = first.key.clone();
        let others = changes.map(|change| RowWrite::upsert(key.clone()).with(change));
        std::iter::once(first)
            .chain(others.collect::<Vec<_>>())
            .collect()
    }
}

/// Decides a write in its transaction.
pub(crate) struct Decider<'a, 'b> {
    pub(crate) partition: u32,
    pub(crate) time_micros: i64,
    pub(crate) schema: &'a Schema,
    pub(crate) tiers: &'a TierWork,
    pub(crate) transaction: &'a mut Transaction<'b, WideRows>,
}

impl Decider<'_, '_> {
    pub(crate) fn decide(mut self, write: &RowWrite) -> Result<Written> {
        let found = self.row(&write.key)?;
        check(write, found.map(|(_, row)| row))?;
        match (write.action, found) {
            (Action::Put | Action::Patch { creates: true }, None) => self.create(write),
            (Action::Patch { creates: false }, None) => Err(Error::NotFound {
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
                    ..row
                };
                self.update(write, docid, cleared, Some(row))
            }
            (Action::Patch { .. }, Some((docid, row))) => self.update(write, docid, row, None),
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
                    key: write.key.encoded(),
                };
                let version = self.transaction.append(head.encode());
                Ok(self.written(Effect::Deleted, version))
            }
        }
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
        let (changes, groups) = self.changes(write, None)?;
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
            key: write.key.encoded(),
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
        let before = cleared.is_none().then_some((docid, &row));
        let (changes, groups) = self.changes(write, before)?;
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
            key: &[],
        };
        self.append(head, &changes, Effect::Updated)
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

    fn append(&mut self, head: Head<'_>, changes: &[u8], effect: Effect) -> Result<Written> {
        let mut record = head.encode();
        record.extend_from_slice(changes);
        if record.len() > RECORD_BYTES_MAX {
            return Err(Error::TooLarge {
                what: "the write of one document".into(),
                bytes: record.len(),
                bytes_max: RECORD_BYTES_MAX,
                hint: "; write its cells in parts",
            });
        }
        let version = self.transaction.append(record);
        Ok(self.written(effect, version))
    }

    /// The changes as a record has them, and their groups; `before` is the row whose cells stay.
    fn changes(&self, write: &RowWrite, before: Option<(DocId, &Row)>) -> Result<(Vec<u8>, u16)> {
        let (mut out, mut groups) = (Vec::new(), 0);
        let mut named = HashSet::new();
        for change in &write.changes {
            let column = self.schema.declared(&change.column)?;
            check_change(column, change)?;
            let member = change.member.as_deref().unwrap_or_default().as_bytes();
            let is_one = !matches!(change.what, What::RemoveMembers(_));
            if is_one && !named.insert((column.number, &change.member)) {
                let what = format!("{}: it is changed twice in one write", name_of(change));
                return Err(Error::Invalid(what));
            }
            let (op, value) = match &change.what {
                What::Set(cell) => (CellOp::Put, cell.encode()),
                What::Remove if column.family && change.member.is_none() => {
                    (CellOp::DeleteMembers, Vec::new())
                }
                What::Remove => (CellOp::Delete, Vec::new()),
                What::Merge(operand) => {
                    self.check_growth(before, column, change, operand)?;
                    let mut value = Vec::new();
                    operand.encode(&mut value);
                    (CellOp::Merge, value)
                }
                What::RemoveMembers(to) => {
                    let to = to.as_deref().unwrap_or_default();
                    (CellOp::DeleteMembers, to.as_bytes().to_vec())
                }
            };
            if value.len() > CELL_BYTES_MAX {
                return Err(too_long(change, value.len()));
            }
            groups |= 1 << column.group;
            let change = CellChange {
                op,
                group: column.group,
                column: column.number,
                member,
                value: &value,
            };
            change.encode(&mut out);
        }
        Ok((out, groups))
    }

    /// Refuses an operand by which its cell would become too long: later reads could not merge it.
    fn check_growth(
        &self,
        before: Option<(DocId, &Row)>,
        column: &Column,
        change: &Change,
        operand: &Operand,
    ) -> Result<()> {
        let (Some((docid, row)), true) = (before, operand.grows()) else {
            return Ok(());
        };
        let member = change.member.as_deref().unwrap_or_default().as_bytes();
        let key = cell_key::encode(docid, column.number, member);
        let base = self
            .transaction
            .get(tree_of(column.group, row.is_cold(column.group)), &key)?;
        let base = base.as_deref().map(Cell::decode).transpose();
        let base = base.map_err(|what| Error::Corrupt {
            partition: self.partition,
            what: format!("document {docid}, column {:?}: {what}", column.name),
        })?;
        let bytes = operand.apply(base).bytes();
        match bytes <= CELL_BYTES_MAX {
            true => Ok(()),
            false => Err(too_long(change, bytes)),
        }
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

/// Refuses a change that a column can't have.
fn check_change(column: &Column, change: &Change) -> Result<()> {
    let wrong = |what: String| Err(Error::Invalid(format!("{}: {what}", name_of(change))));
    let of_family = matches!(change.what, What::RemoveMembers(_)) || change.member.is_some();
    if of_family && !column.family {
        return wrong("the column is no family, so it has no members".into());
    }
    let names_one = matches!(change.what, What::Set(_) | What::Merge(_));
    if names_one && column.family && change.member.is_none() {
        return wrong("the column is a family: name a member of it".into());
    }
    let member_bytes = change.member.as_deref().map_or(0, str::len);
    let to_bytes = match &change.what {
        What::RemoveMembers(to) => to.as_deref().map_or(0, str::len),
        _ => 0,
    };
    if member_bytes.max(to_bytes) > MEMBER_BYTES_MAX {
        return Err(Error::TooLarge {
            what: format!("the name of a member of column {:?}", column.name),
            bytes: member_bytes.max(to_bytes),
            bytes_max: MEMBER_BYTES_MAX,
            hint: "",
        });
    }
    match &change.what {
        What::Set(Cell::Json(text))
            if serde_json::from_str::<serde::de::IgnoredAny>(text).is_err() =>
        {
            wrong("it is no JSON".into())
        }
        What::Set(cell) if !cell.fits(column.kind) => {
            wrong(format!("expected {}", column.kind.words()))
        }
        What::Merge(operand) => operand.check(column.kind).or_else(wrong),
        _ => Ok(()),
    }
}

fn too_long(change: &Change, bytes: usize) -> Error {
    Error::TooLarge {
        what: name_of(change),
        bytes,
        bytes_max: CELL_BYTES_MAX,
        hint: "",
    }
}

fn name_of(change: &Change) -> String {
    let shown = |text: &str| text.chars().take(64).collect::<String>();
    match &change.member {
        None => format!("column {:?}", shown(&change.column)),
        Some(member) => format!(
            "column {:?}, member {:?}",
            shown(&change.column),
            shown(member)
        ),
    }
}
