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
//! A compaction goes in steps, each an edit of its own. A step writes the next table of the merged
//! run. With its edit, the runs that are merged begin at the key after that table, and their tables
//! that end before it are removed. An unfinished compaction has no state but the version: it is
//! continued after an error or by the next opening. A large merge takes disk space for a few
//! tables, and not for as much again as it merges.
//!
//! # Invariants
//! 1. Runs that begin at a key are neighbours and begin at the same key. They are what an
//!    unfinished compaction merges. The run below them is what it has made so far: what they had
//!    before that key, and nothing after it.

mod build;
mod check;
mod edit;
mod load;
mod maintain;
mod scan;
mod snapshot;
mod version;

pub use edit::{Compaction, TreeEdit};
pub use load::Load;
pub use scan::{FoldedValue, Scan};
pub use snapshot::{TreeReader, TreeSnapshot};
pub use version::Superseded;

use crate::deadline::{Clock, wall_clock_micros};
use crate::fold::Folder;
use crate::memtable::{Memtable, PREFETCHED_AT_ONCE};
use crate::run::Run;
use crate::table::{Counters, Origin, TableCopy};
use crate::{Op, Result, RunMeta, TreeContext, TreeSpec};
use check::{check_cuts, check_write};
use edit::Claims;
use quire_env::{Medium, Volume};
use quire_model::Position;
use quire_seeded::{Bug, seeded};
use quire_sync::atomic::{AtomicU64, Ordering};
use quire_sync::{ArcSwap, Mutex};
use smallvec::SmallVec;
use std::sync::Arc;
use version::Version;

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
    /// properties and top index are read. If one lies on a volume that is not there, the tree is
    /// [lost](Tree::lost).
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
        let tables = runs.iter().flat_map(|run| &run.tables);
        let lost = context.files.lost(tables).cloned().map(Arc::new);
        // Without one of its tables a tree would give wrong answers.
        let runs = if lost.is_some() { Vec::new() } else { runs };
        let lost = lost.filter(|_| !seeded(Bug::LostTablesForgotten));
        let open = |run| Run::open(&spec, &context, &counters, run, Origin::Manifest).map(Arc::new);
        let runs: Vec<_> = runs.into_iter().map(open).collect::<Result<_>>()?;
        check_cuts(&spec, &runs)?;
        let active = Arc::new(Memtable::new(&context.budget, Position(0)));
        let folder = Arc::new(Folder {
            tree: spec.name.clone(),
            merger: spec.merger.clone(),
        });
        let mut version = Version {
            folder: Arc::clone(&folder),
            active,
            frozen: Vec::new(),
            runs,
            flushed: Position(0),
            deletes_ranges: false,
            lost,
        };
        version.note_deletes_ranges();
        Ok(Tree {
            folder,
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

    /// The volume, if one is lost that a table of the tree lies on: then its reads fail, and it
    /// must not be flushed.
    pub fn lost(&self) -> Option<Arc<Volume>> {
        self.version.load().lost.clone()
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

    /// As [`write`](Self::write), of many in their order: the memory that they look at is fetched
    /// for several at once. On an error those before may be written.
    ///
    /// # Errors
    /// As of [`write`](Self::write).
    pub fn write_all<'w>(
        &self,
        position: Position,
        mut writes: impl Iterator<Item = (&'w [u8], Op<'w>)>,
    ) -> Result<()> {
        let version = self.version.load();
        loop {
            let some: SmallVec<[_; PREFETCHED_AT_ONCE]> =
                writes.by_ref().take(PREFETCHED_AT_ONCE).collect();
            if some.is_empty() {
                return Ok(());
            }
            for (key, op) in &some {
                check_write(&self.folder, key, *op)?;
            }
            let written = version.active.write_all(&self.folder, position, &some);
            self.active_bytes
                .store(version.active.bytes(), Ordering::Relaxed);
            written?;
        }
    }

    /// Bytes of memory of the active memtable.
    pub fn memtable_bytes(&self) -> u64 {
        self.active_bytes.load(Ordering::Relaxed)
    }

    /// The medium that new tables go to.
    pub fn medium(&self) -> Medium {
        self.context.files.medium_of(self.spec.tier.get())
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
            let newest = version.active.newest();
            assert!(
                version
                    .frozen
                    .iter()
                    .all(|frozen| frozen.newest() <= newest),
                "the active memtable is the newest"
            );
            let next = Memtable::new(&self.context.budget, newest);
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
        self.snapshot_by(at, wall_clock_micros(&*self.context.env))
    }

    /// As [`snapshot`](Self::snapshot), of a clock that was read once for several trees:
    /// microseconds since 1970 UTC.
    pub fn snapshot_by(&self, at: Position, now: u64) -> TreeSnapshot {
        TreeSnapshot::new(self.version.load_full(), at, now)
    }

    /// As [`snapshot`](Self::snapshot), for lookups that are over soon.
    pub fn reader(&self, at: Position) -> TreeReader<'_> {
        let clock = Clock::Running(&*self.context.env);
        TreeReader::new(self.version.load(), &self.folder, at, clock)
    }

    /// What the runs hold, without memtables: all up to the last flush. Holds files until dropped,
    /// and no memory of writes. `now` is as of [`snapshot_by`](Self::snapshot_by).
    pub fn snapshot_of_runs(&self, now: u64) -> TreeSnapshot {
        let version = self.version.load();
        let version = Version {
            folder: Arc::clone(&self.folder),
            active: Arc::new(Memtable::new(&self.context.budget, version.flushed)),
            frozen: Vec::new(),
            runs: version.runs.clone(),
            flushed: version.flushed,
            deletes_ranges: version.deletes_ranges,
            lost: version.lost.clone(),
        };
        TreeSnapshot::new(Arc::new(version), Position(u64::MAX), now)
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

    /// Changes a copy of the current version and puts it in its place. Gives the one before.
    fn switch(&self, change: impl FnOnce(&mut Version)) -> Arc<Version> {
        let _held = self.switch.lock();
        let mut version = Version::clone(&self.version.load());
        let flushed = version.flushed;
        change(&mut version);
        assert!(flushed <= version.flushed, "a flush is never undone");
        assert!(
            check_cuts(&self.spec, &version.runs).is_ok(),
            "a run that is merged in part lies above the other part"
        );
        version.note_deletes_ranges();
        let before = self.version.swap(Arc::new(version));
        let now = self.version.load();
        let is_kept = |old: &&Arc<Memtable>| now.memtables().any(|new| Arc::ptr_eq(new, old));
        for memtable in before.memtables().filter(|old| !is_kept(old)) {
            memtable.note_flushed();
        }
        before
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

#[cfg(test)]
#[cfg(feature = "shuttle")]
mod checked;
#[cfg(test)]
mod tests;
