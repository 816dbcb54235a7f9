//! [`Terms`]: different terms, numbered as they come.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Terms {
    bytes: Vec<u8>,
    ends: Vec<u32>,
    places: HashTable<Place>,
}

/// Where a term's number is found.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// The upper half of the term's hash: a table that grows hashes no term again.
    hash: u32,
    number: u32,
}

impl Place {
    /// What the table goes by: all bits depend on the hash.
    fn spread(hash: u32) -> u64 {
        // The multiplier is 2^64 divided by the golden ratio (Knuth, volume 3, 6.4).
        u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

impl Terms {
    /// How many.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Bytes of all terms.
    pub(super) fn term_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// About how many bytes of memory they take.
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.len() + 16 * self.ends.len()
    }

    fn range(ends: &[u32], number: u32) -> Range<usize> {
        let at = number as usize;
        let start = at.checked_sub(1).and_then(|before| ends.get(before));
        let start = start.copied().unwrap_or(0) as usize;
        start..ends.get(at).map_or(start, |end| *end as usize)
    }

    /// The term of a number.
    pub(super) fn get(&self, number: u32) -> &[u8] {
        let range = Terms::range(&self.ends, number);
        self.bytes.get(range).unwrap_or_default()
    }

    /// The number of a term, if it is there.
    pub(super) fn find(&self, term: &[u8]) -> Option<u32> {
        let hash = (xxh3_64(term) >> 32) as u32;
        let is_it = |place: &Place| place.hash == hash && self.get(place.number) == term;
        let found = self.places.find(Place::spread(hash), is_it);
        found.map(|place| place.number)
    }

    /// The number of a term, which comes to them if it is not there.
    pub(super) fn number(&mut self, term: &[u8]) -> u32 {
        let Terms {
            bytes,
            ends,
            places,
        } = self;
        let hash = (xxh3_64(term) >> 32) as u32;
        let of = |number: u32| bytes.get(Terms::range(ends, number)).unwrap_or_default();
        let entry = places.entry(
            Place::spread(hash),
            |place| place.hash == hash && of(place.number) == term,
            |place| Place::spread(place.hash),
        );
        match entry {
            Entry::Occupied(known) => known.get().number,
            Entry::Vacant(free) => {
                let number = ends.len() as u32;
                free.insert(Place { hash, number });
                bytes.extend_from_slice(term);
                ends.push(bytes.len() as u32);
                number
            }
        }
    }

    /// Sorts numbers by their terms.
    pub(super) fn sort(&self, numbers: &mut [u32]) {
        let mut order: Vec<(u64, u32)> = numbers
            .iter()
            .map(|number| (prefix(self.get(*number)), *number))
            .collect();
        order.sort_unstable_by(|a, b| {
            let by_prefix = a.0.cmp(&b.0);
            by_prefix.then_with(|| self.get(a.1).cmp(self.get(b.1)))
        });
        for (place, (_, number)) in numbers.iter_mut().zip(order) {
            *place = number;
        }
    }
}

/// The first eight bytes as a number, zeros past the end.
fn prefix(term: &[u8]) -> u64 {
    match term.first_chunk() {
        Some(word) => u64::from_be_bytes(*word),
        None => {
            let mut word = [0; 8];
            word.iter_mut().zip(term).for_each(|(to, from)| *to = *from);
            u64::from_be_bytes(word)
        }
    }
}
