//! The pipeline as its users see it.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test panics when it fails"
)]

mod faults;
mod policy;
mod properties;
