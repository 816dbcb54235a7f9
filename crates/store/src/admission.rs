//! How fast writers may go: a pure function of how full the memtables are.
//!
//! Up to half the limit writers run free. From there to the limit they are held to a rate that
//! halves with every sixteenth of the limit, so that a flush that falls behind is met by writers
//! that slow down with it: nobody is stopped for seconds and memory does not grow. At the limit
//! itself a writer waits until a flush has freed memory.

use std::time::Duration;

/// The rate at which writers are first held, in memtable bytes a second.
const RATE_MAX: f64 = 256.0 * 1024.0 * 1024.0;

/// The longest delay of one write: several short waits are better than a long one.
const DELAY_MAX: Duration = Duration::from_millis(50);

/// How long a writer that has just added `bytes` waits, when `used` of `limit` bytes of memtables
/// are in use.
pub(crate) fn delay(used: u64, limit: u64, bytes: u64) -> Duration {
    let half = limit / 2;
    if used <= half || half == 0 {
        return Duration::ZERO;
    }
    let pressure = ((used - half) as f64 / half as f64).min(1.0);
    let rate = RATE_MAX * (-8.0 * pressure).exp2();
    Duration::from_secs_f64(bytes as f64 / rate).min(DELAY_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn writers_run_free_up_to_half_the_limit() {
        for used in [0, 1, 31 * MIB, 32 * MIB] {
            assert_eq!(delay(used, 64 * MIB, MIB), Duration::ZERO);
        }
    }

    #[test]
    fn the_delay_grows_with_pressure_and_with_bytes_and_is_bounded() {
        let mut last = Duration::ZERO;
        for used in (33..=64).map(|mib| mib * MIB) {
            let now = delay(used, 64 * MIB, 4096);
            assert!(now >= last, "at {used}");
            assert!(delay(used, 64 * MIB, 8192) >= now);
            last = now;
        }
        assert!(
            last >= Duration::from_millis(3),
            "4 KiB at the limit goes at about 1 MiB/s: {last:?}"
        );
        assert_eq!(delay(u64::MAX, 64 * MIB, u64::MAX), DELAY_MAX);
        assert_eq!(delay(1, 0, 1), Duration::ZERO);
    }
}
