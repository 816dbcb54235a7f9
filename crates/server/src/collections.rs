//! Collections: create, look at, drop, flush.

mod settings;

use axum::http::StatusCode;
use quiredb::{Collection, ErrorKind};
use serde_json::{Map, Value, json};

use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::http::fields::glob;
use crate::http::params::Params;
use crate::state::{Server, invalid_name};

/// `PUT /{collection}`
pub(crate) async fn create(call: Call) -> Outcome<Answer> {
    let (server, index) = (call.server.clone(), call.collection());
    let body = call.take_small_body().await?;
    let settings = settings::parse(&body.bytes)?;
    let work = move |server: &Server| match server.database().create_collection(&index, settings) {
        Ok(_) => Ok(Answer::ok(
            &json!({"acknowledged": true, "shards_acknowledged": true, "index": index}),
        )),
        Err(error) => Err(match error.kind() {
            ErrorKind::AlreadyExists => Failure::index_exists(&index),
            ErrorKind::Invalid => invalid_name(&error, &index),
            _ => Failure::engine(&error, Some(&index)),
        }),
    };
    server.write(work).await?
}

/// `GET /{collection}`
pub(crate) async fn get(call: Call) -> Outcome<Answer> {
    call.params
        .only("flat_settings", &["false"], "settings are nested")?;
    call.params
        .only("include_defaults", &["false"], "all settings are there")?;
    let selection = Selection::of(&call)?;
    let work = move |server: &Server| {
        let mut all = Map::new();
        for collection in selection.collections(server)? {
            all.insert(
                collection.name().to_owned(),
                settings::describe(&collection),
            );
        }
        Ok(Answer::ok(&Value::Object(all)))
    };
    call.server.read(work).await?
}

/// `PUT /{collection}/_settings`: new segments are made as the settings say from then on.
pub(crate) async fn change_settings(call: Call) -> Outcome<Answer> {
    let (server, index) = (call.server.clone(), call.collection());
    let body = call.take_small_body().await?;
    let work = move |server: &Server| {
        let refused = |error: quiredb::Error| match error.kind() {
            ErrorKind::NotFound => Failure::index_not_found(&index),
            ErrorKind::Invalid => Failure::illegal_argument(error.to_string()),
            _ => Failure::engine(&error, Some(&index)),
        };
        let collection = server.database().collection(&index).map_err(refused)?;
        let settings = settings::parse_change(&body.bytes, &collection.settings())?;
        let changed = server.database().change_settings(&index, settings);
        changed.map_err(refused)?;
        Ok(Answer::ok(&json!({"acknowledged": true})))
    };
    server.write(work).await?
}

/// `DELETE /{collection}`
pub(crate) async fn delete(call: Call) -> Outcome<Answer> {
    let index = call.collection();
    if index == "_all" || index.contains(['*', ',']) {
        return Err(Failure::illegal_argument(format!(
            "collections are dropped one at a time: name one, not [{index}]"
        )));
    }
    let ignore_missing = call.params.flag("ignore_unavailable")?.unwrap_or(false);
    let work = move |server: &Server| match server.database().drop_collection(&index) {
        Ok(()) => Ok(Answer::ok(&json!({"acknowledged": true}))),
        Err(error) => match error.kind() {
            ErrorKind::NotFound | ErrorKind::Invalid if ignore_missing => {
                Ok(Answer::ok(&json!({"acknowledged": true})))
            }
            ErrorKind::NotFound | ErrorKind::Invalid => Err(Failure::index_not_found(&index)),
            _ => Err(Failure::engine(&error, Some(&index))),
        },
    };
    call.server.write(work).await?
}

/// `GET|POST /_refresh`: succeeds if the collections exist. A read sees every write that was
/// acknowledged before it.
pub(crate) async fn refresh(call: Call) -> Outcome<Answer> {
    let selection = Selection::of(&call)?;
    let work = move |server: &Server| {
        let collections = selection.collections(server)?;
        Ok(Answer::ok(&json!({"_shards": shards(&collections)})))
    };
    call.server.read(work).await?
}

/// `GET|POST /_flush`
pub(crate) async fn flush(call: Call) -> Outcome<Answer> {
    call.params.flag("force")?;
    call.params.flag("wait_if_ongoing")?;
    let selection = Selection::of(&call)?;
    on_each(call, selection, Collection::flush).await
}

/// `POST /_forcemerge`: gives back the room of what was overwritten and deleted, all of it,
/// whatever part was asked for.
pub(crate) async fn force_merge(call: Call) -> Outcome<Answer> {
    for flag in ["flush", "only_expunge_deletes", "primary_only"] {
        call.params.flag(flag)?;
    }
    call.params.number::<u64>("max_num_segments")?;
    let why = "the answer comes when it is done";
    call.params
        .only("wait_for_completion", &["", "true"], why)?;
    let selection = Selection::of(&call)?;
    on_each(call, selection, Collection::compact).await
}

/// Does something with each of the collections.
async fn on_each(
    call: Call,
    selection: Selection,
    act: fn(&Collection) -> quiredb::Result<()>,
) -> Outcome<Answer> {
    let work = move |server: &Server| {
        let collections = selection.collections(server)?;
        for collection in &collections {
            act(collection).map_err(|error| Failure::engine(&error, Some(collection.name())))?;
        }
        Ok(Answer::ok(&json!({"_shards": shards(&collections)})))
    };
    call.server.write(work).await?
}

fn shards(collections: &[Collection]) -> Value {
    let partitions: u64 = collections
        .iter()
        .map(|collection| u64::from(collection.settings().partitions))
        .sum();
    json!({"total": partitions, "successful": partitions, "failed": 0})
}

/// The partitions of collections that were all asked.
pub(crate) fn searched(collections: &[Collection]) -> Value {
    let mut shards = shards(collections);
    if let Some(object) = shards.as_object_mut() {
        object.shift_insert(2, "skipped".to_owned(), 0.into());
    }
    shards
}

/// The collections that a request is about: names and patterns between commas; all of them if it
/// names none.
pub(crate) struct Selection {
    names: Vec<String>,
    ignore_missing: bool,
}

impl Selection {
    pub(crate) fn of(call: &Call) -> Outcome<Selection> {
        let ignore_missing = call.params.flag("ignore_unavailable")?.unwrap_or(false);
        check_wildcards(&call.params)?;
        let names = call
            .place("collection")
            .unwrap_or("_all")
            .split(',')
            .map(str::to_owned)
            .collect();
        Ok(Selection {
            names,
            ignore_missing,
        })
    }

    /// # Errors
    /// 404 for a name without a collection. A pattern may match none.
    pub(crate) fn collections(&self, server: &Server) -> Outcome<Vec<Collection>> {
        let all = server.database().collections();
        let mut chosen = Vec::new();
        for name in &self.names {
            let pattern = if name == "_all" { "*" } else { name };
            let is_pattern = pattern.contains('*');
            let mut matched = all
                .iter()
                .filter(|name| glob(pattern.as_bytes(), name.as_bytes()))
                .peekable();
            if matched.peek().is_none() && !is_pattern && !self.ignore_missing {
                return Err(Failure::index_not_found(name));
            }
            chosen.extend(matched);
        }
        chosen.sort_unstable();
        chosen.dedup();
        // One that was dropped meanwhile is as if it had not been there.
        let opened = chosen.into_iter().map(|name| server.collection(name));
        let opened = opened.filter_map(|collection| match collection {
            Err(failure) if failure.status == StatusCode::NOT_FOUND => None,
            other => Some(other),
        });
        opened.collect()
    }
}

fn check_wildcards(params: &Params) -> Outcome<()> {
    params.only(
        "expand_wildcards",
        &["all", "open", "open,closed", "open,hidden"],
        "no collection is closed or hidden",
    )?;
    params.flag("allow_no_indices").map(|_| ())
}
