//! Keys and values: one ordered, durable tree, without documents.
//!
//! A [`Kv`] is a directory. Keys are bytes, 1 to 64 KiB, in bytewise order; values are bytes, up to
//! 32 MiB. A write is durable when it is acknowledged, unless [`Durability`] says otherwise; a
//! [`Batch`] survives a crash whole or not at all. Reads take no lock, and a [`View`] is one
//! consistent state.
//!
//! ```
//! use quire_kv::{Batch, Kv, KvOptions};
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("stock");
//!
//! let stock = Kv::open(&path, KvOptions::default())?;
//! stock.put(b"apple", b"12")?;
//! stock.put(b"pear", b"7")?;
//!
//! let before = stock.view()?;
//! let mut batch = Batch::new();
//! batch.put(b"banana", b"30")?;
//! batch.delete(b"pear")?;
//! stock.write(&batch)?;
//!
//! assert_eq!(stock.get(b"banana")?.as_deref(), Some(&b"30"[..]));
//! assert_eq!(stock.get(b"pear")?, None);
//! assert_eq!(before.get(b"pear")?.as_deref(), Some(&b"7"[..]));
//!
//! let keys = stock.range_rev("b"..)?.map(|pair| Ok(pair?.0));
//! assert_eq!(keys.collect::<quire_kv::Result<Vec<_>>>()?.len(), 1);
//! stock.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Invariants
//! 1. A write is one record of the log; applying it needs nothing else. The log is a write-ahead
//!    log: what the tree's files hold is dropped from it.
//! 2. What the tree would refuse is refused before the log has it.

mod batch;
mod directory;
mod error;
mod kv;
mod lease;
mod load;
mod merging;
mod opening;
mod options;
mod pairs;
mod range;
mod read;
mod record;
mod stats;
mod verify;
mod writer;

#[cfg(test)]
mod tests;

pub use batch::Batch;
pub use directory::MARKER_NAME;
pub use error::{Error, Result};
pub use kv::Kv;
pub use load::BulkLoad;
pub use options::KvOptions;
pub use range::KeyRange;
pub use read::{Iter, View};
pub use record::VALUE_BYTES_MAX;
pub use stats::KvStats;
pub use verify::verify;
pub use writer::{WriteOptions, Writer};

pub use quire_log::Codec as LogCodec;
pub use quire_lsm::{
    BlockCodec as Codec, BytesMerger as Merger, KEY_BYTES_MAX, MergeError, SmallBytes,
};
pub use quire_store::{Damage, Durability, ErrorKind, Verified};
