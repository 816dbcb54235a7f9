//! What earlier queries found out about the predicates of a query.

use super::followed::{Followed, nanos_to_follow};
use super::shard::LiveShard;
use quire_index::DocSet;
use quire_model::Position;
use quire_query::{Leaf, Shard};
use std::sync::Arc;

/// A set is brought up even if that takes this many times as long as doing without it: a set that
/// is left as it is takes longer the next time, until it has to be found anew.
const BRING_UP_FACTOR: u64 = 4;

impl LiveShard<'_> {
    /// The documents that fulfil a leaf, if an earlier query found them and it is known what
    /// changed since.
    pub(super) fn known_docs(&self, leaf: &Leaf) -> Option<Followed> {
        let (followed, position) = self.followed.as_ref()?;
        followed.docs(leaf, self.all_changed(), *position)
    }

    pub(super) fn known_docs_by(&self, leaf: &Leaf, by_columns: bool) -> Option<Arc<DocSet>> {
        let known = self.known_docs(leaf)?;
        (known.by_columns == by_columns).then_some(known.docs)
    }

    /// The documents that fulfil a leaf, if an earlier query at this position found them.
    pub(super) fn known_docs_here(&self, leaf: &Leaf) -> Option<Followed> {
        let (followed, position) = self.followed.as_ref()?;
        followed.docs_at(leaf, *position)
    }

    /// The documents that fulfil a leaf, if an earlier query found them and bringing them up takes
    /// not much longer than testing `docs` documents by numbers in memory.
    pub(super) fn known_docs_instead_of(&self, leaf: &Leaf, docs: u64) -> Option<Followed> {
        let (followed, position) = self.followed.as_ref()?;
        let [few, _] = self.number_nanos(docs);
        let nanos_max = few.saturating_mul(BRING_UP_FACTOR);
        followed.docs_within(leaf, (self.all_changed(), *position), nanos_max)
    }

    /// Whether documents were tested one by one for a leaf so often that finding all that fulfil it
    /// by the columns would have cost no more; now they are for `docs` documents.
    pub(super) fn is_worth_finding(&self, leaf: &Leaf, docs: u64) -> bool {
        let Some((followed, _)) = &self.followed else {
            return false;
        };
        let [few, all] = self.column_nanos(docs);
        followed.spend(leaf, Position(0), few, all)
    }

    /// The same by numbers in memory. Where bringing up what was found takes longer than testing as
    /// many documents, only queries at this position count.
    pub(super) fn is_worth_finding_by_numbers(&self, leaf: &Leaf, docs: u64) -> bool {
        let Some((followed, position)) = &self.followed else {
            return false;
        };
        let [few, all] = self.number_nanos(docs);
        let since = match nanos_to_follow(self.doc_end()) < few {
            true => Position(0),
            false => *position,
        };
        followed.spend(leaf, since, few, all)
    }
}
