//! Loading: pairs in any order become one run, sorted outside memory if they do not fit.
//!
//! As long as keys ascend they go straight into tables. From the first that does not, pairs are
//! sorted in a memtable; a full one becomes a run for the time being, in files that no manifest
//! names, and 16 such runs of a size become one of the next. At the end all are merged into the run
//! that the tree gets. So a pair is written once if all come in order; else twice, and once more
//! for every time that there are 16 times as many as a memtable holds.
//!
//! # Invariants
//! 1. Of the pairs of one key the last counts: what came in order came before what is sorted, and
//!    runs are kept in the order in which they were filled.
//! 2. Files of runs for the time being go with the load, whatever becomes of it.

use super::build::RunBuilder;
use super::check::check_write;
use crate::direction::Direction;
use crate::entry::EntryRef;
use crate::entry_kind::EntryKind;
use crate::fold::Folder;
use crate::memtable::Memtable;
use crate::merge::Merge;
use crate::run::Run;
use crate::source::Source;
use crate::table::{Counters, Origin};
use crate::{Error, Op, Result, RunMeta, TreeContext, TreeSpec};
use quire_model::Position;
use std::sync::Arc;

/// This many runs of a size become one.
const FAN_IN: usize = 16;

/// Pairs on their way into a tree: see [`Tree::load`]. Dropped, it leaves nothing.
#[derive(Debug)]
pub struct Load {
    spec: TreeSpec,
    context: TreeContext,
    folder: Arc<Folder>,
    memtable_bytes: u64,
    /// The pairs that came in order, as long as all do.
    ascending: Option<RunBuilder>,
    last_key: Vec<u8>,
    memtable: Arc<Memtable>,
    /// Those that were sorted, and how often each was merged; the newest last.
    runs: Vec<(u32, Arc<Run>)>,
    pairs: u64,
    failed: bool,
}

impl Load {
    pub(super) fn new(
        spec: &TreeSpec,
        context: &TreeContext,
        folder: &Arc<Folder>,
        memtable_bytes: u64,
    ) -> Load {
        Load {
            ascending: Some(RunBuilder::new(&context.files)),
            memtable: Arc::new(Memtable::new(&context.budget, Position(0))),
            spec: spec.clone(),
            context: context.clone(),
            folder: Arc::clone(folder),
            memtable_bytes,
            last_key: Vec::new(),
            runs: Vec::new(),
            pairs: 0,
            failed: false,
        }
    }

    /// How many pairs it was given.
    pub fn pairs(&self) -> u64 {
        self.pairs
    }

    /// Sets `key` to `value`, over what the load was given for it before.
    ///
    /// # Errors
    /// `InvalidArgument` or `TooLarge` as of [`Tree::write`], and the pair is left out; those of
    /// the machine, and the load is of no use then.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        check_write(&self.folder, key, Op::Put(value))?;
        self.check()?;
        let added = self.add(key, value);
        self.failed = added.is_err();
        self.pairs += 1;
        added
    }

    /// Refuses to go on after an error: a pair may be missing.
    pub(super) fn check(&self) -> Result<()> {
        match self.failed {
            true => Err(Error::InvalidArgument("a load that failed before".into())),
            false => Ok(()),
        }
    }

    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if let Some(ascending) = &mut self.ascending {
            if self.pairs == 0 || self.last_key.as_slice() < key {
                key.clone_into(&mut self.last_key);
                let kind = EntryKind::Put;
                return ascending.add(&self.spec, &self.context, EntryRef { key, kind, value });
            }
            if let Some(ascending) = self.ascending.take() {
                let run = self.open(ascending)?;
                // Merged with the others at the end: it may be the largest by far.
                self.runs.push((u32::MAX, run));
            }
        }
        let position = Position(self.pairs + 1);
        let op = Op::Put(value);
        self.memtable.write(&self.folder, key, position, op)?;
        if self.memtable.bytes() < self.memtable_bytes {
            return Ok(());
        }
        let empty = Memtable::new(&self.context.budget, Position(0));
        let full = std::mem::replace(&mut self.memtable, Arc::new(empty));
        self.merge_for_now(0, vec![Source::of_memtable(&full)])?;
        while let Some(&(level, _)) = self.runs.last() {
            let alike = self.runs.iter().rev();
            let alike = alike.take_while(|(other, _)| *other == level).count();
            if alike < FAN_IN {
                break;
            }
            let merged = self.runs.split_off(self.runs.len() - alike);
            let sources = newest_first(&merged)?;
            self.merge_for_now(level + 1, sources)?;
        }
        Ok(())
    }

    /// Makes a run that is read once, so without a filter.
    fn merge_for_now(&mut self, level: u32, sources: Vec<Source>) -> Result<()> {
        let mut spec = self.spec.clone();
        spec.filter_bits_per_key = 0;
        let mut builder = RunBuilder::new(&self.context.files);
        let mut merge = self.merge(sources);
        builder.add_all(&spec, &self.context, &mut merge, true, &|| false)?;
        let run = self.open(builder)?;
        self.runs.push((level, run));
        Ok(())
    }

    fn merge(&self, sources: Vec<Source>) -> Merge {
        let folder = Arc::clone(&self.folder);
        Merge::new(sources, Direction::Forwards, folder, true)
    }

    /// A run for the time being: its files go with it.
    fn open(&self, builder: RunBuilder) -> Result<Arc<Run>> {
        let built = builder.finish()?;
        let meta = RunMeta {
            id: 0,
            from: Vec::new(),
            tables: built.metas().to_vec(),
        };
        let counters = Arc::<Counters>::default();
        let origin = Origin::JustWritten;
        let run = Run::open(&self.spec, &self.context, &counters, meta, origin)?;
        run.set_obsolete();
        built.keep();
        Ok(Arc::new(run))
    }

    /// Writes what is left to be written. `None` if `stop` said so.
    pub(super) fn finish(mut self, stop: &dyn Fn() -> bool) -> Result<Option<RunBuilder>> {
        self.check()?;
        if let Some(ascending) = self.ascending.take() {
            return Ok(Some(ascending));
        }
        let mut sources = vec![Source::of_memtable(&self.memtable)];
        sources.extend(newest_first(&self.runs)?);
        let mut builder = RunBuilder::new(&self.context.files);
        let mut merge = self.merge(sources);
        let all = builder.add_all(&self.spec, &self.context, &mut merge, true, stop)?;
        Ok(all.then_some(builder))
    }
}

fn newest_first(runs: &[(u32, Arc<Run>)]) -> Result<Vec<Source>> {
    let runs: Vec<_> = runs.iter().rev().map(|(_, run)| Arc::clone(run)).collect();
    Source::of_runs(&runs)
}
