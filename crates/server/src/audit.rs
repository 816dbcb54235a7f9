//! The audit log: who was admitted, who was refused, and who changed what, as lines of JSON.
//!
//! # Invariants
//! 1. No request waits for the disk: a line that finds the queue full is lost, and counted.
//! 2. The files are bounded: [`AuditOptions::bytes_max`] each, [`AuditOptions::files_max`] of them.
//! 3. A line has no secret: of a token it has the name.

mod event;
mod file;
mod log;

pub(crate) use event::{Event, Peer};
pub use file::AuditOptions;
pub use log::{Audit, AuditError};
