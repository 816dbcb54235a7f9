//! The query DSL of OpenSearch as a [`Filter`]: the part of it that selects documents, without
//! scores.
//!
//! What is unknown or not supported is refused by name: a query of which a part was ignored would
//! give a wrong answer.

use quiredb::ID;
use quiredb::query::{Filter, Pattern, field};
use serde_json::Value as Json;

pub(crate) use super::clause::{
    INDEX, WholeTexts, check_field, check_own_field, known, object, only_entry, scalar, text,
    unsupported, whole_number, whole_text,
};
use super::clause::{Object, known_query, like, on, on_field, only_field, values};
use super::pattern;
use super::query_string::{query_string, simple_query_string};
use super::range::range;
use super::should::{at_least, minimum};
use crate::http::failure::Outcome;

/// Options of `match` about texts of several words: none is analyzed, so they change nothing.
const MATCH_OPTIONS: &[&str] = &[
    "auto_generate_synonyms_phrase_query",
    "fuzzy_transpositions",
    "lenient",
    "max_expansions",
    "operator",
    "prefix_length",
    "slop",
    "zero_terms_query",
];

/// Translates a query to a filter, where no mapping is known. `now` is the current time, in
/// milliseconds since 1970 UTC.
pub(crate) fn filter(query: &Json, now: i64) -> Outcome<Filter> {
    let mut texts = WholeTexts::default();
    let filter = filter_with(query, &mut texts, now)?;
    texts.check(|_| false)?;
    Ok(filter)
}

/// Translates a query to a filter, which holds once `texts` are checked. Recursion is as deep as
/// the JSON is nested, which the JSON parser bounds.
pub(crate) fn filter_with(query: &Json, texts: &mut WholeTexts, now: i64) -> Outcome<Filter> {
    let object = object(query, "query")?;
    let (name, body) = only_entry(object, "query")?;
    match name {
        "match_all" => known_query(self::object(body, name)?, name, &[]).map(|()| Filter::All),
        "match_none" => known_query(self::object(body, name)?, name, &[]).map(|()| Filter::none()),
        "bool" => boolean(self::object(body, name)?, texts, now),
        "constant_score" => {
            let body = self::object(body, name)?;
            known_query(body, name, &["filter"])?;
            let inner = body.get("filter");
            let needs = || unsupported("[constant_score] needs a [filter]");
            filter_with(inner.ok_or_else(needs)?, texts, now)
        }
        "term" => {
            let (at, value, ignores_case) = on_field(body, name, &["value"], &[])?;
            if ignores_case && let Some(text) = value.as_str() {
                return like(at, Pattern::exact(text), true);
            }
            let values = values(at, [value], name)?;
            on(at, |field| field.is_in(values.clone()))
        }
        "match" | "match_phrase" => {
            let (at, value, _) = on_field(body, name, &["query"], MATCH_OPTIONS)?;
            if value.is_string() {
                texts.add(name, at);
            }
            let values = values(at, [value], name)?;
            on(at, |field| field.is_in(values.clone()))
        }
        "wildcard" => {
            let (at, value, ignores_case) = on_field(body, name, &["value", "wildcard"], &[])?;
            let pattern = text(Some(value), "[wildcard] needs a string")?;
            like(at, Pattern::wildcard(pattern), ignores_case)
        }
        "regexp" => pattern::regexp(body),
        "fuzzy" => pattern::fuzzy(body),
        "query_string" => query_string(self::object(body, name)?, texts, now),
        "simple_query_string" => simple_query_string(self::object(body, name)?, texts, now),
        "terms" => terms(self::object(body, name)?),
        "range" => range(self::object(body, name)?, now),
        "exists" => {
            let body = self::object(body, name)?;
            known_query(body, name, &["field"])?;
            let at = text(body.get("field"), "[exists] needs a [field]")?;
            on(at, |field| field.exists())
        }
        "prefix" => {
            let (at, value, ignores_case) = on_field(body, name, &["value"], &[])?;
            let prefix = text(Some(value), "[prefix] needs a string")?;
            if ignores_case {
                return like(at, Pattern::prefix(prefix), true);
            }
            on(at, |field| field.starts_with(prefix))
        }
        "ids" => {
            let body = self::object(body, name)?;
            known_query(body, name, &["values"])?;
            let ids = match body.get("values") {
                Some(Json::Array(ids)) => ids.as_slice(),
                Some(one) => std::slice::from_ref(one),
                None => &[],
            };
            Ok(field(ID).is_in(values(ID, ids, name)?))
        }
        other => Err(unsupported(format!(
            "query [{other}] is not supported: known are bool, constant_score, exists, fuzzy, ids, \
             match, match_all, match_none, match_phrase, prefix, query_string, range, regexp, \
             simple_query_string, term, terms and wildcard"
        ))),
    }
}

/// `bool`: without scores, `must` is the same as `filter`. `should` selects documents if there is
/// neither `filter` nor `must`, or if `minimum_should_match` says so: as many as it says.
fn boolean(body: &Object, texts: &mut WholeTexts, now: i64) -> Outcome<Filter> {
    let name = "bool";
    let clauses = ["filter", "must", "must_not", "should"];
    // The Java clients send that the clauses of `must_not` count alone, which they do.
    let others = ["minimum_should_match", "adjust_pure_negative"];
    known_query(body, name, &[&clauses[..], &others].concat())?;
    if body
        .get("adjust_pure_negative")
        .is_some_and(|value| value != true)
    {
        return Err(unsupported("[adjust_pure_negative] of [bool] must be true"));
    }
    let mut of = |clause: &str| -> Outcome<Vec<Filter>> {
        match body.get(clause) {
            None | Some(Json::Null) => Ok(Vec::new()),
            Some(Json::Array(queries)) => {
                let filters = queries.iter().map(|query| filter_with(query, texts, now));
                filters.collect()
            }
            Some(query) => Ok(vec![filter_with(query, texts, now)?]),
        }
    };
    let (mut all, should) = ([of("filter")?, of("must")?].concat(), of("should")?);
    let must_not = of("must_not")?;
    // Without a clause that is required, one of them must match, whatever is said.
    let least = u64::from(all.is_empty());
    let wanted = match body.get("minimum_should_match") {
        None | Some(Json::Null) => least,
        Some(said) => minimum(said, should.len())?.max(least),
    };
    all.extend(must_not.into_iter().map(|filter| !filter));
    // Where there are none, nothing is wanted of them.
    if wanted > 0 && !should.is_empty() {
        all.push(at_least(wanted, should, texts)?);
    }
    Ok(Filter::And(all))
}

fn terms(body: &Object) -> Outcome<Filter> {
    let (at, values) = only_field(body, "terms")?;
    let Json::Array(values) = values else {
        return Err(unsupported(format!(
            "[terms] of [{at}] must be a list of values; they are looked up in a document only by \
             the query of a search or a count"
        )));
    };
    let values = self::values(at, values, "terms")?;
    on(at, |field| field.is_in(values.clone()))
}
