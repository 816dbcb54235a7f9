//! Which log segments to compact: a decision about numbers, apart from doing it.
//!
//! The log is kept at least so much alive as the setting says: as long as less of it is, the
//! segment with the smallest live part is rewritten, with neighbours that fit beside what is left
//! of it. So the sealed part of the log takes at most 1 / ratio of what is live in it, however
//! records are overwritten; and what is copied is what is cheapest to copy.

use quire_model::Position;
use std::ops::Range;

/// The most positions that one segment may stand for.
const POSITIONS_MAX: u64 = 1 << 31;

/// A segment that may be compacted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) base: Position,
    pub(crate) next: Position,
    /// Bytes of its records that are needed.
    pub(crate) live_bytes: u64,
    /// Bytes of its records that are not.
    pub(crate) dead_bytes: u64,
    /// Bytes of its file.
    pub(crate) file_bytes: u64,
}

impl Candidate {
    fn live_part(&self) -> f64 {
        self.live_bytes as f64 / (self.live_bytes + self.dead_bytes).max(1) as f64
    }

    /// About what it will take when it is rewritten.
    pub(crate) fn file_bytes_after(&self) -> u64 {
        (self.file_bytes as f64 * self.live_part()) as u64
    }
}

/// The neighbours to rewrite as one next, so that `live_ratio` of all is live; `None` if it is. No
/// result is to be larger than `segment_bytes`, unless a single segment is.
pub(crate) fn pick(
    candidates: &[Candidate],
    live_ratio: f64,
    segment_bytes: u64,
) -> Option<Range<usize>> {
    let live: u64 = candidates.iter().map(|segment| segment.live_bytes).sum();
    let dead: u64 = candidates.iter().map(|segment| segment.dead_bytes).sum();
    if live as f64 >= live_ratio * (live + dead) as f64 {
        return None;
    }
    let (worst, segment) = candidates
        .iter()
        .enumerate()
        .filter(|(_, segment)| segment.dead_bytes > 0)
        .min_by(|(_, a), (_, b)| a.live_part().total_cmp(&b.live_part()))?;
    let mut range = worst..worst + 1;
    let mut bytes = segment.file_bytes_after();
    // A neighbour that is more than half full stands well by itself.
    let mut fits = |range: &Range<usize>, added: Option<&Candidate>| {
        let Some(added) = added else { return false };
        let ends = [range.start, range.end - 1].map(|at| candidates.get(at));
        let [Some(first), Some(last)] = ends else {
            return false;
        };
        let positions = last.next.max(added.next).0 - first.base.min(added.base).0;
        let size = added.file_bytes_after();
        let fits = bytes + size <= segment_bytes
            && size <= segment_bytes / 2
            && positions <= POSITIONS_MAX;
        if fits {
            bytes += size;
        }
        fits
    };
    loop {
        let before = range.start.checked_sub(1).and_then(|at| candidates.get(at));
        if fits(&range, before) {
            range.start -= 1;
        } else if fits(&range, candidates.get(range.end)) {
            range.end += 1;
        } else {
            return Some(range);
        }
    }
}

/// The neighbours to rewrite as one each, so that nothing dead and no two small segments side by
/// side are left.
pub(crate) fn pick_all(candidates: &[Candidate], segment_bytes: u64) -> Vec<Range<usize>> {
    let mut groups: Vec<(Range<usize>, u64)> = Vec::new();
    for (at, segment) in candidates.iter().enumerate() {
        let size = segment.file_bytes_after();
        if let Some((group, bytes)) = groups.last_mut()
            && *bytes + size <= segment_bytes
            && candidates
                .get(group.start)
                .is_some_and(|first| segment.next.0 - first.base.0 <= POSITIONS_MAX)
        {
            group.end = at + 1;
            *bytes += size;
        } else {
            groups.push((at..at + 1, size));
        }
    }
    let worth_it = |group: &Range<usize>| {
        let members = candidates.get(group.clone()).unwrap_or_default();
        members.len() > 1 || members.iter().any(|segment| segment.dead_bytes > 0)
    };
    groups
        .into_iter()
        .map(|(group, _)| group)
        .filter(worth_it)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Live and dead bytes of each segment.
    type Sizes = &'static [(u64, u64)];

    /// Segments of 100 positions each, with these live and dead bytes.
    fn segments(sizes: &[(u64, u64)]) -> Vec<Candidate> {
        let candidate = |(at, (live, dead)): (usize, &(u64, u64))| Candidate {
            base: Position(1 + at as u64 * 100),
            next: Position(101 + at as u64 * 100),
            live_bytes: *live,
            dead_bytes: *dead,
            file_bytes: live + dead,
        };
        sizes.iter().enumerate().map(candidate).collect()
    }

    #[test]
    fn picks_the_least_live_with_neighbours_that_fit_once_too_little_is_live() {
        let table: &[(Sizes, Option<Range<usize>>)] = &[
            (&[], None),
            (&[(0, 0)], None),
            (&[(75, 25)], None),
            (&[(65, 35)], Some(0..1)),
            (&[(100, 0), (41, 59)], None),
            (&[(90, 10), (20, 80), (90, 10)], Some(1..2)),
            (&[(40, 60), (20, 80), (90, 10)], Some(0..2)),
            (&[(30, 70), (30, 70), (30, 70), (30, 70)], Some(0..3)),
            (
                &[(90, 10), (0, 100), (10, 5), (10, 5), (90, 10)],
                Some(1..4),
            ),
        ];
        for (sizes, expected) in table {
            assert_eq!(pick(&segments(sizes), 0.7, 100), *expected, "{sizes:?}");
        }
    }

    #[test]
    fn all_leaves_nothing_dead_and_no_small_neighbours() {
        let table: &[(Sizes, &[(usize, usize)])] = &[
            (&[], &[]),
            (&[(100, 0), (100, 0)], &[]),
            (&[(99, 1), (100, 0)], &[(0, 1)]),
            (&[(50, 50), (50, 50), (50, 50)], &[(0, 2), (2, 3)]),
            (&[(100, 0), (20, 0), (30, 0), (100, 0)], &[(1, 3)]),
        ];
        for (sizes, expected) in table {
            let picked = pick_all(&segments(sizes), 100).into_iter();
            let picked: Vec<_> = picked.map(|range| (range.start, range.end)).collect();
            assert_eq!(picked, *expected, "{sizes:?}");
        }
    }

    /// Overwrites spread evenly over all documents: the log never takes more than the ratio allows,
    /// and no more is copied than the theory of cleaning by the least live part says.
    #[test]
    fn even_overwrites_take_bounded_space_and_copies() {
        let (documents, in_segment) = (20_000_usize, 500_u64);
        let mut homes = vec![usize::MAX; documents];
        let mut live: Vec<u64> = Vec::new();
        let mut total: Vec<u64> = Vec::new();
        let (mut copied, mut written, mut worst) = (0, 0, 0.0_f64);
        let mut random = 1_u64;
        for step in 0..documents * 8 {
            if total.last().is_none_or(|records| *records == in_segment) {
                live.push(0);
                total.push(0);
            }
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let document = match step < documents {
                true => step,
                false => (random >> 33) as usize % documents,
            };
            if let Some(home) = live.get_mut(homes[document]) {
                *home -= 1;
            }
            let newest = live.len() - 1;
            homes[document] = newest;
            live[newest] += 1;
            total[newest] += 1;
            written += 1;
            let sizes: Vec<_> = (0..newest)
                .map(|at| (live[at], total[at] - live[at]))
                .collect();
            if let Some(range) = pick(&segments(&sizes), 0.7, in_segment) {
                // Each document keeps its position: only the segment's number changes.
                let kept: u64 = live[range.clone()].iter().sum();
                copied += kept;
                let gone = range.len() - 1;
                for home in homes.iter_mut().filter(|home| **home != usize::MAX) {
                    if *home >= range.end {
                        *home -= gone;
                    } else if *home >= range.start {
                        *home = range.start;
                    }
                }
                live.splice(range.clone(), [kept]);
                total.splice(range, [kept]);
            }
            if step >= documents {
                worst = worst.max(total.iter().sum::<u64>() as f64 / documents as f64);
            }
        }
        assert!(worst <= 1.5, "{worst} times what is live");
        assert!(
            copied < written * 3 / 2,
            "{copied} copied for {written} written"
        );
    }
}
