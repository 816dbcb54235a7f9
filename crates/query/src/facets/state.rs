//! [`FacetState`]: the state of all facets of a query.
//!
//! # Invariants
//! 1. The state does not depend on the order of the documents, nor on how they are split into
//!    segments and shards.
//! 2. A bucket of an inner facet is in one bucket of the outer one.

use super::buckets::BucketNumbers;
use super::column::{FieldColumn, is_kept};
use super::facet::{BucketKey, FacetKind, Missing};
use super::keys::Keys;
use super::metric::{Metric, MetricState};
use super::plan::{FacetPlan, PlanNode};
use crate::batches::Batches;
use crate::hit::Hit;
use crate::meter::Meter;
use crate::ordinal_counter::count_terms;
use crate::sort::{SortKey, TopHits, offer, push_value};
use crate::top::Top;
use crate::values::Values;
use crate::{Cast, Column, Error, Result, Value};
use quire_index::{DocSet, term};
use smallvec::SmallVec;

/// Pairs of a document and a bucket that are gone on with at once.
const PAIRS_MAX: usize = 1 << 16;

/// A document, by its place in the batch, and the bucket that it is in.
type Pair = (u32, u32);

/// The state of all facets.
#[derive(Debug)]
pub(crate) struct FacetState {
    pub(crate) roots: Vec<NodeState>,
}

/// The state of one facet, of all buckets of the facet that it is in.
#[derive(Debug)]
pub(crate) enum NodeState {
    Buckets(BucketsState),
    /// By outer bucket.
    Metric(Vec<MetricState>),
    /// By outer bucket: how many documents, and the first ones.
    Hits(Vec<(u64, TopHits)>),
}

/// Buckets, and the facets in them.
#[derive(Debug)]
pub(crate) struct BucketsState {
    /// None for filters, whose keys are their places.
    pub(crate) keys: Option<Keys>,
    pub(crate) numbers: BucketNumbers,
    /// Values without a key, by outer bucket.
    pub(crate) unread: Vec<u64>,
    pub(crate) inner: Vec<NodeState>,
}

/// Documents whose values are in columns.
pub(crate) struct Segment<'s> {
    /// By field of the plan.
    pub(crate) columns: Vec<Option<Box<dyn Column + 's>>>,
    pub(crate) docs: &'s DocSet,
    /// The documents that match each filter of the plan.
    pub(crate) filters: &'s [DocSet],
    /// The hit of a document.
    pub(crate) hit: &'s dyn Fn(u32) -> Option<Hit>,
}

/// What is known of the documents of a batch.
struct Batch<'b, 's> {
    docs: &'b [u32],
    columns: &'b mut [FieldColumn<'s>],
    filters: &'b [DocSet],
    hit: &'b dyn Fn(u32) -> Option<Hit>,
}

impl FacetState {
    pub(crate) fn new(plan: &FacetPlan) -> FacetState {
        FacetState {
            roots: plan.roots.iter().map(NodeState::new).collect(),
        }
    }

    /// Adds the documents of a segment.
    pub(crate) fn add(
        &mut self,
        plan: &FacetPlan,
        segment: Segment<'_>,
        meter: &mut Meter,
    ) -> Result<()> {
        let is_whole = plan
            .roots
            .iter()
            .zip(&mut self.roots)
            .map(|(node, state)| state.add_whole(node, &segment, meter));
        let is_whole = is_whole.collect::<Result<Vec<bool>>>()?;
        if is_whole.iter().all(|is_whole| *is_whole) {
            return Ok(());
        }
        let columns = segment.columns.into_iter().map(FieldColumn::new);
        let mut columns = columns.collect::<Result<Vec<_>>>()?;
        for (node, state) in plan.roots.iter().zip(&mut self.roots) {
            state.begin_segment(node, &columns);
        }
        let mut batches = Batches::new(segment.docs);
        let mut pairs: Vec<Pair> = Vec::new();
        while let Some(docs) = batches.next_batch() {
            columns
                .iter_mut()
                .try_for_each(|column| column.read(docs))?;
            pairs.clear();
            pairs.extend((0..docs.len() as u32).map(|place| (place, 0)));
            let mut batch = Batch {
                docs,
                columns: &mut columns,
                filters: segment.filters,
                hit: segment.hit,
            };
            let roots = plan.roots.iter().zip(&mut self.roots).zip(&is_whole);
            for ((node, state), _) in roots.filter(|(_, is_whole)| !**is_whole) {
                state.add(node, &mut batch, &pairs, meter)?;
            }
        }
        Ok(())
    }
}

impl NodeState {
    fn new(node: &PlanNode) -> NodeState {
        match &node.facet.kind {
            FacetKind::Metric { .. } => NodeState::Metric(Vec::new()),
            FacetKind::Hits { .. } => NodeState::Hits(Vec::new()),
            FacetKind::Buckets(_) | FacetKind::Filters(_) => NodeState::Buckets(BucketsState {
                keys: match &node.facet.kind {
                    FacetKind::Buckets(buckets) => Some(Keys::new(buckets)),
                    _ => None,
                },
                numbers: BucketNumbers::default(),
                unread: Vec::new(),
                inner: node.inner.iter().map(NodeState::new).collect(),
            }),
        }
    }

    /// Adds all documents of a segment to a measure or to buckets of all of them, which columns
    /// give faster than their batches do. False if it is neither.
    fn add_whole(
        &mut self,
        node: &PlanNode,
        segment: &Segment<'_>,
        meter: &mut Meter,
    ) -> Result<bool> {
        if let NodeState::Buckets(state) = self {
            return state.add_whole(node, segment, meter);
        }
        let FacetKind::Metric {
            metric,
            missing: None,
            cast,
        } = &node.facet.kind
        else {
            return Ok(false);
        };
        let NodeState::Metric(states) = self else {
            return Ok(false);
        };
        let MetricState::Measure(gathered) = metric_state(states, 0, metric, meter)? else {
            return Ok(false);
        };
        match node.fields.first() {
            None => gathered.add_documents(segment.docs.len()),
            Some(field) => {
                if let Some(Some(column)) = segment.columns.get(*field) {
                    if let Some(cast) = cast
                        && !is_kept(cast, column.as_ref())?
                    {
                        return Ok(false);
                    }
                    gathered.add_column(column.as_ref(), segment.docs, meter)?;
                }
            }
        }
        Ok(true)
    }

    fn begin_segment(&mut self, node: &PlanNode, columns: &[FieldColumn<'_>]) {
        if let NodeState::Buckets(state) = self {
            if let Some(keys) = &mut state.keys {
                keys.begin_segment(&node.fields, columns);
            }
            for (node, inner) in node.inner.iter().zip(&mut state.inner) {
                inner.begin_segment(node, columns);
            }
        }
    }

    // Recursion ends with the facets, which are not nested deep.
    fn add(
        &mut self,
        node: &PlanNode,
        batch: &mut Batch<'_, '_>,
        pairs: &[Pair],
        meter: &mut Meter,
    ) -> Result<()> {
        match self {
            NodeState::Metric(states) => add_metric(states, node, batch, pairs, meter),
            NodeState::Hits(states) => add_hits(states, node, batch, pairs, meter),
            NodeState::Buckets(state) => state.add(node, batch, pairs, meter),
        }
    }
}

impl BucketsState {
    /// Adds all documents of a segment, if it is enough to count those with each value: nothing is
    /// in the buckets, and no document is twice in one.
    fn add_whole(
        &mut self,
        node: &PlanNode,
        segment: &Segment<'_>,
        meter: &mut Meter,
    ) -> Result<bool> {
        let (FacetKind::Buckets(buckets), Some(keys)) = (&node.facet.kind, &mut self.keys) else {
            return Ok(false);
        };
        let ([source], [field]) = (buckets.by.as_slice(), node.fields.as_slice()) else {
            return Ok(false);
        };
        let is_counted = node.inner.is_empty() && matches!(source.missing, Missing::LeftOut);
        if !is_counted {
            return Ok(false);
        }
        let Some(Some(column)) = segment.columns.get(*field) else {
            return Ok(true);
        };
        let is_by_value = matches!(source.key, BucketKey::Value(_)) && source.cast.is_none();
        if column.has_many() && !is_by_value {
            return Ok(false);
        }
        let (numbers, unread) = (&mut self.numbers, &mut self.unread);
        let mut add = |term: &[u8], count: u64| {
            if term == term::NULL {
                return Ok(());
            }
            if keys.of_term(source, term, meter, &mut |key, meter| {
                let bucket = numbers.number(0, key, meter)?;
                numbers.add_many(bucket, count);
                Ok(())
            })? {
                unread.resize(unread.len().max(1), 0);
                unread.first_mut().into_iter().for_each(|all| *all += count);
            }
            Ok(())
        };
        count_terms(column.as_ref(), segment.docs, &mut add)?;
        Ok(true)
    }

    fn add(
        &mut self,
        node: &PlanNode,
        batch: &mut Batch<'_, '_>,
        pairs: &[Pair],
        meter: &mut Meter,
    ) -> Result<()> {
        let (mut of_inner, mut keys) = (Vec::new(), Vec::new());
        // Pairs of one document are next to each other.
        let (mut last, mut unread) = (None, 0);
        for (place, outer) in pairs {
            if last != Some(*place) {
                last = Some(*place);
                unread = self.keys_of(node, batch, *place, &mut keys, meter)?;
            }
            if unread > 0 {
                self.add_unread(*outer, unread, meter)?;
            }
            for key in &keys {
                let bucket = self.numbers.number(*outer, *key, meter)?;
                self.numbers.add(bucket);
                if !node.inner.is_empty() {
                    of_inner.push((*place, bucket));
                }
            }
            if of_inner.len() >= PAIRS_MAX {
                self.add_inner(node, batch, &of_inner, meter)?;
                of_inner.clear();
            }
        }
        self.add_inner(node, batch, &of_inner, meter)
    }

    /// Adds values without a key.
    pub(crate) fn add_unread(&mut self, outer: u32, unread: u64, meter: &mut Meter) -> Result<()> {
        let place = outer as usize;
        if self.unread.len() <= place {
            meter.take((place + 1 - self.unread.len()) * size_of::<u64>(), "facets")?;
            self.unread.resize(place + 1, 0);
        }
        if let Some(count) = self.unread.get_mut(place) {
            *count += unread;
        }
        Ok(())
    }

    fn add_inner(
        &mut self,
        node: &PlanNode,
        batch: &mut Batch<'_, '_>,
        pairs: &[Pair],
        meter: &mut Meter,
    ) -> Result<()> {
        if pairs.is_empty() {
            return Ok(());
        }
        let mut inner = node.inner.iter().zip(&mut self.inner);
        inner.try_for_each(|(node, state)| state.add(node, batch, pairs, meter))
    }

    /// Replaces `keys` by those of a document. Returns how many of its values have none.
    fn keys_of(
        &mut self,
        node: &PlanNode,
        batch: &mut Batch<'_, '_>,
        place: u32,
        keys: &mut Vec<u32>,
        meter: &mut Meter,
    ) -> Result<u64> {
        match (&node.facet.kind, &mut self.keys) {
            (FacetKind::Buckets(buckets), Some(all)) => {
                let place = place as usize;
                all.of_document(buckets, &node.fields, batch.columns, place, keys, meter)
            }
            _ => {
                keys.clear();
                let doc = batch.docs.get(place as usize).copied();
                for (key, filter) in (0..).zip(&node.filters) {
                    let filter = batch.filters.get(*filter);
                    if let (Some(filter), Some(doc)) = (filter, doc)
                        && filter.contains(doc)
                    {
                        keys.push(key);
                    }
                }
                Ok(0)
            }
        }
    }
}

pub(crate) fn metric_state<'s>(
    states: &'s mut Vec<MetricState>,
    bucket: u32,
    metric: &Metric,
    meter: &mut Meter,
) -> Result<&'s mut MetricState> {
    let place = bucket as usize;
    while states.len() <= place {
        let state = MetricState::new(metric);
        meter.take(state.bytes(), "measures of buckets")?;
        states.push(state);
    }
    Ok(&mut states[place])
}

fn add_metric(
    states: &mut Vec<MetricState>,
    node: &PlanNode,
    batch: &mut Batch<'_, '_>,
    pairs: &[Pair],
    meter: &mut Meter,
) -> Result<()> {
    let FacetKind::Metric {
        metric,
        missing,
        cast,
    } = &node.facet.kind
    else {
        return Ok(());
    };
    if let Metric::WeightedAvg { weight_missing, .. } = metric {
        let missing = (missing.as_ref(), weight_missing.as_ref());
        return add_weighted(
            states,
            (node, metric, cast.as_ref()),
            missing,
            batch,
            pairs,
            meter,
        );
    }
    let mut cast = cast.as_ref();
    let missing = missing.as_ref().and_then(|it| read(cast, it.term()));
    if let (Some(needed), Some(field)) = (cast, node.fields.first())
        && let Some(column) = batch.columns.get(*field)
        && column.keeps(needed)?
    {
        cast = None;
    }
    for (place, bucket) in pairs {
        let state = metric_state(states, *bucket, metric, meter)?;
        let column = node.fields.first();
        let Some(column) = column.and_then(|field| batch.columns.get_mut(*field)) else {
            state.add_document();
            continue;
        };
        let count = column.of(*place as usize).len();
        if count == 0
            && let Some(missing) = &missing
        {
            state.add(missing.term(), meter)?;
        }
        for at in 0..count {
            let ordinal = column.of(*place as usize).get(at).copied();
            let Some(ordinal) = ordinal else {
                continue;
            };
            let term = column.term(ordinal)?;
            match cast.map(|cast| cast.of_term(term)) {
                None => state.add(term, meter)?,
                Some(Some(value)) => state.add(value.term(), meter)?,
                Some(None) => {}
            }
        }
    }
    Ok(())
}

/// Adds the numbers of documents that have one weight.
fn add_weighted(
    states: &mut Vec<MetricState>,
    (node, metric, cast): (&PlanNode, &Metric, Option<&Cast>),
    (missing, weight_missing): (Option<&Value>, Option<&Value>),
    batch: &mut Batch<'_, '_>,
    pairs: &[Pair],
    meter: &mut Meter,
) -> Result<()> {
    let [numbers, weights] = node.fields.as_slice() else {
        return Ok(());
    };
    for (place, bucket) in pairs {
        let state = metric_state(states, *bucket, metric, meter)?;
        let place = *place as usize;
        let Some(column) = batch.columns.get_mut(*weights) else {
            continue;
        };
        let weight = match *column.of(place) {
            [] => weight_missing.and_then(Value::as_f64),
            [ordinal] => {
                let value = read(cast, column.term(ordinal)?);
                value.and_then(|value| value.as_f64())
            }
            _ => {
                return Err(Error::Invalid(
                    "a document has more than one weight for a weighted mean".into(),
                ));
            }
        };
        let (Some(weight), Some(column)) = (weight, batch.columns.get_mut(*numbers)) else {
            continue;
        };
        let ordinals: SmallVec<[u64; 4]> = SmallVec::from_slice(column.of(place));
        if let ([], Some(missing)) = (ordinals.as_slice(), missing)
            && let Some(missing) = read(cast, missing.term())
        {
            state.add_weighted(missing.term(), weight);
        }
        for ordinal in ordinals {
            if let Some(value) = read(cast, column.term(ordinal)?) {
                state.add_weighted(value.term(), weight);
            }
        }
    }
    Ok(())
}

/// The value of a term, cast if there is a cast.
fn read(cast: Option<&Cast>, term: &[u8]) -> Option<Value> {
    match cast {
        None => Some(Value::of_term(term)),
        Some(cast) => cast.of_term(term),
    }
}

fn add_hits(
    states: &mut Vec<(u64, TopHits)>,
    node: &PlanNode,
    batch: &mut Batch<'_, '_>,
    pairs: &[Pair],
    meter: &mut Meter,
) -> Result<()> {
    let FacetKind::Hits { order, skip, limit } = &node.facet.kind else {
        return Ok(());
    };
    for (place, bucket) in pairs {
        let doc = batch.docs.get(*place as usize);
        let Some(hit) = doc.and_then(|doc| (batch.hit)(*doc)) else {
            continue;
        };
        let mut key = SortKey::new();
        for (order, field) in order.iter().zip(&node.fields) {
            let Some(column) = batch.columns.get_mut(*field) else {
                continue;
            };
            let ordinals: SmallVec<[u64; 4]> = SmallVec::from_slice(column.all_of(*place as usize));
            let mut values = Values::new();
            for ordinal in ordinals {
                values.push(Value::of_term(column.term(ordinal)?));
            }
            push_value(&mut key, order.best_of(values.into_iter()).as_ref(), order);
        }
        let (count, top) = hits_state(states, *bucket, skip.saturating_add(*limit), meter)?;
        *count += 1;
        if !top.is_nothing() {
            offer(top, key, hit, meter)?;
        }
    }
    Ok(())
}

/// How many documents a bucket has, and the first ones, of which `limit` are kept.
pub(crate) fn hits_state<'s>(
    states: &'s mut Vec<(u64, TopHits)>,
    bucket: u32,
    limit: u64,
    meter: &mut Meter,
) -> Result<&'s mut (u64, TopHits)> {
    let place = bucket as usize;
    while states.len() <= place {
        meter.take(size_of::<(u64, TopHits)>(), "hits of buckets")?;
        states.push((0, Top::new(limit)));
    }
    Ok(&mut states[place])
}
