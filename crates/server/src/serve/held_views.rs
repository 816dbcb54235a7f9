//! Ends what holds memory that writes wait for.
//!
//! A view keeps the memtables that it reads, also when they have been flushed. While memtables hold
//! all they may, every write waits. So a scroll that nobody reads on, a search whose client reads
//! slowly, or one that waits for memory itself could stop the writes of all clients for as long as
//! it is open.
//!
//! # Invariants
//! 1. What is ended holds memtables that only views hold. If memtables are full for another reason,
//!    such as a full disk, nothing is.
//! 2. Contexts that are not used go first, then reads that have been under way for long; of each
//!    kind the oldest. Contexts that are used go once writes have waited for as long as that.

use std::sync::Arc;
use std::time::Duration;

use quire_env::Budget;
use tokio::time::Instant;

use crate::engine::Engine;
use crate::search::contexts::{Contexts, UNUSED_AFTER};
use crate::tasks::registry::Tasks;

/// How often it is looked at whether writes wait.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How long writes wait before anything is ended for them: a flush may be all it takes.
const PATIENCE: Duration = Duration::from_millis(500);

/// A read that began later is not ended. After as long a wait, no context is spared.
const READ_TIME: Duration = Duration::from_secs(5);

/// Looks at the memtables.
pub(super) struct HeldViews {
    engine: Engine,
    memtables: Arc<Budget>,
    contexts: Contexts,
    tasks: Arc<Tasks>,
    /// Since when memtables have held all they may.
    full_since: Option<Instant>,
}

impl HeldViews {
    pub(super) fn new(engine: Engine, contexts: Contexts, tasks: Arc<Tasks>) -> HeldViews {
        HeldViews {
            memtables: Arc::clone(engine.database().memtables()),
            engine,
            contexts,
            tasks,
            full_since: None,
        }
    }

    /// Looks until it is dropped.
    pub(super) async fn watch(mut self) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            self.look();
        }
    }

    fn look(&mut self) {
        if self.memtables.used() < self.memtables.limit() {
            self.full_since = None;
            return;
        }
        let since = self.full_since.get_or_insert_with(Instant::now);
        if since.elapsed() < PATIENCE {
            return;
        }
        let unused = match since.elapsed() < READ_TIME {
            true => UNUSED_AFTER,
            false => Duration::ZERO,
        };
        // Some more than what is missing, or writes wait again soon.
        while self.memtables.used() >= self.memtables.limit() / 4 * 3 {
            let Some(id) = self.contexts.close_holder(unused) else {
                break;
            };
            tracing::warn!(
                id,
                "a scroll or a point in time is closed: writes need its memory"
            );
        }
        if self.memtables.used() >= self.memtables.limit() {
            self.end_read();
        }
    }

    /// Ends the oldest read that holds memtables.
    fn end_read(&self) {
        let now = self.engine.database().env().monotonic();
        let is_old = |begun: Duration| now.saturating_sub(begun) >= READ_TIME;
        let mut reads = self.tasks.all().into_iter();
        let holder = reads.find(|task| is_old(task.begun) && task.holds_memtables());
        if let Some(task) = holder {
            tracing::warn!(
                task = task.description(),
                "a read is ended: writes need its memory"
            );
            task.end_for_memory();
        }
    }
}
