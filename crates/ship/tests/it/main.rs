//! Ships through faults, and compares the sink with the source.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "the fake server is on the real machine, and tests panic when they fail"
)]

mod fake;
mod fake_cluster;
mod faults;
mod files;
mod folder;
mod letters;
mod moved;
mod own;
mod place;
mod polled;
mod reindex;
mod split;
mod table;
mod wire;
