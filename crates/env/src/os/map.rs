//! Real files as memory.
//!
//! A look at what the system does not hold is a fault, in which the thread sleeps until the disk
//! has read. A read by a call can wait awake instead (see [`awake`]), and says what is wrong with
//! the disk instead of ending the process. But a call for every look would double what one costs
//! where the system holds all. So now and then a look asks first, by a call; and where the disk had
//! to be waited for, the ones that follow do too.

use super::busy_poll;
use crate::part::ends_early;
use crate::{Error, Result};
use bytes::Bytes;
use memmap2::{Advice, Mmap};
use std::cell::Cell;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Of this many looks of a thread, one asks the system whether it holds what will be looked at.
const LOOKS_FOR_A_QUESTION: u32 = 128;

/// A page of the system's memory of files, on most machines; where pages are larger, some are asked
/// for twice.
const PAGE_BYTES: u64 = 4096;

thread_local! {
    /// Looks of this thread, at any map.
    static LOOKS: Cell<u32> = const { Cell::new(0) };
}

/// A file as memory.
#[derive(Debug)]
pub(crate) struct OsMap {
    path: PathBuf,
    file: Arc<File>,
    map: Arc<Mmap>,
    /// The same, to share parts of it.
    shared: Bytes,
}

/// Holds a map for [`Bytes`].
struct Owner(Arc<Mmap>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl OsMap {
    /// All of `file`, which is at `path`, to be looked at here and there: the system is told so, or
    /// it would read what is around each place along with it, for the map and for reads by calls.
    pub(super) fn open(path: &Path, file: &Arc<File>) -> io::Result<OsMap> {
        let map = Arc::new(map_file(file)?);
        map.advise(Advice::Random)?;
        // A file system that takes no advice is met without.
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

    /// To be called before `length` bytes from `offset` are looked at.
    ///
    /// # Errors
    /// Those of the system, if it was asked.
    #[inline]
    pub(crate) fn before_look(&self, offset: u64, length: usize) -> Result<()> {
        let looks = LOOKS.get().wrapping_add(1);
        LOOKS.set(looks);
        match looks.is_multiple_of(LOOKS_FOR_A_QUESTION) || busy_poll::may_wait() {
            true => self.ask(offset, length),
            false => Ok(()),
        }
    }

    /// Reads a byte of each page.
    #[cold]
    fn ask(&self, offset: u64, length: usize) -> Result<()> {
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

/// Has the system begin to read what it does not hold of `length` bytes from `offset`. One that
/// won't is no worse off than without.
pub(super) fn will_need(file: &File, offset: u64, length: u64) {
    if let Some(length) = std::num::NonZeroU64::new(length) {
        let _ = rustix::fs::fadvise(file, offset, Some(length), rustix::fs::Advice::WillNeed);
    }
}

/// The bytes of a file as memory.
#[allow(
    unsafe_code,
    reason = "a map can't be had without; see what `ReadFile::map` asks of its callers"
)]
pub(super) fn map_file(file: &File) -> io::Result<Mmap> {
    // SAFETY: nobody writes to these bytes while the map is there, here or in another process: that
    // is what `ReadFile::map` is for, and says. The map is read-only and shared, so it does not
    // change unless the file does.
    unsafe { Mmap::map(file) }
}
