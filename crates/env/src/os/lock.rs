//! A lock on a real file, by `flock`. It belongs to the open file, so it excludes other processes
//! and other holders in this one, and the system releases it when its holder dies.

use crate::{Error, FileLock, Result};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

/// Holds the lock as long as the file is open.
#[derive(Debug)]
pub(super) struct OsLock {
    _file: File,
}

impl FileLock for OsLock {}

/// [`Env::lock`](crate::Env::lock). A read-only lock file can be locked too.
pub(super) fn lock(path: &Path) -> Result<OsLock> {
    let file = open(path).map_err(|e| Error::io("open lock file", path, e))?;
    let lock = || rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
    match rustix::io::retry_on_intr(lock) {
        Ok(()) => Ok(OsLock { _file: file }),
        Err(Errno::WOULDBLOCK) => Err(Error::Locked {
            path: path.to_path_buf(),
        }),
        Err(errno) => Err(Error::io("lock", path, errno.into())),
    }
}

fn open(path: &Path) -> io::Result<File> {
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path);
    match opened {
        Err(e)
            if matches!(
                e.kind(),
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
            ) =>
        {
            // If there is no lock file, the first of the two errors says why.
            File::open(path).map_err(|_| e)
        }
        opened => opened,
    }
}
