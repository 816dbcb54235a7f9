//! The server as a whole: what it is, and whether it serves.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::json;

use super::state::ClusterState;
use crate::compat::Compat;
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::Outcome;
use crate::ids::letters;

/// Length of a cluster's UUID in OpenSearch.
const UUID_CHARS: usize = 22;

/// The identity of the database, as clusters have one.
pub(super) fn uuid(engine: &Engine) -> String {
    uuid_of(&engine.database().path().display().to_string())
}

/// `GET /`
pub(crate) async fn info(call: Call<ClusterState>) -> Outcome<Answer> {
    let (cluster_uuid, compat) = (uuid(&call.state.engine), call.state.compat);
    let quire = json!({"version": env!("CARGO_PKG_VERSION")});
    if compat == Compat::Elasticsearch {
        return Ok(Answer::ok(&json!({
            "name": "quire",
            "cluster_name": "quire",
            "cluster_uuid": cluster_uuid,
            "version": {
                "number": compat.version(),
                "build_flavor": "default",
                "build_type": "quire",
                "build_hash": "unknown",
                "build_date": "unknown",
                "build_snapshot": false,
                "lucene_version": "none",
                "minimum_wire_compatibility_version": "7.17.0",
                "minimum_index_compatibility_version": "7.0.0",
            },
            "quire": quire,
            "tagline": "You Know, for Search",
        })));
    }
    Ok(Answer::ok(&json!({
        "name": "quire",
        "cluster_name": "quire",
        "cluster_uuid": cluster_uuid,
        "version": {
            "distribution": "opensearch",
            "number": compat.version(),
            "build_type": "quire",
            "build_hash": "unknown",
            "build_date": "unknown",
            "build_snapshot": false,
            "lucene_version": "none",
            "minimum_wire_compatibility_version": "7.10.0",
            "minimum_index_compatibility_version": "7.0.0",
        },
        "quire": quire,
        "tagline": "The OpenSearch Project: https://opensearch.org/",
    })))
}

/// The same each time this directory is served.
fn uuid_of(path: &str) -> String {
    let hash = |seed: u8| {
        let mut hasher = DefaultHasher::new();
        (seed, path).hash(&mut hasher);
        hasher.finish()
    };
    let bytes = (0..3).flat_map(|seed| hash(seed).to_le_bytes());
    letters(bytes.take(UUID_CHARS))
}

/// The colour of the database. It is green, because it serves, unless a scrub has found damage:
/// yellow if only trees are damaged, which the log can rebuild, and red if records of documents
/// are.
pub(super) fn status(engine: &Engine) -> &'static str {
    match engine.database().scrub_stats() {
        Some(scrub) if scrub.damage.iter().any(|found| found.positions.is_some()) => "red",
        Some(scrub) if !scrub.damage.is_empty() => "yellow",
        _ => "green",
    }
}
