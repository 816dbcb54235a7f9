//! What one client address, and one token, may take of the server in a second and at once.
//!
//! # Invariants
//! 1. A request over a limit does nothing, and is told when to come again.
//! 2. Bytes are counted when they have passed: one request may exceed the rate, the next one waits.
//! 3. Memory is bounded: an account that owes nothing is forgotten, and beyond a number of accounts
//!    new ones are shared.

mod account;
mod book;
mod caller;
mod client;
mod rule;

pub(crate) use book::{Connected, Limits, Over, Searching, Share};
pub(crate) use caller::Caller;
pub(crate) use client::Client;
pub use rule::Limit;
