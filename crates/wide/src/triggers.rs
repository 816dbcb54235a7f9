//! The triggers of a write: they see the row before it and as it is to be, one after the other, and
//! what they change are changes of the same record.

use crate::document::Assembly;
use crate::machine::{WideRows, tree_of};
use crate::row::Row;
use crate::row_write::{Action, What, check_change};
use crate::schema::{Column, Schema, rest_column};
use crate::tiers::groups_of;
use crate::{Cell, Change, Error, Result, RowWrite, cell_key, stored};
use quire_coprocessor::{Change as RowChange, Trigger};
use quire_model::{DOCUMENT_BYTES_MAX, DocId, Document};
use quire_store::Transaction;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

/// The triggers that run with a write, in their order.
#[derive(Debug, Clone, Copy)]
pub struct Triggers<'t> {
    /// They.
    pub list: &'t [Arc<Trigger>],
    /// The field of a document that has its key.
    pub key_field: &'t str,
}

impl Triggers<'_> {
    /// None.
    pub fn none() -> Triggers<'static> {
        Triggers {
            list: &[],
            key_field: "",
        }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

/// The row before a write.
pub(crate) struct Before<'b, 'a> {
    pub(crate) partition: u32,
    pub(crate) transaction: &'b Transaction<'a, WideRows>,
    pub(crate) row: Option<&'b (DocId, Row)>,
    pub(crate) time_micros: i64,
}

/// The columns that a trigger sees; all if `None`.
type Seen = Option<SeenColumns>;

/// Some columns of a row.
struct SeenColumns {
    /// By number.
    columns: Vec<u32>,
    /// The undeclared fields of which there is no more in `columns`.
    undeclared: BTreeSet<String>,
}

impl SeenColumns {
    /// The columns that are read.
    fn numbers(&self) -> impl Iterator<Item = u32> {
        let rest = (!self.undeclared.is_empty()).then(|| rest_column().number);
        self.columns.iter().copied().chain(rest)
    }

    fn has(&self, column: u32, member: &str) -> bool {
        let is_undeclared = column == rest_column().number && self.undeclared.contains(member);
        is_undeclared || self.columns.contains(&column)
    }
}

/// Cells of a row by group, column and member, as documents have them.
type Cells = BTreeMap<(u8, u32, String), Cell>;

/// The write with what the triggers change by it. They run only here: not again for that.
///
/// # Errors
/// `Trigger` if one refuses the write or fails; what is wrong with a change; `TooLarge` if what
/// they see is larger than a document may be.
pub(crate) fn with_triggers(
    triggers: Triggers<'_>,
    schema: &Schema,
    before: &Before<'_, '_>,
    write: &RowWrite,
) -> Result<RowWrite> {
    let key_field = triggers.key_field;
    let seen: Vec<Seen> = triggers
        .list
        .iter()
        .map(|one| seen_by(one, schema))
        .collect();
    let read: Option<Vec<&SeenColumns>> = seen.iter().map(Option::as_ref).collect();
    let read: Option<BTreeSet<u32>> =
        read.map(|all| all.into_iter().flat_map(SeenColumns::numbers).collect());
    let old = before.read(schema, read.as_ref())?;
    let mut new = match write.action {
        Action::Put | Action::Delete => Cells::new(),
        Action::Patch { .. } | Action::Renew => old.clone(),
    };
    apply(&write.changes, schema, &mut new)?;
    let document = |cells: &Cells, seen: &Seen| -> Result<Document> {
        let mut assembly = Assembly::new(key_field, &write.key);
        for ((_, column, member), cell) in cells {
            if seen.as_ref().is_none_or(|seen| seen.has(*column, member)) {
                assembly.cell(schema, *column, member, cell)?;
            }
        }
        assembly.finish()
    };
    let mut written = write.clone();
    for (trigger, seen) in triggers.list.iter().zip(&seen) {
        let old = before.row.map(|_| document(&old, seen)).transpose()?;
        let after = match write.action {
            Action::Delete => None,
            _ => Some(document(&new, seen)?),
        };
        let patch = trigger.run(&RowChange {
            key: &write.key,
            before: old.as_ref(),
            after: after.as_ref(),
            time_micros: before.time_micros,
            argument: None,
        })?;
        let Some(patch) = patch else {
            continue;
        };
        let refused = |error: Error| trigger.refused(&write.key, &error.to_string());
        let changes = schema.changes_of(&write.key, key_field, &patch, true);
        let changes = changes.map_err(refused)?;
        apply(&changes, schema, &mut new).map_err(refused)?;
        written.overrule(changes);
    }
    Ok(written)
}

/// The columns that a trigger wants to see. One that is not declared is a field of the rest.
fn seen_by(trigger: &Trigger, schema: &Schema) -> Seen {
    let names = trigger.options().columns.as_ref()?;
    let mut seen = SeenColumns {
        columns: Vec::new(),
        undeclared: BTreeSet::new(),
    };
    for name in names {
        match schema.declared(name) {
            Ok(column) => seen.columns.push(column.number),
            Err(_) if schema.keeps_undeclared() => drop(seen.undeclared.insert(name.clone())),
            Err(_) => {}
        }
    }
    Some(seen)
}

/// Makes changes.
fn apply(changes: &[Change], schema: &Schema, cells: &mut Cells) -> Result<()> {
    for change in changes {
        let column = schema.declared(&change.column)?;
        check_change(column, change)?;
        let id = |member: &str| (column.group, column.number, member.to_string());
        let member = change.member.as_deref().unwrap_or_default();
        match &change.what {
            What::Set(cell) => {
                cells.insert(id(member), cell.clone());
            }
            What::Merge(operand) => {
                let base = cells.remove(&id(member));
                cells.insert(id(member), operand.apply(base));
            }
            What::Remove if !column.family || change.member.is_some() => {
                cells.remove(&id(member));
            }
            What::Remove => remove_members(column, "", None, cells),
            What::RemoveMembers(to) => remove_members(column, member, to.as_deref(), cells),
        }
    }
    Ok(())
}

fn remove_members(column: &Column, from: &str, to: Option<&str>, cells: &mut Cells) {
    let number = column.number;
    cells.retain(|(_, column, member), _| {
        let is_in = member.as_str() >= from && to.is_none_or(|to| member.as_str() < to);
        *column != number || !is_in
    });
}

impl Before<'_, '_> {
    /// The cells of these columns, or all.
    fn read(&self, schema: &Schema, columns: Option<&BTreeSet<u32>>) -> Result<Cells> {
        let (mut cells, mut bytes) = (Cells::new(), 0);
        let Some((docid, row)) = self.row else {
            return Ok(cells);
        };
        let Some(columns) = columns else {
            for group in groups_of(row.groups) {
                let (from, to) = (cell_key::row(*docid), cell_key::row_end(*docid));
                let into = (&mut cells, &mut bytes);
                self.scan(schema, (row, group), &from, &to, into)?;
            }
            return Ok(cells);
        };
        let columns = columns.iter().filter_map(|number| schema.numbered(*number));
        let moves = self.transaction.machine().moves();
        for column in columns {
            let from = cell_key::encode(*docid, column.number, &[]);
            let to = cell_key::column_end(*docid, column.number);
            let groups = moves.groups_in_row(column, *docid).into_iter().flatten();
            for group in groups.filter(|group| row.groups & (1 << group) != 0) {
                let into = (&mut cells, &mut bytes);
                self.scan(schema, (row, group), &from, &to, into)?;
            }
        }
        Ok(cells)
    }

    /// Reads the cells of a group between two keys, and counts their bytes.
    fn scan(
        &self,
        schema: &Schema,
        (row, group): (&Row, u8),
        from: &[u8],
        to: &[u8],
        (cells, bytes): (&mut Cells, &mut usize),
    ) -> Result<()> {
        let corrupt = |what: String| Error::Corrupt {
            partition: self.partition,
            what,
        };
        let tree = tree_of(group, row.is_cold(group));
        for item in self
            .transaction
            .scan(tree, Bound::Included(from), Bound::Excluded(to))?
        {
            let (key, value) = item?;
            *bytes += key.len() + value.len();
            if *bytes > DOCUMENT_BYTES_MAX {
                return Err(Error::TooLarge {
                    what: "the row that a trigger is to see, so far,".into(),
                    bytes: *bytes,
                    bytes_max: DOCUMENT_BYTES_MAX,
                    hint: "; attach the trigger with the columns that it needs",
                });
            }
            let split = cell_key::decode(&key)
                .and_then(|(_, column, member)| Some((column, std::str::from_utf8(member).ok()?)));
            let (column, member) =
                split.ok_or_else(|| corrupt("the key of a cell is no key".into()))?;
            if let Some(cell) = stored::cell_at(&value, self.time_micros).map_err(corrupt)? {
                // A column that moves is where it goes to, in the row that a trigger sees.
                let shown = schema.numbered(column).map_or(group, |column| column.group);
                cells.insert((shown, column, member.to_string()), cell);
            }
        }
        Ok(())
    }
}
