//! The settings of a collection, as OpenSearch writes them.
//!
//! - `settings.index.number_of_shards` (nested or dotted, `index.` may be left out) is
//!   `partitions`.
//! - `settings.number_of_replicas` is a number, which is ignored: there are no replicas.
//! - `settings.refresh_interval` is ignored: a write is seen as soon as it is acknowledged. So are
//!   those of [`IGNORED`], which change no answer here.
//! - `settings.quire.*` and `quire.*` are Quire's own settings: `partitions`, `key_field`,
//!   `durability`, `codec`, `block_bytes`, `dictionary_bytes`, `segment_age_secs`,
//!   `retention_secs`, `retention_bytes` and `index` (an object only in a body's own `quire`).
//! - `mappings` gives fields types, which documents must agree with: see [`Mapping`].
//! - `aliases` are those that the collection has from the start.
//!
//! Anything else is refused by name.

use std::collections::BTreeMap;

use quiredb::{Alias, Aliases, Collection, CollectionSettings, Mapping};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::aliases;
use super::flat_settings::{flat, nest};
use super::templates::Composed;
use crate::http::failure::{Failure, Outcome};
use crate::http::fields::glob;

/// Settings of OpenSearch that change no answer here; those with a dot at the end stand for all
/// below them.
const IGNORED: [&str; 21] = [
    "allocation.",
    "auto_expand_replicas",
    "gc_deletes",
    "mapping.",
    "max_docvalue_fields_search",
    "max_inner_result_window",
    "max_ngram_diff",
    "max_refresh_listeners",
    "max_result_window",
    "max_terms_count",
    "merge.",
    "number_of_routing_shards",
    "priority",
    "query.default_field",
    "refresh_interval",
    "requests.cache.enable",
    "routing.",
    "search.idle.after",
    "translog.",
    "unassigned.node_left.delayed_timeout",
    "write.wait_for_active_shards",
];

fn is_ignored(name: &str) -> bool {
    let is_in = |ignored: &&str| match ignored.ends_with('.') {
        true => name.starts_with(*ignored),
        false => name == *ignored,
    };
    IGNORED.iter().any(is_in)
}

fn is_false(value: &Value) -> bool {
    *value == false || *value == "false"
}

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

/// Reads the body of a request that creates a collection: its settings, and its aliases. What it
/// says counts more than its templates.
pub(crate) fn parse(
    body: &[u8],
    template: &Composed,
) -> Outcome<(CollectionSettings, BTreeMap<String, Alias>)> {
    let body = if body.iter().all(u8::is_ascii_whitespace) {
        Body::default()
    } else {
        serde_json::from_slice(body).map_err(|error| Failure::parse(error.to_string()))?
    };
    let mut whole = template.clone();
    whole.add(body.settings, &body.mappings, &body.aliases);
    let aliases = whole.aliases.iter();
    let aliases = aliases.map(|(name, options)| Ok((name.clone(), aliases::options(options)?)));
    let aliases = aliases.collect::<Outcome<_>>()?;
    let mapping = Mapping::parse(&whole.mappings).map_err(|error| Failure::mapping(&error))?;
    let mut quire = body.quire;
    for (name, value) in whole.settings {
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
    Ok((with_mapping(settings, &mapping)?, aliases))
}

/// Settings with what a mapping adds to theirs. A field with `index` false has no index.
///
/// # Errors
/// 400 if a field has another type already.
pub(super) fn with_mapping(
    mut settings: CollectionSettings,
    added: &Mapping,
) -> Outcome<CollectionSettings> {
    let merged = settings.mapping.merged(added);
    settings.mapping = merged.map_err(|error| Failure::illegal_argument(error.to_string()))?;
    for path in added.unindexed() {
        settings.index = settings.index.with(&path, false);
    }
    Ok(settings)
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
        "hidden" if is_false(&value) => return Ok(()),
        ignored if is_ignored(ignored) => return Ok(()),
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

/// A collection as `GET /{collection}` shows it.
pub(crate) fn describe(collection: &Collection, aliases: &Aliases) -> Value {
    let mapping = collection.settings().mapping.to_json();
    json!({
        "aliases": aliases::of_collection(aliases, collection.name()),
        "mappings": mapping,
        "settings": describe_settings(collection),
    })
}

/// The settings of a collection, as OpenSearch nests them.
fn describe_settings(collection: &Collection) -> Value {
    let settings = collection.settings();
    // The settings' own text is an object.
    let mut quire: Map<String, Value> =
        serde_json::from_str(&settings.to_json()).unwrap_or_default();
    quire.remove("mapping");
    json!({
        "index": {
            "number_of_shards": settings.partitions.to_string(),
            "number_of_replicas": "0",
            "provided_name": collection.name(),
        },
        "quire": quire,
    })
}

/// The settings of a collection whose names match one of `patterns`, all if there are none; as one
/// flat object or nested.
pub(super) fn chosen(collection: &Collection, patterns: &[String], is_flat: bool) -> Value {
    let Value::Object(all) = describe_settings(collection) else {
        return Value::Null;
    };
    let matches = |name: &str| {
        let mut patterns = patterns.iter();
        let matches = |pattern: &String| glob(pattern.as_bytes(), name.as_bytes());
        patterns.len() == 0 || patterns.any(matches)
    };
    let mut kept: Vec<(String, Value)> = flat(all);
    kept.retain(|(name, _)| matches(name));
    kept.sort_by(|(one, _), (other, _)| one.cmp(other));
    if is_flat {
        return Value::Object(kept.into_iter().collect());
    }
    let mut nested = Map::new();
    for (name, value) in kept {
        nest(&mut nested, &name, value);
    }
    Value::Object(nested)
}
