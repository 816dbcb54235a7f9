//! Builds an index anew from the begin of its source, beside the one in use, and switches to it.
//!
//! # Invariants
//! 1. **Every setting is put back.** What a setting was is durable in the journal before the
//!    setting is changed, so a kill at any moment leaves what the next run, or `clean`, needs.
//! 2. **What somebody else changed meanwhile is left alone**, and said.
//! 3. **The alias moves at one moment**, to an index that is level with the source, and what was
//!    committed around that moment is in it afterwards.
//! 4. **Nothing is lost with a node.** While an index is filled its log is not synced. A primary
//!    shard that begins again shows by its term; then the index is filled again from the begin.

mod build;
mod clean;
mod cluster;
mod command;
mod facts;
mod follow;
mod history;
mod journal;
mod plan;
mod record;
mod release;
mod sample;
mod session;
mod set;
mod settings;
mod switch;
mod verify;

pub use command::{Reindex, ReindexStatus};
pub use journal::Said;
pub use plan::{Plan, PlannedChange, PlannedDisk};
pub use record::{Place, Step};
pub use session::ReindexEvent;
pub use verify::{Difference, Verification};
