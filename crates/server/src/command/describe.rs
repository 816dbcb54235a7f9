//! A collection, as the command sees it: its settings, its positions, its fields.

use axum::http::StatusCode;
use serde_json::json;

use crate::collections::selection::Searched;
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};

/// `GET /{collection}/_quire`
pub(crate) async fn describe(call: Call<Engine>) -> Outcome<Answer> {
    let name = call.collection();
    let work = move |engine: &Engine| {
        let one = Searched::only(engine, &name)?;
        let settings = one.settings().unwrap_or_default().to_json();
        let positions = one.bare_view()?.positions();
        // The settings' own text is an object.
        let settings: serde_json::Value = serde_json::from_str(&settings).unwrap_or_default();
        let positions: Vec<u64> = positions.iter().map(|position| position.0).collect();
        Ok(Answer::ok(
            &json!({"name": one.name(), "settings": settings, "positions": positions}),
        ))
    };
    call.state.read(work).await?
}

/// `GET /{collection}/_quire/stats`
pub(crate) async fn stats(call: Call<Engine>) -> Outcome<Answer> {
    let name = call.collection();
    let work = move |engine: &Engine| {
        let stats = Searched::only(engine, &name)?.stats()?;
        let json = serde_json::to_vec(&stats);
        json.map_err(|error| Failure::internal(error.to_string()))
    };
    let json = call.state.read(work).await??;
    Ok(Answer::json(StatusCode::OK, json))
}

/// `GET /{collection}/_quire/fields`
pub(crate) async fn fields(call: Call<Engine>) -> Outcome<Answer> {
    let name = call.collection();
    let work = move |engine: &Engine, stop: &(dyn Fn() -> bool + Sync)| {
        let found = Searched::only(engine, &name)?.fields(stop)?;
        let json = serde_json::to_vec(&found);
        json.map_err(|error| Failure::internal(error.to_string()))
    };
    let json = call.state.search(work).await??;
    Ok(Answer::json(StatusCode::OK, json))
}

/// `POST /{collection}/_quire/sync`
pub(crate) async fn sync(call: Call<Engine>) -> Outcome<Answer> {
    let name = call.collection();
    let work = move |engine: &Engine| {
        Searched::only(engine, &name)?.sync()?;
        Ok(Answer::ok(&json!({"acknowledged": true})))
    };
    call.state.write(work).await?
}
