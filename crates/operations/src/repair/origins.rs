//! Origins: which record of the damaged database a version of the new one was made from.
//!
//! Records are written in the order of the log, so versions and positions run side by side from one
//! lost record to the next: it is enough to keep where each such interval begins.

use quire_model::Position;

/// A partition of the damaged database, and a position in its log.
pub(super) type Origin = (u32, Position);

#[derive(Debug)]
struct Interval {
    /// The first version of the new partition that it holds.
    first: Position,
    /// What that was made from; none for what the repair wrote of its own.
    origin: Option<Origin>,
}

/// Of each partition of a new collection, its intervals in order.
#[derive(Debug)]
pub(super) struct Origins(Vec<Vec<Interval>>);

impl Origins {
    pub(super) fn new(partitions: u32) -> Origins {
        Origins((0..partitions).map(|_| Vec::new()).collect())
    }

    /// Notes what a version was made from. Versions of a partition come in order.
    pub(super) fn note(&mut self, partition: u32, version: Position, origin: Option<Origin>) {
        let intervals = self.0.get(partition as usize);
        let last = intervals.and_then(|intervals| intervals.last());
        debug_assert!(
            last.is_none_or(|last| last.first < version),
            "versions of a partition come in order"
        );
        if self.origin(partition, version) != origin
            && let Some(intervals) = self.0.get_mut(partition as usize)
        {
            intervals.push(Interval {
                first: version,
                origin,
            });
        }
    }

    /// What a version was made from.
    pub(super) fn origin(&self, partition: u32, version: Position) -> Option<Origin> {
        let intervals = self.0.get(partition as usize)?;
        let after = intervals.partition_point(|interval| interval.first <= version);
        let interval = intervals.get(after.checked_sub(1)?)?;
        let (from, position) = interval.origin?;
        Some((from, Position(position.0 + (version.0 - interval.first.0))))
    }

    /// The partitions of the new collection that hold anything of one of the damaged one.
    pub(super) fn holders(&self, from: u32) -> Vec<u32> {
        let holds = |intervals: &Vec<Interval>| {
            let mut origins = intervals.iter().filter_map(|interval| interval.origin);
            origins.any(|(partition, _)| partition == from)
        };
        (0..)
            .zip(&self.0)
            .filter(|(_, intervals)| holds(intervals))
            .map(|(partition, _)| partition)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_finds_what_it_was_made_from() {
        let mut origins = Origins::new(2);
        let of = |partition, position| Some((partition, Position(position)));
        let made = [of(0, 1), of(0, 2), of(0, 7), of(0, 8), None, None, of(1, 1)];
        for (version, origin) in (1..).map(Position).zip(made) {
            origins.note(1, version, origin);
        }
        for (version, origin) in (1..).map(Position).zip(made) {
            assert_eq!(origins.origin(1, version), origin, "version {version}");
        }
        assert_eq!(origins.0[1].len(), 4, "a interval for each break");
        assert_eq!(origins.origin(0, Position(1)), None);
        assert_eq!((origins.holders(0), origins.holders(2)), (vec![1], vec![]));
    }
}
