//! The types of parameters.

use serde_json::{Value, json};

/// Whole numbers.
const NUMBERS: [&str; 16] = [
    "batched_reduce_size",
    "count",
    "if_primary_term",
    "if_seq_no",
    "keep",
    "limit",
    "max_concurrent_searches",
    "max_concurrent_shard_requests",
    "max_docs",
    "partition",
    "pre_filter_shard_size",
    "rate_bytes",
    "retry_on_conflict",
    "scroll_size",
    "size",
    "wait_ms",
];

/// Those that are true or false.
const SWITCHES: [&str; 57] = [
    "active_only",
    "all_shards",
    "allow_no_indices",
    "allow_partial_pit_creation",
    "allow_partial_search_results",
    "analyze_wildcard",
    "ccs_minimize_roundtrips",
    "copy_settings",
    "create",
    "detailed",
    "dry_run",
    "error_trace",
    "explain",
    "fielddata",
    "file",
    "flat_settings",
    "flush",
    "forbid_closed_indices",
    "force",
    "full_id",
    "help",
    "human",
    "ignore_throttled",
    "ignore_unavailable",
    "include_defaults",
    "include_disk_info",
    "include_segment_file_sizes",
    "include_unloaded_segments",
    "include_unmapped",
    "include_yes_decisions",
    "lenient",
    "local",
    "only_ancient_segments",
    "only_expunge_deletes",
    "preserve_existing",
    "pretty",
    "primary_only",
    "query",
    "quire",
    "realtime",
    "request",
    "request_cache",
    "require_alias",
    "rest_total_hits_as_int",
    "retry_failed",
    "rewrite",
    "seq_no_primary_term",
    "ts",
    "typed_keys",
    "v",
    "verbose",
    "wait_for_completion",
    "wait_for_no_initializing_shards",
    "wait_for_no_relocating_shards",
    "wait_for_removal",
    "wait_if_ongoing",
    "write_index_only",
];

/// The type of a parameter's values in requests of a path.
pub(super) fn type_of(path: &str, name: &str) -> Value {
    let is_search = path.ends_with("/_search");
    let kind = match name {
        // Whether hits have versions; elsewhere the version of a document.
        "version" if is_search => "boolean",
        "version" | "max_num_segments" => "integer",
        "from" if is_search => "integer",
        "requests_per_second" => "number",
        _ if NUMBERS.contains(&name) => "integer",
        _ if SWITCHES.contains(&name) => "boolean",
        _ => "string",
    };
    json!({"type": kind})
}
