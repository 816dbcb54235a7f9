//! `query_string`, `simple_query_string` and `?q=`: queries as a line of text, as filters.
//!
//! Nothing is analyzed and nothing is scored. So a word of a line is the whole value of a field,
//! as in `match`, and needs a field. What would need an analyzer, a score or all fields at once is
//! refused by name.

mod about;
mod line;
mod simple;

use quiredb::query::Filter;
use serde_json::{Map, Value as Json, json};

use self::about::{About, Joined};
use self::line::Line;
use super::clause::{Object, WholeTexts, known_query, text, unsupported};
use crate::http::failure::{Failure, Outcome};
use crate::http::params::Params;

/// `query_string`.
///
/// # Errors
/// 400 for what is not supported, and a text that is no query.
pub(super) fn query_string(body: &Object, texts: &mut WholeTexts, now: i64) -> Outcome<Filter> {
    let name = "query_string";
    let options = [
        "query",
        "default_field",
        "fields",
        "default_operator",
        "analyze_wildcard",
        "allow_leading_wildcard",
        "lenient",
        "time_zone",
        "escape",
        "type",
        "phrase_slop",
        "fuzziness",
        "fuzzy_max_expansions",
        "fuzzy_prefix_length",
        "fuzzy_transpositions",
        "enable_position_increments",
        "auto_generate_synonyms_phrase_query",
        "max_determinized_states",
    ];
    known_query(body, name, &options)?;
    only(body, name, "lenient", &json!(false))?;
    only(body, name, "allow_leading_wildcard", &json!(true))?;
    only(body, name, "escape", &json!(false))?;
    only(body, name, "phrase_slop", &json!(0))?;
    let query = text(body.get("query"), "[query_string] needs a [query]")?;
    let zone = body.get("time_zone").filter(|zone| !zone.is_null());
    let zone = zone.map(|zone| text(Some(zone), "[time_zone] of [query_string] is text"));
    let mut about = About {
        name,
        fields: fields(body, name)?,
        joined: joined(body, name)?,
        zone: zone.transpose()?,
        texts,
        now,
        clauses: 0,
    };
    Line::new(query, &mut about).read()
}

/// `simple_query_string`.
///
/// # Errors
/// As [`query_string`].
pub(super) fn simple_query_string(
    body: &Object,
    texts: &mut WholeTexts,
    now: i64,
) -> Outcome<Filter> {
    let name = "simple_query_string";
    let options = [
        "query",
        "fields",
        "default_operator",
        "analyze_wildcard",
        "lenient",
        "flags",
        "fuzzy_max_expansions",
        "fuzzy_prefix_length",
        "fuzzy_transpositions",
        "auto_generate_synonyms_phrase_query",
    ];
    known_query(body, name, &options)?;
    only(body, name, "lenient", &json!(false))?;
    only(body, name, "flags", &json!("ALL"))?;
    let query = text(body.get("query"), "[simple_query_string] needs a [query]")?;
    let mut about = About {
        name,
        fields: fields(body, name)?,
        joined: joined(body, name)?,
        zone: None,
        texts,
        now,
        clauses: 0,
    };
    simple::read(query, &mut about)
}

/// Takes `?q=` as the query of a body, in place of another one.
///
/// # Errors
/// 400 for an option of `q` without it.
pub(crate) fn take_q(body: &mut Map<String, Json>, params: &Params) -> Outcome<()> {
    let others = ["df", "default_operator", "analyze_wildcard", "lenient"];
    params.only("analyzer", &["keyword"], "there are no analyzers")?;
    let Some(q) = params.text("q") else {
        return match others.iter().find(|name| params.text(name).is_some()) {
            Some(name) => Err(Failure::illegal_argument(format!(
                "parameter [{name}] is about [q], which is missing"
            ))),
            None => Ok(()),
        };
    };
    let mut query = Map::from_iter([("query".to_owned(), Json::from(q))]);
    if let Some(field) = params.text("df") {
        query.insert("default_field".into(), field.into());
    }
    if let Some(operator) = params.text("default_operator") {
        query.insert("default_operator".into(), operator.into());
    }
    for name in ["analyze_wildcard", "lenient"] {
        if let Some(flag) = params.flag(name)? {
            query.insert(name.into(), flag.into());
        }
    }
    body.insert("query".into(), json!({"query_string": query}));
    Ok(())
}

/// Refuses an option unless it is absent or has this value.
fn only(body: &Object, name: &str, option: &str, value: &Json) -> Outcome<()> {
    match body.get(option) {
        Some(given) if !given.is_null() && given != value => Err(unsupported(format!(
            "[{option}] of [{name}] must be [{value}], not [{given}]"
        ))),
        _ => Ok(()),
    }
}

/// `default_field` or `fields`. All fields, `*`, are none.
fn fields(body: &Object, name: &str) -> Outcome<Vec<String>> {
    let all = match (body.get("default_field"), body.get("fields")) {
        (Some(_), Some(_)) => {
            return Err(unsupported(format!(
                "[{name}] has [default_field] and [fields]: give one"
            )));
        }
        (Some(Json::String(one)), None) => vec![one.clone()],
        (None, Some(Json::String(one))) => vec![one.clone()],
        (None, Some(Json::Array(names))) => {
            let names = names.iter().map(|one| one.as_str().map(str::to_owned));
            let names = names.collect::<Option<Vec<String>>>();
            names.ok_or_else(|| unsupported(format!("[fields] of [{name}] is a list of names")))?
        }
        (None | Some(Json::Null), None | Some(Json::Null)) => Vec::new(),
        _ => {
            return Err(unsupported(format!(
                "[default_field] of [{name}] is a name, and [fields] a list of names"
            )));
        }
    };
    if all == ["*"] {
        return Ok(Vec::new());
    }
    match all.iter().find(|one| one.contains(['*', '^'])) {
        None => Ok(all),
        Some(one) => Err(unsupported(format!(
            "[{one}] is no field for [{name}]: patterns of fields and boosts are not supported"
        ))),
    }
}

/// `default_operator`.
fn joined(body: &Object, name: &str) -> Outcome<Joined> {
    match body.get("default_operator") {
        None | Some(Json::Null) => Ok(Joined::Or),
        Some(Json::String(one)) if one.eq_ignore_ascii_case("or") => Ok(Joined::Or),
        Some(Json::String(one)) if one.eq_ignore_ascii_case("and") => Ok(Joined::And),
        Some(other) => Err(unsupported(format!(
            "[default_operator] of [{name}] must be [OR] or [AND], not [{other}]"
        ))),
    }
}

#[cfg(test)]
mod tests;
