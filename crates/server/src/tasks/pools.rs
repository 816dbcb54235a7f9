//! `_cat/thread_pool`: how many requests of each kind are running.

use super::calls::TasksState;
use super::listed::NODE;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::Outcome;
use crate::http::fields::glob;
use crate::http::table::{Cell, Column, TableFormat};

const COLUMNS: &[Column] = &[
    ("node_name", "nn", "the node's name"),
    ("name", "n", "the kind of requests"),
    (
        "active",
        "a",
        "requests that are running, or wait for a thread",
    ),
    ("queue", "q", "0: those that wait are among the active ones"),
    (
        "rejected",
        "r",
        "requests refused because no thread was free in time",
    ),
];

/// The kinds, as OpenSearch calls the pools that do them. What is of no other kind is of the last.
pub(crate) const KINDS: [&str; 4] = ["get", "search", "write", "management"];

/// `GET /_cat/thread_pool`, `/_cat/thread_pool/{name}`
pub(crate) async fn table(call: Call<TasksState>) -> Outcome<Answer> {
    let format = TableFormat::of(&call.params, COLUMNS)?;
    let patterns = call.path_param("name").unwrap_or("*");
    let is_named = |kind: &str| {
        let mut patterns = patterns.split(',');
        patterns.any(|pattern| glob(pattern.as_bytes(), kind.as_bytes()))
    };
    let tasks = call.state.tasks.all();
    let rows = KINDS.iter().filter(|kind| is_named(kind)).map(|kind| {
        let active = tasks.iter().filter(|task| kind_of(task.action) == *kind);
        vec![
            Cell::text(NODE),
            Cell::text(*kind),
            Cell::Number(active.count() as u64),
            Cell::Number(0),
            Cell::Number(call.state.engine.rejected(kind)),
        ]
    });
    Ok(format.answer(rows.collect()))
}

/// The kind of an action.
pub(crate) fn kind_of(action: &str) -> &'static str {
    match action {
        "indices:data/read/get" | "indices:data/read/mget" => "get",
        _ if action.starts_with("indices:data/read/") => "search",
        _ if action.starts_with("indices:data/write/") => "write",
        _ => "management",
    }
}
