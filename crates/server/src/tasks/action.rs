//! The names of what requests do, as OpenSearch has them.

use axum::http::Method;

/// The action of requests of memcached.
pub(super) const MEMCACHED: &str = "memcached";

/// The action of splits and merges of the partitions of a collection.
pub(crate) const PARTITIONS: &str = "quire:admin/partitions";

/// The action of requests of a route. A route that OpenSearch has no action for has its path.
pub(crate) fn action(path: &'static str, method: &Method) -> &'static str {
    let of_collection = path.strip_prefix("/{collection}");
    match of_collection.unwrap_or(path) {
        "/_search" => "indices:data/read/search",
        "/_count" => "indices:data/read/count",
        "/_msearch" => "indices:data/read/msearch",
        "/_mget" => "indices:data/read/mget",
        "/_search/scroll" | "/_search/scroll/{id}" if method != Method::DELETE => {
            "indices:data/read/scroll"
        }
        "/_bulk" => "indices:data/write/bulk",
        "/_delete_by_query" => "indices:data/write/delete/byquery",
        "/_update_by_query" => "indices:data/write/update/byquery",
        "/_reindex" => "indices:data/write/reindex",
        "/_update/{id}" => "indices:data/write/update",
        "/_doc" | "/_create/{id}" => "indices:data/write/index",
        "/_doc/{id}" => match *method {
            Method::GET | Method::HEAD => "indices:data/read/get",
            Method::DELETE => "indices:data/write/delete",
            _ => "indices:data/write/index",
        },
        "/_analyze" => "indices:admin/analyze",
        "/_flush" => "indices:admin/flush",
        "/_forcemerge" => "indices:admin/forcemerge",
        "/_partitions" => PARTITIONS,
        "/_tasks" | "/_tasks/{id}" | "/_cat/tasks" => "cluster:monitor/tasks/lists",
        "/_delete_by_query/{id}/_rethrottle"
        | "/_update_by_query/{id}/_rethrottle"
        | "/_reindex/{id}/_rethrottle" => "cluster:admin/reindex/rethrottle",
        "/_tasks/_cancel" | "/_tasks/{id}/_cancel" => "cluster:admin/tasks/cancel",
        "" => match *method {
            Method::PUT => "indices:admin/create",
            Method::DELETE => "indices:admin/delete",
            _ => "indices:admin/get",
        },
        _ => path,
    }
}

/// Whether the handler itself ends a cancelled request, between two steps, and answers what was
/// done until then. Otherwise its caller is answered at once, and its work ends as when the caller
/// goes away.
pub(crate) fn ends_itself(action: &str) -> bool {
    let of_upkeep = [
        "indices:admin/flush",
        "indices:admin/forcemerge",
        PARTITIONS,
    ];
    has_rate(action) || of_upkeep.contains(&action)
}

/// Whether a request does documents batch by batch, at a rate that can be changed.
pub(crate) fn has_rate(action: &str) -> bool {
    matches!(
        action,
        "indices:data/write/delete/byquery"
            | "indices:data/write/update/byquery"
            | "indices:data/write/reindex"
    )
}

/// Whether a request can be cancelled: not where nothing could be stopped any more.
pub(crate) fn is_cancellable(action: &str) -> bool {
    let is_read = action.starts_with("indices:data/read/");
    let is_stream = action.starts_with("/_follow") || action.ends_with("/_changes");
    let is_several = ["indices:data/write/bulk", MEMCACHED].contains(&action);
    is_read || is_stream || is_several || ends_itself(action)
}
