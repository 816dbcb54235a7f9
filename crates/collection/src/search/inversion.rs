//! [`Inversion`]: the changes of many documents, turned into one change of each posting.
//!
//! # Invariants
//! 1. A document is given once, with its entries before and after all that happened to it in the
//!    batch: an entry that it has before and after changes nothing.
//! 2. Changes come out in the order of their keys, each key once.

use super::entries::Entries;
use super::key;
use hashbrown::HashMap;
use quire_index::{Posting, PostingChange};
use quire_model::DocId;
use std::cmp::Ordering;
use std::hash::BuildHasherDefault;
use xxhash_rust::xxh3::Xxh3Default;

/// Low halves of docids that leave and enter a posting.
#[derive(Debug, Default)]
struct Lows {
    removed: Vec<u16>,
    added: Vec<u16>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Inversion {
    postings: HashMap<Vec<u8>, Lows, BuildHasherDefault<Xxh3Default>>,
    bytes: usize,
    key: Vec<u8>,
}

impl Inversion {
    /// Takes the entries of a document before and after. Documents may come in any order.
    pub(crate) fn add(&mut self, docid: DocId, before: &Entries, after: &Entries) {
        let (cluster, low) = ((docid.0 >> 16) as u16, docid.0 as u16);
        let (mut before, mut after) = (before.iter().peekable(), after.iter().peekable());
        loop {
            let order = match (before.peek(), after.peek()) {
                (Some(old), Some(new)) => old.cmp(new),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return,
            };
            let old = before.next_if(|_| order != Ordering::Greater);
            let new = after.next_if(|_| order != Ordering::Less);
            match (old, new) {
                (Some(entry), None) => self.lows(entry, cluster).removed.push(low),
                (None, Some(entry)) => self.lows(entry, cluster).added.push(low),
                _ => {}
            }
        }
    }

    fn lows(&mut self, entry: &[u8], cluster: u16) -> &mut Lows {
        self.key.clear();
        self.key.extend_from_slice(entry);
        key::push_cluster(&mut self.key, cluster);
        self.bytes += size_of::<u16>();
        // A key that is there already is not copied.
        let bytes = &mut self.bytes;
        self.postings
            .entry_ref(self.key.as_slice())
            .or_insert_with(|| {
                *bytes += entry.len() + size_of::<(Vec<u8>, Lows)>();
                Lows::default()
            })
    }

    /// About how many bytes of memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The change of each posting, in the order of keys.
    pub(crate) fn into_changes(self) -> impl Iterator<Item = (Vec<u8>, PostingChange)> {
        let mut changes: Vec<_> = self.postings.into_iter().collect();
        changes.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        changes.into_iter().map(|(key, mut lows)| {
            lows.removed.sort_unstable();
            lows.added.sort_unstable();
            let removed = Posting::of_ascending(&lows.removed);
            let added = Posting::of_ascending(&lows.added);
            (key, PostingChange::new(removed, added))
        })
    }
}
