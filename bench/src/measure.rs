//! What the machine says of this process: time, CPU, memory, disk.

use crate::Result;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Instant;

/// A stopwatch for wall time and for CPU time of all threads, the engine's own included.
pub(crate) struct Watch {
    start: Instant,
    cpu: fn() -> Result<f64>,
    cpu_seconds: f64,
}

impl Watch {
    pub(crate) fn start() -> Result<Watch> {
        Watch::start_with(cpu_seconds)
    }

    /// One for the CPU time of processes that this one started and has waited for.
    pub(crate) fn start_of_children() -> Result<Watch> {
        Watch::start_with(children_cpu_seconds)
    }

    fn start_with(cpu: fn() -> Result<f64>) -> Result<Watch> {
        Ok(Watch {
            cpu,
            cpu_seconds: cpu()?,
            start: Instant::now(),
        })
    }

    /// Seconds since the start: wall, CPU.
    pub(crate) fn stop(&self) -> Result<(f64, f64)> {
        let wall = self.start.elapsed().as_secs_f64();
        Ok((wall, (self.cpu)()? - self.cpu_seconds))
    }
}

/// CPU seconds of this process so far, in steps of 10 ms.
fn cpu_seconds() -> Result<f64> {
    cpu_seconds_of("self")
}

/// CPU seconds of the processes that this one has waited for, in steps of 10 ms.
fn children_cpu_seconds() -> Result<f64> {
    ticks_of("self", 13)
}

/// CPU seconds of a process so far, by its number, in steps of 10 ms.
pub(crate) fn cpu_seconds_of(process: &str) -> Result<f64> {
    ticks_of(process, 11)
}

/// Two times of a process, user and system, as seconds: by the place of the first in
/// `/proc/…/stat`, after the name.
fn ticks_of(process: &str, first: usize) -> Result<f64> {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name in parentheses may hold spaces.
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let ticks = |field: usize| {
        fields
            .get(field)
            .and_then(|text| text.parse::<u64>().ok())
            .ok_or("odd /proc/…/stat")
    };
    Ok((ticks(first)? + ticks(first + 1)?) as f64 / TICKS_PER_SECOND)
}

/// CPU nanoseconds of this thread so far.
pub(crate) fn thread_cpu_nanos() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Bytes of a line of `/proc/self/status`, such as `VmHWM` (the most resident memory so far) or
/// `VmRSS` (now).
pub(crate) fn memory_bytes(line: &str) -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let found = status
        .lines()
        .find_map(|text| text.strip_prefix(line)?.strip_prefix(':'));
    let kib = found.and_then(|text| text.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    Ok(kib.ok_or_else(|| format!("no {line} in /proc/self/status"))? << 10)
}

/// Bytes of disk that all files below `dir` take: allocated blocks, not lengths.
pub(crate) fn disk_bytes(dir: &Path) -> Result<u64> {
    let mut total = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        total += if metadata.is_dir() {
            disk_bytes(&entry.path())?
        } else {
            metadata.blocks() * 512
        };
    }
    Ok(total)
}

/// Runs `measure` with a directory that is made before and removed after, whatever comes of it. One
/// that has files is refused: they may be somebody's, or of a run that was stopped.
pub(crate) fn in_directory<T>(dir: &Path, measure: impl FnOnce() -> Result<T>) -> Result<T> {
    fs::create_dir_all(dir)?;
    if fs::read_dir(dir)?.next().is_some() {
        let dir = dir.display();
        return Err(format!("{dir} is not empty: remove it, or choose another --dir").into());
    }
    let measured = measure();
    fs::remove_dir_all(dir)?;
    measured
}

/// The middle one; of an even number, the greater of the two.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The median, and the least and the most in parentheses.
pub(crate) fn spread(values: Vec<f64>) -> String {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{:.2} ({least:.2} to {most:.2})", median(values))
}

/// How long each operation took, in tenths of microseconds.
#[derive(Debug, Default)]
pub(crate) struct Latencies(Vec<u32>);

impl Latencies {
    /// Reserves memory for this many operations.
    pub(crate) fn with_capacity(operations: usize) -> Latencies {
        Latencies(Vec::with_capacity(operations))
    }

    /// Times one operation.
    pub(crate) fn time<T>(&mut self, operation: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let done = operation();
        self.push_nanos(start.elapsed().as_nanos());
        done
    }

    /// Adds an operation that took so long.
    pub(crate) fn push_nanos(&mut self, nanos: u128) {
        self.0.push(u32::try_from(nanos / 100).unwrap_or(u32::MAX));
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds those of another thread.
    pub(crate) fn append(&mut self, mut other: Latencies) {
        self.0.append(&mut other.0);
    }

    /// For each part (0 to 1), the time in microseconds that this share of operations took at most.
    pub(crate) fn micros<const N: usize>(mut self, parts: [f64; N]) -> [f64; N] {
        self.0.sort_unstable();
        parts.map(|part| {
            let ordinal = (part * self.0.len() as f64).ceil() as usize;
            let index = ordinal.clamp(1, self.0.len().max(1)) - 1;
            f64::from(self.0.get(index).copied().unwrap_or(0)) / 10.0
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_a_known_row() {
        let row = || Latencies((1..=100).rev().map(|micros| micros * 10).collect());
        assert_eq!(
            row().micros([0.001, 0.5, 0.99, 1.0]),
            [1.0, 50.0, 99.0, 100.0]
        );
        assert_eq!(Latencies::default().micros([0.5]), [0.0]);
    }

    #[test]
    fn this_process_takes_memory_and_time() {
        assert!(memory_bytes("VmHWM").unwrap() >= memory_bytes("VmRSS").unwrap() / 2);
        assert!(memory_bytes("VmNone").is_err());
        assert!(Watch::start().unwrap().stop().unwrap().0 >= 0.0);
    }
}
