//! The I/O manager: each volume admits reads and writes by their class, so that what users wait for
//! goes first.
//!
//! Source: the I/O manager of Bing's web data platform on RocksDB, a multi-level feedback queue for
//! each disk.

mod admission;
mod class;
mod merges;

pub use admission::{AdmissionFigures, AdmissionLimits};
pub use class::{IO_CLASSES, IoClass, IoScope};
pub use merges::{MergeLimits, MergePermit};

use crate::clock::Clock;
use crate::{Gate, Medium};
use admission::{Admission, Admitted};
pub(crate) use class::{class_of_read, class_of_write};
use merges::Merges;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// How a volume admits I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IoLimits {
    /// Of all reads and writes.
    pub admission: AdmissionLimits,
    /// Of compactions.
    pub merges: MergeLimits,
    /// Bytes that a compaction prefetches at once from each of its inputs.
    pub prefetch_bytes: u64,
}

impl IoLimits {
    /// The defaults of a medium.
    pub fn of(medium: Medium) -> IoLimits {
        IoLimits {
            admission: match medium {
                Medium::Ssd => AdmissionLimits {
                    requests_max: 32,
                    bytes_max: 32 << 20,
                    promote_after: Duration::from_millis(100),
                },
                Medium::Hdd => AdmissionLimits {
                    requests_max: 4,
                    bytes_max: 8 << 20,
                    promote_after: Duration::from_millis(500),
                },
            },
            merges: MergeLimits {
                seeks: medium == Medium::Hdd,
                ..MergeLimits::default()
            },
            // It reads several files in turns, so a hard disk seeks each time.
            prefetch_bytes: match medium {
                Medium::Ssd => 256 << 10,
                Medium::Hdd => 2 << 20,
            },
        }
    }
}

/// Of this number of reads, one is timed.
const TIMED_EVERY: u32 = 16;

/// What all databases of a process share of one disk.
pub struct VolumeIo {
    clock: Box<dyn Clock>,
    pub(crate) admission: Admission,
    merges: Arc<Merges>,
    /// Reads so far.
    reads: AtomicU32,
    /// Files that are being written.
    pub(crate) appending: AtomicU64,
    pub(crate) prefetch_bytes: u64,
}

impl fmt::Debug for VolumeIo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VolumeIo")
            .field("admission", &self.admission.figures())
            .finish_non_exhaustive()
    }
}

/// What a file being written counts as load.
const APPENDING_BYTES: u64 = 4 << 20;

impl VolumeIo {
    pub(crate) fn new(gate: Arc<dyn Gate>, clock: Box<dyn Clock>, limits: IoLimits) -> VolumeIo {
        VolumeIo {
            admission: Admission::new(gate, limits.admission),
            merges: Arc::new(Merges::new(limits.merges)),
            reads: AtomicU32::new(0),
            appending: AtomicU64::new(0),
            prefetch_bytes: limits.prefetch_bytes,
            clock,
        }
    }

    pub(crate) fn admit(&self, class: IoClass, bytes: u64) -> Admitted<'_> {
        self.admission.enter(&*self.clock, class, bytes)
    }

    /// Does a read of `bytes` once it is its turn.
    pub(crate) fn read<T>(&self, bytes: u64, read: impl FnOnce() -> T) -> T {
        let class = class_of_read();
        let count = self.reads.fetch_add(1, Ordering::Relaxed);
        let _admitted = self.admit(class, bytes);
        if class != IoClass::Read || !count.is_multiple_of(TIMED_EVERY) {
            return read();
        }
        let begun = self.clock.monotonic();
        let done = read();
        let now = self.clock.monotonic();
        self.merges.note_read(now.saturating_sub(begun), now);
        done
    }

    /// Does a write or sync of `bytes` once it is its turn.
    pub(crate) fn write<T>(&self, bytes: u64, write: impl FnOnce() -> T) -> T {
        let class = class_of_write();
        if class == IoClass::Log {
            self.merges.note_written(bytes);
        }
        if class == IoClass::Compaction {
            let wait = self.merges.wait_for(bytes, self.clock.monotonic());
            if !wait.is_zero() {
                self.clock.sleep(wait);
            }
        }
        let _admitted = self.admit(class, bytes);
        write()
    }

    /// Begins a compaction that writes to this disk, if one more may; else `again` is called once
    /// one has ended.
    pub fn begin_merge(&self, again: Box<dyn FnOnce() + Send>) -> Option<MergePermit> {
        MergePermit::begin(&self.merges, again)
    }

    /// Bytes under way, and files being written counted as some.
    pub(crate) fn load_bytes(&self) -> u64 {
        let appending = self.appending.load(Ordering::Relaxed);
        self.admission.bytes() + appending.saturating_mul(APPENDING_BYTES)
    }

    /// Figures of its queue.
    pub fn figures(&self) -> AdmissionFigures {
        self.admission.figures()
    }

    /// Compactions that run, and the bytes per second that they may write; none if that is not
    /// limited.
    pub fn merges(&self) -> (u64, Option<u64>) {
        self.merges.figures()
    }
}
