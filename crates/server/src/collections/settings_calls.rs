//! `_settings` and `_block`: the settings of collections.

use std::collections::BTreeMap;

use quiredb::{Collection, CollectionSettings, ErrorKind};
use serde_json::{Map, Value, json};

use super::api_settings::{Block, Use};
use super::selection::Selection;
use super::settings::{self, Given};
use super::states::States;
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};

/// `GET /_settings`, `/{collection}/_settings`, each also with `/{name}`
pub(crate) async fn get(call: Call<Engine>) -> Outcome<Answer> {
    let is_flat = call.params.flag("flat_settings")?.unwrap_or(false);
    let has_defaults = call.params.flag("include_defaults")?.unwrap_or(false);
    let is_human = call.params.flag("human")?.unwrap_or(false);
    call.params.flag("local")?;
    let patterns = call.path_param("name").unwrap_or("_all");
    let patterns: Vec<String> = match patterns {
        "_all" | "*" => Vec::new(),
        patterns => patterns.split(',').map(str::to_owned).collect(),
    };
    let selection = Selection::about(&call, States::ALL)?;
    let work = move |engine: &Engine| {
        let mut all = BTreeMap::new();
        let (plain, wide) = selection.both(engine)?;
        let plain = plain.iter().map(|one| (one.name(), one.settings()));
        let wide = wide.iter().map(|one| (one.name(), one.settings()));
        for (name, settings) in plain.chain(wide) {
            let shown = settings::chosen(name, &settings, &patterns, is_flat, is_human);
            let mut shown = json!({ "settings": shown });
            if has_defaults {
                shown["defaults"] = settings::defaults(&settings, &patterns, is_flat);
            }
            if shown
                .as_object()
                .is_some_and(|shown| shown.values().any(|one| *one != json!({})))
            {
                all.insert(name.to_owned(), shown);
            }
        }
        let all: Map<String, Value> = all.into_iter().collect();
        Ok(Answer::ok(&Value::Object(all)))
    };
    call.state.read(work).await?
}

/// `PUT /_settings`, `/{collection}/_settings`: segments made from then on follow the new settings.
pub(crate) async fn change(call: Call<Engine>) -> Outcome<Answer> {
    let preserves = call.params.flag("preserve_existing")?.unwrap_or(false);
    let engine = call.state.clone();
    // Blocks can be lifted whatever they are.
    let selection = Selection::for_use(&call, Use::Configure, States::OPEN)?;
    let body = call.take_small_body().await?;
    let given = Given::parse(&body.bytes)?;
    let work = move |engine: &Engine| {
        if let Some(secs) = given.log_retention()? {
            set_log_retention(engine, &selection, secs)?;
            return Ok(Answer::ok(&json!({"acknowledged": true})));
        }
        if given.is_of_index() {
            set_wide_index(engine, &selection, &given, preserves)?;
        }
        let mut changes = Vec::new();
        let plain = match given.is_of_index() {
            true => selection.both(engine)?.0,
            false => selection.plain(engine)?,
        };
        for collection in plain {
            if !given.is_of_blocks() {
                engine.check_use(collection.name(), Use::Change)?;
            }
            let now = collection.settings();
            let settings = given.applied_to(&now, preserves)?;
            if settings.partitions != now.partitions {
                return Err(no_setting(collection.name(), now.partitions));
            }
            changes.push(collection);
        }
        for collection in changes {
            change_to(engine, &collection, |now| given.applied_to(now, preserves))?;
        }
        Ok(Answer::ok(&json!({"acknowledged": true})))
    };
    engine.write(work).await?
}

/// Gives wide collections the search index that is given.
fn set_wide_index(
    engine: &Engine,
    selection: &Selection,
    given: &Given,
    preserves: bool,
) -> Outcome<()> {
    let (_, wide) = selection.both(engine)?;
    for collection in &wide {
        engine.check_use(collection.name(), Use::Change)?;
        let now = collection.settings();
        let next = given.applied_to(&now, preserves)?;
        if next.index != now.index {
            let name = collection.name();
            let changed = engine.database().set_wide_index(name, next.index);
            changed.map_err(|error| refused(&error, name))?;
        }
    }
    Ok(())
}

/// Gives wide collections another retention of their log. Beside their index it is the one setting
/// of theirs that can be changed. One that has it is left as it is.
fn set_log_retention(engine: &Engine, selection: &Selection, secs: u64) -> Outcome<()> {
    let (plain, wide) = selection.both(engine)?;
    if let Some(plain) = plain.first() {
        let name = plain.name();
        return Err(Failure::illegal_argument(format!(
            "[{name}] is a plain collection, which keeps its log: log_retention_secs is of wide \
             ones"
        )));
    }
    for collection in &wide {
        engine.check_use(collection.name(), Use::Change)?;
    }
    for collection in &wide {
        if collection.settings().log_retention_secs != secs {
            let name = collection.name();
            let changed = engine.database().set_log_retention(name, secs);
            changed.map_err(|error| refused(&error, name))?;
        }
    }
    Ok(())
}

/// `PUT /{collection}/_block/{name}`: what was begun before is still done.
pub(crate) async fn block(call: Call<Engine>) -> Outcome<Answer> {
    let name = call.path_param("name").unwrap_or_default();
    let block = Block::ALL.into_iter().find(|block| block.name() == name);
    let Some(block) = block else {
        return Err(Failure::illegal_argument(format!(
            "No block found with name {name}"
        )));
    };
    let selection = Selection::for_use(&call, Use::Configure, States::OPEN)?;
    let work = move |engine: &Engine| {
        let mut blocked = Vec::new();
        for collection in selection.plain(engine)? {
            let name = collection.name();
            change_to(engine, &collection, |now| {
                let mut settings = now.clone();
                let name = block.setting().to_owned();
                settings.api.settings.insert(name, "true".into());
                Ok(settings)
            })?;
            blocked.push(json!({"name": name, "blocked": true}));
        }
        Ok(Answer::ok(&json!({
            "acknowledged": true,
            "shards_acknowledged": true,
            "indices": blocked,
        })))
    };
    call.state.write(work).await?
}

/// Gives a collection the settings that `next` makes of those that it has. If it was split
/// meanwhile, they are made again: the number of partitions is among them.
///
/// # Errors
/// Those of `next`; what the database refuses.
pub(super) fn change_to(
    engine: &Engine,
    collection: &Collection,
    next: impl Fn(&CollectionSettings) -> Outcome<CollectionSettings>,
) -> Outcome<()> {
    let name = collection.name();
    loop {
        let now = collection.settings();
        match engine.database().change_settings(name, next(&now)?) {
            Ok(_) => return Ok(()),
            Err(_) if collection.settings().partitions != now.partitions => {}
            Err(error) => return Err(refused(&error, name)),
        }
    }
}

/// The refusal of another number of partitions.
fn no_setting(index: &str, partitions: u32) -> Failure {
    let twice = partitions.saturating_mul(2);
    Failure::illegal_argument(format!(
        "[{index}] has [{partitions}] partitions (number_of_shards), which no setting changes: \
         split them by POST /{index}/_partitions?count={twice}, or by `quire split`"
    ))
}

/// The failure of a change of settings.
fn refused(error: &quiredb::Error, index: &str) -> Failure {
    match error.kind() {
        ErrorKind::NotFound => Failure::index_not_found(index),
        ErrorKind::Invalid => Failure::illegal_argument(error.to_string()),
        _ => Failure::engine(error, Some(index)),
    }
}
