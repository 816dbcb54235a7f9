//! The server as a whole: what it is, whether it serves, what it has done.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::json;

use crate::collections::Selection;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::state::{Server, letter};

/// The version of the OpenSearch API that clients may take this for.
const API_VERSION: &str = "2.19.0";

/// `GET /`
pub(crate) async fn info(call: Call) -> Outcome<Answer> {
    let path = |server: &Server| {
        server
            .database()
            .stats()
            .map(|stats| stats.path)
            .unwrap_or_default()
    };
    let cluster_uuid = uuid_of(&call.server.read(path).await?);
    Ok(Answer::ok(&json!({
        "name": "quire",
        "cluster_name": "quire",
        "cluster_uuid": cluster_uuid,
        "version": {
            "distribution": "opensearch",
            "number": API_VERSION,
            "build_type": "quire",
            "build_hash": "unknown",
            "build_snapshot": false,
            "lucene_version": "none",
            "minimum_wire_compatibility_version": "7.10.0",
            "minimum_index_compatibility_version": "7.0.0",
        },
        "quire": {"version": env!("CARGO_PKG_VERSION")},
        "tagline": "The OpenSearch Project: https://opensearch.org/",
    })))
}

/// As long as a cluster's, and the same each time this directory is served.
fn uuid_of(path: &str) -> String {
    let hash = |seed: u8| {
        let mut hasher = DefaultHasher::new();
        (seed, path).hash(&mut hasher);
        hasher.finish()
    };
    (0..3)
        .flat_map(|seed| hash(seed).to_le_bytes())
        .take(22)
        .map(letter)
        .collect()
}

/// How the database is: that there is an answer says that it serves, so it is green, unless a scrub
/// has found damage. It is yellow if that is to the index alone, which the log can give again, and
/// red if documents are lost by it.
fn status(server: &Server) -> &'static str {
    match server.database().scrub_stats() {
        Some(scrub) if scrub.damage.iter().any(|found| found.positions.is_some()) => "red",
        Some(scrub) if !scrub.damage.is_empty() => "yellow",
        _ => "green",
    }
}

/// `GET /_cluster/health`
pub(crate) async fn health(call: Call) -> Outcome<Answer> {
    call.params
        .only("level", &["cluster"], "only [cluster] is supported")?;
    call.params.only(
        "wait_for_status",
        &["green", "yellow", "red"],
        "it must be a colour",
    )?;
    let selection = Selection::of(&call)?;
    let work = move |server: &Server| {
        let collections = selection.collections(server)?;
        let partitions: u64 = collections
            .iter()
            .map(|collection| u64::from(collection.settings().partitions))
            .sum();
        Ok(Answer::ok(&json!({
            "cluster_name": "quire",
            "status": status(server),
            "timed_out": false,
            "number_of_nodes": 1,
            "number_of_data_nodes": 1,
            "discovered_master": true,
            "discovered_cluster_manager": true,
            "active_primary_shards": partitions,
            "active_shards": partitions,
            "relocating_shards": 0,
            "initializing_shards": 0,
            "unassigned_shards": 0,
            "delayed_unassigned_shards": 0,
            "number_of_pending_tasks": 0,
            "number_of_in_flight_fetch": 0,
            "task_max_waiting_in_queue_millis": 0,
            "active_shards_percent_as_number": 100.0,
        })))
    };
    call.server.read(work).await?
}

/// `GET /_quire/stats`
pub(crate) async fn stats(call: Call) -> Outcome<Answer> {
    let work = |server: &Server| {
        let stats = server
            .database()
            .stats()
            .map_err(|error| Failure::engine(&error, None))?;
        let mut stats =
            serde_json::to_value(&stats).map_err(|error| Failure::internal(error.to_string()))?;
        if let Some(following) = &server.following {
            stats["following"] = following.describe(server.database().env().monotonic());
        }
        Ok(Answer::ok(&stats))
    };
    call.server.read(work).await?
}

/// `GET /metrics`
pub(crate) async fn metrics(call: Call) -> Outcome<Answer> {
    let work = |server: &Server| {
        let stats = server
            .database()
            .stats()
            .map_err(|error| Failure::engine(&error, None))?;
        let mut text = server.metrics.render(
            &stats,
            server.buffers.used_bytes(),
            server
                .options
                .memcached
                .as_ref()
                .map(|_| &*server.memcached),
        );
        if let Some(following) = &server.following {
            following.render(server.database().env().monotonic(), &mut text);
        }
        Ok(Answer::text(
            "text/plain; version=0.0.4; charset=utf-8",
            text.text(),
        ))
    };
    call.server.read(work).await?
}
