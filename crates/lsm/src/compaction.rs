//! Which runs to merge: a pure function of their sizes.

use std::fmt;
use std::ops::Range;

/// Picks runs to merge. Looks at sizes only and does no I/O, so it is tested as a table of cases.
pub trait CompactionPolicy: Send + Sync + fmt::Debug {
    /// The runs to merge into one, of runs of these sizes in bytes, newest first; `None` to leave
    /// them be. A range holds at least two.
    fn pick(&self, run_bytes: &[u64]) -> Option<Range<usize>>;
}

/// Merges the new run with every following run that is not larger than what is being merged, give
/// or take a third: flushes differ, and are merged as time has it, so sizes are not quite powers of
/// two, and runs that just miss each other would stay side by side.
///
/// For equal flushes the runs are a binary counter: after n flushes there are as many runs as n has
/// one-bits, and a byte is rewritten once per doubling of the tree. Reads look at a logarithm of
/// runs, and all I/O is sequential.
#[derive(Debug, Clone, Copy, Default)]
pub struct Geometric;

impl CompactionPolicy for Geometric {
    fn pick(&self, run_bytes: &[u64]) -> Option<Range<usize>> {
        let mut merged = 0u64;
        let mut end = 0;
        for &bytes in run_bytes {
            if end > 0 && bytes > merged.saturating_add(merged / 3) {
                break;
            }
            merged = merged.saturating_add(bytes);
            end += 1;
        }
        (end >= 2).then_some(0..end)
    }
}

/// As [`Geometric`]; and merges all runs once those above the oldest take more than `percent` of
/// its bytes.
///
/// For keys that are written again and again. The oldest run has each key once, so at most
/// `percent` of the tree, and what is being merged, is older versions and deleted keys; the
/// geometric walk alone has them wait until as much again has been written as the oldest run has.
/// For that, a tree that only grows is written more often: once for each `percent` that it grew by.
///
/// Source: the bound on space amplification of RocksDB's universal compaction.
#[derive(Debug, Clone, Copy)]
pub struct SpaceBounded {
    /// Percent of the oldest run, 1 or more.
    pub percent: u32,
}

impl CompactionPolicy for SpaceBounded {
    fn pick(&self, run_bytes: &[u64]) -> Option<Range<usize>> {
        if let Some((oldest, newer)) = run_bytes.split_last()
            && !newer.is_empty()
        {
            let newer: u128 = newer.iter().map(|bytes| u128::from(*bytes)).sum();
            if newer * 100 > u128::from(*oldest) * u128::from(self.percent) {
                return Some(0..run_bytes.len());
            }
        }
        Geometric.pick(run_bytes)
    }
}

/// A flush writes at most this many times its bytes: writing more would hold up writers.
const FLUSH_FACTOR_MAX: u64 = 4;

/// With how many of the runs, of these sizes in bytes and newest first, a flush of about `bytes` is
/// written as one: those that the policy would merge it with at once, so that it is not written
/// twice. None if that were too much for a flush.
pub(crate) fn runs_of_flush(policy: &dyn CompactionPolicy, bytes: u64, run_bytes: &[u64]) -> usize {
    let sizes: Vec<_> = std::iter::once(bytes)
        .chain(run_bytes.iter().copied())
        .collect();
    let Some(range) = policy.pick(&sizes).filter(|range| range.start == 0) else {
        return 0;
    };
    let merged = sizes.get(range.clone()).unwrap_or_default();
    let merged = merged
        .iter()
        .fold(0u64, |sum, bytes| sum.saturating_add(*bytes));
    match merged <= bytes.saturating_mul(FLUSH_FACTOR_MAX) {
        true => range.end - 1,
        false => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_the_new_run_with_those_that_are_not_larger() {
        let cases: &[(&[u64], Option<Range<usize>>)] = &[
            (&[], None),
            (&[5], None),
            (&[1, 2], None),
            (&[2, 2], Some(0..2)),
            (&[1, 1, 2], Some(0..3)),
            (&[1, 1, 3], Some(0..2)),
            (&[1, 1, 3, 1], Some(0..2)),
            (&[4, 1, 5, 14, 2], Some(0..3)),
            (&[90, 120, 281], Some(0..2)),
            (&[90, 121], None),
            (&[0, 0, 1], Some(0..2)),
            (&[u64::MAX, u64::MAX, 1], Some(0..3)),
        ];
        for (sizes, expected) in cases {
            assert_eq!(&Geometric.pick(sizes), expected, "{sizes:?}");
        }
    }

    #[test]
    fn a_bound_on_space_merges_all_runs_once_the_newer_are_more_than_that() {
        type Case<'a> = (u32, &'a [u64], Option<Range<usize>>);
        let cases: &[Case<'_>] = &[
            (25, &[], None),
            (25, &[5], None),
            (25, &[1, 4], None),
            (25, &[2, 4], Some(0..2)),
            (25, &[1, 2, 3, 40], None),
            (25, &[1, 4, 6, 40], Some(0..4)),
            // Within the bound the walk is the other one's.
            (50, &[2, 2, 20], Some(0..2)),
            (400, &[8, 8, 4], Some(0..3)),
            (400, &[9, 12, 5], Some(0..3)),
            (100, &[u64::MAX, u64::MAX, u64::MAX], Some(0..3)),
        ];
        for (percent, sizes, expected) in cases {
            let policy = SpaceBounded { percent: *percent };
            assert_eq!(&policy.pick(sizes), expected, "{percent} % of {sizes:?}");
        }
    }

    #[test]
    fn keys_that_are_written_again_take_what_the_bound_lets_them() {
        // All keys are overwritten by eight flushes, so a run has eight units at most.
        let walk = |policy: &dyn CompactionPolicy| {
            let (mut runs, mut most, mut written) = (Vec::<u64>::new(), 0, 0);
            for _ in 0..800 {
                runs.insert(0, 1);
                written += 1;
                while let Some(range) = policy.pick(&runs) {
                    let merged = runs.drain(range.clone()).sum::<u64>().min(8);
                    runs.insert(range.start, merged);
                    written += merged;
                }
                most = most.max(runs.iter().sum());
            }
            (most, written)
        };
        assert_eq!(walk(&Geometric), (15, 2_400));
        assert_eq!(walk(&SpaceBounded { percent: 50 }), (12, 3_029));
        assert_eq!(walk(&SpaceBounded { percent: 25 }), (10, 3_463));
    }

    /// Runs after `flushes` of one unit each, and the units written if a flush is written as one
    /// with whatever runs it is merged with (as published), or only with few of them (as
    /// [`Tree`](crate::Tree) does).
    fn walk(flushes: usize) -> (Vec<u64>, u64, u64) {
        let (mut runs, mut as_published, mut as_built) = (Vec::new(), 0, 0);
        for _ in 0..flushes {
            let at_once = runs_of_flush(&Geometric, 1, &runs);
            runs.insert(0, 1);
            let merged: u64 = match Geometric.pick(&runs) {
                Some(range) => {
                    let merged = runs.drain(range.clone()).sum();
                    runs.insert(0, merged);
                    // All of them at once, or none.
                    assert!([0, range.len() - 1].contains(&at_once));
                    merged
                }
                None => 1,
            };
            as_published += merged;
            as_built += merged + u64::from(merged > 1 && at_once == 0);
        }
        (runs, as_published, as_built)
    }

    #[test]
    fn equal_flushes_walk_like_a_binary_counter() {
        assert_eq!(walk(4), (vec![4], 8, 8));
        assert_eq!(walk(8), (vec![8], 20, 21));
        assert_eq!(walk(25), (vec![1, 8, 16], 69, 72));
        assert_eq!(walk(100).0, [4, 32, 64]);
        for flushes in 1..300usize {
            assert_eq!(walk(flushes).0.len(), flushes.count_ones() as usize);
        }
    }
}
