//! `_resolve/index` and `_data_stream`: which collections and aliases names stand for.

use serde_json::{Map, Value, json};

use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::http::fields::glob;

/// `GET /_resolve/index/{collection}`
pub(crate) async fn resolve(call: Call<Engine>) -> Outcome<Answer> {
    let patterns = call.collection();
    let is_named = |name: &str| {
        let mut patterns = patterns.split(',');
        patterns.any(|pattern| pattern == "_all" || glob(pattern.as_bytes(), name.as_bytes()))
    };
    let database = call.state.database();
    let (collections, aliases) = (call.state.collections(), database.aliases());
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

/// `GET /_data_stream`, `/_data_stream/{collection}`: clients look whether an index is one. A name
/// is not found, a pattern matches none.
pub(crate) async fn data_streams(call: Call<Engine>) -> Outcome<Answer> {
    let names = call.path_param("collection").unwrap_or("*");
    let is_pattern = |name: &str| matches!(name, "_all" | "") || name.contains('*');
    match names.split(',').find(|name| !is_pattern(name)) {
        Some(name) => Err(Failure::index_not_found(name)),
        None => Ok(Answer::ok(&json!({"data_streams": []}))),
    }
}
