//! `_cluster/state`: what a cluster of one node knows of itself.

use quiredb::Collection;
use serde_json::{Map, Value, json};

use super::cluster::uuid;
use super::nodes::node;
use super::placement;
use super::state::ClusterState;
use crate::collections::api_settings::Block;
use crate::collections::selection::Selection;
use crate::collections::settings;
use crate::collections::states::States;
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::tasks::listed::NODE;

/// The parts of the cluster's state.
const PARTS: [&str; 8] = [
    "blocks",
    "cluster_manager_node",
    "master_node",
    "metadata",
    "nodes",
    "routing_nodes",
    "routing_table",
    "version",
];

/// The parts that are named between commas.
///
/// # Errors
/// 400 for a part that there is not.
pub(super) fn parts(named: &str) -> Outcome<Vec<&'static str>> {
    let mut wanted = Vec::new();
    for part in named.split(',') {
        match PARTS.into_iter().find(|known| *known == part) {
            Some(part) => wanted.push(part),
            None if part == "_all" => wanted.extend(PARTS),
            None => {
                return Err(Failure::illegal_argument(format!(
                    "part [{part}] of the cluster state is not supported: known are {}",
                    PARTS.join(", ")
                )));
            }
        }
    }
    Ok(wanted)
}

/// `GET /_cluster/state`, `/_cluster/state/{name}`, `/_cluster/state/{name}/{collection}`
pub(crate) async fn cluster_state(call: Call<ClusterState>) -> Outcome<Answer> {
    let is_flat = call.params.flag("flat_settings")?.unwrap_or(false);
    let wanted = parts(call.path_param("name").unwrap_or("_all"))?;
    let states = match call.path_param("collection") {
        Some(_) => States::OPEN,
        None => States::ALL,
    };
    let node = node(&call.state);
    let (engine, selection) = (
        call.state.engine.clone(),
        Selection::watched(&call, states)?,
    );
    let cluster_uuid = uuid(&engine);
    let work = move |engine: &Engine| {
        let shown = state(engine, &selection, node, &cluster_uuid, &wanted, is_flat)?;
        Ok(Answer::ok(&shown))
    };
    engine.read(work).await?
}

/// Some parts of the cluster's state.
pub(super) fn state(
    engine: &Engine,
    selection: &Selection,
    node: Map<String, Value>,
    cluster_uuid: &str,
    wanted: &[&str],
    is_flat: bool,
) -> Outcome<Value> {
    let has = |part: &str| wanted.contains(&part);
    let mut shown = json!({"cluster_name": "quire", "cluster_uuid": cluster_uuid});
    if has("version") {
        shown["version"] = 1.into();
        shown["state_uuid"] = cluster_uuid.into();
    }
    for part in ["master_node", "cluster_manager_node"] {
        if has(part) {
            shown[part] = NODE.into();
        }
    }
    if has("nodes") {
        shown["nodes"] = json!({ NODE: node });
    }
    let collections = selection.collections(engine)?;
    if has("blocks") {
        shown["blocks"] = blocks(&collections);
    }
    if has("metadata") {
        let (mut indices, aliases) = (Map::new(), engine.database().aliases());
        for collection in &collections {
            let mut one = settings::describe(collection, &aliases, is_flat, false);
            let aliases = one["aliases"].as_object().into_iter().flatten();
            let aliases: Vec<String> = aliases.map(|(name, _)| name.clone()).collect();
            one["aliases"] = aliases.into();
            one["state"] = match collection.settings().api.closed {
                true => "close".into(),
                false => "open".into(),
            };
            one["routing_num_shards"] = routing_shards(collection).into();
            indices.insert(collection.name().to_owned(), one);
        }
        shown["metadata"] = json!({
            "cluster_uuid": cluster_uuid,
            "cluster_coordination": {
                "term": 1,
                "last_committed_config": [NODE],
                "last_accepted_config": [NODE],
                "voting_config_exclusions": [],
            },
            "templates": {},
            "indices": indices,
        });
    }
    if has("routing_table") {
        shown["routing_table"] = placement::table(&collections);
    }
    if has("routing_nodes") {
        shown["routing_nodes"] = placement::of_nodes(&collections);
    }
    Ok(shown)
}

/// The most shards that OpenSearch splits a collection into by factors of two, where no number is
/// given: at most 1,024, or twice as many as there are.
fn routing_shards(collection: &Collection) -> u32 {
    let settings = collection.settings();
    let given = settings.api.settings.get("index.number_of_routing_shards");
    let given = given.and_then(Value::as_str);
    let partitions = settings.partitions;
    if let Some(given) = given.and_then(|given| given.parse::<u32>().ok()) {
        return given.max(partitions);
    }
    let log = u32::BITS - partitions.saturating_sub(1).leading_zeros();
    partitions
        << 10_u32
            .saturating_sub(log)
            .max(1)
            .min(partitions.leading_zeros())
}

/// The blocks of collections; that one is closed is a block too.
fn blocks(collections: &[Collection]) -> Value {
    let mut indices = Map::new();
    for collection in collections {
        let api = &collection.settings().api;
        let mut blocks = Map::new();
        for block in Block::of(api) {
            let (number, words) = block.described();
            let shown = json!({"description": words, "retryable": false, "levels": block.levels()});
            blocks.insert(number.to_string(), shown);
        }
        if api.closed {
            let levels = ["read", "write"];
            let shown =
                json!({"description": "index closed", "retryable": false, "levels": levels});
            blocks.insert("4".to_owned(), shown);
        }
        if !blocks.is_empty() {
            indices.insert(collection.name().to_owned(), blocks.into());
        }
    }
    match indices.is_empty() {
        true => json!({}),
        false => json!({ "indices": indices }),
    }
}
