//! Cluster: the docids of a set among 65,536 neighbours, by their low 16 bits.
//!
//! # Invariants
//! 1. A list ascends without repeats. Runs ascend, with a gap between each two. Bits may end early:
//!    docids past their end are not in the set.
//! 2. The parts are little-endian arrays of bytes, so a cluster is the same in memory and in a
//!    file, at any address. Bytes of a file that break the first rule give wrong docids, nothing
//!    worse.
//! 3. Operations on two clusters cost about the smaller list, or 8 KiB.

mod bits;
mod list;
mod lows;

pub(crate) use bits::Word;
pub(crate) use lows::Lows;

use bits::{
    bit, clear_bit, ones, ones_in_all, ones_in_both, retained_bits, set_bit, set_range, word,
};
use list::{
    Low, SKEW, filtered, for_each_in_both, insert_few, is_far_shorter, low, merged, remove_few,
    retain_low, without,
};
use std::borrow::Cow;

/// Docids in a cluster.
pub(crate) const CLUSTER_DOCS: u32 = 1 << 16;
/// Words of a whole cluster's bits.
pub(crate) const WORDS_MAX: usize = CLUSTER_DOCS as usize / 64;

/// A first low half, then a last one.
pub(crate) type Run = [u8; 4];

/// The cluster of a docid, and its low half.
#[inline]
pub(crate) fn split(docid: u32) -> (u16, u16) {
    ((docid >> 16) as u16, docid as u16)
}

/// The first docid of a cluster.
#[inline]
pub(crate) fn join(key: u16) -> u32 {
    u32::from(key) << 16
}

/// The docids of one cluster, borrowed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cluster<'a> {
    List(&'a [Low]),
    Bits(&'a [Word]),
    Runs(&'a [Run]),
}

/// The docids of one cluster, owned: a list, or bits of which the last word is not zero. Never
/// empty in a set.
#[derive(Debug, Clone)]
pub(crate) enum Owned {
    List(Vec<Low>),
    Bits { words: Vec<Word>, count: u32 },
}

fn first(run: Run) -> u16 {
    u16::from_le_bytes([run[0], run[1]])
}

fn last(run: Run) -> u16 {
    u16::from_le_bytes([run[2], run[3]])
}

impl<'a> Cluster<'a> {
    pub(crate) fn contains(self, wanted: u16) -> bool {
        match self {
            Cluster::List(lows) => lows.binary_search_by_key(&wanted, |one| low(*one)).is_ok(),
            Cluster::Bits(words) => bit(words, wanted),
            Cluster::Runs(runs) => {
                let after = runs.partition_point(|run| first(*run) <= wanted);
                let before = after.checked_sub(1).and_then(|at| runs.get(at));
                before.is_some_and(|run| wanted <= last(*run))
            }
        }
    }

    /// The docids as bits; copied unless they are.
    fn words(self) -> Cow<'a, [Word]> {
        match self {
            Cluster::Bits(words) => Cow::Borrowed(words),
            Cluster::List(_) | Cluster::Runs(_) => {
                let mut words = Vec::new();
                self.add_to(&mut words);
                Cow::Owned(words)
            }
        }
    }

    /// Sets its bits in `words`; grows as needed.
    pub(crate) fn add_to(self, words: &mut Vec<Word>) {
        match self {
            Cluster::List(lows) => {
                let needed = lows.iter().map(|one| low(*one)).max();
                let needed = needed.map_or(0, |low| usize::from(low) / 64 + 1);
                if words.len() < needed {
                    words.resize(needed, [0; 8]);
                }
                for low in lows.iter().map(|one| low(*one)) {
                    if let Some(bits) = words.get_mut(usize::from(low) / 64) {
                        *bits = (word(*bits) | 1 << (low % 64)).to_le_bytes();
                    }
                }
            }
            Cluster::Bits(more) => {
                if words.len() < more.len() {
                    words.resize(more.len(), [0; 8]);
                }
                for (bits, more) in words.iter_mut().zip(more) {
                    *bits = (word(*bits) | word(*more)).to_le_bytes();
                }
            }
            Cluster::Runs(runs) => {
                for run in runs {
                    set_range(words, first(*run).into()..u32::from(last(*run)) + 1);
                }
            }
        }
    }

    /// Sets its bits in `bits`, as far as these go.
    pub(crate) fn add_to_bits(self, bits: &mut [u64]) {
        match self {
            Cluster::List(lows) => {
                for low in lows.iter().map(|one| low(*one)) {
                    if let Some(bits) = bits.get_mut(usize::from(low) / 64) {
                        *bits |= 1 << (low % 64);
                    }
                }
            }
            Cluster::Bits(_) | Cluster::Runs(_) => {
                let words = self.words();
                let pairs = bits.iter_mut().zip(words.iter());
                pairs.for_each(|(bits, more)| *bits |= word(*more));
            }
        }
    }

    /// Calls `each` with the numbers of its words that have bits, ascending, and with these.
    pub(crate) fn each_word(self, mut each: impl FnMut(u32, u64)) {
        // The word that is gathered. One that would come before it is damage, and left out.
        let (mut at, mut bits) = (0, 0);
        let mut add = |word: u32, more: u64| {
            if word > at {
                if bits != 0 {
                    each(at, bits);
                }
                (at, bits) = (word, 0);
            }
            bits |= if word == at { more } else { 0 };
        };
        match self {
            Cluster::List(lows) => {
                for low in lows.iter().map(|one| u32::from(low(*one))) {
                    add(low / 64, 1 << (low % 64));
                }
            }
            Cluster::Bits(words) => {
                for (number, bits) in (0..).zip(words) {
                    add(number, word(*bits));
                }
            }
            Cluster::Runs(runs) => {
                for run in runs {
                    let (first, last) = (u32::from(first(*run)), u32::from(last(*run)));
                    for number in first / 64..=last / 64 {
                        let from = first.saturating_sub(64 * number);
                        let to = (last - 64 * number).min(63);
                        add(number, u64::MAX << from & u64::MAX >> (63 - to));
                    }
                }
            }
        }
        if bits != 0 {
            each(at, bits);
        }
    }

    /// A copy of a cluster that has `count` docids, as its file says.
    pub(crate) fn to_owned_of(self, count: u32) -> Option<Owned> {
        match self {
            Cluster::Bits(words) if !list_is_better(count as usize, words.len()) => {
                Some(Owned::Bits {
                    words: words.to_vec(),
                    count,
                })
            }
            other => other.to_owned(),
        }
    }

    /// A copy; nothing if it is empty.
    pub(crate) fn to_owned(self) -> Option<Owned> {
        match self {
            Cluster::List(lows) => Owned::of_list(lows.to_vec()),
            Cluster::Bits(_) | Cluster::Runs(_) => Owned::of_words(self.words().into_owned()),
        }
    }

    /// How many docids.
    pub(crate) fn count(self) -> u32 {
        match self {
            Cluster::List(lows) => lows.len() as u32,
            Cluster::Bits(words) => ones(words),
            Cluster::Runs(runs) => {
                let lengths = runs.iter().map(|run| u32::from(last(*run)) + 1);
                let firsts = runs.iter().map(|run| u32::from(first(*run)));
                lengths
                    .zip(firsts)
                    .map(|(end, first)| end.saturating_sub(first))
                    .sum()
            }
        }
    }

    /// How many docids both have.
    pub(crate) fn and_count(self, other: Cluster<'_>) -> u32 {
        match (self, other) {
            (Cluster::List(a), Cluster::List(b)) => {
                let mut count = 0;
                for_each_in_both(a, b, |_| count += 1);
                count
            }
            (Cluster::List(lows), set) | (set, Cluster::List(lows)) => {
                let found = lows.iter().filter(|one| set.contains(low(**one)));
                found.count() as u32
            }
            _ => ones_in_both(&self.words(), &other.words()),
        }
    }

    fn bits(self) -> Option<&'a [Word]> {
        match self {
            Cluster::Bits(words) => Some(words),
            Cluster::List(_) | Cluster::Runs(_) => None,
        }
    }

    /// How many docids this one and all others have.
    pub(crate) fn and_count_of(self, others: &[Cluster<'_>]) -> u32 {
        let of_others: Option<Vec<&[Word]>> = others.iter().map(|other| other.bits()).collect();
        if let (Some(first), Some(others)) = (self.bits(), of_others) {
            return ones_in_all(first, &others);
        }
        let Some((last, others)) = others.split_last() else {
            return self.count();
        };
        let mut both = None;
        for other in others {
            let before = both.as_ref().map_or(self, Owned::view);
            let Some(now) = before.and(*other) else {
                return 0;
            };
            both = Some(now);
        }
        both.as_ref().map_or(self, Owned::view).and_count(*last)
    }

    /// The docids that both have.
    pub(crate) fn and(self, other: Cluster<'_>) -> Option<Owned> {
        match (self, other) {
            (Cluster::List(a), Cluster::List(b)) => {
                let mut both = Vec::new();
                for_each_in_both(a, b, |one| both.push(one));
                Owned::of_list(both)
            }
            (Cluster::List(lows), set) | (set, Cluster::List(lows)) => {
                Owned::of_list(filtered(lows, |low| set.contains(low)))
            }
            _ => {
                let (a, b) = (self.words(), other.words());
                let both = a.iter().zip(b.iter());
                let both = both.map(|(a, b)| (word(*a) & word(*b)).to_le_bytes());
                Owned::of_words(both.collect())
            }
        }
    }

    /// The docids of this one that the other does not have.
    pub(crate) fn and_not(self, other: Cluster<'_>) -> Option<Owned> {
        match (self, other) {
            (Cluster::List(a), Cluster::List(b)) if a.len() / SKEW <= b.len() => {
                return Owned::of_list(without(a, b));
            }
            (Cluster::List(lows), Cluster::List(less)) => {
                let mut lows = lows.to_vec();
                remove_few(&mut lows, less);
                return Owned::of_list(lows);
            }
            (Cluster::List(lows), _) => {
                return Owned::of_list(filtered(lows, |low| !other.contains(low)));
            }
            _ => {}
        }
        let mut words = self.words().into_owned();
        for (bits, less) in words.iter_mut().zip(other.words().iter()) {
            *bits = (word(*bits) & !word(*less)).to_le_bytes();
        }
        Owned::of_words(words)
    }

    /// The docids that either has.
    pub(crate) fn or(self, other: Cluster<'_>) -> Option<Owned> {
        if let (Cluster::List(a), Cluster::List(b)) = (self, other)
            && a.len() + b.len() <= LIST_MAX
        {
            return Owned::of_list(merged(a, b));
        }
        let mut words = self.words().into_owned();
        other.add_to(&mut words);
        Owned::of_words(words)
    }
}

/// A list of more docids than this is made bits.
const LIST_MAX: usize = 4096;

/// Whether `count` docids are better as a list than as `words` words of bits. Handling a word takes
/// as long as handling an entry of a list, and lists need more branches.
fn list_is_better(count: usize, words: usize) -> bool {
    count <= 2 * words
}

impl Owned {
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Owned::List(lows) => lows.capacity() * size_of::<Low>(),
            Owned::Bits { words, .. } => words.capacity() * size_of::<Word>(),
        }
    }

    /// The set of an ascending list; nothing if it is empty.
    pub(crate) fn of_list(lows: Vec<Low>) -> Option<Owned> {
        let words = usize::from(low(*lows.last()?)) / 64 + 1;
        if lows.len() > LIST_MAX || !list_is_better(lows.len(), words) && lows.len() > 8 {
            let mut bits = Vec::with_capacity(words);
            Cluster::List(&lows).add_to(&mut bits);
            return Owned::of_words(bits);
        }
        Some(Owned::List(lows))
    }

    /// The set of bits; nothing if it is empty.
    pub(crate) fn of_words(mut words: Vec<Word>) -> Option<Owned> {
        words.truncate(WORDS_MAX);
        let count = ones(&words);
        Owned::of_counted(words, count)
    }

    /// The set of bits, of which `count` are set; nothing if none is.
    fn of_counted(mut words: Vec<Word>, count: u32) -> Option<Owned> {
        debug_assert!(count <= CLUSTER_DOCS, "a cluster has at most 65,536 docids");
        while words.last() == Some(&[0; 8]) {
            words.pop();
        }
        if count == 0 {
            return None;
        }
        if list_is_better(count as usize, words.len()) {
            let mut lows = Vec::with_capacity(count as usize);
            lows.extend(Lows::of_words(&words).map(u16::to_le_bytes));
            return Some(Owned::List(lows));
        }
        Some(Owned::Bits { words, count })
    }

    pub(crate) fn view(&self) -> Cluster<'_> {
        match self {
            Owned::List(lows) => Cluster::List(lows),
            Owned::Bits { words, .. } => Cluster::Bits(words),
        }
    }

    /// How many docids.
    pub(crate) fn count(&self) -> u32 {
        match self {
            Owned::List(lows) => lows.len() as u32,
            Owned::Bits { count, .. } => *count,
        }
    }

    /// How many docids are below `end`.
    pub(crate) fn ordinal(&self, end: u16) -> u32 {
        match self {
            Owned::List(lows) => lows.partition_point(|one| low(*one) < end) as u32,
            Owned::Bits { words, .. } => {
                let at = usize::from(end) / 64;
                let whole = ones(words.get(..at).unwrap_or(words));
                let part = words.get(at).map_or(0, |bits| word(*bits));
                whole + (part & !(u64::MAX << (end % 64))).count_ones()
            }
        }
    }

    /// The docid that has `ordinal` others below it.
    pub(crate) fn select(&self, ordinal: usize) -> Option<u16> {
        match self {
            Owned::List(lows) => lows.get(ordinal).map(|one| low(*one)),
            Owned::Bits { .. } => self.lows().nth(ordinal),
        }
    }

    /// The docids, ascending.
    pub(crate) fn lows(&self) -> Lows<'_> {
        match self {
            Owned::List(lows) => Lows::List(lows.iter()),
            Owned::Bits { words, .. } => Lows::of_words(words),
        }
    }

    /// Adds a docid; true if it was not there.
    pub(crate) fn insert(&mut self, new: u16) -> bool {
        if self.view().contains(new) {
            return false;
        }
        match self {
            Owned::Bits { words, count } => {
                Cluster::List(&[new.to_le_bytes()]).add_to(words);
                *count += 1;
            }
            Owned::List(lows) => {
                let at = lows.partition_point(|one| low(*one) < new);
                lows.insert(at, new.to_le_bytes());
                debug_assert!(lows.len() <= LIST_MAX + 1, "a longer list is made bits");
                if lows.len() > LIST_MAX
                    && let Some(bits) = Owned::of_list(std::mem::take(lows))
                {
                    *self = bits;
                }
            }
        }
        true
    }

    /// This set without what `other` does not have, in its own memory where both are bits.
    pub(crate) fn and_in_place(self, other: Cluster<'_>) -> Option<Owned> {
        match (self, other) {
            (Owned::Bits { mut words, .. }, Cluster::Bits(more)) => {
                words.truncate(more.len());
                for (bits, more) in words.iter_mut().zip(more) {
                    *bits = (word(*bits) & word(*more)).to_le_bytes();
                }
                Owned::of_words(words)
            }
            (mine, other) => mine.view().and(other),
        }
    }

    /// The docids for which `keep` returns true, in the memory of this set.
    pub(crate) fn retain_in_place(self, mut keep: impl FnMut(u16) -> bool) -> Option<Owned> {
        match self {
            Owned::List(mut lows) => {
                retain_low(&mut lows, keep);
                Owned::of_list(lows)
            }
            Owned::Bits { mut words, .. } => {
                for (bits, first) in words.iter_mut().zip((0..=u16::MAX).step_by(64)) {
                    *bits = retained_bits(word(*bits), |bit| keep(first | bit)).to_le_bytes();
                }
                Owned::of_words(words)
            }
        }
    }

    /// This set with what `other` has, in its own memory where that is faster.
    pub(crate) fn or_in_place(self, other: Cluster<'_>) -> Option<Owned> {
        match (self, other) {
            (Owned::Bits { mut words, count }, Cluster::List(more)) => {
                let needed = more
                    .last()
                    .map_or(0, |last| usize::from(low(*last)) / 64 + 1);
                if words.len() < needed {
                    words.resize(needed, [0; 8]);
                }
                let added = more.iter().filter(|one| set_bit(&mut words, low(**one)));
                let count = count + added.count() as u32;
                Some(Owned::Bits { words, count })
            }
            (Owned::Bits { mut words, .. }, other) => {
                other.add_to(&mut words);
                Owned::of_words(words)
            }
            (Owned::List(mut lows), Cluster::List(more))
                if is_far_shorter(more, &lows) && lows.len() + more.len() <= LIST_MAX =>
            {
                insert_few(&mut lows, more);
                Owned::of_list(lows)
            }
            (mine, other) => mine.view().or(other),
        }
    }

    /// This set without what `other` has, in its own memory where that is faster.
    pub(crate) fn and_not_in_place(self, other: Cluster<'_>) -> Option<Owned> {
        match (self, other) {
            (Owned::Bits { mut words, count }, Cluster::List(less)) => {
                let removed = less.iter().filter(|one| clear_bit(&mut words, low(**one)));
                let count = count - removed.count() as u32;
                Owned::of_counted(words, count)
            }
            (Owned::Bits { mut words, .. }, other) => {
                for (bits, less) in words.iter_mut().zip(other.words().iter()) {
                    *bits = (word(*bits) & !word(*less)).to_le_bytes();
                }
                Owned::of_words(words)
            }
            (Owned::List(mut lows), Cluster::List(less)) if is_far_shorter(less, &lows) => {
                remove_few(&mut lows, less);
                Owned::of_list(lows)
            }
            (mine, other) => mine.view().and_not(other),
        }
    }
}
