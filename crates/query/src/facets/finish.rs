//! What facets say, made of their state: buckets are ordered and cut here.

use super::facet::{BucketOrderBy, Buckets, Facet, FacetKind};
use super::faceted::{Bucket, Faceted};
use super::metric::MetricState;
use super::plan::{FacetPlan, PlanNode};
use super::state::{BucketsState, FacetState, NodeState};
use super::statistic::Statistic;
use crate::Value;
use crate::groups::GroupKey;
use crate::sort::TopHits;
use crate::top::Top;
use quire_model::ordered::Direction;
use smallvec::SmallVec;
use std::cmp::Ordering;

type Key = SmallVec<[GroupKey; 1]>;

impl FacetState {
    /// What each facet says.
    pub(crate) fn finish(self, plan: &FacetPlan) -> Vec<Faceted> {
        let roots = plan.roots.iter().zip(self.roots);
        roots
            .map(|(node, state)| Finished::new(node, state).of(node, 0))
            .collect()
    }
}

impl Facet {
    /// What it says of no documents.
    #[must_use]
    pub fn of_nothing(&self) -> Faceted {
        match &self.kind {
            FacetKind::Metric { metric, .. } => MetricState::new(metric).finish(metric),
            FacetKind::Hits { .. } => Faceted::Hits {
                count: 0,
                hits: Vec::new(),
            },
            FacetKind::Buckets(_) => Faceted::Buckets {
                buckets: Vec::new(),
                others: 0,
                unread: 0,
            },
            FacetKind::Filters(filters) => Faceted::Buckets {
                buckets: filters
                    .iter()
                    .map(|_| self.empty_bucket(Vec::new()))
                    .collect(),
                others: 0,
                unread: 0,
            },
        }
    }

    /// A bucket without documents.
    #[must_use]
    pub fn empty_bucket(&self, key: Vec<Value>) -> Bucket {
        Bucket {
            key,
            count: 0,
            inner: self
                .inner
                .iter()
                .map(|(_, facet)| facet.of_nothing())
                .collect(),
        }
    }
}

/// A state, ready to be read bucket by bucket.
enum Finished {
    Buckets {
        /// By outer bucket, then by key: the number of a bucket.
        all: Vec<(u32, u32, u32)>,
        keys: Vec<Key>,
        inner: Vec<Finished>,
        state: Box<BucketsState>,
    },
    Metric(Vec<Option<MetricState>>),
    Hits(Vec<(u64, TopHits)>),
}

/// A bucket that may be returned.
struct Candidate {
    key: u32,
    number: u32,
    count: u64,
    inner: Option<Vec<Faceted>>,
}

impl Finished {
    fn new(node: &PlanNode, state: NodeState) -> Finished {
        match state {
            NodeState::Metric(states) => Finished::Metric(states.into_iter().map(Some).collect()),
            NodeState::Hits(states) => Finished::Hits(states),
            NodeState::Buckets(mut state) => {
                let inner = std::mem::take(&mut state.inner);
                let inner = node.inner.iter().zip(inner);
                Finished::Buckets {
                    all: state.numbers.all(),
                    keys: state
                        .keys
                        .take()
                        .map_or_else(Vec::new, super::keys::Keys::into_keys),
                    inner: inner
                        .map(|(node, state)| Finished::new(node, state))
                        .collect(),
                    state: Box::new(state),
                }
            }
        }
    }

    /// What the facet says of an outer bucket. Each is read once.
    fn of(&mut self, node: &PlanNode, outer: u32) -> Faceted {
        let place = outer as usize;
        let found = match (self, &node.facet.kind) {
            (Finished::Metric(states), FacetKind::Metric { metric, .. }) => {
                let state = states.get_mut(place).and_then(Option::take);
                state.map(|state| state.finish(metric))
            }
            (Finished::Hits(states), FacetKind::Hits { skip, .. }) => {
                states.get_mut(place).map(|(count, top)| {
                    let top = std::mem::replace(top, Top::new(0)).into_sorted();
                    let skip = usize::try_from(*skip).unwrap_or(usize::MAX);
                    Faceted::Hits {
                        count: *count,
                        hits: top.into_iter().skip(skip).map(|(_, hit)| hit).collect(),
                    }
                })
            }
            (
                Finished::Buckets {
                    all,
                    keys,
                    inner,
                    state,
                },
                kind,
            ) => {
                let from = all.partition_point(|(other, ..)| *other < outer);
                let to = all.partition_point(|(other, ..)| *other <= outer);
                let of_outer = all.get(from..to).unwrap_or_default();
                let candidates = of_outer.iter().map(|(_, key, number)| Candidate {
                    key: *key,
                    number: *number,
                    count: state.numbers.count(*number),
                    inner: None,
                });
                let candidates: Vec<_> = candidates.collect();
                Some(match kind {
                    FacetKind::Buckets(buckets) => {
                        let unread = state.unread.get(place).copied().unwrap_or(0);
                        let wanted = Wanted {
                            node,
                            buckets,
                            keys,
                        };
                        wanted.of(candidates, unread, inner)
                    }
                    _ => of_filters(node, candidates, inner),
                })
            }
            _ => None,
        };
        found.unwrap_or_else(|| node.facet.of_nothing())
    }
}

fn inner_of(node: &PlanNode, inner: &mut [Finished], bucket: u32) -> Vec<Faceted> {
    let inner = node.inner.iter().zip(inner);
    inner.map(|(node, state)| state.of(node, bucket)).collect()
}

fn of_filters(node: &PlanNode, found: Vec<Candidate>, inner: &mut [Finished]) -> Faceted {
    let mut found = found.into_iter().peekable();
    let buckets = (0..).zip(&node.filters).map(|(key, _)| {
        match found.next_if(|candidate| candidate.key == key) {
            Some(candidate) => Bucket {
                key: Vec::new(),
                count: candidate.count,
                inner: inner_of(node, inner, candidate.number),
            },
            None => node.facet.empty_bucket(Vec::new()),
        }
    });
    Faceted::Buckets {
        buckets: buckets.collect(),
        others: 0,
        unread: 0,
    }
}

/// Which buckets are returned.
struct Wanted<'p> {
    node: &'p PlanNode,
    buckets: &'p Buckets,
    keys: &'p [Key],
}

impl Wanted<'_> {
    fn of(&self, mut found: Vec<Candidate>, unread: u64, inner: &mut [Finished]) -> Faceted {
        let buckets = self.buckets;
        found.retain(|candidate| {
            candidate.count >= buckets.documents_min
                && buckets
                    .after
                    .as_ref()
                    .is_none_or(|after| self.is_after(candidate, after))
        });
        let orders = buckets.order.iter();
        if orders
            .clone()
            .any(|order| matches!(order.by, BucketOrderBy::Inner { .. }))
        {
            for candidate in &mut found {
                candidate.inner = Some(inner_of(self.node, inner, candidate.number));
            }
        }
        let limit = buckets.limit.map(usize::try_from);
        let limit = limit.map_or(usize::MAX, |limit| limit.unwrap_or(usize::MAX));
        let mut others = 0;
        if limit < found.len() {
            if limit > 0 {
                found.select_nth_unstable_by(limit - 1, |one, other| self.compare(one, other));
            }
            let past = found.split_off(limit);
            others = past.iter().map(|candidate| candidate.count).sum();
        }
        found.sort_unstable_by(|one, other| self.compare(one, other));
        let found = found.into_iter().map(|candidate| Bucket {
            key: self.values_of(&candidate),
            count: candidate.count,
            inner: match candidate.inner {
                Some(inner) => inner,
                None => inner_of(self.node, inner, candidate.number),
            },
        });
        Faceted::Buckets {
            buckets: found.collect(),
            others,
            unread,
        }
    }

    fn key(&self, candidate: &Candidate) -> &[GroupKey] {
        self.keys.get(candidate.key as usize).map_or(&[], |key| key)
    }

    fn values_of(&self, candidate: &Candidate) -> Vec<Value> {
        let parts = self.key(candidate).iter();
        parts.map(|part| Value::of_term(part)).collect()
    }

    fn is_after(&self, candidate: &Candidate, after: &[Value]) -> bool {
        let terms: Vec<&[u8]> = after.iter().map(Value::term).collect();
        let key: Vec<&[u8]> = self
            .key(candidate)
            .iter()
            .map(|part| part.as_slice())
            .collect();
        self.compare_keys(&key, &terms) == Ordering::Greater
    }

    /// In the order of the sources.
    fn compare_keys(&self, one: &[&[u8]], other: &[&[u8]]) -> Ordering {
        let parts = self.buckets.by.iter().zip(one.iter().zip(other));
        let orders = parts.map(|(source, (one, other))| match source.direction {
            Direction::Ascending => one.cmp(other),
            Direction::Descending => other.cmp(one),
        });
        orders.fold(Ordering::Equal, Ordering::then)
    }

    fn compare(&self, one: &Candidate, other: &Candidate) -> Ordering {
        let by_key = || {
            let key = |of| self.key(of).iter().map(|part| part.as_slice());
            let (one, other): (Vec<_>, Vec<_>) = (key(one).collect(), key(other).collect());
            self.compare_keys(&one, &other)
        };
        for order in &self.buckets.order {
            let ascending = match &order.by {
                BucketOrderBy::Count => one.count.cmp(&other.count),
                BucketOrderBy::Key => by_key(),
                BucketOrderBy::Inner { path, statistic } => {
                    let number = |of: &Candidate| {
                        let inner = of.inner.as_deref().unwrap_or_default();
                        number_at(&self.node.facet, inner, path, *statistic)
                    };
                    match compare_numbers(number(one), number(other), order.direction) {
                        Ordering::Equal => continue,
                        decided => return decided,
                    }
                }
            };
            let ordering = match order.direction {
                Direction::Ascending => ascending,
                Direction::Descending => ascending.reverse(),
            };
            if ordering != Ordering::Equal {
                return ordering;
            }
        }
        by_key()
    }
}

/// Those without a number come last.
pub(crate) fn compare_numbers(
    one: Option<f64>,
    other: Option<f64>,
    direction: Direction,
) -> Ordering {
    match (one, other, direction) {
        (Some(one), Some(other), Direction::Ascending) => one.total_cmp(&other),
        (Some(one), Some(other), Direction::Descending) => other.total_cmp(&one),
        _ => other.is_some().cmp(&one.is_some()),
    }
}

/// A number of an inner facet.
pub(crate) fn number_at(
    facet: &Facet,
    inner: &[Faceted],
    path: &[String],
    statistic: Statistic,
) -> Option<f64> {
    let (name, rest) = path.split_first()?;
    let place = facet.inner.iter().position(|(other, _)| other == name)?;
    let found = inner.get(place)?;
    if rest.is_empty() {
        return found.number(statistic);
    }
    let Faceted::Buckets { buckets, .. } = found else {
        return None;
    };
    let (_, facet) = facet.inner.get(place)?;
    number_at(facet, &buckets.first()?.inner, rest, statistic)
}
