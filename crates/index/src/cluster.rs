//! Cluster: the docids of a set among 65,536 neighbours, by their low 16 bits.
//!
//! # Invariants
//! 1. A list ascends without repeats; runs ascend and do not touch. Bits may end early: what is
//!    past them is not there.
//! 2. The parts are arrays of bytes, little-endian, so that a cluster is the same in memory and in
//!    a file, whatever the address it lies at. Bytes from a file that break the first rule give
//!    wrong docids, and nothing worse.
//! 3. Operations on two clusters cost about the smaller list, or 8 KiB.

use std::borrow::Cow;
use std::ops::Range;

/// Docids in a cluster.
pub(crate) const CLUSTER_DOCS: u32 = 1 << 16;
/// Words of a whole cluster's bits.
pub(crate) const WORDS_MAX: usize = CLUSTER_DOCS as usize / 64;

/// A low half, little-endian.
pub(crate) type Low = [u8; 2];
/// 64 bits, little-endian; bit `i` of word `w` stands for `64 * w + i`.
pub(crate) type Word = [u8; 8];
/// A first low half, then a last one.
pub(crate) type Run = [u8; 4];

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

pub(crate) fn low(low: Low) -> u16 {
    u16::from_le_bytes(low)
}

fn word(word: Word) -> u64 {
    u64::from_le_bytes(word)
}

fn first(run: Run) -> u16 {
    u16::from_le_bytes([run[0], run[1]])
}

fn last(run: Run) -> u16 {
    u16::from_le_bytes([run[2], run[3]])
}

/// How many bits are set.
fn ones(words: &[Word]) -> u32 {
    let (blocks, rest) = words.as_chunks();
    let mut ones = Ones::default();
    blocks.iter().for_each(|block| ones.add(&block.map(word)));
    ones.count()
        + rest
            .iter()
            .map(|bits| word(*bits).count_ones())
            .sum::<u32>()
}

/// How many bits are set in both.
fn ones_in_both(a: &[Word], b: &[Word]) -> u32 {
    let (a, b) = match a.len() < b.len() {
        true => (a, b.get(..a.len()).unwrap_or(b)),
        false => (a.get(..b.len()).unwrap_or(a), b),
    };
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks(), b.as_chunks::<BLOCK_WORDS>());
    let mut ones = Ones::default();
    for (a, b) in a.iter().zip(b) {
        let mut both = a.map(word);
        both.iter_mut()
            .zip(b)
            .for_each(|(both, b)| *both &= word(*b));
        ones.add(&both);
    }
    let rest = a_rest.iter().zip(b_rest);
    ones.count()
        + rest
            .map(|(a, b)| (word(*a) & word(*b)).count_ones())
            .sum::<u32>()
}

/// Words whose bits are counted together.
const BLOCK_WORDS: usize = 16;
/// Two words, which every processor adds up at once.
type Lanes = [u64; 2];

/// Counts bits: words are added up bit by bit, as binary numbers, so that the costly counting
/// within a word is done for one of eight. (That costs half of counting in each, where a processor
/// has an instruction for it that we may not rely on.)
///
/// Source: Muła, Kurz, Lemire 2018, "Faster population counts using AVX2 instructions".
#[derive(Default)]
struct Ones {
    ones: Lanes,
    twos: Lanes,
    fours: Lanes,
    eights: u32,
}

impl Ones {
    fn add(&mut self, block: &[u64; BLOCK_WORDS]) {
        let [a, b, c, d, e, f, g, h] = *block.as_chunks::<2>().0 else {
            return;
        };
        let (ones, twos_a) = add_up(self.ones, a, b);
        let (ones, twos_b) = add_up(ones, c, d);
        let (twos, fours_a) = add_up(self.twos, twos_a, twos_b);
        let (ones, twos_a) = add_up(ones, e, f);
        let (ones, twos_b) = add_up(ones, g, h);
        let (twos, fours_b) = add_up(twos, twos_a, twos_b);
        let (fours, eights) = add_up(self.fours, fours_a, fours_b);
        (self.ones, self.twos, self.fours) = (ones, twos, fours);
        self.eights += count(eights);
    }

    fn count(self) -> u32 {
        8 * self.eights + 4 * count(self.fours) + 2 * count(self.twos) + count(self.ones)
    }
}

fn count(lanes: Lanes) -> u32 {
    lanes[0].count_ones() + lanes[1].count_ones()
}

fn zip(a: Lanes, b: Lanes, with: impl Fn(u64, u64) -> u64) -> Lanes {
    [with(a[0], b[0]), with(a[1], b[1])]
}

/// The sum of three bits, at each place: its ones and its twos.
fn add_up(a: Lanes, b: Lanes, c: Lanes) -> (Lanes, Lanes) {
    let half = zip(a, b, |a, b| a ^ b);
    let twos = zip(
        zip(a, b, |a, b| a & b),
        zip(half, c, |a, b| a & b),
        |a, b| a | b,
    );
    (zip(half, c, |a, b| a ^ b), twos)
}

fn bit(words: &[Word], low: u16) -> bool {
    let found = words.get(usize::from(low) / 64);
    found.is_some_and(|bits| word(*bits) >> (low % 64) & 1 == 1)
}

/// Sets the bits of a range; grows as needed.
fn set_range(words: &mut Vec<Word>, range: Range<u32>) {
    let Some(last) = range.end.checked_sub(1).filter(|last| *last >= range.start) else {
        return;
    };
    let (from, to) = (range.start as usize / 64, last as usize / 64);
    if words.len() <= to {
        words.resize(to + 1, [0; 8]);
    }
    let inside = words.get_mut(from..=to).unwrap_or_default();
    let count = inside.len();
    for (index, bits) in inside.iter_mut().enumerate() {
        let mut mask = u64::MAX;
        if index == 0 {
            mask &= u64::MAX << (range.start % 64);
        }
        if index + 1 == count {
            mask &= u64::MAX >> (63 - last % 64);
        }
        *bits = (word(*bits) | mask).to_le_bytes();
    }
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

    /// A copy of a cluster that is known to have so many docids.
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
        if let Cluster::List(lows) = self {
            return Owned::of_list(filtered(lows, |low| !other.contains(low)));
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

fn filtered(lows: &[Low], keep: impl Fn(u16) -> bool) -> Vec<Low> {
    lows.iter().copied().filter(|one| keep(low(*one))).collect()
}

/// Calls `each` with what two lists both have: side by side if they are of like length, else each
/// of the shorter one is looked for in the rest of the longer.
fn for_each_in_both(a: &[Low], b: &[Low], mut each: impl FnMut(Low)) {
    const SKEW: usize = 16;
    let (short, mut long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    if long.len() / SKEW > short.len() {
        for one in short {
            let wanted = low(*one);
            let at = long.partition_point(|other| low(*other) < wanted);
            long = long.get(at..).unwrap_or_default();
            if long.first() == Some(one) {
                each(*one);
            }
        }
        return;
    }
    let (mut i, mut j) = (0, 0);
    while let (Some(x), Some(y)) = (short.get(i), long.get(j)) {
        let (x_low, y_low) = (low(*x), low(*y));
        if x_low == y_low {
            each(*x);
        }
        // Without branches: which side goes on is a coin's toss.
        i += usize::from(x_low <= y_low);
        j += usize::from(y_low <= x_low);
    }
}

fn merged(a: &[Low], b: &[Low]) -> Vec<Low> {
    let mut all = Vec::with_capacity(a.len() + b.len());
    let (mut i, mut j) = (0, 0);
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        let (x_low, y_low) = (low(*x), low(*y));
        all.push(if x_low <= y_low { *x } else { *y });
        i += usize::from(x_low <= y_low);
        j += usize::from(y_low <= x_low);
    }
    all.extend_from_slice(a.get(i..).unwrap_or_default());
    all.extend_from_slice(b.get(j..).unwrap_or_default());
    all
}

/// A list of more docids than this is made bits.
const LIST_MAX: usize = 4096;

/// Whether so few docids, of a cluster whose bits take so many words, are better as a list: a word
/// is as quickly dealt with as an entry of a list, and most work of lists is done with branches.
fn list_is_better(count: usize, words: usize) -> bool {
    count <= 2 * words
}

impl Owned {
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
        while words.last() == Some(&[0; 8]) {
            words.pop();
        }
        let count = ones(&words);
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

    /// This set with what `other` has, in its own memory if it is bits.
    pub(crate) fn or_in_place(self, other: Cluster<'_>) -> Option<Owned> {
        match self {
            Owned::Bits { mut words, .. } => {
                other.add_to(&mut words);
                Owned::of_words(words)
            }
            Owned::List(_) => self.view().or(other),
        }
    }
}

/// The docids of a cluster, ascending, by their low halves.
#[derive(Debug, Clone)]
pub(crate) enum Lows<'a> {
    List(std::slice::Iter<'a, Low>),
    Bits {
        words: &'a [Word],
        /// The word that `current` is of.
        at: usize,
        /// What is left of it.
        current: u64,
    },
}

impl<'a> Lows<'a> {
    fn of_words(words: &'a [Word]) -> Lows<'a> {
        Lows::Bits {
            current: words.first().map_or(0, |bits| word(*bits)),
            words,
            at: 0,
        }
    }

    /// Leaves out what is below `start`; never goes back.
    pub(crate) fn advance_to(&mut self, start: u16) {
        match self {
            Lows::List(lows) => {
                let rest = lows.as_slice();
                let at = rest.partition_point(|one| low(*one) < start);
                *lows = rest.get(at..).unwrap_or_default().iter();
            }
            Lows::Bits { words, at, current } => {
                let to = usize::from(start) / 64;
                if to > *at {
                    *at = to;
                    *current = words.get(to).map_or(0, |bits| word(*bits));
                }
                if to == *at {
                    *current &= u64::MAX << (start % 64);
                }
            }
        }
    }

    /// Fills the front of `docids` with the next ones, each with `base`; how many. Less than there
    /// is room for at the end alone.
    pub(crate) fn fill(&mut self, base: u32, docids: &mut [u32]) -> usize {
        match self {
            Lows::List(lows) => {
                let count = lows.len().min(docids.len());
                let (now, later) = lows.as_slice().split_at(count);
                for (docid, one) in docids.iter_mut().zip(now) {
                    *docid = base | u32::from(low(*one));
                }
                *lows = later.iter();
                count
            }
            Lows::Bits { words, at, current } => {
                let (mut filled, mut index, mut left) = (0, *at, *current);
                'docids: for docid in docids {
                    while left == 0 {
                        match words.get(index + 1) {
                            Some(bits) => (index, left) = (index + 1, word(*bits)),
                            None => break 'docids,
                        }
                    }
                    *docid = base | (index as u32 * 64 + left.trailing_zeros());
                    left &= left - 1;
                    filled += 1;
                }
                (*at, *current) = (index, left);
                filled
            }
        }
    }

    /// The next docids that follow each other without a gap, as far as is seen at a point_view.
    pub(crate) fn next_run(&mut self) -> Option<Range<u32>> {
        let start = u32::from(self.next()?);
        let mut end = start + 1;
        if let Lows::Bits { current, .. } = self {
            let more = current.checked_shr(end % 64).unwrap_or(0).trailing_ones();
            if !end.is_multiple_of(64) && more > 0 {
                end += more;
                // The word's bits below `end` are spent.
                *current &= u64::MAX.checked_shl((end - 1) % 64 + 1).unwrap_or(0);
            }
        }
        Some(start..end)
    }
}

impl Iterator for Lows<'_> {
    type Item = u16;

    fn next(&mut self) -> Option<u16> {
        match self {
            Lows::List(lows) => lows.next().map(|one| low(*one)),
            Lows::Bits { words, at, current } => {
                while *current == 0 {
                    *at += 1;
                    *current = words.get(*at).map(|bits| word(*bits))?;
                }
                let next = *at * 64 + current.trailing_zeros() as usize;
                *current &= *current - 1;
                // Below 65,536: there are at most 1,024 words.
                Some(next as u16)
            }
        }
    }
}
