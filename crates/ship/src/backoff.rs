//! Waits between attempts: exponential, with jitter.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);
const MAX: Duration = Duration::from_secs(30);

/// The wait before another attempt after `failed` attempts failed, from 1 on: at random between a
/// half and the whole of 100 ms, doubled with each, 30 s at most. `random` decides.
pub(crate) fn wait(failed: u32, random: u16) -> Duration {
    let doubled = FIRST.saturating_mul(1 << failed.saturating_sub(1).min(16));
    let whole = doubled.min(MAX);
    whole / 2 + whole / 2 * u32::from(random) / u32::from(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_half_a_minute() {
        assert_eq!(wait(1, 0), Duration::from_millis(50));
        assert_eq!(wait(1, u16::MAX), Duration::from_millis(100));
        assert_eq!(wait(4, u16::MAX), Duration::from_millis(800));
        assert_eq!(wait(u32::MAX, u16::MAX), MAX);
    }
}
