//! Where partitions are, as a cluster says it: all on the one node, none with a copy.
//! `_cluster/reroute`, `_cluster/allocation/explain`, `_cluster/pending_tasks` and the like.

use std::sync::Arc;

use serde_json::{Value, json};

use super::cluster::uuid;
use super::cluster_state::{parts, state};
use super::nodes::node;
use super::state::ClusterState;
use crate::access::role::Action;
use crate::collections::selection::Selection;
use crate::collections::states::States;
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::search::filter::{known, object};
use crate::search::request::parse;
use crate::tasks::listed::NODE;

/// The commands of a reroute, each with its members beside `index`, `shard` and those of its node.
const COMMANDS: [(&str, &[&str], &str); 5] = [
    ("move", &["from_node", "to_node"], "move_allocation_command"),
    (
        "cancel",
        &["node", "allow_primary"],
        "cancel_allocation_command",
    ),
    (
        "allocate_replica",
        &["node"],
        "allocate_replica_allocation_command",
    ),
    (
        "allocate_stale_primary",
        &["node", "accept_data_loss"],
        "allocate_stale_primary_allocation_command",
    ),
    (
        "allocate_empty_primary",
        &["node", "accept_data_loss"],
        "allocate_empty_primary_allocation_command",
    ),
];

/// `POST /_cluster/reroute`: no command can be done, since there is one node and no copy. With
/// `explain` it is said of each, else the first is refused.
pub(crate) async fn reroute(call: Call<ClusterState>) -> Outcome<Answer> {
    for flag in ["dry_run", "retry_failed"] {
        call.params.flag(flag)?;
    }
    let explains = call.params.flag("explain")?.unwrap_or(false);
    let metric = call.params.text("metric");
    let wanted = match metric {
        Some(metric) => parts(metric)?,
        None => parts(
            "blocks,cluster_manager_node,master_node,nodes,routing_nodes,routing_table,version",
        )?,
    };
    let (engine, node) = (call.state.engine.clone(), node(&call.state));
    let selection = Selection::watched(&call, States::ALL)?;
    let cluster_uuid = uuid(&engine);
    let body = call.take_small_body().await?;
    let body = parse(&body.bytes)?;
    known(&body, "_cluster/reroute", &["commands"])?;
    let commands = match body.get("commands") {
        None => &[][..],
        Some(Value::Array(commands)) => commands,
        Some(_) => return Err(Failure::illegal_argument("[commands] must be a list")),
    };
    let explanations = commands.iter().map(explanation);
    let explanations: Vec<Value> = explanations.collect::<Outcome<_>>()?;
    if let Some(first) = explanations.first().filter(|_| !explains) {
        let why = first["decisions"][0]["explanation"].as_str();
        return Err(Failure::illegal_argument(why.unwrap_or_default()));
    }
    let work = move |engine: &Engine| {
        let state = state(engine, &selection, node, &cluster_uuid, &wanted, false)?;
        let mut shown = json!({"acknowledged": true, "state": state});
        if explains {
            shown["explanations"] = explanations.into();
        }
        Ok(Answer::ok(&shown))
    };
    engine.read(work).await?
}

/// Why a command can't be done.
fn explanation(command: &Value) -> Outcome<Value> {
    let mut members = object(command, "command")?.iter();
    let (Some((name, given)), None) = (members.next(), members.next()) else {
        return Err(Failure::illegal_argument("a command has one name"));
    };
    let known_command = COMMANDS.into_iter().find(|(known, ..)| known == name);
    let Some((_, others, decider)) = known_command else {
        return Err(Failure::illegal_argument(format!(
            "unknown allocation command [{name}]"
        )));
    };
    let given = object(given, name)?;
    known(given, name, &[&["index", "shard"], others].concat())?;
    let mut parameters = given.clone();
    for flag in ["allow_primary", "accept_data_loss"] {
        if others.contains(&flag) {
            parameters.entry(flag).or_insert(false.into());
        }
    }
    let shown = |name: &str| given.get(name).map_or("null".to_owned(), Value::to_string);
    Ok(json!({
        "command": name,
        "parameters": parameters,
        "decisions": [{
            "decider": decider,
            "decision": "NO",
            "explanation": format!(
                "can't {name} [{}][{}]: there is one node, which has every partition once",
                shown("index"),
                shown("shard"),
            ),
        }],
    }))
}

/// `GET|POST /_cluster/allocation/explain`: a partition is on the one node, and stays there.
pub(crate) async fn explain(call: Call<ClusterState>) -> Outcome<Answer> {
    call.params.flag("include_yes_decisions")?;
    let why = "disks are in _quire/stats";
    call.params.only("include_disk_info", &["false"], why)?;
    let (engine, listen) = (call.state.engine.clone(), call.state.listen);
    let grant = Arc::clone(&call.grant);
    let body = call.take_small_body().await?;
    let body = parse(&body.bytes)?;
    known(
        &body,
        "explain",
        &["index", "shard", "primary", "current_node"],
    )?;
    if body.is_empty() {
        return Err(Failure::illegal_argument(
            "unable to find any unassigned shards to explain",
        ));
    }
    let name = body
        .get("index")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let number = body.get("shard").and_then(Value::as_u64);
    let Some(number) = number.filter(|_| !name.is_empty()) else {
        return Err(Failure::validation("[index] and [shard] are required"));
    };
    if body.get("primary") != Some(&Value::Bool(true)) {
        return Err(Failure::illegal_argument(format!(
            "unable to find a replica of shard [{number}] of [{name}]: partitions have no copies"
        )));
    }
    let work = move |engine: &Engine| {
        let allowed = grant.check(Action::Read, &name);
        allowed.map_err(Failure::forbidden)?;
        let collection = engine.collection_named(&name)?;
        if number >= u64::from(collection.settings().partitions) {
            return Err(Failure::illegal_argument(format!(
                "there is no shard [{number}] of [{name}]"
            )));
        }
        Ok(Answer::ok(&json!({
            "index": name,
            "shard": number,
            "primary": true,
            "current_state": "started",
            "current_node": {
                "id": NODE,
                "name": "quire",
                "transport_address": listen.to_string(),
                "weight_ranking": 1,
            },
            "can_remain_on_current_node": "yes",
            "can_rebalance_cluster": "no",
            "can_rebalance_to_other_node": "no",
            "rebalance_explanation": "there is one node, which has every partition once",
        })))
    };
    engine.read(work).await?
}

/// `GET /_cluster/pending_tasks`: a change is done before it is answered, so there are none.
pub(crate) async fn pending(call: Call<Engine>) -> Outcome<Answer> {
    call.params.flag("local")?;
    Ok(Answer::ok(&json!({"tasks": []})))
}

/// `GET /_remote/info`: there are no remote clusters.
pub(crate) async fn remotes(_: Call<Engine>) -> Outcome<Answer> {
    Ok(Answer::ok(&json!({})))
}

/// `POST /_cluster/voting_config_exclusions`: the one node votes alone.
pub(crate) async fn exclude(call: Call<Engine>) -> Outcome<Answer> {
    let given = ["node_ids", "node_names", "node_name"];
    let given = given.iter().filter(|name| call.params.text(name).is_some());
    Err(Failure::illegal_argument(match given.count() {
        1 => "there is one node, which votes alone: no node can be excluded",
        _ => {
            "Please set node identifiers correctly. One and only one of [node_name], [node_names] \
             and [node_ids] has to be set"
        }
    }))
}

/// `DELETE /_cluster/voting_config_exclusions`: there are none.
pub(crate) async fn include(call: Call<Engine>) -> Outcome<Answer> {
    call.params.flag("wait_for_removal")?;
    Ok(Answer::ok(&json!({})))
}
