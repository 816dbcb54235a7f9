//! The engines that run in this program, behind what the phases need of them.

mod fjall;
mod quire;
mod redb;

use super::stream::{Key, Value};
use crate::Result;
use std::path::Path;

pub(super) use fjall::Fjall;
pub(super) use quire::{Quire, QuireLoad};
pub(super) use redb::Redb;

/// The sizes that all engines get.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    pub(super) memtable_bytes: u64,
    pub(super) cache_bytes: u64,
}

/// What a scan hands each row to: key, value.
pub(super) type Row<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<()>;

/// An engine with a database open.
pub(super) trait Engine: Sized + Sync {
    /// Opens the database in `dir`, or makes one: with these sizes, filters of 10 bits a key where
    /// it has them, and no compression; or, without sizes, with its own defaults.
    fn open(dir: &Path, sizes: Option<Sizes>) -> Result<Self>;

    /// Hands a writer to `work`; one transaction, if an engine has no cheaper way to write.
    fn write(&self, work: &mut dyn FnMut(&mut dyn Writer) -> Result<()>) -> Result<()>;

    /// For one thread.
    fn reader(&self) -> Result<Box<dyn Reader + '_>>;

    /// Hands every row to `row`, in the order of keys.
    fn scan(&self, row: Row<'_>) -> Result<()>;

    /// Flushes what is in memory, and returns then.
    fn settle(&self) -> Result<()>;

    /// Ends cleanly.
    fn close(self) -> Result<()>;
}

/// Reads, one at a time.
pub(super) trait Reader {
    /// Hands the value under `key` to `found`; false if there is none.
    fn get(&mut self, key: &Key, found: &mut dyn FnMut(&[u8])) -> Result<bool>;
}

/// Writes, one at a time, and reads what it wrote.
pub(super) trait Writer: Reader {
    fn put(&mut self, key: &Key, value: &Value) -> Result<()>;
}
