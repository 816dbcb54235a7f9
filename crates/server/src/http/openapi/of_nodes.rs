//! Schemas of the one node, and of the requests that run on it.

use serde_json::{Value, json};

use super::kinds::{
    Group, any, both, list, map, members, named, nullable, number, object, switch, text,
};

pub(super) fn group() -> Group {
    [nodes(), tasks()].concat()
}

/// What is said of a node in every answer about nodes.
fn node() -> Value {
    let text = text();
    json!({
        "name": text, "transport_address": text, "host": text, "ip": text,
        "roles": list(text.clone()), "attributes": any(),
    })
}

/// As [`node`], with the version of what it runs.
fn versioned() -> Value {
    let text = text();
    both(
        node(),
        json!({"version": text, "build_type": text, "build_hash": text}),
    )
}

/// An answer of nodes, of these members, by their names.
fn answer(node: Value) -> Value {
    json!({"_nodes": named("ShardCounts"), "cluster_name": text(), "nodes": map(node)})
}

fn nodes() -> Group {
    let text = text();
    let counts = json!({"total": 1, "successful": 1, "failed": 0});
    let one = json!({
        "name": "quire", "transport_address": "127.0.0.1:9200", "host": "127.0.0.1",
        "ip": "127.0.0.1", "roles": ["cluster_manager", "data"], "attributes": {},
    });
    let example =
        |node: Value| json!({"_nodes": counts, "cluster_name": "quire", "nodes": {"quire": node}});
    let secret = members(json!({"name": text, "reload_exception": named("ErrorCause")}));
    vec![
        ("Node", object(versioned(), one.clone())),
        ("NodeInfo", object(both(versioned(), info()), one.clone())),
        (
            "Nodes",
            object(answer(named("NodeInfo")), example(one.clone())),
        ),
        ("NodeStats", object(both(versioned(), stats()), one.clone())),
        (
            "NodesStats",
            object(
                answer(named("NodeStats")),
                example(json!({
                    "name": "quire", "http": {"current_open": 1, "total_opened": 130},
                    "indices": {"docs": {"count": 3, "deleted": 0}},
                })),
            ),
        ),
        (
            "SecureSettings",
            object(
                json!({"secure_settings_password": nullable(text.clone())}),
                json!({"secure_settings_password": ""}),
            ),
        ),
        (
            "NodesReloaded",
            object(answer(secret), example(json!({"name": "quire"}))),
        ),
        (
            "NodeTasks",
            object(
                both(node(), json!({"tasks": map(named("Task"))})),
                both(
                    one,
                    json!({"tasks": {"quire:7": {
                        "node": "quire", "id": 7, "action": "indices:data/write/reindex",
                    }}}),
                ),
            ),
        ),
    ]
}

/// The parts of what a node is.
fn info() -> Value {
    let (text, number) = (text(), number());
    let addresses = json!({"bound_address": list(text.clone()), "publish_address": text});
    json!({
        "settings": any(),
        "os": members(json!({
            "name": text, "arch": text, "available_processors": number,
            "allocated_processors": number,
        })),
        "process": members(json!({"id": number, "mlockall": switch()})),
        "thread_pool": map(members(json!({
            "type": text, "size": number, "queue_size": number,
        }))),
        "transport": members(both(addresses.clone(), json!({"profiles": any()}))),
        "http": members(both(addresses, json!({"max_content_length_in_bytes": number}))),
        "plugins": list(any()),
        "ingest": members(json!({"processors": list(any())})),
        "aggregations": map(members(json!({"types": list(text)}))),
    })
}

/// The parts of what a node holds and has done.
fn stats() -> Value {
    let number = number();
    json!({
        "timestamp": number, "indices": named("Figures"), "os": any(), "process": any(),
        "jvm": any(),
        "thread_pool": map(map(nullable(number.clone()))),
        "fs": any(),
        "transport": map(number.clone()),
        "http": members(json!({"current_open": number, "total_opened": number})),
        "breakers": any(), "script": map(number.clone()), "discovery": any(), "ingest": any(),
        "adaptive_selection": any(), "indexing_pressure": any(),
        "search_backpressure": members(json!({"mode": text()})),
    })
}

fn tasks() -> Group {
    let (text, number, switch) = (text(), number(), switch());
    let task = json!({
        "node": "quire", "id": 7, "action": "indices:data/write/reindex", "cancellable": true,
        "status": {"total": 3, "created": 1, "batches": 1},
    });
    vec![
        (
            "Task",
            object(
                json!({
                    "node": text, "id": number, "type": text, "action": text,
                    "description": text, "start_time_in_millis": number,
                    "running_time_in_nanos": number, "cancellable": switch, "cancelled": switch,
                    "headers": map(text.clone()),
                    "quire": members(json!({
                        "token": text, "address": nullable(text.clone()),
                    })),
                    "resource_stats": any(), "status": any(), "parent_task_id": text,
                }),
                task.clone(),
            ),
        ),
        // By node, or, if the request says so, by id or as a list.
        (
            "Tasks",
            object(
                json!({"nodes": map(named("NodeTasks")), "tasks": {}}),
                json!({"nodes": {"quire": {"tasks": {"quire:7": task}}}}),
            ),
        ),
        (
            "TaskResult",
            object(
                json!({
                    "completed": switch, "task": named("Task"), "response": any(), "error": any(),
                }),
                json!({"completed": false, "task": task}),
            ),
        ),
    ]
}
