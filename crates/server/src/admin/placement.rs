//! Where partitions are, as a cluster's state says it: each is a primary shard on the one node.

use quiredb::Collection;
use serde_json::{Map, Value, json};

use crate::tasks::listed::NODE;

/// A partition as a shard.
fn shard(collection: &Collection, number: u32) -> Value {
    json!({
        "state": "STARTED",
        "primary": true,
        "searchOnly": false,
        "node": NODE,
        "relocating_node": null,
        "shard": number,
        "index": collection.name(),
    })
}

/// The `routing_table` of a cluster's state.
pub(super) fn table(collections: &[Collection]) -> Value {
    let of_one = |collection: &Collection| {
        let partitions = 0..collection.settings().partitions;
        let shards = partitions.map(|at| (at.to_string(), json!([shard(collection, at)])));
        let shards: Map<String, Value> = shards.collect();
        (collection.name().to_owned(), json!({ "shards": shards }))
    };
    let indices: Map<String, Value> = collections.iter().map(of_one).collect();
    json!({ "indices": indices })
}

/// The `routing_nodes` of a cluster's state.
pub(super) fn of_nodes(collections: &[Collection]) -> Value {
    let of_one = |collection: &Collection| {
        let partitions = 0..collection.settings().partitions;
        partitions
            .map(|at| shard(collection, at))
            .collect::<Vec<_>>()
    };
    let all: Vec<Value> = collections.iter().flat_map(of_one).collect();
    json!({"unassigned": [], "nodes": {NODE: all}})
}
