//! What earlier queries found out about the predicates of a query.

use super::followed::Followed;
use super::shard::LiveShard;
use quire_index::DocSet;
use quire_model::Position;
use quire_query::Leaf;
use std::sync::Arc;

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

    /// Whether documents were tested one by one for a leaf so often that finding all that fulfil it
    /// by the columns would have cost no more; now they are for `docs` documents.
    pub(super) fn is_worth_finding(&self, leaf: &Leaf, docs: u64) -> bool {
        let Some((followed, _)) = &self.followed else {
            return false;
        };
        let [few, all] = self.column_nanos(docs);
        followed.spend(leaf, Position(0), few, all)
    }

    /// The same by numbers in memory. To bring up what was found takes longer than to test a few
    /// documents, so only queries at this position count.
    pub(super) fn is_worth_finding_by_numbers(&self, leaf: &Leaf, docs: u64) -> bool {
        let Some((followed, position)) = &self.followed else {
            return false;
        };
        let [few, all] = self.number_nanos(docs);
        followed.spend(leaf, *position, few, all)
    }
}
