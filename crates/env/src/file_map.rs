//! A file as memory, to be read here and there.

use crate::Result;
use crate::os::OsMap;
use crate::part::{ends_early, part};
use crate::prefetch;
use crate::sim::SimMap;
use bytes::Bytes;

/// A file as memory: what is looked at is not copied, and a part that the system does not hold is
/// read by itself, without what is around it. Where many are not held, they are read by a call,
/// that is, the thread waits for the disk awake if there is an idle core.
///
/// Nobody may change the file. A part that can't be read, or is gone because somebody cut the file,
/// ends the process (SIGBUS) when it is touched; the simulated machine returns an error instead. So
/// a part is best read by [`read_exact_at`](crate::ReadFile::read_exact_at) first, which says what
/// is wrong with the disk, and only then here.
#[derive(Debug)]
pub struct FileMap(Repr);

#[derive(Debug)]
enum Repr {
    Os(OsMap),
    Sim(SimMap),
}

impl FileMap {
    pub(crate) fn of_os(map: OsMap) -> FileMap {
        FileMap(Repr::Os(map))
    }

    pub(crate) fn of_sim(map: SimMap) -> FileMap {
        FileMap(Repr::Sim(map))
    }

    /// What `look` makes of `length` bytes from `offset`.
    ///
    /// # Errors
    /// [`ErrorKind::UnexpectedEnd`](crate::ErrorKind) if the file ended before when it was mapped;
    /// those of the machine, if the part was read by a call.
    pub fn look<T>(&self, offset: u64, length: usize, look: impl FnOnce(&[u8]) -> T) -> Result<T> {
        match &self.0 {
            Repr::Os(map) => match part(map.bytes(), offset, length) {
                Some(part) => {
                    map.before_look(offset, length)?;
                    Ok(look(part))
                }
                None => Err(ends_early(map.path())),
            },
            Repr::Sim(map) => map.look(offset, length, look),
        }
    }

    /// Has the processor fetch what is at `offset`, and learn where that page is, for a look that
    /// comes soon. Nothing is read from the disk.
    #[inline]
    pub fn prefetch(&self, offset: u64) {
        if let Repr::Os(map) = &self.0
            && let Some([first, ..]) = part(map.bytes(), offset, 1)
        {
            prefetch(first);
        }
    }

    /// `length` bytes from `offset`. They hold the map, and the file with it.
    ///
    /// # Errors
    /// [`ErrorKind::UnexpectedEnd`](crate::ErrorKind) if the file ended before when it was mapped.
    pub fn part(&self, offset: u64, length: usize) -> Result<Bytes> {
        match &self.0 {
            Repr::Os(map) => match part(map.bytes(), offset, length) {
                Some(part) => Ok(map.shared().slice_ref(part)),
                None => Err(ends_early(map.path())),
            },
            Repr::Sim(map) => map.look(offset, length, Bytes::copy_from_slice),
        }
    }
}
