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
//! # Layout
//! ```text
//! posting  | form (1) | the cluster's bytes, to the end |
//!   form: 0 list, 1 bits, 2 runs, each as in a doc set (`set_view.rs`);
//!   an empty posting is an empty list
//! change   | length of the first posting (LEB128) | the posting added |
//!          | the posting removed, to the end |
//! ```
//!
//! Source: Rockset's converged index, "Real-time clustered search index on RocksDB", 2023.

use crate::cluster::{Cluster, Owned, WORDS_MAX};
use crate::set_view::encode_cluster;
use crate::{DocSet, IndexDamage, varint};

const LIST: u8 = 0;
const BITS: u8 = 1;
const RUNS: u8 = 2;

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

    /// Adds the docids of another one.
    pub fn unite(&mut self, other: &Posting) {
        let Some(more) = &other.0 else { return };
        self.0 = match self.0.take() {
            None => Some(more.clone()),
            Some(mine) => mine.or_in_place(more.view()),
        };
    }

    /// Removes the docids of another one.
    pub fn subtract(&mut self, other: &Posting) {
        if let Some(less) = &other.0 {
            self.0 = self
                .0
                .take()
                .and_then(|mine| mine.view().and_not(less.view()));
        }
    }

    /// Appends the encoding: the form that takes fewest bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let at = out.len();
        out.push(LIST);
        if let Some(cluster) = &self.0 {
            let form = encode_cluster(cluster, out);
            // The forms of a doc set are numbered alike.
            out[at] = form as u8;
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
            self.or_cluster(cluster, more.view());
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

fn view(bytes: &[u8]) -> Result<Cluster<'_>, IndexDamage> {
    let damaged = || IndexDamage::new("posting", 0);
    let (form, rest) = bytes.split_first().ok_or_else(damaged)?;
    let unit = match *form {
        LIST => 2,
        BITS => 8,
        RUNS => 4,
        _ => return Err(damaged()),
    };
    if !rest.len().is_multiple_of(unit) || rest.len() >= POSTING_BYTES_MAX {
        return Err(damaged());
    }
    Ok(match *form {
        LIST => Cluster::List(rest.as_chunks().0),
        BITS => Cluster::Bits(rest.as_chunks().0),
        _ => Cluster::Runs(rest.as_chunks().0),
    })
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

    /// Appends the encoding.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut added = Vec::new();
        self.added.encode(&mut added);
        varint::put(out, added.len());
        out.extend_from_slice(&added);
        self.removed.encode(out);
    }

    /// The change of an encoding.
    ///
    /// # Errors
    /// [`IndexDamage`] if it is cut short, or for a posting that makes no sense.
    pub fn decode(mut bytes: &[u8]) -> Result<PostingChange, IndexDamage> {
        let cut = || IndexDamage::new("change of a posting", 0);
        let length = varint::take(&mut bytes).ok_or_else(cut)?;
        let (added, removed) = bytes.split_at_checked(length).ok_or_else(cut)?;
        Ok(PostingChange {
            added: Posting::decode(added)?,
            removed: Posting::decode(removed)?,
        })
    }
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
            let (mut head, mut tail) = (PostingChange::default(), PostingChange::default());
            for (at, (removed, added)) in changes.iter().enumerate() {
                model = model.difference(removed).chain(added).copied().collect();
                let change = PostingChange::new(posting(removed), posting(added));
                let mut bytes = Vec::new();
                change.encode(&mut bytes);
                prop_assert_eq!(PostingChange::decode(&bytes).unwrap(), change.clone());
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
            if let Ok(change) = PostingChange::decode(&bytes) {
                let mut base = Posting::of_ascending(&[1, 2, 3]);
                base.apply(&change);
            }
        }
    }
}
