//! When cells that have expired are removed: a background job for each partition of a wide
//! collection that has had cells that expire.
//!
//! What is removed is decided by the partition (`expiry.rs` of `quire-wide`).
//!
//! # Invariants
//! 1. A job keeps nothing alive between its steps, and a step is short: other background work comes
//!    between.
//! 2. A partition has one job at most.
//! 3. An error ends a pass, stands in the figures until a step succeeds, and the next pass tries
//!    again.

use crate::write_gate::WriteGate;
use crate::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use quire_env::JobClass;
use quire_store::Durability;
use quire_wide::{ExpiryPass, WidePartition};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The time between two passes.
const PERIOD: Duration = Duration::from_secs(1);

/// The expiry of the cells of a partition.
#[derive(Debug)]
pub(crate) struct PartitionCellExpiry {
    partition: WidePartition,
    gate: Arc<WriteGate>,
    durability: Mutex<Durability>,
    /// Whether the job was begun.
    is_begun: AtomicBool,
    pass: Mutex<ExpiryPass>,
    error: Mutex<Option<String>>,
}

impl PartitionCellExpiry {
    /// That of a partition which was just opened.
    pub(crate) fn start(
        (partition, gate): (WidePartition, Arc<WriteGate>),
        durability: Durability,
    ) -> Arc<PartitionCellExpiry> {
        let expiry = Arc::new(PartitionCellExpiry {
            partition,
            gate,
            durability: Mutex::new(durability),
            is_begun: AtomicBool::new(false),
            pass: Mutex::default(),
            error: Mutex::new(None),
        });
        // Of a partition that can't be read the first step tells.
        if expiry.partition.has_expiring().unwrap_or(true) {
            expiry.expect();
        }
        expiry
    }

    /// Goes on with this durability.
    pub(crate) fn set(&self, durability: Durability) {
        *self.durability.lock() = durability;
    }

    /// From now on removes what has expired.
    pub(crate) fn expect(self: &Arc<Self>) {
        let is_begun = self.is_begun.load(Ordering::Relaxed);
        if !is_begun && !self.is_begun.swap(true, Ordering::Relaxed) {
            self.schedule(PERIOD);
        }
    }

    /// Why the last step failed, if it did.
    pub(crate) fn error(&self) -> Option<String> {
        self.error.lock().clone()
    }

    fn schedule(self: &Arc<Self>, after: Duration) {
        let weak = Arc::downgrade(self);
        let job = move || {
            if let Some(expiry) = weak.upgrade() {
                expiry.run();
            }
        };
        let env = self.partition.env();
        env.schedule(JobClass::Compaction, after, Box::new(job));
    }

    fn run(self: &Arc<Self>) {
        // Others have replaced the partition: they have jobs of their own.
        let Some(gate) = self.gate.begin_write() else {
            return;
        };
        let stepped = self.step();
        drop(gate);
        if let Err(error) = &stepped {
            if error.kind() == ErrorKind::Closed {
                return;
            }
            let partition = self.partition.number();
            tracing::warn!(partition, %error, "removing cells that have expired failed");
        }
        let more = stepped.as_ref().is_ok_and(|more| *more);
        *self.error.lock() = stepped.err().map(|error| format!("expiry: {error}"));
        self.schedule(if more { Duration::ZERO } else { PERIOD });
    }

    /// Gives whether there may be more.
    fn step(&self) -> Result<bool> {
        let durability = *self.durability.lock();
        let step = self
            .partition
            .expire_step(&mut self.pass.lock(), durability);
        Ok(step.map_err(Error::from)?.more)
    }
}
