//! `_cluster/settings`: what can be set while the server runs. It holds until the server stops, as
//! transient settings do; options of `quire serve` are what persists.

use serde_json::{Map, Value, json};

use super::state::ClusterState;
use super::transient::{BUCKETS, BY_NAME};
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
    let given = call.state.settings.given();
    let mut shown = json!({"persistent": {}, "transient": given.show(false, is_flat)});
    if has_defaults {
        shown["defaults"] = given.show(true, is_flat);
    }
    Ok(Answer::ok(&shown))
}

/// `PUT /_cluster/settings`
pub(crate) async fn put(call: Call<ClusterState>) -> Outcome<Answer> {
    let is_flat = call.params.flag("flat_settings")?.unwrap_or(false);
    let settings = std::sync::Arc::clone(&call.state.settings);
    let engine = call.state.engine.clone();
    let body = call.take_small_body().await?;
    let body = parse(&body.bytes)?;
    known(&body, "_cluster/settings", &["persistent", "transient"])?;
    let (mut given, mut is_empty) = (settings.given(), true);
    for kind in ["persistent", "transient"] {
        let Some(group) = body.get(kind).and_then(Value::as_object) else {
            continue;
        };
        for (name, value) in flat(group) {
            if name == BACKPRESSURE {
                check_backpressure(&value)?;
            }
            if ![BY_NAME, BUCKETS].contains(&name.as_str()) {
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
            is_empty = false;
            match name == BUCKETS {
                true => given.buckets_max = count(&name, &value)?,
                false => given.requires_name = flag(&name, &value)?,
            }
        }
    }
    if is_empty {
        return Err(Failure::validation("no settings to update"));
    }
    settings.set(given);
    engine.set_buckets_max(given.buckets_max);
    let transient = given.show(false, is_flat);
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

/// A count; none for null, which is its default.
fn count(name: &str, value: &Value) -> Outcome<Option<u64>> {
    let count = match value {
        Value::Null => return Ok(None),
        Value::String(text) => text.parse().ok(),
        other => other.as_u64(),
    };
    match count.filter(|count| *count <= i32::MAX as u64) {
        Some(count) => Ok(Some(count)),
        None => Err(Failure::illegal_argument(format!(
            "Failed to parse value [{value}] for setting [{name}]: it is a whole number up to {}",
            i32::MAX
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
