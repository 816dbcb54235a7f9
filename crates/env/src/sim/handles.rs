//! Handles to simulated files: an appender, a reader, a lock. Each keeps its file readable after the name is gone.

use super::faults::Interruption;
use super::file::{FileRef, to_index};
use super::machine::Machine;
use crate::{AppendFile, Error, FileLock, ReadFile, Result};
use rustix::io::Errno;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file, counted as open until dropped.
struct OpenFile(FileRef);

impl OpenFile {
    fn new(file: FileRef) -> OpenFile {
        file.lock().open += 1;
        OpenFile(file)
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.0.lock().open -= 1;
    }
}

/// A file being written.
pub(super) struct SimAppendFile {
    machine: Arc<Machine>,
    path: PathBuf,
    file: OpenFile,
    len: u64,
}

impl SimAppendFile {
    pub(super) fn new(machine: Arc<Machine>, path: &Path, file: FileRef) -> SimAppendFile {
        let len = file.lock().bytes().len() as u64;
        SimAppendFile {
            machine,
            path: path.to_path_buf(),
            file: OpenFile::new(file),
            len,
        }
    }
}

impl fmt::Debug for SimAppendFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimAppendFile")
            .field("path", &self.path)
            .field("len", &self.len)
            .finish()
    }
}

impl AppendFile for SimAppendFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        let detail = format!(
            "at {}, {} bytes {:x}",
            self.len,
            bytes.len(),
            hasher.finish()
        );
        let file = &self.file.0;
        self.machine.step(
            "append to",
            &self.path,
            &detail,
            false,
            |state, interruption| {
                let start = to_index(self.len)?;
                let shortage = state.shortage(file, start + bytes.len());
                let room = bytes.len().saturating_sub(shortage);
                // As on the real machine, a first part of what fails is written.
                let (written, outcome) = match interruption {
                    Some(Interruption::Fault(errno)) => (state.rng.up_to(room), Err(errno.into())),
                    _ if shortage > 0 => (room, Err(Errno::NOSPC.into())),
                    _ => (bytes.len(), Ok(())),
                };
                file.lock()
                    .write_at(start, bytes.get(..written).unwrap_or_default());
                outcome
            },
        )?;
        self.len += bytes.len() as u64;
        Ok(())
    }

    fn reserve(&mut self, bytes: u64) -> Result<()> {
        let file = &self.file.0;
        self.machine.change(
            "reserve room in",
            &self.path,
            &format!("{bytes} bytes"),
            |state| {
                let end = to_index(self.len.saturating_add(bytes))?;
                if state.shortage(file, end) > 0 {
                    return Err(Errno::NOSPC.into());
                }
                file.lock().reserve_until(end);
                Ok(())
            },
        )
    }

    fn sync(&mut self) -> Result<()> {
        let file = &self.file.0;
        self.machine.step(
            "sync",
            &self.path,
            "",
            true,
            |_, interruption| match interruption {
                Some(Interruption::Fault(errno)) => {
                    file.lock().fail_sync();
                    Err(errno.into())
                }
                // Any part of it may have been done, which is what a crash makes of the bytes that are not synced.
                Some(Interruption::Crash) => Ok(()),
                None => {
                    file.lock().sync();
                    Ok(())
                }
            },
        )
    }

    fn truncate(&mut self, len: u64) -> Result<()> {
        if len > self.len {
            return Err(Error::cut_beyond_end(&self.path, len, self.len));
        }
        let file = &self.file.0;
        self.machine
            .change("truncate", &self.path, &format!("to {len}"), |_| {
                file.lock().set_len(to_index(len)?);
                Ok(())
            })?;
        self.len = len;
        Ok(())
    }
}

/// A file being read.
pub(super) struct SimReadFile {
    machine: Arc<Machine>,
    path: PathBuf,
    file: OpenFile,
}

impl SimReadFile {
    pub(super) fn new(machine: Arc<Machine>, path: &Path, file: FileRef) -> SimReadFile {
        SimReadFile {
            machine,
            path: path.to_path_buf(),
            file: OpenFile::new(file),
        }
    }
}

impl fmt::Debug for SimReadFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimReadFile")
            .field("path", &self.path)
            .finish()
    }
}

impl ReadFile for SimReadFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> Result<u64> {
        let look = |_: &mut _| Ok(self.file.0.lock().bytes().len() as u64);
        self.machine.look("ask the length of", &self.path, "", look)
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let detail = format!("at {offset}, {} bytes", buffer.len());
        let read = |_: &mut _| self.file.0.lock().read_exact_at(offset, buffer);
        self.machine.look("read", &self.path, &detail, read)
    }
}

/// Holds the lock of a file that was not locked.
pub(super) struct SimLock {
    path: PathBuf,
    file: OpenFile,
}

impl SimLock {
    /// None if the lock is held.
    pub(super) fn take(path: &Path, file: FileRef) -> Option<SimLock> {
        let held = std::mem::replace(&mut file.lock().locked, true);
        (!held).then(|| SimLock {
            path: path.to_path_buf(),
            file: OpenFile::new(file),
        })
    }
}

impl fmt::Debug for SimLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimLock").field("path", &self.path).finish()
    }
}

impl FileLock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.file.0.lock().locked = false;
    }
}
