//! Tasks as answers show them, in the shapes of OpenSearch. The server is one node.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::task::Task;

/// The name and the id of the only node.
pub(crate) const NODE: &str = "quire";

/// What the node does.
pub(crate) const ROLES: [&str; 2] = ["cluster_manager", "data"];

/// What is said of the node beside what it has.
pub(crate) fn node(listen: SocketAddr) -> Map<String, Value> {
    let member = |name: &str, value: Value| (name.to_owned(), value);
    Map::from_iter([
        member("name", NODE.into()),
        member("transport_address", listen.to_string().into()),
        member("host", listen.ip().to_string().into()),
        member("ip", listen.ip().to_string().into()),
        member("roles", json!(ROLES)),
        member("attributes", json!({})),
    ])
}

/// The id of a task, as callers see it.
pub(crate) fn id_of(id: u64) -> String {
    format!("{NODE}:{id}")
}

/// One task; `now` is by the monotonic clock. In detail it has the CPU time of its threads; the
/// memory that it has is not measured, and is 0.
pub(super) fn task(task: &Task, now: Duration, is_detailed: bool) -> Value {
    let took = now.saturating_sub(task.begun).as_nanos();
    let mut headers = Map::new();
    if let Some(id) = &task.request.opaque_id {
        headers.insert("X-Opaque-Id".into(), id.as_str().into());
    }
    let mut shown = json!({
        "node": NODE,
        "id": task.id,
        "type": "transport",
        "action": task.action,
        "description": task.description(),
        "start_time_in_millis": task.start_micros / 1000,
        "running_time_in_nanos": u64::try_from(took).unwrap_or(u64::MAX),
        "cancellable": task.is_cancellable,
        "cancelled": task.is_cancelled(),
        "headers": headers,
        "quire": {"token": task.request.token, "address": task.request.address},
    });
    if is_detailed && let Some(cpu) = task.cpu() {
        let spent = u64::try_from(cpu.spent().as_nanos()).unwrap_or(u64::MAX);
        let total = json!({"cpu_time_in_nanos": spent, "memory_in_bytes": 0});
        let (done, running) = cpu.threads();
        shown["resource_stats"] = json!({
            "total": total,
            "average": total,
            "min": total,
            "max": total,
            "thread_info": {"thread_executions": done + running, "active_threads": running},
        });
    }
    if let Some(progress) = task.progress() {
        let mut status = progress.to_json(task.rate());
        let slices = task.slices().iter().map(|slice| {
            let progress = slice.progress().unwrap_or_default();
            progress.to_json(slice.rate())
        });
        let slices: Vec<Value> = slices.collect();
        if !slices.is_empty() {
            status["slices"] = slices.into();
        }
        shown["status"] = status;
    }
    if let Some(stage) = task.stage() {
        shown["status"] = stage.to_json();
    }
    if let Some(parent) = task.parent {
        shown["parent_task_id"] = id_of(parent).into();
    }
    shown
}

/// How a list is grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grouping {
    Nodes,
    Parents,
    Nothing,
}

/// A list of tasks.
pub(crate) fn list(
    tasks: &[Arc<Task>],
    grouping: Grouping,
    (now, is_detailed): (Duration, bool),
    listen: SocketAddr,
) -> Value {
    let by_id = |tasks: &[Arc<Task>]| -> Map<String, Value> {
        let one = |one: &Arc<Task>| (id_of(one.id), task(one, now, is_detailed));
        tasks.iter().map(one).collect()
    };
    match grouping {
        Grouping::Nothing => {
            let all: Vec<Value> = tasks
                .iter()
                .map(|one| task(one, now, is_detailed))
                .collect();
            json!({"tasks": all})
        }
        Grouping::Parents => json!({"tasks": by_id(tasks)}),
        Grouping::Nodes if tasks.is_empty() => json!({"nodes": {}}),
        Grouping::Nodes => {
            let mut node = node(listen);
            node.insert("tasks".to_owned(), by_id(tasks).into());
            json!({"nodes": {NODE: node}})
        }
    }
}
