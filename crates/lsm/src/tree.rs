//! Tree: memtables and runs behind one atomically switched version.
//!
//! A [`Version`] is what a reader needs: the active memtable, the frozen ones, the runs. Readers
//! take the current one without a lock. The writer writes into its active memtable; freezing,
//! installing a flush and installing a compaction each put a new version in its place, one at a
//! time.
//!
//! An edit is a delta: "these memtables became this run", "these runs became that one". While an
//! edit is out, what it replaces is claimed: no other flush or compaction takes it, so edits may be
//! made side by side and installed in any order.
//!
//! A compaction goes in steps, each an edit of its own: the next of the tables that the runs merge
//! to is written, and with the edit the runs begin at the key after it, so that their tables that
//! end before go. What is not finished needs no memory but the version, so it is gone on with after
//! an error, or the next opening, as if nothing had been; and a large merge takes room for a few
//! tables, not for as much again as it merges.
//!
//! # Invariants
//! 1. Runs that begin at a key lie together, begin at the same one, and the run below them has what
//!    they had before it, and nothing after it. These are what a compaction that is not finished
//!    merges, and what it has made of it.

mod build;
mod edit;
mod load;
mod scan;
mod snapshot;
mod version;

pub use edit::{Compaction, TreeEdit};
pub use load::Load;
pub use scan::{FoldedValue, Scan};
pub use snapshot::{TreeReader, TreeSnapshot};
pub use version::Superseded;

use crate::compaction::{CompactionPolicy, Geometric};
use crate::deadline::{self, Clock, wall_clock_micros};
use crate::direction::Direction;
use crate::fold::Folder;
use crate::memtable::Memtable;
use crate::merge::Merge;
use crate::run::Run;
use crate::source::Source;
use crate::table::{Counters, Origin, TableCopy};
use crate::{Error, KEY_BYTES_MAX, Op, Result, RunMeta, TreeContext, TreeSpec};
use build::{Added, RunBuilder};
use edit::{Claims, Picked};
use quire_model::Position;
use quire_seeded::{Bug, seeded};
use quire_sync::atomic::{AtomicU64, Ordering};
use quire_sync::{ArcSwap, Mutex};
use std::ops::Range;
use std::sync::Arc;
use version::Version;

/// So many of the newest runs wait for a compaction of older ones: merged before it ends, they
/// would be written once more.
const RUNS_WAITING: usize = 8;

/// What a tree is and holds, in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TreeStats {
    /// Sorted runs: the most places on disk that a read may have to look in.
    pub runs: u64,
    /// Table files.
    pub tables: u64,
    /// Entries in table files, tombstones and operands included; a key counts once per run that
    /// names it.
    pub entries: u64,
    /// Tombstones in table files.
    pub tombstones: u64,
    /// Deleted ranges in table files: older runs may have keys in them.
    pub range_tombstones: u64,
    /// Values with a deadline in table files, also those past it that no compaction has come by
    /// yet.
    pub timed: u64,
    /// Bytes of table files.
    pub table_bytes: u64,
    /// Bytes of memory of the active memtable.
    pub memtable_bytes: u64,
    /// Bytes of memory of frozen memtables.
    pub frozen_bytes: u64,
    /// Questions to filters, of pages in memory, since the tree was opened.
    pub filter_checks: u64,
    /// Answers "no" among them.
    pub filter_negatives: u64,
    /// Blocks read from files for reads, since the tree was opened.
    pub block_reads: u64,
}

/// An ordered tree of one partition. Written by one writer at a time; read by any number, through
/// snapshots.
#[derive(Debug)]
pub struct Tree {
    spec: TreeSpec,
    context: TreeContext,
    folder: Arc<Folder>,
    counters: Arc<Counters>,
    version: ArcSwap<Version>,
    /// Bytes of memory of the active memtable, as of the last write.
    active_bytes: AtomicU64,
    /// Held while the version is replaced.
    switch: Mutex<()>,
    claims: Arc<Claims>,
    next_run: AtomicU64,
}

impl Tree {
    /// Opens the tree that the manifest's runs, newest first, make up. Of each table, footer,
    /// properties and top index are read.
    ///
    /// # Errors
    /// `InvalidArgument` for a spec that makes no sense, `Corrupt` or `UnsupportedVersion` for a
    /// table that is not the one its meta describes, or those of the machine.
    pub fn open(spec: TreeSpec, context: TreeContext, runs: Vec<RunMeta>) -> Result<Tree> {
        spec.check()?;
        let counters = Arc::new(Counters::default());
        let next_run = runs
            .iter()
            .map(|run| run.id)
            .max()
            .map_or(1, |id| id.saturating_add(1));
        let open = |run| Run::open(&spec, &context, &counters, run, Origin::Manifest).map(Arc::new);
        let runs: Vec<_> = runs.into_iter().map(open).collect::<Result<_>>()?;
        check_cuts(&spec, &runs)?;
        let active = Arc::new(Memtable::new(&context.budget, Position(0)));
        let mut version = Version {
            active,
            frozen: Vec::new(),
            runs,
            flushed: Position(0),
            erasing: false,
        };
        version.note_erasing();
        Ok(Tree {
            folder: Arc::new(Folder {
                tree: spec.name.clone(),
                merger: spec.merger.clone(),
            }),
            spec,
            context,
            counters,
            version: ArcSwap::from_pointee(version),
            active_bytes: AtomicU64::new(0),
            switch: Mutex::new(()),
            claims: Arc::default(),
            next_run: AtomicU64::new(next_run),
        })
    }

    /// What it was opened with.
    pub fn spec(&self) -> &TreeSpec {
        &self.spec
    }

    /// Writes `op` to `key`: seen by snapshots at `position` and later. One writer at a time;
    /// positions never go back. On an error nothing is written.
    ///
    /// # Errors
    /// `InvalidArgument` for an empty key, a position before the last one, or a merge in a tree
    /// without merger; `TooLarge` for a key, value or operand over the limits, or a fold that makes
    /// one; `Merge`.
    pub fn write(&self, key: &[u8], position: Position, op: Op<'_>) -> Result<()> {
        check_write(&self.folder, key, op)?;
        let version = self.version.load();
        version.active.write(&self.folder, key, position, op)?;
        self.active_bytes
            .store(version.active.bytes(), Ordering::Relaxed);
        Ok(())
    }

    /// Bytes of memory of the active memtable.
    pub fn memtable_bytes(&self) -> u64 {
        self.active_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of memory of frozen memtables: what a flush would free.
    pub fn frozen_bytes(&self) -> u64 {
        self.version
            .load()
            .frozen
            .iter()
            .map(|memtable| memtable.bytes())
            .sum()
    }

    /// Freezes the active memtable and puts an empty one in its place; nothing if it is empty.
    /// Called by the writer, between writes.
    pub fn freeze(&self) {
        drop(self.switch(|version| {
            if version.active.is_empty() {
                return;
            }
            let next = Memtable::new(&self.context.budget, version.active.newest());
            version
                .frozen
                .insert(0, std::mem::replace(&mut version.active, Arc::new(next)));
        }));
        self.active_bytes.store(0, Ordering::Relaxed);
    }

    /// Everything up to `at`, from now on. Takes no lock; holds memtables and files until dropped.
    ///
    /// Runs keep no positions: if a flush has already put later writes into one, the snapshot shows
    /// those too. A caller that reads its position and then takes a snapshot checks that
    /// [`TreeSnapshot::flushed`] is not past `at`, or tries again with a later position.
    pub fn snapshot(&self, at: Position) -> TreeSnapshot {
        let now = wall_clock_micros(&*self.context.env);
        TreeSnapshot::new(self.version.load_full(), Arc::clone(&self.folder), at, now)
    }

    /// As [`snapshot`](Self::snapshot), for lookups that are over soon.
    pub fn reader(&self, at: Position) -> TreeReader<'_> {
        let clock = Clock::Running(&*self.context.env);
        TreeReader::new(self.version.load(), &self.folder, at, clock)
    }

    /// What the runs hold, without memtables: all up to the last flush. Holds files until dropped,
    /// and no memory of writes.
    pub fn snapshot_of_runs(&self) -> TreeSnapshot {
        let version = self.version.load();
        let version = Version {
            active: Arc::new(Memtable::new(&self.context.budget, version.flushed)),
            frozen: Vec::new(),
            runs: version.runs.clone(),
            flushed: version.flushed,
            erasing: version.erasing,
        };
        TreeSnapshot::new(
            Arc::new(version),
            Arc::clone(&self.folder),
            Position(u64::MAX),
            wall_clock_micros(&*self.context.env),
        )
    }

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
        sources.extend(sequential(runs)?);
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
    /// each is being gone on with.
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
    /// merged already; it is also told how many there are in all.
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
    /// are deleted. `stop` is asked now and then; when it says true the step ends with `None` and
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
        let mut sources = sequential(runs)?;
        if seeded(Bug::RunsMergedOldestFirst) {
            sources.reverse();
        }
        let mut merge = self.merge(sources, bottom);
        let mut builder = RunBuilder::new(&self.context.files);
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

    /// The tree's runs, newest first, as they are.
    pub fn runs(&self) -> Vec<RunMeta> {
        self.version
            .load()
            .runs
            .iter()
            .map(|run| run.meta())
            .collect()
    }

    /// The table files of its runs, to be copied: they stay as long as these are held.
    pub fn copies(&self) -> Vec<TableCopy> {
        self.version
            .load()
            .runs
            .iter()
            .flat_map(|run| &run.tables)
            .map(|table| TableCopy::new(Arc::clone(table)))
            .collect()
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

    /// Changes a copy of the current version and puts it in its place. Gives the one before.
    fn switch(&self, change: impl FnOnce(&mut Version)) -> Arc<Version> {
        let _held = self.switch.lock();
        let mut version = Version::clone(&self.version.load());
        change(&mut version);
        version.note_erasing();
        self.version.swap(Arc::new(version))
    }

    /// What the tree is and holds, in numbers.
    pub fn stats(&self) -> TreeStats {
        let version = self.version.load();
        let mut stats = TreeStats {
            runs: version.runs_of_a_key() as u64,
            memtable_bytes: version.active.bytes(),
            frozen_bytes: version.frozen.iter().map(|memtable| memtable.bytes()).sum(),
            filter_checks: self.counters.filter_checks.sum(),
            filter_negatives: self.counters.filter_negatives.sum(),
            block_reads: self.counters.block_reads.sum(),
            ..TreeStats::default()
        };
        for table in version.runs.iter().flat_map(|run| &run.tables) {
            stats.tables += 1;
            stats.entries += table.meta().entries;
            stats.tombstones += table.meta().tombstones;
            stats.range_tombstones += table.range_tombstone_count();
            stats.timed += table.timed();
            stats.table_bytes += table.meta().bytes;
        }
        stats
    }
}

/// Refuses runs that begin at a key with nothing below that has what they had before it.
fn check_cuts(spec: &TreeSpec, runs: &[Arc<Run>]) -> Result<()> {
    for (at, run) in runs.iter().enumerate().filter(|(_, run)| run.is_cut()) {
        if !runs.get(at + 1).is_some_and(|below| run.goes_on(below)) {
            let what = format!(
                "tree {}: run {} is merged in part, and the run below is not the other part",
                spec.name, run.id
            );
            return Err(Error::InvalidArgument(what));
        }
    }
    Ok(())
}

/// The runs as sources of a merge, each read once.
fn sequential(runs: &[Arc<Run>]) -> Result<Vec<Source>> {
    runs.iter().map(Source::of_run).collect()
}

/// Refuses a write of what can't be stored.
fn check_write(folder: &Folder, key: &[u8], op: Op<'_>) -> Result<()> {
    if key.is_empty() {
        return Err(Error::InvalidArgument(format!(
            "tree {}: an empty key",
            folder.tree
        )));
    }
    check_key_length(folder, key)?;
    match op {
        Op::Put(value) | Op::Merge(value) => folder.check_value(value.len()),
        Op::Delete => Ok(()),
        Op::DeleteRange(to) => check_key_length(folder, to),
        Op::PutUntil(timed) => {
            deadline::check(&folder.tree, timed)?;
            folder.check_value(timed.len())
        }
    }
}

fn check_key_length(folder: &Folder, key: &[u8]) -> Result<()> {
    if key.len() > KEY_BYTES_MAX {
        let (limit, found) = (KEY_BYTES_MAX as u64, key.len() as u64);
        return Err(Error::TooLarge {
            tree: folder.tree.clone(),
            what: "key",
            limit,
            found,
        });
    }
    Ok(())
}

#[cfg(test)]
#[cfg(feature = "shuttle")]
mod checked;
#[cfg(test)]
mod tests;
