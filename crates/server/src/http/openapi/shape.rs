//! What requests and answers of a route are made of.

use axum::http::Method;

const JSON: &str = "application/json";
const LINES: &str = "application/x-ndjson";
const TEXT: &str = "text/plain";
const BYTES: &str = "application/octet-stream";

/// A media type, and the name of a schema; none for bytes.
pub(super) type Content = (&'static str, Option<&'static str>);

/// The bodies of a request and of its answer.
pub(super) struct Shape {
    pub(super) request: Option<Content>,
    pub(super) answer: Content,
}

/// The shape of requests of a path with a method.
pub(super) fn shape(path: &str, method: &Method) -> Shape {
    let path = path.strip_prefix("/{collection}").unwrap_or(path);
    let json = |name| (JSON, Some(name));
    let (request, answer) = match (path, method) {
        ("/_search", _) => (Some("Search"), json("Searched")),
        ("/_search/scroll" | "/_search/scroll/{id}", &Method::GET | &Method::POST) => {
            (Some("Scroll"), json("Searched"))
        }
        ("/_search/point_in_time", &Method::POST) => (None, json("PointInTime")),
        ("/_count", _) => (Some("Query"), json("Count")),
        ("/_mget", _) => (Some("ManyGet"), json("ManyFound")),
        ("/_doc/{id}", &Method::GET) => (None, json("Found")),
        ("/_doc/{id}", &Method::DELETE) => (None, json("Written")),
        ("/_doc" | "/_doc/{id}" | "/_create/{id}", _) => (Some("Document"), json("Written")),
        ("/_source/{id}", _) => (None, json("Document")),
        ("/_update/{id}", _) => (Some("Update"), json("Written")),
        ("/_delete_by_query" | "/_update_by_query", _) => (Some("Query"), json("WorkDone")),
        ("/_reindex", _) => (Some("Reindex"), json("WorkDone")),
        ("/_analyze", _) => (Some("Analyze"), json("Analyzed")),
        ("", &Method::PUT) => (Some("Collection"), json("Acknowledged")),
        ("", &Method::GET) => (None, json("Collections")),
        ("" | "/_alias/{name}", &Method::DELETE) => (None, json("Acknowledged")),
        ("/_settings", &Method::PUT) => (Some("Settings"), json("Acknowledged")),
        ("/_settings" | "/_settings/{name}", _) => (None, json("Collections")),
        ("/_mapping" | "/_mappings", &Method::GET) => (None, json("Collections")),
        ("/_mapping" | "/_mappings", _) => (Some("Mapping"), json("Acknowledged")),
        ("/_alias" | "/_alias/{name}", &Method::GET) => (None, json("Collections")),
        ("/_alias" | "/_alias/{name}", _) => (Some("Alias"), json("Acknowledged")),
        ("/_aliases", _) => (Some("AliasActions"), json("Acknowledged")),
        (
            "/_index_template/{name}" | "/_component_template/{name}" | "/_template/{name}",
            method,
        ) if *method != Method::GET => {
            let body = (*method != Method::DELETE).then_some("Template");
            (body, json("Acknowledged"))
        }
        ("/_index_template" | "/_index_template/{name}", _) => (None, json("Templates")),
        ("/_field_caps", _) => (None, json("FieldCaps")),
        ("/_validate/query", _) => (Some("Query"), json("Validated")),
        ("/_refresh" | "/_flush" | "/_forcemerge" | "/_cache/clear", _) => (None, json("Shards")),
        ("/_open" | "/_close" | "/_block/{name}", _) => (None, json("Acknowledged")),
        ("/_clone/{name}" | "/_shrink/{name}" | "/_split/{name}", _) => {
            (Some("Collection"), json("Acknowledged"))
        }
        ("/_cluster/settings", &Method::GET) => (None, json("ClusterSettings")),
        ("/_cluster/settings", _) => (Some("ClusterSettings"), json("ClusterSettings")),
        ("/", _) => (None, json("Info")),
        ("/_cluster/health" | "/_cluster/health/{collection}", _) => (None, json("Health")),
        ("/_stats" | "/_stats/{name}", _) => (None, json("Stats")),
        ("/_tasks" | "/_tasks/_cancel" | "/_tasks/{id}/_cancel", _) => (None, json("Tasks")),
        (path, &Method::POST) if path.ends_with("/_rethrottle") => (None, json("Tasks")),
        ("/_tasks/{id}", _) => (None, json("TaskResult")),
        ("/_rollover" | "/_rollover/{name}", _) => (Some("Rollover"), json("RolledOver")),
        ("/_quire/tokens/{name}", &Method::PUT) => (Some("NewToken"), json("Token")),
        _ => return other_shape(path, method),
    };
    Shape {
        request: request.map(json),
        answer,
    }
}

/// The shape of what is no single JSON object of known members.
fn other_shape(path: &str, method: &Method) -> Shape {
    let anything = (JSON, Some("Anything"));
    let (request, answer) = match path {
        "/_bulk" => (Some((LINES, Some("Bulk"))), (JSON, Some("BulkDone"))),
        "/_msearch" => (Some((LINES, Some("Lines"))), (JSON, Some("ManySearched"))),
        "/_quire/write" => (Some((LINES, Some("Lines"))), (LINES, Some("Lines"))),
        "/_quire/get" | "/_quire/query" | "/_quire/coprocessor" => {
            (Some(anything), (LINES, Some("Lines")))
        }
        "/_changes" | "/_quire/scan" => (None, (LINES, Some("Lines"))),
        "/metrics" => (None, (TEXT, Some("Lines"))),
        _ if path.starts_with("/_cat/") => (None, (TEXT, Some("Lines"))),
        _ if path.starts_with("/_follow") => (None, (BYTES, None)),
        "/_cell/{id}/{column}" => match *method {
            Method::GET => (None, (BYTES, None)),
            Method::DELETE => (None, anything),
            _ => (Some((BYTES, None)), anything),
        },
        _ if matches!(*method, Method::PUT | Method::POST) => (Some(anything), anything),
        _ => (None, anything),
    };
    Shape { request, answer }
}
