//! `_resolve/index`: which collections and aliases names stand for.

use serde_json::{Map, Value, json};

use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::Outcome;
use crate::http::fields::glob;

/// `GET /_resolve/index/{collection}`
pub(crate) async fn resolve(call: Call<Engine>) -> Outcome<Answer> {
    let patterns = call.collection();
    let is_named = |name: &str| {
        let mut patterns = patterns.split(',');
        patterns.any(|pattern| pattern == "_all" || glob(pattern.as_bytes(), name.as_bytes()))
    };
    let database = call.state.database();
    let (collections, aliases) = (database.collections(), database.aliases());
    let of_collection = |name: &String| {
        let aliases = aliases.iter().filter(|(_, of)| of.contains_key(name));
        let aliases: Vec<&String> = aliases.map(|(alias, _)| alias).collect();
        let mut shown = Map::from_iter([("name".to_owned(), Value::from(name.as_str()))]);
        if !aliases.is_empty() {
            shown.insert("aliases".into(), json!(aliases));
        }
        shown.insert("attributes".into(), json!(["open"]));
        Value::Object(shown)
    };
    let indices = collections.iter().filter(|name| is_named(name));
    let indices: Vec<Value> = indices.map(of_collection).collect();
    let named = aliases.iter().filter(|(alias, _)| is_named(alias));
    let shown: Vec<Value> = named
        .map(|(alias, of)| json!({"name": alias, "indices": of.keys().collect::<Vec<_>>()}))
        .collect();
    Ok(Answer::ok(
        &json!({"indices": indices, "aliases": shown, "data_streams": []}),
    ))
}
