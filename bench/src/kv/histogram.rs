//! How long operations took, in little memory: buckets of 1/32 of a power of two nanoseconds.

/// Counts by bucket.
#[derive(Debug, Clone)]
pub(super) struct Histogram {
    counts: Vec<u64>,
    count: u64,
    max: u64,
}

/// Nanoseconds below this have a bucket each.
const EXACT: u64 = 64;

impl Histogram {
    pub(super) fn new() -> Histogram {
        Histogram {
            counts: vec![0; 64 * 32],
            count: 0,
            max: 0,
        }
    }

    /// Counts an operation that took this many nanoseconds.
    pub(super) fn add(&mut self, nanos: u64) {
        if let Some(count) = self.counts.get_mut(bucket(nanos)) {
            *count += 1;
        }
        self.count += 1;
        self.max = self.max.max(nanos);
    }

    /// Adds those of another thread.
    pub(super) fn append(&mut self, other: &Histogram) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.count += other.count;
        self.max = self.max.max(other.max);
    }

    /// Microseconds that this part (0 to 1) of the operations took at most, to 3 %.
    pub(super) fn micros(&self, part: f64) -> f64 {
        let mut ordinal = (part * self.count as f64) as u64;
        for (bucket, count) in self.counts.iter().enumerate() {
            if ordinal < *count {
                return ceiling(bucket).min(self.max) as f64 / 1e3;
            }
            ordinal -= count;
        }
        self.max_micros()
    }

    /// Microseconds of the longest.
    pub(super) fn max_micros(&self) -> f64 {
        self.max as f64 / 1e3
    }
}

fn bucket(nanos: u64) -> usize {
    if nanos < EXACT {
        return nanos as usize;
    }
    let shift = 58 - nanos.leading_zeros();
    shift as usize * 32 + (nanos >> shift) as usize
}

/// The longest time in a bucket.
fn ceiling(bucket: usize) -> u64 {
    if bucket < EXACT as usize {
        return bucket as u64;
    }
    let shift = bucket / 32 - 1;
    ((bucket as u64 % 32 + 33) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_lies_in_its_bucket() {
        for nanos in (0..1000).chain([4095, 4096, 1 << 40, (1 << 40) + 12345]) {
            let at = bucket(nanos);
            assert!(nanos <= ceiling(at) && ceiling(at) <= nanos + nanos / 32);
            assert!(at == 0 || ceiling(at - 1) < nanos);
        }
    }

    #[test]
    fn percentiles_of_a_known_row() {
        let mut row = Histogram::new();
        (0..100).for_each(|_| row.add(50));
        row.add(1_000_000);
        let mut both = Histogram::new();
        both.append(&row);
        assert_eq!([0.5, 0.999].map(|part| both.micros(part)), [0.05, 1000.0]);
        assert_eq!(Histogram::new().micros(0.5), 0.0);
    }
}
