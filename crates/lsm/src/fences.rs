//! Fences: sorted keys as machine words, searched by interpolation.
//!
//! # Invariants
//! 1. `words` holds, for each key in order, the eight bytes after the prefix that all of them share, big-endian, zeros for
//!    what is not there. So words ascend, and of two that differ the smaller is of the smaller key.
//! 2. A word that is equal to that of the key looked for says nothing: whoever asks compares the keys themselves.

/// Where to look first among evenly spread words: from the first of them, how many of `count` per unit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slope {
    first: u64,
    per_unit: f64,
}

impl Slope {
    /// For `count` words from `first` to `last`.
    pub(crate) fn new(first: u64, last: u64, count: usize) -> Slope {
        let width = last.saturating_sub(first).max(1);
        Slope {
            first,
            per_unit: count as f64 / width as f64,
        }
    }

    /// About how many words are before `word`.
    pub(crate) fn guess(self, word: u64) -> usize {
        (word.saturating_sub(self.first) as f64 * self.per_unit) as usize
    }
}

/// How many of `count` things are less, where those that are come first; looked for from `guess` outwards, in steps that
/// double: near the guess it takes one or two looks, and never more than twice as many as halving would.
pub(crate) fn count_less(count: usize, guess: usize, less: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, count);
    let guess = guess.min(count);
    let mut step = 1;
    if guess < count && less(guess) {
        low = guess + 1;
        while low < high {
            let next = low.saturating_add(step).min(high);
            if !less(next - 1) {
                high = next - 1;
                break;
            }
            low = next;
            step *= 2;
        }
    } else {
        high = guess;
        while low < high {
            let next = high.saturating_sub(step);
            if less(next) {
                low = next + 1;
                break;
            }
            high = next;
            step *= 2;
        }
    }
    while low < high {
        let middle = low + (high - low) / 2;
        match less(middle) {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    low
}

/// The first eight bytes of `bytes` as a number that sorts as they do; zeros for what is not there.
#[inline]
pub(crate) fn word(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(word) => u64::from_be_bytes(*word),
        None => bytes
            .iter()
            .zip((0..8).rev())
            .fold(0, |word, (&byte, place)| {
                word | u64::from(byte) << (8 * place)
            }),
    }
}

/// What is left of `key` after `prefix`, if it begins so. As of the standard library, without a call where it is short.
pub(crate) fn strip_prefix<'k>(key: &'k [u8], prefix: &[u8]) -> Option<&'k [u8]> {
    let (front, rest) = key.split_at_checked(prefix.len())?;
    let equal = match prefix.len() {
        0..=8 => front.iter().zip(prefix).all(|(a, b)| a == b),
        _ => front == prefix,
    };
    equal.then_some(rest)
}

/// How many bytes two keys share at the front.
pub(crate) fn shared_bytes(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Sorted keys, as said above.
#[derive(Debug)]
pub(crate) struct Fences {
    prefix: Box<[u8]>,
    words: Box<[u64]>,
    slope: Slope,
}

impl Fences {
    /// Those of `keys`, which ascend.
    pub(crate) fn new<K: AsRef<[u8]>>(keys: &[K]) -> Fences {
        let (first, last) = match keys {
            [first, .., last] => (first.as_ref(), last.as_ref()),
            [only] => (only.as_ref(), only.as_ref()),
            [] => (&[][..], &[][..]),
        };
        let prefix = first.get(..shared_bytes(first, last)).unwrap_or_default();
        let words: Box<[u64]> = keys
            .iter()
            .map(|key| word(key.as_ref().get(prefix.len()..).unwrap_or_default()))
            .collect();
        Fences {
            prefix: prefix.into(),
            slope: Slope::new(
                words.first().copied().unwrap_or(0),
                words.last().copied().unwrap_or(0),
                words.len(),
            ),
            words,
        }
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.prefix.len() + 8 * self.words.len()
    }

    /// How many keys are before `key`; `None` if the words can't tell.
    pub(crate) fn count_less(&self, key: &[u8]) -> Option<usize> {
        let Some(rest) = strip_prefix(key, &self.prefix) else {
            return Some(match *key < *self.prefix {
                true => 0,
                false => self.words.len(),
            });
        };
        let sought = word(rest);
        let found = count_less(self.words.len(), self.slope.guess(sought), |index| {
            self.words.get(index).is_some_and(|&word| word < sought)
        });
        (self.words.get(found) != Some(&sought)).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::{btree_set, vec};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn fences_count_what_is_before_a_key_or_do_not_know(
            prefix in vec(any::<u8>(), 0..4),
            keys in btree_set(vec(prop_oneof![Just(0u8), Just(255), any::<u8>()], 0..12), 0..200),
            probes in vec(vec(prop_oneof![Just(0u8), Just(255), any::<u8>()], 0..12), 20),
        ) {
            let with_prefix = |key: &Vec<u8>| [prefix.as_slice(), key].concat();
            let keys: Vec<_> = keys.iter().map(with_prefix).collect();
            let fences = Fences::new(&keys);
            for probe in probes.iter().map(with_prefix).chain(probes.clone()).chain(keys.clone()) {
                let expected = keys.partition_point(|key| *key < probe);
                let shared = fences.prefix.len();
                let tie = keys.iter().any(|key| {
                    probe.starts_with(&key[..shared]) && word(&key[shared..]) == word(&probe[shared..])
                });
                prop_assert_eq!(fences.count_less(&probe), (!tie).then_some(expected));
            }
        }

        #[test]
        fn any_guess_leads_to_the_same_count(count in 0usize..300, less in 0usize..300, guess in 0usize..400) {
            let less = less.min(count);
            prop_assert_eq!(count_less(count, guess, |index| index < less), less);
        }
    }
}
