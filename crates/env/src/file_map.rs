//! A file as memory, for random access.

use crate::os::OsMap;
use crate::part::{ends_early, part};
use crate::prefetch;
use crate::sim::SimMap;
use crate::{Result, VolumeIo};
use bytes::Bytes;
use std::sync::Arc;

/// A file as memory. Reading a part copies nothing, and the system reads a missing page alone,
/// without its neighbours. Where many pages are missing, they are read by a system call: then the
/// thread busy-polls for the disk if there is an idle core.
///
/// The file must not change. An access to a page that can't be read, or that was cut off, kills the
/// process (SIGBUS); the simulated machine returns an error instead. So a caller should read a part
/// by [`read_exact_at`](crate::ReadFile::read_exact_at) first, which returns the error of the disk,
/// and through the map afterwards.
#[derive(Debug)]
pub struct FileMap {
    repr: Repr,
    /// What admits reads of missing pages; nothing if none.
    disk: Option<Arc<VolumeIo>>,
}

#[derive(Debug)]
enum Repr {
    Os(OsMap),
    Sim(SimMap),
}

impl FileMap {
    pub(crate) fn of_os(map: OsMap) -> FileMap {
        FileMap {
            repr: Repr::Os(map),
            disk: None,
        }
    }

    pub(crate) fn of_sim(map: SimMap) -> FileMap {
        FileMap {
            repr: Repr::Sim(map),
            disk: None,
        }
    }

    /// The same map; its missing pages are read as `disk` admits.
    pub(crate) fn managed(self, disk: &Arc<VolumeIo>) -> FileMap {
        FileMap {
            disk: Some(Arc::clone(disk)),
            ..self
        }
    }

    /// Calls `look` with `length` bytes from `offset`, and returns its result.
    ///
    /// # Errors
    /// [`ErrorKind::UnexpectedEnd`](crate::ErrorKind) if the file was shorter than that when it was
    /// mapped; errors of the machine, if the part was read by a call.
    pub fn look<T>(&self, offset: u64, length: usize, look: impl FnOnce(&[u8]) -> T) -> Result<T> {
        match &self.repr {
            Repr::Os(map) => match part(map.bytes(), offset, length) {
                Some(part) => {
                    map.before_access(offset, length, self.disk.as_ref())?;
                    Ok(look(part))
                }
                None => Err(ends_early(map.path())),
            },
            Repr::Sim(map) => map.look(offset, length, look),
        }
    }

    /// Lets the processor fetch the bytes at `offset`, and the address of their page, for an access
    /// that comes soon. It never reads from the disk.
    #[inline]
    pub fn prefetch(&self, offset: u64) {
        if let Repr::Os(map) = &self.repr
            && let Some([first, ..]) = part(map.bytes(), offset, 1)
        {
            prefetch(first);
        }
    }

    /// `length` bytes from `offset`. They keep the map and the file open.
    ///
    /// # Errors
    /// [`ErrorKind::UnexpectedEnd`](crate::ErrorKind) if the file was shorter than that when it was
    /// mapped.
    pub fn part(&self, offset: u64, length: usize) -> Result<Bytes> {
        match &self.repr {
            Repr::Os(map) => match part(map.bytes(), offset, length) {
                Some(part) => Ok(map.shared().slice_ref(part)),
                None => Err(ends_early(map.path())),
            },
            Repr::Sim(map) => map.look(offset, length, Bytes::copy_from_slice),
        }
    }
}
