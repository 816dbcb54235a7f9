//! The memory of the batches of a change by query.
//!
//! # Invariants
//! 1. A batch holds memory while it is done. One that waits for more, for a large document, holds
//!    none meanwhile; the others go on.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::manner::Manner;
use crate::http::buffers::{Buffers, Held, LARGE_BYTES};
use crate::http::failure::Outcome;
use crate::search::execute::SEARCH_BYTES_MAX;
use crate::search::state::SearchState;
use crate::search::{hold, hold_now};
use crate::tasks::task::Task;

/// The most slices of work that has one for each partition.
pub(super) const SLICES_AUTO_MAX: u32 = 20;

/// See the module.
pub(in crate::documents) struct BatchMemory {
    buffers: Buffers,
    timeout: Duration,
    /// One permit for each batch that may be done at once.
    turns: Semaphore,
    free: Mutex<Vec<Held>>,
}

/// The memory of one batch.
pub(super) struct Turn<'m> {
    memory: &'m BatchMemory,
    held: Option<Held>,
    _permit: Option<SemaphorePermit<'m>>,
}

impl BatchMemory {
    /// That of a batch, and of one more for each core that slices may keep busy, where that is
    /// free.
    ///
    /// # Errors
    /// As [`hold`].
    pub(in crate::documents) async fn reserve(
        state: &SearchState,
        manner: &Manner,
    ) -> Outcome<BatchMemory> {
        let first = hold(&state.buffers, state.memory_timeout).await?;
        let cores = state.engine.database().env().cores();
        let slices = manner.slices.unwrap_or(SLICES_AUTO_MAX) as usize;
        let others = (1..cores.min(slices)).map_while(|_| hold_now(&state.buffers).ok());
        let free: Vec<Held> = [first].into_iter().chain(others).collect();
        Ok(BatchMemory {
            buffers: state.buffers.clone(),
            timeout: state.memory_timeout,
            turns: Semaphore::new(free.len()),
            free: Mutex::new(free),
        })
    }

    /// The memory that it is part of.
    pub(super) fn buffers(&self) -> &Buffers {
        &self.buffers
    }

    /// Waits until a batch may be done.
    pub(super) async fn turn(&self, task: &Task) -> Turn<'_> {
        // The semaphore is never closed.
        let permit = self.turns.acquire().await.ok();
        let held = self.free.lock().pop();
        let mut turn = Turn {
            memory: self,
            held,
            _permit: permit,
        };
        turn.hold(SEARCH_BYTES_MAX, task).await;
        turn
    }
}

impl Turn<'_> {
    /// Whether there is memory for a record beside this many bytes that were read before.
    pub(super) fn room(&self) -> impl Fn(usize, u64) -> bool + use<> {
        let (buffers, bytes) = (
            self.memory.buffers.clone(),
            self.held.as_ref().map_or(0, Held::bytes),
        );
        move |page, record| {
            // What was read is written once more.
            record <= LARGE_BYTES || page.saturating_mul(2) + buffers.large_at_most(record) <= bytes
        }
    }

    /// Waits for the memory of a record; while it waits it holds none. Ends when the task is
    /// cancelled.
    pub(super) async fn grow(&mut self, record: u64, task: &Task) {
        let wanted = self.memory.buffers.large_at_most(record);
        drop(self.held.take());
        // Nor is memory kept for batches that are not being done.
        self.memory.free.lock().clear();
        self.hold(wanted.max(SEARCH_BYTES_MAX), task).await;
    }

    /// Waits for memory, if it has none.
    async fn hold(&mut self, bytes: usize, task: &Task) {
        let BatchMemory {
            buffers, timeout, ..
        } = self.memory;
        while self.held.is_none() && !task.is_cancelled() {
            // Others have it: that is no reason to end half-way.
            self.held = buffers.hold(bytes, *timeout).await.ok();
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(mut held) = self.held.take() {
            // To less, which never fails.
            let _ = held.resize(SEARCH_BYTES_MAX);
            self.memory.free.lock().push(held);
        }
    }
}
