//! [`Indexer`]: takes the values out of documents, and numbers the fields.
//!
//! A field's path is looked at once for each value, and nothing is copied of it: a consumer of the
//! values knows the field by its slot.

use super::changed::values_within;
use super::values::{Limits, Slot, Values};
use super::{FieldSet, key};
use crate::id_value::id_of_key;
use hashbrown::HashMap;
use quire_model::{Document, Key, ValueRef};
use quire_query::Path;
use std::hash::BuildHasherDefault;
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3Default;

/// The field that is a document's key in queries: an integer if the key is one, else a string. What
/// a document has in this field is never another value.
pub const ID: &str = "_id";

/// At most this many values of a document are few.
const FEW_MAX: usize = 4096;

/// A field that is indexed.
#[derive(Debug)]
pub(crate) struct Field {
    /// The beginning of its keys: its path, as the term of a string.
    pub(crate) key: Box<[u8]>,
}

/// A path that documents have.
#[derive(Debug)]
struct Known {
    path: Box<str>,
    /// None if it is not indexed.
    slot: Option<Slot>,
    /// The path that came after it in a document.
    next: usize,
}

/// See the module. It keeps each path that it has seen, so it is used for a bounded number of
/// documents.
#[derive(Debug)]
pub(crate) struct Indexer {
    indexed: Arc<FieldSet>,
    fields: Vec<Field>,
    known: Vec<Known>,
    by_path: HashMap<Box<str>, usize, BuildHasherDefault<Xxh3Default>>,
    bytes: usize,
    limits: Limits,
}

impl Indexer {
    /// One of these fields.
    pub(crate) fn new(indexed: Arc<FieldSet>) -> Indexer {
        Indexer::with_limits(indexed, Limits::default())
    }

    /// One of these fields, and of this number of values of a document.
    pub(crate) fn with_limits(indexed: Arc<FieldSet>, limits: Limits) -> Indexer {
        Indexer {
            indexed,
            fields: Vec::new(),
            known: Vec::new(),
            by_path: HashMap::default(),
            bytes: 0,
            limits,
        }
    }

    /// The values of a document. `id` is its key.
    pub(crate) fn values(&mut self, document: &Document, id: &Key) -> Values {
        let mut values = Values::default();
        self.take_values(document, id, &mut values);
        values
    }

    /// As [`values`](Self::values), in place of others, whose memory is used again.
    pub(crate) fn take_values(&mut self, document: &Document, id: &Key, values: &mut Values) {
        values.begin(self.limits);
        self.each_value(document, id, &mut |slot, value| {
            values.push(slot, |out| key::encode_entry(value, out));
        });
        values.finish();
        for field in values.many().filter_map(|slot| self.field(slot)) {
            self.indexed.note_many(&field.key);
        }
    }

    /// The values of a document before and after it changed, of the fields in which it may differ:
    /// what it has in the others is in neither. `id` is its key.
    pub(crate) fn values_that_differ(
        &mut self,
        before: &Document,
        after: &Document,
        id: &Key,
    ) -> [Values; 2] {
        let is_plain = |document: &Document| {
            // The values below two names that are the same up to a dot may be of one field.
            self.has_few(document) && document.root().names().all(|name| !name.contains('.'))
        };
        if !is_plain(before) || !is_plain(after) {
            return [self.values(before, id), self.values(after, id)];
        }
        let mut both = [Values::default(), Values::default()];
        both.iter_mut().for_each(|values| values.begin(self.limits));
        let differing = &mut |name: &str, found: [Option<ValueRef<'_>>; 2]| {
            for (values, value) in both.iter_mut().zip(found) {
                let Some(value) = value else {
                    continue;
                };
                Path::each_value_of(name, value, &mut |path, value| {
                    if path == ID {
                        return;
                    }
                    let at = self.find(path, None);
                    if let Some(slot) = self.slot_at(at) {
                        values.push(slot, |out| key::encode_entry(value, out));
                    }
                });
            }
        };
        before.root().each_difference(after.root(), differing);
        both.iter_mut().for_each(Values::finish);
        both
    }

    /// Whether a document surely has too many values in no field.
    fn has_few(&self, document: &Document) -> bool {
        let few_max = self.few_max();
        document.as_bytes().len() <= few_max
            || values_within(ValueRef::Object(document.root())) <= few_max
    }

    /// Takes these values of a document, which are all that it has in their fields, in place of
    /// others. They are as few as each document may have.
    pub(crate) fn take_few(&self, few: &[(Slot, ValueRef<'_>)], values: &mut Values) {
        debug_assert!(few.len() <= self.few_max(), "few values are within limits");
        values.begin(self.limits);
        for (slot, value) in few {
            values.push(*slot, |out| key::encode_entry(*value, out));
        }
        values.finish();
    }

    /// A document with up to this many values has too many in no field.
    pub(crate) fn few_max(&self) -> usize {
        self.limits.field.min(FEW_MAX)
    }

    /// Shows each value of a document that is indexed, in the order of the document; `id` is its
    /// key.
    pub(crate) fn each_value<'d>(
        &mut self,
        document: &'d Document,
        id: &'d Key,
        see: &mut impl FnMut(Slot, ValueRef<'d>),
    ) {
        let mut last = None;
        let mut add = |path: &str, value: ValueRef<'d>| {
            let at = self.find(path, last);
            last = Some(at);
            if let Some(slot) = self.slot_at(at) {
                see(slot, value);
            }
        };
        Path::each_value_in(document.root(), &mut |path, value| {
            if path != ID {
                add(path, value);
            }
        });
        add(ID, id_of_key(id));
    }

    /// A field.
    pub(crate) fn field(&self, slot: Slot) -> Option<&Field> {
        self.fields.get(slot.index())
    }

    /// The fields, by slot.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (Slot, &Field)> {
        (0..).map(Slot).zip(&self.fields)
    }

    /// Shows the entries of a document, each once: what the keys of the postings that it is in have
    /// before the cluster.
    pub(crate) fn each_entry(&self, values: &Values, mut see: impl FnMut(&[u8])) {
        if values.is_there() {
            let mut everything = key::field("");
            key::push_present(&mut everything);
            see(&everything);
        }
        let mut entry = Vec::new();
        for (slot, terms) in values.fields() {
            let Some(field) = self.field(slot) else {
                continue;
            };
            terms.each_suffix(|suffix| {
                entry.clear();
                entry.extend_from_slice(&field.key);
                entry.extend_from_slice(suffix);
                see(&entry);
            });
        }
    }

    /// About how many bytes of memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    fn slot_at(&self, at: usize) -> Option<Slot> {
        self.known.get(at)?.slot
    }

    /// The number of a path that comes after `last` in a document.
    fn find(&mut self, path: &str, last: Option<usize>) -> usize {
        // Mostly the one that came next in the last document, or one more value of the same.
        let next = last.map_or(Some(0), |last| Some(self.known.get(last)?.next));
        for guess in [next, last].into_iter().flatten() {
            if self
                .known
                .get(guess)
                .is_some_and(|known| *known.path == *path)
            {
                return guess;
            }
        }
        let at = match self.by_path.get(path) {
            Some(at) => *at,
            None => self.add(path),
        };
        if let Some(last) = last.and_then(|last| self.known.get_mut(last)) {
            last.next = at;
        }
        at
    }

    fn add(&mut self, path: &str) -> usize {
        let at = self.known.len();
        let slot = self.indexed.admits(path).then(|| {
            let key = key::field(path).into_boxed_slice();
            self.bytes += size_of::<Field>() + key.len();
            self.fields.push(Field { key });
            Slot(self.fields.len() as u32 - 1)
        });
        self.bytes += 2 * size_of::<Known>() + 2 * path.len();
        self.known.push(Known {
            path: path.into(),
            slot,
            next: at,
        });
        self.by_path.insert(path.into(), at);
        at
    }
}
