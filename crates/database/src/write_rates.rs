//! [`WriteRates`]: how fast partitions are written.

use quire_model::Position;
use std::collections::BTreeMap;
use std::time::Duration;

/// What is written for a shorter time is no reason for a split.
const WINDOW: Duration = Duration::from_secs(30);

/// How fast the partitions of collections are written, seen over half a minute at a time. Who looks
/// for splits that are due by the setting [`split_rate`](crate::CollectionSettings::split_rate)
/// keeps one.
#[derive(Debug, Default)]
pub struct WriteRates(BTreeMap<String, Rates>);

#[derive(Debug)]
struct Rates {
    since: Duration,
    positions: Vec<Position>,
    /// Writes a second of each partition in the last half minute, once there was one.
    each: Option<Vec<u64>>,
}

impl WriteRates {
    /// The writes a second of each partition of a collection, which ends at these positions now.
    /// `None` before it was seen for long enough.
    pub(crate) fn see(
        &mut self,
        name: &str,
        now: Duration,
        positions: &[Position],
    ) -> Option<&[u64]> {
        let is_as_before = |rates: &Rates| {
            let mut both = rates.positions.iter().zip(positions);
            rates.positions.len() == positions.len() && both.all(|(before, now)| before <= now)
        };
        if !self.0.get(name).is_some_and(is_as_before) {
            let begun = Rates {
                since: now,
                positions: positions.to_vec(),
                each: None,
            };
            self.0.insert(name.to_string(), begun);
            return None;
        }
        let rates = self.0.get_mut(name)?;
        let took = now.saturating_sub(rates.since);
        if took >= WINDOW {
            let written = rates.positions.iter().zip(positions);
            let rate = |(before, now): (&Position, &Position)| {
                let rate = u128::from(now.0 - before.0) * 1_000 / took.as_millis().max(1);
                u64::try_from(rate).unwrap_or(u64::MAX)
            };
            rates.each = Some(written.map(rate).collect());
            (rates.since, rates.positions) = (now, positions.to_vec());
        }
        rates.each.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_that_of_the_last_half_minute() {
        let mut rates = WriteRates::default();
        let mut see = |secs, positions: &[u64]| {
            let positions: Vec<_> = positions.iter().copied().map(Position).collect();
            let found = rates.see("c", Duration::from_secs(secs), &positions);
            found.map(<[u64]>::to_vec)
        };
        assert_eq!(see(100, &[0, 7]), None);
        assert_eq!(see(129, &[5_000_000, 7]), None);
        assert_eq!(see(130, &[5_000_000, 37]), Some(vec![166_666, 1]));
        assert_eq!(see(131, &[9_000_000, 40]), Some(vec![166_666, 1]));
        assert_eq!(see(190, &[9_000_000, 40]), Some(vec![66_666, 0]));
        assert_eq!(see(230, &[9_000_000, 40]), Some(vec![0, 0]));
        // Split, merged, or made anew.
        assert_eq!(see(231, &[9_000_000, 40, 9_000_000, 40]), None);
        assert_eq!(see(270, &[9_000_000, 40, 9_000_000, 39]), None);
        assert_eq!(
            see(300, &[9_000_030, 40, 9_000_000, 39]),
            Some(vec![1, 0, 0, 0])
        );
    }
}
