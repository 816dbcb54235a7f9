//! Verifying the database while it is served.
//!
//! One at a time, in the background, as backups are made: the answer that it has begun comes at once, and `GET /_verify`
//! says how far it is, and what the last one found. A server that stops breaks it off.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::http::StatusCode;
use parking_lot::Mutex;
use quiredb::{Database, VerifyOptions, VerifyReport};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::answer::Answer;
use crate::call::Call;
use crate::failure::{Failure, Outcome};

/// The rate where a caller gives none, in bytes a second: what a server can spare.
const RATE_BYTES: u64 = 64 << 20;

/// The verifications of a server.
#[derive(Debug, Default)]
pub(crate) struct Verifications {
    state: Mutex<State>,
    /// Set when the server stops.
    stop: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    running: Option<Running>,
    last: Option<Last>,
    task: Option<JoinHandle<()>>,
}

/// One under way.
#[derive(Debug)]
struct Running {
    begun: Duration,
    done_bytes: u64,
    total_bytes: u64,
}

/// The one that ended last.
#[derive(Debug)]
struct Last {
    took: Duration,
    result: quiredb::Result<VerifyReport>,
}

/// `POST /_verify`
pub(crate) async fn begin(call: Call) -> Outcome<Answer> {
    let rate_bytes = match call.params.number("rate_bytes")? {
        Some(0) => None,
        Some(rate) => Some(rate),
        None => Some(RATE_BYTES),
    };
    let options = VerifyOptions { rate_bytes };
    call.server
        .verifications
        .begin(&call.server.database, options)?;
    let answer = json!({"acknowledged": true});
    Ok(Answer::value(StatusCode::ACCEPTED, &answer))
}

/// `GET /_verify`
pub(crate) async fn state(call: Call) -> Outcome<Answer> {
    let now = call.server.database.env().monotonic();
    Ok(Answer::ok(&call.server.verifications.describe(now)))
}

impl Verifications {
    fn begin(self: &Arc<Self>, database: &Database, options: VerifyOptions) -> Outcome<()> {
        let mut state = self.state.lock();
        if state.running.is_some() {
            return Err(Failure::new(
                StatusCode::CONFLICT,
                "resource_already_exists_exception",
                "the database is being verified; one at a time, see GET /_verify",
            ));
        }
        let begun = database.env().monotonic();
        state.running = Some(Running {
            begun,
            done_bytes: 0,
            total_bytes: 0,
        });
        let (verifications, database) = (Arc::clone(self), database.clone());
        state.task = Some(tokio::task::spawn_blocking(move || {
            let mut tell = |done, total| verifications.tell(done, total);
            let result = database.verify(&options, &mut tell);
            match &result {
                Ok(report) if report.damage.is_empty() => {}
                Ok(report) => {
                    let damages = report.damage.len();
                    tracing::error!(damages, "the database is damaged, see GET /_verify");
                }
                Err(error) => tracing::error!(%error, "the database could not be verified"),
            }
            let took = database.env().monotonic().saturating_sub(begun);
            // Let go of first: a server that has stopped closes the database.
            drop(database);
            let mut state = verifications.state.lock();
            state.running = None;
            state.last = Some(Last { took, result });
        }));
        Ok(())
    }

    /// Notes how far it is. Breaks it off if the server stops.
    fn tell(&self, done: u64, total: u64) -> ControlFlow<()> {
        if let Some(running) = &mut self.state.lock().running {
            (running.done_bytes, running.total_bytes) = (done, total);
        }
        match self.stop.load(Ordering::Acquire) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    /// Breaks off the one under way, if there is one, and waits for its end.
    pub(crate) async fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        let task = self.state.lock().task.take();
        if let Some(task) = task {
            // What went wrong with it is in the log already.
            let _ = task.await;
        }
    }

    fn describe(&self, now: Duration) -> Value {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let state = self.state.lock();
        let running = state.running.as_ref().map(|running| {
            json!({
                "took_ms": millis(now.saturating_sub(running.begun)),
                "done_bytes": running.done_bytes,
                "total_bytes": running.total_bytes,
            })
        });
        let last = state.last.as_ref().map(|last| {
            let mut described = json!({
                "took_ms": millis(last.took),
                "succeeded": last.result.is_ok(),
            });
            match &last.result {
                Ok(report) => described["report"] = json!(report),
                Err(error) => described["error"] = Failure::engine(error, None).cause(),
            }
            described
        });
        json!({"running": running, "last": last})
    }
}
