//! The columns of a wide collection: shown as a mapping, and changed while it is served.

use std::collections::BTreeMap;

use quiredb::Aliases;
use quiredb::wide::{ColumnType, Schema, WideCollection};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::to_read;
use crate::collections::aliases::of_collection;
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};

/// Changes: columns are renamed first, then dropped, then added, then given times to live; then
/// groups are shaped, and columns moved to other groups.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Changes {
    /// New names by present ones.
    #[serde(default)]
    rename: BTreeMap<String, String>,
    #[serde(default)]
    drop: Vec<String>,
    /// Properties as those of a schema, by name.
    #[serde(default)]
    add: BTreeMap<String, Box<RawValue>>,
    /// Times to live of columns, as schemas have them; null for none.
    #[serde(default, rename = "timeToLive")]
    time_to_live: BTreeMap<String, Option<String>>,
    /// Other groups of columns, by the columns' names.
    #[serde(default, rename = "move")]
    moves: BTreeMap<String, String>,
    /// Groups as those of a schema, by name.
    #[serde(default)]
    groups: BTreeMap<String, Box<RawValue>>,
}

/// `POST /{collection}/_schema`: all of the changes, or none.
pub(crate) async fn change(call: Call<Engine>) -> Outcome<Answer> {
    let (engine, index) = (call.state.clone(), call.collection());
    let body = call.take_small_body().await?;
    let work = move |engine: &Engine| {
        let changes: Changes = serde_json::from_slice(&body.bytes)
            .map_err(|error| Failure::parse(error.to_string()))?;
        let wide = to_read(engine, &index)?;
        let (database, name) = (engine.database(), wide.name());
        let altered = database.alter_wide_collection(name, |schema| changes.apply(schema));
        let altered = altered.map_err(|error| Failure::engine(&error, Some(name)))?;
        Ok(Answer::ok(&json!({
            "acknowledged": true,
            "mappings": mapping(&altered),
        })))
    };
    engine.write(work).await?
}

impl Changes {
    fn apply(&self, mut schema: Schema) -> Result<Schema, quiredb::wide::Error> {
        for (from, to) in &self.rename {
            schema = schema.with_renamed(from, to)?;
        }
        for name in &self.drop {
            schema = schema.without_column(name)?;
        }
        for (name, property) in &self.add {
            schema = schema.with_property(name, property.get().as_bytes())?;
        }
        for (name, text) in &self.time_to_live {
            schema = schema.with_time_to_live_text(name, text.as_deref())?;
        }
        for (name, group) in &self.groups {
            schema = schema.with_group_json(name, group.get().as_bytes())?;
        }
        for (name, group) in &self.moves {
            schema = schema.with_moved(name, group)?;
        }
        Ok(schema)
    }
}

/// `POST /{collection}/_tier`: moves all cells that are due between the tiers of their groups.
pub(crate) async fn tier(call: Call<Engine>) -> Outcome<Answer> {
    let (engine, index) = (call.state.clone(), call.collection());
    let work = move |engine: &Engine| {
        let moved = to_read(engine, &index)?.tier();
        let moved = moved.map_err(|error| Failure::engine(&error, Some(&index)))?;
        Ok(Answer::ok(
            &json!({"rows": moved.rows, "bytes": moved.bytes}),
        ))
    };
    engine.write(work).await?
}

/// The schema as OpenSearch shows a mapping, and in `_meta` as Quire has it.
pub(crate) fn mapping(wide: &WideCollection) -> Value {
    let schema = wide.schema();
    let mut properties = Map::new();
    for column in schema.columns() {
        let shown = match (column.family, type_name(column.kind)) {
            (true, _) => json!({"type": "flat_object"}),
            (false, name) => json!({"type": name}),
        };
        properties.insert(column.name.clone(), shown);
    }
    let own: Value = serde_json::from_str(&schema.to_json()).unwrap_or_default();
    let dynamic = match schema.keeps_undeclared() {
        true => "true",
        false => "strict",
    };
    json!({"dynamic": dynamic, "properties": properties, "_meta": {"wide": own}})
}

/// A collection as `GET /{collection}` shows it.
pub(crate) fn describe(wide: &WideCollection, aliases: &Aliases) -> Value {
    let settings = wide.settings();
    let mut quire: Value = serde_json::from_str(&settings.to_json()).unwrap_or_default();
    if let Some(quire) = quire.as_object_mut() {
        quire.remove("api");
    }
    json!({
        "aliases": of_collection(aliases, wide.name()),
        "mappings": mapping(wide),
        "settings": {
            "index": {
                "number_of_shards": settings.partitions.to_string(),
                "number_of_replicas": "0",
                "provided_name": wide.name(),
            },
            "quire": quire,
        },
    })
}

fn type_name(kind: ColumnType) -> &'static str {
    match kind {
        ColumnType::String => "keyword",
        ColumnType::Bytes => "binary",
        ColumnType::Int | ColumnType::Timestamp => "long",
        ColumnType::Float => "double",
        ColumnType::Bool => "boolean",
        _ => "object",
    }
}
