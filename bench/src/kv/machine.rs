//! What the machine says of this process: as `bench/peers/kv/machine.h`.

use crate::Result;
use rustix::time::{ClockId, clock_gettime};
use std::fs;

/// What this process has used so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct Used {
    pub(super) wall_seconds: f64,
    /// User and system, of all threads.
    pub(super) cpu_seconds: f64,
    /// What the process made the system write to disk, now or later: pages of files, by their being
    /// made dirty.
    pub(super) written_bytes: u64,
    /// What of that the disk was spared, as the files were deleted before.
    pub(super) cancelled_bytes: u64,
    pub(super) read_bytes: u64,
}

impl Used {
    pub(super) fn so_far() -> Result<Used> {
        let io = fs::read_to_string("/proc/self/io")?;
        let number = |name: &str| -> Result<u64> {
            let line = io.lines().find_map(|line| line.strip_prefix(name));
            Ok(line.ok_or("odd /proc/self/io")?.trim().parse()?)
        };
        Ok(Used {
            wall_seconds: seconds(ClockId::Monotonic),
            cpu_seconds: seconds(ClockId::ProcessCPUTime),
            written_bytes: number("write_bytes:")?,
            cancelled_bytes: number("cancelled_write_bytes:")?,
            read_bytes: number("read_bytes:")?,
        })
    }
}

fn seconds(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The most resident memory is counted from here on.
pub(super) fn reset_peak_memory() -> Result<()> {
    Ok(fs::write("/proc/self/clear_refs", "5")?)
}
