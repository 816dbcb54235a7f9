//! `_close` and `_open`: whether documents of a collection are served. The state is one of its
//! settings, so it survives a restart, and a follower has it too.

use serde_json::{Map, Value, json};

use super::api_settings::Use;
use super::selection::Selection;
use super::settings_calls::change_to;
use super::states::States;
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::Outcome;

/// Why no task is made of a change of state.
const AT_ONCE: &str = "the request is answered when it is done";

/// `POST /_close`, `/{collection}/_close`: what was begun before is still done.
pub(crate) async fn close(call: Call<Engine>) -> Outcome<Answer> {
    let mut answer = json!({"acknowledged": true, "shards_acknowledged": true});
    let closed = change(call, true).await?;
    let closed = closed
        .into_iter()
        .map(|name| (name, json!({"closed": true})));
    answer["indices"] = Value::Object(closed.collect::<Map<_, _>>());
    Ok(Answer::ok(&answer))
}

/// `POST /_open`, `/{collection}/_open`
pub(crate) async fn open(call: Call<Engine>) -> Outcome<Answer> {
    change(call, false).await?;
    Ok(Answer::ok(
        &json!({"acknowledged": true, "shards_acknowledged": true}),
    ))
}

/// Changes the state of collections; returns their names.
async fn change(call: Call<Engine>, closed: bool) -> Outcome<Vec<String>> {
    call.params
        .only("wait_for_completion", &["", "true"], AT_ONCE)?;
    let states = match closed {
        true => States::OPEN,
        false => States::CLOSED,
    };
    let selection = Selection::for_use(&call, Use::Change, states)?;
    let work = move |engine: &Engine| {
        let mut changed = Vec::new();
        for collection in selection.plain(engine)? {
            if collection.settings().api.closed != closed {
                change_to(engine, &collection, |now| {
                    let mut settings = now.clone();
                    settings.api.closed = closed;
                    Ok(settings)
                })?;
            }
            changed.push(collection.name().to_owned());
        }
        Ok(changed)
    };
    call.state.write(work).await?
}
