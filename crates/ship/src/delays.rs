//! How long changes take from their commit at the source until the sink acknowledged them.

/// Delays are told apart from 2^10 microseconds (about a millisecond) to 2^29 (nine minutes), in
/// four parts of each power of two.
const POWER_MIN: u32 = 10;
const POWERS: u32 = 19;
const PARTS_BITS: u32 = 2;
const BUCKETS: usize = (POWERS << PARTS_BITS) as usize;

/// Delays of changes, counted by their size: a quantile is at most a quarter too large.
#[derive(Debug, Clone, PartialEq)]
pub struct Delays {
    counts: [u64; BUCKETS],
    /// The number of all of them, longer ones included.
    count: u64,
    sum_micros: u64,
}

impl Default for Delays {
    fn default() -> Delays {
        Delays {
            counts: [0; BUCKETS],
            count: 0,
            sum_micros: 0,
        }
    }
}

/// The bucket of a delay; one past the last if it is longer.
fn bucket(micros: u64) -> usize {
    let micros = micros.max(1 << POWER_MIN);
    let power = micros.ilog2();
    let part = (micros >> (power - PARTS_BITS)) & ((1 << PARTS_BITS) - 1);
    (((power - POWER_MIN) << PARTS_BITS) as usize + part as usize).min(BUCKETS)
}

/// Seconds that all delays of a bucket are below.
fn bound_seconds(bucket: usize) -> f64 {
    let parts = 1 << PARTS_BITS;
    let power = POWER_MIN + (bucket / parts) as u32;
    let part = (bucket % parts) as u64;
    ((parts as u64 + part + 1) << (power - PARTS_BITS)) as f64 / 1e6
}

impl Delays {
    pub(crate) fn add(&mut self, micros: u64) {
        if let Some(count) = self.counts.get_mut(bucket(micros)) {
            *count += 1;
        }
        self.count += 1;
        self.sum_micros = self.sum_micros.saturating_add(micros);
    }

    /// The number of changes whose time of commit is known.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The sum of all delays in seconds.
    pub fn sum_seconds(&self) -> f64 {
        self.sum_micros as f64 / 1e6
    }

    /// Seconds that this part (0 to 1) of the delays are below; none if there are none, infinity
    /// if that is longer than nine minutes.
    pub fn quantile_seconds(&self, part: f64) -> Option<f64> {
        let wanted = ((self.count as f64 * part).ceil() as u64).max(1);
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        (self.count > 0).then(|| found.map_or(f64::INFINITY, bound_seconds))
    }

    /// Powers of two in seconds, each with the number of delays below it.
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        let mut below = 0;
        let parts = 1 << PARTS_BITS;
        self.counts
            .chunks(parts)
            .enumerate()
            .map(move |(power, counts)| {
                below += counts.iter().sum::<u64>();
                (bound_seconds(power * parts + parts - 1), below)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_never_too_small_and_at_most_a_quarter_too_large() {
        for micros in [1_024, 1_500, 9_999, 1 << 20, 77_777_777, (1 << 29) - 1] {
            let mut delays = Delays::default();
            delays.add(micros);
            let seconds = micros as f64 / 1e6;
            let found = delays.quantile_seconds(0.5).unwrap();
            assert!(
                found > seconds && found < seconds * 1.251,
                "{micros}: {found}"
            );
        }
    }

    #[test]
    fn quantiles_and_sums_go_by_all_delays() {
        let mut delays = Delays::default();
        assert_eq!(delays.quantile_seconds(0.99), None);
        (0..98).for_each(|_| delays.add(0));
        delays.add(50_000);
        delays.add(1 << 40);
        assert!(delays.quantile_seconds(0.5).unwrap() < 0.002);
        let nearly_all = delays.quantile_seconds(0.99).unwrap();
        assert!((0.05..0.0625).contains(&nearly_all), "{nearly_all}");
        assert_eq!(delays.quantile_seconds(1.0), Some(f64::INFINITY));
        let below: Vec<(f64, u64)> = delays.cumulative().collect();
        assert_eq!((below[0], below.len()), ((0.002_048, 98), 19));
        assert_eq!((below[18].1, delays.count()), (99, 100));
    }
}
