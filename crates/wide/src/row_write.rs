//! Writes of rows: conditions, changes of cells, and what a write did.

use crate::schema::Column;
use crate::{CELL_BYTES_MAX, Cell, Error, MEMBER_BYTES_MAX, Operand, Result};
use quire_model::{DOCUMENT_BYTES_MAX, Document, Fields, Key, Position, ValueRef};
use std::time::Duration;

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
    pub(crate) column: String,
    pub(crate) member: Option<String>,
    pub(crate) what: What,
    pub(crate) expiry: CellExpiry,
}

/// When a cell that is written expires: from then on there is no such cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CellExpiry {
    /// As the column says: after its time to live, if it has one. An operand leaves the time that
    /// the cell has.
    #[default]
    Usual,
    /// Never.
    Never,
    /// So long after the write.
    After(Duration),
    /// At this time: microseconds since 1970 UTC. If it has passed, there is no cell after the
    /// write.
    At(i64),
}

impl CellExpiry {
    /// The time, of a cell of a column with this time to live; none if it does not expire.
    pub(crate) fn resolve(self, usual: Option<Duration>, now_micros: i64) -> Option<i64> {
        let after = |time: Duration| {
            let micros = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
            now_micros.saturating_add(micros)
        };
        match self {
            CellExpiry::Usual => usual.map(after),
            CellExpiry::Never => None,
            CellExpiry::After(time) => Some(after(time)),
            CellExpiry::At(micros) => Some(micros),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum What {
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
            expiry: CellExpiry::Usual,
        }
    }

    /// Removes the cell of a column, or all members of a family.
    pub fn remove(column: impl Into<String>) -> Change {
        Change {
            column: column.into(),
            member: None,
            what: What::Remove,
            expiry: CellExpiry::Usual,
        }
    }

    /// Changes a column by an operand, without reading it.
    pub fn merge(column: impl Into<String>, operand: Operand) -> Change {
        Change {
            column: column.into(),
            member: None,
            what: What::Merge(operand),
            expiry: CellExpiry::Usual,
        }
    }

    /// The same change of one member of a family.
    #[must_use]
    pub fn of_member(mut self, member: impl Into<String>) -> Change {
        self.member = Some(member.into());
        self
    }

    /// The same change of a cell that expires then. One that was written before and had another
    /// time has this one from now on.
    #[must_use]
    pub fn expiring(mut self, expiry: CellExpiry) -> Change {
        self.expiry = expiry;
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
            expiry: CellExpiry::Usual,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Put,
    Patch {
        creates: bool,
    },
    /// A new version, whether or not there are changes.
    Renew,
    Delete,
}

/// One write of one row: all its changes take effect together or not at all.
#[derive(Debug, Clone, PartialEq)]
pub struct RowWrite {
    pub(crate) key: Key,
    pub(crate) condition: Condition,
    pub(crate) action: Action,
    pub(crate) changes: Vec<Change>,
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

    /// Gives a row that must exist a new version, with the cells that it has. Triggers see it as a
    /// patch without a change.
    pub fn renew(key: Key) -> RowWrite {
        RowWrite::new(key, Action::Renew)
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

    /// Adds changes, which win over those that it has of the same cells.
    pub(crate) fn overrule(&mut self, changes: Vec<Change>) {
        for change in changes {
            let is_whole = change.member.is_none();
            self.changes.retain(|old| {
                let is_range = matches!(old.what, What::RemoveMembers(_));
                let is_same = is_whole || !is_range && old.member == change.member;
                old.column != change.column || !is_same
            });
            self.changes.push(change);
        }
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

/// Refuses a change that a column can't have.
pub(crate) fn check_change(column: &Column, change: &Change) -> Result<()> {
    let wrong = |what: String| Err(Error::Invalid(format!("{}: {what}", name_of(change))));
    let is_written = matches!(change.what, What::Set(_) | What::Merge(_));
    if change.expiry != CellExpiry::Usual && !is_written {
        return wrong("a cell that is removed does not expire".into());
    }
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
        What::Set(cell) if !cell.fits(column.kind) => {
            return wrong(format!("expected {}", column.kind.words()));
        }
        What::Merge(operand) => operand.check(column.kind).or_else(wrong)?,
        _ => {}
    }
    match &change.what {
        What::Set(Cell::Json(json)) | What::Merge(Operand::AddToSet(json)) => {
            check_json(column, change, json)
        }
        _ => Ok(()),
    }
}

/// Refuses JSON that no document can have at the place of the cell: later reads of the row would
/// fail.
fn check_json(column: &Column, change: &Change, json: &str) -> Result<()> {
    let wrong = |what: String| Err(Error::Invalid(format!("{}: {what}", name_of(change))));
    // An undeclared field is a member of its family, and a field of the document.
    let depth = if column.family && column.number != 0 {
        2
    } else {
        1
    };
    let document = [&"{\"\":".repeat(depth), json, &"}".repeat(depth)].concat();
    if document.len() > DOCUMENT_BYTES_MAX {
        return Err(too_long(change, document.len()));
    }
    let document = match Document::from_json(document.as_bytes()) {
        Ok(document) => document,
        Err(error) => return wrong(format!("no document can have this value: {error}")),
    };
    let value = match (only_value(document.fields()), depth) {
        (Some(ValueRef::Object(members)), 2) => only_value(members.fields()),
        (value, _) => value,
    };
    match value {
        None => wrong("it is more than one JSON value".into()),
        Some(ValueRef::Null) => wrong("null is no cell".into()),
        Some(_) => Ok(()),
    }
}

/// The value of the only field.
fn only_value<'d>(mut fields: Fields<'d>) -> Option<ValueRef<'d>> {
    match (fields.next(), fields.next()) {
        (Some((_, value)), None) => Some(value),
        _ => None,
    }
}

pub(crate) fn too_long(change: &Change, bytes: usize) -> Error {
    Error::TooLarge {
        what: name_of(change),
        bytes,
        bytes_max: CELL_BYTES_MAX,
        hint: "",
    }
}

pub(crate) fn name_of(change: &Change) -> String {
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
