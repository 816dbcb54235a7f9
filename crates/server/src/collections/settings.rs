//! The settings of a collection, as OpenSearch writes them.
//!
//! - `settings.index.number_of_shards` (nested or dotted, `index.` may be left out) is
//!   `partitions`.
//! - `settings.number_of_replicas` is a number, which is ignored: there are no replicas.
//! - `settings.refresh_interval` is ignored: a write is seen as soon as it is acknowledged.
//! - `settings.quire.*` and `quire.*` are Quire's own settings: `partitions`, `key_field`,
//!   `durability`, `codec`, `block_bytes`, `dictionary_bytes`, `segment_age_secs`,
//!   `retention_secs`, `retention_bytes` and `index` (an object only in a body's own `quire`).
//! - `mappings` is accepted if it changes nothing of what is stored and returned: `properties`,
//!   `dynamic` other than strict and others.
//! - `aliases` are those that the collection has from the start.
//!
//! Anything else is refused by name.

use std::collections::BTreeMap;

use quiredb::{Alias, Aliases, Collection, CollectionSettings};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::aliases;
use crate::http::failure::{Failure, Outcome};

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    #[serde(default)]
    settings: Map<String, Value>,
    #[serde(default)]
    mappings: Map<String, Value>,
    #[serde(default)]
    aliases: Map<String, Value>,
    #[serde(default)]
    quire: Map<String, Value>,
}

/// Reads the body of a request that creates a collection: its settings, and its aliases.
pub(super) fn parse(body: &[u8]) -> Outcome<(CollectionSettings, BTreeMap<String, Alias>)> {
    let body = if body.iter().all(u8::is_ascii_whitespace) {
        Body::default()
    } else {
        serde_json::from_slice(body).map_err(|error| Failure::parse(error.to_string()))?
    };
    let aliases = body.aliases.iter();
    let aliases = aliases.map(|(name, options)| Ok((name.clone(), aliases::options(options)?)));
    let aliases = aliases.collect::<Outcome<_>>()?;
    check_mappings(&body.mappings)?;
    let mut quire = body.quire;
    for (name, value) in flat(body.settings) {
        set(&mut quire, &name, value)?;
    }
    if quire.contains_key("wide") {
        // There is none of a wide collection: that need not be said.
        quire.entry("index").or_insert_with(|| json!("none"));
    }
    // The text of an object is an object.
    let text = Value::Object(quire).to_string();
    let settings = CollectionSettings::from_json(text.as_bytes())
        .map_err(|error| Failure::illegal_argument(error.to_string()))?;
    Ok((settings, aliases))
}

/// Reads the body of a request that changes settings: given settings replace the present ones, and
/// null is the default.
pub(super) fn parse_change(body: &[u8], now: &CollectionSettings) -> Outcome<CollectionSettings> {
    let body: Map<String, Value> =
        serde_json::from_slice(body).map_err(|error| Failure::parse(error.to_string()))?;
    let mut changes = Map::new();
    for (name, value) in flat(body) {
        let name = name.strip_prefix("settings.").unwrap_or(&name);
        set(&mut changes, name, value)?;
    }
    let mut quire: Map<String, Value> = serde_json::from_str(&now.to_json()).unwrap_or_default();
    for (name, value) in changes {
        match value {
            Value::Null => drop(quire.remove(&name)),
            value => drop(quire.insert(name, value)),
        }
    }
    let text = Value::Object(quire).to_string();
    CollectionSettings::from_json(text.as_bytes())
        .map_err(|error| Failure::illegal_argument(error.to_string()))
}

/// Adds one setting to those of Quire.
fn set(quire: &mut Map<String, Value>, name: &str, value: Value) -> Outcome<()> {
    let short = name.strip_prefix("index.").unwrap_or(name);
    let (quire_name, value) = match short {
        "number_of_shards" => ("partitions", number(name, &value)?),
        "number_of_replicas" => return number(name, &value).map(|_| ()),
        "refresh_interval" => return Ok(()),
        _ => match short.strip_prefix("quire.") {
            Some(short) => (short, value),
            None => {
                return Err(Failure::illegal_argument(format!(
                    "unknown setting [{name}]: known are number_of_shards, number_of_replicas, \
                     refresh_interval and those of Quire, quire.*"
                )));
            }
        },
    };
    match quire.insert(quire_name.to_owned(), value.clone()) {
        Some(other) if other != value => Err(Failure::illegal_argument(format!(
            "setting [{name}] is given twice: {other} and {value}"
        ))),
        _ => Ok(()),
    }
}

/// A number, which OpenSearch accepts as a string too.
fn number(name: &str, value: &Value) -> Outcome<Value> {
    let number = match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    number.map(Value::from).ok_or_else(|| {
        Failure::illegal_argument(format!(
            "Failed to parse value [{value}] for setting [{name}]: a number is expected"
        ))
    })
}

/// Nested settings as one list, with dots between the names.
fn flat(settings: Map<String, Value>) -> Vec<(String, Value)> {
    let mut out = Vec::new();
    let mut left: Vec<(String, Value)> = settings.into_iter().collect();
    while let Some((name, value)) = left.pop() {
        match value {
            Value::Object(object) => {
                left.extend(
                    object
                        .into_iter()
                        .map(|(inner, value)| (format!("{name}.{inner}"), value)),
                );
            }
            value => out.push((name, value)),
        }
    }
    out
}

/// Refuses mappings that would change which documents are accepted or what is returned.
fn check_mappings(mappings: &Map<String, Value>) -> Outcome<()> {
    for (name, value) in mappings {
        let changes_nothing = match name.as_str() {
            "properties"
            | "_meta"
            | "dynamic_templates"
            | "dynamic_date_formats"
            | "date_detection"
            | "numeric_detection" => true,
            "dynamic" => !value
                .as_str()
                .is_some_and(|text| text.starts_with("strict")),
            "_source" => *value == json!({}) || *value == json!({"enabled": true}),
            _ => false,
        };
        if !changes_nothing {
            return Err(Failure::illegal_argument(format!(
                "mappings.{name} [{value}] is not supported: documents with any fields are \
                 accepted, and returned whole"
            )));
        }
    }
    Ok(())
}

/// A collection as `GET /{collection}` shows it.
pub(super) fn describe(collection: &Collection, aliases: &Aliases) -> Value {
    let settings = collection.settings();
    // The settings' own text is an object.
    let quire: Value = serde_json::from_str(&settings.to_json()).unwrap_or_default();
    json!({
        "aliases": aliases::of_collection(aliases, collection.name()),
        "mappings": {},
        "settings": {
            "index": {
                "number_of_shards": settings.partitions.to_string(),
                "number_of_replicas": "0",
                "provided_name": collection.name(),
            },
            "quire": quire,
        },
    })
}
