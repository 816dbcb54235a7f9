//! [`Posting`]: the documents of one value in one cluster, and [`PostingChange`]: which leave and
//! which enter.
//!
//! A posting is one entry of a clustered search index: its key names a field, a value and a cluster
//! of 65,536 docids. The bounds of a cluster are arithmetic, so a posting never splits.
//!
//! # Invariants
//! 1. A change first removes, then adds; a docid is in one of the two at most.
//! 2. Changes compose: making a change of two and applying it gives what applying one after the
//!    other gives.
//!
//! 3. An encoding of an even length is a list, so the posting of one docid takes two bytes, and so
//!    does the change that adds it.
//!
//! # Layout
//! ```text
//! posting  | the cluster's bytes as a list, to the end |                      an even length
//!          | form (1) | the cluster's bytes in that form, to the end |        an odd length
//!   form: 1 bits, 2 runs; all as in a doc set (`set_view.rs`)
//! change   | the posting added, a list |                                      an even length
//!          | what (1) | ... |                                                 an odd length
//!   what: 1, 2  a form: the posting added, in that form
//!         4     the posting removed, to the end: a list
//!         5, 6  the posting removed, to the end: bits, runs
//!         8     length of the posting added (LEB128) | the posting added | the posting removed |
//!         9     the same, and a byte 0x00 behind it
//! ```
//!
//! Source: Rockset's converged index, "Real-time clustered search index on RocksDB", 2023.

use crate::cluster::{Cluster, Owned, WORDS_MAX};
use crate::set_view::encode_cluster;
use crate::{DocSet, IndexDamage, varint};

const BITS: u8 = 1;
const RUNS: u8 = 2;
/// Added to a form: what is removed.
const REMOVED: u8 = 4;
const BOTH: u8 = 8;
const BOTH_PADDED: u8 = 9;

/// Lists of changes that add up to fewer bytes than this are put one behind the other.
const LIST_BYTES: usize = 128;

/// No other form of a posting is shorter than a list of this many bytes.
const SHORTEST_LIST_BYTES: usize = 4;

/// Longest encoding of a posting, in bytes.
pub const POSTING_BYTES_MAX: usize = 1 + 8 * WORDS_MAX;

/// The low halves of the docids of one value in one cluster.
#[derive(Debug, Clone, Default)]
pub struct Posting(Option<Owned>);

impl Posting {
    /// The posting of low halves that ascend; one that repeats counts once.
    #[must_use]
    pub fn of_ascending(lows: &[u16]) -> Posting {
        debug_assert!(lows.is_sorted(), "low halves ascend");
        let mut list: Vec<_> = lows.iter().map(|low| low.to_le_bytes()).collect();
        list.dedup();
        Posting(Owned::of_list(list))
    }

    /// How many docids.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.0.as_ref().map_or(0, Owned::count)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The low halves, ascending.
    pub fn lows(&self) -> impl Iterator<Item = u16> {
        self.0.iter().flat_map(Owned::lows)
    }

    /// Sets the bits of its docids: bit `i` of word `w` stands for low half `64 * w + i`.
    pub fn add_to_bits(&self, bits: &mut [u64]) {
        if let Some(cluster) = &self.0 {
            cluster.view().add_to_bits(bits);
        }
    }

    /// Applies a change.
    pub fn apply(&mut self, change: &PostingChange) {
        self.subtract(&change.removed);
        self.unite(&change.added);
    }

    /// Applies an encoded change, without decoding it.
    ///
    /// # Errors
    /// As of [`PostingChange::decode`]; the posting is then as it was.
    pub fn apply_encoded(&mut self, change: &[u8]) -> Result<(), IndexDamage> {
        let change = change_view(change)?;
        self.subtract_view(change.removed);
        self.unite_view(change.added);
        Ok(())
    }

    /// Adds the docids of another one.
    pub fn unite(&mut self, other: &Posting) {
        if let Some(more) = &other.0 {
            self.unite_view(more.view());
        }
    }

    /// Removes the docids of another one.
    pub fn subtract(&mut self, other: &Posting) {
        if let Some(less) = &other.0 {
            self.subtract_view(less.view());
        }
    }

    fn unite_view(&mut self, more: Cluster<'_>) {
        if is_empty(more) {
            return;
        }
        self.0 = match self.0.take() {
            None => more.to_owned(),
            Some(mine) => mine.or_in_place(more),
        };
    }

    fn subtract_view(&mut self, less: Cluster<'_>) {
        if !is_empty(less) {
            self.0 = self.0.take().and_then(|mine| mine.and_not_in_place(less));
        }
    }

    /// Appends the encoding: the form that takes fewest bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.encode_marked(0, out);
    }

    /// Appends the encoding, with a mark in its first byte if there is one.
    fn encode_marked(&self, mark: u8, out: &mut Vec<u8>) {
        let at = out.len();
        out.push(0);
        let form = match &self.0 {
            Some(cluster) => encode_cluster(cluster, out) as u8,
            None => 0,
        };
        // The forms of a doc set are numbered alike.
        match (form | mark, out.get_mut(at)) {
            (0, _) => drop(out.remove(at)),
            (what, Some(first)) => *first = what,
            (_, None) => {}
        }
    }

    /// The posting of an encoding. Linear in its bytes.
    ///
    /// # Errors
    /// [`IndexDamage`] for an unknown form and a length that the form can't have.
    pub fn decode(bytes: &[u8]) -> Result<Posting, IndexDamage> {
        Ok(Posting(view(bytes)?.to_owned()))
    }
}

impl PartialEq for Posting {
    fn eq(&self, other: &Posting) -> bool {
        self.lows().eq(other.lows())
    }
}

impl Eq for Posting {}

impl DocSet {
    /// Adds the docids of a posting of cluster `cluster`.
    pub fn add_posting(&mut self, cluster: u16, posting: &Posting) {
        if let Some(more) = &posting.0 {
            self.or_owned(cluster, more);
        }
    }

    /// Adds the docids of an encoded posting of cluster `cluster`, without decoding it.
    ///
    /// # Errors
    /// As of [`Posting::decode`]; the set is then as it was.
    pub fn add_encoded_posting(&mut self, cluster: u16, bytes: &[u8]) -> Result<(), IndexDamage> {
        self.or_cluster(cluster, view(bytes)?);
        Ok(())
    }
}

/// As [`Posting::add_to_bits`], of an encoded posting.
///
/// # Errors
/// As of [`Posting::decode`].
pub fn add_posting_bits(bytes: &[u8], bits: &mut [u64]) -> Result<(), IndexDamage> {
    view(bytes)?.add_to_bits(bits);
    Ok(())
}

/// How many docids an encoded posting has.
///
/// # Errors
/// As of [`Posting::decode`].
pub fn posting_len(bytes: &[u8]) -> Result<u32, IndexDamage> {
    Ok(view(bytes)?.count())
}

/// Whether the encoding of a change is also the shortest one of the posting that it makes of
/// nothing: it removes no docid, and adds some.
#[must_use]
pub fn is_posting(change: &[u8]) -> bool {
    let is_shortest = match change.split_first() {
        // Lists are put one behind the other, also where runs would be shorter.
        Some(_) if change.len().is_multiple_of(2) => change.len() <= SHORTEST_LIST_BYTES,
        Some((form, _)) => matches!(*form, BITS | RUNS),
        None => false,
    };
    is_shortest && view(change).is_ok_and(|added| !is_empty(added))
}

/// Appends the change that adds docids, of low halves that ascend, each once.
pub fn encode_added(lows: &[u16], out: &mut Vec<u8>) {
    debug_assert!(lows.is_sorted_by(|a, b| a < b), "low halves ascend");
    match lows.len() {
        // Shorter than other forms, or as short.
        0 | 1 => out.extend(lows.iter().flat_map(|low| low.to_le_bytes())),
        _ => Posting::of_ascending(lows).encode(out),
    }
}

fn damaged() -> IndexDamage {
    IndexDamage::new("posting", 0)
}

fn view(bytes: &[u8]) -> Result<Cluster<'_>, IndexDamage> {
    match bytes.split_first() {
        Some((form, rest)) if !bytes.len().is_multiple_of(2) => view_of(*form, rest),
        _ if bytes.len() < POSTING_BYTES_MAX => Ok(Cluster::List(bytes.as_chunks().0)),
        _ => Err(damaged()),
    }
}

/// The cluster of bytes in a form.
fn view_of(form: u8, bytes: &[u8]) -> Result<Cluster<'_>, IndexDamage> {
    let unit = match form {
        0 => 2,
        BITS => 8,
        RUNS => 4,
        _ => return Err(damaged()),
    };
    if !bytes.len().is_multiple_of(unit) || bytes.len() >= POSTING_BYTES_MAX {
        return Err(damaged());
    }
    Ok(match form {
        0 => Cluster::List(bytes.as_chunks().0),
        BITS => Cluster::Bits(bytes.as_chunks().0),
        _ => Cluster::Runs(bytes.as_chunks().0),
    })
}

fn is_empty(cluster: Cluster<'_>) -> bool {
    match cluster {
        Cluster::List(lows) => lows.is_empty(),
        Cluster::Bits(words) => words.is_empty(),
        Cluster::Runs(runs) => runs.is_empty(),
    }
}

/// A change, where its encoding lies.
#[derive(Clone, Copy)]
struct ChangeView<'a> {
    added: Cluster<'a>,
    removed: Cluster<'a>,
}

fn change_view(bytes: &[u8]) -> Result<ChangeView<'_>, IndexDamage> {
    let cut = || IndexDamage::new("change of a posting", 0);
    let (mut added, mut removed) = (Cluster::List(&[]), Cluster::List(&[]));
    match bytes.split_first() {
        Some((what, rest)) if !bytes.len().is_multiple_of(2) => match *what {
            BITS | RUNS => added = view_of(*what, rest)?,
            BOTH | BOTH_PADDED => {
                let (padding, mut rest) = match *what {
                    BOTH => (0, rest),
                    _ => rest
                        .split_last()
                        .map(|(last, rest)| (*last, rest))
                        .ok_or_else(cut)?,
                };
                let length = varint::take(&mut rest).ok_or_else(cut)?;
                let (first, second) = rest.split_at_checked(length).ok_or_else(cut)?;
                if padding != 0 {
                    return Err(cut());
                }
                (added, removed) = (view(first)?, view(second)?);
            }
            what if what & REMOVED != 0 => removed = view_of(what - REMOVED, rest)?,
            _ => return Err(cut()),
        },
        _ => added = view(bytes)?,
    }
    Ok(ChangeView { added, removed })
}

/// What changes in a posting: the merge operand of a search index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PostingChange {
    added: Posting,
    removed: Posting,
}

impl PostingChange {
    /// The change that removes and then adds docids.
    #[must_use]
    pub fn new(mut removed: Posting, added: Posting) -> PostingChange {
        removed.subtract(&added);
        PostingChange { added, removed }
    }

    /// Whether it changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }

    /// This change, then a newer one, as one.
    pub fn then(&mut self, newer: &PostingChange) {
        self.removed.unite(&newer.removed);
        self.removed.subtract(&newer.added);
        self.added.subtract(&newer.removed);
        self.added.unite(&newer.added);
    }

    /// This change, then a newer one that is encoded, as one.
    fn then_view(&mut self, newer: ChangeView<'_>) {
        self.removed.unite_view(newer.removed);
        self.removed.subtract_view(newer.added);
        self.added.subtract_view(newer.removed);
        self.added.unite_view(newer.added);
    }

    /// Appends the encoding.
    pub fn encode(&self, out: &mut Vec<u8>) {
        if self.removed.is_empty() {
            return self.added.encode(out);
        }
        if self.added.is_empty() {
            return self.removed.encode_marked(REMOVED, out);
        }
        let at = out.len();
        out.push(BOTH);
        let mut added = Vec::new();
        self.added.encode(&mut added);
        varint::put(out, added.len());
        out.extend_from_slice(&added);
        self.removed.encode(out);
        if (out.len() - at).is_multiple_of(2) {
            out.push(0);
            out[at] = BOTH_PADDED;
        }
    }

    /// The change of an encoding.
    ///
    /// # Errors
    /// [`IndexDamage`] if it is cut short, or for a posting that makes no sense.
    pub fn decode(bytes: &[u8]) -> Result<PostingChange, IndexDamage> {
        let ChangeView { added, removed } = change_view(bytes)?;
        Ok(PostingChange {
            added: Posting(added.to_owned()),
            removed: Posting(removed.to_owned()),
        })
    }

    /// Appends the encoding of the change that encoded changes, the oldest first, make together.
    ///
    /// # Errors
    /// As of [`decode`](Self::decode).
    pub fn combine(changes: &[&[u8]], out: &mut Vec<u8>) -> Result<(), IndexDamage> {
        if is_one_list(changes) {
            changes.iter().for_each(|list| out.extend_from_slice(list));
            return Ok(());
        }
        let mut all = PostingChange::default();
        for change in changes {
            all.then_view(change_view(change)?);
        }
        all.encode(out);
        Ok(())
    }
}

/// Whether changes are short lists of docids that are added, each of which begins where the one
/// before ends: documents that were added one after the other.
fn is_one_list(changes: &[&[u8]]) -> bool {
    let mut last = None;
    let mut bytes = 0;
    for change in changes {
        bytes += change.len();
        let (lows, odd) = change.as_chunks::<2>();
        let first = lows.first().map(|low| u16::from_le_bytes(*low));
        if !odd.is_empty() || bytes > LIST_BYTES || first.is_some() && first <= last {
            return false;
        }
        let newest = lows.last().map(|low| u16::from_le_bytes(*low));
        last = newest.or(last);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::btree_set;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    type Lows = BTreeSet<u16>;

    fn posting(lows: &Lows) -> Posting {
        Posting::of_ascending(&lows.iter().copied().collect::<Vec<_>>())
    }

    fn any_lows() -> impl Strategy<Value = Lows> {
        prop_oneof![
            btree_set(any::<u16>(), 0..20),
            btree_set(any::<u16>(), 0..3),
            btree_set(any::<u16>(), 300..600),
            btree_set(0u16..300, 0..200),
            (0u16..60_000, 0u16..5_000).prop_map(|(from, count)| (from..from + count).collect()),
        ]
    }

    proptest! {
        #[test]
        fn changes_are_those_of_sets_however_they_are_grouped(
            base in any_lows(),
            changes in proptest::collection::vec((any_lows(), any_lows()), 0..6),
            cut in 0usize..6,
        ) {
            let mut model = base.clone();
            let base_len = base.len() as u32;
            let (mut head, mut tail) = (PostingChange::default(), PostingChange::default());
            let (mut encoded, mut applied) = (Vec::new(), posting(&base));
            for (at, (removed, added)) in changes.iter().enumerate() {
                model = model.difference(removed).chain(added).copied().collect();
                let change = PostingChange::new(posting(removed), posting(added));
                let mut bytes = Vec::new();
                change.encode(&mut bytes);
                prop_assert_eq!(PostingChange::decode(&bytes).unwrap(), change.clone());
                if change.removed.is_empty() && added.len() == 1 {
                    prop_assert_eq!(bytes.len(), 2);
                }
                let is_added = change.removed.is_empty() && !added.is_empty();
                prop_assert!(is_added || !is_posting(&bytes));
                prop_assert!(!is_added || added.len() > 2 || is_posting(&bytes));
                if is_posting(&bytes) {
                    let (mut of_nothing, mut value) = (Posting::default(), Vec::new());
                    of_nothing.apply_encoded(&bytes).unwrap();
                    of_nothing.encode(&mut value);
                    prop_assert_eq!(&value, &bytes);
                }
                applied.apply_encoded(&bytes).unwrap();
                encoded.push(bytes);
                if at < cut { head.then(&change) } else { tail.then(&change) }
            }
            let mut folded = posting(&base);
            folded.apply(&head);
            folded.apply(&tail);
            head.then(&tail);
            let mut at_once = posting(&base);
            at_once.apply(&head);
            prop_assert_eq!(&folded, &posting(&model));
            prop_assert_eq!(&at_once, &folded);
            prop_assert_eq!(&applied, &folded);
            let encoded: Vec<&[u8]> = encoded.iter().map(Vec::as_slice).collect();
            let mut combined = Vec::new();
            PostingChange::combine(&encoded, &mut combined).unwrap();
            prop_assert_eq!(&PostingChange::decode(&combined).unwrap(), &head);
            let [of_base, of_encoded] = [base, model.clone()].map(|lows| {
                let mut bytes = Vec::new();
                let lows: Vec<u16> = lows.into_iter().collect();
                encode_added(&lows, &mut bytes);
                PostingChange::decode(&bytes).unwrap()
            });
            prop_assert_eq!((of_base.added.len(), &of_encoded.added), (base_len, &folded));

            let mut bytes = Vec::new();
            folded.encode(&mut bytes);
            prop_assert!(bytes.len() <= POSTING_BYTES_MAX);
            prop_assert_eq!(posting_len(&bytes).unwrap() as usize, model.len());
            prop_assert_eq!(&Posting::decode(&bytes).unwrap(), &folded);
            let mut docs: DocSet = [5u32, 3 << 16].into_iter().collect();
            docs.add_encoded_posting(2, &bytes).unwrap();
            let low = model.iter().map(|low| (2 << 16) + u32::from(*low));
            let expected: Vec<u32> = [5].into_iter().chain(low).chain([3 << 16]).collect();
            prop_assert_eq!(docs.iter().collect::<Vec<_>>(), expected);
        }

        #[test]
        fn any_bytes_are_a_posting_or_an_error(
            bytes in proptest::collection::vec(any::<u8>(), 0..64),
        ) {
            let _ = Posting::decode(&bytes);
            let mut out = Vec::new();
            let _ = PostingChange::combine(&[&bytes, &[1, 0], &bytes], &mut out);
            let mut base = Posting::of_ascending(&[1, 2, 3]);
            if let Ok(change) = PostingChange::decode(&bytes) {
                base.apply(&change);
                prop_assert!(base.apply_encoded(&bytes).is_ok());
            }
        }
    }
}
