//! The rows that are measured: cells of bytes that do not compress, made of their row and version.

use crate::Result;
use quiredb::wide::{Cell, Change, ColumnType, Group, RowWrite, Schema, WideCollection};
use quiredb::{CollectionSettings, Database, Durability, Key, Medium};

/// The key of a row.
pub(super) fn key(row: u64) -> Result<Key> {
    Ok(Key::parse(&format!("page-{row:08}"))?)
}

/// The cell of a row's column at a version.
pub(super) fn bytes(row: u64, column: u64, version: u64, length: usize) -> Vec<u8> {
    let mut random = Random::new(row << 24 ^ column << 20 ^ version);
    let mut out = Vec::with_capacity(length + 8);
    while out.len() < length {
        out.extend_from_slice(&random.next().to_le_bytes());
    }
    out.truncate(length);
    out
}

/// Numbers in an order that has none (Marsaglia 2003, xorshift).
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random((seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(super) fn below(&mut self, count: u64) -> u64 {
        (self.next() >> 11) % count.max(1)
    }
}

/// Columns of bytes: name, group, and the tier of the group.
pub(super) fn schema(columns: &[(&str, &str, Medium)]) -> Result<Schema> {
    let mut schema = Schema::new();
    for (name, group, tier) in columns {
        let known = schema.groups().iter().find(|known| known.name == *group);
        match known.map(|known| known.tier) {
            Some(known) if known == Some(*tier) => {}
            Some(_) => return Err(format!("the group {group} has another tier").into()),
            None => {
                schema = schema.with_group(Group {
                    tier: Some(*tier),
                    ..Group::new(*group)
                })?;
            }
        }
        schema = schema.with_column(name, ColumnType::Bytes, group)?;
    }
    Ok(schema)
}

/// A collection whose writes are not synced one by one.
pub(super) fn create(
    database: &Database,
    name: &str,
    schema: Schema,
    partitions: u32,
) -> Result<WideCollection> {
    let settings = CollectionSettings {
        partitions,
        durability: Durability::None,
        ..CollectionSettings::default()
    };
    Ok(database.create_wide_collection(name, schema, settings)?)
}

/// Sets cells of a row at a version: column, its number, and its length.
pub(super) fn write(
    pages: &WideCollection,
    row: u64,
    version: u64,
    columns: &[(&str, u64, usize)],
) -> Result<()> {
    let changes = columns.iter().map(|(name, column, length)| {
        Change::set(*name, Cell::Bytes(bytes(row, *column, version, *length)))
    });
    pages.write(&RowWrite::upsert(key(row)?).with_all(changes))?;
    Ok(())
}

/// Reads a cell, and compares it with what was written at a version.
pub(super) fn check(
    pages: &WideCollection,
    row: u64,
    version: u64,
    column: (&str, u64, usize),
) -> Result<()> {
    let cell = pages.cell(&key(row)?, column.0, None)?;
    match cell {
        Some(Cell::Bytes(found)) if found == bytes(row, column.1, version, column.2) => Ok(()),
        _ => Err(format!("row {row}: column {} is not what was written", column.0).into()),
    }
}
