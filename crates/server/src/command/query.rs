//! `POST /{collection}/_quire/query`: a query as `quire query` has it, answered as that prints it.

use std::sync::Arc;
use std::time::Duration;
use std::vec;

use axum::http::StatusCode;
use quiredb::query::{Answer as Found, Error as QueryError, Hit, Options, Prepared, UnknownFields};
use quiredb::{View, Within};

use super::answer_text::AnswerText;
use super::end::End;
use super::query_text::QueryText;
use super::row::{write_row, write_text};
use super::stream::{self, Next, PIECE_BYTES, Producer};
use crate::collections::selection::Searched;
use crate::documents::lookup::Group;
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::buffers::LARGE_BYTES;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::search::execute::{SEARCH_BYTES_MAX, failed, options};
use crate::search::objects::find_objects;
use crate::search::state::SearchState;
use crate::unknown_fields;

/// Documents that are read together: at first, and at most.
const GROUP_FIRST: usize = 16;
const GROUP_MAX: usize = 1_024;

/// `POST /{collection}/_quire/query`
pub(crate) async fn query(call: Call<SearchState>) -> Outcome<Answer> {
    let (name, state) = (call.collection(), call.state.clone());
    let running = Arc::clone(&call.running);
    let noted = state.notes_plans.then(|| Arc::clone(&running));
    let body = call.take_small_body().await?;
    let text: QueryText =
        serde_json::from_slice(&body.bytes).map_err(|error| Failure::parse(error.to_string()))?;
    drop(body);
    let refused = |error: &dyn std::fmt::Display| Failure::illegal_argument(error.to_string());
    let query = text.query().map_err(|error| refused(&error))?;
    query.clone().prepare().map_err(|error| refused(&error))?;
    let turn = state.engine.search_turn().await?;
    let held = state.buffers.hold(memory_of(&text), state.memory_timeout);
    let mut held = held.await?;
    let work = move |engine: &Engine, stop: &(dyn Fn() -> bool + Sync)| {
        let one = Searched::only(engine, &name)?;
        let view = one.bare_view()?;
        let key_field = match one.settings() {
            Some(settings) => settings.key_field.clone(),
            None => quiredb::ID.to_owned(),
        };
        let views = Arc::new(vec![view.clone()]);
        running.set_views(&views);
        let explains = text.explain || noted.is_some();
        let mut query = query;
        find_objects(&mut query, std::slice::from_ref(&view), stop)?;
        let query = query
            .prepare()
            .map_err(|error| Failure::illegal_argument(error.to_string()))?;
        let (mut found, warnings) =
            execute(engine, &view, &query, &text, explains, &key_field, stop)?;
        if let (Some(noted), Some(plan)) = (&noted, &found.explain) {
            noted.set_plan(plan.clone());
        }
        if !text.explain {
            found.explain = None;
        }
        let produced = Produced::new(view, query, found, &warnings);
        held.resize(produced.held_bytes())?;
        Ok::<_, Failure>(Held {
            produced,
            _held: (held, views),
        })
    };
    let produced = state.engine.search_in(turn, work).await??;
    stream::answer(state, produced).await
}

/// What finding the documents may hold, in bytes.
fn memory_of(text: &QueryText) -> usize {
    text.memory.map_or(SEARCH_BYTES_MAX, |bytes| {
        usize::try_from(bytes).unwrap_or(usize::MAX)
    })
}

/// The answer of a query, and what should be reported of its fields.
fn execute(
    engine: &Engine,
    view: &View,
    query: &Prepared,
    text: &QueryText,
    explains: bool,
    key_field: &str,
    stop: &(dyn Fn() -> bool + Sync),
) -> Outcome<(Found, Vec<String>)> {
    let database = engine.database();
    let clock = || database.env().monotonic();
    let end = text.timeout.map(|seconds| {
        let timeout = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO);
        clock().saturating_add(timeout)
    });
    let is_over = || stop() || end.is_some_and(|end| clock() >= end);
    let options = Options {
        unknown_fields: match text.strict {
            true => UnknownFields::Refuse,
            false => UnknownFields::MatchNothing,
        },
        clock: explains.then_some(&clock),
        partial: text.partial && !stop(),
        memory_bytes_max: memory_of(text),
        ..options(&is_over)
    };
    let unknown = |hits: &[Hit]| unknown_fields::of_view(view, query, hits, key_field, &options);
    match view.query(query, &options) {
        Err(error @ quiredb::Error::Query(QueryError::UnknownField { .. })) => {
            let why = unknown(&[]).map_err(failed)?;
            Err(match why.is_empty() {
                true => failed(error),
                false => Failure::illegal_argument(why.join("; ")),
            })
        }
        Ok(found) => {
            // This may come to no end within the time that the query has.
            let why = unknown(&found.hits).unwrap_or_default();
            match options.unknown_fields == UnknownFields::Refuse && !why.is_empty() {
                true => Err(Failure::illegal_argument(why.join("; "))),
                false => Ok((found, why)),
            }
        }
        Err(error @ quiredb::Error::Query(QueryError::Stopped)) if !stop() => Err(Failure::new(
            StatusCode::REQUEST_TIMEOUT,
            "timeout_exception",
            error.to_string(),
        )),
        Err(error) => Err(failed(error)),
    }
}

/// A producer, the memory of what it has found, and the views that the running request knows of.
struct Held {
    produced: Produced,
    _held: (crate::http::buffers::Held, Arc<Vec<View>>),
}

impl Producer for Held {
    fn produce(&mut self, out: &mut Vec<u8>) -> Outcome<Next> {
        self.produced.produce(out)
    }
}

/// The lines of a query's answer: warnings, documents, and what is about all of them.
struct Produced {
    view: View,
    query: Prepared,
    hits: vec::IntoIter<Hit>,
    group: Group,
    is_large: Option<u64>,
    /// Lines that come before the documents.
    head: Vec<u8>,
    /// The line that comes after them.
    tail: Vec<u8>,
    documents: u64,
}

impl Produced {
    fn new(view: View, query: Prepared, mut found: Found, warnings: &[String]) -> Produced {
        let (mut head, mut tail) = (Vec::new(), Vec::new());
        for warning in warnings {
            write_text("warning", warning, &mut head);
        }
        let hits = std::mem::take(&mut found.hits).into_iter();
        AnswerText::of(&found).write_line(&mut tail);
        Produced {
            view,
            query,
            hits,
            group: Group::new(GROUP_FIRST, GROUP_MAX, PIECE_BYTES),
            is_large: None,
            head,
            tail,
            documents: 0,
        }
    }

    /// Bytes that are held until the client has taken them.
    fn held_bytes(&self) -> usize {
        self.hits.len() * size_of::<Hit>() + self.head.len() + self.tail.capacity()
    }
}

impl Producer for Produced {
    fn produce(&mut self, out: &mut Vec<u8>) -> Outcome<Next> {
        out.append(&mut self.head);
        let large = self.is_large.take();
        while out.len() < PIECE_BYTES {
            let (size, bytes_max) = match large {
                Some(bytes) => (1, bytes),
                None => (self.group.size(), LARGE_BYTES),
            };
            let hits = self.hits.as_slice();
            let hits = hits.get(..size.min(hits.len())).unwrap_or_default();
            if hits.is_empty() {
                out.append(&mut self.tail);
                End {
                    documents: self.documents,
                }
                .write(out);
                return Ok(Next::End);
            }
            let views = std::slice::from_ref(&self.view);
            let found = View::documents_within(views, hits, bytes_max).map_err(failed)?;
            assert!(found.len() == hits.len(), "each hit has one document");
            let (before, mut count) = (out.len(), 0);
            for found in found {
                match found {
                    Within::Found(found) => write_row(&found, self.query.fields(), out),
                    Within::Longer(bytes) => {
                        self.is_large = Some(bytes);
                        break;
                    }
                    Within::Absent => {}
                }
                count += 1;
            }
            self.hits.by_ref().take(count).for_each(drop);
            self.documents += count as u64;
            if let (Some(bytes), 0) = (self.is_large, count) {
                return Ok(Next::Large(bytes));
            }
            self.is_large = None;
            self.group.was(count, out.len() - before);
            if large.is_some() {
                break;
            }
        }
        Ok(Next::More)
    }
}
