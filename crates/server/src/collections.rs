//! Collections: create, describe, change, drop, flush, compact.

pub(crate) mod aliases;
pub(crate) mod api_settings;
pub(crate) mod coerce;
pub(crate) mod drop;
pub(crate) mod figures;
mod flat_settings;
mod mapping;
pub(crate) mod mapping_calls;
mod mapping_check;
pub(crate) mod on_write;
pub(crate) mod open_close;
pub(crate) mod resolve;
pub(crate) mod rollover;
pub(crate) mod search_limits;
pub(crate) mod selection;
pub(crate) mod settings;
pub(crate) mod settings_calls;
pub(crate) mod states;
pub(crate) mod stats_calls;
pub(crate) mod template_calls;
pub(crate) mod templates;
pub(crate) mod upkeep;

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::http::StatusCode;
use quiredb::wide::WideCollection;
use quiredb::{Collection, ErrorKind, FrozenCollection};
use serde_json::{Map, Value, json};

use self::api_settings::{Block, Use, set_created};
use self::selection::{Searched, Selection, searched_shards, shards};
use self::states::States;
use crate::access::role::Action;
use crate::engine::Engine;
use crate::frozen::refresh_frozen;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::wide::schema;

/// `PUT /{collection}`
pub(crate) async fn create(call: Call<Engine>) -> Outcome<Answer> {
    let (engine, index) = (call.state.clone(), call.collection());
    let grant = Arc::clone(&call.grant);
    let body = call.take_small_body().await?;
    let template = templates::applied(&engine.database().templates(), &index);
    let (mut settings, aliases) = settings::parse(&body.bytes, &template)?;
    set_created(&mut settings.api, engine.now_millis());
    for alias in aliases.keys() {
        let allowed = grant.check(Action::Manage, alias);
        allowed.map_err(Failure::forbidden)?;
    }
    let has_aliases = !aliases.is_empty();
    let work = move |engine: &Engine| {
        let database = engine.database();
        let created = match settings.wide.clone() {
            None => database
                .create_with_aliases(&index, settings, aliases)
                .map(drop),
            Some(_) if Block::of(&settings.api).next().is_some() => {
                let what = "a wide collection can't have index blocks";
                return Err(Failure::illegal_argument(what));
            }
            Some(schema) => database
                .create_wide_with_aliases(&index, schema, settings, aliases)
                .map(drop),
        };
        created.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => Failure::index_exists(&index),
            ErrorKind::Invalid if has_aliases => Failure::illegal_argument(error.to_string()),
            ErrorKind::Invalid => Failure::invalid_index_name(&error, &index),
            _ => Failure::engine(&error, Some(&index)),
        })?;
        Ok(Answer::ok(
            &json!({"acknowledged": true, "shards_acknowledged": true, "index": index}),
        ))
    };
    engine.write(work).await?
}

/// `GET /{collection}`
pub(crate) async fn get(call: Call<Engine>) -> Outcome<Answer> {
    let is_flat = call.params.flag("flat_settings")?.unwrap_or(false);
    let is_human = call.params.flag("human")?.unwrap_or(false);
    call.params.only(
        "include_defaults",
        &["false"],
        "all settings are always shown",
    )?;
    let selection = Selection::about(&call, States::OPEN)?;
    let work = move |engine: &Engine| {
        let (mut all, aliases) = (Map::new(), engine.database().aliases());
        for collection in selection.all(engine)? {
            let shown = match &collection {
                Searched::Plain(plain) => settings::describe(plain, &aliases, is_flat, is_human),
                Searched::Wide(wide) => schema::describe(wide, &aliases),
                Searched::Frozen(frozen) => describe_frozen(frozen),
            };
            all.insert(collection.name().to_owned(), shown);
        }
        Ok(Answer::ok(&Value::Object(all)))
    };
    call.state.read(work).await?
}

/// A frozen collection, which has no settings.
fn describe_frozen(frozen: &FrozenCollection) -> Value {
    json!({
        "aliases": {},
        "mappings": {},
        "settings": {
            "index": {
                "number_of_shards": frozen.view().partition_count().to_string(),
                "number_of_replicas": "0",
                "provided_name": frozen.name(),
            },
            "quire": {"frozen": frozen.path().display().to_string()},
        },
    })
}

/// `GET|POST /_refresh`: succeeds if the collections exist. Of a frozen one it opens the files that
/// are new. Of others it does nothing, because a read sees every write that was acknowledged before
/// it.
pub(crate) async fn refresh(call: Call<Engine>) -> Outcome<Answer> {
    let selection = Selection::for_use(&call, Use::Upkeep, States::OPEN)?;
    let work = move |engine: &Engine| {
        let collections = selection.all(engine)?;
        let mut failed = 0;
        for collection in &collections {
            if let Searched::Frozen(frozen) = collection {
                failed += refresh_frozen(frozen, &BTreeSet::new()).len();
            }
        }
        let mut shards = searched_shards(&collections);
        shards["failed"] = failed.into();
        Ok(Answer::ok(&json!({"_shards": shards})))
    };
    call.state.read(work).await?
}

/// `GET|POST /_flush`
pub(crate) async fn flush(call: Call<Engine>) -> Outcome<Answer> {
    let is_forced = call.params.flag("force")?.unwrap_or(false);
    let waits = call.params.flag("wait_if_ongoing")?.unwrap_or(true);
    if is_forced && !waits {
        let what = "wait_if_ongoing must be true for a force flush";
        return Err(Failure::validation(what));
    }
    let selection = Selection::for_use(&call, Use::Upkeep, States::OPEN)?;
    let flush_wide = WideCollection::flush;
    on_each(
        call,
        selection,
        |collection, _| collection.flush(),
        flush_wide,
    )
    .await
}

/// `POST /_forcemerge`: frees the disk space of all overwritten and deleted documents, whatever the
/// parameters say.
pub(crate) async fn force_merge(call: Call<Engine>) -> Outcome<Answer> {
    for flag in ["flush", "only_expunge_deletes", "primary_only"] {
        call.params.flag(flag)?;
    }
    call.params.number::<i64>("max_num_segments")?;
    let why = "the request is answered when the merge is done";
    call.params
        .only("wait_for_completion", &["", "true"], why)?;
    let selection = Selection::for_use(&call, Use::Upkeep, States::OPEN)?;
    let compact_wide = WideCollection::compact;
    on_each(call, selection, Collection::compact_while, compact_wide).await
}

/// Runs an operation on each of the collections, until the request is cancelled.
async fn on_each(
    call: Call<Engine>,
    selection: Selection,
    run: fn(&Collection, &dyn Fn() -> bool) -> quiredb::Result<()>,
    run_wide: fn(&WideCollection) -> quiredb::Result<()>,
) -> Outcome<Answer> {
    let running = Arc::clone(&call.running);
    let work = move |engine: &Engine| {
        let mut done = Vec::new();
        let (collections, wide) = selection.both(engine)?;
        for collection in collections {
            running.check()?;
            match run(&collection, &|| !running.is_cancelled()) {
                Ok(()) => done.push(collection),
                Err(_) if running.is_cancelled() => return Err(running.failure()),
                Err(_) if is_dropped(engine, collection.name(), collection.identity()) => {}
                Err(error) => return Err(Failure::engine(&error, Some(collection.name()))),
            }
        }
        for wide in wide {
            running.check()?;
            match run_wide(&wide) {
                Ok(()) => {}
                Err(_) if is_dropped(engine, wide.name(), wide.identity()) => {}
                Err(error) => return Err(Failure::engine(&error, Some(wide.name()))),
            }
        }
        Ok(Answer::ok(&json!({"_shards": shards(&done)})))
    };
    call.state.write(work).await?
}

/// Whether a collection was dropped since it was looked up: there is nothing to be done for it.
fn is_dropped(engine: &Engine, name: &str, identity: [u8; 16]) -> bool {
    match Searched::open(engine, name) {
        // Another one may have its name now.
        Ok(now) => now.identity() != identity,
        Err(failure) => failure.status == StatusCode::NOT_FOUND,
    }
}
