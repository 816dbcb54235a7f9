//! The memory of the batches of a change by query.
//!
//! # Invariants
//! 1. A batch holds memory while it is done. One that waits for more, for a large document, holds
//!    none meanwhile; the others go on.
//! 2. While a batch waits for more, none is kept free for batches that are not being done: it may
//!    be what the batch waits for.

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
    free: Mutex<Free>,
}

/// The memory of batches that are not being done.
#[derive(Default)]
struct Free {
    held: Vec<Held>,
    /// Batches that wait for more.
    growing: usize,
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
        let held: Vec<Held> = [first].into_iter().chain(others).collect();
        let (buffers, timeout) = (state.buffers.clone(), state.memory_timeout);
        Ok(BatchMemory::of(buffers, timeout, held))
    }

    /// Begins with what is held for each batch that may be done at once.
    fn of(buffers: Buffers, timeout: Duration, held: Vec<Held>) -> BatchMemory {
        BatchMemory {
            buffers,
            timeout,
            turns: Semaphore::new(held.len()),
            free: Mutex::new(Free { held, growing: 0 }),
        }
    }

    /// The memory that it is part of.
    pub(super) fn buffers(&self) -> &Buffers {
        &self.buffers
    }

    /// Gives the memory of batches that are not being done to others, until the next turn.
    pub(super) fn rest(&self) {
        self.free.lock().held.clear();
    }

    /// Waits until a batch may be done.
    pub(super) async fn turn(&self, task: &Task) -> Turn<'_> {
        // The semaphore is never closed.
        let permit = self.turns.acquire().await.ok();
        let held = self.free.lock().held.pop();
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
        let _growing = Growing::begin(self.memory);
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
        let Some(mut held) = self.held.take() else {
            return;
        };
        let mut free = self.memory.free.lock();
        if free.growing == 0 {
            // To less, which never fails.
            let _ = held.resize(SEARCH_BYTES_MAX);
            free.held.push(held);
        }
    }
}

/// A batch waits for more memory, until this is dropped.
struct Growing<'m>(&'m BatchMemory);

impl Growing<'_> {
    fn begin(memory: &BatchMemory) -> Growing<'_> {
        let mut free = memory.free.lock();
        free.growing += 1;
        free.held.clear();
        Growing(memory)
    }
}

impl Drop for Growing<'_> {
    fn drop(&mut self) {
        self.0.free.lock().growing -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::http::{Method, Uri};
    use futures_util::FutureExt;
    use quire_env::Budget;

    use super::*;
    use crate::tasks::registry::{Running, Tasks};
    use crate::tasks::task::{Origin, Sent};

    fn running() -> Running {
        let origin = Origin {
            sent: Sent::Http(Method::POST, Uri::from_static("/c/_update_by_query")),
            token: String::new(),
            address: None,
            opaque_id: None,
        };
        Arc::new(Tasks::default()).begin_memcached(origin, (0, Duration::ZERO))
    }

    #[tokio::test]
    async fn work_that_rests_has_no_memory_until_its_next_turn() {
        let budget = Budget::new(3 * SEARCH_BYTES_MAX as u64);
        let buffers = Buffers::new(&budget, &Budget::new(u64::MAX));
        let held = (0..2).map(|_| hold_now(&buffers).unwrap()).collect();
        let memory = BatchMemory::of(buffers, Duration::from_secs(60), held);
        let running = running();
        drop(memory.turn(&running).await);
        assert!(budget.used() > 0);
        memory.rest();
        assert_eq!(budget.used(), 0);
        let _turn = memory.turn(&running).await;
        assert_eq!(budget.used(), SEARCH_BYTES_MAX as u64);
    }

    #[tokio::test]
    async fn a_batch_that_waits_for_more_gets_what_an_ended_one_had() {
        let buffers = Buffers::new(
            &Budget::new(3 * SEARCH_BYTES_MAX as u64),
            &Budget::new(u64::MAX),
        );
        let held = (0..2).map(|_| hold_now(&buffers).unwrap()).collect();
        let memory = BatchMemory::of(buffers, Duration::from_secs(60), held);
        let running = running();
        let mut large = memory.turn(&running).await;
        let other = memory.turn(&running).await;
        // More than there is beside the other one.
        let record = SEARCH_BYTES_MAX as u64 * 5 / 6;
        let mut grows = Box::pin(large.grow(record, &running));
        assert!(grows.as_mut().now_or_never().is_none());
        drop(other);
        grows.await;
        assert!(large.room()(0, record));
    }
}
