//! Version: the memtables and runs that were current at one moment.

use crate::compaction::{CompactionPolicy, runs_of_flush};
use crate::entry::{Entry, Visit};
use crate::fold::{Folder, Found};
use crate::memtable::Memtable;
use crate::run::Run;
use crate::{Error, Result};
use quire_env::Volume;
use quire_model::Position;
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// A look-up in up to this many runs allocates nothing.
const RUNS: usize = 8;

/// Newest first throughout: active, then frozen, then runs.
#[derive(Clone)]
pub(crate) struct Version {
    /// The tree's, for all versions: a snapshot holds one thing, not two.
    pub(crate) folder: Arc<Folder>,
    pub(crate) active: Arc<Memtable>,
    pub(crate) frozen: Vec<Arc<Memtable>>,
    pub(crate) runs: Vec<Arc<Run>>,
    /// The newest write that this opening of the tree has put into a run.
    pub(crate) flushed: Position,
    /// Whether a frozen memtable or a run deletes ranges, or the tree is lost.
    pub(crate) deletes_ranges: bool,
    /// The volume, if one is lost that a table of the tree lies on: nothing can be read then.
    pub(crate) lost: Option<Arc<Volume>>,
}

/// What was current before an edit was installed.
#[derive(Debug)]
pub struct Superseded(pub(super) Arc<Version>);

impl Superseded {
    /// Drops it, or gives it back if somebody else holds it. The last holder frees memtables and
    /// disk space, which takes tens of milliseconds.
    pub fn try_drop(self) -> Option<Superseded> {
        Arc::try_unwrap(self.0).err().map(Superseded)
    }
}

impl Version {
    /// All memtables.
    pub(crate) fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.active).chain(&self.frozen)
    }

    /// Finds out whether [`deletes_ranges`](Self::deletes_ranges): called whenever there are other
    /// runs or frozen memtables.
    pub(crate) fn note_deletes_ranges(&mut self) {
        self.deletes_ranges = self.lost.is_some()
            || self.frozen.iter().any(|memtable| memtable.deletes_ranges())
            || self
                .runs
                .iter()
                .any(|run| !run.range_tombstones().is_empty());
    }

    /// Fails if the tree is lost.
    pub(crate) fn check_there(&self) -> Result<()> {
        match &self.lost {
            Some(volume) => Err(volume.missing().into()),
            None => Ok(()),
        }
    }

    /// The newest runs, up to the first that is claimed or being merged.
    pub(crate) fn newest_free(&self, claimed: &BTreeSet<u64>) -> &[Arc<Run>] {
        let is_taken = |run: &Arc<Run>| run.is_cut() || claimed.contains(&run.id);
        let count = self.runs.iter().position(is_taken);
        self.runs
            .get(..count.unwrap_or(self.runs.len()))
            .unwrap_or_default()
    }

    /// The most runs that may have a key: it is in those that are being merged, or in what was made
    /// of them.
    pub(crate) fn runs_of_a_key(&self) -> usize {
        let ends =
            |pair: &&[Arc<Run>]| matches!(pair, [run, below] if run.is_cut() && !below.is_cut());
        self.runs.len() - self.runs.windows(2).filter(ends).count()
    }

    /// The newest runs that a flush of these memtables is merged with, none of which is claimed.
    pub(crate) fn runs_of_flush(
        &self,
        policy: &dyn CompactionPolicy,
        memtables: &[Arc<Memtable>],
        claimed: &BTreeSet<u64>,
    ) -> &[Arc<Run>] {
        let free = self.newest_free(claimed).iter();
        let sizes: Vec<_> = free.map(|run| run.bytes).collect();
        // About as long an entry as in the newest run.
        let Some(newest) = self.runs.first() else {
            return &[];
        };
        let keys: u64 = memtables
            .iter()
            .map(|memtable| u64::from(memtable.keys()))
            .sum();
        let bytes =
            u128::from(newest.bytes) * u128::from(keys) / u128::from(newest.entries().max(1));
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let count = runs_of_flush(policy, bytes, &sizes);
        self.runs.get(..count).unwrap_or_default()
    }

    /// Finds the entries of `key`, whose hash is `hash`, at `at`, up to the newest that is not an
    /// operand. A value that is the only entry may be shown to the visitor instead.
    #[inline]
    pub(crate) fn find(
        &self,
        key: &[u8],
        hash: u64,
        at: Position,
        visit: &mut Visit<'_>,
    ) -> Result<Found> {
        if self.deletes_ranges || self.active.deletes_ranges() {
            return self.find_or_deleted(key, hash, at);
        }
        let mut found = Found::default();
        if !self.find_in_memtables(key, hash, at, &mut found) {
            let mut look_ups = SmallVec::<[_; RUNS]>::new();
            for run in &self.runs {
                if let Some(look_up) = run.look_up(key, hash) {
                    look_up.prefetch();
                    look_ups.push(look_up);
                }
            }
            let mut no_visit = Visit::default();
            for look_up in &look_ups {
                // What lies below an operand is folded with it, so it is copied.
                let visit = match found.is_empty() {
                    true => &mut *visit,
                    false => &mut no_visit,
                };
                if let Some(entry) = look_up.get(key, hash, visit)?
                    && found.push(entry)
                {
                    break;
                }
            }
        }
        Ok(found)
    }

    /// Has the system begin to read what [`find`](Self::find) will for all of `keys`, which come
    /// with their hashes: a disk does many reads in the time of a few. Not if it seems to hold all.
    pub(crate) fn announce<'k>(&self, keys: impl IntoIterator<Item = (&'k [u8], u64)>) {
        let mut tables = self.runs.iter().filter_map(|run| run.tables.first());
        if !tables.next().is_some_and(|table| table.may_wait()) {
            return;
        }
        for (key, hash) in keys {
            // The first place where it may be is most often the one where it is.
            let may_be_there = |run: &Arc<Run>| {
                let look_up = run.look_up(key, hash);
                look_up.is_some_and(|look_up| look_up.announce(key, hash))
            };
            self.runs.iter().any(may_be_there);
        }
    }

    /// As [`find`](Self::find), where ranges are deleted: a place that deletes the key ends the
    /// search as a tombstone does.
    #[cold]
    fn find_or_deleted(&self, key: &[u8], hash: u64, at: Position) -> Result<Found> {
        self.check_there()?;
        let mut found = Found::default();
        for memtable in self.memtables() {
            if memtable.find_or_deleted(key, hash, at, &mut found) {
                return Ok(found);
            }
        }
        let of_runs = self.runs.iter().map(|run| {
            let entry = match run.look_up(key, hash) {
                Some(look_up) => look_up.get(key, hash, &mut Visit::default())?,
                None => None,
            };
            Ok::<_, Error>((entry, run.range_tombstones().mark(key).is_some()))
        });
        for place in of_runs {
            let (entry, deleted) = place?;
            if let Some(entry) = entry.or_else(|| deleted.then(Entry::delete))
                && found.push(entry)
            {
                break;
            }
        }
        Ok(found)
    }

    /// Adds the entries of the memtables; true if nothing older matters.
    #[inline]
    fn find_in_memtables(&self, key: &[u8], hash: u64, at: Position, found: &mut Found) -> bool {
        for memtable in self.memtables() {
            if memtable.find(key, hash, at, found) {
                return true;
            }
        }
        false
    }
}

/// In numbers: written out, it would be as long as what it holds.
impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Version")
            .field("active_bytes", &self.active.bytes())
            .field("frozen", &self.frozen.len())
            .field(
                "runs",
                &self
                    .runs
                    .iter()
                    .map(|run| (run.id, run.bytes))
                    .collect::<Vec<_>>(),
            )
            .field("flushed", &self.flushed)
            .finish()
    }
}
