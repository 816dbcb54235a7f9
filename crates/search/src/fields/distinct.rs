//! [`DistinctValues`]: about how many different values there are, in bounded memory.
//!
//! The least hashes are kept, each once. Of few values they are all there, and the number is exact.
//! Of many, the greatest kept hash says how close hashes lie.
//!
//! Source: Bar-Yossef and others 2002, "Counting distinct elements in a data stream".

/// Hashes that are kept. The number of more values than that is off by about 3 percent.
const KEPT: usize = 1024;

/// See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct DistinctValues {
    /// The least hashes, ascending, each once.
    hashes: Vec<u64>,
    /// There were more than are kept.
    has_more: bool,
}

impl DistinctValues {
    /// Adds a value by its hash.
    pub(crate) fn add(&mut self, hash: u64) {
        let is_full = self.hashes.len() == KEPT;
        if is_full && self.hashes.last().is_some_and(|last| hash > *last) {
            self.has_more = true;
        } else if let Err(place) = self.hashes.binary_search(&hash) {
            self.hashes.insert(place, hash);
            self.has_more |= is_full;
            self.hashes.truncate(KEPT);
        }
        debug_assert!(self.hashes.len() <= KEPT, "the hashes kept are bounded");
    }

    /// Adds the values of another.
    pub(crate) fn merge(&mut self, other: &DistinctValues) {
        other.hashes.iter().for_each(|hash| self.add(*hash));
        self.has_more |= other.has_more;
    }

    /// Whether [`count`](Self::count) is exact.
    pub(crate) fn is_exact(&self) -> bool {
        !self.has_more
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        match self.hashes.last() {
            Some(last) if self.has_more => {
                let share = (*last as f64 + 1.0) / 2f64.powi(64);
                ((self.hashes.len() as f64 - 1.0) / share).round() as u64
            }
            _ => self.hashes.len() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xxhash_rust::xxh3::xxh3_64;

    fn of(numbers: std::ops::Range<u64>) -> DistinctValues {
        let mut values = DistinctValues::default();
        for number in numbers.clone().chain(numbers) {
            values.add(xxh3_64(&number.to_le_bytes()));
        }
        values
    }

    #[test]
    fn few_values_are_counted_exactly_and_many_nearly() {
        for count in [0, 1, 1000, KEPT as u64] {
            assert!(of(0..count).is_exact());
            assert_eq!(of(0..count).count(), count);
        }
        for count in [KEPT as u64 + 1, 10_000, 100_000] {
            let mut halves = of(0..count / 2);
            halves.merge(&of(count / 3..count));
            for values in [of(0..count), halves] {
                assert!(!values.is_exact());
                let off = values.count().abs_diff(count);
                assert!(off < count / 8, "{count}: {}", values.count());
            }
        }
    }
}
