//! A simulated file: what a reader sees now, and what a crash would leave of it.
//!
//! # Invariants
//! 1. `current` is `durable` with the changes in `unsynced` applied in order.
//! 2. A crash leaves one of these. Either `durable`; or `current`; or `durable` with a prefix of
//!    `unsynced` applied, where each 512-byte sector of a write may be missing, and the last write
//!    may end anywhere; or the length of `current`, with zeros for all bytes past the durable ones
//!    (a file system that stores the length before the bytes, as ext4 may with delayed allocation).
//!    A change of the length (a cut) is done whole or not at all. Each file is decided separately.
//! 3. After a failed sync no later change of the file becomes durable, although later syncs report
//!    success: the real system drops pages that it could not write, and reports that once.

use super::rng::Rng;
use crate::stamp::FileStamp;
use parking_lot::Mutex;
use rustix::io::Errno;
use std::io;
use std::sync::Arc;

/// The bytes that a disk writes whole or not at all.
const SECTOR_BYTES: usize = 512;

/// A file, shared by the names and the handles that refer to it. It can be read as long as one of
/// them exists.
pub(super) type FileRef = Arc<Mutex<SimFile>>;

/// A change that a crash may undo.
#[derive(Debug)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Cut { len: usize },
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct SimFile {
    current: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<Change>,
    /// The end of the reserved space; 0 if nothing past the length is reserved.
    reserved_end: usize,
    sync_failed: bool,
    /// The number of the file on this machine, and how often it was changed.
    number: u64,
    changes: u64,
    /// Held by a [`FileLock`](crate::FileLock).
    pub(super) locked: bool,
    /// Handles that have it open.
    pub(super) open: usize,
}

impl SimFile {
    /// The file after a crash.
    pub(super) fn reborn(&self, rng: &mut Rng) -> SimFile {
        let bytes = self.after_crash(rng);
        SimFile {
            current: bytes.clone(),
            durable: bytes,
            changes: self.changes + 1,
            ..SimFile::empty(self.number)
        }
    }

    /// A new, empty file.
    pub(super) fn empty(number: u64) -> SimFile {
        SimFile {
            number,
            ..SimFile::default()
        }
    }

    pub(super) fn stamp(&self) -> FileStamp {
        FileStamp {
            bytes: self.current.len() as u64,
            identity: [0, self.number],
            changed: i64::try_from(self.changes).unwrap_or(i64::MAX),
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.current
    }

    /// Bytes that it takes on the disk.
    pub(super) fn room(&self) -> usize {
        self.current.len().max(self.reserved_end)
    }

    /// Fills `buffer` from `offset`.
    pub(super) fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let found = start
            .checked_add(buffer.len())
            .and_then(|end| self.current.get(start..end));
        match found {
            Some(found) => buffer.copy_from_slice(found),
            // A read of no bytes succeeds past the end too, as on the real system.
            None if buffer.is_empty() => {}
            None => {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "failed to fill whole buffer",
                ));
            }
        }
        Ok(())
    }

    pub(super) fn write_at(&mut self, offset: usize, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.changes += 1;
            overwrite(&mut self.current, offset, bytes);
            self.unsynced.push(Change::Write {
                offset,
                bytes: bytes.to_vec(),
            });
        }
    }

    /// Makes it `len` bytes long, by a cut or with zeros, and releases reserved space.
    pub(super) fn set_len(&mut self, len: usize) {
        self.reserved_end = 0;
        let missing = len.saturating_sub(self.current.len());
        self.write_at(self.current.len(), &vec![0; missing]);
        if len < self.current.len() {
            self.changes += 1;
            self.current.truncate(len);
            self.unsynced.push(Change::Cut { len });
        }
    }

    pub(super) fn reserve_until(&mut self, end: usize) {
        self.reserved_end = self.reserved_end.max(end);
    }

    /// Bytes written since the last sync.
    pub(super) fn unsynced_bytes(&self) -> usize {
        let bytes = |change: &Change| match change {
            Change::Write { bytes, .. } => bytes.len(),
            Change::Cut { .. } => 0,
        };
        self.unsynced.iter().map(bytes).sum()
    }

    pub(super) fn sync(&mut self) {
        if self.sync_failed {
            return;
        }
        for change in self.unsynced.drain(..) {
            match change {
                Change::Write { offset, bytes } => overwrite(&mut self.durable, offset, &bytes),
                Change::Cut { len } => self.durable.truncate(len),
            }
        }
        assert_eq!(
            self.durable.len(),
            self.current.len(),
            "after a sync every change is durable"
        );
    }

    pub(super) fn fail_sync(&mut self) {
        self.sync_failed = true;
    }

    /// Damages the bytes on the disk: what `damage` leaves is durable.
    pub(super) fn damage(&mut self, damage: impl FnOnce(&mut Vec<u8>)) {
        self.changes += 1;
        damage(&mut self.current);
        self.durable.clone_from(&self.current);
        self.unsynced.clear();
    }

    /// What a crash now would leave.
    fn after_crash(&self, rng: &mut Rng) -> Vec<u8> {
        if self.unsynced.is_empty() {
            return self.durable.clone();
        }
        // All and nothing are the common outcomes on a real machine, so they must not be rare here.
        match rng.up_to(4) {
            0 => self.durable.clone(),
            1 => self.current.clone(),
            2 => self.zeroed(),
            _ => self.torn(rng),
        }
    }

    fn zeroed(&self) -> Vec<u8> {
        let mut left = self.durable.clone();
        for change in &self.unsynced {
            match change {
                Change::Cut { len } => left.truncate(*len),
                Change::Write { offset, bytes } => {
                    left.resize(left.len().max(offset + bytes.len()), 0);
                }
            }
        }
        left
    }

    fn torn(&self, rng: &mut Rng) -> Vec<u8> {
        let mut left = self.durable.clone();
        let applied = rng.up_to(self.unsynced.len());
        for (index, change) in self.unsynced.iter().take(applied).enumerate() {
            match change {
                Change::Cut { len } => left.truncate(*len),
                Change::Write { offset, bytes } => {
                    let end = if index + 1 == applied {
                        rng.up_to(bytes.len())
                    } else {
                        bytes.len()
                    };
                    write_sectors(
                        &mut left,
                        *offset,
                        bytes.get(..end).unwrap_or_default(),
                        rng,
                    );
                }
            }
        }
        left
    }
}

/// Writes `bytes` at `offset`; a gap before them is filled with zeros.
pub(super) fn overwrite(file: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if file.len() < end {
        file.resize(end, 0);
    }
    if let Some(place) = file.get_mut(offset..end) {
        place.copy_from_slice(bytes);
    }
}

/// Like [`overwrite`], but each sector may stay as it was.
fn write_sectors(file: &mut Vec<u8>, offset: usize, bytes: &[u8], rng: &mut Rng) {
    let end = offset + bytes.len();
    if file.len() < end {
        file.resize(end, 0);
    }
    let mut start = offset;
    while start < end {
        let stop = end.min((start / SECTOR_BYTES + 1) * SECTOR_BYTES);
        if !rng.one_in(4) {
            overwrite(
                file,
                start,
                bytes.get(start - offset..stop - offset).unwrap_or_default(),
            );
        }
        start = stop;
    }
}

/// The kind of error that the system gives for a number too large for the file.
pub(super) fn to_index(offset: u64) -> io::Result<usize> {
    usize::try_from(offset).map_err(|_| Errno::FBIG.into())
}
