//! Version: the memtables and runs that were current at one moment.

use crate::memtable::Memtable;
use crate::run::Run;
use quire_model::Position;
use std::fmt;
use std::sync::Arc;

/// Newest first throughout: active, then frozen, then runs.
#[derive(Clone)]
pub(crate) struct Version {
    pub(crate) active: Arc<Memtable>,
    pub(crate) frozen: Vec<Arc<Memtable>>,
    pub(crate) runs: Vec<Arc<Run>>,
    /// The newest write that this opening of the tree has put into a run.
    pub(crate) flushed: Position,
}

impl Version {
    /// All memtables.
    pub(crate) fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.active).chain(&self.frozen)
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
