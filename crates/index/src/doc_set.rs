//! [`DocSet`]: the documents that a predicate matches.
//!
//! # Invariants
//! 1. Clusters ascend, and none is empty.
//! 2. Operations work cluster by cluster. A set in memory can be combined with one in a file
//!    ([`SetView`](crate::SetView)), which is read in place.

mod iter;
#[cfg(test)]
mod tests;

pub use iter::{Iter, Ranges};

use crate::cluster::{CLUSTER_DOCS, Cluster, Owned, Word, join, split};
use crate::side_by_side::{and_count, side_by_side};
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
#[derive(Clone, Default)]
pub struct DocSet {
    clusters: Vec<(u16, Owned)>,
}

impl DocSet {
    /// No documents.
    #[must_use]
    pub fn empty() -> DocSet {
        DocSet::default()
    }

    /// The docids below `count`.
    #[must_use]
    pub fn full(count: u32) -> DocSet {
        let words = (count as usize).div_ceil(64);
        let mut bits = vec![u64::MAX; words];
        if let Some(last) = bits.last_mut().filter(|_| !count.is_multiple_of(64)) {
            *last = u64::MAX >> (64 - count % 64);
        }
        DocSet::from_bits(&bits)
    }

    /// The docids whose bits are set: bit `i` of word `w` stands for docid `64 * w + i`.
    #[must_use]
    pub fn from_bits(words: &[u64]) -> DocSet {
        let clusters = words.chunks(CLUSTER_DOCS as usize / 64).zip(0u16..);
        let owned = |words: &[u64]| {
            let words: Vec<Word> = words.iter().map(|bits| bits.to_le_bytes()).collect();
            Owned::of_words(words)
        };
        DocSet {
            clusters: clusters
                .filter_map(|(words, key)| Some((key, owned(words)?)))
                .collect(),
        }
    }

    /// Memory that the set takes besides itself, in bytes.
    pub fn heap_bytes(&self) -> usize {
        let clusters = self.clusters.iter();
        let of_clusters: usize = clusters.map(|(_, cluster)| cluster.heap_bytes()).sum();
        of_clusters + self.clusters.capacity() * size_of::<(u16, Owned)>()
    }

    /// Adds a docid; true if it was not there.
    pub fn insert(&mut self, docid: u32) -> bool {
        let (key, low) = split(docid);
        let at = self.place(key);
        debug_assert!(
            at.checked_sub(1)
                .and_then(|at| self.clusters.get(at))
                .is_none_or(|(k, _)| *k < key),
            "clusters ascend"
        );
        match self.clusters.get_mut(at) {
            Some((found, cluster)) if *found == key => cluster.insert(low),
            _ => {
                let alone = Owned::List(vec![low.to_le_bytes()]);
                self.clusters.insert(at, (key, alone));
                true
            }
        }
    }

    /// Adds all docids of a range.
    pub fn insert_range(&mut self, docids: Range<u32>) {
        let mut start = docids.start;
        while start < docids.end {
            let (key, low) = split(start);
            let last = (start | (CLUSTER_DOCS - 1)).min(docids.end - 1);
            let mut run = [0; 4];
            let ends = [low.to_le_bytes(), split(last).1.to_le_bytes()];
            run.copy_from_slice(ends.as_flattened());
            self.or_cluster(key, Cluster::Runs(&[run]));
            match last.checked_add(1) {
                Some(next) => start = next,
                None => return,
            }
        }
    }

    /// The index of the cluster `key`, or the index to insert it at.
    fn place(&self, key: u16) -> usize {
        match self.clusters.last() {
            Some((last, _)) if *last < key => self.clusters.len(),
            _ => self.clusters.partition_point(|(found, _)| *found < key),
        }
    }

    pub(crate) fn or_cluster(&mut self, key: u16, more: Cluster<'_>) {
        let at = self.place(key);
        match self.clusters.get_mut(at) {
            Some((found, cluster)) if *found == key => {
                let mine = std::mem::replace(cluster, Owned::List(Vec::new()));
                if let Some(both) = mine.or_in_place(more) {
                    *cluster = both;
                }
            }
            _ => {
                if let Some(more) = more.to_owned() {
                    self.clusters.insert(at, (key, more));
                }
            }
        }
    }

    /// As [`or_cluster`](Self::or_cluster), of a cluster in memory: its docids are not counted
    /// again.
    pub(crate) fn or_owned(&mut self, key: u16, more: &Owned) {
        match self.clusters.last() {
            Some((last, _)) if *last >= key => self.or_cluster(key, more.view()),
            _ => self.clusters.push((key, more.clone())),
        }
    }

    fn cluster(&self, key: u16) -> Option<&Owned> {
        let (found, cluster) = self.clusters.get(self.place(key))?;
        (*found == key).then_some(cluster)
    }

    pub(crate) fn clusters(&self) -> impl Iterator<Item = (u16, Cluster<'_>)> {
        self.clusters
            .iter()
            .map(|(key, cluster)| (*key, cluster.view()))
    }

    pub(crate) fn owned_clusters(&self) -> &[(u16, Owned)] {
        &self.clusters
    }

    pub(crate) fn from_clusters(clusters: impl Iterator<Item = (u16, Option<Owned>)>) -> DocSet {
        let clusters: Vec<_> = clusters
            .filter_map(|(key, cluster)| Some((key, cluster?)))
            .collect();
        debug_assert!(
            clusters.is_sorted_by(|(a, _), (b, _)| a < b),
            "clusters ascend"
        );
        DocSet { clusters }
    }

    /// Whether it has this docid.
    #[must_use]
    pub fn contains(&self, docid: u32) -> bool {
        let (key, low) = split(docid);
        self.cluster(key)
            .is_some_and(|cluster| cluster.view().contains(low))
    }

    /// How many docids.
    #[must_use]
    pub fn len(&self) -> u64 {
        let counts = self.clusters.iter().map(|(_, cluster)| cluster.count());
        counts.map(u64::from).sum()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.clusters.is_empty()
    }

    /// The smallest docid.
    #[must_use]
    pub fn min(&self) -> Option<u32> {
        self.iter().next()
    }

    /// The largest docid.
    #[must_use]
    pub fn max(&self) -> Option<u32> {
        self.select(self.len().checked_sub(1)?)
    }

    /// How many docids are below `docid`.
    #[must_use]
    pub fn ordinal(&self, docid: u32) -> u64 {
        let (key, low) = split(docid);
        let at = self.place(key);
        let before = self.clusters.get(..at).unwrap_or(&self.clusters);
        let before: u64 = before
            .iter()
            .map(|(_, cluster)| u64::from(cluster.count()))
            .sum();
        let inside = self.cluster(key).map_or(0, |cluster| cluster.ordinal(low));
        before + u64::from(inside)
    }

    /// The docid that has `ordinal` others below it.
    #[must_use]
    pub fn select(&self, ordinal: u64) -> Option<u32> {
        let mut left = ordinal;
        for (key, cluster) in &self.clusters {
            let count = u64::from(cluster.count());
            if left < count {
                let low = cluster.select(left as usize)?;
                return Some(join(*key) | u32::from(low));
            }
            left -= count;
        }
        None
    }

    /// How many docids both have, without building the set.
    #[must_use]
    pub fn intersection_len(&self, other: &DocSet) -> u64 {
        and_count(self.clusters(), other.clusters())
    }

    /// How many docids this set and all others have, without building the set.
    #[must_use]
    pub fn intersection_len_of(&self, others: &[&DocSet]) -> u64 {
        if others.is_empty() {
            // Known without a look at the docids.
            return self.len();
        }
        let mut found = Vec::with_capacity(others.len());
        let counts = self.clusters().map(|(key, cluster)| {
            let of_others = others.iter().filter_map(|other| other.cluster(key));
            found.clear();
            found.extend(of_others.map(Owned::view));
            match found.len() == others.len() {
                true => cluster.and_count_of(&found).into(),
                false => 0,
            }
        });
        counts.sum()
    }

    /// Calls `each` with the docids as bits, ascending: the first of 64 neighbours, a multiple of
    /// 64, and the bits of those that are in the set, one at least.
    pub fn each_word(&self, mut each: impl FnMut(u32, u64)) {
        for (key, cluster) in self.clusters() {
            cluster.each_word(|word, bits| each(join(key) + 64 * word, bits));
        }
    }

    pub(crate) fn and_clusters<'a>(&mut self, other: impl Iterator<Item = (u16, Cluster<'a>)>) {
        let mine = std::mem::take(&mut self.clusters);
        let both = side_by_side(mine.into_iter(), other)
            .map(|(key, mine, other)| (key, mine.zip(other).and_then(|(a, b)| a.and_in_place(b))));
        *self = DocSet::from_clusters(both);
    }

    pub(crate) fn or_clusters<'a>(&mut self, other: impl Iterator<Item = (u16, Cluster<'a>)>) {
        let mine = std::mem::take(&mut self.clusters);
        let either = side_by_side(mine.into_iter(), other).map(|(key, mine, other)| {
            let either = match (mine, other) {
                (Some(mine), Some(other)) => mine.or_in_place(other),
                (Some(mine), None) => Some(mine),
                (None, other) => other.and_then(Cluster::to_owned),
            };
            (key, either)
        });
        *self = DocSet::from_clusters(either);
    }

    pub(crate) fn and_not_clusters<'a>(&mut self, other: impl Iterator<Item = (u16, Cluster<'a>)>) {
        let mine = std::mem::take(&mut self.clusters);
        let less = side_by_side(mine.into_iter(), other).map(|(key, mine, other)| {
            let less = match (mine, other) {
                (Some(mine), Some(other)) => mine.and_not_in_place(other),
                (mine, _) => mine,
            };
            (key, less)
        });
        *self = DocSet::from_clusters(less);
    }

    /// The docids below `count` that it does not have.
    #[must_use]
    pub fn complement(&self, count: u32) -> DocSet {
        let mut set = DocSet::full(count);
        set -= self;
        set
    }

    /// Keeps the docids for which `keep` returns true. It is called in ascending order.
    pub fn retain(&mut self, mut keep: impl FnMut(u32) -> bool) {
        let mine = std::mem::take(&mut self.clusters);
        let kept = mine.into_iter().map(|(key, cluster)| {
            let kept = cluster.retain_in_place(|low| keep(join(key) | u32::from(low)));
            (key, kept)
        });
        *self = DocSet::from_clusters(kept);
    }

    /// The docids, ascending.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        Iter::new(&self.clusters)
    }

    /// The docids as ascending ranges, each as long as can be.
    #[must_use]
    pub fn ranges(&self) -> Ranges<'_> {
        Ranges::new(self.iter())
    }
}

impl fmt::Debug for DocSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.ranges()).finish()
    }
}

impl PartialEq for DocSet {
    fn eq(&self, other: &DocSet) -> bool {
        let len = self.len();
        len == other.len() && len == self.intersection_len(other)
    }
}

impl Eq for DocSet {}

/// Docids may come in any order; ascending order is fast.
impl FromIterator<u32> for DocSet {
    fn from_iter<I: IntoIterator<Item = u32>>(docids: I) -> DocSet {
        let mut set = DocSet::empty();
        set.extend(docids);
        set
    }
}

impl Extend<u32> for DocSet {
    fn extend<I: IntoIterator<Item = u32>>(&mut self, docids: I) {
        // Collects docids that ascend within one cluster, and adds them together.
        let (mut piece, mut piece_key, mut last) = (Vec::new(), 0, None);
        for docid in docids {
            let (key, low) = split(docid);
            if !piece.is_empty() && (key != piece_key || last >= Some(docid)) {
                self.or_cluster(piece_key, Cluster::List(&piece));
                piece.clear();
            }
            piece_key = key;
            last = Some(docid);
            piece.push(low.to_le_bytes());
        }
        if !piece.is_empty() {
            self.or_cluster(piece_key, Cluster::List(&piece));
        }
    }
}

impl BitAnd for &DocSet {
    type Output = DocSet;

    fn bitand(self, other: &DocSet) -> DocSet {
        let both = side_by_side(self.clusters(), other.clusters());
        DocSet::from_clusters(both.map(|(key, a, b)| (key, a.zip(b).and_then(|(a, b)| a.and(b)))))
    }
}

impl BitOr for &DocSet {
    type Output = DocSet;

    fn bitor(self, other: &DocSet) -> DocSet {
        let mut either = self.clone();
        either |= other;
        either
    }
}

impl Sub for &DocSet {
    type Output = DocSet;

    fn sub(self, other: &DocSet) -> DocSet {
        let mut less = self.clone();
        less -= other;
        less
    }
}

impl BitAndAssign<&DocSet> for DocSet {
    fn bitand_assign(&mut self, other: &DocSet) {
        self.and_clusters(other.clusters());
    }
}

impl BitOrAssign<&DocSet> for DocSet {
    fn bitor_assign(&mut self, other: &DocSet) {
        self.or_clusters(other.clusters());
    }
}

impl SubAssign<&DocSet> for DocSet {
    fn sub_assign(&mut self, other: &DocSet) {
        self.and_not_clusters(other.clusters());
    }
}

impl<'a> IntoIterator for &'a DocSet {
    type Item = u32;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}
