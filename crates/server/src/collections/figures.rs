//! The figures of a collection in the shape of OpenSearch's `_stats`.
//!
//! What never happens here is 0: there is no refresh, no cache of queries or of requests, no
//! fielddata, no completion, no warmer, no recovery from another node. A merge is a compaction of a
//! tree; the time that merges and flushes take is not measured, and is 0. Requests are counted
//! where they come over HTTP; a search counts once for a collection, whatever the number of its
//! partitions.

use quiredb::{CollectionStats, Usage, Use};
use serde_json::{Map, Value, json};

use crate::http::fields::matches;

/// The parts, and their names in the answer.
pub(crate) const PARTS: [(&str, &str); 16] = [
    ("docs", "docs"),
    ("store", "store"),
    ("indexing", "indexing"),
    ("get", "get"),
    ("search", "search"),
    ("merge", "merges"),
    ("refresh", "refresh"),
    ("flush", "flush"),
    ("warmer", "warmer"),
    ("query_cache", "query_cache"),
    ("fielddata", "fielddata"),
    ("completion", "completion"),
    ("segments", "segments"),
    ("translog", "translog"),
    ("request_cache", "request_cache"),
    ("recovery", "recovery"),
];

/// The names of the parts, as requests have them.
pub(crate) fn part_names() -> [&'static str; PARTS.len()] {
    PARTS.map(|(name, _)| name)
}

/// What figures are made of.
pub(crate) struct Sources<'s> {
    pub(crate) stats: &'s CollectionStats,
    /// None of one partition of several: requests are counted for the whole collection.
    pub(crate) usage: Option<&'s Usage>,
    /// Scrolls and points in time that are open.
    pub(crate) open: (u64, u64),
    /// The partitions that have documents.
    pub(crate) filled: u64,
}

/// What of them is shown.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shown {
    /// Patterns of the groups of searches.
    pub(crate) groups: Vec<String>,
    /// Whether the bytes of files are shown by their kind.
    pub(crate) has_files: bool,
}

/// The figures that `has` names.
pub(crate) fn figures(of: &Sources<'_>, shown: &Shown, has: impl Fn(&str) -> bool) -> Value {
    let mut out = Map::new();
    for (part, name) in PARTS {
        if has(part)
            && let Some(value) = figure(part, of, shown)
        {
            out.insert(name.to_owned(), value);
        }
    }
    Value::Object(out)
}

fn figure(part: &str, of: &Sources<'_>, shown: &Shown) -> Option<Value> {
    let stats = of.stats;
    Some(match part {
        "docs" => json!({"count": stats.documents, "deleted": 0}),
        "store" => json!({"size_in_bytes": stats.disk_bytes, "reserved_in_bytes": 0}),
        "indexing" => indexing(of.usage?, stats),
        "get" => get(of.usage?),
        "search" => search(of.usage?, of.open, &shown.groups),
        "merge" => json!({
            "current": 0,
            "current_docs": 0,
            "current_size_in_bytes": 0,
            "total": stats.compactions,
            "total_time_in_millis": 0,
            "total_docs": 0,
            "total_size_in_bytes": 0,
            "total_stopped_time_in_millis": 0,
            "total_throttled_time_in_millis": 0,
            "total_auto_throttle_in_bytes": 0,
        }),
        "refresh" => json!({
            "total": 0,
            "total_time_in_millis": 0,
            "external_total": 0,
            "external_total_time_in_millis": 0,
            "listeners": 0,
        }),
        "flush" => json!({"total": stats.flushes, "periodic": 0, "total_time_in_millis": 0}),
        "warmer" => json!({"current": 0, "total": 0, "total_time_in_millis": 0}),
        "query_cache" => json!({
            "memory_size_in_bytes": 0,
            "total_count": 0,
            "hit_count": 0,
            "miss_count": 0,
            "cache_size": 0,
            "cache_count": 0,
            "evictions": 0,
        }),
        "fielddata" => json!({"memory_size_in_bytes": 0, "evictions": 0}),
        "completion" => json!({"size_in_bytes": 0}),
        "segments" => segments(of, shown),
        "translog" => json!({
            "operations": stats.unflushed_records,
            "size_in_bytes": stats.memtable_bytes,
            "uncommitted_operations": stats.unflushed_records,
            "uncommitted_size_in_bytes": stats.memtable_bytes,
            "earliest_last_modified_age": 0,
        }),
        "request_cache" => json!({
            "memory_size_in_bytes": 0,
            "evictions": 0,
            "hit_count": 0,
            "miss_count": 0,
        }),
        _ => json!({
            "current_as_source": 0,
            "current_as_target": 0,
            "throttle_time_in_millis": 0,
        }),
    })
}

fn indexing(usage: &Usage, stats: &CollectionStats) -> Value {
    let (index, delete) = (usage.figures(Use::Index), usage.figures(Use::Delete));
    let statuses = usage.statuses().into_iter().zip(1..);
    let statuses = statuses.filter(|(count, _)| *count > 0);
    let statuses: Map<String, Value> = statuses
        .map(|(count, hundreds)| (format!("{hundreds}xx"), count.into()))
        .collect();
    json!({
        "index_total": index.count,
        "index_time_in_millis": index.millis,
        "index_current": index.running,
        "index_failed": usage.index_failures(),
        "delete_total": delete.count,
        "delete_time_in_millis": delete.millis,
        "delete_current": delete.running,
        "noop_update_total": usage.noops(),
        "is_throttled": false,
        "throttle_time_in_millis": stats.write_stall_micros / 1000,
        "doc_status": statuses,
    })
}

fn get(usage: &Usage) -> Value {
    let (found, missing) = (usage.figures(Use::GetFound), usage.figures(Use::GetMissing));
    json!({
        "total": found.count + missing.count,
        "time_in_millis": found.millis + missing.millis,
        "exists_total": found.count,
        "exists_time_in_millis": found.millis,
        "missing_total": missing.count,
        "missing_time_in_millis": missing.millis,
        "current": found.running,
    })
}

fn search(usage: &Usage, (scrolls, points): (u64, u64), groups: &[String]) -> Value {
    let (query, fetch) = (usage.figures(Use::Query), usage.figures(Use::Fetch));
    let scroll = usage.figures(Use::Scroll);
    let mut shown = json!({
        "open_contexts": scrolls + points,
        "query_total": query.count,
        "query_time_in_millis": query.millis,
        "query_current": query.running,
        "concurrent_query_total": 0,
        "concurrent_query_time_in_millis": 0,
        "concurrent_query_current": 0,
        "concurrent_avg_slice_count": 0.0,
        "fetch_total": fetch.count,
        "fetch_time_in_millis": fetch.millis,
        "fetch_current": fetch.running,
        "scroll_total": scroll.count,
        "scroll_time_in_millis": scroll.millis,
        "scroll_current": scrolls,
        "point_in_time_total": usage.figures(Use::Point).count,
        "point_in_time_time_in_millis": 0,
        "point_in_time_current": points,
        "suggest_total": 0,
        "suggest_time_in_millis": 0,
        "suggest_current": 0,
        "search_idle_reactivate_count_total": 0,
    });
    let named = usage.groups().into_iter();
    let named: Map<String, Value> = named
        .filter(|(name, _)| matches(groups, name))
        .map(|(name, group)| {
            let group = json!({
                "query_total": group.count,
                "query_time_in_millis": group.millis,
                "query_current": 0,
            });
            (name, group)
        })
        .collect();
    if !named.is_empty() {
        shown["groups"] = named.into();
    }
    shown
}

fn segments(of: &Sources<'_>, shown: &Shown) -> Value {
    let stats = of.stats;
    let files = match shown.has_files {
        true => json!({
            "log": {"size_in_bytes": stats.log_bytes, "description": "Log"},
            "tables": {"size_in_bytes": stats.table_bytes, "description": "Tables of trees"},
        }),
        false => json!({}),
    };
    json!({
        "count": of.filled,
        "memory_in_bytes": 0,
        "terms_memory_in_bytes": 0,
        "stored_fields_memory_in_bytes": 0,
        "term_vectors_memory_in_bytes": 0,
        "norms_memory_in_bytes": 0,
        "points_memory_in_bytes": 0,
        "doc_values_memory_in_bytes": 0,
        "index_writer_memory_in_bytes": stats.memtable_bytes,
        "version_map_memory_in_bytes": 0,
        "fixed_bit_set_memory_in_bytes": 0,
        "max_unsafe_auto_id_timestamp": -1,
        "file_sizes": files,
    })
}

/// Adds figures: numbers are summed, but a negative one, which is none, stays as it is.
pub(crate) fn add(sum: &mut Value, other: &Value) {
    match (&mut *sum, other) {
        (Value::Object(sum), Value::Object(other)) => {
            for (name, value) in other {
                match sum.get_mut(name) {
                    Some(sum) => add(sum, value),
                    None => drop(sum.insert(name.clone(), value.clone())),
                }
            }
        }
        (Value::Number(one), Value::Number(other)) => {
            if let (Some(one), Some(other)) = (one.as_u64(), other.as_u64()) {
                *sum = (one + other).into();
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_summed_and_what_is_no_figure_stays() {
        let mut sum = json!({"a": {"n": 1, "is": false, "none": -1}, "text": "x"});
        add(
            &mut sum,
            &json!({"a": {"n": 2, "is": false, "none": -1}, "text": "x", "new": 3}),
        );
        let expected = json!({"a": {"n": 3, "is": false, "none": -1}, "text": "x", "new": 3});
        assert_eq!(sum, expected);
    }
}
