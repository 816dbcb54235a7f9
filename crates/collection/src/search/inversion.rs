//! [`Inversion`]: the changes of many documents, turned into one change of each posting.
//!
//! # Invariants
//! 1. A document is given once, with its entries before and after all that happened to it in the
//!    batch: an entry that it has before and after changes nothing.
//! 2. Changes come out in the order of their keys, each key once.

use super::key;
use quire_index::{Posting, PostingChange};
use quire_model::DocId;
use std::collections::HashMap;

/// Low halves of docids that leave and enter a posting.
#[derive(Debug, Default)]
struct Lows {
    removed: Vec<u16>,
    added: Vec<u16>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Inversion {
    postings: HashMap<Vec<u8>, Lows>,
    bytes: usize,
}

impl Inversion {
    /// Takes the entries of a document, each list ascending, before and after. Documents may come
    /// in any order.
    pub(crate) fn add(&mut self, docid: DocId, before: Vec<Vec<u8>>, after: Vec<Vec<u8>>) {
        let (cluster, low) = ((docid.0 >> 16) as u16, docid.0 as u16);
        let (mut before, mut after) = (before.into_iter().peekable(), after.into_iter().peekable());
        loop {
            let order = match (before.peek(), after.peek()) {
                (Some(old), Some(new)) => old.cmp(new),
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (None, None) => return,
            };
            match order {
                std::cmp::Ordering::Equal => {
                    before.next();
                    after.next();
                }
                std::cmp::Ordering::Less => {
                    if let Some(entry) = before.next() {
                        self.lows(entry, cluster).removed.push(low);
                    }
                }
                std::cmp::Ordering::Greater => {
                    if let Some(entry) = after.next() {
                        self.lows(entry, cluster).added.push(low);
                    }
                }
            }
        }
    }

    fn lows(&mut self, mut entry: Vec<u8>, cluster: u16) -> &mut Lows {
        key::push_cluster(&mut entry, cluster);
        self.bytes += size_of::<u16>();
        let bytes = &mut self.bytes;
        self.postings.entry(entry).or_insert_with_key(|key| {
            *bytes += key.len() + size_of::<(Vec<u8>, Lows)>();
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
