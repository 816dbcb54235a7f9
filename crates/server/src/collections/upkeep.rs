//! Calls that clients make to look after an index, of which there is nothing to be done:
//! `_cache/clear`, `_upgrade`.

use serde_json::{Map, Value, json};

use super::api_settings::Use;
use super::selection::{Selection, shards};
use super::states::States;
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::Outcome;

/// `POST /_cache/clear`, `/{collection}/_cache/clear`: answers are not cached, so there are none to
/// drop.
pub(crate) async fn clear_cache(call: Call<Engine>) -> Outcome<Answer> {
    for flag in ["fielddata", "file", "query", "request"] {
        call.params.flag(flag)?;
    }
    let selection = Selection::for_use(&call, Use::Upkeep, States::OPEN)?;
    let work = move |engine: &Engine| {
        let collections = selection.collections(engine)?;
        Ok(Answer::ok(&json!({"_shards": shards(&collections)})))
    };
    call.state.read(work).await?
}

/// `POST /_upgrade`, `/{collection}/_upgrade`: files of every format that a database has are read
/// and written, so none is rewritten. The version is that of Quire.
pub(crate) async fn upgrade(call: Call<Engine>) -> Outcome<Answer> {
    for flag in ["only_ancient_segments", "wait_for_completion"] {
        call.params.flag(flag)?;
    }
    let selection = Selection::for_use(&call, Use::Upkeep, States::OPEN)?;
    let work = move |engine: &Engine| {
        let collections = selection.collections(engine)?;
        let version = json!({"upgrade_version": env!("CARGO_PKG_VERSION")});
        let named = collections.iter();
        let named = named.map(|collection| (collection.name().to_owned(), version.clone()));
        Ok(Answer::ok(&json!({
            "_shards": shards(&collections),
            "upgraded_indices": Value::Object(named.collect::<Map<_, _>>()),
        })))
    };
    call.state.read(work).await?
}
