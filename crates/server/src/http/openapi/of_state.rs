//! Schemas of the state of the server as a cluster of one node, and of changes of it.

use serde_json::{Value, json};

use super::kinds::{Group, any, list, map, members, named, number, object, switch, text};

pub(super) fn group() -> Group {
    let example = json!({
        "cluster_name": "quire", "cluster_uuid": "wuZLPfPac5PJM5BGfy6bFQ", "version": 1,
        "cluster_manager_node": "quire", "nodes": {"quire": {"name": "quire"}},
    });
    let explained = members(json!({
        "command": text(), "parameters": any(),
        "decisions": list(members(json!({
            "decider": text(), "decision": text(), "explanation": text(),
        }))),
    }));
    vec![
        ("ClusterState", object(state(), example.clone())),
        // A command is an object of one member, which names it.
        (
            "Reroute",
            object(
                json!({"commands": list(map(any()))}),
                json!({"commands": [{"move": {
                    "index": "tracks", "shard": 0, "from_node": "quire", "to_node": "other",
                }}]}),
            ),
        ),
        (
            "Rerouted",
            object(
                json!({
                    "acknowledged": switch(), "state": named("ClusterState"),
                    "explanations": list(explained),
                }),
                json!({"acknowledged": true, "state": example}),
            ),
        ),
    ]
}

/// The parts of the state; a request may name some.
fn state() -> Value {
    let (text, number, switch) = (text(), number(), switch());
    let names = list(text.clone());
    let shards = list(named("RoutedShard"));
    let block = members(json!({
        "description": text, "retryable": switch, "levels": names,
    }));
    let index = members(json!({
        "aliases": names, "mappings": any(), "settings": any(), "state": text,
        "routing_num_shards": number,
    }));
    json!({
        "cluster_name": text, "cluster_uuid": text, "version": number, "state_uuid": text,
        "master_node": text, "cluster_manager_node": text, "nodes": map(named("Node")),
        // By collection, then by the number of the block.
        "blocks": members(json!({"indices": map(map(block))})),
        "metadata": members(json!({
            "cluster_uuid": text, "cluster_coordination": any(), "templates": any(),
            "indices": map(index),
        })),
        "routing_table": members(json!({
            "indices": map(members(json!({"shards": map(shards.clone())}))),
        })),
        "routing_nodes": members(json!({"unassigned": shards, "nodes": map(shards)})),
    })
}
