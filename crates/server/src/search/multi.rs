//! `_msearch`: several searches in one request, each answered or refused on its own.

use bytes::Bytes;
use serde_json::{Map, Value as Json};
use std::sync::Arc;
use tokio::time::Instant;

use super::execute::SEARCH_BYTES_MAX;
use super::filter::{known, unsupported};
use super::hits::Search;
use super::request::Request;
use super::state::SearchState;
use super::terms_lookup::look_up;
use super::{hold, hold_now, point};
use crate::access::named::check_own_item;
use crate::access::role::Action;
use crate::audit::AuditedGrant;
use crate::collections::coerce::Mappings;
use crate::collections::selection::{Selection, views};
use crate::engine::Engine;
use crate::http::answer::{Answer, FILTER_COPIES, filtered};
use crate::http::body::WHOLE_BYTES_MAX;
use crate::http::buffers::Held;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::http::fields::Fields;
use crate::http::params::Params;
use crate::http::unique;
use crate::tasks::registry::Running;

/// Searches of one request.
const SEARCHES_MAX: usize = 1000;

/// One of the searches: what its header says, and its body.
struct One {
    header: Map<String, Json>,
    body: Map<String, Json>,
}

/// `GET|POST /_msearch`, `GET|POST /{collection}/_msearch`
pub(crate) async fn multi(call: Call<SearchState>) -> Outcome<Answer> {
    let begun = Instant::now();
    let (state, grant) = (call.state.clone(), Arc::clone(&call.grant));
    let noted = state.notes_plans.then(|| Arc::clone(&call.running));
    let default = call.path_param("collection").map(str::to_owned);
    let (params, filter) = (call.params.clone(), call.format.filter.clone());
    params.only("search_type", &["query_then_fetch"], "it is not supported")?;
    let body = call.take_small_body().await?;
    let searches = searches(&body.bytes)?;
    drop(body);
    let engine = state.engine.clone();
    let turn = engine.search_turn().await?;
    let mut held = hold(&state.buffers, state.memory_timeout).await?;
    let shown = filter.clone();
    let work = move |_: &Engine, stop: &(dyn Fn() -> bool + Sync)| {
        let mut out = Vec::new();
        for search in searches {
            let answered = answer(
                (&state, noted.as_ref()),
                (&mut held, out.capacity()),
                &grant,
                &search,
                default.as_deref(),
                &params,
                stop,
            );
            let (answer, mut held_by_answer) = match answered {
                Ok((mut answer, held)) => {
                    answer.truncate(answer.len().saturating_sub(1));
                    answer.extend_from_slice(b",\"status\":200}");
                    (answer, Some(held))
                }
                Err(failure) => (failure.to_json().to_string().into_bytes(), None),
            };
            if let Some(held) = held_by_answer.as_mut().filter(|_| !filter.is_all()) {
                held.resize(answer.len().saturating_mul(FILTER_COPIES))?;
            }
            let (answer, is_shown) = filtered(answer, &filter, "responses")?;
            // The whole answer is too long as soon as one more is.
            if out.len() + answer.len() > WHOLE_BYTES_MAX {
                return Err(unsupported(
                    "the answers of this request are too long together: send fewer searches, or \
                     set a smaller [size]",
                ));
            }
            if is_shown {
                if !out.is_empty() {
                    out.push(b',');
                }
                out.extend_from_slice(&answer);
            }
            drop((answer, held_by_answer));
            // The next search may need as much again.
            held.resize(SEARCH_BYTES_MAX + out.capacity())?;
        }
        held.resize(out.capacity())?;
        Ok((out, held))
    };
    let (out, held) = engine.search_in(turn, work).await??;
    let took = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    let (head, tail) = frame(&shown, took, out.is_empty());
    let parts = vec![Bytes::from(head), Bytes::from(out), Bytes::from(tail)];
    Ok(Answer::parts(parts, Some(held)))
}

/// What is before the answers to the searches and after them, as `filter_path` shows it.
fn frame(filter: &Fields, took: u64, is_empty: bool) -> (String, &'static str) {
    let mut members = Vec::new();
    if filter.shows("took") {
        members.push(format!("\"took\":{took}"));
    }
    if is_empty && !filter.is_all() {
        return (format!("{{{}", members.join(",")), "}");
    }
    members.push("\"responses\":[".to_owned());
    (format!("{{{}", members.join(",")), "]}")
}

/// The searches of a body: lines, a header and a body in turn.
fn searches(body: &[u8]) -> Outcome<Vec<One>> {
    // The last line end is no line.
    let body = body.strip_suffix(b"\n").unwrap_or(body);
    let mut lines = body.split(|byte| *byte == b'\n').enumerate();
    let mut searches = Vec::new();
    let object = |(number, line): (usize, &[u8])| {
        if line.iter().all(u8::is_ascii_whitespace) {
            return Ok(Map::new());
        }
        match unique::from_slice(line) {
            Ok(Json::Object(read)) => Ok(read),
            Ok(_) => Err(Failure::parse(format!(
                "line [{}] is no object",
                number + 1
            ))),
            Err(error) => Err(Failure::parse(format!("line [{}]: {error}", number + 1))),
        }
    };
    while let Some(header) = lines.next() {
        if body.is_empty() {
            break;
        }
        let body = lines.next().ok_or_else(|| {
            Failure::validation("the last header has no body: each is a line, and ends with one")
        })?;
        searches.push(One {
            header: object(header)?,
            body: object(body)?,
        });
        if searches.len() > SEARCHES_MAX {
            let what = format!("more than {SEARCHES_MAX} searches in one request");
            return Err(Failure::illegal_argument(what));
        }
    }
    match searches.is_empty() {
        true => Err(Failure::validation("no requests added")),
        false => Ok(searches),
    }
}

/// The answer to one search, whole. `held` is the memory of the whole request, of which the answers
/// before take `out_bytes`.
fn answer(
    (state, noted): (&SearchState, Option<&Arc<Running>>),
    (held, out_bytes): (&mut Held, usize),
    grant: &AuditedGrant,
    search: &One,
    default: Option<&str>,
    params: &Params,
    stop: &(dyn Fn() -> bool + Sync),
) -> Outcome<(Vec<u8>, Held)> {
    let (begun, engine) = (Instant::now(), &state.engine);
    let known_here = [
        "index",
        "ignore_unavailable",
        "allow_no_indices",
        "expand_wildcards",
        "ignore_throttled",
        "ccs_minimize_roundtrips",
        "preference",
        "request_cache",
        "routing",
        "search_type",
    ];
    known(&search.header, "header", &known_here)?;
    let mut body = search.body.clone();
    look_up(&mut body, engine, &state.buffers, grant)?;
    let mut request = Request::search(body, params, engine.now_millis())?;
    request.noted = noted.cloned();
    let views = match &request.point {
        Some((id, lease)) => {
            let (views, filter) = point::views_of(&state.contexts, id, *lease)?;
            let mappings = Mappings::of_views(engine, &views);
            request.limit_to(filter, &mappings)?;
            views
        }
        None => {
            let names = names(search.header.get("index"), default)?;
            for name in &names {
                check_own_item(grant, Action::Read, engine, name)?;
            }
            let ignores = search.header.get("ignore_unavailable") == Some(&Json::Bool(true));
            let selection = Selection::of_names(names, ignores);
            let (collections, filter) = selection.searched(engine)?;
            let mappings = Mappings::of_searched(engine, &collections);
            request.limit_to(filter, &mappings)?;
            Arc::new(views(&collections)?)
        }
    };
    // More than other searches have is reserved for this one alone.
    let memory_bytes = request.limits.memory_bytes;
    if memory_bytes > SEARCH_BYTES_MAX {
        held.resize(memory_bytes + out_bytes)?;
    }
    // A page by key reserves documents in memory of its own; else it is that of the whole request.
    let own = match request.search_after.is_some() {
        true => {
            held.resize(out_bytes)?;
            Some(hold_now(&state.buffers)?)
        }
        false => None,
    };
    let memory = (own, &state.buffers);
    let mut search = Search::begin(views, request, None, stop, memory, begun)?;
    let first = search.next_piece(false)?;
    search.whole(first, &state.buffers)
}

/// The collections that a header names.
fn names(index: Option<&Json>, default: Option<&str>) -> Outcome<Vec<String>> {
    let list = |text: &str| text.split(',').map(str::to_owned).collect();
    match index {
        None | Some(Json::Null) => Ok(list(default.unwrap_or("_all"))),
        Some(Json::String(text)) => Ok(list(text)),
        Some(Json::Array(names)) if !names.is_empty() => {
            let name = |name: &Json| name.as_str().map(str::to_owned);
            let names: Option<Vec<String>> = names.iter().map(name).collect();
            names.ok_or_else(|| unsupported("[index] must be a name or a list of names"))
        }
        Some(_) => Err(unsupported("[index] must be a name or a list of names")),
    }
}
