//! The audit log: who was admitted, who was refused, and who changed what, as lines of JSON.
//!
//! # Invariants
//! 1. A line has no secret: of a token it has the name.
//! 2. One request or connection adds a bounded number of lines, whatever it names.

mod event;
mod log;
mod noted;

pub(crate) use event::{Event, Peer};
pub use log::Audit;
pub(crate) use noted::AuditedGrant;
