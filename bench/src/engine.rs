//! The engines under measurement, behind what the phases need of them.
//!
//! All store the same text under the same key. What each does beside that is its own: Quire parses
//! a document into its encoding and gives JSON text back; the others keep the text, after a parse
//! that checks it and finds its key.

mod fjall;
mod quire;
mod sqlite;

use crate::Result;
use crate::corpus::Batch;
use std::path::Path;

pub(crate) use fjall::Fjall;
pub(crate) use quire::Quire;
pub(crate) use sqlite::Sqlite;

/// Which engine.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    clap::ValueEnum,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Name {
    /// Quire, in this process.
    Quire,
    /// SQLite: a table of key and text, write-ahead log.
    Sqlite,
    /// fjall: an LSM-tree of key and text.
    Fjall,
}

impl Name {
    /// As in reports and arguments.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Name::Quire => "quire",
            Name::Sqlite => "sqlite",
            Name::Fjall => "fjall",
        }
    }
}

/// An engine with a database open.
pub(crate) trait Engine: Sized + Sync {
    /// What a thread reads through.
    type Reader<'a>: Reader
    where
        Self: 'a;

    /// Opens the database in `dir`, or makes one. `memory_bytes`: half of it is for caching blocks
    /// or pages, a quarter for memtables, where an engine has them.
    fn open(dir: &Path, memory_bytes: u64) -> Result<Self>;

    /// Writes a batch. If `durable`, it survives a crash of the machine when this returns; if not,
    /// that of the process.
    fn write(&self, batch: &Batch, durable: bool) -> Result<()>;

    /// For one thread, of `readers`.
    fn reader(&self, readers: u64) -> Result<Self::Reader<'_>>;

    /// Returns once everything written survives a crash of the machine.
    fn sync(&self) -> Result<()>;

    /// Ends cleanly.
    fn close(self) -> Result<()>;
}

/// Reads, one at a time.
pub(crate) trait Reader {
    /// Hands the text under `key` to `found`; false if there is none.
    fn get(&mut self, key: &str, found: &mut dyn FnMut(&[u8])) -> Result<bool>;
}
