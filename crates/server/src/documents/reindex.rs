//! `_reindex`: copies the documents of collections that match a query as of one moment into another
//! collection, key for key and byte for byte. To a wide collection, each becomes a row.

use std::sync::Arc;

use quiredb::Condition;
use serde_json::{Map, Value as Json};
use tokio::time::Instant;

use super::batches::{Act, BatchMemory, Manner, Target, Work, batch};
use super::conditions::External;
use super::source::SourceBody;
use crate::access::named::check_item;
use crate::access::role::Action;
use crate::collections::on_write::collection_or_create;
use crate::collections::selection::Selection;
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::http::fields::Fields;
use crate::search::filter::{known, object};
use crate::search::request::{limit_to_slice, parse, query_of};
use crate::search::sort::orders;
use crate::search::state::SearchState;

/// `POST /_reindex`
pub(crate) async fn reindex(call: Call<SearchState>) -> Outcome<Answer> {
    let begun = Instant::now();
    let (state, params, grant) = (
        call.state.clone(),
        call.params.clone(),
        Arc::clone(&call.grant),
    );
    let running = Arc::clone(&call.running);
    let body = call.take_small_body().await?;
    let mut body = parse(&body.bytes)?;
    let mut manner = Manner::of(&params, &mut body)?;
    known(&body, "reindex", &["source", "dest"])?;
    let source = member(&body, "source")?;
    let members = ["_source", "index", "query", "size", "slice", "sort"];
    known(source, "source", &members)?;
    let from = names(source.get("index"))?;
    let (mut query, texts) = query_of(source, state.engine.now_millis())?;
    manner.check_slice(limit_to_slice(&mut query, source)?)?;
    if let Some(sort) = source.get("sort").filter(|sort| !sort.is_null()) {
        query.order = orders(sort, false)?;
        if manner.slices != Some(1) {
            return Err(Failure::validation(
                "can't specify both a [sort] of the source and [slices]",
            ));
        }
    }
    let fields = fields(source.get("_source"))?;
    manner.batch = batch(source.get("size"), manner.batch)?;
    let Destination {
        index: to,
        only_create,
        versions,
    } = destination(member(&body, "dest")?)?;
    drop(body);
    let memory = BatchMemory::reserve(&state, &manner).await?;
    let begin = move |engine: &Engine| {
        for name in &from {
            check_item(&grant, Action::Read, engine, name)?;
        }
        check_item(&grant, Action::Write, engine, &to)?;
        let selection = Selection::of_names(from, false);
        // What is to be copied is looked up before a collection is made for it.
        selection.all(engine)?;
        let to = match engine.wide_for_writes(&to)? {
            Some(wide) => Target::Wide(wide),
            None => Target::Plain(collection_or_create(engine, &to, &grant)?),
        };
        Work::new(
            engine,
            &selection,
            (query, texts),
            Act::Copy {
                to,
                only_create,
                versions,
                fields,
            },
            manner,
            memory,
        )
    };
    let work = state.engine.write(begin).await??;
    work.answer(state.engine, running, begun).await
}

fn member<'a>(body: &'a Map<String, Json>, name: &str) -> Outcome<&'a Map<String, Json>> {
    match body.get(name) {
        Some(member) => object(member, name),
        None => Err(Failure::validation(&format!("[{name}] is missing"))),
    }
}

/// The names and patterns of what is copied.
fn names(index: Option<&Json>) -> Outcome<Vec<String>> {
    let list = |text: &str| text.split(',').map(str::to_owned).collect();
    let text = |name: &Json| name.as_str().map(str::to_owned);
    let found: Option<Vec<String>> = match index {
        Some(Json::String(text)) => Some(list(text)),
        Some(Json::Array(names)) => names.iter().map(text).collect(),
        _ => None,
    };
    let found = found.filter(|names| !names.is_empty());
    found.ok_or_else(|| Failure::validation("[source] needs an [index]: a name or a list of names"))
}

/// The fields of a document that are copied.
fn fields(source: Option<&Json>) -> Outcome<Fields> {
    let Some(source) = source.filter(|source| !source.is_null()) else {
        return Ok(Fields::default());
    };
    let source = serde_json::from_value::<SourceBody>(source.clone());
    let source = source.map_err(|_| {
        Failure::validation("[_source] must be patterns, or [includes] and [excludes]")
    })?;
    let source = source.source()?;
    match source.shown {
        true => Ok(source.fields),
        false => Err(Failure::validation("[_source] can't be [false] in a copy")),
    }
}

/// Where documents are copied to.
struct Destination {
    index: String,
    /// Whether documents that it has are conflicts.
    only_create: bool,
    /// The condition of a document that has this version, where copies keep their versions.
    versions: Option<fn(u64) -> Condition>,
}

fn destination(dest: &Map<String, Json>) -> Outcome<Destination> {
    known(
        dest,
        "dest",
        &["index", "op_type", "routing", "version_type"],
    )?;
    let index = dest.get("index").and_then(Json::as_str);
    let index = index.ok_or_else(|| Failure::validation("[dest] needs an [index]"))?;
    let text = |name: &str| {
        dest.get(name)
            .map(|value| value.as_str().unwrap_or_default())
    };
    // A document is found by its id, whatever routing it is written with.
    if let Some(routing) = dest.get("routing")
        && !routing.as_str().is_some_and(is_routing)
    {
        return Err(Failure::illegal_argument(format!(
            "[routing] is [keep], [discard] or [=VALUE], not [{routing}]"
        )));
    }
    let external = External::of_type(text("version_type"))?;
    let only_create = match text("op_type") {
        None | Some("index") => false,
        Some("create") if external.is_some() => return Err(External::refused_by_create()),
        Some("create") => true,
        Some(other) => {
            return Err(Failure::illegal_argument(format!(
                "[op_type] is [index] or [create], not [{other}]"
            )));
        }
    };
    Ok(Destination {
        index: index.to_owned(),
        only_create,
        versions: external.map(|external| external.condition),
    })
}

fn is_routing(routing: &str) -> bool {
    matches!(routing, "keep" | "discard") || routing.starts_with('=')
}
