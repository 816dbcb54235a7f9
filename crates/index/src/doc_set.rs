//! [`DocSet`]: the documents that a predicate matches.
//!
//! # Invariants
//! 1. Docids are kept by clusters of 65,536, each as a sorted list, a bitmap or runs, whichever fits how many there are.
//! 2. Operations work cluster by cluster, and cost what the smaller of both sides has there, or 8 KiB.

use roaring::RoaringBitmap;
use std::fmt;
use std::ops::{BitAnd, BitAndAssign, BitOr, BitOrAssign, Range, Sub, SubAssign};

/// A set of docids. `&`, `|` and `-` (and not) make new sets or, with `=`, change the left one.
///
/// ```
/// use quire_index::DocSet;
///
/// let mut even: DocSet = (0..1_000_000).step_by(2).collect();
/// even &= &DocSet::full(10);
/// assert_eq!(even.iter().collect::<Vec<_>>(), [0, 2, 4, 6, 8]);
/// assert_eq!(even.complement(4).iter().collect::<Vec<_>>(), [1, 3]);
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct DocSet(RoaringBitmap);

impl DocSet {
    /// No documents.
    #[must_use]
    pub fn empty() -> DocSet {
        DocSet::default()
    }

    /// The docids below `count`.
    #[must_use]
    pub fn full(count: u32) -> DocSet {
        let mut set = DocSet::empty();
        set.insert_range(0..count);
        set
    }

    /// Adds a docid; true if it was not there.
    pub fn insert(&mut self, docid: u32) -> bool {
        self.0.insert(docid)
    }

    /// Adds all docids of a range.
    pub fn insert_range(&mut self, docids: Range<u32>) {
        self.0.insert_range(docids);
    }

    /// Whether it has this docid.
    #[must_use]
    pub fn contains(&self, docid: u32) -> bool {
        self.0.contains(docid)
    }

    /// How many docids.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The smallest docid.
    #[must_use]
    pub fn min(&self) -> Option<u32> {
        self.0.min()
    }

    /// The largest docid.
    #[must_use]
    pub fn max(&self) -> Option<u32> {
        self.0.max()
    }

    /// How many docids are below `docid`.
    #[must_use]
    pub fn rank(&self, docid: u32) -> u64 {
        docid.checked_sub(1).map_or(0, |last| self.0.rank(last))
    }

    /// The docid that has `rank` others below it.
    #[must_use]
    pub fn select(&self, rank: u64) -> Option<u32> {
        self.0.select(u32::try_from(rank).ok()?)
    }

    /// How many docids both have, without making the set.
    #[must_use]
    pub fn intersection_len(&self, other: &DocSet) -> u64 {
        self.0.intersection_len(&other.0)
    }

    /// The docids below `count` that it does not have.
    #[must_use]
    pub fn complement(&self, count: u32) -> DocSet {
        let mut set = DocSet::full(count);
        set -= self;
        set
    }

    /// Keeps the docids that `keep` says yes to, which is asked in ascending order.
    pub fn retain(&mut self, keep: impl FnMut(u32) -> bool) {
        self.0.retain(keep);
    }

    /// The docids, ascending.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        Iter(self.0.iter())
    }

    /// The docids as ascending ranges, each as long as can be.
    #[must_use]
    pub fn ranges(&self) -> Ranges<'_> {
        Ranges(self.0.iter())
    }
}

impl fmt::Debug for DocSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.ranges()).finish()
    }
}

/// In any order; quick in ascending order.
impl FromIterator<u32> for DocSet {
    fn from_iter<I: IntoIterator<Item = u32>>(docids: I) -> DocSet {
        DocSet(docids.into_iter().collect())
    }
}

impl Extend<u32> for DocSet {
    fn extend<I: IntoIterator<Item = u32>>(&mut self, docids: I) {
        self.0.extend(docids);
    }
}

impl BitAnd for &DocSet {
    type Output = DocSet;

    fn bitand(self, other: &DocSet) -> DocSet {
        DocSet(&self.0 & &other.0)
    }
}

impl BitOr for &DocSet {
    type Output = DocSet;

    fn bitor(self, other: &DocSet) -> DocSet {
        DocSet(&self.0 | &other.0)
    }
}

impl Sub for &DocSet {
    type Output = DocSet;

    fn sub(self, other: &DocSet) -> DocSet {
        DocSet(&self.0 - &other.0)
    }
}

impl BitAndAssign<&DocSet> for DocSet {
    fn bitand_assign(&mut self, other: &DocSet) {
        self.0 &= &other.0;
    }
}

impl BitOrAssign<&DocSet> for DocSet {
    fn bitor_assign(&mut self, other: &DocSet) {
        self.0 |= &other.0;
    }
}

impl SubAssign<&DocSet> for DocSet {
    fn sub_assign(&mut self, other: &DocSet) {
        self.0 -= &other.0;
    }
}

impl<'a> IntoIterator for &'a DocSet {
    type Item = u32;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// The docids of a set, ascending: see [`DocSet::iter`].
#[derive(Clone)]
pub struct Iter<'a>(roaring::bitmap::Iter<'a>);

impl Iter<'_> {
    /// Goes on at the first docid that is not below `docid`; never back.
    pub fn advance_to(&mut self, docid: u32) {
        self.0.advance_to(docid);
    }

    /// Fills the front of `docids` with the next ones; how many. 0 at the end.
    pub fn next_many(&mut self, docids: &mut [u32]) -> usize {
        self.0.next_many(docids).len()
    }
}

impl Iterator for Iter<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        self.0.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl fmt::Debug for Iter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter").finish_non_exhaustive()
    }
}

/// The docids of a set as ranges: see [`DocSet::ranges`].
#[derive(Clone)]
pub struct Ranges<'a>(roaring::bitmap::Iter<'a>);

impl Iterator for Ranges<'_> {
    type Item = Range<u32>;

    fn next(&mut self) -> Option<Range<u32>> {
        let range = self.0.next_range()?;
        // A docid is below 2^32 - 1: a partition takes no more documents.
        Some(*range.start()..range.end().saturating_add(1))
    }
}

impl fmt::Debug for Ranges<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ranges").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::btree_set;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Sparse, dense and in runs, over several clusters.
    fn docids() -> impl Strategy<Value = BTreeSet<u32>> {
        let run = (0u32..200_000, 1u32..9_000).prop_map(|(start, count)| start..start + count);
        let runs = proptest::collection::vec(run, 0..6);
        (btree_set(0u32..200_000, 0..300), runs, 1usize..4).prop_map(|(mut set, runs, step)| {
            set.extend(runs.into_iter().flat_map(|run| run.step_by(step)));
            set
        })
    }

    fn set(docids: &BTreeSet<u32>) -> DocSet {
        docids.iter().copied().collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn it_is_the_set_that_a_btree_set_is(a in docids(), b in docids(), at in 0u32..220_000) {
            let (x, y) = (set(&a), set(&b));
            let expect = |found: DocSet, docids: Vec<u32>| {
                assert_eq!(found.len(), docids.len() as u64);
                assert!(found.iter().eq(docids.iter().copied()));
                assert_eq!(found, docids.into_iter().collect());
            };
            expect(&x & &y, a.intersection(&b).copied().collect());
            expect(&x | &y, a.union(&b).copied().collect());
            expect(&x - &y, a.difference(&b).copied().collect());
            expect(x.complement(at), (0..at).filter(|docid| !a.contains(docid)).collect());
            prop_assert_eq!(x.intersection_len(&y), a.intersection(&b).count() as u64);
            let (mut and, mut or, mut less, mut kept) = (x.clone(), x.clone(), x.clone(), x.clone());
            and &= &y;
            or |= &y;
            less -= &y;
            kept.retain(|docid| b.contains(&docid));
            prop_assert_eq!((&and, or, less), (&(&x & &y), &x | &y, &x - &y));
            prop_assert_eq!(kept, and);

            prop_assert_eq!((x.min(), x.max()), (a.first().copied(), a.last().copied()));
            prop_assert_eq!(x.is_empty(), a.is_empty());
            prop_assert_eq!(x.contains(at), a.contains(&at));
            let rank = a.range(..at).count() as u64;
            prop_assert_eq!(x.rank(at), rank);
            prop_assert_eq!(x.select(rank), a.range(at..).next().copied());
            let mut from = x.iter();
            from.advance_to(at);
            let mut some = [0; 100];
            let count = from.next_many(&mut some);
            prop_assert_eq!(&some[..count], &a.range(at..).take(100).copied().collect::<Vec<_>>());
            prop_assert!(from.eq(a.range(at..).skip(100).copied()));
            let mut last = None;
            for range in x.ranges() {
                prop_assert!(range.start < range.end && last.is_none_or(|last| last < range.start));
                last = Some(range.end);
            }
            prop_assert!(x.ranges().flatten().eq(a.iter().copied()));
            let mut grown = DocSet::empty();
            for docid in a.iter().rev() {
                prop_assert!(grown.insert(*docid) && !grown.insert(*docid));
            }
            prop_assert_eq!(grown, x);
        }
    }
}
