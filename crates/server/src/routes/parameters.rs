//! The query parameters that routes know, by kind of request: others are refused by name.

pub(super) const READ: &[&str] = &[
    "_source",
    "_source_includes",
    "_source_excludes",
    "preference",
    "realtime",
    "refresh",
    "routing",
    "version",
    "version_type",
];
pub(super) const WRITE: &[&str] = &[
    "if_primary_term",
    "if_seq_no",
    "op_type",
    "pipeline",
    "refresh",
    "require_alias",
    "routing",
    "timeout",
    "version",
    "version_type",
    "wait_for_active_shards",
];
pub(super) const UPDATE: &[&str] = &[
    "_source",
    "_source_excludes",
    "_source_includes",
    "if_primary_term",
    "if_seq_no",
    "refresh",
    "require_alias",
    "retry_on_conflict",
    "routing",
    "timeout",
    "wait_for_active_shards",
];
pub(super) const DELETE: &[&str] = &[
    "if_primary_term",
    "if_seq_no",
    "refresh",
    "routing",
    "timeout",
    "wait_for_active_shards",
    "version",
    "version_type",
];
pub(super) const CELL: &[&str] = &["format", "from", "size", "to"];
pub(super) const WRITE_CELL: &[&str] = &[
    "if_primary_term",
    "if_seq_no",
    "refresh",
    "require_alias",
    "routing",
    "ttl",
];
pub(super) const DELETE_CELL: &[&str] = &[
    "from",
    "if_primary_term",
    "if_seq_no",
    "refresh",
    "require_alias",
    "routing",
    "to",
];
pub(super) const BULK: &[&str] = &[
    "_source",
    "_source_excludes",
    "_source_includes",
    "pipeline",
    "refresh",
    "require_alias",
    "routing",
    "timeout",
    "wait_for_active_shards",
];
pub(super) const MGET: &[&str] = &[
    "_source",
    "_source_excludes",
    "_source_includes",
    "preference",
    "realtime",
    "refresh",
    "routing",
];
pub(super) const ADMIN: &[&str] = &[
    "cluster_manager_timeout",
    "master_timeout",
    "timeout",
    "wait_for_active_shards",
];
pub(super) const DROP: &[&str] = &[
    "allow_no_indices",
    "cluster_manager_timeout",
    "expand_wildcards",
    "ignore_throttled",
    "ignore_unavailable",
    "master_timeout",
    "timeout",
];
pub(super) const LOOKUP: &[&str] = &[
    "allow_no_indices",
    "cluster_manager_timeout",
    "expand_wildcards",
    "flat_settings",
    "ignore_throttled",
    "ignore_unavailable",
    "include_defaults",
    "local",
    "master_timeout",
];
pub(super) const SELECT: &[&str] = &[
    "allow_no_indices",
    "expand_wildcards",
    "force",
    "ignore_throttled",
    "ignore_unavailable",
    "wait_if_ongoing",
];
pub(super) const MAPPING: &[&str] = &[
    "allow_no_indices",
    "cluster_manager_timeout",
    "expand_wildcards",
    "ignore_throttled",
    "ignore_unavailable",
    "local",
    "master_timeout",
    "quire",
];
pub(super) const PUT_MAPPING: &[&str] = &[
    "allow_no_indices",
    "cluster_manager_timeout",
    "expand_wildcards",
    "ignore_throttled",
    "ignore_unavailable",
    "master_timeout",
    "timeout",
    "write_index_only",
];
pub(super) const FIELD_MAPPING: &[&str] = &[
    "allow_no_indices",
    "expand_wildcards",
    "ignore_throttled",
    "ignore_unavailable",
    "include_defaults",
    "local",
];
pub(super) const FIELD_CAPS: &[&str] = &[
    "allow_no_indices",
    "expand_wildcards",
    "fields",
    "ignore_throttled",
    "ignore_unavailable",
    "include_unmapped",
];
pub(super) const SETTINGS: &[&str] = &[
    "allow_no_indices",
    "cluster_manager_timeout",
    "expand_wildcards",
    "flat_settings",
    "ignore_throttled",
    "ignore_unavailable",
    "master_timeout",
    "preserve_existing",
    "timeout",
];
pub(super) const STATS: &[&str] = &[
    "allow_no_indices",
    "completion_fields",
    "expand_wildcards",
    "fielddata_fields",
    "fields",
    "forbid_closed_indices",
    "groups",
    "ignore_throttled",
    "ignore_unavailable",
    "include_segment_file_sizes",
    "include_unloaded_segments",
    "level",
];
pub(super) const RECOVERY: &[&str] = &[
    "active_only",
    "allow_no_indices",
    "detailed",
    "expand_wildcards",
    "ignore_throttled",
    "ignore_unavailable",
];
pub(super) const SEGMENTS: &[&str] = &[
    "allow_no_indices",
    "expand_wildcards",
    "ignore_throttled",
    "ignore_unavailable",
    "verbose",
];
pub(super) const STORES: &[&str] = &[
    "allow_no_indices",
    "expand_wildcards",
    "ignore_throttled",
    "ignore_unavailable",
    "status",
];
pub(super) const SEARCH_SHARDS: &[&str] = &[
    "allow_no_indices",
    "expand_wildcards",
    "ignore_throttled",
    "ignore_unavailable",
    "local",
    "preference",
    "routing",
];
pub(super) const COUNT: &[&str] = &[
    "allow_no_indices",
    "expand_wildcards",
    "ignore_throttled",
    "ignore_unavailable",
    "preference",
    "routing",
];
pub(super) const SEARCH: &[&str] = &[
    "_source",
    "_source_excludes",
    "_source_includes",
    "allow_no_indices",
    "allow_partial_search_results",
    "batched_reduce_size",
    "ccs_minimize_roundtrips",
    "expand_wildcards",
    "from",
    "ignore_throttled",
    "ignore_unavailable",
    "max_concurrent_shard_requests",
    "pre_filter_shard_size",
    "preference",
    "request_cache",
    "rest_total_hits_as_int",
    "routing",
    "scroll",
    "search_type",
    "seq_no_primary_term",
    "size",
    "sort",
    "stored_fields",
    "timeout",
    "track_total_hits",
    "typed_keys",
    "version",
];
pub(super) const MSEARCH: &[&str] = &[
    "ccs_minimize_roundtrips",
    "max_concurrent_searches",
    "max_concurrent_shard_requests",
    "pre_filter_shard_size",
    "rest_total_hits_as_int",
    "search_type",
    "typed_keys",
];
pub(super) const SCROLL: &[&str] = &["rest_total_hits_as_int", "scroll", "scroll_id"];
pub(super) const POINT: &[&str] = &[
    "allow_no_indices",
    "allow_partial_pit_creation",
    "expand_wildcards",
    "ignore_throttled",
    "ignore_unavailable",
    "keep_alive",
    "preference",
    "routing",
];
pub(super) const BY_QUERY: &[&str] = &[
    "allow_no_indices",
    "conflicts",
    "expand_wildcards",
    "ignore_throttled",
    "ignore_unavailable",
    "max_docs",
    "preference",
    "refresh",
    "request_cache",
    "requests_per_second",
    "routing",
    "scroll",
    "scroll_size",
    "search_timeout",
    "slices",
    "timeout",
    "wait_for_active_shards",
    "wait_for_completion",
];
pub(super) const REINDEX: &[&str] = &[
    "max_docs",
    "refresh",
    "requests_per_second",
    "scroll",
    "slices",
    "timeout",
    "wait_for_active_shards",
    "wait_for_completion",
];
pub(super) const HEALTH: &[&str] = &[
    "allow_no_indices",
    "cluster_manager_timeout",
    "expand_wildcards",
    "ignore_throttled",
    "ignore_unavailable",
    "level",
    "local",
    "master_timeout",
    "timeout",
    "wait_for_active_shards",
    "wait_for_events",
    "wait_for_no_initializing_shards",
    "wait_for_no_relocating_shards",
    "wait_for_nodes",
    "wait_for_status",
];
pub(super) const REROUTE: &[&str] = &[
    "cluster_manager_timeout",
    "dry_run",
    "explain",
    "master_timeout",
    "metric",
    "retry_failed",
    "timeout",
];
pub(super) const EXPLAIN: &[&str] = &["include_disk_info", "include_yes_decisions"];
pub(super) const PENDING: &[&str] = &["cluster_manager_timeout", "local", "master_timeout"];
pub(super) const VOTING: &[&str] = &[
    "cluster_manager_timeout",
    "master_timeout",
    "node_ids",
    "node_name",
    "node_names",
    "timeout",
    "wait_for_removal",
];
pub(super) const OPEN_CLOSE: &[&str] = &[
    "allow_no_indices",
    "cluster_manager_timeout",
    "expand_wildcards",
    "ignore_throttled",
    "ignore_unavailable",
    "master_timeout",
    "task_execution_timeout",
    "timeout",
    "wait_for_active_shards",
    "wait_for_completion",
];
pub(super) const ROLLOVER: &[&str] = &[
    "cluster_manager_timeout",
    "dry_run",
    "master_timeout",
    "timeout",
    "wait_for_active_shards",
];
pub(super) const RESIZE: &[&str] = &[
    "cluster_manager_timeout",
    "copy_settings",
    "master_timeout",
    "task_execution_timeout",
    "timeout",
    "wait_for_active_shards",
    "wait_for_completion",
];
pub(super) const CLEAR_CACHE: &[&str] = &[
    "allow_no_indices",
    "expand_wildcards",
    "fielddata",
    "file",
    "ignore_throttled",
    "ignore_unavailable",
    "query",
    "request",
];
pub(super) const UPGRADE: &[&str] = &[
    "allow_no_indices",
    "expand_wildcards",
    "ignore_throttled",
    "ignore_unavailable",
    "only_ancient_segments",
    "wait_for_completion",
];
pub(super) const VALIDATE: &[&str] = &[
    "all_shards",
    "allow_no_indices",
    "expand_wildcards",
    "explain",
    "ignore_throttled",
    "ignore_unavailable",
    "rewrite",
];
pub(super) const MERGE: &[&str] = &[
    "allow_no_indices",
    "expand_wildcards",
    "flush",
    "ignore_throttled",
    "ignore_unavailable",
    "max_num_segments",
    "only_expunge_deletes",
    "primary_only",
    "wait_for_completion",
];
pub(super) const CLUSTER_SETTINGS: &[&str] = &[
    "cluster_manager_timeout",
    "flat_settings",
    "include_defaults",
    "local",
    "master_timeout",
    "timeout",
];
pub(super) const NODES: &[&str] = &["flat_settings", "timeout"];
pub(super) const NODES_STATS: &[&str] = &[
    "completion_fields",
    "fielddata_fields",
    "fields",
    "groups",
    "include_segment_file_sizes",
    "level",
    "timeout",
    "types",
];
pub(super) const STATE: &[&str] = &[
    "allow_no_indices",
    "cluster_manager_timeout",
    "expand_wildcards",
    "flat_settings",
    "ignore_throttled",
    "ignore_unavailable",
    "local",
    "master_timeout",
];
pub(super) const TEMPLATES: &[&str] = &[
    "cause",
    "cluster_manager_timeout",
    "create",
    "flat_settings",
    "local",
    "master_timeout",
    "order",
    "timeout",
];
pub(super) const RESOLVE: &[&str] = &["expand_wildcards"];
pub(super) const CHANGES: &[&str] = &["after", "limit", "partition", "prefix", "wait_ms"];
pub(super) const SCAN: &[&str] = &["from", "limit", "prefix", "to"];
pub(super) const BACKUP: &[&str] = &["keep", "rate_bytes"];
pub(super) const TASKS: &[&str] = &[
    "actions",
    "detailed",
    "group_by",
    "nodes",
    "parent_task_id",
    "timeout",
    "wait_for_completion",
];
pub(super) const RETHROTTLE: &[&str] = &["requests_per_second"];
pub(super) const CAT_TASKS: &[&str] = &[
    "actions",
    "detailed",
    "format",
    "h",
    "help",
    "nodes",
    "parent_task_id",
    "s",
    "v",
];
pub(super) const CAT: &[&str] = &[
    "allow_no_indices",
    "bytes",
    "cluster_manager_timeout",
    "expand_wildcards",
    "format",
    "h",
    "help",
    "ignore_throttled",
    "ignore_unavailable",
    "local",
    "master_timeout",
    "s",
    "v",
];
pub(super) const CAT_FIELDDATA: &[&str] = &[
    "allow_no_indices",
    "bytes",
    "cluster_manager_timeout",
    "expand_wildcards",
    "fields",
    "format",
    "h",
    "help",
    "ignore_throttled",
    "ignore_unavailable",
    "local",
    "master_timeout",
    "s",
    "v",
];
pub(super) const CAT_HEALTH: &[&str] = &[
    "allow_no_indices",
    "bytes",
    "cluster_manager_timeout",
    "expand_wildcards",
    "format",
    "h",
    "help",
    "ignore_throttled",
    "ignore_unavailable",
    "local",
    "master_timeout",
    "s",
    "ts",
    "v",
];
pub(super) const CAT_INDICES: &[&str] = &[
    "allow_no_indices",
    "bytes",
    "cluster_manager_timeout",
    "expand_wildcards",
    "format",
    "h",
    "health",
    "help",
    "ignore_throttled",
    "ignore_unavailable",
    "local",
    "master_timeout",
    "s",
    "v",
];
pub(super) const CAT_NODES: &[&str] = &[
    "allow_no_indices",
    "bytes",
    "cluster_manager_timeout",
    "expand_wildcards",
    "format",
    "full_id",
    "h",
    "help",
    "ignore_throttled",
    "ignore_unavailable",
    "local",
    "master_timeout",
    "s",
    "v",
];
pub(super) const CAT_RECOVERY: &[&str] = &[
    "active_only",
    "allow_no_indices",
    "bytes",
    "cluster_manager_timeout",
    "detailed",
    "expand_wildcards",
    "format",
    "h",
    "help",
    "ignore_throttled",
    "ignore_unavailable",
    "local",
    "master_timeout",
    "s",
    "v",
];
