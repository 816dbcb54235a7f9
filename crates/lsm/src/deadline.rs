//! Deadlines: values that are there until a moment, and not from then on.
//!
//! # Layout
//! ```text
//! | deadline (8 bytes, little-endian) | value … |
//!   microseconds since 1970 UTC by the machine's wall clock
//! ```
//! An entry of [`EntryKind::PutUntil`](crate::entry_kind::EntryKind) has this in place of a value,
//! in memtables and in blocks. From the deadline on, reads take it for a tombstone, and a flush or
//! a compaction writes a tombstone in its place, so that nothing older shows. If the clock goes
//! back, an entry that is not a tombstone yet is a value again.

use crate::{Error, Result};
use quire_env::Env;

/// Bytes of a deadline.
pub const DEADLINE_BYTES: usize = 8;

/// Microseconds since 1970 UTC, now; 0 for a clock that is before.
pub fn wall_clock_micros(env: &dyn Env) -> u64 {
    u64::try_from(env.now_micros()).unwrap_or(0)
}

/// Deadline and value of an entry. One that is too short, which no block or memtable has, is past
/// and empty.
pub(crate) fn split(timed: &[u8]) -> (u64, &[u8]) {
    match timed.split_first_chunk::<DEADLINE_BYTES>() {
        Some((deadline, value)) => (u64::from_le_bytes(*deadline), value),
        None => (0, &[]),
    }
}

/// Refuses what has no room for a deadline.
pub(crate) fn check(tree: &str, timed: &[u8]) -> Result<()> {
    match timed.len() >= DEADLINE_BYTES {
        true => Ok(()),
        false => Err(Error::InvalidArgument(format!(
            "tree {tree}: a deadline of {} bytes",
            timed.len()
        ))),
    }
}

/// By what clock a reader looks.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Clock<'a> {
    /// That of when a snapshot was taken.
    Stopped(u64),
    /// The machine's.
    Running(&'a dyn Env),
}

impl Clock<'_> {
    /// Microseconds since 1970 UTC.
    pub(crate) fn micros(self) -> u64 {
        match self {
            Clock::Stopped(micros) => micros,
            Clock::Running(env) => wall_clock_micros(env),
        }
    }
}
