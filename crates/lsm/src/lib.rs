//! Ordered log-structured merge trees: bytewise keys, values of bytes, and operands that a
//! [`Merger`] folds.
//!
//! This crate is mechanism. It has no log, no manifest and no threads: the store above it owns the
//! writer lock, the manifest and the schedule, and calls [`Tree`].
//!
//! ```text
//!  write(key, position, op)                                 get / scan at a position
//!        │                                                        ▲
//!        ▼            freeze                flush                 │  newest first
//!  active memtable ──────────► frozen memtables ──► run ─► run ─► run      (runs of table files)
//!   many versions per key                            one version per key, no positions
//! ```
//!
//! # Invariants
//! 1. A key's newest state lies in the newest place that names it: active memtable, frozen
//!    memtables, runs, each newest first. Merge operands stack: each place holds at most one entry
//!    for a key at a position, and the fold of the entries from the newest down to the first value
//!    or tombstone is the key's state.
//! 2. Versions live in memtables only. A [`TreeSnapshot`] pins the memtables and runs that were
//!    current when it was taken, so a flush or a compaction keeps one version per key and needs
//!    not know of readers.
//! 3. A table file is written once, synced with its directory, and only then named by a
//!    [`TreeEdit`]. It is deleted when an installed edit has replaced it and the last snapshot that
//!    holds it is gone.
//! 4. Every byte read from a table file has passed its CRC-32C; the sum includes the file's own
//!    salt and the bytes' offset, so right bytes in the wrong place are refused too.
//!
//! # Example
//! ```
//! use quire_env::{BlockCache, Budget, Env, SimEnv, Volumes};
//! use quire_lsm::{FilterPager, Op, TableFiles, Tree, TreeContext, TreeSpec};
//! use quire_model::Position;
//! use std::sync::Arc;
//!
//! # fn main() -> quire_lsm::Result<()> {
//! let env: Arc<dyn Env> = SimEnv::new(1);
//! let files = TableFiles::new(Arc::clone(&env), Volumes::single("/db"), "tables".into(), 1);
//! let context = TreeContext {
//!     files: Arc::new(files),
//!     filters: FilterPager::new(Arc::clone(&env), 1 << 20),
//!     env,
//!     cache: BlockCache::new(1 << 20),
//!     budget: Budget::new(1 << 20),
//! };
//! let tree = Tree::open(TreeSpec::new(1, "rows"), context.clone(), Vec::new())?;
//! tree.write(b"a", Position(1), Op::Put(b"1"))?;
//! let before = tree.snapshot(Position(1));
//! tree.write(b"a", Position(2), Op::Delete)?;
//! tree.write(b"b", Position(2), Op::Put(b"2"))?;
//!
//! tree.freeze();
//! if let Some(edit) = tree.flush()? {
//!     let _runs = tree.preview(&edit); // goes into the manifest; when that is durable:
//!     tree.install(edit);
//! }
//! assert_eq!(before.get(b"a")?.as_deref(), Some(&b"1"[..]));
//!
//! let again = Tree::open(TreeSpec::new(1, "rows"), context, tree.runs())?;
//! let now = again.snapshot(Position(2));
//! assert_eq!(now.get(b"a")?, None);
//! assert_eq!(now.get(b"b")?.as_deref(), Some(&b"2"[..]));
//! # Ok(())
//! # }
//! ```

mod block_codec;
mod compaction;
mod deadline;
mod direction;
mod entry;
mod entry_kind;
mod error;
mod fences;
mod files;
mod fold;
mod memtable;
mod merge;
mod merger;
mod meta;
mod op;
mod pager;
mod range_deletions;
mod range_tombstones;
mod run;
mod small_bytes;
mod source;
mod spec;
mod table;
mod table_damage;
#[cfg(test)]
mod testing;
mod tier;
mod tree;
mod varint;

pub use block_codec::BlockCodec;
pub use compaction::{CompactionPolicy, Geometric, SpaceBounded};
pub use deadline::{DEADLINE_BYTES, wall_clock_micros};
pub use error::{Error, ErrorKind, Result};
pub use files::TableFiles;
pub use fold::ValueParts;
pub use merger::{BytesMerger, DynMerger, FoldBytes, MergeError, Merger};
pub use meta::{RunMeta, TableMeta};
pub use op::{KEY_BYTES_MAX, Op, VALUE_BYTES_MAX};
pub use pager::{FilterPager, FilterPagerStats};
pub use range_tombstones::RangeTombstones;
pub use small_bytes::SmallBytes;
pub use spec::{TreeContext, TreeSpec, filter_bits_per_key};
pub use table::{TableCheck, TableCopy, TablePieces, TableVerify, verify_table};
pub use table_damage::TableDamage;
pub use tier::Tier;
pub use tree::{
    Compaction, FoldedValue, Load, Scan, Superseded, Tree, TreeEdit, TreeReader, TreeSnapshot,
    TreeStats,
};
