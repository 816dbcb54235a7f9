//! The machine as a trait: every call that the engine makes into it.

use crate::{
    AppendFile, FileLock, FileStamp, Gate, Job, JobClass, Medium, ReadFile, Result, VolumeIo,
};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The name of the file that [`Env::lock_dir`] locks.
pub const LOCK_NAME: &str = "LOCK";

/// The calls of the engine into the machine.
///
/// Names (a file in a directory) are durable only after [`Env::sync_dir`] on the directory; bytes
/// of a file only after [`AppendFile::sync`]. Every error carries the operation and the path.
pub trait Env: Send + Sync + fmt::Debug + 'static {
    /// Creates a new, empty file for appending. Fails with
    /// [`ErrorKind::AlreadyExists`](crate::ErrorKind) if the name is taken.
    fn create(&self, path: &Path) -> Result<Box<dyn AppendFile>>;
    /// Opens an existing file for appending at its end.
    fn open_append(&self, path: &Path) -> Result<Box<dyn AppendFile>>;
    /// Opens an existing file for positioned reads. A reader sees bytes appended after it was
    /// opened.
    fn open_read(&self, path: &Path) -> Result<Arc<dyn ReadFile>>;
    /// Reads a whole small file; [`ErrorKind::TooLarge`](crate::ErrorKind) if it holds more than
    /// `bytes_max`, [`ErrorKind::UnexpectedEnd`](crate::ErrorKind) if it ends before its length.
    fn read(&self, path: &Path, bytes_max: u64) -> Result<Vec<u8>>;
    /// Replaces `path` with `contents`. After any crash the file holds all of the old bytes or all
    /// of the new ones. The steps: write a temporary file beside it (`path` with `.tmp` added; a
    /// crash may leave it), sync it, rename it, sync the directory. Durable when it returns. Only
    /// one caller at a time may replace one path.
    fn replace(&self, path: &Path, contents: &[u8]) -> Result<()>;
    /// Renames a file or directory within one volume, atomically, replacing a file or an empty
    /// directory `to`. Durable after `sync_dir`.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;
    /// Removes a file. Durable after `sync_dir`. Readers that have it open can still read it.
    fn remove(&self, path: &Path) -> Result<()>;
    /// Creates a directory and its parents, durably (every new name synced). No error if it exists.
    fn create_dir_all(&self, path: &Path) -> Result<()>;
    /// Creates a directory in one that is there, durably. No error if it exists; `NotFound` if its
    /// parent does not.
    fn create_dir(&self, path: &Path) -> Result<()>;
    /// Removes a directory and all that is in it. No error if it does not exist. Durable after
    /// `sync_dir` on its parent.
    fn remove_dir_all(&self, path: &Path) -> Result<()>;
    /// The names in a directory (not paths), sorted.
    fn list(&self, dir: &Path) -> Result<Vec<String>>;
    /// Whether a file or directory has this name.
    fn exists(&self, path: &Path) -> Result<bool>;
    /// What tells the file of this name from an earlier file of the same name.
    fn stamp(&self, path: &Path) -> Result<FileStamp>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, dir: &Path) -> Result<()>;
    /// Takes an exclusive lock on a file (created if absent). It is held until the guard is dropped
    /// or the process dies. Returns [`ErrorKind::Locked`](crate::ErrorKind) at once if another
    /// process, or another holder in this one, has it.
    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>>;
    /// Takes the exclusive lock on a directory that exists: on the file `LOCK` in it, and on the
    /// directory itself where the system can do that. So the lock stays when the file is removed.
    fn lock_dir(&self, dir: &Path) -> Result<Box<dyn FileLock>> {
        self.lock(&dir.join(LOCK_NAME))
    }
    /// Free bytes on the file system that holds `dir`.
    fn free_bytes(&self, dir: &Path) -> Result<u64>;
    /// A number that tells the disk of `dir` from others; none if the machine does not.
    fn device(&self, _dir: &Path) -> Option<u64> {
        None
    }
    /// What admits I/O of the volume at `dir`; none if nothing does.
    fn volume_io(&self, _dir: &Path) -> Option<Arc<VolumeIo>> {
        None
    }
    /// Bytes that are on their way to the volume at `dir` or from it, and files being written to it
    /// counted as some; 0 if the machine does not count them.
    fn load_bytes(&self, _dir: &Path) -> u64 {
        0
    }

    /// Wall clock: microseconds since 1970 UTC. May jump.
    fn now_micros(&self) -> i64;
    /// Time since some fixed moment; never goes back.
    fn monotonic(&self) -> Duration;
    /// Sleeps.
    fn sleep(&self, duration: Duration);
    /// Fills `bytes` with random bytes (from the seed, under simulation).
    fn random(&self, bytes: &mut [u8]);
    /// Bytes of the process that are in memory, its code included; none if the system does not
    /// tell.
    fn resident_bytes(&self) -> Option<u64> {
        None
    }
    /// Bytes of these that are no pages of files, which the system could take back; none if it does
    /// not tell.
    fn anonymous_bytes(&self) -> Option<u64> {
        None
    }

    /// Runs `job` in the background, after the delay `after`. Jobs of one class start in order of
    /// their due time. A job that has not started when the machine is dropped never starts; one
    /// that owns the machine keeps it from being dropped.
    fn schedule(&self, class: JobClass, after: Duration, job: Job);
    /// How many parts [`run_all`](Env::run_all) does at once.
    fn cores(&self) -> usize {
        1
    }
    /// Calls `part` with each number below `count`, some at once if the machine has several cores,
    /// and returns when all calls have. A panic of one is a panic of this.
    fn run_all(&self, count: usize, part: &(dyn Fn(usize) + Sync)) {
        (0..count).for_each(part);
    }
    /// Sees to it that `count` jobs of `class` can run at once, if background work runs on threads.
    fn reserve(&self, _class: JobClass, _count: usize) -> Result<()> {
        Ok(())
    }
    /// Disks of a medium that have an I/O manager each.
    fn managed_disks(&self, _medium: Medium) -> usize {
        0
    }
    /// A new [`Gate`], to wait for changes made by background work.
    fn gate(&self) -> Arc<dyn Gate>;
}
