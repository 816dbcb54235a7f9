//! A partition of wide documents: rows of declared columns, whose cells lie in column groups.
//!
//! ```text
//!  key ──► keys ──► docid ──► rows   version, groups that have cells
//!                         ├─► names  the key
//!                         └─► group trees: docid, column, member ──► cell
//! ```
//! A group has two trees, a hot one and a cold one, which is empty unless the group has two tiers.
//!
//! # Invariants
//! 1. A record of the log is the change of one row, in any number of groups. So a view and a crash
//!    show all of it or nothing.
//! 2. `apply` reads nothing. The record says which groups have cells that a put or a delete clears.
//! 3. Cells live in their trees, once: the log is a write-ahead log and no more.
//! 4. A docid is of one row and is not used again, so cells are never another row's.
//! 5. The cells of a row in a group are all in one of the group's two trees: its entry in `rows`
//!    says which. A move between them is one record, which has the cells.

mod cell;
mod cell_key;
mod check;
mod column_scan;
mod document;
mod error;
mod group_scan;
mod group_tiers;
mod machine;
mod merging;
mod moves;
mod operand;
mod partition;
mod record;
mod row;
mod row_scan;
mod row_write;
mod salvage;
mod schema;
mod schema_json;
mod tier_work;
mod tiers;
mod triggers;
mod varint;
mod view;
mod write;

#[cfg(test)]
mod tests;

pub use cell::{CELL_BYTES_MAX, Cell};
pub use cell_key::MEMBER_BYTES_MAX;
pub use column_scan::{ColumnBatch, ColumnScan};
pub use error::{Error, ErrorKind, Result};
pub use group_tiers::GroupTiers;
pub use machine::Totals;
pub use moves::{TierPass, TierStep};
pub use operand::Operand;
pub use partition::WidePartition;
pub use row_scan::RowScan;
pub use row_write::{Change, Condition, Effect, RowWrite, Written};
pub use salvage::{Salvaged, WideSalvage};
pub use schema::{Column, ColumnType, GROUPS_MAX, Group, GroupCodec, REST, Schema};
pub use tier_work::TierFigures;
pub use triggers::Triggers;
pub use view::{Members, WideFound, WideView};
