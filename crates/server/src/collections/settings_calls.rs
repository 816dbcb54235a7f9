//! `_settings`: the settings of collections.

use quiredb::ErrorKind;
use serde_json::{Map, Value, json};

use super::selection::Selection;
use super::settings;
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};

/// `GET /_settings`, `/{collection}/_settings`, each also with `/{name}`
pub(crate) async fn get(call: Call<Engine>) -> Outcome<Answer> {
    let is_flat = call.params.flag("flat_settings")?.unwrap_or(false);
    call.params.flag("include_defaults")?;
    call.params.flag("local")?;
    let patterns = call.path_param("name").unwrap_or("_all");
    let patterns: Vec<String> = match patterns {
        "_all" | "*" => Vec::new(),
        patterns => patterns.split(',').map(str::to_owned).collect(),
    };
    let selection = Selection::of(&call)?;
    let work = move |engine: &Engine| {
        let mut all = Map::new();
        for collection in selection.collections(engine)? {
            let shown = settings::chosen(&collection, &patterns, is_flat);
            if shown.as_object().is_some_and(|shown| !shown.is_empty()) {
                all.insert(collection.name().to_owned(), json!({"settings": shown}));
            }
        }
        Ok(Answer::ok(&Value::Object(all)))
    };
    call.state.read(work).await?
}

/// `PUT /{collection}/_settings`: segments made from then on follow the new settings.
pub(crate) async fn change(call: Call<Engine>) -> Outcome<Answer> {
    let (engine, index) = (call.state.clone(), call.collection());
    let body = call.take_small_body().await?;
    let work = move |engine: &Engine| {
        let refused = |error: quiredb::Error| match error.kind() {
            ErrorKind::NotFound => Failure::index_not_found(&index),
            ErrorKind::Invalid => Failure::illegal_argument(error.to_string()),
            _ => Failure::engine(&error, Some(&index)),
        };
        let collection = engine.collection(&index)?;
        let settings = settings::parse_change(&body.bytes, &collection.settings())?;
        let changed = engine
            .database()
            .change_settings(collection.name(), settings);
        changed.map_err(refused)?;
        Ok(Answer::ok(&json!({"acknowledged": true})))
    };
    engine.write(work).await?
}
