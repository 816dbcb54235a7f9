//! Backups of the database that is served, below a directory that the operator has allowed.
//!
//! One runs at a time, in the background. The request that begins it is answered at once, and
//! `GET /_backup` reports its progress. When the server stops, it stops a running backup; the next
//! backup of that name continues from the files already copied.

use std::path::PathBuf;
use std::sync::Arc;

use axum::http::StatusCode;
use quiredb::operations::{BackupOptions, BackupReport, backup};
use serde_json::{Map, Value, json};

use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::jobs::task::LongTask;

/// The longest name of a backup.
const NAME_BYTES_MAX: usize = 128;

/// What a backup is called on the list of what is running.
const ACTION: &str = "cluster:admin/snapshot/create";

/// The backups of a server.
pub(crate) type Backups = LongTask<BackupReport>;

/// What backups use of the server.
pub(crate) struct BackupState {
    pub(crate) engine: Engine,
    /// The directory below which backups are made; none if callers may not make any.
    pub(crate) dir: Option<PathBuf>,
    pub(crate) backups: Arc<Backups>,
}

/// `POST /_backup/{name}`
pub(crate) async fn begin(call: Call<BackupState>) -> Outcome<Answer> {
    let name = call.path_param("name").unwrap_or_default().to_owned();
    let Some(dir) = call.state.dir else {
        return Err(Failure::new(
            StatusCode::FORBIDDEN,
            "security_exception",
            "this server makes no backups: start it with `quire serve --backup-dir DIR` to allow \
             them below DIR",
        ));
    };
    check_name(&name)?;
    let options = BackupOptions {
        rate_bytes: call.params.rate(BackupOptions::default().rate_bytes)?,
        keep: call.params.number("keep")?,
    };
    if options.keep == Some(0) {
        return Err(Failure::illegal_argument(
            "parameter [keep] must be at least 1",
        ));
    }
    let about = Map::from_iter([("backup".to_owned(), name.as_str().into())]);
    let (to, named) = (dir.join(&name), name.clone());
    let (engine, running) = (call.state.engine, call.running);
    let listed = || running.background(ACTION, engine.clock());
    call.state
        .backups
        .begin(&engine.database(), about, listed, is_being_made, {
            move |database, progress| {
                let result = backup(database, &to, &options, progress);
                if let Err(error) = &result {
                    tracing::error!(backup = named, %error, "a backup failed");
                }
                result
            }
        })?;
    let answer = json!({"acknowledged": true, "backup": name});
    Ok(Answer::value(StatusCode::ACCEPTED, &answer))
}

/// `GET /_backup`
pub(crate) async fn state(call: Call<BackupState>) -> Outcome<Answer> {
    let now = call.state.engine.now();
    Ok(Answer::ok(&call.state.backups.describe(now)))
}

/// A name is one plain component of a path, so the backup lies below the allowed directory.
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
        "backup name [{name}]: use 1 to {NAME_BYTES_MAX} of a-z, A-Z, 0-9, '_', '-' and '.', \
         beginning with a letter or a digit"
    )))
}

/// The refusal of a second one.
fn is_being_made(running: &Map<String, Value>) -> Failure {
    let name = running.get("backup").and_then(Value::as_str);
    let reason = format!(
        "backup [{}] is being made, and one runs at a time: wait until GET /_backup shows that it \
         ended",
        name.unwrap_or_default()
    );
    Failure::new(
        StatusCode::CONFLICT,
        "concurrent_snapshot_execution_exception",
        reason,
    )
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
