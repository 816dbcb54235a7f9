//! `point_in_time`: views of collections that are kept for searches to come.

use quiredb::query::Filter;
use quiredb::{Use, View};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

use super::contexts::{Context, Contexts, missing};
use super::lease::lease;
use super::point_id::PointKind;
use super::request::parse;
use super::scroll_calls::{Closer, freed, ids};
use super::searching::Searching;
use super::state::SearchState;
use crate::collections::selection::{Selection, searched_shards, views};
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};

/// A point in time that was just opened.
struct Opened {
    id: String,
    /// Its shards, as an answer has them.
    shards: Value,
    /// Microseconds since 1970 UTC.
    micros: i64,
}

/// `POST /{collection}/_search/point_in_time`
pub(crate) async fn open(call: Call<SearchState>) -> Outcome<Answer> {
    let opened = opened(call, PointKind::OpenSearch).await?;
    Ok(Answer::ok(&json!({
        "pit_id": opened.id,
        "_shards": opened.shards,
        "creation_time": opened.micros / 1000,
    })))
}

/// `POST /{collection}/_pit`, as Elasticsearch has it.
pub(crate) async fn open_pit(call: Call<SearchState>) -> Outcome<Answer> {
    let opened = opened(call, PointKind::Elasticsearch).await?;
    let answer = json!({"id": opened.id, "_shards": opened.shards});
    Ok(Answer::ok(&answer))
}

async fn opened(call: Call<SearchState>, kind: PointKind) -> Outcome<Opened> {
    let selection = Selection::of(&call)?;
    let opener = call.running.request.client();
    let SearchState {
        engine, contexts, ..
    } = call.state;
    let time = call.params.text("keep_alive");
    let time = time.ok_or_else(|| Failure::validation("[keep_alive] is missing"))?;
    let lease = lease(time)?;
    let work = move |engine: &Engine| {
        let (collections, filter) = selection.searched(engine)?;
        let micros = engine.database().env().now_micros();
        let shards = searched_shards(&collections);
        Ok::<_, Failure>((views(&collections)?, filter, shards, micros))
    };
    let (views, filter, shards, micros) = engine.read(work).await??;
    Searching::begin(&views, Use::Point).end(1);
    let id = kind.id(&engine.new_id());
    contexts.open(&id, Context::Point(Arc::new(views), filter), lease, opener)?;
    Ok(Opened { id, shards, micros })
}

/// `DELETE /_search/point_in_time`
pub(crate) async fn close(call: Call<SearchState>) -> Outcome<Answer> {
    let closer = Closer::of(&call);
    let body = call.take_small_body().await?;
    let ids = ids(&parse(&body.bytes)?, "pit_id")?;
    let closed = closer.close(&ids, Context::is_point);
    let state = |id: &String| json!({"successful": closed.contains(id), "pit_id": id});
    let pits: Vec<_> = ids.iter().map(state).collect();
    Ok(Answer::ok(&json!({"pits": pits})))
}

/// `DELETE /_pit`, as Elasticsearch has it.
pub(crate) async fn close_pit(call: Call<SearchState>) -> Outcome<Answer> {
    let closer = Closer::of(&call);
    let body = call.take_small_body().await?;
    let ids = ids(&parse(&body.bytes)?, "id")?;
    Ok(freed(&closer.close(&ids, Context::is_point)))
}

/// `DELETE /_search/point_in_time/_all`
pub(crate) async fn close_all(call: Call<SearchState>) -> Outcome<Answer> {
    let closed = Closer::of(&call).close_all(Context::is_point);
    let closed = closed
        .iter()
        .map(|id| json!({"successful": true, "pit_id": id}));
    Ok(Answer::ok(&json!({"pits": closed.collect::<Vec<_>>()})))
}

/// `GET /_search/point_in_time/_all`
pub(crate) async fn list(call: Call<SearchState>) -> Outcome<Answer> {
    let micros = call.state.engine.database().env().now_micros();
    let open = call.state.contexts.list(Context::is_point).into_iter();
    let open = open.map(|leased| {
        let age = i64::try_from(leased.age.as_millis()).unwrap_or(i64::MAX);
        json!({
            "pit_id": leased.id,
            "creation_time": micros / 1000 - age,
            "keep_alive": leased.lease.as_millis(),
        })
    });
    Ok(Answer::ok(&json!({"pits": open.collect::<Vec<_>>()})))
}

/// The views of a point in time, and what every document that is searched matches: the filter of
/// the alias that it was opened on, as of then.
pub(crate) fn views_of(
    contexts: &Contexts,
    id: &str,
    lease: Option<Duration>,
) -> Outcome<(Arc<Vec<View>>, Filter)> {
    match contexts.get(id, lease)? {
        Context::Point(views, filter) => Ok((views, filter)),
        Context::Scroll(..) => Err(missing(id)),
    }
}
