//! A partition of wide documents: rows of declared columns, whose cells lie in column groups.
//!
//! ```text
//!  key ──► keys ──► docid ──► rows   version, groups that have cells
//!                         ├─► names  the key
//!                         └─► group trees: docid, column, member ──► cell
//!  expiries: time, docid, column, member
//! ```
//! A group has two trees, a hot one and a cold one, which is empty unless the group has two tiers.
//!
//! # Invariants
//! 1. A record of the log is the change of one row, in any number of groups. So a view and a crash
//!    show all of it or nothing.
//! 2. `apply` reads nothing. The record says which groups have cells that a put or a delete clears.
//! 3. Cells live in their trees, once: the log is a write-ahead log, kept for longer only for those
//!    who tail it (see `tail.rs`).
//! 4. A docid is of one row and is not used again, so cells are never another row's.
//! 5. The cells of a row in a group are all in one of the group's two trees: its entry in `rows`
//!    says which. A move between them is one record, which has the cells.
//! 6. Each cell that expires has an entry under its time in `expiries`. One that has expired is
//!    none to readers and writers; a pass removes it by a record.
//! 7. A column that moves to another group has the cells before one place, a part of the machine's
//!    state, in the new group, and all others in the old one (see `column_moves.rs`).
//! 8. A partition that was split off another one has its rows under the docids and versions that
//!    they had there (see `splitting.rs`). One that others were merged into has their rows under
//!    docids and versions of its own (see `gathering.rs`).

mod adopting;
mod cell;
mod cell_key;
mod check;
mod column_moves;
mod column_notes;
mod column_scan;
mod column_work;
mod docids;
mod document;
mod error;
mod expiry;
mod expiry_key;
mod expiry_work;
mod gathered_log;
mod gathering;
mod group_scan;
mod group_tiers;
mod indexed_columns;
mod indexed_rows;
mod indexing;
mod kept_log;
mod log_retention;
mod log_splitting;
mod machine;
mod many;
mod merging;
mod moves;
mod operand;
mod ordinals;
mod partition;
mod record;
mod row;
mod row_change;
mod row_index;
mod row_index_work;
mod row_scan;
mod row_write;
mod salvage;
mod schema;
mod schema_json;
mod searching;
mod splitting;
mod stored;
mod tail;
mod tier_work;
mod tiers;
mod tree_scan;
mod triggers;
mod varint;
mod view;
mod write;

#[cfg(test)]
mod tests;

pub use cell::{CELL_BYTES_MAX, Cell};
pub use cell_key::MEMBER_BYTES_MAX;
pub use column_scan::{ColumnBatch, ColumnScan};
pub use column_work::{ColumnProgress, ColumnStep};
pub use error::{Error, ErrorKind, Result};
pub use expiry::{ExpiryPass, ExpiryStep};
pub use gathering::{Gathered, Merge, OnMark};
pub use group_tiers::{GroupTiers, parse_age};
pub use machine::Totals;
pub use many::WideWithin;
pub use moves::{TierPass, TierStep};
pub use operand::Operand;
pub use partition::WidePartition;
pub use row_change::{CellEvent, RowAction, RowCell, RowChange};
pub use row_index_work::WideIndex;
pub use row_scan::RowScan;
pub use row_write::{CellExpiry, Change, Condition, Effect, RowWrite, Written};
pub use salvage::{Salvaged, WideSalvage};
pub use schema::{Column, ColumnType, GROUPS_MAX, Group, GroupCodec, REST, Schema};
pub use splitting::{Dealt, OwnerOf};
pub use tail::RowTail;
pub use tier_work::TierFigures;
pub use triggers::Triggers;
pub use view::{Members, RowCells, WideFound, WideView};
