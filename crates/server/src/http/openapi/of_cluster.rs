//! Schemas of the server as a cluster of one node: its health, settings and figures.

use serde_json::{Value, json};

use super::kinds::{
    Group, any, list, map, members, named, number, object, real, switch, text, with_example,
};

pub(super) fn group() -> Group {
    let (text, number, switch) = (text(), number(), switch());
    vec![
        (
            "Info",
            object(
                json!({
                    "name": text, "cluster_name": text, "cluster_uuid": text, "version": any(),
                    "quire": members(json!({"version": text})), "tagline": text,
                }),
                json!({
                    "name": "quire", "cluster_name": "quire",
                    "version": {"distribution": "opensearch", "number": "2.19.0"},
                }),
            ),
        ),
        (
            "Health",
            object(
                json!({
                    "cluster_name": text, "status": text, "timed_out": switch,
                    "number_of_nodes": number, "number_of_data_nodes": number,
                    "active_primary_shards": number, "active_shards": number,
                    "active_shards_percent_as_number": real(), "indices": map(any()),
                }),
                json!({
                    "cluster_name": "quire", "status": "green", "timed_out": false,
                    "active_shards": 4,
                }),
            ),
        ),
        (
            "ClusterSettings",
            object(
                json!({"persistent": any(), "transient": any()}),
                json!({"persistent": {}, "transient": {"search.max_buckets": "1000"}}),
            ),
        ),
        (
            "ClusterSettingsShown",
            object(
                json!({
                    "acknowledged": switch, "persistent": any(), "transient": any(),
                    "defaults": any(),
                }),
                json!({"persistent": {}, "transient": {"search": {"max_buckets": "1000"}}}),
            ),
        ),
        ("ClusterStats", cluster_stats()),
        (
            "PendingTasks",
            object(json!({"tasks": list(any())}), json!({"tasks": []})),
        ),
        // By name; there are none.
        ("RemoteClusters", with_example(map(any()), json!({}))),
        (
            "Nothing",
            with_example(
                json!({"type": "object", "additionalProperties": false}),
                json!({}),
            ),
        ),
        (
            "Partition",
            object(
                json!({
                    "index": text, "shard": number, "primary": switch, "current_node": text,
                }),
                json!({"index": "tracks", "shard": 0, "primary": true}),
            ),
        ),
        (
            "PartitionExplained",
            object(
                json!({
                    "index": text, "shard": number, "primary": switch, "current_state": text,
                    "current_node": members(json!({
                        "id": text, "name": text, "transport_address": text,
                        "weight_ranking": number,
                    })),
                    "can_remain_on_current_node": text, "can_rebalance_cluster": text,
                    "can_rebalance_to_other_node": text, "rebalance_explanation": text,
                }),
                json!({
                    "index": "tracks", "shard": 0, "primary": true, "current_state": "started",
                    "can_remain_on_current_node": "yes", "can_rebalance_cluster": "no",
                }),
            ),
        ),
    ]
}

fn cluster_stats() -> Value {
    let (text, number) = (text(), number());
    let counts = map(number.clone());
    let indices = members(json!({
        "count": number,
        "shards": members(json!({
            "total": number, "primaries": number, "replication": real(), "index": any(),
        })),
        "docs": members(json!({"count": number, "deleted": number})),
        "store": counts, "fielddata": counts, "query_cache": counts, "completion": counts,
        "segments": any(), "mappings": any(), "analysis": any(), "versions": list(any()),
    }));
    let nodes = members(json!({
        "count": counts, "versions": list(text.clone()), "os": any(), "process": any(),
        "jvm": any(), "fs": counts, "plugins": list(any()), "network_types": map(any()),
        "discovery_types": counts, "packaging_types": list(any()), "ingest": any(),
    }));
    object(
        json!({
            "_nodes": named("ShardCounts"), "cluster_name": text, "cluster_uuid": text,
            "timestamp": number, "status": text, "indices": indices, "nodes": nodes,
        }),
        json!({
            "_nodes": {"total": 1, "successful": 1, "failed": 0}, "cluster_name": "quire",
            "status": "green", "indices": {"count": 3, "docs": {"count": 12, "deleted": 0}},
            "nodes": {"versions": ["2.19.0"]},
        }),
    )
}
