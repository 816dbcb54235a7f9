//! Coprocessors over HTTP: kept, listed, dropped, and run over a collection.

use std::time::Duration;

use axum::http::StatusCode;
use quiredb::coprocessor::{CodeRun, Kind, Limits, Produced, RunOptions};
use quiredb::{Document, View};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::end::End;
use super::row::write_row;
use super::stream::{self, Next, PIECE_BYTES, Producer};
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::buffers::Held;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::search::state::SearchState;

/// Rows that are seen before a thread is given back.
const ROWS_AT_ONCE: usize = 1_024;

/// A piece ends after this time too: the thread is for other requests as well.
const PIECE_TIME: Duration = Duration::from_millis(200);

/// The most fuel of a call: some seconds.
const FUEL_MAX: u64 = 1_000_000_000;

/// The most that one call emits.
const OUTPUT_BYTES_MAX: usize = 16 << 20;

/// `GET /_quire/coprocessors`
pub(crate) async fn list(call: Call<Engine>) -> Outcome<Answer> {
    let listed = call.state.read(|engine| engine.database().coprocessors());
    let listed = listed.await?.map_err(refused)?;
    Ok(Answer::ok(&json!({ "coprocessors": listed })))
}

/// `GET /_quire/coprocessors/{name}`
pub(crate) async fn show(call: Call<Engine>) -> Outcome<Answer> {
    let name = named(&call)?;
    let found = call.state.read(move |engine| {
        let found = engine.database().coprocessor_module(&name);
        found.map(|(info, _)| info)
    });
    Ok(Answer::ok(&json!(found.await?.map_err(refused)?)))
}

/// `PUT /_quire/coprocessors/{name}`: the body is the module.
pub(crate) async fn add(call: Call<Engine>) -> Outcome<Answer> {
    let name = call.path_param("name").unwrap_or_default().to_owned();
    let engine = call.state.clone();
    let body = call.take_small_body().await?;
    let work = move |engine: &Engine| engine.database().add_coprocessor(&name, &body.bytes);
    let added = engine.write(work).await?.map_err(refused)?;
    Ok(Answer::value(StatusCode::CREATED, &json!(added)))
}

/// `DELETE /_quire/coprocessors/{name}`: all versions, or one.
pub(crate) async fn remove(call: Call<Engine>) -> Outcome<Answer> {
    let name = named(&call)?;
    let work = move |engine: &Engine| engine.database().drop_coprocessor(&name);
    call.state.write(work).await?.map_err(refused)?;
    Ok(Answer::ok(&json!({"acknowledged": true})))
}

/// The name, with the version if one is given.
fn named(call: &Call<Engine>) -> Outcome<String> {
    let name = call.path_param("name").unwrap_or_default();
    Ok(match call.params.number::<u32>("version")? {
        Some(version) => format!("{name}/{version}"),
        None => name.to_owned(),
    })
}

pub(super) fn refused(error: quiredb::Error) -> Failure {
    Failure::engine(&error, None)
}

/// What a run is to do.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    /// Its name, or name and version: `recrawl/2`.
    coprocessor: String,
    #[serde(rename = "as")]
    kind: String,
    #[serde(default)]
    columns: Option<Vec<String>>,
    #[serde(default)]
    argument: Option<Box<RawValue>>,
    #[serde(default)]
    fuel: Option<u64>,
    #[serde(default)]
    memory_bytes: Option<usize>,
    #[serde(default)]
    output_bytes: Option<usize>,
}

impl Body {
    fn options(&self) -> Outcome<RunOptions> {
        let kind = Kind::of_name(&self.kind).filter(|kind| *kind != Kind::Trigger);
        let kind = kind.ok_or_else(|| {
            let what = format!("[as] is filter, map or aggregate, and not [{}]", self.kind);
            Failure::illegal_argument(what)
        })?;
        Ok(RunOptions {
            kind,
            columns: self.columns.clone(),
            argument: argument(self.argument.as_deref())?,
            limits: limits(self.fuel, self.memory_bytes, self.output_bytes)?,
        })
    }
}

/// The argument of code, as a document.
pub(super) fn argument(json: Option<&RawValue>) -> Outcome<Option<Document>> {
    let parsed = json.map(|json| Document::from_json(json.get().as_bytes()));
    let parsed = parsed.transpose();
    parsed.map_err(|error| Failure::illegal_argument(format!("[argument]: {error}")))
}

/// The limits of a call, with defaults for those that are not given.
pub(super) fn limits(
    fuel: Option<u64>,
    memory_bytes: Option<usize>,
    output_bytes: Option<usize>,
) -> Outcome<Limits> {
    let defaults = Limits::default();
    let limits = Limits {
        fuel: fuel.unwrap_or(defaults.fuel),
        memory_bytes: memory_bytes.unwrap_or(defaults.memory_bytes),
        output_bytes: output_bytes.unwrap_or(defaults.output_bytes),
    };
    match limits.fuel > FUEL_MAX || limits.output_bytes > OUTPUT_BYTES_MAX {
        false => Ok(limits),
        true => Err(Failure::illegal_argument(format!(
            "[fuel] may be {FUEL_MAX}, and [output_bytes] {OUTPUT_BYTES_MAX}, at most"
        ))),
    }
}

/// `POST /{collection}/_quire/coprocessor`
pub(crate) async fn run(call: Call<SearchState>) -> Outcome<Answer> {
    let (name, state) = (call.collection(), call.state.clone());
    let body = call.take_small_body().await?;
    let text: Body =
        serde_json::from_slice(&body.bytes).map_err(|error| Failure::parse(error.to_string()))?;
    drop(body);
    let options = text.options()?;
    // An aggregate has the run of a partition beside that which merges.
    let memory = options.limits.memory_bytes.saturating_mul(2);
    let memory = memory.saturating_add(options.limits.output_bytes);
    let held = state.buffers.hold(memory, state.memory_timeout).await?;
    let begin = move |engine: &Engine| {
        let code = engine.database().coprocessor(&text.coprocessor);
        let view = view(engine, &name)?;
        let run = view.run_code(&code.map_err(refused)?, options);
        Ok::<_, Failure>(Running {
            run: run.map_err(refused)?,
            engine: engine.clone(),
            documents: 0,
            _held: held,
        })
    };
    let running = state.engine.read(begin).await??;
    stream::answer(state, running).await
}

fn view(engine: &Engine, name: &str) -> Outcome<View> {
    let view = match engine.wide(name)? {
        Some(wide) => wide.view(),
        None => engine.collection(name)?.view(),
    };
    view.map_err(|error| Failure::engine(&error, Some(name)))
}

/// A run, and the memory of its module.
struct Running {
    run: CodeRun,
    engine: Engine,
    documents: u64,
    _held: Held,
}

impl Producer for Running {
    /// A client that goes away is noticed between two pieces: the run then ends.
    fn produce(&mut self, out: &mut Vec<u8>) -> Outcome<Next> {
        let end = self.engine.now().saturating_add(PIECE_TIME);
        while out.len() < PIECE_BYTES && self.engine.now() < end {
            match self.run.next_within(ROWS_AT_ONCE).map_err(refused)? {
                Some(Produced::Row(found)) => write_row(&found, None, out),
                Some(Produced::Document(document)) => {
                    out.extend_from_slice(b"{\"document\":");
                    document.write_json(out);
                    out.extend_from_slice(b"}\n");
                }
                None if self.run.is_done() => {
                    End {
                        documents: self.documents,
                    }
                    .write(out);
                    return Ok(Next::End);
                }
                None => continue,
            }
            self.documents += 1;
        }
        Ok(Next::More)
    }
}
