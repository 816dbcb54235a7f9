//! [`Looked`]: what an estimate found out of a predicate, by a look at a few postings.

// Nanoseconds, as `quire-bench converged --parts choice` measured them: see docs/lab/planner.md.

/// To visit a posting, to fold one with its changes, and to add a document of one.
const POSTING_NANOS: u64 = 100;
const FOLD_NANOS: u64 = 250;
const DOC_NANOS: u64 = 1;
/// To add a posting of many documents, which is bits.
const BITS_NANOS: u64 = 3_000;

/// What was seen of postings.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) postings: u64,
    pub(crate) docs: u64,
    /// Of the postings, those that have changes to fold.
    pub(crate) folded: u64,
    /// There are more that were not looked at.
    pub(crate) has_more: bool,
}

/// What an estimate found out by the trees alone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Looked {
    pub(crate) seen: Seen,
    /// The documents that must be read, as of their values only hashes are there.
    pub(crate) long: Seen,
    /// Values that have to be found.
    pub(crate) values: u64,
    pub(crate) is_exact: bool,
}

impl Seen {
    /// What adding the documents to a set costs, without the seek. A posting of many is bits, which
    /// cost the same however many they are.
    pub(crate) fn nanos(&self) -> u64 {
        let by_documents = self.docs.saturating_mul(DOC_NANOS);
        let by_documents = by_documents.min(self.postings.saturating_mul(BITS_NANOS));
        let folding = self.folded.saturating_mul(FOLD_NANOS);
        let visiting = self.postings.saturating_mul(POSTING_NANOS);
        by_documents
            .saturating_add(folding)
            .saturating_add(visiting)
    }

    /// As many postings more as documents are.
    pub(crate) fn scale_to(&mut self, docs: u64) {
        self.postings = scaled(self.postings, docs, self.docs);
        self.folded = scaled(self.folded, docs, self.docs);
        self.docs = docs;
    }
}

/// `count` times `part` by `whole`.
pub(super) fn scaled(count: u64, part: u64, whole: u64) -> u64 {
    (u128::from(count) * u128::from(part) / u128::from(whole.max(1))) as u64
}
