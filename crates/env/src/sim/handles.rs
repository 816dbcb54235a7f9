//! Handles to simulated files: an appender, a reader, a lock. A handle can be used after the name
//! of its file is gone.

use super::faults::Interruption;
use super::file::{FileRef, to_index};
use super::machine::{SimMachine, State};
use super::map::SimMap;
use super::open_file::OpenFile;
use crate::{AppendFile, Error, FileLock, FileMap, ReadFile, Result};
use rustix::io::Errno;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file being written.
pub(super) struct SimAppendFile {
    machine: Arc<SimMachine>,
    path: PathBuf,
    file: OpenFile,
    len: u64,
}

impl SimAppendFile {
    pub(super) fn new(machine: Arc<SimMachine>, path: &Path, file: FileRef) -> SimAppendFile {
        let len = file.lock().bytes().len() as u64;
        SimAppendFile {
            path: path.to_path_buf(),
            file: OpenFile::new(&machine, path, file),
            machine,
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
        self.machine.step(
            "append to",
            &self.path,
            &detail,
            false,
            |state, interruption| {
                let file = self.file.on_its_disk(state)?;
                let start = to_index(self.len)?;
                state.transfer(bytes.len());
                let shortage = state.shortage(&self.path, file, start + bytes.len());
                let room = bytes.len().saturating_sub(shortage);
                // As on the real machine, a prefix of a failed append is written.
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

    fn overwrite(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        if offset.saturating_add(bytes.len() as u64) > self.len {
            return Err(Error::written_beyond_end(&self.path, offset, self.len));
        }
        let detail = format!("at {offset}, {} bytes", bytes.len());
        self.machine
            .change("overwrite", &self.path, &detail, |state| {
                let file = self.file.on_its_disk(state)?;
                state.transfer(bytes.len());
                file.lock().write_at(to_index(offset)?, bytes);
                Ok(())
            })
    }

    fn reserve(&mut self, bytes: u64) -> Result<()> {
        self.machine.change(
            "reserve room in",
            &self.path,
            &format!("{bytes} bytes"),
            |state| {
                let file = self.file.on_its_disk(state)?;
                let end = to_index(self.len.saturating_add(bytes))?;
                if state.shortage(&self.path, file, end) > 0 {
                    return Err(Errno::NOSPC.into());
                }
                file.lock().reserve_until(end);
                Ok(())
            },
        )
    }

    fn sync(&mut self) -> Result<()> {
        let sync = |state: &mut State, interruption| {
            let file = self.file.on_its_disk(state)?;
            let mut file = file.lock();
            state.transfer(file.unsynced_bytes());
            match interruption {
                Some(Interruption::Fault(errno)) => {
                    file.fail_sync();
                    Err(errno.into())
                }
                // Any part of it may be done, and so it is: a crash keeps any part of the bytes
                // that are not synced.
                Some(Interruption::Crash) => Ok(()),
                None => {
                    file.sync();
                    Ok(())
                }
            }
        };
        self.machine.step("sync", &self.path, "", true, sync)
    }

    fn truncate(&mut self, len: u64) -> Result<()> {
        if len > self.len {
            return Err(Error::cut_beyond_end(&self.path, len, self.len));
        }
        self.machine
            .change("truncate", &self.path, &format!("to {len}"), |state| {
                let file = self.file.on_its_disk(state)?;
                file.lock().set_len(to_index(len)?);
                Ok(())
            })?;
        self.len = len;
        Ok(())
    }
}

/// A file being read.
pub(super) struct SimReadFile {
    machine: Arc<SimMachine>,
    path: PathBuf,
    file: Arc<OpenFile>,
}

impl SimReadFile {
    pub(super) fn new(machine: Arc<SimMachine>, path: &Path, file: FileRef) -> SimReadFile {
        SimReadFile {
            path: path.to_path_buf(),
            file: Arc::new(OpenFile::new(&machine, path, file)),
            machine,
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
        let look = |state: &mut State| {
            let file = self.file.on_its_disk(state)?;
            let bytes = file.lock().bytes().len();
            Ok(bytes as u64)
        };
        self.machine.look("get the length of", &self.path, "", look)
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let detail = format!("at {offset}, {} bytes", buffer.len());
        let of_bytes = !buffer.is_empty();
        let read = |state: &mut State| {
            let file = self.file.on_its_disk(state)?;
            state.transfer(buffer.len());
            file.lock().read_exact_at(offset, buffer)
        };
        self.machine
            .read("read", &self.path, &detail, of_bytes, read)
    }

    fn map_at_random(&self) -> Result<FileMap> {
        let look = |state: &mut State| self.file.on_its_disk(state).map(drop);
        self.machine.look("map", &self.path, "", look)?;
        Ok(FileMap::of_sim(SimMap {
            machine: Arc::clone(&self.machine),
            path: self.path.clone(),
            file: Arc::clone(&self.file),
        }))
    }
}

/// The lock of a file. It outlives the disk that the file is on.
pub(super) struct SimLock {
    path: PathBuf,
    file: OpenFile,
}

impl SimLock {
    /// `None` if the lock is held.
    pub(super) fn take(machine: &SimMachine, path: &Path, file: FileRef) -> Option<SimLock> {
        let held = std::mem::replace(&mut file.lock().locked, true);
        (!held).then(|| SimLock {
            path: path.to_path_buf(),
            file: OpenFile::new(machine, path, file),
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
        let held = std::mem::replace(&mut self.file.file.lock().locked, false);
        assert!(held, "a lock is held until its holder drops it");
    }
}
