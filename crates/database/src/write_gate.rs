//! [`WriteGate`]: who writes to the partitions of a collection passes it, so that a split can
//! replace them while nobody does.

use crate::{ErrorKind, Result};
use arc_swap::ArcSwap;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The gate of some partitions, until others replace them.
#[derive(Debug, Default)]
pub(crate) struct WriteGate {
    /// Writers hold it shared.
    gate: RwLock<()>,
    /// Whether the partitions were replaced. Set while the gate is held alone.
    is_replaced: AtomicBool,
}

impl WriteGate {
    /// Begins to write: the partitions stay until the guard is dropped. `None` if they were
    /// replaced.
    pub(crate) fn begin_write(&self) -> Option<RwLockReadGuard<'_, ()>> {
        let gate = self.gate.read();
        (!self.is_replaced()).then_some(gate)
    }

    pub(crate) fn is_replaced(&self) -> bool {
        self.is_replaced.load(Ordering::Acquire)
    }

    /// Waits until nobody writes, and keeps writers from beginning. `None` after a while in which
    /// somebody wrote.
    pub(crate) fn hold_writers(&self, patience: Duration) -> Option<WritersHeld<'_>> {
        let held = self.gate.try_write_for(patience)?;
        Some(WritersHeld {
            gate: self,
            _held: held,
        })
    }
}

/// While this is held, nobody writes.
#[derive(Debug)]
pub(crate) struct WritersHeld<'a> {
    gate: &'a WriteGate,
    _held: RwLockWriteGuard<'a, ()>,
}

impl WritersHeld<'_> {
    /// Has writers, and readers that meet a closed partition, go to the partitions that have
    /// replaced these.
    pub(crate) fn replaced(self) {
        self.gate.is_replaced.store(true, Ordering::Release);
    }
}

/// Partitions that a split may replace.
pub(crate) trait Gated {
    /// What writers to them pass.
    fn gate(&self) -> &Arc<WriteGate>;
}

/// Reads from the partitions of now. If they are replaced meanwhile, and so closed, it reads again,
/// from the new ones.
pub(crate) fn read_current<L: Gated, T>(
    current: &ArcSwap<L>,
    read: impl Fn(&L) -> Result<T>,
) -> Result<T> {
    loop {
        let layout = current.load();
        match read(&layout) {
            Err(error) if error.kind() == ErrorKind::Closed && layout.gate().is_replaced() => {}
            result => return result,
        }
    }
}

/// Calls `write` while the partitions stay what they are.
pub(crate) fn write_current<L: Gated, T>(
    current: &ArcSwap<L>,
    write: impl FnOnce(&Arc<L>) -> T,
) -> T {
    loop {
        let layout = current.load_full();
        if let Some(_gate) = layout.gate().begin_write() {
            return write(&layout);
        }
    }
}
