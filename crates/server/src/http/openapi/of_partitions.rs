//! Schemas of partitions, as OpenSearch shows shards.

use serde_json::{Value, json};

use super::kinds::{
    Group, any, list, map, members, named, nullable, number, object, switch, text, with_example,
};

pub(super) fn group() -> Group {
    [shards(), files()].concat()
}

fn shards() -> Group {
    let (text, number, switch) = (text(), number(), switch());
    let counts = json!({"total": 4, "successful": 4, "failed": 0});
    let shard = json!({
        "state": "STARTED", "primary": true, "node": "quire", "relocating_node": null,
        "shard": 0, "index": "tracks",
    });
    let indices = members(json!({"aliases": list(text.clone()), "filter": any()}));
    let node = json!({"name": "quire", "transport_address": "127.0.0.1:9200"});
    vec![
        (
            "ShardCounts",
            object(
                json!({
                    "total": number, "successful": number, "skipped": number, "failed": number,
                }),
                counts.clone(),
            ),
        ),
        (
            "Shards",
            object(
                json!({"_shards": named("ShardCounts")}),
                json!({"_shards": counts}),
            ),
        ),
        (
            "RoutedShard",
            object(
                json!({
                    "state": text, "primary": switch, "searchOnly": switch, "node": text,
                    "relocating_node": nullable(text.clone()), "shard": number, "index": text,
                }),
                shard.clone(),
            ),
        ),
        (
            "Slice",
            object(
                json!({"slice": members(json!({"id": number, "max": number}))}),
                json!({"slice": {"id": 0, "max": 2}}),
            ),
        ),
        (
            "SearchShards",
            object(
                json!({
                    "nodes": map(named("Node")), "indices": map(indices),
                    "shards": list(list(named("RoutedShard"))),
                }),
                json!({
                    "nodes": {"quire": node}, "indices": {"tracks": {}}, "shards": [[shard]],
                }),
            ),
        ),
    ]
}

/// What partitions have on disk.
fn files() -> Group {
    let (text, number, switch) = (text(), number(), switch());
    let segment = members(json!({
        "generation": number, "num_docs": number, "deleted_docs": number,
        "size_in_bytes": number, "memory_in_bytes": number, "committed": switch,
        "search": switch, "version": text, "compound": switch, "attributes": any(),
    }));
    let segmented = members(json!({
        "routing": named("RoutedShard"), "num_committed_segments": number,
        "num_search_segments": number, "segments": map(segment),
    }));
    // A store has one more member, whose name is that of its node.
    let stores = list(members(json!({"allocation_id": text, "allocation": text})));
    let by_collection = |shard: Value| map(members(json!({"shards": map(shard)})));
    vec![
        (
            "Segments",
            object(
                json!({
                    "_shards": named("ShardCounts"), "indices": by_collection(list(segmented)),
                }),
                json!({
                    "_shards": {"total": 1, "successful": 1, "failed": 0},
                    "indices": {"tracks": {"shards": {"0": [{
                        "routing": {"state": "STARTED", "primary": true, "node": "quire"},
                        "num_committed_segments": 1, "num_search_segments": 1,
                        "segments": {"_0": {"num_docs": 3, "size_in_bytes": 4096}},
                    }]}}},
                }),
            ),
        ),
        (
            "ShardStores",
            object(
                json!({"indices": by_collection(members(json!({"stores": stores})))}),
                json!({"indices": {"tracks": {"shards": {"0": {"stores": [{
                    "quire": {"name": "quire"}, "allocation_id": "DYwk1-0",
                    "allocation": "primary",
                }]}}}}}),
            ),
        ),
        (
            "Recovery",
            object(
                json!({
                    "id": number, "type": text, "stage": text, "primary": switch,
                    "start_time": text, "start_time_in_millis": number, "stop_time": text,
                    "stop_time_in_millis": number, "total_time": text,
                    "total_time_in_millis": number, "source": any(), "target": map(text.clone()),
                    "index": any(), "translog": any(), "verify_index": map(number.clone()),
                }),
                json!({
                    "id": 0, "type": "EXISTING_STORE", "stage": "DONE", "primary": true,
                    "total_time": "2ms", "total_time_in_millis": 2,
                }),
            ),
        ),
        (
            "Recoveries",
            with_example(
                map(members(json!({"shards": list(named("Recovery"))}))),
                json!({"tracks": {"shards": [{
                    "id": 0, "type": "EXISTING_STORE", "stage": "DONE", "primary": true,
                }]}}),
            ),
        ),
    ]
}
