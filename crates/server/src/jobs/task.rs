//! Long work on the database that the server does in the background, one of a kind at a time.
//!
//! The request that begins it is answered at once. Its progress and the result of the last one can
//! be requested at any time. When the server stops, it stops running work.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use quiredb::Database;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::task::JoinHandle;

use crate::http::failure::{Failure, Outcome};
use crate::tasks::registry::Running as Listed;

/// Takes the bytes done and the bytes in all, and returns whether to continue.
pub(crate) type Progress<'a> = &'a mut dyn FnMut(u64, u64) -> ControlFlow<()>;

/// Work of one kind, whose result is an `R`.
#[derive(Debug)]
pub(crate) struct LongTask<R> {
    state: Mutex<State<R>>,
    /// Set when the server stops.
    stop: AtomicBool,
}

#[derive(Debug)]
struct State<R> {
    running: Option<Running>,
    last: Option<Last<R>>,
    task: Option<JoinHandle<()>>,
}

/// Work that is running. `about` holds the fields that describe it to callers.
#[derive(Debug)]
struct Running {
    about: Map<String, Value>,
    begun: Duration,
    done_bytes: u64,
    total_bytes: u64,
    /// On the list of what is running, where it may be cancelled.
    listed: Listed,
}

/// Work that has ended.
#[derive(Debug)]
struct Last<R> {
    about: Map<String, Value>,
    took: Duration,
    result: quiredb::Result<R>,
}

impl<R> Default for LongTask<R> {
    fn default() -> LongTask<R> {
        LongTask {
            state: Mutex::new(State {
                running: None,
                last: None,
                task: None,
            }),
            stop: AtomicBool::new(false),
        }
    }
}

impl<R: Serialize + Send + 'static> LongTask<R> {
    /// Begins `work`. While it runs it is `listed`.
    ///
    /// # Errors
    /// What `refuse` makes of the fields of work that is still running.
    pub(crate) fn begin(
        self: &Arc<Self>,
        database: &Database,
        about: Map<String, Value>,
        listed: impl FnOnce() -> Listed,
        refuse: impl FnOnce(&Map<String, Value>) -> Failure,
        work: impl FnOnce(&Database, Progress<'_>) -> quiredb::Result<R> + Send + 'static,
    ) -> Outcome<()> {
        let mut state = self.state.lock();
        if let Some(running) = &state.running {
            return Err(refuse(&running.about));
        }
        let begun = database.env().monotonic();
        state.running = Some(Running {
            about: about.clone(),
            begun,
            done_bytes: 0,
            total_bytes: 0,
            listed: listed(),
        });
        let (tasks, database) = (Arc::clone(self), database.clone());
        state.task = Some(tokio::task::spawn_blocking(move || {
            let result = work(&database, &mut |done, total| tasks.progress(done, total));
            let took = database.env().monotonic().saturating_sub(begun);
            // Released before the task ends: a server that has stopped closes the database.
            drop(database);
            let mut state = tasks.state.lock();
            let running = state.running.take();
            assert!(running.is_some(), "work is marked as running until it ends");
            state.last = Some(Last {
                about,
                took,
                result,
            });
        }));
        Ok(())
    }

    /// Records the progress. Stops the work if the server stops, or if it was cancelled.
    fn progress(&self, done: u64, total: u64) -> ControlFlow<()> {
        let mut is_cancelled = false;
        if let Some(running) = &mut self.state.lock().running {
            (running.done_bytes, running.total_bytes) = (done, total);
            is_cancelled = running.listed.is_cancelled();
        }
        match is_cancelled || self.stop.load(Ordering::Acquire) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    /// Stops running work, and waits until it has ended.
    pub(crate) async fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        let task = self.state.lock().task.take();
        if let Some(task) = task {
            // The work has logged its error.
            let _ = task.await;
        }
    }

    /// The running work and the last result, as JSON.
    pub(crate) fn describe(&self, now: Duration) -> Value {
        let state = self.state.lock();
        let running = state.running.as_ref().map(|running| {
            let mut described = running.about.clone();
            let took = now.saturating_sub(running.begun);
            described.insert("took_ms".into(), millis(took).into());
            described.insert("done_bytes".into(), running.done_bytes.into());
            described.insert("total_bytes".into(), running.total_bytes.into());
            described
        });
        let last = state.last.as_ref().map(|last| {
            let mut described = last.about.clone();
            described.insert("took_ms".into(), millis(last.took).into());
            described.insert("succeeded".into(), last.result.is_ok().into());
            match &last.result {
                Ok(report) => described.insert("report".into(), json!(report)),
                Err(error) => {
                    described.insert("error".into(), Failure::engine(error, None).cause())
                }
            };
            described
        });
        json!({"running": running, "last": last})
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
