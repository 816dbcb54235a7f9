//! Entries: what the search index says of a document, as keys without a cluster.

use super::IndexedFields;
use super::key;
use crate::types::id_value;
use parking_lot::Mutex;
use quire_index::term;
use quire_model::{Document, ValueRef};
use quire_query::Path;
use std::collections::HashMap;
use std::ops::Range;

/// The field that is a document's key in queries: an integer if the key is one, else a string. What
/// a document has in this field is never another value.
pub const ID: &str = "_id";

/// Paths that an [`Indexer`] keeps the beginnings of keys of.
const PATHS_KEPT_MAX: usize = 4096;

/// The entries of a document, ascending, each once: of all its values, and those that say that it
/// is there, that a field has a value, and that one has several.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    bytes: Vec<u8>,
    ranges: Vec<Range<u32>>,
}

impl Entries {
    /// The entries, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.ranges.iter().map(|range| slice(&self.bytes, range))
    }

    fn push(&mut self, parts: &[&[u8]]) {
        let start = self.bytes.len() as u32;
        parts
            .iter()
            .for_each(|part| self.bytes.extend_from_slice(part));
        self.ranges.push(start..self.bytes.len() as u32);
    }

    fn sort(&mut self) {
        let bytes = &self.bytes;
        let of = |range: &Range<u32>| slice(bytes, range);
        self.ranges.sort_unstable_by(|a, b| of(a).cmp(of(b)));
        self.ranges.dedup_by(|a, b| of(a) == of(b));
    }
}

fn slice<'a>(bytes: &'a [u8], range: &Range<u32>) -> &'a [u8] {
    let range = range.start as usize..range.end as usize;
    bytes.get(range).unwrap_or_default()
}

/// Says which entries documents have.
#[derive(Debug)]
pub(crate) struct Indexer {
    fields: IndexedFields,
    /// Beginnings of keys by path; none for a field that is not indexed.
    keys: Mutex<HashMap<String, Option<Box<[u8]>>>>,
}

impl Indexer {
    /// One of these fields.
    pub(crate) fn new(fields: IndexedFields) -> Indexer {
        Indexer {
            fields,
            keys: Mutex::default(),
        }
    }

    /// The entries of a document. `id` is its key as text.
    pub(crate) fn entries(&self, document: &Document, id: &str) -> Entries {
        let mut keys = self.keys.lock();
        // Of each value: the beginning of its key, and its term, one after the other.
        let (mut bytes, mut values) = (Vec::new(), Vec::<(Range<u32>, u32)>::new());
        let mut add = |path: &str, value: ValueRef<'_>| {
            if let Some(field) = self.field_key(&mut keys, path) {
                let start = bytes.len() as u32;
                bytes.extend_from_slice(field);
                let middle = bytes.len() as u32;
                if term::encode(value, &mut bytes) {
                    values.push((start..bytes.len() as u32, middle));
                }
            }
        };
        Path::each_value_in(document.root(), &mut |path, value| {
            if path != ID {
                add(path, value);
            }
        });
        add(ID, id_value(id));
        // No beginning of a key is a prefix of another, so those of one field are neighbours.
        values.sort_unstable_by(|(a, _), (b, _)| slice(&bytes, a).cmp(slice(&bytes, b)));
        values.dedup_by(|(a, _), (b, _)| slice(&bytes, a) == slice(&bytes, b));
        let mut entries = Entries::default();
        entries.bytes.reserve(bytes.len() + 16 * values.len());
        let mut everything = key::field("");
        key::push_present(&mut everything);
        entries.push(&[&everything]);
        let field_of = |(range, middle): &(Range<u32>, u32)| slice(&bytes, &(range.start..*middle));
        let mut has_long = false;
        for of_field in values.chunk_by(|a, b| field_of(a) == field_of(b)) {
            let Some(field) = of_field.first().map(field_of) else {
                continue;
            };
            let term_of =
                |(range, middle): &(Range<u32>, u32)| slice(&bytes, &(*middle..range.end));
            if of_field.iter().any(|value| term_of(value) != term::NULL) {
                entries.push(&[field, &[key::PRESENT]]);
            }
            for term in of_field.iter().map(term_of) {
                has_long |= term.len() > key::TERM_BYTES_MAX;
                entries.push(&[field, &*key::of_term(term)]);
            }
            if of_field.len() > 1 {
                entries.push(&[field, &[key::SEVERAL]]);
            }
        }
        // Hashes come in another order than what they are of, and two may be the same.
        if has_long {
            entries.sort();
        }
        debug_assert!(
            entries.iter().is_sorted_by(|a, b| a < b),
            "entries ascend, each once"
        );
        entries
    }

    fn field_key<'k>(
        &self,
        keys: &'k mut HashMap<String, Option<Box<[u8]>>>,
        path: &str,
    ) -> Option<&'k [u8]> {
        if !keys.contains_key(path) {
            if keys.len() >= PATHS_KEPT_MAX {
                keys.clear();
            }
            let is_indexed = self.fields.includes(path);
            let key = is_indexed.then(|| key::field(path).into_boxed_slice());
            keys.insert(path.to_string(), key);
        }
        keys.get(path)?.as_deref()
    }
}
