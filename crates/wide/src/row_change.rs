//! Changes of rows as those who tail the log see them, and as members of a JSON object.

use crate::document::write_key;
use crate::{Cell, Operand};
use quire_model::{Key, Position, ValueRef};

/// A record of the log, as those who tail it see it: what was written to a row.
#[derive(Debug, Clone, PartialEq)]
pub struct RowChange {
    /// Its position: the row's version.
    pub version: Position,
    /// The partition whose log it is in.
    pub partition: u32,
    /// When it was written: microseconds since 1970 UTC, by the writer's clock.
    pub time_micros: i64,
    /// The row's key.
    pub key: Key,
    /// What was done.
    pub action: RowAction,
    /// Bytes of the record.
    pub bytes: u64,
}

/// What a write did to a row.
#[derive(Debug, Clone, PartialEq)]
pub enum RowAction {
    /// The row has these cells and no others, in the order in which a document has them. The row is
    /// new, or was replaced.
    Put(Vec<RowCell>),
    /// Some cells were changed, in this order. None were, if the row got a new version alone.
    Patch(Vec<CellEvent>),
    /// The row was removed.
    Delete,
}

/// A cell of a row.
#[derive(Debug, Clone, PartialEq)]
pub struct RowCell {
    /// Its column, or the field that is not declared.
    pub column: String,
    /// The member, if the column is a family.
    pub member: Option<String>,
    /// Its value.
    pub cell: Cell,
    /// When it expires, if it does: microseconds since 1970 UTC.
    pub expires_micros: Option<i64>,
}

/// The change of a cell, or of members of a family.
#[derive(Debug, Clone, PartialEq)]
pub enum CellEvent {
    /// It is this one.
    Set(RowCell),
    /// It was changed by an operand.
    Merged {
        /// The column.
        column: String,
        /// The member, if the column is a family.
        member: Option<String>,
        /// By what.
        operand: Operand,
    },
    /// It was removed.
    Removed {
        /// The column.
        column: String,
        /// The member, if the column is a family.
        member: Option<String>,
    },
    /// Members of a family were removed.
    MembersRemoved {
        /// The family.
        column: String,
        /// The first of them; from the first member of all if none is named.
        from: Option<String>,
        /// The first after them, which stays; to the last member of all if none is named.
        to: Option<String>,
    },
}

impl RowChange {
    /// Appends it as a JSON object: of a put the document that a get of the row gives, of a patch
    /// the list of its changes. The key is in the field `key_field` of documents.
    pub fn write_json(&self, key_field: &str, out: &mut Vec<u8>) {
        let head = format!(
            "{{\"partition\":{},\"position\":{},\"time_micros\":{},\"key\":",
            self.partition, self.version, self.time_micros
        );
        out.extend_from_slice(head.as_bytes());
        match self.key.as_str() {
            Some(text) => write_text(text, out),
            None => out.extend_from_slice(self.key.to_string().as_bytes()),
        }
        match &self.action {
            RowAction::Put(cells) => {
                out.extend_from_slice(b",\"document\":");
                write_document(&self.key, key_field, cells, out);
                write_expiries(cells, out);
            }
            RowAction::Patch(events) => {
                out.extend_from_slice(b",\"patch\":[");
                for (at, event) in events.iter().enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    event.write_json(out);
                }
                out.push(b']');
            }
            RowAction::Delete => out.extend_from_slice(b",\"deleted\":true"),
        }
        out.push(b'}');
    }
}

impl CellEvent {
    fn write_json(&self, out: &mut Vec<u8>) {
        match self {
            CellEvent::Set(cell) => {
                write_name(&cell.column, cell.member.as_deref(), out);
                out.extend_from_slice(b",\"value\":");
                cell.cell.write_json(out);
                write_expiry(cell.expires_micros, out);
            }
            CellEvent::Merged {
                column,
                member,
                operand,
            } => {
                write_name(column, member.as_deref(), out);
                write_operand(operand, out);
            }
            CellEvent::Removed { column, member } => {
                write_name(column, member.as_deref(), out);
                out.extend_from_slice(b",\"removed\":true");
            }
            CellEvent::MembersRemoved { column, from, to } => {
                write_name(column, None, out);
                for (name, end) in [("from", from), ("to", to)] {
                    if let Some(end) = end {
                        out.extend_from_slice(format!(",\"{name}\":").as_bytes());
                        write_text(end, out);
                    }
                }
                out.extend_from_slice(b",\"removed\":true");
            }
        }
        out.push(b'}');
    }
}

/// Begins the object of a cell.
fn write_name(column: &str, member: Option<&str>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"column\":");
    write_text(column, out);
    if let Some(member) = member {
        out.extend_from_slice(b",\"member\":");
        write_text(member, out);
    }
}

fn write_operand(operand: &Operand, out: &mut Vec<u8>) {
    let begin = format!(",\"{}\":", operand.name());
    out.extend_from_slice(begin.as_bytes());
    match operand {
        Operand::Add(step) => out.extend_from_slice(step.to_string().as_bytes()),
        Operand::Append(cell) | Operand::Max(cell) => cell.write_json(out),
        Operand::AddToSet(array) => out.extend_from_slice(array.as_bytes()),
    }
}

fn write_expiry(expires_micros: Option<i64>, out: &mut Vec<u8>) {
    if let Some(micros) = expires_micros {
        out.extend_from_slice(format!(",\"expires_micros\":{micros}").as_bytes());
    }
}

/// The cells of a document that expire, which the document does not say.
fn write_expiries(cells: &[RowCell], out: &mut Vec<u8>) {
    let expiring = cells.iter().filter(|cell| cell.expires_micros.is_some());
    for (at, cell) in expiring.clone().enumerate() {
        let begin: &[u8] = if at == 0 { b",\"expiring\":[" } else { b"," };
        out.extend_from_slice(begin);
        write_name(&cell.column, cell.member.as_deref(), out);
        write_expiry(cell.expires_micros, out);
        out.push(b'}');
    }
    if expiring.count() > 0 {
        out.push(b']');
    }
}

/// The document of these cells, of which those of a family come one after the other.
fn write_document(key: &Key, key_field: &str, cells: &[RowCell], out: &mut Vec<u8>) {
    out.push(b'{');
    write_text(key_field, out);
    out.push(b':');
    write_key(key, out);
    let mut family: Option<&str> = None;
    for cell in cells {
        let of = cell.member.as_ref().map(|_| cell.column.as_str());
        if family.is_some() && family != of {
            out.push(b'}');
        }
        out.push(b',');
        if of.is_some() && family != of {
            write_text(&cell.column, out);
            out.extend_from_slice(b":{");
        }
        family = of;
        write_text(cell.member.as_deref().unwrap_or(&cell.column), out);
        out.push(b':');
        cell.cell.write_json(out);
    }
    if family.is_some() {
        out.push(b'}');
    }
    out.push(b'}');
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    ValueRef::String(text).write_json(out);
}
