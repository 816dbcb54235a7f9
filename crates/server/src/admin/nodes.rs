//! The one node that there is: `_nodes`.

use serde_json::{Map, Value, json};

use super::state::ClusterState;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::http::fields::glob;
use crate::http::parts::Parts;
use crate::search::aggregations::KINDS;
use crate::search::filter::known;
use crate::search::request::parse;
use crate::tasks::listed::{self, NODE, ROLES};

/// The parts of what `_nodes` says.
const PARTS: [&str; 11] = [
    "settings",
    "os",
    "process",
    "jvm",
    "thread_pool",
    "transport",
    "http",
    "plugins",
    "ingest",
    "aggregations",
    "indices",
];

/// What OpenSearch says of nodes at paths of their own, and Quire does not, with what to use.
const NOT_SAID: [(&str, &str); 3] = [
    ("hot_threads", "[/_tasks] has what runs"),
    ("hotthreads", "[/_tasks] has what runs"),
    ("usage", "[/_nodes/stats] and [/_stats] count requests"),
];

/// What is said of the node in every answer.
pub(super) fn node(state: &ClusterState) -> Map<String, Value> {
    let mut node = listed::node(state.listen);
    node.insert("version".to_owned(), state.compat.version().into());
    node.insert("build_type".to_owned(), "quire".into());
    node.insert("build_hash".to_owned(), "unknown".into());
    node
}

/// The answer about the node, if it is among those that are named.
pub(super) fn answer(node: Option<Map<String, Value>>) -> Answer {
    let (mut nodes, mut total) = (Map::new(), 0);
    if let Some(node) = node {
        nodes.insert(NODE.to_owned(), node.into());
        total = 1;
    }
    Answer::ok(&json!({
        "_nodes": {"total": total, "successful": total, "failed": 0},
        "cluster_name": "quire",
        "nodes": nodes,
    }))
}

/// Whether the node is among those named between commas: by id, name, address, role, or all.
pub(super) fn is_named(state: &ClusterState, names: &str) -> bool {
    let ip = state.listen.ip().to_string();
    let is = |name: &str| match name {
        "" | "_all" | "_local" | "_master" | "_cluster_manager" => true,
        name => match name.split_once(':') {
            Some((role, flag)) if ["true", "false"].contains(&flag) => {
                let has = matches!(role, "master" | "data") || ROLES.contains(&role);
                has == (flag == "true")
            }
            _ => [NODE, ip.as_str()]
                .iter()
                .any(|own| glob(name.as_bytes(), own.as_bytes())),
        },
    };
    names.split(',').any(|name| is(name.trim()))
}

/// The nodes and the parts that a path names. One segment alone may be either: it names parts if
/// one of its names is a part.
fn named(call: &Call<ClusterState>) -> Outcome<(&str, Parts)> {
    let is_part = |name: &str| name == "_all" || PARTS.contains(&name);
    for segment in [call.path_param("id"), call.path_param("name")] {
        let unsaid = NOT_SAID.iter().find(|(name, _)| Some(*name) == segment);
        if let Some((name, instead)) = unsaid {
            return Err(Failure::illegal_argument(format!(
                "[{name}] of nodes is not supported: {instead}"
            )));
        }
    }
    match (call.path_param("id"), call.path_param("name")) {
        (None, Some(names)) if !names.split(',').any(is_part) => Ok((names, Parts::all())),
        (nodes, _) => Ok((nodes.unwrap_or("_all"), Parts::of(call, "name", &PARTS)?)),
    }
}

/// `GET /_nodes`, `/_nodes/{name}`, `/_nodes/{id}/{name}`
pub(crate) async fn info(call: Call<ClusterState>) -> Outcome<Answer> {
    let is_flat = call.params.flag("flat_settings")?.unwrap_or(false);
    let (nodes, parts) = named(&call)?;
    if !is_named(&call.state, nodes) {
        return Ok(answer(None));
    }
    let mut shown = node(&call.state);
    // opensearch-java requires figures of Java machines in the others where it finds them.
    let is_wanted = |part: &&str| match parts.are_all() {
        true => *part == "http",
        false => parts.has(part),
    };
    for part in PARTS.into_iter().filter(is_wanted) {
        if let Some(value) = info_part(&call.state, part, is_flat) {
            shown.insert(part.to_owned(), value);
        }
    }
    Ok(answer(Some(shown)))
}

fn info_part(state: &ClusterState, part: &str, is_flat: bool) -> Option<Value> {
    let address = state.listen.to_string();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Some(match part {
        "settings" if is_flat => json!({
            "client.type": "node",
            "cluster.name": "quire",
            "node.name": NODE,
        }),
        "settings" => json!({
            "client": {"type": "node"},
            "cluster": {"name": "quire"},
            "node": {"name": NODE},
        }),
        "os" => json!({
            "name": std::env::consts::OS,
            "arch": std::env::consts::ARCH,
            "available_processors": processors,
            "allocated_processors": processors,
        }),
        "process" => json!({"id": std::process::id(), "mlockall": false}),
        "thread_pool" => {
            let pool = |(name, size): (&str, usize)| {
                (
                    name.to_owned(),
                    json!({"type": "fixed", "size": size, "queue_size": -1}),
                )
            };
            state
                .pools
                .into_iter()
                .map(pool)
                .collect::<Map<_, _>>()
                .into()
        }
        // Nodes do not speak to one another.
        "transport" => json!({
            "bound_address": [address],
            "publish_address": address,
            "profiles": {},
        }),
        "http" => json!({
            "bound_address": [address],
            "publish_address": address,
            "max_content_length_in_bytes": 100 << 20,
        }),
        "plugins" => json!([]),
        "ingest" => json!({"processors": []}),
        "aggregations" => {
            let kind = |kind: &&str| ((*kind).to_owned(), json!({"types": ["other"]}));
            KINDS.iter().map(kind).collect::<Map<_, _>>().into()
        }
        // There is no virtual machine, and no more is said of these.
        _ => return None,
    })
}

/// `POST /_nodes/reload_secure_settings`, `/_nodes/{id}/reload_secure_settings`: there are no such
/// settings, so there is nothing to read again, and no password of them is right but an empty one.
pub(crate) async fn reload(call: Call<ClusterState>) -> Outcome<Answer> {
    let nodes = call.path_param("id").unwrap_or("_all");
    if !is_named(&call.state, nodes) {
        return Ok(answer(None));
    }
    let body = call.take_small_body().await?;
    let body = parse(&body.bytes)?;
    let name = "secure_settings_password";
    known(&body, "reload_secure_settings", &[name])?;
    let mut shown = Map::from_iter([("name".to_owned(), NODE.into())]);
    let is_empty = |password: &Value| password.is_null() || password == "";
    if !body.get(name).is_none_or(is_empty) {
        let exception = json!({
            "type": "security_exception",
            "reason": "Provided keystore password was incorrect",
        });
        shown.insert("reload_exception".to_owned(), exception);
    }
    Ok(answer(Some(shown)))
}
