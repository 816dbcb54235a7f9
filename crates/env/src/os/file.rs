//! Real files: one appender with its own offset, and readers that share a descriptor.
//!
//! # Invariants
//! 1. `len` counts only complete appends. Bytes of a failed append lie past it, and the next append
//!    overwrites them.
//! 2. `reserved_end` is at most the end of the space that was reserved; 0 if none is reserved.

use super::busy_poll;
use super::map::{self, OsMap};
use super::write_out::write_out;
use crate::part::ends_early;
use crate::{AppendFile, Error, FileMap, FileStamp, ReadFile, Result};
use bytes::Bytes;
use rustix::buffer::spare_capacity;
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file being written.
#[derive(Debug)]
pub(super) struct OsAppendFile {
    path: PathBuf,
    file: File,
    len: u64,
    reserved_end: u64,
    /// The bytes before this were written out.
    written_out: u64,
}

impl OsAppendFile {
    /// A new, empty file; fails if the name is taken.
    pub(super) fn create(path: &Path) -> Result<OsAppendFile> {
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(path)
            .map_err(|e| Error::io("create", path, e))?;
        Ok(OsAppendFile {
            path: path.to_path_buf(),
            file,
            len: 0,
            reserved_end: 0,
            written_out: 0,
        })
    }

    /// An existing file, at its end.
    pub(super) fn open(path: &Path) -> Result<OsAppendFile> {
        let open = || {
            let file = OpenOptions::new().write(true).open(path)?;
            let len = file.metadata()?.len();
            Ok((file, len))
        };
        let (file, len) = open().map_err(|e| Error::io("open", path, e))?;
        Ok(OsAppendFile {
            path: path.to_path_buf(),
            file,
            len,
            reserved_end: 0,
            written_out: len,
        })
    }
}

impl AppendFile for OsAppendFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file
            .write_all_at(bytes, self.len)
            .map_err(|e| Error::io("append to", &self.path, e))?;
        self.len += bytes.len() as u64;
        Ok(())
    }

    fn overwrite(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        if offset.saturating_add(bytes.len() as u64) > self.len {
            return Err(Error::written_beyond_end(&self.path, offset, self.len));
        }
        self.file
            .write_all_at(bytes, offset)
            .map_err(|e| Error::io("overwrite", &self.path, e))
    }

    fn reserve(&mut self, bytes: u64) -> Result<()> {
        let end = self.len.saturating_add(bytes);
        if bytes == 0 || end <= self.reserved_end {
            return Ok(());
        }
        let reserve = || {
            rustix::fs::fallocate(
                &self.file,
                FallocateFlags::KEEP_SIZE,
                self.len,
                end - self.len,
            )
        };
        match rustix::io::retry_on_intr(reserve) {
            // Some file systems (NFS, some FUSE) can't reserve: then the append itself reports a
            // full disk.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                self.reserved_end = end;
                Ok(())
            }
            Err(errno) => Err(Error::io("reserve room in", &self.path, errno.into())),
        }
    }

    fn write_out(&mut self) -> Result<()> {
        write_out(&self.file, self.written_out, self.len)
            .map_err(|e| Error::io("write out", &self.path, e))?;
        self.written_out = self.len;
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        // fdatasync skips only the times. It syncs the length, which is needed to read the data
        // back.
        self.file
            .sync_data()
            .map_err(|e| Error::io("sync", &self.path, e))
    }

    fn truncate(&mut self, len: u64) -> Result<()> {
        if len > self.len {
            return Err(Error::cut_beyond_end(&self.path, len, self.len));
        }
        // Also when the length stays: it releases reserved space, and bytes of a failed append,
        // past it.
        self.file
            .set_len(len)
            .map_err(|e| Error::io("truncate", &self.path, e))?;
        self.len = len;
        self.written_out = self.written_out.min(len);
        self.reserved_end = 0;
        Ok(())
    }
}

/// A file being read.
#[derive(Debug)]
pub(super) struct OsReadFile {
    path: PathBuf,
    file: Arc<File>,
}

impl OsReadFile {
    /// An existing file.
    pub(super) fn open(path: &Path) -> Result<OsReadFile> {
        let file = open_file(path).map_err(|e| Error::io("open", path, e))?;
        Ok(OsReadFile {
            path: path.to_path_buf(),
            file: Arc::new(file),
        })
    }

    /// Fills `buffer` from `offset`, and busy-polls for the disk.
    fn read_busy_poll(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let (mut rest, mut at) = (buffer, offset);
        while !rest.is_empty() {
            let read = busy_poll::read(&self.file, rest, at)
                .map_err(|errno| Error::io("read", &self.path, errno.into()))?;
            if read.bytes == 0 {
                return Err(ends_early(&self.path));
            }
            at = at.saturating_add(read.bytes as u64);
            rest = rest.get_mut(read.bytes..).unwrap_or_default();
        }
        Ok(())
    }
}

impl ReadFile for OsReadFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> Result<u64> {
        let metadata = self
            .file
            .metadata()
            .map_err(|e| Error::io("get the length of", &self.path, e))?;
        Ok(metadata.len())
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.file
            .read_exact_at(buffer, offset)
            .map_err(|e| Error::io("read", &self.path, e))
    }

    fn read_at(&self, offset: u64, length: usize) -> Result<Bytes> {
        if length <= busy_poll::BYTES_MAX {
            let mut bytes = vec![0; length];
            self.read_busy_poll(offset, &mut bytes)?;
            return Ok(Bytes::from(bytes));
        }
        // Into memory that is not zeroed first: reads of blocks from the page cache are mostly
        // copying.
        let mut bytes = Vec::with_capacity(length);
        while bytes.len() < length {
            let at = offset.saturating_add(bytes.len() as u64);
            let read = || rustix::io::pread(&self.file, spare_capacity(&mut bytes), at);
            match rustix::io::retry_on_intr(read) {
                Ok(0) => return Err(ends_early(&self.path)),
                Ok(_) => {}
                Err(errno) => return Err(Error::io("read", &self.path, errno.into())),
            }
        }
        debug_assert!(bytes.len() >= length, "a read fills its buffer or fails");
        // The allocator may have given more bytes than requested.
        bytes.truncate(length);
        Ok(Bytes::from(bytes))
    }

    fn map(&self) -> Result<Bytes> {
        if self.len()? == 0 {
            return Ok(Bytes::new());
        }
        let map = map::map_file(&self.file).map_err(|e| Error::io("map", &self.path, e))?;
        Ok(Bytes::from_owner(map))
    }

    fn map_at_random(&self) -> Result<FileMap> {
        let map = OsMap::open(&self.path, &self.file);
        Ok(FileMap::of_os(
            map.map_err(|e| Error::io("map", &self.path, e))?,
        ))
    }

    fn may_wait(&self) -> bool {
        busy_poll::may_wait()
    }

    fn will_need(&self, offset: u64, length: u64) {
        map::will_need(&self.file, offset, length);
    }
}

/// [`Env::stamp`](crate::Env::stamp).
pub(super) fn stamp(path: &Path) -> Result<FileStamp> {
    let metadata = path.metadata().map_err(|e| Error::io("look at", path, e))?;
    let seconds = metadata.mtime().saturating_mul(1_000_000_000);
    Ok(FileStamp {
        bytes: metadata.len(),
        identity: [metadata.dev(), metadata.ino()],
        changed: seconds.saturating_add(metadata.mtime_nsec()),
    })
}

/// [`Env::read`](crate::Env::read).
pub(super) fn read(path: &Path, bytes_max: u64) -> Result<Vec<u8>> {
    let read = || {
        let file = open_file(path)?;
        let found = file.metadata()?.len();
        let mut bytes = Vec::new();
        if found <= bytes_max {
            // One byte more than allowed, to notice a file that grows meanwhile.
            file.take(bytes_max.saturating_add(1))
                .read_to_end(&mut bytes)?;
            if (bytes.len() as u64) < found {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok((found.max(bytes.len() as u64), bytes))
    };
    let (found, bytes) = read().map_err(|e| Error::io("read", path, e))?;
    if found > bytes_max {
        return Err(Error::TooLarge {
            path: path.to_path_buf(),
            limit: bytes_max,
            found,
        });
    }
    Ok(bytes)
}

/// Opens for reading. The system would open a directory too, and fail only the read; this fails at
/// once.
fn open_file(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(Errno::ISDIR.into());
    }
    Ok(file)
}
