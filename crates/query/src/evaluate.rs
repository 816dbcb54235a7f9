//! [`Evaluator`]: which documents of a shard match a plan, or how many.

use crate::batches::Batches;
use crate::explain::{How, Trace};
use crate::passing::Passing;
use crate::plan::{Step, StepKind};
use crate::tested::Tested;
use crate::timer::Timer;
use crate::{Access, Column, Error, Found, Leaf, Options, Ordinals, Result, Shard};
use quire_index::DocSet;
use smallvec::SmallVec;
use std::borrow::Cow;

/// Documents that are read before a look at whether the query is to stop.
const READ_AT_ONCE: usize = 4096;

/// Executes plans on one shard.
pub(crate) struct Evaluator<'s, 'c> {
    pub(crate) shard: &'s dyn Shard,
    /// Documents in it.
    pub(crate) docs: u64,
    pub(crate) timer: Timer<'c>,
    pub(crate) options: Options<'c>,
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
            StepKind::Leaf(_) | StepKind::And(_) if self.options.access.is_some() => None,
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
            StepKind::Or(_) | StepKind::Tested(_) => None,
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
            StepKind::Leaf(leaf) => self.matches_leaf(leaf, step, &mut trace)?,
            StepKind::Tested(tested) => {
                let mut set = self.matches_leaf(&tested.base, step, &mut trace)?;
                self.retain_tested(tested, &mut set)?;
                set
            }
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

    /// The documents that fulfil a leaf.
    fn matches_leaf(
        &self,
        leaf: &Leaf,
        step: &Step<'_>,
        trace: &mut Option<&mut Trace>,
    ) -> Result<DocSet> {
        match self.access(leaf, step, None, trace) {
            Access::Documents => {
                let mut set = self.shard.docs()?;
                self.retain_by_documents(leaf, step.estimate.found, &mut set)?;
                Ok(set)
            }
            access => self.shard.matches_by(access, leaf, step.estimate.found),
        }
    }

    /// Keeps of `set` the documents that fulfil a leaf.
    fn retain_leaf(
        &self,
        leaf: &Leaf,
        step: &Step<'_>,
        set: &mut DocSet,
        trace: &mut Option<&mut Trace>,
    ) -> Result<()> {
        let found = step.estimate.found;
        match self.access(leaf, step, Some(set.len()), trace) {
            Access::Documents => self.retain_by_documents(leaf, found, set),
            access => self.shard.retain_by(access, leaf, found, set),
        }
    }

    /// Keeps of `set` the documents with a value that passes the test: each value of the field's
    /// columns is tested once, or documents are read where the field has none.
    fn retain_tested(&self, tested: &Tested, set: &mut DocSet) -> Result<()> {
        if set.is_empty() {
            return Ok(());
        }
        if tested.needs_documents() {
            return self.retain_tested_by_documents(tested, set);
        }
        let mut kept = DocSet::empty();
        let segments = match self.shard.segments(&[&tested.base.path], set) {
            Err(Error::NotSortable { .. }) => return self.retain_tested_by_documents(tested, set),
            segments => segments?,
        };
        for segment in segments {
            let docs = match &segment.docs {
                Some(docs) => Cow::Owned(docs & &*set),
                None => Cow::Borrowed(&*set),
            };
            if let Some(Some(column)) = segment.columns.first() {
                self.add_tested(tested, column.as_ref(), &docs, &mut kept)?;
            }
        }
        *set = kept;
        Ok(())
    }

    /// Keeps of `set` the documents that pass the test, by reading them.
    fn retain_tested_by_documents(&self, tested: &Tested, set: &mut DocSet) -> Result<()> {
        let (mut kept, mut term) = (DocSet::empty(), Vec::new());
        for doc in set.iter() {
            self.options.check_stop()?;
            let Some(document) = self.shard.document(doc)? else {
                return Err(Error::Invalid(format!(
                    "{tested} is tested on documents, and this partition keeps none"
                )));
            };
            if tested.accepts(document.root(), &mut term) {
                kept.insert(doc);
            }
        }
        *set = kept;
        Ok(())
    }

    /// Adds the documents of `docs` with a value in `column` that passes the test.
    fn add_tested(
        &self,
        tested: &Tested,
        column: &dyn Column,
        docs: &DocSet,
        kept: &mut DocSet,
    ) -> Result<()> {
        let mut passing = Passing::new(tested, column, docs.len(), &self.options)?;
        if passing.is_none() {
            return Ok(());
        }
        let (mut batches, mut values) = (Batches::new(docs), Ordinals::default());
        while let Some(batch) = batches.next_batch() {
            self.options.check_stop()?;
            column.ordinals(batch, &mut values)?;
            passing.meet(tested, column, &values.ordinals)?;
            for (doc, ordinals) in batch.iter().zip(values.iter()) {
                if ordinals.iter().any(|ordinal| passing.has(*ordinal)) {
                    kept.insert(*doc);
                }
            }
        }
        Ok(())
    }

    /// Keeps of `set` the documents that fulfil a leaf, by reading them, some at a time.
    fn retain_by_documents(&self, leaf: &Leaf, found: Found, set: &mut DocSet) -> Result<()> {
        let (mut batch, mut kept) = ([0; READ_AT_ONCE], DocSet::empty());
        let mut left = set.iter();
        loop {
            let count = left.next_many(&mut batch);
            let Some(docs) = batch.get(..count).filter(|docs| !docs.is_empty()) else {
                break;
            };
            self.options.check_stop()?;
            let mut some: DocSet = docs.iter().copied().collect();
            self.shard
                .retain_by(Access::Documents, leaf, found, &mut some)?;
            kept |= &some;
        }
        *set = kept;
        Ok(())
    }

    /// How a leaf is executed, on `docs` documents or on all.
    fn access(
        &self,
        leaf: &Leaf,
        step: &Step<'_>,
        docs: Option<u64>,
        trace: &mut Option<&mut Trace>,
    ) -> Access {
        let paths = self.shard.paths(leaf, &step.estimate, docs);
        let chosen = Access::choose(&paths, self.options.access);
        if let Some(trace) = trace {
            trace.accessed(chosen);
        }
        chosen.access
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
            StepKind::Leaf(leaf) => self.retain_leaf(leaf, step, set, &mut trace)?,
            StepKind::Tested(tested) => {
                self.retain_leaf(&tested.base, step, set, &mut trace)?;
                self.retain_tested(tested, set)?;
            }
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
