//! Which parts of a filter a shard is asked for, and in which order.
//!
//! # Invariants
//! 1. The bounds of a step hold: at least and at most so many documents match it. What they settle is not asked.
//! 2. `All` and `None` are there at the root alone.

use crate::explain::Trace;
use crate::tree::Node;
use crate::{Cost, Estimate, Leaf, Result, Shard};

/// A part of a filter, as one shard is asked it.
#[derive(Debug)]
pub(crate) struct Step<'q> {
    /// Its place among its parent's children in the filter.
    pub(crate) place: usize,
    pub(crate) estimate: Estimate,
    pub(crate) kind: Kind<'q>,
}

#[derive(Debug)]
pub(crate) enum Kind<'q> {
    All,
    None,
    Leaf(&'q Leaf),
    Not(Box<Step<'q>>),
    /// The one to begin with first.
    And(Vec<Step<'q>>),
    Or(Vec<Step<'q>>),
}

/// Plans `node` for a shard of so many documents.
pub(crate) fn plan<'q>(
    node: &'q Node,
    place: usize,
    shard: &dyn Shard,
    docs: u64,
    mut trace: Option<&mut Trace>,
) -> Result<Step<'q>> {
    let (mut estimate, mut kind) = match node {
        Node::All => (Estimate::exactly(docs, Cost::Stored), Kind::All),
        Node::None => (Estimate::exactly(0, Cost::Stored), Kind::None),
        Node::Leaf(leaf) => (shard.estimate(leaf)?, Kind::Leaf(leaf)),
        Node::Not(one) => {
            let one = plan(one, 0, shard, docs, Trace::child(&mut trace, 0))?;
            let estimate = Estimate {
                at_least: docs.saturating_sub(one.estimate.at_most),
                at_most: docs.saturating_sub(one.estimate.at_least),
                cost: one.estimate.cost,
            };
            (estimate, Kind::Not(Box::new(one)))
        }
        Node::And(nodes) => {
            let mut steps = Vec::with_capacity(nodes.len());
            // As if the documents that miss any of them were all different.
            let (mut missing, mut at_most, mut cost) = (0_u64, docs, Cost::Stored);
            for (place, node) in nodes.iter().enumerate() {
                let step = plan(node, place, shard, docs, Trace::child(&mut trace, place))?;
                missing = missing.saturating_add(docs.saturating_sub(step.estimate.at_least));
                at_most = at_most.min(step.estimate.at_most);
                cost = cost.max(step.estimate.cost);
                match step.kind {
                    Kind::All => {}
                    Kind::None => break,
                    _ => steps.push(step),
                }
            }
            let at_least = docs.saturating_sub(missing);
            steps.sort_by_key(|step| work(step, docs));
            (
                Estimate {
                    at_least,
                    at_most,
                    cost,
                },
                Kind::And(steps),
            )
        }
        Node::Or(nodes) => {
            let mut steps = Vec::with_capacity(nodes.len());
            let (mut at_least, mut at_most, mut cost) = (0, 0_u64, Cost::Stored);
            for (place, node) in nodes.iter().enumerate() {
                let step = plan(node, place, shard, docs, Trace::child(&mut trace, place))?;
                at_least = at_least.max(step.estimate.at_least);
                at_most = at_most.saturating_add(step.estimate.at_most);
                cost = cost.max(step.estimate.cost);
                match step.kind {
                    Kind::None => {}
                    Kind::All => break,
                    _ => steps.push(step),
                }
            }
            steps.sort_by_key(|step| std::cmp::Reverse(step.estimate.at_most));
            (
                Estimate {
                    at_least,
                    at_most: at_most.min(docs),
                    cost,
                },
                Kind::Or(steps),
            )
        }
    };
    if estimate.at_most == 0 {
        kind = Kind::None;
    } else if estimate.at_least >= docs {
        kind = Kind::All;
    }
    estimate.at_most = estimate.at_most.min(docs);
    if let Some(trace) = trace {
        trace.planned(&estimate);
    }
    Ok(Step {
        place,
        estimate,
        kind,
    })
}

/// What a conjunct costs to begin with: about its documents, and all of them where it is a scan or a complement.
fn work(step: &Step<'_>, docs: u64) -> u64 {
    let extra = match (&step.kind, step.estimate.cost) {
        (Kind::Not(_), _) | (_, Cost::Scanned) => docs,
        (_, Cost::Built | Cost::Stored) => 0,
    };
    step.estimate.at_most.saturating_add(extra)
}
