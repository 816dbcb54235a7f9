//! `_clone`, `_shrink`, `_split`: a collection that refuses writes is copied into a new one, which
//! may have another number of partitions.
//!
//! # Invariants
//! 1. The copy is closed until it is whole: nobody reads a part of it. One that failed or was
//!    cancelled is dropped; one that the end of the server cut off is dropped when a server of the
//!    database begins.
//! 2. The work goes on if the caller goes away.

use std::collections::BTreeMap;
use std::sync::Arc;

use quiredb::{Alias, CollectionSettings, ErrorKind};
use serde_json::{Map, Value, json};

use super::batches::{Act, BatchMemory, Manner, Target, Work};
use crate::access::role::Action;
use crate::collections::aliases;
use crate::collections::api_settings::{Block, Use, is_unfinished, set_created, set_unfinished};
use crate::collections::selection::Selection;
use crate::collections::settings::Given;
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::http::fields::Fields;
use crate::search::filter::{known, object};
use crate::search::request::{parse, query_of};
use crate::search::state::SearchState;

/// How the partitions of the copy differ in number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Clone,
    Shrink,
    Split,
}

impl Kind {
    /// Checks the number of partitions of the copy.
    fn check(self, source: u32, target: u32) -> Outcome<()> {
        let wrong = match self {
            Kind::Clone if target != source => "must be equal to",
            Kind::Shrink if target > source || !source.is_multiple_of(target) => {
                "must be a factor of"
            }
            Kind::Split if target <= source || !target.is_multiple_of(source) => {
                "must be a multiple of"
            }
            _ => return Ok(()),
        };
        Err(Failure::illegal_argument(format!(
            "the number of target shards [{target}] {wrong} the number of source shards [{source}]"
        )))
    }
}

/// `PUT|POST /{collection}/_clone/{name}`
pub(crate) async fn clone(call: Call<SearchState>) -> Outcome<Answer> {
    resize(call, Kind::Clone).await
}

/// `PUT|POST /{collection}/_shrink/{name}`
pub(crate) async fn shrink(call: Call<SearchState>) -> Outcome<Answer> {
    resize(call, Kind::Shrink).await
}

/// `PUT|POST /{collection}/_split/{name}`
pub(crate) async fn split(call: Call<SearchState>) -> Outcome<Answer> {
    resize(call, Kind::Split).await
}

async fn resize(call: Call<SearchState>, kind: Kind) -> Outcome<Answer> {
    let why = "the request is answered when it is done";
    call.params
        .only("wait_for_completion", &["", "true"], why)?;
    let why = "settings are always copied";
    call.params.only("copy_settings", &["", "true"], why)?;
    let (state, grant) = (call.state.clone(), Arc::clone(&call.grant));
    let running = Arc::clone(&call.running);
    let source = call.collection();
    let target = call.path_param("name").unwrap_or_default().to_owned();
    let body = call.take_small_body().await?;
    let body = parse(&body.bytes)?;
    known(&body, "resize", &["aliases", "settings"])?;
    let member = |name: &str| match body.get(name) {
        None => Ok(Map::new()),
        Some(given) => object(given, name).cloned(),
    };
    let given = Given::parse(Value::Object(member("settings")?).to_string().as_bytes())?;
    let of_target = member("aliases")?;
    for name in of_target.keys().chain([&target]) {
        let allowed = grant.check(Action::Manage, name);
        allowed.map_err(Failure::forbidden)?;
    }
    let of_target = of_target.iter();
    let of_target = of_target.map(|(name, it)| Ok((name.clone(), aliases::options(it)?)));
    let of_target: BTreeMap<String, Alias> = of_target.collect::<Outcome<_>>()?;
    let manner = Manner {
        most: u64::MAX,
        batch: 1000,
        proceeds: false,
        rate: None,
        waits: true,
        slices: None,
    };
    let memory = BatchMemory::reserve(&state, &manner).await?;
    let begin = move |engine: &Engine, target: &str| {
        let source = engine.collection(&source)?;
        let settings = settings_of(engine, &given, &source, target, kind)?;
        let made = engine
            .database()
            .create_with_aliases(target, settings, of_target);
        let to = made.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => Failure::index_exists(target),
            ErrorKind::Invalid => Failure::illegal_argument(error.to_string()),
            _ => Failure::engine(&error, Some(target)),
        })?;
        let selection = Selection::of_names(vec![source.name().to_owned()], false);
        let act = Act::Copy {
            to: Target::Plain(to),
            only_create: false,
            versions: None,
            fields: Fields::default(),
        };
        let query = query_of(&Map::new(), engine.now_millis())?;
        let work = Work::new(engine, &selection, query, act, manner, memory);
        work.inspect_err(|_| discard(engine, target))
    };
    let engine = state.engine.clone();
    let copy = async move {
        let begun = engine.write(move |engine| begin(engine, &target).map(|work| (work, target)));
        let (work, target) = begun.await??;
        let copied = work.finish(&engine, &running).await;
        let finish = move |engine: &Engine| match copied {
            Ok(()) => open(engine, &target),
            Err(failure) => {
                discard(engine, &target);
                Err(failure)
            }
        };
        engine.write(finish).await?
    };
    // The copy is not left half made if the caller goes away.
    let copied = tokio::spawn(copy).await;
    copied.unwrap_or_else(|_| Err(Failure::internal("the copy was cut off")))
}

/// Drops a copy that failed.
fn discard(engine: &Engine, target: &str) {
    if let Err(error) = engine.database().drop_collection(target) {
        tracing::error!(collection = target, %error, "a copy that failed is left, closed");
    }
}

/// Drops the copies that the end of a server cut off.
pub(crate) fn discard_unfinished(engine: &Engine) {
    for (name, settings) in engine.database().api_settings().iter() {
        if is_unfinished(settings) {
            tracing::warn!(collection = name, "a copy that was cut off is dropped");
            discard(engine, name);
        }
    }
}

/// Serves the copy.
fn open(engine: &Engine, target: &str) -> Outcome<Answer> {
    let mut settings = (*engine.collection_named(target)?.settings()).clone();
    settings.api.closed = false;
    set_unfinished(&mut settings.api, false);
    let opened = engine.database().change_settings(target, settings);
    opened.map_err(|error| Failure::engine(&error, Some(target)))?;
    Ok(Answer::ok(
        &json!({"acknowledged": true, "shards_acknowledged": true, "index": target}),
    ))
}

/// The settings of the copy, which is closed.
///
/// # Errors
/// 400 if the source takes writes, or the copy can't have the settings.
fn settings_of(
    engine: &Engine,
    given: &Given,
    source: &quiredb::Collection,
    target: &str,
    kind: Kind,
) -> Outcome<CollectionSettings> {
    let now = source.settings();
    if engine.check_use(source.name(), Use::Write).is_ok() {
        return Err(Failure::illegal_argument(format!(
            "index {} must block write operations to resize index. use \"index.blocks.write=true\"",
            source.name()
        )));
    }
    let mut settings = given.applied_to(&now, false)?;
    if !given.has_partitions() {
        match kind {
            Kind::Clone => {}
            Kind::Shrink => settings.partitions = 1,
            Kind::Split => {
                let what = "index.number_of_shards is required for split operations";
                return Err(Failure::validation(what));
            }
        }
    }
    kind.check(now.partitions, settings.partitions)?;
    // What is copied could not be made known under these.
    let refuses = |block: &Block| block.refuses().contains(&Use::Change);
    if let Some(block) = Block::of(&settings.api).find(refuses) {
        let what = format!(
            "target index [{target}] will be blocked by [{}=true]: lift it by null",
            block.setting()
        );
        return Err(match given.has(block.setting()) {
            true => Failure::validation(&what),
            false => Failure::illegal_argument(what),
        });
    }
    settings.api.closed = true;
    set_unfinished(&mut settings.api, true);
    set_created(&mut settings.api, engine.now_millis());
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_divided_or_multiplied() {
        for (kind, source, target, is_allowed) in [
            (Kind::Clone, 2, 2, true),
            (Kind::Clone, 2, 1, false),
            (Kind::Shrink, 6, 3, true),
            (Kind::Shrink, 6, 4, false),
            (Kind::Shrink, 2, 4, false),
            (Kind::Split, 2, 6, true),
            (Kind::Split, 2, 3, false),
            (Kind::Split, 2, 2, false),
        ] {
            let checked = kind.check(source, target);
            assert_eq!(checked.is_ok(), is_allowed, "{kind:?} {source} {target}");
        }
    }
}
