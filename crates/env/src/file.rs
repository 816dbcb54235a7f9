//! Files: appended by one writer, read at positions by many.

use crate::{Error, FileMap, Result};
use bytes::Bytes;
use std::fmt;
use std::path::Path;

/// A file being written: bytes are added at its end, and are durable after
/// [`sync`](AppendFile::sync).
pub trait AppendFile: Send + fmt::Debug {
    /// Where the file is.
    fn path(&self) -> &Path;
    /// Length in bytes.
    fn len(&self) -> u64;
    /// True if nothing has been written.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Appends all of `bytes`. After an error, [`len`](Self::len) is unchanged, and the file may
    /// hold a prefix of them past it: truncate to `len` before trying again.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;
    /// Overwrites the bytes from `offset` on, all of them below [`len`](Self::len). Durable after
    /// [`sync`](Self::sync). After a crash or an error each sector may hold the old or the new
    /// bytes. [`ErrorKind::InvalidArgument`](crate::ErrorKind) past the length.
    fn overwrite(&mut self, offset: u64, bytes: &[u8]) -> Result<()>;
    /// Reserves disk space for the next `bytes` to be appended, so that a full disk is noticed
    /// here, before anything depends on the write. The length stays. Only a hint where the file
    /// system can't reserve.
    fn reserve(&mut self, bytes: u64) -> Result<()>;
    /// Has the disk write what was appended, and waits for that, so that a later
    /// [`sync`](Self::sync) has little to do: nothing is durable before that one. An error is as
    /// one of `sync`.
    fn write_out(&mut self) -> Result<()> {
        self.sync()
    }
    /// Makes all appended bytes durable (data and length). After an error it is unknown which bytes
    /// are durable, and no later call changes that: the system may drop what it failed to write,
    /// and report success for the next call. Stop using the file.
    fn sync(&mut self) -> Result<()>;
    /// Cuts the file to `len` bytes, and releases reserved space and bytes of a failed append past
    /// it; with the present length, only that. Durable after `sync`.
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind) if `len` is more than the length.
    fn truncate(&mut self, len: u64) -> Result<()>;
}

/// A file being read, by any number of threads at once, without locks.
#[allow(
    clippy::len_without_is_empty,
    reason = "a reader needs the length to check offsets"
)]
pub trait ReadFile: Send + Sync + fmt::Debug {
    /// Where the file is.
    fn path(&self) -> &Path;
    /// Length in bytes, now.
    fn len(&self) -> Result<u64>;
    /// Fills `buffer` from `offset`. [`ErrorKind::UnexpectedEnd`](crate::ErrorKind) if the file
    /// ends before that.
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;
    /// Reads `length` bytes from `offset` into a new buffer. The caller has checked `length`
    /// against [`len`](Self::len) or a limit of its own: it is allocated at once.
    fn read_at(&self, offset: u64, length: usize) -> Result<Bytes> {
        let mut buffer = vec![0; length];
        self.read_exact_at(offset, &mut buffer)?;
        Ok(Bytes::from(buffer))
    }
    /// All bytes of an immutable file, as memory. The real machine maps the file, and the system
    /// reads a page when it is first accessed; another machine copies the file.
    ///
    /// The file must not change while it is mapped. If it does, the bytes seen are arbitrary, and
    /// an access past a new, smaller end kills the process (SIGBUS). So map only files that are
    /// replaced by a rename and never rewritten, in a directory to which no other program writes.
    /// Use [`read_at`](Self::read_at) for all others.
    fn map(&self) -> Result<Bytes> {
        let length = self.len()?;
        let length = usize::try_from(length).map_err(|_| Error::TooLarge {
            path: self.path().to_path_buf(),
            limit: usize::MAX as u64,
            found: length,
        })?;
        self.read_at(0, length)
    }
    /// The file as memory, for random access: see [`FileMap`], and [`map`](Self::map) for the
    /// conditions. From then on the system does no read-ahead for other reads of this file either;
    /// a caller that reads sequentially says so by [`will_need`](Self::will_need).
    fn map_at_random(&self) -> Result<FileMap>;
    /// Prefetches `length` bytes from `offset`: the system starts to read the pages that it does
    /// not hold. Who reads for users goes on at once; background work first waits for its turn, if
    /// the disk has an I/O manager.
    fn will_need(&self, _offset: u64, _length: u64) {}
    /// Bytes that one who reads a file from its beginning to its end prefetches at once.
    fn prefetch_bytes(&self) -> u64 {
        256 << 10
    }
    /// Whether a read by this thread may wait for the disk, judging by its last reads. If so, a
    /// caller that needs more than one range should call [`will_need`](Self::will_need) first.
    fn may_wait(&self) -> bool {
        true
    }
}

/// Holds a lock until dropped.
pub trait FileLock: Send + Sync + fmt::Debug {
    /// Fails with [`ErrorKind::Locked`](crate::ErrorKind) if what is locked no longer has its name:
    /// then another process may hold a lock on what has that name now.
    fn check(&self) -> Result<()> {
        Ok(())
    }
}
