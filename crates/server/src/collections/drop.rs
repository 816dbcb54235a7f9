//! `DELETE /{collection}`: collections are dropped by name, and by pattern where a setting says so.

use quiredb::ErrorKind;
use serde_json::json;

use super::api_settings::Use;
use super::selection::Selection;
use super::states::States;
use crate::admin::state::ClusterState;
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};

/// `DELETE /{collection}`
pub(crate) async fn delete(call: Call<ClusterState>) -> Outcome<Answer> {
    let named = call.collection();
    let is_pattern = |name: &str| name == "_all" || name.contains('*');
    if named.split(',').any(is_pattern) && !call.state.settings.drops_by_pattern() {
        return Err(Failure::illegal_argument(format!(
            "Wildcard expressions or all indices are not allowed: [{named}]; name each collection, \
             or set action.destructive_requires_name to false"
        )));
    }
    let ignore_missing = call.params.flag("ignore_unavailable")?.unwrap_or(false);
    let database = call.state.engine.database();
    let alias = named.split(',').find(|name| database.alias(name).is_some());
    if let Some(alias) = alias.filter(|_| !ignore_missing) {
        return Err(Failure::illegal_argument(format!(
            "the provided expression [{alias}] matches an alias, specify the corresponding \
             concrete indices instead"
        )));
    }
    let engine = call.state.engine.clone();
    let selection = Selection::for_use(&call, Use::Drop, States::VISIBLE)?;
    // An alias that a pattern matches does not stand for its collections.
    let matches = move |engine: &Engine| selection.named(engine);
    let work = move |engine: &Engine| {
        let names = matches(engine)?;
        // A name that is wrong is found before anything is dropped.
        let there = engine.collections();
        let is_missing = |name: &&String| !there.contains(name);
        if let Some(missing) = names.iter().find(is_missing)
            && !ignore_missing
        {
            return Err(Failure::index_not_found(missing));
        }
        for name in &names {
            if engine.frozen(name).is_some() {
                engine.collection_named(name)?;
            }
            engine.check_use(name, Use::Drop)?;
        }
        for name in names {
            match engine.database().drop_collection(&name) {
                Ok(()) => {}
                Err(error) => match error.kind() {
                    ErrorKind::NotFound | ErrorKind::Invalid if ignore_missing => {}
                    ErrorKind::NotFound | ErrorKind::Invalid => {
                        return Err(Failure::index_not_found(&name));
                    }
                    _ => return Err(Failure::engine(&error, Some(&name))),
                },
            }
        }
        Ok(Answer::ok(&json!({"acknowledged": true})))
    };
    engine.write(work).await?
}
