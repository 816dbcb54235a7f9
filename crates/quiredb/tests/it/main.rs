//! The public face, as programs use it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod directories;
mod error_sources;
mod replaced_volumes;
mod splits;
mod tiers;
mod volumes;
mod wide;
mod writes;
