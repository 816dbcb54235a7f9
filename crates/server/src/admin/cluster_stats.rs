//! `_cluster/stats`: what the database holds, as of a cluster of one node.

use serde_json::{Map, Value, json};

use super::cluster::{status, uuid};
use super::state::ClusterState;
use crate::collections::selection::Selection;
use crate::collections::states::States;
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};

/// Figures of Lucene's segments and of its caches. Clients refuse an answer without them; Quire has
/// none.
const OF_SEGMENTS: [&str; 11] = [
    "count",
    "doc_values_memory_in_bytes",
    "fixed_bit_set_memory_in_bytes",
    "index_writer_memory_in_bytes",
    "memory_in_bytes",
    "norms_memory_in_bytes",
    "points_memory_in_bytes",
    "stored_fields_memory_in_bytes",
    "term_vectors_memory_in_bytes",
    "terms_memory_in_bytes",
    "version_map_memory_in_bytes",
];

const OF_QUERY_CACHE: [&str; 7] = [
    "cache_count",
    "cache_size",
    "evictions",
    "hit_count",
    "memory_size_in_bytes",
    "miss_count",
    "total_count",
];

/// The kinds of parts of analyzers, of which there are none.
const OF_ANALYSIS: [&str; 8] = [
    "analyzer_types",
    "built_in_analyzers",
    "built_in_char_filters",
    "built_in_filters",
    "built_in_tokenizers",
    "char_filter_types",
    "filter_types",
    "tokenizer_types",
];

/// What collections hold together.
pub(super) struct Totals {
    pub(super) collections: u64,
    pub(super) partitions: u64,
    pub(super) documents: u64,
    pub(super) bytes: u64,
}

pub(super) fn totals(engine: &Engine, selection: &Selection) -> Outcome<Totals> {
    let mut totals = Totals {
        collections: 0,
        partitions: 0,
        documents: 0,
        bytes: 0,
    };
    for collection in selection.all(engine)? {
        let stats = collection.stats()?;
        totals.collections += 1;
        totals.partitions += u64::from(collection.partitions());
        totals.documents += stats.documents;
        totals.bytes += stats.disk_bytes;
    }
    Ok(totals)
}

/// `GET /_cluster/stats`. What a cluster of Java machines has and Quire has not is 0 or empty; the
/// heap is the memory that the database may use.
pub(crate) async fn cluster_stats(call: Call<ClusterState>) -> Outcome<Answer> {
    let (engine, selection) = (
        call.state.engine.clone(),
        Selection::watched(&call, States::ALL)?,
    );
    let (cluster_uuid, compat) = (uuid(&engine), call.state.compat);
    let work = move |engine: &Engine| {
        let totals = totals(engine, &selection)?;
        let stats = engine.database().stats();
        let stats = stats.map_err(|error| Failure::engine(&error, None))?;
        let free = stats.volumes.iter().filter_map(|volume| volume.free_bytes);
        let free: u64 = free.sum();
        let (micros, _) = engine.clock();
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let primaries = totals.partitions;
        let shards_of_each = average(primaries, totals.collections);
        let each = json!({"min": shards_of_each, "max": shards_of_each, "avg": shards_of_each});
        let mut segments = zeros(&OF_SEGMENTS);
        segments["max_unsafe_auto_id_timestamp"] = (-1).into();
        segments["file_sizes"] = json!({});
        Ok(Answer::ok(&json!({
            "_nodes": {"total": 1, "successful": 1, "failed": 0},
            "cluster_name": "quire",
            "cluster_uuid": cluster_uuid,
            "timestamp": micros.div_euclid(1000),
            "status": status(engine),
            "indices": {
                "count": totals.collections,
                "shards": {
                    "total": primaries,
                    "primaries": primaries,
                    "replication": 0.0,
                    "index": {
                        "shards": each,
                        "primaries": each,
                        "replication": {"min": 0.0, "max": 0.0, "avg": 0.0},
                    },
                },
                "docs": {"count": totals.documents, "deleted": 0},
                "store": {"size_in_bytes": totals.bytes, "reserved_in_bytes": 0},
                "fielddata": {"memory_size_in_bytes": 0, "evictions": 0},
                "query_cache": zeros(&OF_QUERY_CACHE),
                "completion": {"size_in_bytes": 0},
                "segments": segments,
                "mappings": {"field_types": []},
                "analysis": lists(&OF_ANALYSIS),
                "versions": [],
            },
            "nodes": {
                "count": {
                    "total": 1,
                    "data": 1,
                    "cluster_manager": 1,
                    "master": 1,
                    "ingest": 0,
                    "coordinating_only": 0,
                    "remote_cluster_client": 0,
                    "search": 0,
                },
                "versions": [compat.version()],
                "os": {
                    "available_processors": processors,
                    "allocated_processors": processors,
                    "names": [{"name": std::env::consts::OS, "count": 1}],
                    "pretty_names": [{"pretty_name": std::env::consts::OS, "count": 1}],
                    "mem": zeros(&["total_in_bytes", "free_in_bytes", "used_in_bytes",
                        "free_percent", "used_percent"]),
                },
                "process": {
                    "cpu": {"percent": 0},
                    "open_file_descriptors": {"min": 0, "max": 0, "avg": 0},
                },
                "jvm": {
                    "max_uptime_in_millis": 0,
                    "versions": [],
                    "mem": {
                        "heap_used_in_bytes": stats.memory_used_bytes,
                        "heap_max_in_bytes": stats.memory_bytes,
                    },
                    "threads": 0,
                },
                "fs": {
                    "total_in_bytes": free + totals.bytes,
                    "free_in_bytes": free,
                    "available_in_bytes": free,
                },
                "plugins": [],
                "network_types": {"transport_types": {}, "http_types": {"quire": 1}},
                "discovery_types": {"single-node": 1},
                "packaging_types": [],
                "ingest": {"number_of_pipelines": 0, "processor_stats": {}},
            },
        })))
    };
    engine.read(work).await?
}

fn average(sum: u64, count: u64) -> f64 {
    sum as f64 / count.max(1) as f64
}

fn zeros(names: &[&str]) -> Value {
    let zero = |name: &&str| ((*name).to_owned(), 0.into());
    Value::Object(names.iter().map(zero).collect::<Map<_, _>>())
}

fn lists(names: &[&str]) -> Value {
    let empty = |name: &&str| ((*name).to_owned(), json!([]));
    Value::Object(names.iter().map(empty).collect::<Map<_, _>>())
}
