//! A live partition of documents: what a record means, how a write is decided, and how documents
//! are read.
//!
//! Two trees serve the documents of a partition. `keys` gives a primary key's docid; `rows` gives a
//! docid's position in the log, where the document itself is: it is written once. An update moves
//! only the small `rows` entry; an index over docids need not change when a document's address
//! does.

mod check;
mod deletions;
mod documents;
mod error;
mod expired;
mod fitting;
mod index;
mod indexing;
mod lookup;
mod making_ready;
mod merging;
mod partition;
mod record;
mod retention;
mod rows;
mod salvage;
mod scan;
mod searching;
mod splitting;
mod triggers;
mod types;
mod view;
mod write;

pub use check::{Checked, Disagreement};
pub use deletions::Retained;
pub use documents::{Documents, Totals};
pub use error::{Error, ErrorKind, Result};
pub use partition::Partition;
pub use quire_search::{
    FieldFigures, FieldType, Fields, ID, IndexFigures, IndexSettings, IndexedFields, LiveShard,
    id_value,
};
pub use retention::{Retention, RetentionRule};
pub use rows::Rows;
pub use salvage::{Salvage, Salvaged, SalvagedIndex};
pub use scan::PartitionScan;
pub use triggers::Triggers;
pub use types::{Action, Change, Condition, Effect, Expiry, Found, Within, Write, Written};
pub use view::PartitionView;
