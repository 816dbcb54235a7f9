//! Backups that the server makes of the database it serves, below a directory that its operator has allowed.
//!
//! One at a time, in the background: the answer that it has begun comes at once, and `GET /_backup` says how far it is. A
//! server that stops lets go of one under way; the next goes on with what was copied.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::http::StatusCode;
use parking_lot::Mutex;
use quiredb::{BackupOptions, BackupReport, Database};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::answer::Answer;
use crate::call::Call;
use crate::failure::{Failure, Outcome};

/// The longest name of a backup.
const NAME_BYTES_MAX: usize = 128;

/// The backups of a server.
#[derive(Debug, Default)]
pub(crate) struct Backups {
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
    name: String,
    begun: Duration,
    done_bytes: u64,
    total_bytes: u64,
}

/// The one that ended last.
#[derive(Debug)]
struct Last {
    name: String,
    took: Duration,
    result: quiredb::Result<BackupReport>,
}

/// `POST /_backup/{name}`
pub(crate) async fn begin(call: Call) -> Outcome<Answer> {
    let name = call.place("name").unwrap_or_default().to_owned();
    let Some(dir) = call.server.options.backup_dir.clone() else {
        return Err(Failure::new(
            StatusCode::FORBIDDEN,
            "security_exception",
            "this server makes no backups: `quire serve --backup-dir DIR` lets it make them below DIR",
        ));
    };
    check_name(&name)?;
    let mut options = BackupOptions {
        keep: call.params.number("keep")?,
        ..BackupOptions::default()
    };
    match call.params.number("rate_bytes")? {
        Some(0) => options.rate_bytes = None,
        Some(rate) => options.rate_bytes = Some(rate),
        None => {}
    }
    if options.keep == Some(0) {
        return Err(Failure::illegal_argument(
            "parameter [keep] must be at least 1",
        ));
    }
    call.server
        .backups
        .begin(&call.server.database, name.clone(), dir, options)?;
    let answer = json!({"acknowledged": true, "backup": name});
    Ok(Answer::value(StatusCode::ACCEPTED, &answer))
}

/// `GET /_backup`
pub(crate) async fn state(call: Call) -> Outcome<Answer> {
    let now = call.server.database.env().monotonic();
    Ok(Answer::ok(&call.server.backups.describe(now)))
}

/// A name is one plain component of a path: it leads nowhere but below the allowed directory.
fn check_name(name: &str) -> Outcome<()> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    if name.len() <= NAME_BYTES_MAX
        && name
            .bytes()
            .next()
            .is_some_and(|byte| byte.is_ascii_alphanumeric())
        && name.bytes().all(allowed)
    {
        return Ok(());
    }
    Err(Failure::illegal_argument(format!(
        "backup name [{name}]: use 1 to {NAME_BYTES_MAX} of a-z, A-Z, 0-9, '_', '-' and '.', beginning with a letter or a digit"
    )))
}

impl Backups {
    fn begin(
        self: &Arc<Self>,
        database: &Database,
        name: String,
        dir: PathBuf,
        options: BackupOptions,
    ) -> Outcome<()> {
        let mut state = self.state.lock();
        if let Some(running) = &state.running {
            let reason = format!(
                "backup [{}] is being made; one at a time, see GET /_backup",
                running.name
            );
            return Err(Failure::new(
                StatusCode::CONFLICT,
                "concurrent_snapshot_execution_exception",
                reason,
            ));
        }
        let begun = database.env().monotonic();
        state.running = Some(Running {
            name: name.clone(),
            begun,
            done_bytes: 0,
            total_bytes: 0,
        });
        let (backups, database) = (Arc::clone(self), database.clone());
        state.task = Some(tokio::task::spawn_blocking(move || {
            let to = dir.join(&name);
            let result =
                database.backup(&to, &options, &mut |done, total| backups.tell(done, total));
            if let Err(error) = &result {
                tracing::error!(backup = name, %error, "a backup failed");
            }
            let took = database.env().monotonic().saturating_sub(begun);
            // Let go of first: a server that has stopped closes the database.
            drop(database);
            let mut state = backups.state.lock();
            state.running = None;
            state.last = Some(Last { name, took, result });
        }));
        Ok(())
    }

    /// Notes how far the backup is. Breaks it off if the server stops.
    fn tell(&self, done: u64, total: u64) -> ControlFlow<()> {
        if let Some(running) = &mut self.state.lock().running {
            (running.done_bytes, running.total_bytes) = (done, total);
        }
        match self.stop.load(Ordering::Acquire) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    /// Breaks off the backup under way, if there is one, and waits for its end.
    pub(crate) async fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        let task = self.state.lock().task.take();
        if let Some(task) = task {
            // What went wrong with it is in the log already.
            let _ = task.await;
        }
    }

    fn describe(&self, now: Duration) -> Value {
        let state = self.state.lock();
        let running = state.running.as_ref().map(|running| {
            json!({
                "backup": running.name,
                "took_ms": millis(now.saturating_sub(running.begun)),
                "done_bytes": running.done_bytes,
                "total_bytes": running.total_bytes,
            })
        });
        let last = state.last.as_ref().map(|last| {
            let mut described = json!({
                "backup": last.name,
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

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_plain_component_of_a_path() {
        for name in ["nightly", "a", "2026-11-20_x.1", &"x".repeat(128)] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in [
            "",
            ".",
            "..",
            "../x",
            "a/b",
            "/etc",
            ".x",
            "a b",
            "é",
            &"x".repeat(129),
        ] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
