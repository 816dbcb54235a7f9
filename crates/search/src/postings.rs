//! Postings by key: what a [`LiveShard`](super::LiveShard) reads.

use super::key;
use crate::Result;
use quire_index::{DocSet, IndexDamage, Posting, add_posting_bits, posting_len};
use quire_model::DocId;
use std::ops::ControlFlow;

/// A posting, as it was found.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FoundPosting<'a> {
    /// Encoded, where it lies.
    Stored(&'a [u8]),
    /// Folded with changes.
    Folded(&'a Posting),
}

impl FoundPosting<'_> {
    /// How many docids it has.
    pub(crate) fn len(self) -> std::result::Result<u32, IndexDamage> {
        match self {
            FoundPosting::Stored(bytes) => posting_len(bytes),
            FoundPosting::Folded(posting) => Ok(posting.len()),
        }
    }

    /// Sets the bits of its docids; `bits` begins with those of its cluster.
    pub(crate) fn add_to_bits(self, bits: &mut [u64]) -> std::result::Result<(), IndexDamage> {
        match self {
            FoundPosting::Stored(bytes) => add_posting_bits(bytes, bits),
            FoundPosting::Folded(posting) => {
                posting.add_to_bits(bits);
                Ok(())
            }
        }
    }

    /// Adds its docids, of cluster `cluster`, to a set.
    pub(crate) fn add_to(
        self,
        docs: &mut DocSet,
        cluster: u16,
    ) -> std::result::Result<(), IndexDamage> {
        match self {
            FoundPosting::Stored(bytes) => docs.add_encoded_posting(cluster, bytes),
            FoundPosting::Folded(posting) => {
                docs.add_posting(cluster, posting);
                Ok(())
            }
        }
    }
}

/// Shown a key and its posting; breaks to see no more.
pub(crate) type SeePosting<'a> = dyn FnMut(&[u8], FoundPosting<'_>) -> ControlFlow<()> + 'a;

/// Postings by key, as of one position.
pub(crate) trait Postings: Send + Sync {
    /// Shows the postings from the key `from` up to `to`, without that, in the order of their keys.
    ///
    /// # Errors
    /// IndexDamage, by file and offset.
    fn visit(&self, from: &[u8], to: &[u8], see: &mut SeePosting<'_>) -> Result<()>;

    /// The same in the reverse order.
    ///
    /// # Errors
    /// As of [`visit`](Postings::visit).
    fn visit_back(&self, from: &[u8], to: &[u8], see: &mut SeePosting<'_>) -> Result<()>;
}

/// Shows each entry and document that postings say belong together. The inner result says what
/// makes no sense in them.
///
/// # Errors
/// Damage on disk, by file and offset.
pub(crate) fn each_pair(
    postings: &dyn Postings,
    see: &mut dyn FnMut(&[u8], DocId),
) -> Result<std::result::Result<(), String>> {
    let mut shown = Ok(());
    let mut see_posting = |key: &[u8], posting: FoundPosting<'_>| {
        let Some((entry, cluster)) = key::split_cluster(key) else {
            shown = Err("a key is cut short".to_string());
            return ControlFlow::Break(());
        };
        let mut docs = DocSet::empty();
        if let Err(damage) = posting.add_to(&mut docs, cluster) {
            shown = Err(damage.to_string());
            return ControlFlow::Break(());
        }
        docs.iter().for_each(|doc| see(entry, DocId(doc)));
        ControlFlow::Continue(())
    };
    postings.visit(&[], &[u8::MAX], &mut see_posting)?;
    Ok(shown)
}
