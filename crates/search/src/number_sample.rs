//! [`KeySample`]: the keys of some documents of a column of numbers, by which it is about known how
//! many documents a range has, without a look at each.
//!
//! # Invariants
//! 1. It has the keys of one document in `step` as they are now, and of no others.

use super::sample::Sampled;
use quire_query::NO_ORDINAL;
use std::ops::Range;
use std::sync::Arc;

/// About how many keys a sample has when it is made. One with more than twice as many is made anew.
const KEYS: usize = 2048;

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct KeySample {
    step: u32,
    /// Ascending; each as often as documents have it.
    keys: Arc<Vec<u64>>,
}

impl KeySample {
    /// Of the documents up to `doc_end`, whose keys `key_of` gives.
    pub(crate) fn new(doc_end: u32, key_of: impl Fn(u32) -> u64) -> KeySample {
        // An odd step: documents often have a period of two, four or ten.
        let step = (doc_end / KEYS as u32).max(1) | 1;
        let sampled = (0..doc_end).step_by(step as usize);
        let keys = sampled.map(key_of).filter(|key| *key != NO_ORDINAL);
        let mut keys: Vec<u64> = keys.collect();
        keys.sort_unstable();
        KeySample {
            step,
            keys: Arc::new(keys),
        }
    }

    /// Notes that the key of a document is another one now.
    pub(crate) fn set(&mut self, doc: u32, before: u64, key: u64) {
        if !doc.is_multiple_of(self.step) || before == key {
            return;
        }
        let keys = Arc::make_mut(&mut self.keys);
        if before != NO_ORDINAL
            && let Ok(place) = keys.binary_search(&before)
        {
            keys.remove(place);
        }
        if key != NO_ORDINAL {
            let place = keys.partition_point(|known| *known < key);
            keys.insert(place, key);
        }
    }

    /// Whether it has more keys than a sample should, and is to be made anew.
    pub(crate) fn is_large(&self) -> bool {
        self.keys.len() > 2 * KEYS
    }

    /// What it has in a range of keys, of the documents up to `doc_end`.
    pub(crate) fn between(&self, range: &Range<u64>, doc_end: u32) -> Sampled {
        let start = self.keys.partition_point(|key| *key < range.start);
        let end = self.keys.partition_point(|key| *key < range.end);
        let found = self.keys.get(start..end).unwrap_or_default();
        Sampled::of(found, doc_end.div_ceil(self.step).into())
    }

    /// Bytes of memory that it takes.
    pub(crate) fn bytes(&self) -> u64 {
        size_of_val(self.keys.as_slice()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn any_key() -> impl Strategy<Value = u64> {
        prop_oneof![3 => 0u64..50, 1 => Just(NO_ORDINAL)]
    }

    proptest! {
        #[test]
        fn a_sample_is_that_of_the_keys_as_they_are(
            doc_end in 1u32..20_000,
            changes in vec((0u32..20_000, any_key()), 0..200),
            (start, end) in (0u64..50, 0u64..60),
        ) {
            let mut keys: Vec<u64> = (0..20_000).map(|doc| match doc < doc_end {
                true => u64::from(doc * 7 % 40),
                false => NO_ORDINAL,
            }).collect();
            let mut sample = KeySample::new(doc_end, |doc| keys[doc as usize]);
            let step = sample.step as usize;
            for (doc, key) in changes {
                let before = std::mem::replace(&mut keys[doc as usize], key);
                sample.set(doc, before, key);
            }
            let mut wanted: Vec<u64> = keys.iter().copied().step_by(step).collect();
            wanted.retain(|key| (start..end).contains(key));
            wanted.sort_unstable();
            let found = sample.between(&(start..end), doc_end);
            prop_assert_eq!(found.found, wanted.len() as u64);
            wanted.dedup();
            prop_assert_eq!(found.different, wanted.len() as u64);
        }
    }

    #[test]
    fn a_sample_has_about_as_many_keys_as_it_should_whatever_there_are() {
        for doc_end in [1, 500, 2_048, 5_000, 300_000, 5_000_000] {
            let sample = KeySample::new(doc_end, |doc| doc.into());
            assert!(
                sample.keys.len() >= (doc_end as usize).min(KEYS / 2),
                "{doc_end}"
            );
            assert!(!sample.is_large(), "{doc_end}");
            let half = sample.between(&(0..u64::from(doc_end) / 2), doc_end);
            let part = half.found as f64 / half.docs as f64;
            assert!(
                doc_end < 100 || (0.49..0.51).contains(&part),
                "{doc_end}: {part}"
            );
        }
    }
}
