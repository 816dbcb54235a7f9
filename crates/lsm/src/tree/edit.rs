//! Edits and claims: how flushes and compactions change a tree without getting in each other's way.

use super::version::Version;
use crate::memtable::Memtable;
use crate::run::Run;
use crate::table::Table;
use quire_env::{MergePermit, VolumeId};
use quire_sync::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What is being replaced: by at most one flush, and by compactions that share no run.
#[derive(Debug, Default)]
pub(super) struct Claims(Mutex<Claimed>);

#[derive(Debug, Default)]
struct Claimed {
    flush: bool,
    runs: BTreeSet<u64>,
}

/// Gives up what it claimed when dropped.
#[derive(Debug)]
pub(super) struct Claim {
    claims: Arc<Claims>,
    flush: bool,
    runs: Vec<u64>,
}

impl Claims {
    /// Claims the frozen memtables; `None` if they are.
    pub(super) fn claim_flush(self: &Arc<Self>) -> Option<Claim> {
        let mut claimed = self.0.lock();
        let free = !std::mem::replace(&mut claimed.flush, true);
        free.then(|| Claim {
            claims: Arc::clone(self),
            flush: true,
            runs: Vec::new(),
        })
    }

    /// Claims the runs that `pick` picks; its argument is the runs that are claimed.
    pub(super) fn claim_runs(
        self: &Arc<Self>,
        pick: impl FnOnce(&BTreeSet<u64>) -> Option<Picked>,
    ) -> Option<Compaction> {
        let mut claimed = self.0.lock();
        let picked = pick(&claimed.runs)?;
        let ids: Vec<_> = picked.all().map(|run| run.id).collect();
        for id in &ids {
            assert!(claimed.runs.insert(*id), "a run is claimed once");
        }
        let claim = Claim {
            claims: Arc::clone(self),
            flush: false,
            runs: ids,
        };
        Some(Compaction {
            claim,
            picked,
            at: None,
            permit: None,
        })
    }

    /// A claim of nothing.
    pub(super) fn claim_nothing(self: &Arc<Self>) -> Claim {
        Claim {
            claims: Arc::clone(self),
            flush: false,
            runs: Vec::new(),
        }
    }
}

impl Claim {
    /// Claims the runs that `pick` picks too; its argument is the runs that are claimed.
    pub(super) fn add_runs(
        &mut self,
        pick: impl FnOnce(&BTreeSet<u64>) -> Vec<Arc<Run>>,
    ) -> Vec<Arc<Run>> {
        let mut claimed = self.claims.0.lock();
        let runs = pick(&claimed.runs);
        for run in &runs {
            assert!(claimed.runs.insert(run.id), "a run is claimed once");
            self.runs.push(run.id);
        }
        runs
    }

    /// Claims no runs any more.
    pub(super) fn give_up_runs(&mut self) {
        let mut claimed = self.claims.0.lock();
        for run in self.runs.drain(..) {
            let was_claimed = claimed.runs.remove(&run);
            debug_assert!(was_claimed, "a claim is given up once");
        }
    }

    /// Whether it is among these claims.
    pub(super) fn is_of(&self, claims: &Arc<Claims>) -> bool {
        Arc::ptr_eq(&self.claims, claims)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.give_up_runs();
        self.claims.0.lock().flush &= !self.flush;
    }
}

/// Runs to be merged.
#[derive(Debug)]
pub(super) struct Picked {
    /// Neighbours, newest first.
    pub(super) runs: Vec<Arc<Run>>,
    /// The run below them, if it has what earlier steps of the same compaction have made of them.
    pub(super) merged: Option<Arc<Run>>,
    /// No run is below: tombstones go, operands become values.
    pub(super) bottom: bool,
}

impl Picked {
    /// The runs that are replaced.
    fn all(&self) -> impl Iterator<Item = &Arc<Run>> {
        self.runs.iter().chain(&self.merged)
    }
}

/// A step of a compaction: runs picked to be merged, from where the last step ended, claimed until
/// this is dropped.
#[derive(Debug)]
pub struct Compaction {
    pub(super) claim: Claim,
    pub(super) picked: Picked,
    /// Where its next table goes, if that is decided.
    pub(super) at: Option<VolumeId>,
    /// Held while a table is written to a volume with a compaction limiter.
    pub(super) permit: Option<MergePermit>,
}

impl Compaction {
    /// The volumes that it reads from.
    pub(super) fn inputs(&self) -> Vec<VolumeId> {
        let runs = self.picked.runs.iter();
        let tables = runs.flat_map(|run| &run.tables);
        let mut inputs: Vec<_> = tables.map(|table| table.meta().file.volume).collect();
        inputs.sort_unstable();
        inputs.dedup();
        inputs
    }

    /// Bytes of the tables that are to be merged: what this step and those after it read, and at
    /// most write.
    pub fn bytes(&self) -> u64 {
        self.picked.runs.iter().map(|run| run.bytes).sum()
    }
}

/// A change of a tree's runs, made and not yet installed.
#[derive(Debug)]
#[must_use = "an edit takes effect by Tree::install"]
pub struct TreeEdit {
    claim: Claim,
    /// Frozen memtables that go: all that there were.
    flushed: Vec<Arc<Memtable>>,
    /// Neighbouring runs that go.
    replaced: Vec<Arc<Run>>,
    /// What takes their place, or is newer than all runs if there are none; those that are cut
    /// first.
    added: Vec<Arc<Run>>,
}

impl TreeEdit {
    /// `added` is newer than all runs.
    pub(super) fn load(claim: Claim, added: Run) -> TreeEdit {
        TreeEdit::flush(claim, Vec::new(), Vec::new(), added)
    }

    /// `added` has what memtables and the newest runs had; it is of no tables if nothing was left.
    pub(super) fn flush(
        claim: Claim,
        flushed: Vec<Arc<Memtable>>,
        replaced: Vec<Arc<Run>>,
        added: Run,
    ) -> TreeEdit {
        let added = Some(added).filter(|run| !run.tables.is_empty());
        TreeEdit {
            claim,
            flushed,
            replaced,
            added: added.into_iter().map(Arc::new).collect(),
        }
    }

    /// `merged` has what the compaction has made so far, `rest` what is left of its runs.
    pub(super) fn compaction(compaction: Compaction, rest: Vec<Run>, merged: Run) -> TreeEdit {
        let Compaction { claim, picked, .. } = compaction;
        let rest: Vec<_> = rest
            .into_iter()
            .filter(|run| !run.tables.is_empty())
            .collect();
        // As long as there is a rest, the run below it is the one that has the other part, be it
        // nothing.
        let merged = Some(merged).filter(|run| !rest.is_empty() || !run.tables.is_empty());
        let added: Vec<_> = rest.into_iter().chain(merged).map(Arc::new).collect();
        assert!(
            added
                .windows(2)
                .all(|pair| matches!(pair, [run, below] if run.goes_on(below))),
            "what is left of the runs begins where the merged run ends"
        );
        TreeEdit {
            claim,
            flushed: Vec::new(),
            replaced: picked.all().cloned().collect(),
            added,
        }
    }

    /// Whether it was made under these claims.
    pub(super) fn is_of(&self, claims: &Arc<Claims>) -> bool {
        self.claim.is_of(claims)
    }

    /// Whether it is a step of a compaction that is not finished with it.
    pub fn is_unfinished(&self) -> bool {
        self.added.iter().any(|run| run.is_cut())
    }

    /// `version` with the edit made. What it replaces is there: it was claimed.
    pub(super) fn apply(&self, version: &Version) -> Version {
        let mut edited = version.clone();
        let is_flushed = |frozen: &Arc<Memtable>| {
            let mut flushed = self.flushed.iter();
            flushed.any(|memtable| Arc::ptr_eq(memtable, frozen))
        };
        edited.frozen.retain(|frozen| !is_flushed(frozen));
        assert_eq!(
            version.frozen.len() - edited.frozen.len(),
            self.flushed.len(),
            "memtables that were flushed are frozen until the edit is installed"
        );
        let newest = self.flushed.iter().map(|memtable| memtable.newest()).max();
        edited.flushed = version.flushed.max(newest.unwrap_or_default());
        let is_replaced = |run: &Arc<Run>| self.replaced.iter().any(|old| old.id == run.id);
        let at = edited.runs.iter().position(is_replaced).unwrap_or(0);
        let replaced = edited
            .runs
            .iter()
            .skip(at)
            .take_while(|run| is_replaced(run));
        assert_eq!(
            replaced.count(),
            self.replaced.len(),
            "runs that are replaced are neighbours until the edit is installed"
        );
        edited.runs.retain(|run| !is_replaced(run));
        assert!(
            !self
                .added
                .iter()
                .any(|added| edited.runs.iter().any(|run| run.id == added.id)),
            "no two runs of a tree have one number"
        );
        edited.runs.splice(at..at, self.added.iter().cloned());
        edited
    }

    /// The files of replaced runs go with their last holder.
    pub(super) fn set_replaced_obsolete(&self) {
        set_obsolete(&self.replaced, &self.added);
    }

    /// The new files go with their last holder.
    pub(super) fn set_added_obsolete(&self) {
        set_obsolete(&self.added, &self.replaced);
    }
}

/// Says that the files of `runs` that are in none of `others` go with their last holder.
fn set_obsolete(runs: &[Arc<Run>], others: &[Arc<Run>]) {
    let files = |table: &Arc<Table>| table.meta().file;
    let tables = others.iter().flat_map(|run| &run.tables);
    let kept: BTreeSet<_> = tables.map(files).collect();
    let tables = runs.iter().flat_map(|run| &run.tables);
    for table in tables.filter(|table| !kept.contains(&files(table))) {
        table.set_obsolete();
    }
}
