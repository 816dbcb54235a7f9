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
    // Figures of one collection and of all have one path otherwise.
    if path.ends_with("/_quire/stats") {
        let of_one = path.starts_with("/{collection}");
        let name = if of_one {
            "CollectionStats"
        } else {
            "DatabaseStats"
        };
        return Shape {
            request: None,
            answer: json(name),
        };
    }
    let path = path.strip_prefix("/{collection}").unwrap_or(path);
    let (request, answer) = match (path, method) {
        ("/_search", _) => (Some("Search"), json("Searched")),
        ("/_search/scroll" | "/_search/scroll/{id}", &Method::GET | &Method::POST) => {
            (Some("Scroll"), json("Searched"))
        }
        ("/_search/scroll", _) => (Some("ScrollIds"), json("Freed")),
        ("/_search/scroll/{id}", _) => (None, json("Freed")),
        ("/_search/point_in_time", &Method::POST) => (None, json("PointInTime")),
        ("/_search/point_in_time", _) => (Some("PointIds"), json("PointsClosed")),
        ("/_pit", &Method::POST) => (None, json("Pit")),
        ("/_pit", _) => (Some("PitIds"), json("Freed")),
        ("/_search/point_in_time/_all", &Method::GET) => (None, json("PointsOpen")),
        ("/_search/point_in_time/_all", _) => (None, json("PointsClosed")),
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
        ("/_aliases" | "/_alias" | "/_alias/{name}", &Method::GET) => (None, json("Collections")),
        ("/_alias" | "/_alias/{name}", _) => (Some("Alias"), json("Acknowledged")),
        ("/_aliases", _) => (Some("AliasActions"), json("Acknowledged")),
        ("/_field_caps", _) => (Some("FieldsWanted"), json("FieldCaps")),
        ("/_mapping/field/{name}", _) => (None, json("FieldMappings")),
        ("/_validate/query", _) => (Some("Query"), json("Validated")),
        ("/_refresh" | "/_flush" | "/_forcemerge" | "/_cache/clear", _) => (None, json("Shards")),
        ("/_open" | "/_close" | "/_block/{name}", _) => (None, json("Acknowledged")),
        ("/_clone/{name}" | "/_shrink/{name}" | "/_split/{name}", _) => {
            (Some("Collection"), json("Acknowledged"))
        }
        ("/_partitions", _) => (None, json("PartitionsChanged")),
        ("/_stats" | "/_stats/{name}", _) => (None, json("Stats")),
        ("/_segments", _) => (None, json("Segments")),
        ("/_shard_stores", _) => (None, json("ShardStores")),
        ("/_recovery", _) => (None, json("Recoveries")),
        ("/_search_shards", _) => (Some("Slice"), json("SearchShards")),
        ("/_upgrade", _) => (None, json("Upgraded")),
        ("/_rollover" | "/_rollover/{name}", _) => (Some("Rollover"), json("RolledOver")),
        ("/_schema", _) => (Some("ColumnChanges"), json("ColumnsChanged")),
        ("/_tier", _) => (None, json("CellsMoved")),
        _ => {
            let of_server = template_shape(path, method)
                .or_else(|| cluster_shape(path, method))
                .or_else(|| command_shape(path, method));
            match of_server {
                Some(shape) => shape,
                None => return other_shape(path, method),
            }
        }
    };
    Shape {
        request: request.map(json),
        answer,
    }
}

/// The name of a request's schema, if it has a body, and the content of its answer.
type Named = (Option<&'static str>, Content);

/// Templates of new collections.
fn template_shape(path: &str, method: &Method) -> Option<Named> {
    let path = path.strip_suffix("/{name}").unwrap_or(path);
    let (one, all) = match path {
        "/_index_template" => ("IndexTemplate", "IndexTemplates"),
        "/_component_template" => ("ComponentTemplate", "ComponentTemplates"),
        "/_template" => ("LegacyTemplate", "LegacyTemplates"),
        "/_index_template/_simulate" | "/_index_template/_simulate_index" => {
            return Some((Some("IndexTemplate"), json("SimulatedTemplate")));
        }
        _ => return None,
    };
    Some(match *method {
        Method::GET => (None, json(all)),
        Method::DELETE => (None, json("Acknowledged")),
        _ => (Some(one), json("Acknowledged")),
    })
}

/// The server as a cluster of one node, and the requests that run on it.
fn cluster_shape(path: &str, method: &Method) -> Option<Named> {
    let is_get = *method == Method::GET;
    Some(match path {
        "/" => (None, json("Info")),
        "/_cluster/health" | "/_cluster/health/{collection}" => (None, json("Health")),
        "/_cluster/settings" if is_get => (None, json("ClusterSettingsShown")),
        "/_cluster/settings" => (Some("ClusterSettings"), json("ClusterSettingsShown")),
        "/_cluster/stats" => (None, json("ClusterStats")),
        "/_cluster/reroute" => (Some("Reroute"), json("Rerouted")),
        "/_cluster/allocation/explain" => (Some("Partition"), json("PartitionExplained")),
        "/_cluster/pending_tasks" => (None, json("PendingTasks")),
        "/_cluster/voting_config_exclusions" => (None, json("Nothing")),
        "/_remote/info" => (None, json("RemoteClusters")),
        "/_resolve/index/{collection}" => (None, json("Resolved")),
        "/_tasks" | "/_tasks/_cancel" | "/_tasks/{id}/_cancel" => (None, json("Tasks")),
        "/_tasks/{id}" => (None, json("TaskResult")),
        _ if path.starts_with("/_cluster/state") => (None, json("ClusterState")),
        _ if path.starts_with("/_data_stream") => (None, json("DataStreams")),
        _ if path.ends_with("/_rethrottle") => (None, json("Tasks")),
        _ if path.ends_with("/reload_secure_settings") => {
            (Some("SecureSettings"), json("NodesReloaded"))
        }
        _ if path.starts_with("/_nodes/stats") || path.starts_with("/_nodes/{id}/stats") => {
            (None, json("NodesStats"))
        }
        _ if path.starts_with("/_nodes") => (None, json("Nodes")),
        _ => return None,
    })
}

/// Requests of the `quire` command, and long work on the database.
fn command_shape(path: &str, method: &Method) -> Option<Named> {
    Some(match (path, method) {
        ("/_quire", _) => (None, json("CollectionDescribed")),
        ("/_quire/fields", _) => (None, json("CollectionFields")),
        ("/_quire/triggers", _) => (None, json("Triggers")),
        ("/_quire/triggers/{name}", &Method::PUT) => (Some("NewTrigger"), json("Trigger")),
        ("/_quire/coprocessors", _) => (None, json("Coprocessors")),
        ("/_quire/coprocessors/{name}", &Method::GET) => (None, json("Coprocessor")),
        ("/_quire/tokens", _) => (None, json("Tokens")),
        ("/_quire/tokens/{name}", &Method::PUT) => (Some("NewToken"), json("Token")),
        (
            "/_quire/triggers/{name}" | "/_quire/coprocessors/{name}" | "/_quire/tokens/{name}",
            &Method::DELETE,
        )
        | ("/_quire/sync", _)
        | ("/_verify", &Method::POST) => (None, json("Acknowledged")),
        ("/_verify", _) => (None, json("Verifications")),
        ("/_backup", _) => (None, json("Backups")),
        ("/_backup/{name}", _) => (None, json("BackupBegun")),
        ("/openapi.json", _) => (None, json("Description")),
        _ => return None,
    })
}

/// The shape of what is no single JSON object of known members.
fn other_shape(path: &str, method: &Method) -> Shape {
    let lines = (LINES, Some("Lines"));
    let (request, answer) = match path {
        "/_bulk" => (Some((LINES, Some("Bulk"))), json("BulkDone")),
        "/_msearch" => (Some(lines), json("ManySearched")),
        "/_quire/write" => (Some(lines), lines),
        "/_quire/get" => (Some(json("Keys")), lines),
        "/_quire/query" => (Some(json("QueryText")), lines),
        "/_quire/coprocessor" => (Some(json("CoprocessorRun")), lines),
        "/_quire/coprocessors/{name}" => (Some((BYTES, None)), json("Coprocessor")),
        "/_changes" | "/_quire/scan" => (None, lines),
        "/_cell/{id}/{column}" => match *method {
            Method::GET => (None, (BYTES, None)),
            Method::DELETE => (None, json("Written")),
            Method::POST => (Some(json("CellChange")), json("Written")),
            _ => (Some((BYTES, None)), json("Written")),
        },
        _ if path.starts_with("/_follow") => (None, (BYTES, None)),
        // What is left is text: metrics and tables.
        _ => (None, (TEXT, Some("Lines"))),
    };
    Shape { request, answer }
}

/// JSON of a schema.
const fn json(name: &'static str) -> Content {
    (JSON, Some(name))
}
