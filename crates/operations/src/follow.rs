//! Following: a database that is a copy of another one, the leader, and stays one.
//!
//! A follower begins with a copy of the leader's files as of one moment, as a backup is
//! (`copy.rs`), and then takes the records that come after it, partition by partition (`leader.rs`
//! sends them, `replica.rs` takes them). This module knows no sockets: its caller
//! has one, and passes the bytes on.
//!
//! # Invariants
//! 1. Only what is durable at the leader goes out, so no crash of the leader makes a follower
//!    differ from it.
//! 2. A follower's log has the leader's records at the leader's positions, without a gap. Its own
//!    log is compacted as any is.
//! 3. When the two connect, they compare the database's id, its collections, and records that the
//!    follower has. If anything differs, or the follower has more, nothing is changed:
//!    [`Error::Diverged`](quire_database::Error::Diverged).
//! 4. If the leader's log no longer has what comes next, the follower starts over from a new copy.
//!    The old one is served until the new one is whole.
//! 5. No byte of the leader's is used before its checksum was compared.

mod copy;
mod cursor;
mod dir;
mod hello;
mod leader;
mod replica;
mod wire;

#[cfg(test)]
mod tests;

pub use copy::{IncomingCopy, LeaderCopy, copy_for_follower};
pub(crate) use cursor::{Cursor, Verdict};
pub use dir::FollowerDir;
pub use leader::{LeaderStream, serve_follower};
pub use replica::{Applied, Lag, Replica};
pub use wire::{Frame, Head, Records};
