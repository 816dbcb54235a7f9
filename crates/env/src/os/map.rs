//! Real files as memory.
//!
//! An access to a page that the system does not hold is a page fault, in which the thread sleeps
//! until the disk has read it. A read by a system call can busy-poll instead (see [`busy_poll`]),
//! and returns an error of the disk instead of killing the process. But a call before every access
//! would double its cost where the system holds all pages. So only some accesses make the call
//! first. If the disk had to be waited for, the following ones do too.

use super::busy_poll;
use crate::part::ends_early;
use crate::{Error, Result, VolumeIo};
use bytes::Bytes;
use memmap2::{Advice, Mmap};
use std::cell::Cell;
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Of this number of accesses by a thread, one checks first whether the system holds the pages.
const ACCESSES_PER_CHECK: u32 = 128;

/// The size of a page of the page cache on most machines. Where pages are larger, some are checked
/// twice.
const PAGE_BYTES: u64 = 4096;

thread_local! {
    /// Accesses by this thread, to any map.
    static ACCESSES: Cell<u32> = const { Cell::new(0) };
}

/// A file as memory.
#[derive(Debug)]
pub(crate) struct OsMap {
    path: PathBuf,
    file: Arc<File>,
    map: Arc<Mmap>,
    /// The same bytes, to share parts of them.
    shared: Bytes,
}

/// Keeps a map alive for [`Bytes`].
struct Owner(Arc<Mmap>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl OsMap {
    /// Maps all of `file`, which is at `path`, for random access, and tells the system so.
    /// Otherwise it would also read the neighbours of each page, for the map and for other reads.
    pub(super) fn open(path: &Path, file: &Arc<File>) -> io::Result<OsMap> {
        let map = Arc::new(map_file(file)?);
        map.advise(Advice::Random)?;
        // A file system without this advice works too.
        let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::Random);
        Ok(OsMap {
            path: path.to_path_buf(),
            file: Arc::clone(file),
            shared: Bytes::from_owner(Owner(Arc::clone(&map))),
            map,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// All of it.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// All of it, to share parts of it.
    pub(crate) fn shared(&self) -> &Bytes {
        &self.shared
    }

    /// Prepares an access to `length` bytes from `offset`.
    ///
    /// # Errors
    /// Errors of the system, if it was called.
    #[inline]
    pub(crate) fn before_access(
        &self,
        offset: u64,
        length: usize,
        disk: Option<&Arc<VolumeIo>>,
    ) -> Result<()> {
        let accesses = ACCESSES.get().wrapping_add(1);
        ACCESSES.set(accesses);
        match accesses.is_multiple_of(ACCESSES_PER_CHECK) || busy_poll::may_wait() {
            true => match disk {
                Some(disk) => disk.read(length as u64, || self.read_pages(offset, length)),
                None => self.read_pages(offset, length),
            },
            false => Ok(()),
        }
    }

    /// Reads one byte of each page, so that the system holds all of them.
    #[cold]
    fn read_pages(&self, offset: u64, length: usize) -> Result<()> {
        let end = offset.saturating_add(length as u64);
        let (mut at, mut waited) = (offset, false);
        while at < end {
            let read = busy_poll::read(&self.file, &mut [0], at);
            let read = read.map_err(|errno| Error::io("read", &self.path, errno.into()))?;
            if read.bytes == 0 {
                return Err(ends_early(&self.path));
            }
            let next = (at / PAGE_BYTES + 1) * PAGE_BYTES;
            if read.waited && !waited && next < end {
                will_need(&self.file, next, end - next);
            }
            waited |= read.waited;
            at = next;
        }
        Ok(())
    }
}

/// Linux reads no more for one call than the largest request of the disk, and is silent about it.
/// Most disks take this much.
const WILL_NEED_BYTES: u64 = 512 << 10;

/// Lets the system start to read the missing ones of `length` bytes from `offset`. If it does not,
/// nothing is lost.
pub(super) fn will_need(file: &File, offset: u64, length: u64) {
    let (mut at, end) = (offset, offset.saturating_add(length));
    while let Some(length) = NonZeroU64::new((end - at).min(WILL_NEED_BYTES)) {
        let _ = rustix::fs::fadvise(file, at, Some(length), rustix::fs::Advice::WillNeed);
        at += length.get();
    }
}

/// The bytes of a file as memory.
#[allow(
    unsafe_code,
    reason = "a map can't be had without; see what `ReadFile::map` requires of its callers"
)]
pub(super) fn map_file(file: &File) -> io::Result<Mmap> {
    // SAFETY: no process writes to these bytes while the map exists: `ReadFile::map` requires that
    // of its callers. The map is read-only and shared, so it changes only if the file does.
    unsafe { Mmap::map(file) }
}
