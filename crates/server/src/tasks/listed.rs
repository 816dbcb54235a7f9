//! Tasks as answers show them, in the shapes of OpenSearch. The server is one node.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::task::Task;

/// The name of the only node.
pub(super) const NODE: &str = "quire";

/// The id of a task, as callers see it.
pub(crate) fn id_of(id: u64) -> String {
    format!("{NODE}:{id}")
}

/// One task; `now` is by the monotonic clock.
pub(super) fn task(task: &Task, now: Duration) -> Value {
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
pub(crate) fn list(tasks: &[Arc<Task>], grouping: Grouping, now: Duration) -> Value {
    let by_id = |tasks: &[Arc<Task>]| -> Map<String, Value> {
        let one = |one: &Arc<Task>| (id_of(one.id), task(one, now));
        tasks.iter().map(one).collect()
    };
    match grouping {
        Grouping::Nothing => {
            let all: Vec<Value> = tasks.iter().map(|one| task(one, now)).collect();
            json!({"tasks": all})
        }
        Grouping::Parents => json!({"tasks": by_id(tasks)}),
        Grouping::Nodes if tasks.is_empty() => json!({"nodes": {}}),
        Grouping::Nodes => json!({"nodes": {NODE: {"name": NODE, "tasks": by_id(tasks)}}}),
    }
}
