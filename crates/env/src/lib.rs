//! The machine, as the engine sees it: files, volumes, a clock, randomness, background work and
//! memory.
//!
//! Everything above this crate asks for these through [`Env`], never through `std`, so that a whole
//! database runs unchanged on the real machine ([`OsEnv`]) or inside a seeded simulation
//! ([`SimEnv`]) that can crash at any call and keep only what was synced.

mod budget;
mod cache;
mod durable;
mod error;
mod file;
mod file_map;
mod os;
mod prefetch;
mod sim;
mod tally;
mod volume;

pub use budget::{Budget, Charge};
pub use cache::{BlockCache, BlockKey, Cached};
pub use durable::parent_of;
pub use error::{Error, ErrorKind, Result};
pub use file::{AppendFile, FileLock, FileStamp, ReadFile};
pub use file_map::FileMap;
pub use os::OsEnv;
pub use prefetch::prefetch;
pub use sim::{Absence, Fault, Latency, ReadFault, SimEnv};
pub use tally::Tally;
pub use volume::{FileId, Medium, Volume, VolumeId, Volumes};

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A piece of background work: runs once, to completion, on a background thread (or inside the
/// simulator's loop).
pub type Job = Box<dyn FnOnce() + Send + 'static>;

/// What kind of background work a [`Job`] is; each class has threads of its own, so that none
/// starves another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobClass {
    /// Writing memtables out: what frees memory. Also short timed duties such as a timed log sync.
    Flush,
    /// Merging runs and rewriting segments: what frees disk and speeds reads.
    Compaction,
}

/// All that the engine asks of the machine.
///
/// Names (a file in a directory) are durable only after [`Env::sync_dir`] on the directory; bytes
/// of a file only after [`AppendFile::sync`]. Every error carries the operation and the path.
pub trait Env: Send + Sync + fmt::Debug + 'static {
    /// Creates a new, empty file for appending. Fails with [`ErrorKind::AlreadyExists`] if the name
    /// is taken.
    fn create(&self, path: &Path) -> Result<Box<dyn AppendFile>>;
    /// Opens an existing file for appending at its end.
    fn open_append(&self, path: &Path) -> Result<Box<dyn AppendFile>>;
    /// Opens an existing file for positioned reads. A reader sees bytes appended after it was
    /// opened.
    fn open_read(&self, path: &Path) -> Result<Arc<dyn ReadFile>>;
    /// Reads a whole small file; [`ErrorKind::TooLarge`] if it holds more than `bytes_max`,
    /// [`ErrorKind::UnexpectedEnd`] if fewer bytes come than it is long.
    fn read(&self, path: &Path, bytes_max: u64) -> Result<Vec<u8>>;
    /// Replaces `path` with `contents` so that after any crash it holds the old bytes or the new
    /// ones, whole: temporary file beside it (`path` with `.tmp` added; a crash may leave it),
    /// sync, rename, directory sync. Durable when it returns. One caller at a time for one path.
    fn replace(&self, path: &Path, contents: &[u8]) -> Result<()>;
    /// Renames a file or directory within one volume, atomically, replacing a file or an empty
    /// directory `to`. Durable after `sync_dir`.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;
    /// Removes a file. Durable after `sync_dir`. Readers that hold it open go on reading.
    fn remove(&self, path: &Path) -> Result<()>;
    /// Creates a directory and its parents, durably (every new name synced). No error if it exists.
    fn create_dir_all(&self, path: &Path) -> Result<()>;
    /// Removes a directory and all that is in it. No error if it does not exist. Durable after
    /// `sync_dir` on its parent.
    fn remove_dir_all(&self, path: &Path) -> Result<()>;
    /// The names in a directory (not paths), sorted.
    fn list(&self, dir: &Path) -> Result<Vec<String>>;
    /// Whether a file or directory has this name.
    fn exists(&self, path: &Path) -> Result<bool>;
    /// What tells the file of this name from the one that had it before.
    fn stamp(&self, path: &Path) -> Result<FileStamp>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, dir: &Path) -> Result<()>;
    /// Takes an exclusive lock on a file (created if absent), held until the guard is dropped or
    /// the process dies. [`ErrorKind::Locked`] at once if another process, or another holder in
    /// this one, has it.
    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>>;
    /// Free bytes on the file system that holds `dir`.
    fn free_bytes(&self, dir: &Path) -> Result<u64>;

    /// Wall clock: microseconds since 1970 UTC. May jump.
    fn now_micros(&self) -> i64;
    /// Time since some fixed moment; never goes back.
    fn monotonic(&self) -> Duration;
    /// Lets time pass.
    fn sleep(&self, duration: Duration);
    /// Fills `bytes` with randomness (of the seed, under simulation).
    fn random(&self, bytes: &mut [u8]);

    /// Runs `job` in the background, `after` a delay. Jobs of one class start in order of their due
    /// time. A job that has not started when the machine is dropped never does; one that owns the
    /// machine keeps it from being dropped.
    fn schedule(&self, class: JobClass, after: Duration, job: Job);
    /// A new [`Gate`], to wait for what background work changes.
    fn gate(&self) -> Arc<dyn Gate>;
}

/// A condition variable that the simulator can drive: waiting lets background jobs run.
pub trait Gate: Send + Sync + fmt::Debug {
    /// Says that something changed; every waiter looks again.
    fn notify(&self);
    /// Returns true as soon as `ready` does (looked at first, then after each `notify`), or false
    /// when `timeout` has passed. The caller holds no lock that `ready` or a background job takes.
    /// Under simulation, due jobs are run between looks, and the clock moves to the next one's time
    /// when none is due.
    fn wait_until(&self, ready: &mut dyn FnMut() -> bool, timeout: Duration) -> bool;
}
