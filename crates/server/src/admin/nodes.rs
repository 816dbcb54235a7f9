//! The one node that there is, and the cluster that it is: `_nodes`, `_cluster/state`.

use serde_json::{Map, Value, json};

use super::cluster::uuid;
use super::cluster_stats::totals;
use super::state::ClusterState;
use crate::collections::selection::Selection;
use crate::collections::settings;
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};

/// The id of the node.
pub(super) const NODE_ID: &str = "quire-node-0000000000";

/// What is said of a node in every answer.
fn node(state: &ClusterState) -> Map<String, Value> {
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
    let (engine, selection) = (call.state.engine.clone(), Selection::of(&call)?);
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

/// `GET /_cluster/state`, `/_cluster/state/{name}`, `/_cluster/state/{name}/{collection}`: of the
/// parts that OpenSearch has, `version`, `master_node`, `nodes`, `blocks` and `metadata`.
pub(crate) async fn cluster_state(call: Call<ClusterState>) -> Outcome<Answer> {
    let parts = [
        "blocks",
        "cluster_manager_node",
        "master_node",
        "metadata",
        "nodes",
        "version",
    ];
    let wanted = call.path_param("name").unwrap_or("_all");
    let wanted: Vec<String> = wanted.split(',').map(str::to_owned).collect();
    let is_known = |part: &&String| *part == "_all" || parts.contains(&part.as_str());
    if let Some(unknown) = wanted.iter().find(|part| !is_known(part)) {
        return Err(Failure::illegal_argument(format!(
            "part [{unknown}] of the cluster state is not supported: known are {}",
            parts.join(", ")
        )));
    }
    let node = node(&call.state);
    let (engine, selection) = (call.state.engine.clone(), Selection::of(&call)?);
    let cluster_uuid = uuid(&engine).await?;
    let work = move |engine: &Engine| {
        let has = |part: &str| wanted.iter().any(|it| it == part || it == "_all");
        let mut shown = json!({"cluster_name": "quire", "cluster_uuid": cluster_uuid});
        if has("version") {
            shown["version"] = 1.into();
            shown["state_uuid"] = cluster_uuid.as_str().into();
        }
        if has("master_node") {
            shown["master_node"] = NODE_ID.into();
        }
        if has("cluster_manager_node") {
            shown["cluster_manager_node"] = NODE_ID.into();
        }
        if has("blocks") {
            shown["blocks"] = json!({});
        }
        if has("nodes") {
            shown["nodes"] = json!({ NODE_ID: node });
        }
        if has("metadata") {
            let (mut indices, aliases) = (Map::new(), engine.database().aliases());
            for collection in selection.collections(engine)? {
                let mut one = settings::describe(&collection, &aliases);
                let aliases = one["aliases"].as_object().into_iter().flatten();
                let aliases: Vec<String> = aliases.map(|(name, _)| name.clone()).collect();
                one["aliases"] = aliases.into();
                one["state"] = "open".into();
                indices.insert(collection.name().to_owned(), one);
            }
            shown["metadata"] = json!({
                "cluster_uuid": cluster_uuid,
                "templates": {},
                "indices": indices,
            });
        }
        Ok(Answer::ok(&shown))
    };
    engine.read(work).await?
}
