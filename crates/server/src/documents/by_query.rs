//! `_delete_by_query`: deletes the documents that match a query as of one moment.
//!
//! Each is deleted on condition that it is still as it was found: one that was written meanwhile is
//! a conflict.

use std::sync::Arc;

use axum::http::StatusCode;
use quiredb::{Collection, ErrorKind, Key, Write};
use serde_json::{Value as Json, json};
use tokio::time::Instant;

use crate::collections::selection::Selection;
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::search::by_key::page_by_key;
use crate::search::execute::failed;
use crate::search::request::{parse, query_of};

/// Documents that are deleted together.
const BATCH: usize = 1000;

/// Failures that an answer shows.
const SHOWN_MAX: usize = 100;

/// What was done.
#[derive(Default)]
struct Report {
    total: u64,
    deleted: u64,
    batches: u64,
    conflicts: u64,
    failures: Vec<Json>,
}

/// `POST /{collection}/_delete_by_query`
pub(crate) async fn delete(call: Call<Engine>) -> Outcome<Answer> {
    let begun = Instant::now();
    let params = call.params.clone();
    let selection = Selection::of(&call)?;
    params.only(
        "conflicts",
        &["abort", "proceed"],
        "it is [abort] or [proceed]",
    )?;
    let proceeds = params.text("conflicts") == Some("proceed");
    for (name, allowed, why) in [
        (
            "wait_for_completion",
            &["", "true"][..],
            "it is done when it is answered",
        ),
        ("slices", &["1", "auto"], "it is done in one slice"),
        ("requests_per_second", &["-1"], "it is not throttled"),
        (
            "refresh",
            &["", "true", "false"],
            "only [true] and [false] are allowed",
        ),
    ] {
        params.only(name, allowed, why)?;
    }
    let most: Option<u64> = params.number("max_docs")?;
    let (engine, running) = (call.state.clone(), Arc::clone(&call.running));
    let body = call.take_small_body().await?;
    let mut body = parse(&body.bytes)?;
    let in_body = body.remove("max_docs").and_then(|most| most.as_u64());
    crate::search::filter::known(&body, "delete_by_query", &["query"])?;
    if !body.contains_key("query") {
        return Err(Failure::validation("query is missing"));
    }
    let query = query_of(&body)?;
    let left = most.or(in_body).unwrap_or(u64::MAX);
    let work = move |engine: &Engine| {
        let is_cancelled = || running.is_cancelled();
        let query = query.prepare().map_err(|error| failed(error.into()))?;
        let mut report = Report::default();
        for collection in selection.collections(engine)? {
            delete_in(
                &collection,
                &query,
                left,
                proceeds,
                &is_cancelled,
                &mut report,
            )?;
        }
        Ok::<_, Failure>((report, is_cancelled()))
    };
    let (report, is_cancelled) = engine.write(work).await??;
    let status = match report.failures.is_empty() {
        true => StatusCode::OK,
        false => StatusCode::CONFLICT,
    };
    let took = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    let mut answer = json!({
        "took": took,
        "timed_out": false,
        "total": report.total,
        "deleted": report.deleted,
        "batches": report.batches,
        "version_conflicts": report.conflicts,
        "noops": 0,
        "retries": {"bulk": 0, "search": 0},
        "throttled_millis": 0,
        "requests_per_second": -1.0,
        "throttled_until_millis": 0,
        "failures": report.failures,
    });
    if is_cancelled {
        answer["canceled"] = "by user request".into();
    }
    Ok(Answer::value(status, &answer))
}

/// Deletes what matches in one collection, up to `most` documents in all, until it is cancelled.
fn delete_in(
    collection: &Collection,
    query: &quiredb::query::Prepared,
    most: u64,
    proceeds: bool,
    is_cancelled: &(dyn Fn() -> bool + Sync),
    report: &mut Report,
) -> Outcome<()> {
    let view = collection.view().map_err(failed)?;
    let mut after: Option<Key> = None;
    loop {
        let left = usize::try_from(most - report.total.min(most)).unwrap_or(usize::MAX);
        if left == 0 || !report.failures.is_empty() || is_cancelled() {
            return Ok(());
        }
        let size = left.min(BATCH);
        let (page, is_last) = match page_by_key(&view, query, after.as_ref(), size, is_cancelled) {
            Err(_) if is_cancelled() => return Ok(()),
            page => page?,
        };
        if page.is_empty() {
            return Ok(());
        }
        report.total += page.len() as u64;
        report.batches += 1;
        after = page.last().map(|found| found.key.clone());
        let write =
            |found: &quiredb::Found| Write::delete(found.key.clone()).if_version(found.version);
        let results = collection.batch().writes(page.iter().map(write)).write();
        for (found, result) in page.iter().zip(results) {
            match result {
                Ok(_) => report.deleted += 1,
                Err(error) if error.kind() == ErrorKind::Conflict => {
                    report.conflicts += 1;
                    if !proceeds && report.failures.len() < SHOWN_MAX {
                        let id = found.key.to_string();
                        let index = collection.name();
                        let conflict = Failure::version_conflict(index, &id, &error.to_string());
                        report.failures.push(json!({
                            "index": index, "id": id, "cause": conflict.cause(), "status": 409,
                        }));
                    }
                }
                Err(error) => return Err(Failure::engine(&error, Some(collection.name()))),
            }
        }
        if is_last {
            return Ok(());
        }
    }
}
