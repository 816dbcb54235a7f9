//! Rows of the wide collection, and writes that change cells in several of its groups at once: as
//! the model does them, and as real ones.

use crate::sim::document::{key, noise};
use crate::sim::history::{self, Action};
use quiredb::wide::{Cell, Change, Condition, Operand, RowWrite};
use quiredb::{Effect, ErrorKind, Found, Key, Position};
use serde_json::Value;
use std::collections::BTreeMap;

/// What a write must have done, or the condition that does not hold.
pub(crate) type Answer = Result<Effect, ErrorKind>;

/// The row of each key.
pub(crate) type Rows = BTreeMap<Key, Row>;

/// What a row has in its three groups.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Row {
    /// Not known of a row that a write in doubt may have made.
    pub(crate) version: Option<u64>,
    n: Option<i64>,
    text: Option<String>,
    links: BTreeMap<String, i64>,
}

impl Row {
    /// The row that was read whole.
    pub(crate) fn read(found: &Found) -> Row {
        let fields: Value = serde_json::from_str(&found.document.to_json()).unwrap();
        let links = fields["links"].as_object().into_iter().flatten();
        Row {
            version: Some(found.version.0),
            n: fields["n"].as_i64(),
            text: fields["text"].as_str().map(str::to_string),
            links: links
                .map(|(member, value)| (member.clone(), value.as_i64().unwrap()))
                .collect(),
        }
    }

    /// The cells that are not in a family, as a scan of columns gives them.
    pub(crate) fn plain(&self) -> [Option<Cell>; 2] {
        [self.n.map(Cell::Int), self.text.clone().map(Cell::String)]
    }

    /// The row with another version; with none it may be any.
    pub(crate) fn with_version(self, version: Option<u64>) -> Row {
        Row { version, ..self }
    }
}

/// Whether what was found may be this row.
pub(crate) fn is_same(row: Option<&Row>, found: Option<&Row>) -> bool {
    match (row, found) {
        (Some(row), Some(found)) if row.version.is_none() => {
            *row == found.clone().with_version(None)
        }
        (row, found) => row == found,
    }
}

/// A write of a history with everything filled in.
#[derive(Debug, Clone)]
pub(crate) struct Write {
    pub(crate) key: Key,
    action: Action,
    condition: Condition,
    /// No other write of the history has it.
    serial: i64,
}

impl Write {
    /// A write to a row that has this version now.
    pub(crate) fn new(write: &history::Write, serial: u64, version: Option<u64>) -> Write {
        let version = version.unwrap_or(0);
        Write {
            key: key(write.key),
            action: write.action,
            condition: match write.condition {
                history::Condition::IfAbsent => Condition::IfAbsent,
                history::Condition::IfCurrent => Condition::IfVersion(Position(version)),
                history::Condition::IfStale => Condition::IfVersion(Position(version + 1)),
                _ => Condition::Always,
            },
            serial: serial as i64,
        }
    }

    fn text(&self, bytes: u32) -> String {
        noise(self.serial as u64, bytes as usize)
    }

    /// The member that a patch of this shape adds to: never one that it also removes.
    fn member(&self, shape: u8) -> String {
        match shape & 8 {
            0 => format!("m{}", self.serial % 3),
            _ => "m0".to_string(),
        }
    }

    pub(crate) fn real(&self) -> RowWrite {
        let key = self.key.clone();
        let write = match self.action {
            Action::Put { bytes } => RowWrite::put(key)
                .with(Change::set("n", Cell::Int(self.serial)))
                .with(Change::set("text", Cell::String(self.text(bytes))))
                .with(Change::set("links", Cell::Int(self.serial)).of_member("m0"))
                .with(Change::set("links", Cell::Int(1)).of_member("m1")),
            Action::Patch { shape } => {
                let member = self.member(shape);
                let add = || Operand::Add(self.serial);
                let changes = [
                    Change::merge("n", add()),
                    Change::merge("text", Operand::Append(Cell::String(self.text(20)))),
                    Change::merge("links", add()).of_member(member),
                    Change::remove_members("links", Some("m1".to_string()), None),
                ];
                let chosen = changes.into_iter().enumerate();
                let chosen = chosen.filter(|(bit, _)| shape & (1 << bit) != 0);
                RowWrite::upsert(key).with_all(chosen.map(|(_, change)| change))
            }
            Action::Delete => RowWrite::delete(key),
        };
        write.condition(self.condition)
    }

    /// The answer to the write of a row, and the row after it, of which the version is not known.
    pub(crate) fn apply(&self, row: Option<&Row>) -> (Answer, Option<Row>) {
        let holds = match self.condition {
            Condition::Always => true,
            Condition::IfAbsent => row.is_none(),
            Condition::IfVersion(version) => row.is_some_and(|row| row.version == Some(version.0)),
        };
        if !holds {
            return (Err(ErrorKind::Conflict), row.cloned());
        }
        let after = match self.action {
            Action::Put { bytes } => Some(Row {
                version: None,
                n: Some(self.serial),
                text: Some(self.text(bytes)),
                links: [("m0".to_string(), self.serial), ("m1".to_string(), 1)].into(),
            }),
            Action::Patch { shape: 0 } if row.is_some() => {
                return (Ok(Effect::Unchanged), row.cloned());
            }
            Action::Patch { shape } => Some(self.patched(shape, row)),
            Action::Delete => None,
        };
        let effect = match (row, &after) {
            (None, None) => Effect::Unchanged,
            (None, Some(_)) => Effect::Created,
            (Some(_), Some(_)) => Effect::Updated,
            (Some(_), None) => Effect::Deleted,
        };
        (Ok(effect), after)
    }

    fn patched(&self, shape: u8, row: Option<&Row>) -> Row {
        let mut row = row.cloned().unwrap_or_default().with_version(None);
        if shape & 1 != 0 {
            row.n = Some(row.n.unwrap_or(0) + self.serial);
        }
        if shape & 2 != 0 {
            row.text.get_or_insert_default().push_str(&self.text(20));
        }
        if shape & 4 != 0 {
            *row.links.entry(self.member(shape)).or_default() += self.serial;
        }
        if shape & 8 != 0 {
            row.links.retain(|member, _| member.as_str() < "m1");
        }
        row
    }
}
