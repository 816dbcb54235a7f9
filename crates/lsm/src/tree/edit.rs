//! Edits and claims: how flushes and compactions change a tree without getting in each other's way.

use super::version::Version;
use crate::memtable::Memtable;
use crate::run::Run;
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

    /// Claims the runs that `pick` picks, told which are claimed.
    pub(super) fn claim_runs(
        self: &Arc<Self>,
        pick: impl FnOnce(&BTreeSet<u64>) -> Option<(Vec<Arc<Run>>, bool)>,
    ) -> Option<Compaction> {
        let mut claimed = self.0.lock();
        let (runs, bottom) = pick(&claimed.runs)?;
        let ids: Vec<_> = runs.iter().map(|run| run.id).collect();
        claimed.runs.extend(&ids);
        let claim = Claim {
            claims: Arc::clone(self),
            flush: false,
            runs: ids,
        };
        Some(Compaction {
            claim,
            runs,
            bottom,
        })
    }

    /// A claim that keeps nobody from anything.
    pub(super) fn claim_nothing(self: &Arc<Self>) -> Claim {
        Claim {
            claims: Arc::clone(self),
            flush: false,
            runs: Vec::new(),
        }
    }
}

impl Claim {
    /// Claims the runs that `pick` picks too, told which are claimed.
    pub(super) fn add_runs(
        &mut self,
        pick: impl FnOnce(&BTreeSet<u64>) -> Vec<Arc<Run>>,
    ) -> Vec<Arc<Run>> {
        let mut claimed = self.claims.0.lock();
        let runs = pick(&claimed.runs);
        self.runs.extend(runs.iter().map(|run| run.id));
        claimed.runs.extend(&self.runs);
        runs
    }

    /// Claims no runs any more.
    pub(super) fn give_up_runs(&mut self) {
        let mut claimed = self.claims.0.lock();
        for run in self.runs.drain(..) {
            claimed.runs.remove(&run);
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

/// Runs picked to be merged, claimed until this is dropped.
#[derive(Debug)]
pub struct Compaction {
    pub(super) claim: Claim,
    /// Neighbours, newest first.
    pub(super) runs: Vec<Arc<Run>>,
    /// The oldest run is among them: tombstones go, operands become values.
    pub(super) bottom: bool,
}

impl Compaction {
    /// Bytes that it reads, and at most writes.
    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.bytes).sum()
    }
}

/// What an edit replaces.
#[derive(Debug)]
pub(super) enum Change {
    /// Frozen memtables, all that there were, and the newest runs that they were merged with.
    Flush(Vec<Arc<Memtable>>, Vec<Arc<Run>>),
    /// Neighbouring runs.
    Compaction(Vec<Arc<Run>>),
    /// Nothing: what was loaded is newer than all runs.
    Load,
}

/// A change of a tree's runs, made and not yet installed.
#[derive(Debug)]
#[must_use = "an edit takes effect by Tree::install"]
pub struct TreeEdit {
    change: Change,
    added: Arc<Run>,
    claim: Claim,
}

impl TreeEdit {
    /// `added` replaces what `change` names; it is of no tables if nothing was left.
    pub(super) fn new(claim: Claim, change: Change, added: Arc<Run>) -> TreeEdit {
        TreeEdit {
            change,
            added,
            claim,
        }
    }

    /// Whether it was made under these claims.
    pub(super) fn is_of(&self, claims: &Arc<Claims>) -> bool {
        self.claim.is_of(claims)
    }

    /// Bytes of the new files.
    pub fn bytes(&self) -> u64 {
        self.added.bytes
    }

    /// `version` with the edit made. What it replaces is there: it was claimed.
    pub(super) fn apply(&self, version: &Version) -> Version {
        let mut edited = version.clone();
        if let Change::Flush(memtables, _) = &self.change {
            let flushed = |frozen: &Arc<Memtable>| {
                let mut memtables = memtables.iter();
                memtables.any(|memtable| Arc::ptr_eq(memtable, frozen))
            };
            edited.frozen.retain(|frozen| !flushed(frozen));
            let newest = memtables.iter().map(|memtable| memtable.newest()).max();
            edited.flushed = version.flushed.max(newest.unwrap_or_default());
        }
        let replaced = |run: &Arc<Run>| self.replaced().iter().any(|old| old.id == run.id);
        let at = edited.runs.iter().position(replaced).unwrap_or(0);
        edited.runs.retain(|run| !replaced(run));
        if !self.added.tables.is_empty() {
            edited.runs.insert(at, Arc::clone(&self.added));
        }
        edited
    }

    /// The files of replaced runs go with their last holder.
    pub(super) fn set_replaced_obsolete(&self) {
        self.replaced().iter().for_each(|run| run.set_obsolete());
    }

    fn replaced(&self) -> &[Arc<Run>] {
        match &self.change {
            Change::Flush(_, runs) | Change::Compaction(runs) => runs,
            Change::Load => &[],
        }
    }

    /// The new files go with their last holder.
    pub(super) fn set_added_obsolete(&self) {
        self.added.set_obsolete();
    }
}
