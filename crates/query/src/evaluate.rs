//! [`Evaluator`]: which documents of a shard match a plan, or how many.

use crate::explain::{How, Trace};
use crate::plan::{Step, StepKind};
use crate::timer::Timer;
use crate::{Leaf, Result, Shard};
use quire_index::DocSet;
use smallvec::SmallVec;

/// Executes plans on one shard.
pub(crate) struct Evaluator<'s, 'c> {
    pub(crate) shard: &'s dyn Shard,
    /// Documents in it.
    pub(crate) docs: u64,
    pub(crate) timer: Timer<'c>,
}

impl Evaluator<'_, '_> {
    /// How many match, by statistics or counts where the shard has them.
    pub(crate) fn count(&self, step: &Step<'_>, mut trace: Option<&mut Trace>) -> Result<u64> {
        if step.estimate.at_least == step.estimate.at_most {
            return Ok(step.estimate.at_most);
        }
        let start = self.timer.now();
        let counted = match &step.kind {
            StepKind::All => Some(self.docs),
            StepKind::None => Some(0),
            StepKind::Leaf(leaf) => self.shard.count(&[leaf])?,
            StepKind::Not(one) => {
                let count = self.count(one, Trace::child(&mut trace, one.place))?;
                Some(self.docs.saturating_sub(count))
            }
            StepKind::And(steps) | StepKind::Or(steps) if let [only] = steps.as_slice() => {
                Some(self.count(only, Trace::child(&mut trace, only.place))?)
            }
            StepKind::And(steps) => match leaves(steps) {
                Some(leaves) => self.shard.count(&leaves)?,
                None => None,
            },
            StepKind::Or(_) => None,
        };
        let Some(count) = counted else {
            return Ok(self.matches(step, trace)?.len());
        };
        if let Some(trace) = trace {
            trace.done(How::Counted, count, self.timer.since(start));
        }
        Ok(count)
    }

    /// The documents that match.
    pub(crate) fn matches(&self, step: &Step<'_>, mut trace: Option<&mut Trace>) -> Result<DocSet> {
        let start = self.timer.now();
        let set = match &step.kind {
            StepKind::All => self.shard.docs()?,
            StepKind::None => DocSet::empty(),
            StepKind::Leaf(leaf) => self.shard.matches(leaf, step.estimate.found)?,
            StepKind::Not(one) => {
                let mut set = self.shard.docs()?;
                set -= &self.matches(one, Trace::child(&mut trace, one.place))?;
                set
            }
            StepKind::And(steps) => {
                let mut steps = steps.iter();
                let mut set = match steps.next() {
                    Some(first) => self.matches(first, Trace::child(&mut trace, first.place))?,
                    None => self.shard.docs()?,
                };
                for step in steps {
                    self.retain(step, &mut set, Trace::child(&mut trace, step.place))?;
                }
                set
            }
            StepKind::Or(steps) => {
                let mut set = DocSet::empty();
                for step in steps {
                    set |= &self.matches(step, Trace::child(&mut trace, step.place))?;
                }
                set
            }
        };
        if let Some(trace) = trace {
            trace.done(How::Built, set.len(), self.timer.since(start));
        }
        Ok(set)
    }

    /// Keeps of `set` what matches.
    pub(crate) fn retain(
        &self,
        step: &Step<'_>,
        set: &mut DocSet,
        mut trace: Option<&mut Trace>,
    ) -> Result<()> {
        if set.is_empty() {
            return Ok(());
        }
        let start = self.timer.now();
        match &step.kind {
            StepKind::All => {}
            StepKind::None => *set = DocSet::empty(),
            StepKind::Leaf(leaf) => self.shard.retain(leaf, step.estimate.found, set)?,
            StepKind::Not(one) => {
                let mut out = set.clone();
                self.retain(one, &mut out, Trace::child(&mut trace, one.place))?;
                *set -= &out;
            }
            StepKind::And(steps) => {
                for step in steps {
                    self.retain(step, set, Trace::child(&mut trace, step.place))?;
                }
            }
            StepKind::Or(steps) => {
                let mut kept = DocSet::empty();
                for step in steps {
                    // Documents that are kept already are not tested again.
                    let mut more = &*set - &kept;
                    self.retain(step, &mut more, Trace::child(&mut trace, step.place))?;
                    kept |= &more;
                }
                *set = kept;
            }
        }
        if let Some(trace) = trace {
            trace.done(How::Tested, set.len(), self.timer.since(start));
        }
        Ok(())
    }
}

/// The leaves, if all are.
fn leaves<'q>(steps: &[Step<'q>]) -> Option<SmallVec<[&'q Leaf; 4]>> {
    let leaves = steps.iter().map(|step| match &step.kind {
        StepKind::Leaf(leaf) => Some(*leaf),
        _ => None,
    });
    leaves.collect()
}
