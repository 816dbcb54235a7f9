//! The library of the whole-system tests. Nothing here is part of Quire.

#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests fail by panicking"
)]

pub mod fuzz;
pub mod http;
pub mod sim;
pub mod torture;
pub mod words;
