//! Which documents of a shard match a plan, or how many.

use crate::explain::{How, Trace};
use crate::plan::{Kind, Step};
use crate::timer::Timer;
use crate::{Leaf, Result, Shard};
use quire_index::DocSet;
use smallvec::SmallVec;

/// One shard, being asked.
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
            Kind::All => Some(self.docs),
            Kind::None => Some(0),
            Kind::Leaf(leaf) => self.shard.count(&[leaf])?,
            Kind::Not(one) => {
                let count = self.count(one, Trace::child(&mut trace, one.place))?;
                Some(self.docs.saturating_sub(count))
            }
            Kind::And(steps) | Kind::Or(steps) if let [only] = steps.as_slice() => {
                Some(self.count(only, Trace::child(&mut trace, only.place))?)
            }
            Kind::And(steps) => match leaves(steps) {
                Some(leaves) => self.shard.count(&leaves)?,
                None => None,
            },
            Kind::Or(_) => None,
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
            Kind::All => self.shard.docs()?,
            Kind::None => DocSet::empty(),
            Kind::Leaf(leaf) => self.shard.matches(leaf, step.estimate.found)?,
            Kind::Not(one) => {
                let mut set = self.shard.docs()?;
                set -= &self.matches(one, Trace::child(&mut trace, one.place))?;
                set
            }
            Kind::And(steps) => {
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
            Kind::Or(steps) => {
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
            Kind::All => {}
            Kind::None => *set = DocSet::empty(),
            Kind::Leaf(leaf) => self.shard.retain(leaf, step.estimate.found, set)?,
            Kind::Not(one) => {
                let mut out = set.clone();
                self.retain(one, &mut out, Trace::child(&mut trace, one.place))?;
                *set -= &out;
            }
            Kind::And(steps) => {
                for step in steps {
                    self.retain(step, set, Trace::child(&mut trace, step.place))?;
                }
            }
            Kind::Or(steps) => {
                let mut kept = DocSet::empty();
                for step in steps {
                    // What is kept already need not be tested again.
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
        Kind::Leaf(leaf) => Some(*leaf),
        _ => None,
    });
    leaves.collect()
}
