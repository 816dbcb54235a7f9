//! [`Terms`]: different terms, numbered as they come.
//!
//! # Invariants
//! 1. A term has one number, whether it came as a term or as a value.
//! 2. Integers are found by their values, other terms by a hash. The hash of a text's term is that
//!    of its bytes between head and end mark, so that a value is found before it is encoded.

use super::encoded::{Encoded, dictionary_of};
use super::format::TERM_BYTES_MAX;
use crate::term;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use quire_model::ValueRef;
use quire_model::ordered::OrderedValue;
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64;

/// What the term of a text begins with, and what it ends with.
const TEXT_HEAD: u8 = 0xa0;
const TEXT_END: [u8; 2] = [0, 1];

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Terms {
    bytes: Vec<u8>,
    ends: Vec<u32>,
    places: HashTable<Place>,
    integers: HashTable<Integer>,
}

/// The number of an integer's term.
#[derive(Debug, Clone, Copy)]
struct Integer {
    value: i64,
    number: u32,
}

impl Integer {
    /// What the table goes by: the upper bits of a product depend on all of the value.
    fn spread(value: i64) -> u64 {
        let product = u128::from(value as u64) * 0x9e37_79b9_7f4a_7c15;
        (product >> 64) as u64 ^ product as u64
    }
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
        if let Some(value) = integer_of(term) {
            let found = self
                .integers
                .find(Integer::spread(value), |one| one.value == value);
            return found.map(|one| one.number);
        }
        let hash = hash_of(text_of(term).unwrap_or(term));
        let is_it = |place: &Place| place.hash == hash && self.get(place.number) == term;
        let found = self.places.find(Place::spread(hash), is_it);
        found.map(|place| place.number)
    }

    /// The number of a term, which comes to them if it is not there.
    pub(super) fn number(&mut self, term: &[u8]) -> u32 {
        if let Some(value) = integer_of(term) {
            return self.number_of_integer(value);
        }
        let hash = hash_of(text_of(term).unwrap_or(term));
        let is_it = |other: &[u8]| other == term;
        self.number_hashed(hash, is_it, |out| out.extend_from_slice(term))
    }

    /// The number of a value's term. None, and nothing comes to them, for an array, an object and a
    /// text that is long or has a zero byte.
    pub(super) fn number_of_value(&mut self, value: ValueRef<'_>) -> Option<u32> {
        let text = match value {
            ValueRef::Int(value) => return Some(self.number_of_integer(value)),
            ValueRef::String(text) => text.as_bytes(),
            other => {
                let mut encoded = Vec::new();
                return term::encode(other, &mut encoded).then(|| self.number(&encoded));
            }
        };
        if text.len() > TERM_BYTES_MAX - 1 - TEXT_END.len() || text.contains(&0) {
            return None;
        }
        Some(self.number_hashed(
            hash_of(text),
            |term| text_of(term) == Some(text),
            |out| {
                out.push(TEXT_HEAD);
                out.extend_from_slice(text);
                out.extend_from_slice(&TEXT_END);
            },
        ))
    }

    fn number_of_integer(&mut self, value: i64) -> u32 {
        let entry = self.integers.entry(
            Integer::spread(value),
            |one| one.value == value,
            |one| Integer::spread(one.value),
        );
        match entry {
            Entry::Occupied(known) => known.get().number,
            Entry::Vacant(free) => {
                let number = self.ends.len() as u32;
                free.insert(Integer { value, number });
                term::encode_ordered(OrderedValue::Int(value), &mut self.bytes);
                self.ends.push(self.bytes.len() as u32);
                number
            }
        }
    }

    /// The number of the term that `is_it` knows, which `append` appends if it is not there.
    fn number_hashed(
        &mut self,
        hash: u32,
        is_it: impl Fn(&[u8]) -> bool,
        append: impl FnOnce(&mut Vec<u8>),
    ) -> u32 {
        let Terms {
            bytes,
            ends,
            places,
            ..
        } = self;
        let of = |number: u32| bytes.get(Terms::range(ends, number)).unwrap_or_default();
        let entry = places.entry(
            Place::spread(hash),
            |place| place.hash == hash && is_it(of(place.number)),
            |place| Place::spread(place.hash),
        );
        match entry {
            Entry::Occupied(known) => known.get().number,
            Entry::Vacant(free) => {
                let number = ends.len() as u32;
                free.insert(Place { hash, number });
                append(bytes);
                ends.push(bytes.len() as u32);
                number
            }
        }
    }

    /// A dictionary of the terms of numbers, which are sorted by them.
    pub(super) fn dictionary_of(&self, sorted: &[u32]) -> Encoded {
        dictionary_of(|| sorted.iter().map(|number| self.get(*number)))
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

/// The integer of a term, if it is that of one.
fn integer_of(term: &[u8]) -> Option<i64> {
    match term.first() {
        Some(first) if *first < TEXT_HEAD => match term::decode(term)? {
            OrderedValue::Int(value) => Some(value),
            _ => None,
        },
        _ => None,
    }
}

/// What the term of a text has between head and end mark.
fn text_of(term: &[u8]) -> Option<&[u8]> {
    let (head, rest) = term.split_first()?;
    (*head == TEXT_HEAD).then(|| rest.strip_suffix(&TEXT_END))?
}

/// The upper half: a table that grows hashes no term again.
fn hash_of(bytes: &[u8]) -> u32 {
    (xxh3_64(bytes) >> 32) as u32
}

/// The first eight bytes as a number, zeros past the end.
pub(super) fn prefix(term: &[u8]) -> u64 {
    match term.first_chunk() {
        Some(word) => u64::from_be_bytes(*word),
        None => {
            let mut word = [0; 8];
            word.iter_mut().zip(term).for_each(|(to, from)| *to = *from);
            u64::from_be_bytes(word)
        }
    }
}
