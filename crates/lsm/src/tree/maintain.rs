//! Flushes, compactions and loads: each writes a run, and makes an edit of it.

use super::Tree;
use super::build::{Added, RunBuilder};
use super::edit::{Compaction, Picked, TreeEdit};
use super::load::Load;
use super::version::Superseded;
use crate::compaction::{CompactionPolicy, Geometric};
use crate::deadline::wall_clock_micros;
use crate::direction::Direction;
use crate::memtable::Memtable;
use crate::merge::Merge;
use crate::run::Run;
use crate::source::Source;
use crate::table::Origin;
use crate::{Result, RunMeta};
use quire_seeded::{Bug, seeded};
use quire_sync::atomic::Ordering;
use std::ops::Range;
use std::sync::Arc;

/// This many of the newest runs wait for a compaction of older ones: merged before it ends, they
/// would be written once more.
pub(super) const RUNS_WAITING: usize = 8;

impl Tree {
    /// Writes all frozen memtables as one new run, files and their directories synced; merged with
    /// the newest runs, if the policy would do so at once and they are small. `None` if there is
    /// nothing to flush, or another flush is out. The run takes effect by
    /// [`install`](Self::install).
    ///
    /// # Errors
    /// `Merge`, `TooLarge`, or those of the machine. No file is left behind, and the memtables stay
    /// as they were.
    pub fn flush(&self) -> Result<Option<TreeEdit>> {
        let early = seeded(Bug::FlushLooksBeforeClaim).then(|| self.version.load_full());
        let Some(mut claim) = self.claims.claim_flush() else {
            return Ok(None);
        };
        // Loaded after the claim: the last flush is installed, or it would still hold the claim.
        let version = early.unwrap_or_else(|| self.version.load_full());
        let mut memtables = version.frozen.clone();
        if seeded(Bug::OlderMemtableNotFlushed) {
            memtables.truncate(1);
        }
        if memtables.is_empty() {
            return Ok(None);
        }
        let mut bottom = false;
        let mut runs = claim.add_runs(|claimed| {
            let version = self.version.load_full();
            let runs = version.runs_of_flush(&*self.spec.compaction, &memtables, claimed);
            // With no run below, the new one is the oldest; runs only ever appear by flushes, and
            // this is the only one.
            bottom = runs.len() == version.runs.len();
            runs.to_vec()
        });
        let mut added = self.build_of(&memtables, &runs, bottom);
        if added.is_err() && !runs.is_empty() {
            // A damaged run, or one that there is no room to merge with, must not keep memory from
            // being freed.
            runs.clear();
            claim.give_up_runs();
            added = self.build_of(&memtables, &[], false);
        }
        Ok(added?.map(|added| TreeEdit::flush(claim, memtables, runs, added)))
    }

    /// Writes what memtables and runs merge to as a new run.
    fn build_of(
        &self,
        memtables: &[Arc<Memtable>],
        runs: &[Arc<Run>],
        bottom: bool,
    ) -> Result<Option<Run>> {
        let mut sources: Vec<_> = memtables.iter().map(Source::of_memtable).collect();
        sources.extend(Source::of_runs(runs)?);
        self.build(sources, bottom, &|| false)
    }

    /// Picks runs worth merging now, or a compaction to go on with; `None` if the shape is fine.
    /// They are claimed until the compaction, or the edit made of it, is dropped, installed or
    /// abandoned.
    pub fn pick_compaction(&self) -> Option<Compaction> {
        let of_policy = self.claim_newest(|runs, all| {
            let sizes: Vec<_> = runs.iter().map(|run| run.bytes).collect();
            match sizes.len() == all {
                true => self.spec.compaction.pick(&sizes),
                false if sizes.len() > RUNS_WAITING => Geometric.pick(&sizes),
                false => None,
            }
        });
        of_policy.or_else(|| self.unfinished_compaction())
    }

    /// The compaction, if the volume that its next table goes to lets it run now; else `again` is
    /// called once it may. Where nothing limits compactions, it always may.
    pub fn admit(
        &self,
        mut compaction: Compaction,
        again: Box<dyn FnOnce() + Send>,
    ) -> Option<Compaction> {
        let place = (self.context.files).managed_place(self.spec.tier.get(), &compaction.inputs());
        if let Some((volume, disk)) = place {
            compaction.permit = Some(disk.begin_merge(again)?);
            compaction.at = Some(volume);
        }
        Some(compaction)
    }

    /// All runs, if merging them would leave less: more than one run, or tombstones and operands in
    /// the only one. `None` also while another compaction is out, or is not finished.
    pub fn full_compaction(&self) -> Option<Compaction> {
        let now = wall_clock_micros(&*self.context.env);
        self.claim_newest(|runs, all| {
            let worth_it = runs.len() > 1 || runs.iter().any(|run| run.is_unresolved(now));
            (worth_it && runs.len() == all).then_some(0..runs.len())
        })
    }

    /// The next step of the newest compaction that is not finished; `None` if there is none, or
    /// each is claimed.
    pub fn unfinished_compaction(&self) -> Option<Compaction> {
        self.claims.claim_runs(|claimed| {
            let version = self.version.load_full();
            let is_free = |run: &&Arc<Run>| run.is_cut() && !claimed.contains(&run.id);
            let first = version.runs.iter().position(|run| is_free(&run))?;
            let left = version.runs.get(first..)?;
            let runs: Vec<_> = left.iter().take_while(is_free).cloned().collect();
            let merged = left.get(runs.len()).cloned();
            let bottom = runs.len() + 1 == left.len();
            Some(Picked {
                runs,
                merged,
                bottom,
            })
        })
    }

    /// Claims the runs that `pick` picks among the newest up to the first that is claimed or being
    /// merged already; its other argument is how many there are in all.
    fn claim_newest(
        &self,
        pick: impl FnOnce(&[Arc<Run>], usize) -> Option<Range<usize>>,
    ) -> Option<Compaction> {
        self.claims.claim_runs(|claimed| {
            // Loaded under the claims' lock: a run whose claim was just given up is either still
            // here or gone for good.
            let version = self.version.load_full();
            let free = version.newest_free(claimed);
            let range = pick(free, version.runs.len())?;
            let bottom = range.end == version.runs.len();
            let runs = free.get(range).filter(|runs| !runs.is_empty())?.to_vec();
            Some(Picked {
                runs,
                merged: None,
                bottom,
            })
        })
    }

    /// Does a step of `compaction`: merges what its runs have next into a table, or a few if ranges
    /// are deleted. `stop` is called now and then; if it returns true the step ends with `None` and
    /// its files are removed. The result takes effect by [`install`](Self::install). If it [is not
    /// the last](TreeEdit::is_unfinished), [`unfinished_compaction`](Self::unfinished_compaction)
    /// and [`pick_compaction`](Self::pick_compaction) give the next.
    ///
    /// # Errors
    /// `Corrupt`, `Merge`, `TooLarge`, or those of the machine. No file of the step is left behind,
    /// and the runs stay.
    pub fn compact(
        &self,
        compaction: Compaction,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<TreeEdit>> {
        assert!(
            compaction.claim.is_of(&self.claims),
            "a compaction is done by the tree that picked it"
        );
        let Picked {
            runs,
            merged,
            bottom,
        } = &compaction.picked;
        let (spec, bottom) = (&self.spec, *bottom);
        let mut sources = Source::of_runs(runs)?;
        if seeded(Bug::RunsMergedOldestFirst) {
            sources.reverse();
        }
        let mut merge = self.merge(sources, bottom);
        let mut builder =
            RunBuilder::apart_from(&self.context.files, compaction.inputs(), compaction.at);
        let added = builder.add_tables(spec, &self.context, &mut merge, bottom, 1, stop)?;
        let rest = match &added {
            Added::All => Vec::new(),
            Added::Before(key) => {
                let rest = runs.iter().map(|run| run.after(spec, key));
                rest.collect::<Result<_>>()?
            }
            Added::Stopped => return Ok(None),
        };
        let mut added = self.open_new(builder)?;
        if let Some(merged) = merged {
            added = merged.and(spec, &added)?;
        }
        Ok(Some(TreeEdit::compaction(compaction, rest, added)))
    }

    fn merge(&self, sources: Vec<Source>, bottom: bool) -> Merge {
        let folder = Arc::clone(&self.folder);
        Merge::new(sources, Direction::Forwards, folder, bottom)
    }

    /// Writes what `sources` merge to as a new run; of no tables if nothing is left. `None` if
    /// stopped.
    fn build(
        &self,
        sources: Vec<Source>,
        bottom: bool,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<Run>> {
        let mut merge = self.merge(sources, bottom);
        let mut builder = RunBuilder::new(&self.context.files);
        match builder.add_all(&self.spec, &self.context, &mut merge, bottom, stop)? {
            true => self.open_new(builder).map(Some),
            false => Ok(None),
        }
    }

    /// The run that was built, opened. Its files stay.
    fn open_new(&self, builder: RunBuilder) -> Result<Run> {
        let built = builder.finish()?;
        let meta = RunMeta {
            id: self.next_run.fetch_add(1, Ordering::Relaxed),
            from: Vec::new(),
            tables: built.metas().to_vec(),
        };
        let origin = Origin::JustWritten;
        let run = Run::open(&self.spec, &self.context, &self.counters, meta, origin)?;
        built.keep();
        Ok(run)
    }

    /// The runs, newest first, as they would be if `edit` were installed now: what the manifest
    /// must name before it is.
    pub fn preview(&self, edit: &TreeEdit) -> Vec<RunMeta> {
        edit.apply(&self.version.load())
            .runs
            .iter()
            .map(|run| run.meta())
            .collect()
    }

    /// Puts `edit` into effect, after the manifest that names its files is durable. Replaced tables
    /// are deleted when the last snapshot that holds them is dropped, and what this returns.
    pub fn install(&self, edit: TreeEdit) -> Superseded {
        assert!(
            edit.is_of(&self.claims),
            "an edit is installed in the tree that made it"
        );
        if seeded(Bug::MemtablesDroppedBeforeRun) {
            self.switch(|version| version.frozen = edit.apply(version).frozen);
        }
        let superseded = self.switch(|version| *version = edit.apply(version));
        // The claim goes with the edit, after the switch.
        edit.set_replaced_obsolete();
        Superseded(superseded)
    }

    /// Gives `edit` up and removes its files: no manifest names them, nor can one that was half
    /// written. (An edit that is merely dropped leaves its files, for the store to find as
    /// orphans.)
    pub fn abandon(&self, edit: TreeEdit) {
        edit.set_added_obsolete();
    }

    /// Empties the tree, after the manifest that names none of its files is durable. The files are
    /// deleted when the last snapshot that holds them is dropped, and what this returns. The caller
    /// sees to it that no flush and no compaction of the tree is out.
    pub fn discard(&self) -> Superseded {
        let before = self.switch(|version| {
            let next = Memtable::new(&self.context.budget, version.active.newest());
            version.active = Arc::new(next);
            version.frozen.clear();
            version.runs.clear();
        });
        self.active_bytes.store(0, Ordering::Relaxed);
        for run in &before.runs {
            run.set_obsolete();
        }
        Superseded(before)
    }

    /// Begins to load pairs past the memtables; up to `memtable_bytes` of memory are for sorting
    /// them.
    pub fn load(&self, memtable_bytes: u64) -> Load {
        Load::new(&self.spec, &self.context, &self.folder, memtable_bytes)
    }

    /// Writes what was loaded as a new run, newer than all that are there when it is installed:
    /// memtables that are to be older are flushed before. `None` if `stop`, which is called now
    /// and then, returns true.
    ///
    /// # Errors
    /// `Corrupt`, or those of the machine; `InvalidArgument` after a `put` that failed. No file is
    /// left behind.
    pub fn finish_load(&self, load: Load, stop: &dyn Fn() -> bool) -> Result<Option<TreeEdit>> {
        let Some(builder) = load.finish(stop)? else {
            return Ok(None);
        };
        let added = self.open_new(builder)?;
        let claim = self.claims.claim_nothing();
        Ok(Some(TreeEdit::load(claim, added)))
    }
}
