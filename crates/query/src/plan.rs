//! Plans: which parts of a filter are executed on a shard, and in which order.
//!
//! # Invariants
//! 1. The bounds of a step hold: the number of documents that match it is between them. A step that
//!    its bounds decide is not executed.
//! 2. `All` and `None` occur at the root alone.

use crate::explain::Trace;
use crate::tested::Tested;
use crate::tree::Node;
use crate::{Access, Cost, Estimate, Found, Leaf, Prepared, Result, Shard};
use smallvec::SmallVec;

/// What it costs about to have one more document to test by the rest of a conjunction.
const DOCUMENT_NANOS: u64 = 100;

/// Large sets are merged as words of 64 documents, in a nanosecond each with making the result.
const MERGED_DOCS_A_NANO: u64 = 64;

/// What finding the documents that match costs on a shard, and how many are expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PlanCost {
    /// Nanoseconds, about.
    pub nanos: u64,
    /// Documents.
    pub expected: u64,
}

impl Prepared {
    /// What finding the documents that match is expected to cost on a shard.
    ///
    /// # Errors
    /// As of [`answer`](Prepared::answer).
    pub fn cost_on(&self, shard: &dyn Shard) -> Result<PlanCost> {
        let step = plan(&self.root, 0, shard, shard.doc_count()?, None)?;
        Ok(PlanCost {
            nanos: step.nanos,
            expected: step.estimate.expected,
        })
    }
}

/// A part of a filter, planned for one shard.
#[derive(Debug)]
pub(crate) struct Step<'q> {
    /// Its index among its parent's children in the filter.
    pub(crate) place: usize,
    /// For a leaf that of the shard, unchanged: a way is chosen again when it is executed.
    pub(crate) estimate: Estimate,
    /// What executing it on all documents costs in the cheapest way, in nanoseconds, about.
    pub(crate) nanos: u64,
    pub(crate) kind: StepKind<'q>,
}

#[derive(Debug)]
pub(crate) enum StepKind<'q> {
    All,
    None,
    Leaf(&'q Leaf),
    Tested(&'q Tested),
    Not(Box<Step<'q>>),
    /// In the order of execution.
    And(Vec<Step<'q>>),
    Or(Vec<Step<'q>>),
}

/// Plans `node` for a shard of `docs` documents.
pub(crate) fn plan<'q>(
    node: &'q Node,
    place: usize,
    shard: &dyn Shard,
    docs: u64,
    mut trace: Option<&mut Trace>,
) -> Result<Step<'q>> {
    let (estimate, nanos, kind) = match node {
        Node::All => (Estimate::exactly(docs, Cost::Stored), 0, StepKind::All),
        Node::None => return plan_leaf(None, place, shard, docs, trace),
        Node::Leaf(leaf) => return plan_leaf(Some(leaf), place, shard, docs, trace),
        Node::Tested(tested) => {
            let base = plan_leaf(Some(&tested.base), 0, shard, docs, None)?;
            let testing = base.estimate.expected.saturating_mul(tested.nanos());
            let estimate = Estimate {
                at_least: 0,
                ..base.estimate
            };
            (
                estimate,
                base.nanos.saturating_add(testing),
                StepKind::Tested(tested),
            )
        }
        Node::Not(one) => {
            let one = plan(one, 0, shard, docs, Trace::child(&mut trace, 0))?;
            // All documents are copied, then those of the step are taken away.
            let merging = merge_nanos(&one, docs, docs).saturating_mul(2);
            let nanos = one.nanos.saturating_add(merging);
            let estimate = Estimate {
                at_least: docs.saturating_sub(one.estimate.at_most),
                at_most: docs.saturating_sub(one.estimate.at_least),
                expected: docs.saturating_sub(one.estimate.expected),
                nanos,
                cost: one.estimate.cost,
                found: Found::default(),
            };
            (estimate, nanos, StepKind::Not(Box::new(one)))
        }
        Node::And(and) => {
            let (mut joined, mut planned) = (SmallVec::<[usize; 8]>::new(), 0);
            let mut all = Conjunction::new(docs);
            for (join, place) in and.joins.iter().zip(and.nodes.len()..) {
                if shard.field(&join.path)?.is_some_and(|info| !info.many) {
                    joined.extend_from_slice(&join.places);
                    let trace = Trace::child(&mut trace, place);
                    all.add(plan_leaf(join.leaf.as_ref(), place, shard, docs, trace)?);
                }
            }
            for (place, node) in and.nodes.iter().enumerate() {
                if !all.is_nothing && !joined.contains(&place) {
                    let trace = Trace::child(&mut trace, place);
                    all.add(plan(node, place, shard, docs, trace)?);
                    planned += 1;
                }
            }
            debug_assert!(
                all.is_nothing || planned + joined.len() == and.nodes.len(),
                "each part is planned once, alone or joined"
            );
            let (estimate, steps) = all.in_order(shard);
            (estimate, estimate.nanos, StepKind::And(steps))
        }
        Node::Or(nodes) => {
            let mut steps = Vec::new();
            let (mut at_least, mut at_most, mut cost) = (0, 0_u64, Cost::Stored);
            let (mut none_of, mut nanos) = (1.0, 0_u64);
            for (place, node) in nodes.iter().enumerate() {
                let step = plan(node, place, shard, docs, Trace::child(&mut trace, place))?;
                at_least = at_least.max(step.estimate.at_least);
                at_most = at_most.saturating_add(step.estimate.at_most);
                cost = cost.max(step.estimate.cost);
                none_of *= 1.0 - step.estimate.expected as f64 / docs.max(1) as f64;
                nanos = nanos.saturating_add(step.nanos);
                match step.kind {
                    StepKind::None => {}
                    StepKind::All => break,
                    _ => steps.push(step),
                }
            }
            steps.sort_by_key(|step| std::cmp::Reverse(step.estimate.at_most));
            for step in steps.iter().skip(1) {
                let merged = merge_nanos(step, step.estimate.expected, docs);
                nanos = nanos.saturating_add(merged);
            }
            (
                Estimate {
                    at_least,
                    at_most: at_most.min(docs),
                    expected: (docs as f64 * (1.0 - none_of)).round() as u64,
                    nanos,
                    cost,
                    found: Found::default(),
                },
                nanos,
                StepKind::Or(steps),
            )
        }
    };
    Ok(settle(estimate, nanos, kind, place, docs, trace))
}

/// Plans a leaf; nothing matches where there is none.
fn plan_leaf<'q>(
    leaf: Option<&'q Leaf>,
    place: usize,
    shard: &dyn Shard,
    docs: u64,
    trace: Option<&mut Trace>,
) -> Result<Step<'q>> {
    let (estimate, nanos, kind) = match leaf {
        Some(leaf) => {
            let estimate = shard.estimate(leaf)?;
            let paths = shard.paths(leaf, &estimate, None);
            let nanos = Access::choose(&paths, None).nanos;
            (estimate, nanos, StepKind::Leaf(leaf))
        }
        None => (Estimate::exactly(0, Cost::Stored), 0, StepKind::None),
    };
    Ok(settle(estimate, nanos, kind, place, docs, trace))
}

/// A step; `All` or `None` if its bounds decide it, and then nothing is executed for it.
fn settle<'q>(
    mut estimate: Estimate,
    mut nanos: u64,
    mut kind: StepKind<'q>,
    place: usize,
    docs: u64,
    trace: Option<&mut Trace>,
) -> Step<'q> {
    estimate.at_most = estimate.at_most.min(docs);
    let least = estimate.at_least.min(estimate.at_most);
    estimate.expected = estimate.expected.clamp(least, estimate.at_most);
    if estimate.at_most == 0 {
        (kind, nanos) = (StepKind::None, 0);
    } else if estimate.at_least >= docs {
        (kind, nanos) = (StepKind::All, 0);
    }
    if let Some(trace) = trace {
        trace.planned(&estimate);
    }
    Step {
        place,
        estimate,
        nanos,
        kind,
    }
}

/// The conjunction of steps, as they are added.
struct Conjunction<'q> {
    steps: Vec<Step<'q>>,
    estimate: Estimate,
    docs: u64,
    /// The share of documents that is expected to match all, if they are independent.
    share: f64,
    /// One of them matches nothing.
    is_nothing: bool,
}

impl<'q> Conjunction<'q> {
    fn new(docs: u64) -> Conjunction<'q> {
        Conjunction {
            steps: Vec::new(),
            estimate: Estimate::exactly(docs, Cost::Stored),
            docs,
            share: 1.0,
            is_nothing: false,
        }
    }

    fn add(&mut self, step: Step<'q>) {
        let (all, one) = (&mut self.estimate, &step.estimate);
        // The worst case: no document misses more than one of the steps.
        let missing = self.docs.saturating_sub(one.at_least);
        all.at_least = all.at_least.saturating_sub(missing);
        all.at_most = all.at_most.min(one.at_most);
        all.cost = all.cost.max(one.cost);
        self.share *= one.expected as f64 / self.docs.max(1) as f64;
        match step.kind {
            StepKind::All => {}
            StepKind::None => self.is_nothing = true,
            _ => self.steps.push(step),
        }
    }

    /// The estimate, and the steps in the order of execution.
    fn in_order(mut self, shard: &dyn Shard) -> (Estimate, Vec<Step<'q>>) {
        let docs = self.docs;
        self.steps.sort_by_key(|step| work(step, docs));
        let (mut left, mut nanos) = (None, 0u64);
        for step in &self.steps {
            let cost = match left {
                Some(left) => cost_of_few(step, (left, docs), shard),
                None => step.nanos,
            };
            nanos = nanos.saturating_add(cost);
            let share = step.estimate.expected as f64 / docs.max(1) as f64;
            left = Some((left.unwrap_or(docs) as f64 * share).round() as u64);
        }
        let estimate = Estimate {
            expected: (docs as f64 * self.share).round() as u64,
            nanos,
            ..self.estimate
        };
        (estimate, self.steps)
    }
}

/// What it costs to merge `merged` documents of a step into a set, in nanoseconds, about. 0 where
/// it is not known what the step costs.
fn merge_nanos(step: &Step<'_>, merged: u64, docs: u64) -> u64 {
    match step.nanos {
        0 => 0,
        _ => merged.min(docs / MERGED_DOCS_A_NANO),
    }
}

/// What it costs to keep those of `left` documents, of `docs`, that match a step, in nanoseconds,
/// about.
fn cost_of_few(step: &Step<'_>, (left, docs): (u64, u64), shard: &dyn Shard) -> u64 {
    let of_all = |steps: &[Step<'_>]| {
        let costs = steps
            .iter()
            .map(|step| cost_of_few(step, (left, docs), shard));
        costs.fold(0, u64::saturating_add)
    };
    let merging = merge_nanos(step, left, docs);
    let testing = match &step.kind {
        StepKind::All | StepKind::None => 0,
        StepKind::Leaf(leaf) => {
            let paths = shard.paths(leaf, &step.estimate, Some(left));
            Access::choose(&paths, None).nanos
        }
        StepKind::Tested(tested) => {
            let paths = shard.paths(&tested.base, &step.estimate, Some(left));
            let testing = left.saturating_mul(tested.nanos());
            Access::choose(&paths, None).nanos.saturating_add(testing)
        }
        StepKind::Not(one) => cost_of_few(one, (left, docs), shard),
        StepKind::And(steps) | StepKind::Or(steps) => of_all(steps),
    };
    testing.saturating_add(merging)
}

/// What a conjunction costs that begins with this step: about the step's documents, what it takes
/// to find these, and all documents of the shard where it is a scan or a complement.
fn work(step: &Step<'_>, docs: u64) -> u64 {
    let extra = match (&step.kind, step.estimate.cost) {
        (StepKind::Not(_), _) | (_, Cost::Scanned) => docs,
        (_, Cost::Built | Cost::Stored) => 0,
    };
    let finding = step.nanos / DOCUMENT_NANOS;
    let found = step.estimate.expected;
    found.saturating_add(extra).saturating_add(finding)
}
