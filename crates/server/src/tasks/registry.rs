//! The list of what is running.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::http::Method;
use parking_lot::Mutex;
use serde_json::Value;

use super::action::{MEMCACHED, action};
use super::task::{Origin, Task};
use crate::http::endpoint::Endpoint;

/// The number of results that are kept. A result shows 100 failures at most.
const RESULTS_MAX: usize = 100;

/// What is running, by number, and the newest results of what nobody waited for. Numbers are given
/// once.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    running: Mutex<BTreeMap<u64, Arc<Task>>>,
    /// The oldest first.
    results: Mutex<VecDeque<Arc<TaskResult>>>,
    last: AtomicU64,
}

/// The result of work in the background.
#[derive(Debug)]
pub(crate) struct TaskResult {
    pub(crate) task: Arc<Task>,
    /// When it ended, by the monotonic clock.
    pub(crate) ended: Duration,
    /// What its request would have been answered; or why it failed.
    pub(crate) outcome: Result<Value, Value>,
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
        self.list(None, MEMCACHED, request, now)
    }

    /// Work begins that the server does on its own, as if `request` had come.
    pub(crate) fn begin_own(
        self: &Arc<Self>,
        action: &'static str,
        request: Origin,
        now: (i64, Duration),
    ) -> Running {
        self.list(None, action, request, now)
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

    /// The running tasks that a task began.
    pub(crate) fn children(&self, id: u64) -> Vec<Arc<Task>> {
        let running = self.running.lock();
        let children = running.values().filter(|task| task.parent == Some(id));
        children.cloned().collect()
    }

    /// How many run now.
    pub(crate) fn count(&self) -> usize {
        self.running.lock().len()
    }

    /// The task of this number, if it is running.
    pub(crate) fn get(&self, id: u64) -> Option<Arc<Task>> {
        self.running.lock().get(&id).cloned()
    }

    /// The result of the task of this number, if it is kept.
    pub(crate) fn result(&self, id: u64) -> Option<Arc<TaskResult>> {
        let results = self.results.lock();
        results.iter().find(|result| result.task.id == id).cloned()
    }
}

impl Running {
    /// Work in the background that this request begins. It stays listed when the request ends.
    pub(crate) fn background(&self, action: &'static str, now: (i64, Duration)) -> Running {
        let request = self.task.request.clone();
        self.tasks.list(Some(self.task.id), action, request, now)
    }

    /// The task, which this keeps listed.
    pub(crate) fn task(&self) -> &Arc<Task> {
        &self.task
    }

    /// Ends work in the background, whose result is kept; `now` is by the monotonic clock.
    pub(crate) fn finish(self, outcome: Result<Value, Value>, now: Duration) {
        let mut results = self.tasks.results.lock();
        if results.len() == RESULTS_MAX {
            results.pop_front();
        }
        results.push_back(Arc::new(TaskResult {
            task: Arc::clone(&self.task),
            ended: now,
            outcome,
        }));
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
