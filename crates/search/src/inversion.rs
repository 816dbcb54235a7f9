//! [`Inversion`]: the changes of many documents, turned into one change of each posting.
//!
//! # Invariants
//! 1. A document is given once, with its values before and after all that happened to it in the
//!    batch: a value that it has before and after changes nothing.
//! 2. Changes come out in the order of their keys, each key once.
//!
//! A posting is known by the slot of its field and by its [suffix](Terms::suffixes). Keys are made
//! only when changes are taken out.

use super::Indexer;
use super::key::{self, PRESENT, SEVERAL};
use super::values::{Slot, Terms, Values, each_changed};
use hashbrown::HashTable;
use quire_index::{Posting, PostingChange, encode_added};
use quire_model::DocId;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The slot of postings that belong to no field: those of all documents.
const EVERYTHING: Slot = Slot(u32::MAX);

/// Low halves of docids that leave a posting, or that enter it.
#[derive(Debug)]
struct Lows {
    slot: Slot,
    cluster: u16,
    is_removal: bool,
    hash: u64,
    suffix: Range<u32>,
    /// In the order in which documents came.
    lows: SmallVec<[u16; 8]>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Inversion {
    postings: Vec<Lows>,
    /// Numbers of postings, by slot, cluster, direction and suffix.
    numbers: HashTable<u32>,
    /// Suffixes, one after the other.
    suffixes: Vec<u8>,
    /// By slot: the posting of documents with a value that was added to last.
    present: Vec<u32>,
    lows: usize,
}

/// What leaves a posting, and what enters it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LowsChange<'a> {
    /// Low halves of docids that leave, ascending, each once.
    pub(crate) removed: &'a [u16],
    /// Those that enter.
    pub(crate) added: &'a [u16],
}

impl LowsChange<'_> {
    /// Appends the change of the posting, encoded.
    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        if self.removed.is_empty() {
            return encode_added(self.added, out);
        }
        let removed = Posting::of_ascending(self.removed);
        PostingChange::new(removed, Posting::of_ascending(self.added)).encode(out);
    }
}

/// A document, and whether it leaves postings or enters them.
#[derive(Debug, Clone, Copy)]
struct Move {
    cluster: u16,
    low: u16,
    is_removal: bool,
}

impl Move {
    fn entering(docid: DocId) -> Move {
        Move {
            cluster: (docid.0 >> 16) as u16,
            low: docid.0 as u16,
            is_removal: false,
        }
    }
}

impl Inversion {
    /// Takes a document that was not there before, but none of its values.
    pub(crate) fn add_document(&mut self, docid: DocId) {
        self.push(EVERYTHING, &[PRESENT], Move::entering(docid));
    }

    /// Takes what a document that was not there before has in a field.
    pub(crate) fn add_field(&mut self, slot: Slot, docid: DocId, terms: Terms<'_>) {
        let enters = Move::entering(docid);
        if terms.has_value() {
            self.push_present(slot, enters);
        }
        if terms.has_several() {
            self.push(slot, &[SEVERAL], enters);
        }
        let suffixes = terms.suffixes();
        suffixes.for_each(|suffix| self.push(slot, suffix, enters));
    }

    /// Takes the values of a document before and after. Documents may come in any order.
    pub(crate) fn add(&mut self, docid: DocId, before: &Values, after: &Values) {
        let enters = Move::entering(docid);
        let leaves = Move {
            is_removal: true,
            ..enters
        };
        match (before.is_there(), after.is_there()) {
            (false, true) => self.push(EVERYTHING, &[PRESENT], enters),
            (true, false) => self.push(EVERYTHING, &[PRESENT], leaves),
            _ => {}
        }
        each_changed(before, after, |slot, before, after| {
            if before.has_value() != after.has_value() {
                self.push_present(slot, if after.has_value() { enters } else { leaves });
            }
            if before.has_several() != after.has_several() {
                let moved = if after.has_several() { enters } else { leaves };
                self.push(slot, &[SEVERAL], moved);
            }
            if before.len() == 0 {
                let suffixes = after.suffixes();
                return suffixes.for_each(|suffix| self.push(slot, suffix, enters));
            }
            if after.len() == 0 {
                let suffixes = before.suffixes();
                return suffixes.for_each(|suffix| self.push(slot, suffix, leaves));
            }
            self.add_difference(slot, (before, leaves), (after, enters));
        });
    }

    /// Takes what of two lists of terms is in one of them only.
    fn add_difference(
        &mut self,
        slot: Slot,
        (before, leaves): (Terms<'_>, Move),
        (after, enters): (Terms<'_>, Move),
    ) {
        let (before, after) = (before.suffixes(), after.suffixes());
        let (mut before, mut after) = (before.peekable(), after.peekable());
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
                (Some(suffix), None) => self.push(slot, suffix, leaves),
                (None, Some(suffix)) => self.push(slot, suffix, enters),
                _ => {}
            }
        }
    }

    /// Most documents have most fields: no hash is taken.
    fn push_present(&mut self, slot: Slot, moved: Move) {
        let known = self.present.get(slot.index());
        if let Some(known) = known.and_then(|at| self.postings.get_mut(*at as usize))
            && (known.slot, known.cluster, known.is_removal)
                == (slot, moved.cluster, moved.is_removal)
        {
            self.lows += 1;
            return known.lows.push(moved.low);
        }
        let at = self.push_numbered(slot, &[PRESENT], moved);
        if self.present.len() <= slot.index() {
            self.present.resize(slot.index() + 1, u32::MAX);
        }
        if let Some(known) = self.present.get_mut(slot.index()) {
            *known = at;
        }
    }

    /// Moves a document out of a posting, or into it.
    fn push(&mut self, slot: Slot, suffix: &[u8], moved: Move) {
        self.push_numbered(slot, suffix, moved);
    }

    /// As [`push`](Self::push); returns the number of the posting.
    fn push_numbered(&mut self, slot: Slot, suffix: &[u8], moved: Move) -> u32 {
        let Move {
            cluster,
            low,
            is_removal,
        } = moved;
        let seed = u64::from(slot.0) << 32 | u64::from(cluster) << 1 | u64::from(is_removal);
        let hash = xxh3_64_with_seed(suffix, seed);
        let Inversion {
            postings,
            numbers,
            suffixes,
            lows,
            ..
        } = self;
        *lows += 1;
        let is_it = |at: &u32| {
            postings.get(*at as usize).is_some_and(|known| {
                known.hash == hash
                    && (known.slot, known.cluster, known.is_removal) == (slot, cluster, is_removal)
                    && slice(suffixes, &known.suffix) == suffix
            })
        };
        if let Some(at) = numbers.find(hash, is_it) {
            let at = *at;
            if let Some(known) = postings.get_mut(at as usize) {
                known.lows.push(low);
            }
            return at;
        }
        let at = postings.len() as u32;
        let start = suffixes.len() as u32;
        suffixes.extend_from_slice(suffix);
        postings.push(Lows {
            slot,
            cluster,
            is_removal,
            hash,
            suffix: start..suffixes.len() as u32,
            lows: SmallVec::from_slice(&[low]),
        });
        let hash_of = |at: &u32| postings.get(*at as usize).map_or(0, |known| known.hash);
        numbers.insert_unique(hash, at, hash_of);
        at
    }

    /// About how many bytes of memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        let of_posting = size_of::<Lows>() + 2 * size_of::<u32>();
        self.postings.len() * of_posting + self.suffixes.len() + self.lows * size_of::<u16>()
    }

    /// Shows the key and the change of each posting, in the order of keys. The values were taken by
    /// this indexer.
    pub(crate) fn each_change(self, indexer: &Indexer, mut see: impl FnMut(&[u8], LowsChange<'_>)) {
        let Inversion {
            postings, suffixes, ..
        } = &self;
        let everything = key::field("");
        let mut key = Vec::new();
        let order = in_order(indexer, postings, suffixes);
        let is_of_one_key = |a: &Place, b: &Place| {
            let of = |place: &Place| postings.get(place.at as usize);
            let key = |posting: &Lows| (posting.slot, posting.cluster);
            let is_one = |(a, b): (&Lows, &Lows)| {
                key(a) == key(b) && slice(suffixes, &a.suffix) == slice(suffixes, &b.suffix)
            };
            a.prefix == b.prefix && of(a).zip(of(b)).is_some_and(is_one)
        };
        for of_key in order.chunk_by(is_of_one_key) {
            let (mut removed, mut added) = (Cow::default(), Cow::default());
            for place in of_key {
                let Some(posting) = postings.get(place.at as usize) else {
                    continue;
                };
                let field = indexer.field(posting.slot);
                key.clear();
                key.extend_from_slice(field.map_or(&everything, |field| &field.key));
                key.extend_from_slice(slice(suffixes, &posting.suffix));
                key::push_cluster(&mut key, posting.cluster);
                match posting.is_removal {
                    true => removed = ascending(&posting.lows),
                    false => added = ascending(&posting.lows),
                }
            }
            let change = LowsChange {
                removed: &removed,
                added: &added,
            };
            see(&key, change);
        }
    }
}

/// Where a posting comes in the order of keys.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// That of its field.
    ordinal: u32,
    /// Its number.
    at: u32,
    /// The first bytes of its suffix.
    prefix: u64,
}

/// The postings in the order of their keys, what leaves one behind what enters it.
fn in_order(indexer: &Indexer, postings: &[Lows], suffixes: &[u8]) -> Vec<Place> {
    let mut fields: Vec<_> = indexer.fields().collect();
    fields.sort_unstable_by(|(_, a), (_, b)| a.key.cmp(&b.key));
    let mut ordinals = vec![0; fields.len()];
    for (ordinal, (slot, _)) in (1..).zip(&fields) {
        if let Some(of_slot) = ordinals.get_mut(slot.index()) {
            *of_slot = ordinal;
        }
    }
    let place = |(at, posting): (u32, &Lows)| Place {
        // The empty path, which comes first, has all documents.
        ordinal: ordinals.get(posting.slot.index()).copied().unwrap_or(0),
        at,
        prefix: prefix(slice(suffixes, &posting.suffix)),
    };
    let mut order: Vec<_> = (0..).zip(postings).map(place).collect();
    let rest = |place: &Place| {
        let posting = postings.get(place.at as usize);
        posting.map(|posting| {
            let suffix = slice(suffixes, &posting.suffix);
            (suffix, posting.cluster, posting.is_removal)
        })
    };
    order.sort_unstable_by(|a, b| {
        let by_prefix = (a.ordinal, a.prefix).cmp(&(b.ordinal, b.prefix));
        by_prefix.then_with(|| rest(a).cmp(&rest(b)))
    });
    order
}

/// The first eight bytes as a number, zeros past the end.
fn prefix(suffix: &[u8]) -> u64 {
    match suffix.first_chunk() {
        Some(word) => u64::from_be_bytes(*word),
        None => {
            let word = suffix
                .iter()
                .fold(0, |word, byte| word << 8 | u64::from(*byte));
            word << (8 * (8 - suffix.len()) as u32).min(63)
        }
    }
}

/// Low halves ascending, each once.
fn ascending(lows: &[u16]) -> Cow<'_, [u16]> {
    if lows.is_sorted_by(|a, b| a < b) {
        return Cow::Borrowed(lows);
    }
    let mut lows = lows.to_vec();
    lows.sort_unstable();
    // Two long terms of a document may have one hash.
    lows.dedup();
    Cow::Owned(lows)
}

fn slice<'a>(bytes: &'a [u8], range: &Range<u32>) -> &'a [u8] {
    let range = range.start as usize..range.end as usize;
    bytes.get(range).unwrap_or_default()
}
