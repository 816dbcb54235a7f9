//! The collections that a request names.

use axum::http::StatusCode;
use quiredb::Collection;
use serde_json::{Value, json};

use crate::engine::Engine;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::http::fields::glob;
use crate::http::params::Params;

/// The collections that a request names: names and patterns between commas. All collections if it
/// names none.
pub(crate) struct Selection {
    names: Vec<String>,
    ignore_missing: bool,
}

impl Selection {
    pub(crate) fn of<S>(call: &Call<S>) -> Outcome<Selection> {
        let ignore_missing = call.params.flag("ignore_unavailable")?.unwrap_or(false);
        check_wildcards(&call.params)?;
        let names = call
            .path_param("collection")
            .unwrap_or("_all")
            .split(',')
            .map(str::to_owned)
            .collect();
        Ok(Selection {
            names,
            ignore_missing,
        })
    }

    /// The collections, sorted by name, each once.
    ///
    /// # Errors
    /// 404 for a name without a collection. A pattern may match none.
    pub(crate) fn collections(&self, engine: &Engine) -> Outcome<Vec<Collection>> {
        let all = engine.database().collections();
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
        // A collection that was dropped meanwhile is left out.
        let opened = chosen.into_iter().map(|name| engine.collection(name));
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

/// The partitions of collections, as the `_shards` of an answer that all of them took part in.
pub(crate) fn shards(collections: &[Collection]) -> Value {
    let partitions: u64 = collections
        .iter()
        .map(|collection| u64::from(collection.settings().partitions))
        .sum();
    json!({"total": partitions, "successful": partitions, "failed": 0})
}

/// As [`shards`], in the answer to a search.
pub(crate) fn searched(collections: &[Collection]) -> Value {
    let mut shards = shards(collections);
    if let Some(object) = shards.as_object_mut() {
        object.shift_insert(2, "skipped".to_owned(), 0.into());
    }
    shards
}
