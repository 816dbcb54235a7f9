//! [`Shards`]: shards that are asked together, and what is known of all of them at once.
//!
//! A query that few of many shards can answer should cost what these few cost: what can match
//! nothing is then left out without being touched. How that is known is the affair of who keeps the
//! shards.

use crate::tree::{And, Node};
use crate::{Hit, Leaf, Order, Prepared, Result, Shard};
use smallvec::SmallVec;
use std::sync::Arc;

/// Places of shards, ascending, each once. Most questions that can tell have few.
pub type Places = SmallVec<[u32; 8]>;

/// Shards in an order, in which their hits come where a query has no other. A shard's place is its
/// number, from 0.
pub trait Shards: Sync {
    /// How many there are.
    fn count(&self) -> u32;

    /// The shard at a place; none past the last.
    fn shard(&self, place: u32) -> Option<&dyn Shard>;

    /// The places of the shards that may have documents which match: no other one is asked. None if
    /// that is not known, or if they are nearly all.
    ///
    /// # Errors
    /// A shard can't be read.
    fn candidates(&self, leaf: &Leaf) -> Result<Option<Places>> {
        let _ = leaf;
        Ok(None)
    }

    /// The places of all shards by the best value that one has by an order, the best first, those
    /// without any last. None if that is not known.
    ///
    /// # Errors
    /// A shard can't be read.
    fn best_first(&self, order: &Order) -> Result<Option<Arc<[u32]>>> {
        let _ = order;
        Ok(None)
    }

    /// All shards as one, if the fields that the query is about are known for all of them together:
    /// it is then asked instead of many of them. None of these fields may be an error to use in a
    /// shard.
    ///
    /// # Errors
    /// A shard can't be read.
    fn merged(&self, query: &Prepared) -> Result<Option<Arc<dyn Merged>>> {
        let _ = query;
        Ok(None)
    }
}

/// The documents of all shards as one shard: those of each in their order, behind those of the
/// shards before.
pub trait Merged: Send + Sync {
    /// What is asked.
    fn shard(&self) -> &dyn Shard;

    /// Where a document is.
    fn hit(&self, doc: u32) -> Hit;
}

/// A list, of which nothing else is known.
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
        // What does not match may be in any.
        Node::All | Node::Not(_) => Ok(None),
        Node::None => Ok(Some(Places::new())),
        Node::Leaf(leaf) => shards.candidates(leaf),
        Node::And(And { nodes, .. }) => {
            let mut all: Option<Places> = None;
            for node in nodes {
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
