//! Aliases: `_aliases`, `_alias`.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::StatusCode;
use quiredb::{Alias, AliasChange, Aliases, ErrorKind};
use serde_json::{Map, Value, json};

use super::selection::Selection;
use crate::access::role::Action;
use crate::audit::AuditedGrant;
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::http::fields::glob;
use crate::search::filter::{filter, known, object};
use crate::search::request::parse;

/// Changes that one request may have, patterns resolved.
const CHANGES_MAX: usize = 100_000;

/// What an alias says of a collection, as it is shown.
fn describe(alias: &Alias) -> Value {
    let mut shown = Map::new();
    if let Some(filter) = &alias.filter {
        shown.insert("filter".into(), filter.clone());
    }
    if let Some(is_write_index) = alias.is_write_index {
        shown.insert("is_write_index".into(), is_write_index.into());
    }
    Value::Object(shown)
}

/// The aliases of a collection, as they are shown.
pub(super) fn of_collection(aliases: &Aliases, collection: &str) -> Value {
    let of = aliases.iter().filter_map(|(name, collections)| {
        let alias = collections.get(collection)?;
        Some((name.clone(), describe(alias)))
    });
    Value::Object(of.collect())
}

/// What a request says of an alias.
pub(super) fn options(given: &Value) -> Outcome<Alias> {
    let given = object(given, "alias")?;
    known(given, "alias", &["filter", "is_write_index"])?;
    let filtered = given.get("filter").filter(|filter| !filter.is_null());
    // A filter that can't be answered is refused before it is stored.
    filtered.map(filter).transpose()?;
    Ok(Alias {
        filter: filtered.cloned(),
        is_write_index: flag(given, "is_write_index")?,
    })
}

fn flag(given: &Map<String, Value>, name: &str) -> Outcome<Option<bool>> {
    match given.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(flag)) => Ok(Some(*flag)),
        Some(_) => Err(Failure::illegal_argument(format!(
            "[{name}] must be a boolean"
        ))),
    }
}

/// `GET /_alias`, `/_alias/{name}`, `/{collection}/_alias`, `/{collection}/_alias/{name}`
pub(crate) async fn get(call: Call<Engine>) -> Outcome<Answer> {
    let selection = Selection::of(&call)?;
    let patterns: Option<Vec<String>> = call.path_param("name").map(names);
    let work = move |engine: &Engine| {
        let aliases = engine.database().aliases();
        let mut shown = Map::new();
        let mut seen = Vec::new();
        for collection in selection.plain(engine)? {
            let mut of_one = of_collection(&aliases, collection.name());
            if let (Some(patterns), Some(of_one)) = (&patterns, of_one.as_object_mut()) {
                of_one.retain(|name, _| patterns.iter().any(|pattern| matches(pattern, name)));
                seen.extend(of_one.keys().cloned());
                if of_one.is_empty() {
                    continue;
                }
            }
            shown.insert(collection.name().to_owned(), json!({"aliases": of_one}));
        }
        let is_missing =
            |name: &&String| !name.contains('*') && *name != "_all" && !seen.contains(name);
        match patterns.iter().flatten().find(is_missing) {
            Some(missing) => Err(not_found(missing)),
            None => Ok(Answer::ok(&Value::Object(shown))),
        }
    };
    call.state.read(work).await?
}

/// `PUT|POST /{collection}/_alias/{name}`
pub(crate) async fn put(call: Call<Engine>) -> Outcome<Answer> {
    let (engine, grant) = (call.state.clone(), Arc::clone(&call.grant));
    let (collections, alias) = (call.collection(), name_of(&call));
    let body = call.take_small_body().await?;
    let mut body = parse(&body.bytes)?;
    body.insert("index".into(), collections.into());
    body.insert("alias".into(), alias.into());
    change(engine, grant, vec![("add".to_owned(), body)]).await
}

/// `DELETE /{collection}/_alias/{name}`
pub(crate) async fn delete(call: Call<Engine>) -> Outcome<Answer> {
    let (engine, grant) = (call.state.clone(), Arc::clone(&call.grant));
    let body = Map::from_iter([
        ("index".to_owned(), Value::from(call.collection())),
        ("alias".to_owned(), Value::from(name_of(&call))),
    ]);
    change(engine, grant, vec![("remove".to_owned(), body)]).await
}

/// `POST /_aliases`: all of the actions, or none.
pub(crate) async fn actions(call: Call<Engine>) -> Outcome<Answer> {
    let (engine, grant) = (call.state.clone(), Arc::clone(&call.grant));
    let body = call.take_small_body().await?;
    let body = parse(&body.bytes)?;
    known(&body, "_aliases", &["actions"])?;
    let Some(Value::Array(given)) = body.get("actions") else {
        return Err(Failure::illegal_argument("[actions] must be a list"));
    };
    let mut actions = Vec::new();
    for action in given {
        let mut members = object(action, "action")?.iter();
        match (members.next(), members.next()) {
            (Some((kind, body)), None) => actions.push((kind.clone(), object(body, kind)?.clone())),
            _ => {
                return Err(Failure::illegal_argument(
                    "an action is one of [add], [remove] and [remove_index]",
                ));
            }
        }
    }
    if actions.is_empty() {
        return Err(Failure::illegal_argument("No action specified"));
    }
    change(engine, grant, actions).await
}

/// Does actions: kinds and bodies.
async fn change(
    engine: Engine,
    grant: Arc<AuditedGrant>,
    actions: Vec<(String, Map<String, Value>)>,
) -> Outcome<Answer> {
    let work = move |engine: &Engine| {
        let database = engine.database();
        let (collections, aliases) = (database.collections(), database.aliases());
        let mut changes = Vec::new();
        for (kind, body) in &actions {
            let action = Parsed::of(kind, body)?;
            for name in action.collections.iter().chain(&action.aliases) {
                grant
                    .check(Action::Manage, name)
                    .map_err(Failure::forbidden)?;
            }
            action.resolve(&collections, &aliases, &mut changes)?;
            if changes.len() > CHANGES_MAX {
                let what = format!("the actions are more than {CHANGES_MAX} changes");
                return Err(Failure::illegal_argument(what));
            }
        }
        database
            .change_aliases(&changes)
            .map_err(|error| failure(&error))?;
        Ok(Answer::ok(&json!({"acknowledged": true})))
    };
    engine.write(work).await?
}

enum Kind {
    Add(Alias),
    Remove { must_exist: bool },
    RemoveIndex,
}

/// An action, with its names and patterns.
struct Parsed {
    kind: Kind,
    collections: Vec<String>,
    aliases: Vec<String>,
}

impl Parsed {
    fn of(kind: &str, body: &Map<String, Value>) -> Outcome<Parsed> {
        let collections = list(body, "index", "indices")?;
        let mut others = body.clone();
        others.retain(|name, _| !["index", "indices", "alias", "aliases"].contains(&&**name));
        let kind = match kind {
            "add" => {
                // It changes nothing but what is written about it.
                others.retain(|name, value| name != "is_hidden" || *value != Value::Bool(false));
                Kind::Add(options(&Value::Object(others))?)
            }
            "remove" => {
                known(&others, "remove", &["must_exist"])?;
                let must_exist = flag(&others, "must_exist")?.unwrap_or(true);
                Kind::Remove { must_exist }
            }
            "remove_index" => {
                known(body, "remove_index", &["index", "indices"])?;
                let aliases = Vec::new();
                let kind = Kind::RemoveIndex;
                return Ok(Parsed {
                    kind,
                    collections,
                    aliases,
                });
            }
            other => {
                return Err(Failure::illegal_argument(format!(
                    "[{other}] is no action: use [add], [remove] or [remove_index]"
                )));
            }
        };
        Ok(Parsed {
            kind,
            collections,
            aliases: list(body, "alias", "aliases")?,
        })
    }

    /// Adds the changes that the action stands for.
    fn resolve(
        &self,
        collections: &[String],
        aliases: &Aliases,
        changes: &mut Vec<AliasChange>,
    ) -> Outcome<()> {
        let before = changes.len();
        let no_aliases = BTreeMap::new();
        for pattern in &self.collections {
            let matched: Vec<&String> = match pattern.contains('*') || pattern == "_all" {
                true => collections
                    .iter()
                    .filter(|name| matches(pattern, name))
                    .collect(),
                // One that there is not is refused by the database, by name.
                false => vec![pattern],
            };
            if matched.is_empty() {
                return Err(Failure::index_not_found(pattern));
            }
            for collection in matched {
                let has = |alias: &String| {
                    let of_alias = aliases.get(alias).unwrap_or(&no_aliases);
                    of_alias.contains_key(collection)
                };
                let (collection, named) = (collection.clone(), &self.aliases);
                match &self.kind {
                    Kind::Add(options) => {
                        changes.extend(named.iter().map(|alias| AliasChange::Add {
                            collection: collection.clone(),
                            alias: alias.clone(),
                            options: options.clone(),
                        }))
                    }
                    Kind::Remove { .. } => {
                        let is_named =
                            |alias: &&String| named.iter().any(|pattern| matches(pattern, alias));
                        let removed = aliases.keys().filter(is_named).filter(|alias| has(alias));
                        changes.extend(removed.map(|alias| AliasChange::Remove {
                            collection: collection.clone(),
                            alias: alias.clone(),
                        }));
                    }
                    Kind::RemoveIndex => changes.push(AliasChange::Drop { collection }),
                }
            }
        }
        match self.kind {
            Kind::Remove { must_exist: true } if changes.len() == before => {
                Err(not_found(&self.aliases.join(",")))
            }
            _ => Ok(()),
        }
    }
}

fn failure(error: &quiredb::Error) -> Failure {
    match error {
        quiredb::Error::NoCollection { name, .. } => Failure::index_not_found(name),
        quiredb::Error::NoAlias { alias, .. } => not_found(alias),
        error if error.kind() == ErrorKind::Invalid => Failure::illegal_argument(error.to_string()),
        error => Failure::engine(error, None),
    }
}

fn not_found(alias: &str) -> Failure {
    let reason = format!("aliases [{alias}] missing");
    Failure::new(StatusCode::NOT_FOUND, "aliases_not_found_exception", reason)
}

/// The names in a member, which is one name, names between commas, or a list.
fn list(body: &Map<String, Value>, one: &str, several: &str) -> Outcome<Vec<String>> {
    let wrong = || Failure::validation(&format!("One of [{one}] or [{several}] is required"));
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let found = match (body.get(one), body.get(several)) {
        (Some(Value::String(text)), None) | (None, Some(Value::String(text))) => Some(names(text)),
        (None, Some(Value::Array(list))) => list.iter().map(text).collect(),
        _ => None,
    };
    let found = found.filter(|names| names.iter().all(|name| !name.is_empty()));
    found.filter(|names| !names.is_empty()).ok_or_else(wrong)
}

fn names(text: &str) -> Vec<String> {
    text.split(',').map(str::to_owned).collect()
}

fn name_of<S>(call: &Call<S>) -> String {
    call.path_param("name").unwrap_or_default().to_owned()
}

fn matches(pattern: &str, name: &str) -> bool {
    pattern == "_all" || glob(pattern.as_bytes(), name.as_bytes())
}
