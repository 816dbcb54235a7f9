//! Verifying the database while it is served.
//!
//! One verification runs at a time, in the background. The request that begins it is answered at
//! once, and `GET /_verify` reports its progress and what the last one found. When the server
//! stops, it stops a running verification.

use std::sync::Arc;

use axum::http::StatusCode;
use quiredb::operations::{VerifyOptions, VerifyReport, verify_open};
use serde_json::{Map, json};

use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::jobs::task::LongTask;

/// Bytes a second if the caller sets no rate: low enough to leave the disks to other requests.
const RATE_BYTES: u64 = 64 << 20;

/// What a verification is called on the list of what is running.
const ACTION: &str = "quire:admin/verify";

/// The verifications of a server.
pub(crate) type Verifications = LongTask<VerifyReport>;

/// What verification uses of the server.
pub(crate) struct VerifyState {
    pub(crate) engine: Engine,
    pub(crate) verifications: Arc<Verifications>,
}

/// `POST /_verify`
pub(crate) async fn begin(call: Call<VerifyState>) -> Outcome<Answer> {
    let options = VerifyOptions {
        rate_bytes: call.params.rate(Some(RATE_BYTES))?,
    };
    let being_verified = |_: &Map<_, _>| {
        Failure::new(
            StatusCode::CONFLICT,
            "resource_already_exists_exception",
            "the database is being verified, and one verification runs at a time: wait until GET \
             /_verify shows that it ended",
        )
    };
    let (engine, running) = (call.state.engine, call.running);
    let listed = || running.background(ACTION, engine.clock());
    call.state
        .verifications
        .begin(&engine.database(), Map::new(), listed, being_verified, {
            move |database, progress| {
                let result = verify_open(database, &options, progress);
                match &result {
                    Ok(report) if report.damage.is_empty() => {}
                    Ok(report) => {
                        let damages = report.damage.len();
                        tracing::error!(damages, "the database is damaged, see GET /_verify");
                    }
                    Err(error) => tracing::error!(%error, "the database could not be verified"),
                }
                result
            }
        })?;
    let answer = json!({"acknowledged": true});
    Ok(Answer::value(StatusCode::ACCEPTED, &answer))
}

/// `GET /_verify`
pub(crate) async fn state(call: Call<VerifyState>) -> Outcome<Answer> {
    let now = call.state.engine.now();
    Ok(Answer::ok(&call.state.verifications.describe(now)))
}
