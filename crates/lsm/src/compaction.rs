//! Which runs to merge: a pure function of their sizes.

use std::fmt;
use std::ops::Range;

/// Picks runs to merge. Looks at sizes only and does no I/O, so it is tested as a table of cases.
pub trait CompactionPolicy: Send + Sync + fmt::Debug {
    /// The runs to merge into one, of runs of these sizes in bytes, newest first; `None` to leave them be. A range
    /// holds at least two.
    fn pick(&self, run_bytes: &[u64]) -> Option<Range<usize>>;
}

/// Merges the new run with every following run that is not larger than what is being merged.
///
/// For equal flushes the runs are a binary counter: after n flushes there are as many runs as n has one-bits, and a
/// byte is rewritten once per doubling of the tree. Reads look at a logarithm of runs, and all I/O is sequential.
#[derive(Debug, Clone, Copy, Default)]
pub struct Geometric;

impl CompactionPolicy for Geometric {
    fn pick(&self, run_bytes: &[u64]) -> Option<Range<usize>> {
        let mut merged = 0u64;
        let mut end = 0;
        for &bytes in run_bytes {
            if end > 0 && bytes > merged {
                break;
            }
            merged = merged.saturating_add(bytes);
            end += 1;
        }
        (end >= 2).then_some(0..end)
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
            (&[4, 1, 5, 11, 2], Some(0..3)),
            (&[0, 0, 1], Some(0..2)),
            (&[u64::MAX, u64::MAX, 1], Some(0..3)),
        ];
        for (sizes, expected) in cases {
            assert_eq!(&Geometric.pick(sizes), expected, "{sizes:?}");
        }
    }

    /// Runs after `flushes` of one unit each, and the units written if a flush that is merged at once is written
    /// only as part of the merged run (as published), or also as a run of its own (as [`Tree`](crate::Tree) does).
    fn walk(flushes: usize) -> (Vec<u64>, u64, u64) {
        let (mut runs, mut as_published, mut as_built) = (Vec::new(), 0, 0);
        for _ in 0..flushes {
            runs.insert(0, 1);
            as_built += 1;
            match Geometric.pick(&runs) {
                Some(range) => {
                    let merged: u64 = runs.drain(range).sum();
                    runs.insert(0, merged);
                    as_published += merged;
                    as_built += merged;
                }
                None => as_published += 1,
            }
        }
        (runs, as_published, as_built)
    }

    #[test]
    fn equal_flushes_walk_like_a_binary_counter() {
        assert_eq!(walk(4), (vec![4], 8, 10));
        assert_eq!(walk(100).0, [4, 32, 64]);
        for flushes in 1..300usize {
            assert_eq!(walk(flushes).0.len(), flushes.count_ones() as usize);
        }
    }
}
