//! The settings of a collection, as OpenSearch writes them.
//!
//! - `settings.index.number_of_shards` (nested or dotted, `index.` may be left out) is
//!   `partitions`.
//! - `settings.index.blocks.*` and `settings.index.hidden` mean what they say.
//! - `settings.number_of_replicas`, `settings.refresh_interval` and others that change no answer
//!   here are kept and shown as they were given: see [`kept`].
//! - `settings.quire.*` and `quire.*` are Quire's own settings: `partitions`, `key_field`,
//!   `durability`, `codec`, `block_bytes`, `dictionary_bytes`, `segment_age_secs`,
//!   `retention_secs`, `retention_bytes`, `log_retention_secs`, `index` and, of a new collection,
//!   `wide`.
//! - `mappings` gives fields types, which documents must agree with: see [`Mapping`].
//! - `aliases` are those that the collection has from the start.
//!
//! Anything else is refused by name.

use std::collections::BTreeMap;

use quiredb::{Alias, Aliases, Collection, CollectionSettings, Mapping};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::aliases;
use super::api_settings::{Block, created, date_text, kept};
use super::flat_settings::{flat, nest};
use super::templates::Composed;
use crate::http::failure::{Failure, Outcome};
use crate::http::fields::glob;

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
    let mut given = Given {
        quire: body.quire,
        api: BTreeMap::new(),
    };
    for (name, value) in whole.settings {
        given.set(&name, value)?;
    }
    given.check()?;
    let mut quire = given.quire;
    if quire.contains_key("wide") {
        // A row may have columns of any size: which are to be indexed is said.
        quire.entry("index").or_insert_with(|| json!("none"));
    }
    // The text of an object is an object.
    let text = Value::Object(quire).to_string();
    let mut settings = CollectionSettings::from_json(text.as_bytes())
        .map_err(|error| Failure::illegal_argument(error.to_string()))?;
    let kept = given.api.into_iter().filter(|(_, value)| !value.is_null());
    settings.api.settings = kept.collect();
    let checked = settings.check();
    checked.map_err(|error| Failure::illegal_argument(error.to_string()))?;
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

/// Settings that a request gives: those of Quire, and those that are kept for clients by their
/// whole names. Null is the default.
pub(crate) struct Given {
    quire: Map<String, Value>,
    api: BTreeMap<String, Value>,
}

impl Given {
    /// Reads the body of a request that changes settings.
    pub(crate) fn parse(body: &[u8]) -> Outcome<Given> {
        let body: Map<String, Value> =
            serde_json::from_slice(body).map_err(|error| Failure::parse(error.to_string()))?;
        let mut given = Given {
            quire: Map::new(),
            api: BTreeMap::new(),
        };
        for (name, value) in flat(body) {
            given.set(name.strip_prefix("settings.").unwrap_or(&name), value)?;
        }
        given.check()?;
        Ok(given)
    }

    /// Whether nothing but index blocks is given: they can be changed whatever the blocks are.
    pub(super) fn is_of_blocks(&self) -> bool {
        let mut names = self.api.keys();
        self.quire.is_empty() && names.all(|name| name.starts_with("index.blocks."))
    }

    /// Whether nothing but the search index is given.
    pub(super) fn is_of_index(&self) -> bool {
        self.quire.len() == 1 && self.quire.contains_key("index") && self.api.is_empty()
    }

    /// The retention of the log, in seconds, if it is all that is given; null is the default, none.
    pub(super) fn log_retention(&self) -> Outcome<Option<u64>> {
        let is_all = self.quire.len() == 1 && self.api.is_empty();
        let given = self.quire.get("log_retention_secs").filter(|_| is_all);
        let secs = given.map(|value| match value {
            Value::Null => Ok(0),
            value => {
                let text = value.as_str().and_then(|text| text.parse().ok());
                value.as_u64().or(text).ok_or_else(|| {
                    Failure::illegal_argument(format!(
                        "log_retention_secs is [{value}], and must be a number of seconds"
                    ))
                })
            }
        });
        secs.transpose()
    }

    /// Whether a setting is given, by its whole name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.api.contains_key(name)
    }

    /// Whether the number of partitions is given.
    pub(crate) fn has_partitions(&self) -> bool {
        self.quire.contains_key("partitions")
    }

    /// The settings with what is given in place of what they say, unless `preserves` what was given
    /// before.
    pub(crate) fn applied_to(
        &self,
        now: &CollectionSettings,
        preserves: bool,
    ) -> Outcome<CollectionSettings> {
        let text = now.to_json();
        let mut quire: Map<String, Value> = serde_json::from_str(&text).unwrap_or_default();
        for (name, value) in &self.quire {
            match value {
                _ if preserves && quire.contains_key(name) => {}
                Value::Null => drop(quire.remove(name)),
                value => drop(quire.insert(name.clone(), value.clone())),
            }
        }
        let text = Value::Object(quire).to_string();
        let refused = |error: quiredb::Error| Failure::illegal_argument(error.to_string());
        let mut settings = CollectionSettings::from_json(text.as_bytes()).map_err(refused)?;
        let kept = &mut settings.api.settings;
        for (name, value) in &self.api {
            match value {
                _ if preserves && kept.contains_key(name) => {}
                Value::Null => drop(kept.remove(name)),
                value => drop(kept.insert(name.clone(), value.clone())),
            }
        }
        settings.check().map_err(refused)?;
        Ok(settings)
    }

    /// Adds one setting.
    fn set(&mut self, name: &str, value: Value) -> Outcome<()> {
        let short = name.strip_prefix("index.").unwrap_or(name);
        if let Some(value) = kept(short, &value)? {
            let name = format!("index.{short}");
            return once(self.api.insert(name, value.clone()), short, &value);
        }
        let (quire_name, value) = match short.strip_prefix("quire.") {
            _ if short == "number_of_shards" => ("partitions", number(name, &value)?),
            Some(short) => (short, value),
            None => {
                return Err(Failure::illegal_argument(format!(
                    "unknown setting [{name}]: known are number_of_shards, number_of_replicas, \
                     refresh_interval and those of Quire, quire.*"
                )));
            }
        };
        let before = self.quire.insert(quire_name.to_owned(), value.clone());
        once(before, name, &value)
    }

    /// Refuses what is kept for clients among the settings of Quire.
    fn check(&self) -> Outcome<()> {
        match self.quire.contains_key("api") {
            true => Err(Failure::illegal_argument("unknown setting [quire.api]")),
            false => Ok(()),
        }
    }
}

/// Refuses a setting that is given twice, with different values.
fn once(before: Option<Value>, name: &str, value: &Value) -> Outcome<()> {
    match before {
        Some(other) if other != *value => Err(Failure::illegal_argument(format!(
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
pub(crate) fn describe(
    collection: &Collection,
    aliases: &Aliases,
    is_flat: bool,
    is_human: bool,
) -> Value {
    let mapping = collection.settings().mapping.to_json();
    json!({
        "aliases": aliases::of_collection(aliases, collection.name()),
        "mappings": mapping,
        "settings": chosen(collection.name(), &collection.settings(), &[], is_flat, is_human),
    })
}

/// The settings of a collection, as OpenSearch nests them.
fn describe_settings(name: &str, settings: &CollectionSettings) -> Map<String, Value> {
    // The settings' own text is an object.
    let mut quire: Map<String, Value> =
        serde_json::from_str(&settings.to_json()).unwrap_or_default();
    // These are shown by `_mapping`.
    quire.remove("mapping");
    quire.remove("wide");
    quire.remove("api");
    let index = json!({
        "number_of_shards": settings.partitions.to_string(),
        "number_of_replicas": "0",
        "provided_name": name,
    });
    let mut shown = Map::new();
    shown.insert("index".into(), index);
    for (name, value) in &settings.api.settings {
        nest(&mut shown, name, value.clone());
    }
    shown.insert("quire".into(), quire.into());
    shown
}

/// The settings of a collection whose names match one of `patterns`, all if there are none; as one
/// flat object or nested. For people times are shown as text too.
pub(super) fn chosen(
    name: &str,
    settings: &CollectionSettings,
    patterns: &[String],
    is_flat: bool,
    is_human: bool,
) -> Value {
    let mut kept: Vec<(String, Value)> = flat(describe_settings(name, settings));
    if is_human && let Some(created) = created(&settings.api) {
        let name = "index.creation_date_string".to_owned();
        kept.push((name, date_text(created).into()));
    }
    kept.retain(|(name, _)| is_named(patterns, name));
    shape(kept, is_flat)
}

/// The defaults of settings that a collection has and nobody gave, likewise.
pub(super) fn defaults(settings: &CollectionSettings, patterns: &[String], is_flat: bool) -> Value {
    let of_blocks = Block::ALL.map(|block| (block.setting(), "false"));
    let others = [("index.hidden", "false"), ("index.refresh_interval", "1s")];
    let all = of_blocks.into_iter().chain(others);
    let left = all.filter(|(name, _)| !settings.api.settings.contains_key(*name));
    let named = left.filter(|(name, _)| is_named(patterns, name));
    shape(
        named
            .map(|(name, value)| (name.to_owned(), value.into()))
            .collect(),
        is_flat,
    )
}

fn is_named(patterns: &[String], name: &str) -> bool {
    let mut matched = patterns
        .iter()
        .map(|pattern| glob(pattern.as_bytes(), name.as_bytes()));
    patterns.is_empty() || matched.any(|it| it)
}

/// Settings by dotted names as one flat object or nested, sorted.
pub(super) fn shape(mut settings: Vec<(String, Value)>, is_flat: bool) -> Value {
    settings.sort_by(|(one, _), (other, _)| one.cmp(other));
    if is_flat {
        return Value::Object(settings.into_iter().collect());
    }
    let mut nested = Map::new();
    for (name, value) in settings {
        nest(&mut nested, &name, value);
    }
    Value::Object(nested)
}
