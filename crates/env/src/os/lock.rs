//! A lock on a real file or directory, by `flock`. It belongs to the open file, so it excludes
//! other processes and other holders in this one, and the system releases it when its holder dies.
//!
//! # Invariants
//! 1. What is locked had its name after the lock was taken.
//! 2. It is given up when its holder drops it, even if another process has the open file: one that
//!    this process is just starting has all open files until it executes its program.
//! 3. A directory is locked twice: by its file `LOCK`, which a person can see and other programs
//!    know, and by itself, so that removing the file lets nobody in. Some file systems (NFS) lock
//!    no directories; there [`check`](FileLock::check) alone tells that the file was removed.

use crate::env::LOCK_NAME;
use crate::{Error, FileLock, Result};
use quire_seeded::{Bug, seeded};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Takes a lock this often while others remove the file.
const ATTEMPTS: u32 = 16;

/// Holds the lock until it is dropped.
#[derive(Debug)]
pub(super) struct OsLock {
    path: PathBuf,
    file: File,
    /// The process that took it: a copy of that one by `fork` does not hold it.
    process: u32,
}

impl Drop for OsLock {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            // If that fails, the system gives it up with the last of those who have the open file.
            let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
        }
    }
}

impl OsLock {
    /// Whether the file is the one of that name.
    fn has_its_name(&self) -> Result<bool> {
        let held = self.file.metadata();
        let held = held.map_err(|e| Error::io("look at", &self.path, e))?;
        match self.path.metadata() {
            Ok(named) => Ok((named.dev(), named.ino()) == (held.dev(), held.ino())),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(Error::io("look at", &self.path, e)),
        }
    }
}

impl FileLock for OsLock {
    fn check(&self) -> Result<()> {
        match self.has_its_name()? {
            true => Ok(()),
            false => Err(Error::LockLost {
                path: self.path.clone(),
            }),
        }
    }
}

/// Holds the lock on a directory.
#[derive(Debug)]
pub(super) struct OsDirLock {
    file: OsLock,
    /// `None` where the system locks no directories.
    dir: Option<OsLock>,
}

impl FileLock for OsDirLock {
    fn check(&self) -> Result<()> {
        match &self.dir {
            Some(dir) => dir.check(),
            None => self.file.check(),
        }
    }
}

/// [`Env::lock`](crate::Env::lock). A read-only lock file can be locked too.
pub(super) fn lock(path: &Path) -> Result<OsLock> {
    let mut attempts = ATTEMPTS;
    loop {
        let file = open(path).map_err(|e| Error::io("open lock file", path, e))?;
        let lock = hold(path, file)?;
        attempts -= 1;
        if attempts == 0 || lock.has_its_name()? {
            return Ok(lock);
        }
    }
}

/// [`Env::lock_dir`](crate::Env::lock_dir).
pub(super) fn lock_dir(dir: &Path) -> Result<OsDirLock> {
    let file = lock(&dir.join(LOCK_NAME))?;
    let held = match File::open(dir) {
        _ if seeded(Bug::LockOnFileAlone) => None,
        Ok(opened) => match hold(dir, opened) {
            Err(Error::Io { .. }) => None,
            held => Some(held?),
        },
        Err(_) => None,
    };
    Ok(OsDirLock { file, dir: held })
}

fn hold(path: &Path, file: File) -> Result<OsLock> {
    let lock = || rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
    match rustix::io::retry_on_intr(lock) {
        Ok(()) => Ok(OsLock {
            path: path.to_path_buf(),
            file,
            process: std::process::id(),
        }),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_given_up_is_free_although_a_child_still_has_the_open_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let held = lock(&path).unwrap();
        let as_a_child_has_it = held.file.try_clone().unwrap();
        assert!(matches!(lock(&path), Err(Error::Locked { .. })));
        drop(held);
        drop(lock(&path).unwrap());

        let held = lock_dir(dir.path()).unwrap();
        let of_dir = held.dir.as_ref().unwrap().file.try_clone().unwrap();
        drop(held);
        drop(lock_dir(dir.path()).unwrap());
        drop((as_a_child_has_it, of_dir));
    }
}
