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
//! let (log, _) = Log::open(OsEnv::new()?, dir.path(), LogIdentity([7; 16]), cache, LogOptions::default())?;
//! let first = log.append(&[b"a record".as_slice(), b"another, with it or not at all".as_slice()])?;
//! log.sync(log.last())?; // now both survive any crash
//! assert_eq!(log.read(first)?.as_ref(), b"a record");
//! log.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Invariants
//! 1. Positions are dense, counted from 1, and never reused for other bytes once a `sync` that
//!    covers them has returned.
//! 2. After a crash the log is a prefix of what was appended, and holds all that a returned `sync`
//!    covered. A group is there whole or not at all: recovery cuts off one whose last block is
//!    missing.
//! 3. No byte is served unless the checksums over it hold.
//! 4. A segment that has a successor is *sealed*: its records were durable before the successor had
//!    its name (unless the log is rotate_unsynced: `unsynced.rs`), and it never changes again, but for a footer
//!    that a crash cut short. Compaction replaces sealed segments by one that holds fewer records,
//!    each under its own position (`compact.rs`).
//! 5. What recovery finds is durable when [`Log::open`] returns. Only where the disk is too full to
//!    prove it, it is served before it is: [`Log::durable`] does not count it, and no `sync` or
//!    append succeeds until there was room.
//! 6. Room on disk for every accepted record, its block's header, and the footer of its segment is
//!    reserved before the record is accepted: a full disk refuses an append, and does not break a
//!    write-out, a sync or a close.
//!
//! # Layout
//! A log is a directory of segment files, each named by the position of its first record (20
//! digits, `.log`):
//! ```text
//! | segment header | dictionary, if it has one | block | block | … | footer (a block of its own kind) | trailer |
//! ```
//! The newest segment has footer and trailer only after a clean close. No file is written by two
//! openings of a log: the first append goes over to a new segment, one that takes the place and the
//! blocks of the newest if that is small. Bytes are drawn in the files that code them: `header.rs`,
//! `dictionary.rs`, `block.rs`, `records.rs`, `footer.rs`.
//!
//! # What a crash leaves, and what damage is
//! The newest segment may end in a *torn tail*: blocks not yet synced, any sectors of which may be
//! missing. Each block says how far the file was known durable when the block was written, so an
//! invalid block that another block proves to have been durable is *damage*, an error and never
//! cut; one that none does is cut, with all after it. One case can't be told from a tail: damage to
//! the blocks of the last sync before a crash, with nothing written after them, found at the first
//! opening after it. Nor can a log that lost its newest bytes or files whole know it: its owner
//! should keep the last position that it relies on, and compare it with [`Recovery::last`].
//!
//! # Locks
//! `writer` (the newest file), then `pending` (records not yet in it). An append takes `pending`
//! alone as a rule; no disk is touched under it. Readers take neither for records that are in a
//! file.
//!
//! [`Position`]: quire_model::Position

mod compaction;
mod directory;
mod error;
mod format;
mod log;
mod options;
mod reading;
mod recovery;
mod shared;
mod writing;

pub use compaction::compact::{Compacted, Keep};
pub use compaction::copy::{SegmentCopy, SegmentPieces, SegmentsKept};
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
