//! `_segments`, `_shard_stores`, `_recovery`: partitions, as OpenSearch shows shards.
//!
//! A partition is searched as one segment, `_0`, which it has once it has documents.

use jiff::tz::TimeZone;
use quiredb::CollectionStats;
use quiredb::query::DateFormat;
use serde_json::{Map, Value, json};

use super::state::ClusterState;
use crate::collections::selection::{Searched, Selection, searched_shards};
use crate::collections::states::States;
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::http::table::millis;
use crate::ids::uuid;
use crate::tasks::listed::{NODE, node};

/// The version of what makes segments.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Objects by the numbers of partitions, for each collection that a request names.
async fn by_collection(
    engine: Engine,
    selection: Selection,
    show: impl Fn(&Searched, usize, &CollectionStats) -> Value + Send + 'static,
) -> Outcome<(Map<String, Value>, Value)> {
    let work = move |engine: &Engine| {
        let collections = selection.all(engine)?;
        let mut all = Map::new();
        for collection in &collections {
            let partitions = collection.partition_stats()?;
            let partitions = partitions.iter().enumerate();
            let shown = partitions.map(|(at, stats)| (at.to_string(), show(collection, at, stats)));
            let shown: Map<String, Value> = shown.collect();
            all.insert(collection.name().to_owned(), json!({"shards": shown}));
        }
        Ok((all, searched_shards(&collections)))
    };
    engine.read(work).await?
}

/// `GET /_segments`, `/{collection}/_segments`
pub(crate) async fn segments(call: Call<ClusterState>) -> Outcome<Answer> {
    let selection = Selection::of(&call)?;
    call.params.flag("verbose")?;
    let show = |_: &Searched, _, stats: &CollectionStats| {
        let segment = json!({
            "generation": 0,
            "num_docs": stats.documents,
            "deleted_docs": 0,
            "size_in_bytes": stats.disk_bytes,
            "memory_in_bytes": 0,
            "committed": stats.unflushed_records == 0,
            "search": true,
            "version": VERSION,
            "compound": false,
            "attributes": {},
        });
        let segments = match stats.documents {
            0 => json!({}),
            _ => json!({"_0": segment}),
        };
        let count = u64::from(stats.documents > 0);
        let committed = u64::from(stats.documents > 0 && stats.unflushed_records == 0);
        json!([{
            "routing": {"state": "STARTED", "primary": true, "node": NODE},
            "num_committed_segments": committed,
            "num_search_segments": count,
            "segments": segments,
        }])
    };
    let (indices, shards) = by_collection(call.state.engine, selection, show).await?;
    Ok(Answer::ok(&json!({"_shards": shards, "indices": indices})))
}

/// `GET /_shard_stores`, `/{collection}/_shard_stores`: without `status`, those of shards that are
/// not allocated whole, which there are none of.
pub(crate) async fn stores(call: Call<ClusterState>) -> Outcome<Answer> {
    let selection = Selection::about(&call, States::ALL)?;
    let known = ["green", "yellow", "red", "all"];
    let statuses = call.params.text("status").unwrap_or("yellow,red");
    for status in statuses.split(',') {
        if !known.contains(&status) {
            return Err(Failure::illegal_argument(format!(
                "unknown cluster health status [{status}]"
            )));
        }
    }
    let is_shown = statuses
        .split(',')
        .any(|one| matches!(one, "green" | "all"));
    let listen = call.state.listen;
    let show = move |of: &Searched, at, _: &CollectionStats| {
        json!({"stores": [{
            NODE: node(listen),
            "allocation_id": format!("{}-{at}", uuid(of.identity())),
            "allocation": "primary",
        }]})
    };
    let (mut indices, _) = by_collection(call.state.engine, selection, show).await?;
    if !is_shown {
        indices.clear();
    }
    Ok(Answer::ok(&json!({"indices": indices})))
}

/// A recovery: how a partition was opened. Its files were there and stayed.
pub(super) struct Recovery {
    /// `EMPTY_STORE` or `EXISTING_STORE`.
    pub(super) kind: &'static str,
    pub(super) start_millis: i64,
    pub(super) stop_millis: i64,
    pub(super) took_millis: u64,
    pub(super) files: u64,
    pub(super) bytes: u64,
}

impl Recovery {
    pub(super) fn of(of: &Searched, stats: &CollectionStats) -> Recovery {
        let opened = of.usage().opened();
        let took_millis = u64::try_from(opened.took.as_millis()).unwrap_or(u64::MAX);
        let start_millis = opened.micros.div_euclid(1000);
        let (kind, files, bytes) = match opened.was_empty {
            true => ("EMPTY_STORE", 0, 0),
            false => {
                let files = stats.tables + stats.log_segments;
                ("EXISTING_STORE", files, stats.disk_bytes)
            }
        };
        Recovery {
            kind,
            start_millis,
            stop_millis: start_millis.saturating_add_unsigned(took_millis),
            took_millis,
            files,
            bytes,
        }
    }
}

pub(super) fn date(millis: i64) -> String {
    DateFormat::ISO.write(millis, &TimeZone::UTC)
}

/// `GET /_recovery`, `/{collection}/_recovery`: how partitions were opened. Files are opened where
/// they are, so all are reused; what the log applied again is not counted.
pub(crate) async fn recovery(call: Call<ClusterState>) -> Outcome<Answer> {
    let selection = Selection::about(&call, States::ALL)?;
    for flag in ["active_only", "detailed"] {
        call.params.flag(flag)?;
    }
    let is_active_only = call.params.flag("active_only")?.unwrap_or(false);
    let listen = call.state.listen;
    let show = move |of: &Searched, at: usize, stats: &CollectionStats| {
        let Recovery {
            kind,
            start_millis,
            stop_millis,
            took_millis,
            files,
            bytes,
        } = Recovery::of(of, stats);
        let target = json!({
            "id": NODE,
            "host": listen.ip().to_string(),
            "transport_address": listen.to_string(),
            "ip": listen.ip().to_string(),
            "name": NODE,
        });
        json!({
            "id": at,
            "type": kind,
            "stage": "DONE",
            "primary": true,
            "start_time": date(start_millis),
            "start_time_in_millis": start_millis,
            "stop_time": date(stop_millis),
            "stop_time_in_millis": stop_millis,
            "total_time": millis(took_millis),
            "total_time_in_millis": took_millis,
            "source": {},
            "target": target,
            "index": {
                "size": {
                    "total_in_bytes": bytes,
                    "reused_in_bytes": bytes,
                    "recovered_in_bytes": 0,
                    "percent": "100.0%",
                },
                "files": {
                    "total": files,
                    "reused": files,
                    "recovered": 0,
                    "percent": "100.0%",
                    "details": [],
                },
                "total_time_in_millis": took_millis,
                "source_throttle_time_in_millis": 0,
                "target_throttle_time_in_millis": 0,
            },
            "translog": {
                "recovered": 0,
                "total": -1,
                "percent": "-1.0%",
                "total_on_start": 0,
                "total_time_in_millis": 0,
            },
            "verify_index": {"check_index_time_in_millis": 0, "total_time_in_millis": 0},
        })
    };
    let (all, _) = by_collection(call.state.engine, selection, show).await?;
    let mut shown = Map::new();
    for (name, collection) in all {
        let shards = collection["shards"].as_object().into_iter().flatten();
        let shards: Vec<&Value> = shards.map(|(_, shard)| shard).collect();
        if !is_active_only {
            shown.insert(name, json!({"shards": shards}));
        }
    }
    Ok(Answer::ok(&Value::Object(shown)))
}
