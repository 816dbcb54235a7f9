//! `_cluster/settings`: what can be set while the server runs. It holds until the server stops, as
//! transient settings do; options of `quire serve` are what persists.

use serde_json::{Map, Value, json};

use super::state::ClusterState;
use super::transient::BY_NAME;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::search::filter::known;
use crate::search::request::parse;

/// A setting that there is not; a wrong value of it is refused as such.
const BACKPRESSURE: &str = "search_backpressure.mode";

/// `GET /_cluster/settings`
pub(crate) async fn get(call: Call<ClusterState>) -> Outcome<Answer> {
    let is_flat = call.params.flag("flat_settings")?.unwrap_or(false);
    let has_defaults = call.params.flag("include_defaults")?.unwrap_or(false);
    let transient = call.state.settings.show(is_flat);
    let mut shown = json!({"persistent": {}, "transient": transient});
    if has_defaults {
        shown["defaults"] = match (is_flat, transient == json!({})) {
            (_, false) => json!({}),
            (true, true) => json!({BY_NAME: "true"}),
            (false, true) => json!({"action": {"destructive_requires_name": "true"}}),
        };
    }
    Ok(Answer::ok(&shown))
}

/// `PUT /_cluster/settings`
pub(crate) async fn put(call: Call<ClusterState>) -> Outcome<Answer> {
    let is_flat = call.params.flag("flat_settings")?.unwrap_or(false);
    let settings = std::sync::Arc::clone(&call.state.settings);
    let body = call.take_small_body().await?;
    let body = parse(&body.bytes)?;
    known(&body, "_cluster/settings", &["persistent", "transient"])?;
    let mut given = None;
    for kind in ["persistent", "transient"] {
        let Some(group) = body.get(kind).and_then(Value::as_object) else {
            continue;
        };
        for (name, value) in flat(group) {
            if name == BACKPRESSURE {
                check_backpressure(&value)?;
            }
            if name != BY_NAME {
                return Err(Failure::illegal_argument(format!(
                    "{kind} setting [{name}], not recognized"
                )));
            }
            if kind == "persistent" && !value.is_null() {
                return Err(Failure::illegal_argument(format!(
                    "persistent setting [{name}] is not supported: give it as transient, which \
                     holds until the server stops"
                )));
            }
            given = Some(flag(&name, &value)?);
        }
    }
    let Some(requires_name) = given else {
        return Err(Failure::validation("no settings to update"));
    };
    settings.set(requires_name);
    let transient = settings.show(is_flat);
    Ok(Answer::ok(
        &json!({"acknowledged": true, "persistent": {}, "transient": transient}),
    ))
}

/// Refuses what is no mode of back-pressure at all.
fn check_backpressure(mode: &Value) -> Outcome<()> {
    let text = mode.as_str().unwrap_or_default();
    match mode.is_null() || ["monitor_only", "enforced", "disabled"].contains(&text) {
        true => Ok(()),
        false => Err(Failure::illegal_argument(format!(
            "Invalid SearchBackpressureMode: {text}"
        ))),
    }
}

/// The value of a switch; none for null, which is its default.
fn flag(name: &str, value: &Value) -> Outcome<Option<bool>> {
    match value {
        Value::Null => Ok(None),
        Value::Bool(flag) => Ok(Some(*flag)),
        Value::String(text) if text == "true" => Ok(Some(true)),
        Value::String(text) if text == "false" => Ok(Some(false)),
        other => Err(Failure::illegal_argument(format!(
            "Failed to parse value [{other}] as only [true] or [false] are allowed for [{name}]."
        ))),
    }
}

/// Settings with dots between the names.
fn flat(group: &Map<String, Value>) -> Vec<(String, Value)> {
    let mut out = Vec::new();
    let mut left: Vec<(String, &Value)> = group.iter().map(|(k, v)| (k.clone(), v)).collect();
    while let Some((name, value)) = left.pop() {
        match value {
            Value::Object(object) => {
                let below = object.iter();
                left.extend(below.map(|(inner, value)| (format!("{name}.{inner}"), value)));
            }
            value => out.push((name, value.clone())),
        }
    }
    out
}
