//! Databases, collections and views.
//!
//! A [`Database`] is a directory of [`Collection`]s; a collection holds JSON documents by primary
//! key, spread over partitions. Programs use this crate through `quiredb`, which chooses what of it
//! is public. The crate of operations (backup, restore, verify, repair, follow, freeze) is built on
//! it too, and needs more: the modules [`catalog`], [`directory`], [`engine`] and
//! [`volumes`].

mod alias;
mod api_settings;
mod attached;
mod batch;
mod builder;
pub mod catalog;
mod catalog_aliases;
mod cell_expiry;
mod codec;
mod collection;
mod collection_state;
mod column_moving;
mod coprocessors;
mod cursor;
mod damage;
mod database;
pub mod directory;
pub mod engine;
mod error;
mod field_ends;
mod field_stats;
mod fields;
mod frozen;
mod frozen_database;
mod frozen_fields;
mod frozen_view;
mod indexed_fields;
mod layout;
mod log_retention;
mod mapping;
mod one_key;
mod options;
mod part_rows;
mod partition_job;
mod partitions_before;
mod partitions_progress;
mod query;
mod query_scan;
mod retention;
mod run_code;
mod scan;
mod scrub;
mod seen;
mod settings;
mod stats;
mod stored_code;
mod tail;
mod templates;
mod tiering;
mod triggers;
mod typed;
mod usage;
mod view;
pub mod volumes;
mod wide;
mod wide_batch;
mod wide_database;
mod wide_found;
mod wide_layout;
mod wide_tail;
mod write;
mod write_gate;
mod write_rates;

#[cfg(test)]
mod tests;

pub use alias::{Alias, AliasChange, Aliases, Resolved};
pub use api_settings::ApiSettings;
pub use batch::Batch;
pub use builder::DatabaseBuilder;
pub use catalog::{StoredTrigger, Templates};
pub use codec::Codec;
pub use collection::Collection;
pub use coprocessors::CoprocessorInfo;
pub use cursor::{expand_cursor, is_at_or_before};
pub use damage::Damage;
pub use database::Database;
pub use error::{Error, ErrorKind, Result};
pub use field_stats::{CollectionFields, FieldStats, FieldType};
pub use frozen::FrozenCollection;
pub use frozen_view::{FrozenDocument, FrozenView, Origin};
pub use layout::partition_of;
pub use mapping::{FieldKind, Mapping, MappingError, Violation};
pub use options::DatabaseOptions;
pub use partitions_progress::{PartitionsProgress, PartitionsStage};
pub use query::Page;
pub use quire_collection::{ID, IndexedFields};
pub use run_code::{CodeRun, Produced, RunOptions};
pub use scan::Scan;
pub use seen::Seen;
pub use settings::{CollectionSettings, check_name};
pub use stats::{
    CollectionStats, ColumnMoveStats, DatabaseStats, FilterStats, GroupStats, IndexStats, IoStats,
    ScrubStats, TierStats, VolumeStats,
};
pub use tail::{Logged, Tail};
pub use triggers::TriggerInfo;
pub use typed::{from_document, to_document};
pub use usage::{Opened, Usage, Use, UseFigures, Using};
pub use view::View;
pub use wide::{ColumnReport, TierReport, WideCollection, WideRows, WideScan};
pub use wide_batch::WideBatch;
pub use write::WriteBuilder;
pub use write_rates::WriteRates;
