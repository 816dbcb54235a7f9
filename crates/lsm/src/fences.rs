//! Fences: sorted keys as machine words, searched by interpolation.
//!
//! # Invariants
//! 1. There is a word for each key, in order: the four bytes after the prefix that all of them
//!    share, big-endian, zeros for what is not there. So words ascend, and of two that differ the
//!    smaller is of the smaller key.
//! 2. A word that is equal to that of the key looked for says nothing: the keys themselves are
//!    compared then.

use smallvec::SmallVec;

/// A prefix of up to this many bytes needs no allocation.
const PREFIX_BYTES: usize = 16;

/// This many words are compared one by one: of a few hundred that are evenly spread, most lie as
/// near to where they would be.
const CHUNK: usize = 32;

/// How many of `count` things are less, where those that are come first: by halving, without a
/// branch that could be guessed wrong.
#[inline]
pub(crate) fn count_less(count: usize, less: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut left) = (0, count);
    while left > 0 {
        let half = left.div_ceil(2);
        low = if less(low + half - 1) {
            low + half
        } else {
            low
        };
        left -= half;
    }
    low
}

/// The first eight bytes of `bytes` as a number that sorts as they do; zeros for what is not there.
#[inline]
pub(crate) fn word(bytes: &[u8]) -> u64 {
    if let Some(word) = bytes.first_chunk::<8>() {
        return u64::from_be_bytes(*word);
    }
    // Where a short one is read twice, it says the same twice.
    let missing = 64 - 8 * bytes.len() as u32;
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        let (first, last) = (u32::from_be_bytes(*first), u32::from_be_bytes(*last));
        return u64::from(first) << 32 | u64::from(last) << missing;
    }
    match *bytes {
        [] => 0,
        [a] => u64::from(a) << 56,
        [a, b, ..] => {
            let last = bytes.last().copied().unwrap_or(b);
            u64::from(a) << 56 | u64::from(b) << 48 | u64::from(last) << missing
        }
    }
}

/// The first four bytes of `bytes` as a number that sorts as they do; zeros for what is not there.
#[inline]
fn half_word(bytes: &[u8]) -> u32 {
    (word(bytes) >> 32) as u32
}

/// What is left of `key` after `prefix`, if it begins so. As of the standard library, without a
/// call where it is short.
#[inline]
pub(crate) fn strip_prefix<'k>(key: &'k [u8], prefix: &[u8]) -> Option<&'k [u8]> {
    let (front, rest) = key.split_at_checked(prefix.len())?;
    let equal = match prefix.len() {
        0..=8 => word(front) == word(prefix),
        _ => front == prefix,
    };
    equal.then_some(rest)
}

/// How many bytes two keys share at the front.
pub(crate) fn shared_bytes(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Sorted keys, as said above, each with something that is wanted once it is found.
#[derive(Debug)]
pub(crate) struct Fences<T> {
    prefix: SmallVec<[u8; PREFIX_BYTES]>,
    fences: Box<[Fence<T>]>,
    first: u32,
    width: u32,
    /// How many of them per unit of that width, times 2^32.
    slope: u64,
}

/// Side by side: reading the word brings the other into the cache too.
#[derive(Debug, Clone, Copy)]
struct Fence<T> {
    word: u32,
    with: T,
}

impl<T: Copy> Fences<T> {
    /// Those of `keys`, which ascend.
    pub(crate) fn new<K: AsRef<[u8]>>(keys: &[(K, T)]) -> Fences<T> {
        let (first, last) = match keys {
            [(first, _), .., (last, _)] => (first.as_ref(), last.as_ref()),
            [(only, _)] => (only.as_ref(), only.as_ref()),
            [] => (&[][..], &[][..]),
        };
        let prefix = first.get(..shared_bytes(first, last)).unwrap_or_default();
        let fence = |(key, with): &(K, T)| Fence {
            word: half_word(key.as_ref().get(prefix.len()..).unwrap_or_default()),
            with: *with,
        };
        let fences: Box<[_]> = keys.iter().map(fence).collect();
        let word = |fence: Option<&Fence<T>>| fence.map_or(0, |fence| fence.word);
        let first = word(fences.first());
        let width = word(fences.last()).saturating_sub(first).max(1);
        Fences {
            prefix: prefix.into(),
            first,
            width,
            slope: ((fences.len() as u64) << 32) / u64::from(width),
            fences,
        }
    }

    /// How many keys.
    pub(crate) fn len(&self) -> usize {
        self.fences.len()
    }

    /// Bytes of memory beside its own.
    pub(crate) fn bytes(&self) -> usize {
        let prefix = match self.prefix.spilled() {
            true => self.prefix.len(),
            false => 0,
        };
        prefix + size_of_val(&*self.fences)
    }

    /// What came with the key numbered `index`.
    #[inline]
    pub(crate) fn with(&self, index: usize) -> Option<T> {
        self.fences.get(index).map(|fence| fence.with)
    }

    /// How many keys are before `key`; `key_at` tells the keys again, where words can't tell.
    /// `guessed` is told before how many there would be if words were evenly spread.
    #[inline]
    pub(crate) fn count_less<'k>(
        &self,
        key: &[u8],
        key_at: impl Fn(usize) -> &'k [u8],
        guessed: impl FnOnce(usize),
    ) -> usize {
        let Some(rest) = strip_prefix(key, &self.prefix) else {
            return match *key < *self.prefix {
                true => 0,
                false => self.fences.len(),
            };
        };
        let sought = half_word(rest);
        let from_first = sought.saturating_sub(self.first).min(self.width);
        let guess = ((u64::from(from_first) * self.slope) >> 32) as usize;
        guessed(guess);
        let found = self.count_less_words(sought, guess);
        let rest = self.fences.get(found..).unwrap_or_default();
        match rest.first() {
            Some(fence) if fence.word == sought => {
                let ties = rest.partition_point(|fence| fence.word == sought);
                found + count_less(ties, |index| key_at(found + index) < key)
            }
            _ => found,
        }
    }

    /// How many words are less than `sought`. Those around `guess` are counted through: their lines
    /// come from memory together, and there is no branch that could be guessed wrong. If it is not
    /// among them, the rest is halved.
    #[inline]
    fn count_less_words(&self, sought: u32, guess: usize) -> usize {
        let start = guess.saturating_sub(CHUNK / 2).min(self.fences.len());
        let (before, rest) = self.fences.split_at(start);
        let chunk = rest.get(..CHUNK).unwrap_or(rest);
        let less: u32 = chunk
            .iter()
            .map(|fence| u32::from(fence.word < sought))
            .sum();
        let less = less as usize;
        if less == 0 && start > 0 {
            before.partition_point(|fence| fence.word < sought)
        } else if less == chunk.len() {
            start + rest.partition_point(|fence| fence.word < sought)
        } else {
            start + less
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::{btree_set, vec};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn fences_count_what_is_before_a_key(
            prefix in vec(any::<u8>(), 0..20),
            keys in btree_set(vec(prop_oneof![Just(0u8), Just(255), any::<u8>()], 0..12), 0..200),
            probes in vec(vec(prop_oneof![Just(0u8), Just(255), any::<u8>()], 0..12), 20),
        ) {
            let with_prefix = |key: &Vec<u8>| [prefix.as_slice(), key].concat();
            let keys: Vec<_> = keys.iter().map(with_prefix).zip(0u32..).collect();
            let fences = Fences::new(&keys);
            let ours = keys.iter().map(|(key, _)| key.clone());
            for probe in probes.iter().map(with_prefix).chain(probes.clone()).chain(ours) {
                let expected = keys.partition_point(|(key, _)| *key < probe);
                let found = fences.count_less(&probe, |index| &keys[index].0, |_| ());
                prop_assert_eq!(found, expected);
                prop_assert_eq!(fences.with(expected), keys.get(expected).map(|key| key.1));
            }
        }

        #[test]
        fn a_word_is_the_first_eight_bytes(bytes in vec(any::<u8>(), 0..12)) {
            let first = |at: usize| bytes.get(at).copied().unwrap_or(0);
            prop_assert_eq!(word(&bytes), u64::from_be_bytes(std::array::from_fn(first)));
        }

        #[test]
        fn halving_counts_what_is_less(count in 0usize..300, less in 0usize..300) {
            let less = less.min(count);
            prop_assert_eq!(count_less(count, |index| index < less), less);
        }
    }
}
