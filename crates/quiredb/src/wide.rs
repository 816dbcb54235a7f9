//! Wide documents: rows of declared columns, which lie in column groups and are read apart.
//!
//! A [`WideCollection`] is made by [`Database::create_wide_collection`] of a [`Schema`].
//!
//! [`Database::create_wide_collection`]: crate::Database::create_wide_collection

pub use quire_database::{ColumnReport, TierReport, WideBatch, WideCollection, WideRows, WideScan};
pub use quire_wide::{
    CELL_BYTES_MAX, Cell, CellEvent, CellExpiry, Change, Column, ColumnBatch, ColumnType,
    Condition, Error, GROUPS_MAX, Group, GroupCodec, GroupTiers, MEMBER_BYTES_MAX, Members,
    Operand, REST, Result, RowAction, RowCell, RowCells, RowChange, RowWrite, Schema, parse_age,
};
