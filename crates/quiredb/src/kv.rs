//! Keys and values without documents: one ordered, durable tree in a directory of its own.
//!
//! ```
//! use quiredb::kv::{Kv, KvOptions};
//! # let dir = tempfile::tempdir()?;
//! let days = Kv::open(dir.path(), KvOptions::default())?;
//! days.put(b"sun", b"sunday")?;
//! assert_eq!(days.get(b"sun")?.as_deref(), Some(&b"sunday"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use quire_kv::{
    Batch, BulkLoad, Codec, Durability, Error, ErrorKind, Iter, KEY_BYTES_MAX, KeyRange, Kv,
    KvOptions, KvStats, LogCodec, MergeError, Merger, Result, SmallBytes, VALUE_BYTES_MAX, View,
    WriteOptions, Writer,
};
