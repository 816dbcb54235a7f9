//! The record log: records in the order they were written, in segment files, each at a [`Position`]
//! that is its address for ever.
//!
//! ```
//! use quire_env::{BlockCache, OsEnv};
//! use quire_log::{Log, LogIdentity, LogOptions};
//! use std::sync::Arc;
//!
//! # let dir = tempfile::tempdir()?;
//! let cache = BlockCache::new(8 << 20);
//! let (identity, options) = (LogIdentity([7; 16]), LogOptions::default());
//! let (log, _) = Log::open(OsEnv::new()?, dir.path(), identity, cache, options)?;
//! let group = [b"a record".as_slice(), b"another, with it or not at all".as_slice()];
//! let first = log.append(&group)?;
//! log.sync(log.last())?; // now both survive any crash
//! assert_eq!(log.read(first)?.as_ref(), b"a record");
//! log.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Invariants
//! 1. Positions are dense, count from 1, and are never reused for other bytes once a `sync` up to
//!    them has returned.
//! 2. After a crash the log is a prefix of what was appended, and holds every record up to the last
//!    returned `sync`. A group of records is there whole or not at all: recovery cuts off a group
//!    whose last block is missing.
//! 3. No byte is served unless the checksums over it hold.
//! 4. A segment that has a successor is *sealed*. It never changes again, except that a footer cut
//!    short by a crash is rewritten. Its records were durable before the successor got its name,
//!    unless the log [rotates unsynced](LogOptions::rotate_unsynced) (see `unsynced.rs`).
//!    Compaction replaces sealed segments by one that holds fewer records, each under its own
//!    position (see `compact.rs`).
//! 5. What recovery finds is durable when [`Log::open`] returns, with one exception. If the disk is
//!    too full to make a proven copy of it, the log serves it before it is durable:
//!    [`Log::durable`] does not count it, and no `sync` or append succeeds until the disk has room.
//! 6. Before a record is accepted, disk space is reserved for it, for the header of its block, and
//!    for the footer of its segment. So a full disk refuses an append, and never breaks a
//!    write-out, a sync or a close.
//!
//! # Layout
//! A log is a directory of segment files, each named by the position of its first record (20
//! digits, `.log`):
//! ```text
//! | segment header | dictionary, if any | block | block | … | footer (a kind of block) | trailer |
//! ```
//! Only a clean close gives the newest segment its footer and trailer. No file is written by two
//! openings of a log: the first append rotates to a new segment. If the newest one is small, the
//! new segment replaces it and takes over its blocks. The bytes are drawn in the files that code
//! them: `header.rs`, `dictionary.rs`, `block.rs`, `records.rs`, `footer.rs`.
//!
//! # What a crash leaves, and what damage is
//! The newest segment may end in a *torn tail*: blocks that were not synced, of which a crash may
//! have dropped any sectors. Each block says how many bytes of the file were known durable when the
//! block was written. So an invalid block is *damage* if another block proves that it was durable:
//! that is an error, and the block is never cut off. An invalid block without such a proof is cut
//! off, with all that follows it. For the blocks of the last sync, which no block follows, a file
//! of its own says up to where the log is durable (`end_of_log.rs`). If that file is lost too, its
//! owner can still tell: it should keep the last position that it relies on, and compare it with
//! [`Recovery::last`].
//!
//! # Locks
//! `writer` guards the newest file; `pending` guards the records that are not in it yet. A thread
//! that needs both takes `writer` first. An append usually takes only `pending`, and no thread does
//! I/O while it holds that. A reader takes neither for records that are in a file.
//!
//! [`Position`]: quire_model::Position

mod compaction;
mod directory;
mod end_of_log;
mod error;
mod format;
mod log;
mod options;
mod reading;
mod recovery;
mod shared;
mod writing;

pub use compaction::compact::{Compacted, Keep, Room};
pub use compaction::copy::{SegmentCopy, SegmentPieces, SegmentsKept};
pub use compaction::fork::{Deal, Dealt, ForkTarget};
pub use compaction::info::SegmentInfo;
pub use error::{Error, ErrorKind, Result};
pub use format::header::segment_path;
pub use log::{Log, LogStats};
pub use options::{GROUP_BYTES_MAX, GROUP_RECORDS_MAX, LogIdentity, LogOptions, RECORD_BYTES_MAX};
pub use quire_pack::Codec;
pub use reading::scan::LogScan;
pub use reading::view::{LogReader, LogView};
pub use recovery::findings::{Finding, LogDamage, VerifySummary};
pub use recovery::inspect::Inspection;
pub use recovery::recover::Recovery;
pub use recovery::salvage::{identities, salvage};
pub use recovery::verify::verify;
