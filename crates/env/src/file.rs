//! Files: appended by one writer, read at positions by many.

use crate::{Error, FileMap, Result};
use bytes::Bytes;
use std::fmt;
use std::path::Path;

/// A file being written: bytes go to its end, and are durable after [`sync`](AppendFile::sync).
pub trait AppendFile: Send + fmt::Debug {
    /// Where the file is.
    fn path(&self) -> &Path;
    /// Length in bytes.
    fn len(&self) -> u64;
    /// True if nothing has been written.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Appends all of `bytes`. After an error the file may hold any prefix of them past
    /// [`len`](Self::len), which stays: truncate to it before trying again.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;
    /// Makes sure that the next `bytes` appended find room on the disk, so that a full disk is met
    /// here, before anything depends on the write. The length stays. A hint where the file system
    /// can't promise.
    fn reserve(&mut self, bytes: u64) -> Result<()>;
    /// Makes all that was appended durable (data and length). After an error, what is durable is
    /// unknown, and stays so: the system may forget what it failed to write, and answer the next
    /// call with success. Give the file up.
    fn sync(&mut self) -> Result<()>;
    /// Cuts the file to `len` bytes and gives back reserved room past it; with the present length,
    /// only that, and what a failed append left. Durable after `sync`.
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind) if `len` is more than the length.
    fn truncate(&mut self, len: u64) -> Result<()>;
}

/// A file being read. Any number of threads at once, no locks.
#[allow(
    clippy::len_without_is_empty,
    reason = "a reader wants the length, to check offsets against"
)]
pub trait ReadFile: Send + Sync + fmt::Debug {
    /// Where the file is.
    fn path(&self) -> &Path;
    /// Length in bytes, now.
    fn len(&self) -> Result<u64>;
    /// Fills `buffer` from `offset`. [`ErrorKind::UnexpectedEnd`](crate::ErrorKind) if the file
    /// ends before.
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;
    /// Reads `length` bytes from `offset` into a new buffer. The caller has checked `length`
    /// against [`len`](Self::len) or a limit of its own: it is allocated at once.
    fn read_at(&self, offset: u64, length: usize) -> Result<Bytes> {
        let mut buffer = vec![0; length];
        self.read_exact_at(offset, &mut buffer)?;
        Ok(Bytes::from(buffer))
    }
    /// All bytes of a file that nobody changes, as memory: the real machine maps it, and reads what
    /// is touched; another one copies it.
    ///
    /// What is shown of a file that is changed meanwhile is anything. One that is made shorter ends
    /// the process (SIGBUS) when what is gone is touched. So this is for files that are only ever
    /// replaced by a rename, in a directory that only those write to who know that;
    /// [`read_at`](Self::read_at) is for all others.
    fn map(&self) -> Result<Bytes> {
        let length = self.len()?;
        let length = usize::try_from(length).map_err(|_| Error::TooLarge {
            path: self.path().to_path_buf(),
            limit: usize::MAX as u64,
            found: length,
        })?;
        self.read_at(0, length)
    }
    /// The file as memory, to be read here and there: see [`FileMap`], and for the price
    /// [`map`](Self::map). From then on reads by calls are not read ahead either: who goes on to
    /// what follows says so by [`will_need`](Self::will_need).
    fn map_at_random(&self) -> Result<FileMap>;
    /// Says that `length` bytes from `offset` will be read soon: the system begins to read what it
    /// does not hold, and this returns at once.
    fn will_need(&self, _offset: u64, _length: u64) {}
    /// Whether a read by this thread may wait for the disk, as far as its last ones tell: then it
    /// pays to say what it will need, if that is more than one thing.
    fn may_wait(&self) -> bool {
        true
    }
}

/// Holds a lock until dropped.
pub trait FileLock: Send + Sync + fmt::Debug {}
