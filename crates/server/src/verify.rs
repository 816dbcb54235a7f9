//! Verifying the database while it is served.
//!
//! One at a time, in the background, as backups are made: the answer that it has begun comes at
//! once, and `GET /_verify` says how far it is, and what the last one found. A server that stops
//! breaks it off.

use axum::http::StatusCode;
use quiredb::operations::{VerifyOptions, VerifyReport, verify_open};
use serde_json::{Map, json};

use crate::answer::Answer;
use crate::call::Call;
use crate::failure::{Failure, Outcome};
use crate::task::LongTask;

/// The rate where a caller gives none, in bytes a second: what a server can spare.
const RATE_BYTES: u64 = 64 << 20;

/// The verifications of a server.
pub(crate) type Verifications = LongTask<VerifyReport>;

/// `POST /_verify`
pub(crate) async fn begin(call: Call) -> Outcome<Answer> {
    let options = VerifyOptions {
        rate_bytes: call.params.rate(Some(RATE_BYTES))?,
    };
    let being_verified = |_: &Map<_, _>| {
        Failure::new(
            StatusCode::CONFLICT,
            "resource_already_exists_exception",
            "the database is being verified; one at a time, see GET /_verify",
        )
    };
    call.server
        .verifications
        .begin(&call.server.database(), Map::new(), being_verified, {
            move |database, tell| {
                let result = verify_open(database, &options, tell);
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
pub(crate) async fn state(call: Call) -> Outcome<Answer> {
    let now = call.server.database().env().monotonic();
    Ok(Answer::ok(&call.server.verifications.describe(now)))
}
