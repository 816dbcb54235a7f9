//! Reads that busy-poll for the disk.
//!
//! A thread that sleeps until its read is done gives up its core. If no other thread wants the
//! core, the core halts, and waking it takes half as long as a read of a fast disk, above all in a
//! virtual machine. So a reader polls for a while, as `haltpoll` of Linux and SPDK do, as long as
//! there are cores that this process does not use otherwise.
//!
//! # Invariants
//! 1. At most as many threads busy-poll as there are cores without a background job. Reads of
//!    background jobs sleep.
//! 2. No read polls for longer than [`BUSY_POLL_MAX`]: on a slow or busy disk the thread then
//!    sleeps.

use rustix::io::{Errno, ReadWriteFlags};
use std::cell::Cell;
use std::fs::File;
use std::io::IoSliceMut;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// As long as `haltpoll` keeps a core from halting: about three reads of a fast disk.
const BUSY_POLL_MAX: Duration = Duration::from_micros(200);

/// Longer reads sleep at once: they take the disk longer, and are few.
pub(super) const BYTES_MAX: usize = 64 << 10;

static CORES: LazyLock<Cores> =
    LazyLock::new(|| Cores::new(thread::available_parallelism().map_or(1, usize::from)));

/// After a read that waited, the next reads are expected to wait too, until this number of them did
/// not. This is about where it pays: polling saves a third of a read of the disk, some fifty times
/// the cost of checking what the system holds.
const EXPECTED_WAITS: u32 = 32;

thread_local! {
    /// Whether this thread runs background jobs.
    static BACKGROUND: Cell<bool> = const { Cell::new(false) };
    /// The number of next reads of this thread that are expected to wait.
    static WAITS: Cell<u32> = const { Cell::new(0) };
}

/// The cores of the machine, and the number that this process keeps busy, by background jobs and by
/// polling.
struct Cores {
    all: usize,
    busy: AtomicUsize,
}

/// A core that is busy until this is dropped.
pub(super) struct Core<'a>(&'a Cores);

impl Cores {
    fn new(all: usize) -> Cores {
        let busy = AtomicUsize::new(0);
        Cores { all, busy }
    }

    fn take(&self) -> Core<'_> {
        self.busy.fetch_add(1, Ordering::Relaxed);
        Core(self)
    }

    /// An idle core, if there is one.
    fn take_idle(&self) -> Option<Core<'_>> {
        let one_more = |busy: usize| (busy < self.all).then_some(busy + 1);
        let taken = self
            .busy
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        taken.is_ok().then(|| Core(self))
    }
}

impl Drop for Core<'_> {
    fn drop(&mut self) {
        let busy = self.0.busy.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(busy > 0, "each busy core was counted");
    }
}

/// Takes a core for a background job that this thread begins.
pub(super) fn begin_job() -> Core<'static> {
    BACKGROUND.set(true);
    CORES.take()
}

/// The result of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Read {
    /// At least one, except at the end of the file; fewer than requested if the system held no
    /// more.
    pub(super) bytes: usize,
    /// Whether the read waited for the disk.
    pub(super) waited: bool,
}

/// Reads into `buffer` from `offset`; busy-polls if there is an idle core.
///
/// # Errors
/// Errors of the system.
pub(super) fn read(file: &File, buffer: &mut [u8], offset: u64) -> rustix::io::Result<Read> {
    if let Some(bytes) = read_at_once(file, buffer, offset)? {
        WAITS.set(WAITS.get().saturating_sub(1));
        let waited = false;
        return Ok(Read { bytes, waited });
    }
    // The system has sent the read to the disk by now.
    WAITS.set(EXPECTED_WAITS);
    let waited = true;
    let core = match BACKGROUND.get() {
        true => None,
        false => CORES.take_idle(),
    };
    if core.is_some() {
        let begun = Instant::now();
        while begun.elapsed() < BUSY_POLL_MAX {
            if let Some(bytes) = read_at_once(file, buffer, offset)? {
                return Ok(Read { bytes, waited });
            }
        }
    }
    let bytes = read_blocking(file, buffer, offset)?;
    Ok(Read { bytes, waited })
}

/// Whether a read by this thread may wait for the disk, judging by its last reads.
#[inline]
pub(super) fn may_wait() -> bool {
    WAITS.get() > 0
}

/// Reads the bytes that the system holds. `None` if it holds none: it sends the read to the disk,
/// and does not wait.
fn read_at_once(file: &File, buffer: &mut [u8], offset: u64) -> rustix::io::Result<Option<usize>> {
    let read = || {
        let mut buffers = [IoSliceMut::new(buffer)];
        rustix::io::preadv2(file, &mut buffers, offset, ReadWriteFlags::NOWAIT)
    };
    if offset > i64::MAX as u64 {
        // For `preadv2`, the largest offset means the current position of the file. `pread` refuses
        // all offsets this large.
        return read_blocking(file, buffer, offset).map(Some);
    }
    match rustix::io::retry_on_intr(read) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(Errno::AGAIN) => Ok(None),
        // The call is not available: an old system, some file systems, a sandbox.
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::PERM) => {
            read_blocking(file, buffer, offset).map(Some)
        }
        Err(errno) => Err(errno),
    }
}

fn read_blocking(file: &File, buffer: &mut [u8], offset: u64) -> rustix::io::Result<usize> {
    rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut *buffer, offset))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn no_more_busy_poll_than_there_are_idle_cores() {
        let cores = Cores::new(3);
        let job = cores.take();
        let first = cores.take_idle();
        let second = cores.take_idle();
        assert!(first.is_some() && second.is_some());
        for _ in 0..10 {
            assert!(cores.take_idle().is_none(), "all are busy");
        }
        drop(first);
        assert!(cores.take_idle().is_some());
        let more_jobs_than_cores = [cores.take(), cores.take(), cores.take()];
        assert!(cores.take_idle().is_none());
        drop((job, second, more_jobs_than_cores));
        let all: Vec<_> = std::iter::from_fn(|| cores.take_idle()).collect();
        assert_eq!(all.len(), 3, "every one was given back");
    }

    #[test]
    fn what_the_system_does_not_hold_is_waited_for() {
        let mut file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..1_u32 << 18).map(|n| (n / 4096) as u8).collect();
        file.write_all(&bytes).unwrap();
        file.sync_all().unwrap();
        let evict = || rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        for job in [false, true] {
            BACKGROUND.set(job);
            evict();
            WAITS.set(0);
            for offset in [200_000, 4_095, 77_777] {
                let mut found = [0; 2];
                let read = read(&file, &mut found, offset as u64).unwrap();
                assert!(read.bytes > 0);
                assert_eq!(found[..read.bytes], bytes[offset..offset + read.bytes]);
            }
        }
        let end = read(&file, &mut [0; 2], bytes.len() as u64).unwrap();
        assert_eq!(end.bytes, 0);
        for offset in [u64::MAX, 1 << 63] {
            let refused = read(&file, &mut [0; 2], offset);
            assert_eq!(refused, Err(Errno::INVAL));
        }
    }
}
