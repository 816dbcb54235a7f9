//! `_resolve/index` and `_data_stream`: which collections and aliases names stand for.

use quiredb::ApiSettings;
use serde_json::{Map, Value, json};

use super::api_settings::is_hidden;
use super::states::States;
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::http::fields::glob;

/// `GET /_resolve/index/{collection}`: patterns stand for open ones, unless the request says
/// otherwise.
pub(crate) async fn resolve(call: Call<Engine>) -> Outcome<Answer> {
    let states = call.params.text("expand_wildcards").map(States::parse);
    let states = states.transpose()?.unwrap_or(States::OPEN);
    let patterns = call.collection();
    let database = call.state.database();
    let (aliases, kept) = (database.aliases(), database.api_settings());
    let is_named = |name: &str, has_state: bool| {
        let mut patterns = patterns.split(',');
        patterns.any(|pattern| {
            let is_pattern = pattern == "_all" || pattern.contains('*');
            let matches = pattern == "_all" || glob(pattern.as_bytes(), name.as_bytes());
            matches && (has_state || !is_pattern)
        })
    };
    let of_collection = |name: &String| {
        let of_one = aliases.iter().filter(|(_, of)| of.contains_key(name));
        let of_one: Vec<&String> = of_one.map(|(alias, _)| alias).collect();
        let mut shown = Map::from_iter([("name".to_owned(), Value::from(name.as_str()))]);
        if !of_one.is_empty() {
            shown.insert("aliases".into(), json!(of_one));
        }
        shown.insert("attributes".into(), json!(attributes(kept.get(name))));
        Value::Object(shown)
    };
    let collections = call.state.collections();
    let indices = collections.iter();
    let indices = indices.filter(|name| is_named(name, states.has(kept.get(*name))));
    let indices: Vec<Value> = indices.map(of_collection).collect();
    let named = aliases.iter().filter(|(alias, of)| {
        let is_hidden = of.values().any(|one| one.is_hidden == Some(true));
        is_named(alias, states.has_hidden() || !is_hidden)
    });
    let shown: Vec<Value> = named
        .map(|(alias, of)| json!({"name": alias, "indices": of.keys().collect::<Vec<_>>()}))
        .collect();
    Ok(Answer::ok(
        &json!({"indices": indices, "aliases": shown, "data_streams": []}),
    ))
}

/// The states of a collection, of which servers keep this.
fn attributes(kept: Option<&ApiSettings>) -> Vec<&'static str> {
    let is_closed = kept.is_some_and(|kept| kept.closed);
    let state = match is_closed {
        true => "closed",
        false => "open",
    };
    let hidden = kept.is_some_and(is_hidden).then_some("hidden");
    hidden.into_iter().chain([state]).collect()
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
