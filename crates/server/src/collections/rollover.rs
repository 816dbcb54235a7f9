//! `_rollover`: a new collection takes the writes of an alias, once the one that has them is large.

use std::sync::Arc;

use quiredb::{Alias, AliasChange, Collection, ErrorKind};
use serde_json::{Map, Value, json};

use super::api_settings::{Use, created, set_created};
use super::{settings, templates};
use crate::access::role::Action;
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::http::table::unit;
use crate::search::filter::{known, object};
use crate::search::request::parse;

/// A condition of a rollover: it is done if one of them is met.
enum Condition {
    /// This number of documents.
    Documents(u64),
    /// This number of bytes of them, before compression.
    Bytes(u64),
    /// It was made this number of milliseconds ago.
    Age(u64),
}

impl Condition {
    /// The conditions, each with the words that an answer has for it.
    fn parse(given: &Map<String, Value>) -> Outcome<Vec<(String, Condition)>> {
        known(given, "conditions", &["max_age", "max_docs", "max_size"])?;
        let one = |(name, value): (&String, &Value)| {
            let text = match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let wrong = || Failure::illegal_argument(format!("[{name}] can't be [{text}]"));
            let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
            let number: u64 = digits.parse().map_err(|_| wrong())?;
            let suffix = text.get(digits.len()..).unwrap_or_default();
            let condition = match name.as_str() {
                "max_docs" if suffix.is_empty() => Condition::Documents(number),
                "max_docs" => return Err(wrong()),
                "max_age" => {
                    let millis = millis(suffix).ok_or_else(wrong)?;
                    Condition::Age(number.checked_mul(millis).ok_or_else(wrong)?)
                }
                _ => {
                    let unit = unit(&suffix.to_ascii_lowercase())?.ok_or_else(wrong)?;
                    Condition::Bytes(number.checked_mul(unit).ok_or_else(wrong)?)
                }
            };
            Ok((format!("[{name}: {text}]"), condition))
        };
        given.iter().map(one).collect()
    }

    /// `now` is the time, in milliseconds since 1970 UTC.
    ///
    /// # Errors
    /// 400 for the age of a collection that was not made over HTTP: it is not known.
    fn is_met(&self, collection: &Collection, now: i64) -> Outcome<bool> {
        let failed = |error: quiredb::Error| Failure::engine(&error, Some(collection.name()));
        Ok(match self {
            Condition::Documents(least) => collection.count().map_err(failed)? >= *least,
            Condition::Bytes(least) => {
                let stats = collection.stats().map_err(failed)?;
                stats.documents > 0 && stats.log_live_bytes >= *least
            }
            Condition::Age(least) => {
                let created = created(&collection.settings().api).ok_or_else(|| {
                    Failure::illegal_argument(format!(
                        "[max_age] of [{}] is not known: it was not made over HTTP",
                        collection.name()
                    ))
                })?;
                // A clock may have been set back.
                u64::try_from(now - created).unwrap_or(0) >= *least
            }
        })
    }
}

/// The milliseconds of a unit of time.
fn millis(unit: &str) -> Option<u64> {
    Some(match unit {
        "d" => 86_400_000,
        "h" => 3_600_000,
        "m" => 60_000,
        "s" => 1000,
        "ms" => 1,
        _ => return None,
    })
}

/// `POST /{collection}/_rollover`, `/{collection}/_rollover/{name}`: the path's collection is an
/// alias.
pub(crate) async fn rollover(call: Call<Engine>) -> Outcome<Answer> {
    let is_dry = call.params.flag("dry_run")?.unwrap_or(false);
    let (engine, grant) = (call.state.clone(), Arc::clone(&call.grant));
    let alias = call.collection();
    let named = call.path_param("name").map(str::to_owned);
    let body = call.take_small_body().await?;
    let mut body = parse(&body.bytes)?;
    let conditions = match body.remove("conditions") {
        None => Vec::new(),
        Some(given) => Condition::parse(object(&given, "conditions")?)?,
    };
    let body = Value::Object(body).to_string();
    let work = move |engine: &Engine| {
        let (source, options) = write_index(engine, &alias)?;
        let old = source.name();
        let new = match named {
            Some(named) => named,
            None => next_name(old)?,
        };
        let allowed = grant.check(Action::Manage, &new);
        allowed.map_err(Failure::forbidden)?;
        quiredb::check_name(&new).map_err(|error| Failure::invalid_index_name(&error, &new))?;
        if engine.collections().contains(&new) {
            return Err(Failure::index_exists(&new));
        }
        let template = templates::applied(&engine.database().templates(), &new);
        let (mut settings, aliases) = settings::parse(body.as_bytes(), &template)?;
        let now = engine.now_millis();
        set_created(&mut settings.api, now);
        if aliases.contains_key(&alias) {
            return Err(Failure::illegal_argument(format!(
                "Rollover alias [{alias}] can point to multiple indices, found duplicated alias \
                 [{alias}] in index template or request"
            )));
        }
        let met = conditions.iter();
        let met = met.map(|(name, one)| Ok((name.clone(), Value::from(one.is_met(&source, now)?))));
        let met: Map<String, Value> = met.collect::<Outcome<_>>()?;
        let is_met = met.is_empty() || met.values().any(|one| *one == true);
        let is_done = is_met && !is_dry;
        if is_done {
            engine.check_use(old, Use::Change)?;
            let changes = changes(&alias, old, &new, &options);
            let made = engine
                .database()
                .create_and_change_aliases(&new, settings, aliases, &changes);
            made.map_err(|error| match error.kind() {
                ErrorKind::AlreadyExists => Failure::index_exists(&new),
                ErrorKind::Invalid => Failure::illegal_argument(error.to_string()),
                _ => Failure::engine(&error, Some(&new)),
            })?;
        }
        Ok(Answer::ok(&json!({
            "acknowledged": is_done,
            "shards_acknowledged": is_done,
            "old_index": old,
            "new_index": new,
            "rolled_over": is_done,
            "dry_run": is_dry,
            "conditions": met,
        })))
    };
    engine.write(work).await?
}

/// The collection that takes the writes of an alias, and what the alias says of it.
fn write_index(engine: &Engine, alias: &str) -> Outcome<(Collection, Alias)> {
    let Some(resolved) = engine.database().alias(alias) else {
        let is_collection = engine.collections().iter().any(|name| name == alias);
        return Err(Failure::illegal_argument(match is_collection {
            true => format!("rollover target [{alias}] is a collection: it must be an alias"),
            false => format!("rollover target [{alias}] does not exist"),
        }));
    };
    let target = resolved.write_target(alias);
    let target = target.map_err(|error| Failure::illegal_argument(error.to_string()))?;
    let options = resolved.0.get(target).cloned().unwrap_or_default();
    Ok((engine.collection_named(target)?, options))
}

/// The name after `NAME-NUMBER`: the number is one more, with six digits at least.
fn next_name(name: &str) -> Outcome<String> {
    let next = name.rsplit_once('-').and_then(|(stem, number)| {
        let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
        let number: u64 = number.parse().ok().filter(|_| is_number)?;
        Some(format!("{stem}-{:06}", number.checked_add(1)?))
    });
    next.ok_or_else(|| {
        Failure::illegal_argument(format!(
            "index name [{name}] does not match pattern '^.*-\\d+$'"
        ))
    })
}

/// The changes that make the new collection take the writes. An alias that says which collection
/// does so keeps the old one for searches.
fn changes(alias: &str, old: &str, new: &str, options: &Alias) -> [AliasChange; 2] {
    let is_said = options.is_write_index == Some(true);
    let of = |collection: &str, options| AliasChange::Add {
        collection: collection.to_owned(),
        alias: alias.to_owned(),
        options,
    };
    let left = match is_said {
        true => of(
            old,
            Alias {
                is_write_index: Some(false),
                ..options.clone()
            },
        ),
        false => AliasChange::Remove {
            collection: old.to_owned(),
            alias: alias.to_owned(),
        },
    };
    [left, of(new, options.clone())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_name_has_the_next_number() {
        for (name, next) in [
            ("logs-1", "logs-000002"),
            ("a-b-000009", "a-b-000010"),
            ("a-1234567", "a-1234568"),
        ] {
            assert_eq!(next_name(name).unwrap(), next);
        }
        for name in [
            "logs",
            "logs-",
            "logs-+1",
            "logs-1a",
            "a-18446744073709551615",
        ] {
            assert!(next_name(name).is_err(), "{name}");
        }
    }
}
