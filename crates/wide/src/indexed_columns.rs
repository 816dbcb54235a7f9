//! [`IndexedColumns`]: which columns a search index has, and where their cells may lie.
//!
//! Families are not indexed: one row may have millions of members.

use crate::column_moves::ColumnMoves;
use crate::record::{self, CellChange, Kind};
use crate::schema::{Column, Schema, rest_column};
use crate::{Error, Result};
use parking_lot::{Mutex, RwLock};
use quire_model::Position;
use quire_search::IndexedFields;
use quire_seeded::{Bug, seeded};
use quire_store::BaseView;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Up to where groups are known while cells may be in any.
const ANYWHERE: Position = Position(u64::MAX);

/// What one search index takes of rows, shared by what derives it and by views.
#[derive(Debug)]
pub(crate) struct IndexedColumns {
    fields: IndexedFields,
    key_field: String,
    schema: RwLock<Arc<Schema>>,
    known: Mutex<KnownGroups>,
    /// Past the greatest column of a record that came before its schema did; 0 if none has.
    early_end: AtomicU32,
}

/// In which groups cells of the columns are, in all views that an index is still to be made of.
#[derive(Debug, Clone, Copy)]
struct KnownGroups {
    groups: u16,
    /// Views of up to this position are among them.
    to: Position,
}

/// The columns, by one version of the schema.
#[derive(Debug, Clone)]
pub(crate) struct RowFields {
    pub(crate) schema: Arc<Schema>,
    pub(crate) key_field: String,
    /// Their numbers, ascending: 0 for undeclared fields.
    pub(crate) numbers: Vec<u32>,
    pub(crate) groups: u16,
}

impl IndexedColumns {
    /// Those of these fields. Their cells may be in any group, until it is known better.
    pub(crate) fn new(
        fields: IndexedFields,
        key_field: &str,
        schema: &Arc<Schema>,
    ) -> IndexedColumns {
        IndexedColumns {
            fields,
            key_field: key_field.to_string(),
            schema: RwLock::new(Arc::clone(schema)),
            known: Mutex::new(KnownGroups {
                groups: u16::MAX,
                to: ANYWHERE,
            }),
            early_end: AtomicU32::new(0),
        }
    }

    /// Notes that a record has a column which the schema of these fields does not have yet: what it
    /// has there is not indexed. Called before the index is at the record.
    pub(crate) fn note_early(&self, column: u32) {
        let end = column.saturating_add(1);
        self.early_end.fetch_max(end, Ordering::AcqRel);
    }

    /// Whether the index lacks columns that the schema has now, of records that came before it.
    /// True once.
    pub(crate) fn take_early(&self) -> bool {
        let (end, next) = (
            self.early_end.load(Ordering::Acquire),
            self.schema().next_number,
        );
        let is_known = end > 0 && end <= next;
        let take = || {
            let taken =
                self.early_end
                    .compare_exchange(end, 0, Ordering::AcqRel, Ordering::Acquire);
            taken.is_ok()
        };
        is_known && take()
    }

    /// The field of documents that has their key.
    pub(crate) fn key_field(&self) -> &str {
        &self.key_field
    }

    /// The schema by which rows are read.
    pub(crate) fn schema(&self) -> Arc<Schema> {
        Arc::clone(&self.schema.read())
    }

    /// Reads rows by a newer schema, which has the old one's columns under their names.
    pub(crate) fn set_schema(&self, schema: &Arc<Schema>) {
        let mut known = self.known.lock();
        let before = std::mem::replace(&mut *self.schema.write(), Arc::clone(schema));
        assert!(
            schema.adds_to(&before),
            "an index of other names is another one"
        );
        let is_new = |column: &&Column| before.numbered(column.number).is_none();
        for column in schema.columns().iter().filter(is_new) {
            known.groups |= 1 << column.first_group | 1 << column.group;
        }
    }

    /// Whether cells may be in any group.
    pub(crate) fn is_anywhere(&self) -> bool {
        self.known.lock().to == ANYWHERE
    }

    /// Finds the groups in which cells are: those of a view, and those that they are moved out of
    /// after `after`, the position of the index, and before it.
    ///
    /// # Errors
    /// Damage on disk, by file and offset.
    pub(crate) fn find_groups(
        &self,
        (view, moves): (&BaseView, &ColumnMoves),
        after: Position,
    ) -> Result<()> {
        let mut known = self.known.lock();
        if known.to == ANYWHERE {
            let schema = self.schema();
            let named = schema.columns().iter().filter(|column| self.has(column));
            let groups = groups_in_all(&schema, named, moves);
            *known = KnownGroups {
                groups: groups | moved_groups(view, after)?,
                to: view.position(),
            };
        }
        Ok(())
    }

    /// The groups in which cells are in views up to this one.
    fn groups_up_to(&self, view: &BaseView) -> Result<u16> {
        loop {
            let KnownGroups { groups, to } = *self.known.lock();
            if to >= view.position() {
                return Ok(groups);
            }
            let moved = match seeded(Bug::IndexedGroupMissed) {
                true => 0,
                false => moved_groups(view, to)?,
            };
            let mut known = self.known.lock();
            if known.to == to {
                known.groups |= moved;
                known.to = view.position();
            }
        }
    }

    /// Whether a column is indexed, or a part of it.
    fn has(&self, column: &Column) -> bool {
        !column.family && self.fields.includes_part_of(&column.name)
    }

    /// What is read of the rows of a view.
    ///
    /// # Errors
    /// Damage on disk, by file and offset.
    pub(crate) fn row_fields(&self, view: &BaseView) -> Result<RowFields> {
        let groups = self.groups_up_to(view)?;
        let fields = [&self.fields].into_iter();
        Ok(RowFields::new(
            &self.schema(),
            &self.key_field,
            fields,
            groups,
        ))
    }
}

/// The groups between which records after a position, up to a view, move cells.
fn moved_groups(view: &BaseView, after: Position) -> Result<u16> {
    let mut groups = 0;
    for item in view.log_from(after.next()) {
        let (position, bytes) = item?;
        if !Kind::moves_column(&bytes) {
            continue;
        }
        let refused = |what| quire_store::Error::derived(position, what);
        let (_, changes) = record::decode(&bytes).map_err(refused)?;
        for moved in changes.iter().filter_map(CellChange::progress) {
            groups |= 1 << moved.from | 1 << moved.to;
        }
    }
    Ok(groups)
}

impl RowFields {
    /// What indexes of these fields read of rows, from these groups.
    pub(crate) fn new<'f>(
        schema: &Arc<Schema>,
        key_field: &str,
        fields: impl Iterator<Item = &'f IndexedFields> + Clone,
        groups: u16,
    ) -> RowFields {
        let is_read = |column: &&Column| {
            let mut fields = fields.clone();
            !column.family && fields.any(|fields| fields.includes_part_of(&column.name))
        };
        let named = schema.columns().iter().filter(is_read);
        let mut numbers: Vec<u32> = named.map(|column| column.number).collect();
        let is_undeclared = |path: &str| !prefixes(path).any(|name| schema.column(name).is_some());
        let names_others = |fields: &IndexedFields| {
            let mut named = fields.exceptions().filter(|(_, indexed)| *indexed);
            fields.by_default() || named.any(|(path, _)| is_undeclared(path))
        };
        if schema.keeps_undeclared() && fields.clone().any(names_others) {
            numbers.push(0);
        }
        numbers.sort_unstable();
        RowFields {
            schema: Arc::clone(schema),
            key_field: key_field.to_string(),
            numbers,
            groups,
        }
    }

    /// Whether cells of a column are read.
    pub(crate) fn has(&self, column: u32) -> bool {
        self.numbers.binary_search(&column).is_ok()
    }

    /// What tells documents of these columns from those of others.
    pub(crate) fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for number in &self.numbers {
            let column = self.schema.numbered(*number);
            column.map(|column| &column.name).hash(&mut hasher);
        }
        hasher.finish()
    }
}

/// The groups in which cells of some columns, and undeclared fields, are.
pub(crate) fn groups_in_all<'c>(
    schema: &'c Schema,
    columns: impl Iterator<Item = &'c Column>,
    moves: &ColumnMoves,
) -> u16 {
    let rest = schema.keeps_undeclared().then(rest_column);
    let groups = columns
        .chain(rest)
        .flat_map(|column| moves.groups_in_all(column));
    groups.flatten().fold(0, |mask, group| mask | 1 << group)
}

impl Schema {
    /// Whether rows that were written by an older schema make the same documents by this one: its
    /// columns have the names that they had.
    #[must_use]
    pub fn adds_to(&self, before: &Schema) -> bool {
        let kept = before.columns.iter().all(|column| {
            self.numbered(column.number)
                .is_some_and(|now| now.name == column.name)
        });
        // A new column may have the name of a field that was kept undeclared.
        let adds = self.columns.len() > before.columns.len();
        let rest = self.keeps_rest || before.keeps_rest;
        kept && !(rest && (adds || self.keeps_rest != before.keeps_rest))
    }

    /// Whether rows make the same documents by the two, whenever they are written.
    #[must_use]
    pub fn has_columns_of(&self, other: &Schema) -> bool {
        self.adds_to(other) && self.columns.len() == other.columns.len()
    }

    /// Whether rows make the same documents by the two, as far as both have their columns.
    pub(crate) fn is_like(&self, other: &Schema) -> bool {
        self.adds_to(other) || other.adds_to(self)
    }

    /// Refuses a search index of fields that can't be indexed.
    ///
    /// # Errors
    /// `Invalid` for a family, or what is below one.
    pub fn check_index(&self, fields: &IndexedFields) -> Result<()> {
        let mut named = fields.exceptions().filter(|(_, indexed)| *indexed);
        match named.find_map(|(path, _)| self.family_of(path)) {
            None => Ok(()),
            Some(family) => Err(Error::Invalid(format!(
                "index: column {family:?} is a family, which has no search index: name plain \
                 columns"
            ))),
        }
    }

    /// The family that a path of documents is in, if it may be in one.
    pub(crate) fn family_of(&self, path: &str) -> Option<&str> {
        let mut columns = prefixes(path).filter_map(|name| self.column(name));
        let family = columns.find(|column| column.family)?;
        Some(&family.name)
    }
}

/// The names of fields that a dotted path may be in: names may have dots of their own.
fn prefixes(path: &str) -> impl Iterator<Item = &str> {
    let dots = path.match_indices('.').map(|(at, _)| at);
    dots.chain([path.len()]).filter_map(|end| path.get(..end))
}
