//! The list of what is running.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::http::Method;
use parking_lot::Mutex;

use super::action::action;
use super::task::{Origin, Task};
use crate::http::endpoint::Endpoint;

/// What is running, by number. Numbers are given once.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    running: Mutex<BTreeMap<u64, Arc<Task>>>,
    last: AtomicU64,
}

/// A task that is listed until this is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    tasks: Arc<Tasks>,
    task: Arc<Task>,
}

impl Tasks {
    /// A request of a route begins. `now` is the time since 1970, in microseconds, and by the
    /// monotonic clock.
    pub(crate) fn begin(
        self: &Arc<Self>,
        endpoint: &Endpoint,
        method: &Method,
        request: Origin,
        now: (i64, Duration),
    ) -> Running {
        let action = action(endpoint.path, method);
        self.list(None, action, request, now)
    }

    /// Requests of memcached that arrived together begin.
    pub(crate) fn begin_memcached(
        self: &Arc<Self>,
        request: Origin,
        now: (i64, Duration),
    ) -> Running {
        self.list(None, "memcached", request, now)
    }

    fn list(
        self: &Arc<Self>,
        parent: Option<u64>,
        action: &'static str,
        request: Origin,
        now: (i64, Duration),
    ) -> Running {
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let task = Arc::new(Task::new(id, parent, action, request, now));
        self.running.lock().insert(id, Arc::clone(&task));
        let tasks = Arc::clone(self);
        Running { tasks, task }
    }

    /// What is running now, the oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<Task>> {
        self.running.lock().values().cloned().collect()
    }

    /// How many run now.
    pub(crate) fn count(&self) -> usize {
        self.running.lock().len()
    }

    /// The task of this number, if it is running.
    pub(crate) fn get(&self, id: u64) -> Option<Arc<Task>> {
        self.running.lock().get(&id).cloned()
    }
}

impl Running {
    /// Work in the background that this request begins. It stays listed when the request ends.
    pub(crate) fn background(&self, action: &'static str, now: (i64, Duration)) -> Running {
        let request = self.task.request.clone();
        self.tasks.list(Some(self.task.id), action, request, now)
    }
}

impl Deref for Running {
    type Target = Task;

    fn deref(&self) -> &Task {
        &self.task
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let removed = self.tasks.running.lock().remove(&self.task.id);
        debug_assert!(removed.is_some(), "each task is on the list exactly once");
    }
}
