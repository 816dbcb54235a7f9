//! Aliases: `_aliases`, `_alias`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::http::StatusCode;
use quiredb::{Alias, AliasChange, Aliases, ErrorKind};
use serde_json::{Map, Value, json};

use super::api_settings::Use;
use super::selection::{Searched, Selection};
use super::states::States;
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

/// What a request can say of an alias.
const OPTIONS: [&str; 6] = [
    "filter",
    "index_routing",
    "is_hidden",
    "is_write_index",
    "routing",
    "search_routing",
];

/// What an alias says of a collection, as it is shown.
pub(super) fn describe(alias: &Alias) -> Value {
    let members = [
        ("filter", alias.filter.clone()),
        (
            "index_routing",
            alias.index_routing.clone().map(Value::from),
        ),
        (
            "search_routing",
            alias.search_routing.clone().map(Value::from),
        ),
        ("is_write_index", alias.is_write_index.map(Value::from)),
        ("is_hidden", alias.is_hidden.map(Value::from)),
    ];
    let given = members.into_iter();
    let given = given.filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(given.collect())
}

/// The aliases of a collection, as they are shown.
pub(crate) fn of_collection(aliases: &Aliases, collection: &str) -> Value {
    let of = aliases.iter().filter_map(|(name, collections)| {
        let alias = collections.get(collection)?;
        Some((name.clone(), describe(alias)))
    });
    Value::Object(of.collect())
}

/// What a request says of an alias.
pub(crate) fn options(given: &Value) -> Outcome<Alias> {
    let given = object(given, "alias")?;
    let unknown = given.keys().find(|name| !OPTIONS.contains(&name.as_str()));
    if let Some(unknown) = unknown {
        return Err(Failure::illegal_argument(format!(
            "unknown field [{unknown}]"
        )));
    }
    let both = routing(given, "routing")?;
    let filtered = given.get("filter").filter(|filter| !filter.is_null());
    // A filter that can't be answered is refused before it is stored, whatever the time is.
    filtered.map(|one| filter(one, 0)).transpose()?;
    Ok(Alias {
        filter: filtered.cloned(),
        is_write_index: flag(given, "is_write_index")?,
        index_routing: routing(given, "index_routing")?.or_else(|| both.clone()),
        search_routing: routing(given, "search_routing")?.or(both),
        is_hidden: flag(given, "is_hidden")?,
    })
}

/// A routing, which may be a number.
fn routing(given: &Map<String, Value>, name: &str) -> Outcome<Option<String>> {
    match given.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        Some(_) => Err(Failure::illegal_argument(format!(
            "[{name}] must be a string"
        ))),
    }
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
    let selection = Selection::about(&call, States::ALL)?;
    let patterns: Option<Vec<String>> = call.path_param("name").map(names);
    let work = move |engine: &Engine| {
        let aliases = engine.database().aliases();
        let mut shown = Map::new();
        let mut seen = Vec::new();
        for collection in selection.all(engine)? {
            if matches!(collection, Searched::Frozen(_)) {
                continue;
            }
            let mut of_one = of_collection(&aliases, collection.name());
            if let (Some(patterns), Some(of_one)) = (&patterns, of_one.as_object_mut()) {
                of_one.retain(|name, _| is_chosen(patterns, name));
                seen.extend(of_one.keys().cloned());
                if of_one.is_empty() {
                    continue;
                }
            }
            shown.insert(collection.name().to_owned(), json!({"aliases": of_one}));
        }
        let missing = missing(patterns.as_deref().unwrap_or_default(), &seen);
        if missing.is_empty() {
            return Ok(Answer::ok(&Value::Object(shown)));
        }
        let what = match missing.len() {
            1 => "alias",
            _ => "aliases",
        };
        let missing: Vec<&str> = missing.into_iter().collect();
        let error = format!("{what} [{}] missing", missing.join(","));
        let mut answer = json!({"error": error, "status": 404});
        if let Some(answer) = answer.as_object_mut() {
            answer.extend(shown);
        }
        Ok(Answer::value(StatusCode::NOT_FOUND, &answer))
    };
    call.state.read(work).await?
}

/// Whether names and patterns, of which `-NAME` takes out what it matches, choose an alias.
fn is_chosen(patterns: &[String], name: &str) -> bool {
    let mut is_chosen = false;
    for pattern in patterns {
        match pattern.strip_prefix('-') {
            Some(without) => is_chosen &= !matches(without, name),
            None => is_chosen |= matches(pattern, name),
        }
    }
    is_chosen
}

/// The names among `patterns` that were not seen, sorted. Before the first pattern `-NAME` is a
/// name; what is taken out later is not missing.
fn missing<'p>(patterns: &'p [String], seen: &[String]) -> BTreeSet<&'p str> {
    let is_pattern = |name: &String| name.contains('*');
    let first = patterns.iter().position(is_pattern);
    let first = first.unwrap_or(patterns.len());
    let mut missing = BTreeSet::new();
    for (at, name) in patterns.iter().enumerate() {
        if is_pattern(name) || name == "_all" || (at > first && name.starts_with('-')) {
            continue;
        }
        let mut after = patterns.iter().skip(first.max(at + 1));
        let is_out = after.any(|other| other.strip_prefix('-').is_some_and(|it| matches(it, name)));
        if !is_out && !seen.contains(name) {
            missing.insert(name.as_str());
        }
    }
    missing
}

/// `PUT|POST /_alias`, `/_alias/{name}`, `/{collection}/_alias`, `/{collection}/_alias/{name}`: the
/// body's `index` and `alias` count more than the path.
pub(crate) async fn put(call: Call<Engine>) -> Outcome<Answer> {
    let (engine, grant) = (call.state.clone(), Arc::clone(&call.grant));
    let (collections, alias) = (call.collection(), name_of(&call));
    let body = call.take_small_body().await?;
    let mut body = parse(&body.bytes)?;
    for (name, of_path) in [("index", collections), ("alias", alias)] {
        if !of_path.is_empty() {
            body.entry(name).or_insert_with(|| of_path.into());
        }
    }
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
        let collections = [database.collections(), database.wide_collections()].concat();
        let aliases = database.aliases();
        let mut changes = Vec::new();
        for (kind, body) in &actions {
            let action = Parsed::of(kind, body)?;
            for name in action.collections.iter().chain(&action.aliases) {
                grant
                    .check(Action::Manage, name)
                    .map_err(Failure::forbidden)?;
            }
            action.resolve(engine, &collections, &aliases, &mut changes)?;
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
        let of = ["indices", "aliases"].into_iter();
        let mut of = of.filter(|name| body.get(*name) == Some(&json!([])));
        if let Some(name) = of.next() {
            let what = format!("[{name}] can't be empty");
            return Err(Failure::illegal_argument(what));
        }
        let collections = list(body, "index", "indices")?;
        let mut others = body.clone();
        others.retain(|name, _| !["index", "indices", "alias", "aliases"].contains(&&**name));
        let kind = match kind {
            "add" => Kind::Add(options(&Value::Object(others))?),
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
        engine: &Engine,
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
                engine.check_use(collection, Use::Change)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exclusions_count_behind_what_they_take_out() {
        let chosen = |patterns: &str| {
            let all = ["a1", "a2", "b1", "b2"].into_iter();
            let chosen = all.filter(|name| is_chosen(&names(patterns), name));
            chosen.collect::<Vec<_>>().join(",")
        };
        for (patterns, expected) in [
            ("b2,a*,-a1", "a2,b2"),
            ("a1,b1,-a*", "b1"),
            ("-a1,a*,-a2", "a1"),
            ("_all,-b*", "a1,a2"),
            ("b1", "b1"),
        ] {
            assert_eq!(chosen(patterns), expected, "{patterns}");
        }
    }

    #[test]
    fn only_names_are_missing() {
        let seen = ["a1".to_owned()];
        for (patterns, expected) in [
            ("a1", ""),
            ("a1,z,y", "y,z"),
            ("a*,-z", ""),
            ("-z,a*", "-z"),
            ("z,-z*", ""),
            ("z,a*,-b", "z"),
        ] {
            let patterns = names(patterns);
            let found: Vec<&str> = missing(&patterns, &seen).into_iter().collect();
            assert_eq!(found.join(","), expected, "{patterns:?}");
        }
    }

    #[test]
    fn routings_are_kept_as_text() {
        let alias = options(&json!({"routing": 5, "search_routing": "a,b"})).unwrap();
        let shown = json!({"index_routing": "5", "search_routing": "a,b"});
        assert_eq!(describe(&alias), shown);
        assert!(options(&json!({"routing": [1]})).is_err());
    }
}
