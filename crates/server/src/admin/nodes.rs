//! The one node that there is: `_nodes`.

use serde_json::{Map, Value, json};

use super::cluster_stats::totals;
use super::placement::NODE_ID;
use super::state::ClusterState;
use crate::collections::selection::Selection;
use crate::collections::states::States;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::Outcome;

/// What is said of a node in every answer.
pub(super) fn node(state: &ClusterState) -> Map<String, Value> {
    let listen = state.listen;
    let member = |name: &str, value: Value| (name.to_owned(), value);
    Map::from_iter([
        member("name", "quire".into()),
        member("transport_address", listen.to_string().into()),
        member("host", listen.ip().to_string().into()),
        member("ip", listen.ip().to_string().into()),
        member("version", state.compat.version().into()),
        member("build_type", "quire".into()),
        member("build_hash", "unknown".into()),
        member("roles", json!(["cluster_manager", "data"])),
        member("attributes", json!({})),
    ])
}

fn answer(node: Map<String, Value>) -> Answer {
    Answer::ok(&json!({
        "_nodes": {"total": 1, "successful": 1, "failed": 0},
        "cluster_name": "quire",
        "nodes": {NODE_ID: node},
    }))
}

/// `GET /_nodes`, `/_nodes/{name}`, `/_nodes/{id}/{name}`: `http` is the part that is there.
pub(crate) async fn info(call: Call<ClusterState>) -> Outcome<Answer> {
    let mut node = node(&call.state);
    let wanted = call.path_param("name").unwrap_or("_all");
    if wanted
        .split(',')
        .any(|part| matches!(part, "http" | "_all"))
    {
        let address = call.state.listen.to_string();
        let http = json!({
            "bound_address": [address],
            "publish_address": address,
            "max_content_length_in_bytes": 100 << 20,
        });
        node.insert("http".into(), http);
    }
    Ok(answer(node))
}

/// `GET /_nodes/stats`, `/_nodes/stats/{name}`: what collections hold.
pub(crate) async fn stats(call: Call<ClusterState>) -> Outcome<Answer> {
    let mut node = node(&call.state);
    let (engine, selection) = (
        call.state.engine.clone(),
        Selection::about(&call, States::ALL)?,
    );
    let now = engine.now_millis();
    let totals = engine
        .read(move |engine| totals(engine, &selection))
        .await??;
    let indices = json!({
        "docs": {"count": totals.documents, "deleted": 0},
        "store": {"size_in_bytes": totals.bytes, "reserved_in_bytes": 0},
    });
    node.insert("indices".into(), indices);
    node.insert("timestamp".into(), now.into());
    Ok(answer(node))
}
