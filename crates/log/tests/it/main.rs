//! The log under test: against a model, crashes, damage, full disks and threads.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that fails should stop where it does"
)]

mod basics;
mod compact;
mod crash;
mod damage;
mod model;
mod salvage;
mod space;
mod support;
mod threads;
mod unsynced;
