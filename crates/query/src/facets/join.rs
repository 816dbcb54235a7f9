//! Joining the states of facets: those of some shards, and those of others.
//!
//! Keys and buckets have numbers of their own in each state, in the order in which they were met.

use super::facet::FacetKind;
use super::plan::{FacetPlan, PlanNode};
use super::state::{BucketsState, FacetState, NodeState, hits_state, metric_state};
use crate::Result;
use crate::meter::Meter;
use crate::sort::offer;

impl FacetState {
    /// Adds the state of other documents, of the same facets.
    pub(crate) fn join(
        &mut self,
        plan: &FacetPlan,
        other: FacetState,
        meter: &mut Meter,
    ) -> Result<()> {
        let mut nodes = plan.roots.iter().zip(&mut self.roots).zip(other.roots);
        nodes.try_for_each(|((node, all), one)| all.join(node, one, &[0], meter))
    }
}

impl NodeState {
    /// `buckets` are the numbers here of the outer buckets, by their numbers there.
    // Recursion ends with the facets, which are not nested deep.
    fn join(
        &mut self,
        node: &PlanNode,
        other: NodeState,
        buckets: &[u32],
        meter: &mut Meter,
    ) -> Result<()> {
        match (self, other, &node.facet.kind) {
            (
                NodeState::Metric(all),
                NodeState::Metric(states),
                FacetKind::Metric { metric, .. },
            ) => {
                for (bucket, state) in buckets.iter().zip(states) {
                    metric_state(all, *bucket, metric, meter)?.join(state, meter)?;
                }
            }
            (
                NodeState::Hits(all),
                NodeState::Hits(states),
                FacetKind::Hits { skip, limit, .. },
            ) => {
                for (bucket, (documents, hits)) in buckets.iter().zip(states) {
                    let limit = skip.saturating_add(*limit);
                    let (count, top) = hits_state(all, *bucket, limit, meter)?;
                    *count += documents;
                    for (key, hit) in hits.into_sorted() {
                        offer(top, key, hit, meter)?;
                    }
                }
            }
            (NodeState::Buckets(all), NodeState::Buckets(state), _) => {
                all.join(node, state, buckets, meter)?;
            }
            (state, other, _) => unreachable!("{other:?} is no state of {state:?}'s facet"),
        }
        Ok(())
    }
}

impl BucketsState {
    fn join(
        &mut self,
        node: &PlanNode,
        other: BucketsState,
        outer: &[u32],
        meter: &mut Meter,
    ) -> Result<()> {
        let keys = match (&mut self.keys, other.keys) {
            (Some(all), Some(keys)) => Some(all.join(keys, meter)?),
            // The keys of filters are their places.
            _ => None,
        };
        let of_other = other.numbers.all();
        let mut buckets = vec![0; of_other.len()];
        for (of, key, number) in of_other {
            let key = keys.as_ref().map_or(key, |keys| keys[key as usize]);
            let bucket = self.numbers.number(outer[of as usize], key, meter)?;
            self.numbers.add_many(bucket, other.numbers.count(number));
            buckets[number as usize] = bucket;
        }
        for (bucket, unread) in outer.iter().zip(other.unread) {
            self.add_unread(*bucket, unread, meter)?;
        }
        let inner = node.inner.iter().zip(&mut self.inner).zip(other.inner);
        for ((node, all), one) in inner {
            all.join(node, one, &buckets, meter)?;
        }
        Ok(())
    }
}
