//! [`BucketNumbers`]: which bucket the documents of a bucket are in, by a key.

use crate::meter::{ENTRY_BYTES, Meter};
use crate::{Error, Result};
use std::collections::HashMap;

/// No bucket yet.
const NONE: u32 = u32::MAX;

/// The buckets of a facet, numbered from 0 on, and how many documents each has.
#[derive(Debug, Default)]
pub(crate) struct BucketNumbers {
    /// Those in the first bucket of the outer facet, or in none, by key.
    of_first: Vec<u32>,
    /// By the number of the outer bucket, and the key.
    others: HashMap<(u32, u32), u32>,
    counts: Vec<u64>,
}

impl BucketNumbers {
    /// The number of a bucket; there is one afterwards.
    pub(crate) fn number(&mut self, outer: u32, key: u32, meter: &mut Meter) -> Result<u32> {
        let known = match outer {
            0 => self.of_first.get(key as usize).copied(),
            _ => self.others.get(&(outer, key)).copied(),
        };
        if let Some(number) = known.filter(|number| *number != NONE) {
            return Ok(number);
        }
        meter.take(ENTRY_BYTES, "buckets of a facet")?;
        let number = u32::try_from(self.counts.len()).unwrap_or(NONE);
        if number == NONE {
            return Err(Error::Invalid("a facet has 2^32 buckets".into()));
        }
        self.counts.push(0);
        if outer > 0 {
            self.others.insert((outer, key), number);
            return Ok(number);
        }
        if self.of_first.len() <= key as usize {
            self.of_first.resize(key as usize + 1, NONE);
        }
        if let Some(place) = self.of_first.get_mut(key as usize) {
            *place = number;
        }
        Ok(number)
    }

    /// Adds a document to a bucket.
    pub(crate) fn add(&mut self, number: u32) {
        self.add_many(number, 1);
    }

    /// Adds documents to a bucket.
    pub(crate) fn add_many(&mut self, number: u32, documents: u64) {
        if let Some(count) = self.counts.get_mut(number as usize) {
            *count += documents;
        }
    }

    pub(crate) fn count(&self, number: u32) -> u64 {
        self.counts.get(number as usize).copied().unwrap_or(0)
    }

    /// All buckets: the number of the outer one, the key and the number, ascending.
    pub(crate) fn all(&self) -> Vec<(u32, u32, u32)> {
        let of_first = (0..).zip(&self.of_first);
        let of_first = of_first.filter(|(_, number)| **number != NONE);
        let mut all: Vec<_> = of_first.map(|(key, number)| (0, key, *number)).collect();
        let others = self.others.iter();
        all.extend(others.map(|((outer, key), number)| (*outer, *key, *number)));
        all.sort_unstable();
        debug_assert!(all.len() == self.counts.len(), "each bucket has one place");
        all
    }
}
