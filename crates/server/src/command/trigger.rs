//! Triggers of a collection: coprocessors that run with each of its writes.

use super::coprocessor::{argument, limits, refused};
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use quiredb::coprocessor::TriggerOptions;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

/// The most memory of a trigger: it is held as long as the trigger is attached.
const MEMORY_BYTES_MAX: usize = 64 << 20;

/// How a coprocessor is called as a trigger.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Body {
    version: Option<u32>,
    columns: Option<Vec<String>>,
    argument: Option<Box<RawValue>>,
    fuel: Option<u64>,
    memory_bytes: Option<usize>,
    output_bytes: Option<usize>,
}

impl Body {
    fn options(&self) -> Outcome<TriggerOptions> {
        let limits = limits(self.fuel, self.memory_bytes, self.output_bytes)?;
        if limits.memory_bytes > MEMORY_BYTES_MAX {
            let what = format!("[memory_bytes] of a trigger may be {MEMORY_BYTES_MAX} at most");
            return Err(Failure::illegal_argument(what));
        }
        Ok(TriggerOptions {
            columns: self.columns.clone(),
            argument: argument(self.argument.as_deref())?,
            limits,
        })
    }
}

/// `GET /{collection}/_quire/triggers`
pub(crate) async fn list(call: Call<Engine>) -> Outcome<Answer> {
    let collection = call.collection();
    let listed = move |engine: &Engine| engine.database().triggers(&collection);
    let listed = call.state.read(listed).await?.map_err(refused)?;
    Ok(Answer::ok(&json!({ "triggers": listed })))
}

/// `PUT /{collection}/_quire/triggers/{name}`: the body says how it is called, if it is there.
pub(crate) async fn attach(call: Call<Engine>) -> Outcome<Answer> {
    let (collection, engine) = (call.collection(), call.state.clone());
    let name = call.path_param("name").unwrap_or_default().to_owned();
    let body = call.take_small_body().await?;
    let text: Body = match body.bytes.is_empty() {
        true => Body::default(),
        false => serde_json::from_slice(&body.bytes)
            .map_err(|error| Failure::parse(error.to_string()))?,
    };
    drop(body);
    let options = text.options()?;
    let code = match text.version {
        Some(version) => format!("{name}/{version}"),
        None => name,
    };
    let work = move |engine: &Engine| {
        engine
            .database()
            .attach_trigger(&collection, &code, &options)
    };
    Ok(Answer::ok(&json!(
        engine.write(work).await?.map_err(refused)?
    )))
}

/// `DELETE /{collection}/_quire/triggers/{name}`
pub(crate) async fn detach(call: Call<Engine>) -> Outcome<Answer> {
    let collection = call.collection();
    let name = call.path_param("name").unwrap_or_default().to_owned();
    let work = move |engine: &Engine| engine.database().detach_trigger(&collection, &name);
    call.state.write(work).await?.map_err(refused)?;
    Ok(Answer::ok(&json!({"acknowledged": true})))
}
