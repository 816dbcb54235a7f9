//! Running requests: who sent each, what it does, since when; and how it is cancelled.
//!
//! # Invariants
//! 1. A request is listed from before its handler runs until its answer is made, or is sent if it
//!    is made while the client reads it. Work that goes on without its caller stays listed.
//! 2. What was cancelled before its end is answered as cancelled, never as whole.
//! 3. A caller sees and cancels the requests of its own token; one that may manage the database
//!    those of all.

pub(crate) mod action;
pub(crate) mod answering;
pub(crate) mod calls;
pub(crate) mod listed;
pub(crate) mod pools;
pub(crate) mod progress;
pub(crate) mod registry;
pub(crate) mod table;
pub(crate) mod task;
