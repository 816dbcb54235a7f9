//! [`Shards`]: shards that are queried together, and what is known of all of them at once.
//!
//! If only a few of many shards can have matches, a query should cost what these few cost: the
//! others are skipped without any access to them. The owner of the shards knows which they are.

use crate::tested::Tested;
use crate::tree::{And, Node};
use crate::{Answer, Hit, Leaf, Order, Prepared, Result, Shard};
use smallvec::SmallVec;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Places of shards, ascending, each once. Few, for most queries.
pub type Places = SmallVec<[u32; 8]>;

/// Shards in an order, in which their hits come where a query has no other. A shard's place is its
/// number, from 0.
pub trait Shards: Sync {
    /// How many there are.
    fn count(&self) -> u32;

    /// The shard at a place; none past the last.
    fn shard(&self, place: u32) -> Option<&dyn Shard>;

    /// The places of the shards that may have documents which match: the query executes on no other
    /// one. None if that is not known, or if they are nearly all.
    ///
    /// # Errors
    /// A shard can't be read.
    fn candidates(&self, leaf: &Leaf) -> Result<Option<Places>> {
        let _ = leaf;
        Ok(None)
    }

    /// The places of all shards, ordered by the best value that a shard has: the best first, shards
    /// without a value last. None if that is not known.
    ///
    /// # Errors
    /// A shard can't be read.
    fn best_first(&self, order: &Order) -> Result<Option<Arc<[u32]>>> {
        let _ = order;
        Ok(None)
    }

    /// Passes the first `hits_max` hits by `order` that fulfil all leaves to `show`, in that order,
    /// until it breaks: if there is a quicker way to them than planning and executing. Else false,
    /// and none was passed. The order is that of terms.
    ///
    /// # Errors
    /// A leaf is about a field that a shard can't filter by; or a shard can't be read.
    fn top(
        &self,
        leaves: &[&Leaf],
        order: &Order,
        hits_max: u64,
        show: &mut dyn FnMut(Hit) -> ControlFlow<()>,
    ) -> Result<bool> {
        let _ = (leaves, order, hits_max, show);
        Ok(false)
    }

    /// Calls `execute` with all shards as one, if the fields of the query are indexed for all of
    /// them together; else returns none. The query then executes on it instead, and needs no
    /// documents to tell which match. None of these fields may be an error to use in a shard.
    ///
    /// # Errors
    /// A shard can't be read; and those of `execute`.
    fn with_merged(&self, query: &Prepared, execute: Execute<'_>) -> Result<Option<Answer>> {
        let _ = (query, execute);
        Ok(None)
    }
}

/// Executes a query on all shards as one.
pub type Execute<'e> = &'e mut dyn FnMut(&dyn Merged) -> Result<Answer>;

/// The documents of all shards as one shard: shard after shard, each in its own order.
pub trait Merged: Send + Sync {
    /// The one shard.
    fn shard(&self) -> &dyn Shard;

    /// The shard and the docid there of a document.
    fn hit(&self, doc: u32) -> Hit;
}

/// A list of shards without indexes over all of them.
impl Shards for &[&dyn Shard] {
    fn count(&self) -> u32 {
        u32::try_from(self.len()).unwrap_or(u32::MAX)
    }

    fn shard(&self, place: u32) -> Option<&dyn Shard> {
        self.get(place as usize).copied()
    }
}

/// The places of the shards that may have documents which match a filter; none if all may.
pub(crate) fn candidates(node: &Node, shards: &dyn Shards) -> Result<Option<Places>> {
    match node {
        // Documents that do not match may be in any shard.
        Node::All | Node::Not(_) => Ok(None),
        Node::None => Ok(Some(Places::new())),
        Node::Leaf(leaf) | Node::Tested(Tested { base: leaf, .. }) => {
            let places = shards.candidates(leaf)?;
            debug_assert!(
                places
                    .iter()
                    .all(|places| places.is_sorted_by(|a, b| a < b)),
                "places ascend"
            );
            Ok(places)
        }
        Node::And(And { nodes, .. }) => {
            let mut all: Option<Places> = None;
            for node in nodes {
                // One shard is few enough: the others are not looked at for less.
                if all.as_ref().is_some_and(|all| all.len() <= 1) {
                    break;
                }
                all = match (all, candidates(node, shards)?) {
                    (Some(mut all), Some(one)) => {
                        all.retain(|place| one.binary_search(place).is_ok());
                        Some(all)
                    }
                    (all, one) => all.or(one),
                };
            }
            Ok(all)
        }
        Node::Or(nodes) => {
            let mut any = Places::new();
            for node in nodes {
                match candidates(node, shards)? {
                    Some(one) => any.extend(one),
                    None => return Ok(None),
                }
                // Of many nodes most places are the same.
                if any.len() / 2 > shards.count() as usize {
                    any.sort_unstable();
                    any.dedup();
                }
            }
            any.sort_unstable();
            any.dedup();
            Ok(Some(any))
        }
    }
}
