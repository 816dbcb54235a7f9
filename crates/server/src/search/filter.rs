//! The query DSL of OpenSearch as a [`Filter`]: the part of it that selects documents, without
//! scores.
//!
//! What is unknown or not supported is refused by name: a query of which a part was ignored would
//! give a wrong answer.

use quiredb::ID;
use quiredb::query::{Cast, Field, Filter, Pattern, Value, field};
use serde_json::{Map, Value as Json};
use std::ops::Bound;

use super::dates::DateReading;
use crate::http::failure::{Failure, Outcome};

type Object = Map<String, Json>;

/// Names that OpenSearch has for what is not in a document, and that no query here can be about.
/// `_id` is the key, and can.
const METADATA: [&str; 9] = [
    "_field_names",
    "_ignored",
    "_index",
    "_primary_term",
    "_routing",
    "_seq_no",
    "_source",
    "_type",
    "_version",
];

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

/// The end of a path by which clients name the whole text of a field.
const KEYWORD: &str = ".keyword";

/// A query that can't be answered, and why.
pub(crate) fn unsupported(what: impl Into<String>) -> Failure {
    Failure::new(
        axum::http::StatusCode::BAD_REQUEST,
        "parsing_exception",
        what,
    )
}

/// The texts of `match` clauses that are about fields whose texts might be analyzed. As filters
/// they are about the whole text, which is right where a mapping says that the field is a keyword.
#[derive(Debug, Default)]
pub(crate) struct WholeTexts(Vec<WholeText>);

#[derive(Debug)]
struct WholeText {
    clause: String,
    field: String,
}

impl WholeTexts {
    /// Refuses the first whose field may be analyzed.
    ///
    /// # Errors
    /// 400.
    pub(crate) fn check(&self, is_whole: impl Fn(&str) -> bool) -> Outcome<()> {
        match self.0.iter().find(|text| !is_whole(&text.field)) {
            None => Ok(()),
            Some(WholeText { clause, field }) => Err(unsupported(format!(
                "[{clause}] on [{field}] would analyze its text, and there are no analyzers; use \
                 [term], or [{field}.keyword], for the whole value, or [wildcard] for a part of \
                 it; where the mapping says that [{field}] is a keyword, it is [term]"
            ))),
        }
    }
}

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
            let is_whole = at == ID || whole_text(at).is_some();
            if value.is_string() && !is_whole {
                texts.0.push(WholeText {
                    clause: name.to_owned(),
                    field: at.to_owned(),
                });
            }
            let values = values(at, [value], name)?;
            on(at, |field| field.is_in(values.clone()))
        }
        "wildcard" => {
            let (at, value, ignores_case) = on_field(body, name, &["value", "wildcard"], &[])?;
            let pattern = text(Some(value), "[wildcard] needs a string")?;
            like(at, Pattern::wildcard(pattern), ignores_case)
        }
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
            "query [{other}] is not supported: known are bool, constant_score, exists, ids, match, \
             match_all, match_none, match_phrase, prefix, range, term, terms and wildcard"
        ))),
    }
}

/// `bool`: without scores, `must` is the same as `filter`. `should` selects documents if there is
/// neither `filter` nor `must`, or if `minimum_should_match` says so.
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
    let wanted = match body.get("minimum_should_match") {
        None | Some(Json::Null) => u64::from(all.is_empty()),
        Some(Json::Number(number)) => number.as_u64().unwrap_or(u64::MAX),
        Some(Json::String(number)) => number.parse().unwrap_or(u64::MAX),
        Some(_) => u64::MAX,
    };
    all.extend(of("must_not")?.into_iter().map(|filter| !filter));
    match wanted {
        // They would change nothing but the score.
        0 => {}
        1 if should.is_empty() => {}
        1 => all.push(Filter::Or(should)),
        _ => {
            return Err(unsupported(
                "[minimum_should_match] of [bool] must be 0 or 1",
            ));
        }
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

fn range(body: &Object, now: i64) -> Outcome<Filter> {
    let (path, bounds) = only_field(body, "range")?;
    let bounds = object(bounds, "range")?;
    // The last four are how clients of older versions say it.
    let ends = ["gt", "gte", "lt", "lte"];
    let older = ["from", "to", "include_lower", "include_upper"];
    let hows = ["format", "time_zone", "relation"];
    known_query(bounds, "range", &[&ends[..], &older, &hows].concat())?;
    check_relation(bounds)?;
    let bound = |name: &str| match bounds.get(name) {
        None | Some(Json::Null) => Ok(None),
        Some(value) => scalar(value, "range").map(Some),
    };
    let older = |name: &str, inclusive: &str| -> Outcome<Option<Bound<Value>>> {
        let inclusive = match bounds.get(inclusive) {
            None => true,
            Some(Json::Bool(inclusive)) => *inclusive,
            Some(_) => return Err(unsupported(format!("[{inclusive}] must be a boolean"))),
        };
        let make = match inclusive {
            true => Bound::Included,
            false => Bound::Excluded,
        };
        Ok(bound(name)?.map(make))
    };
    let lower = [
        bound("gt")?.map(Bound::Excluded),
        bound("gte")?.map(Bound::Included),
        older("from", "include_lower")?,
    ];
    let upper = [
        bound("lt")?.map(Bound::Excluded),
        bound("lte")?.map(Bound::Included),
        older("to", "include_upper")?,
    ];
    let one = |bounds: [Option<Bound<Value>>; 3], names: &str| {
        let mut bounds = bounds.into_iter().flatten();
        match (bounds.next(), bounds.next()) {
            (_, Some(_)) => Err(unsupported(format!(
                "[range] of [{path}] has more than one of {names}"
            ))),
            (bound, None) => Ok(bound.unwrap_or(Bound::Unbounded)),
        }
    };
    let lower = one(lower, "[gt], [gte] and [from]")?;
    let upper = one(upper, "[lt], [lte] and [to]")?;
    match dates(bounds, &lower, &upper, now)? {
        Some((lower, upper)) => either(path, |path| {
            Filter::Cast(Cast::Date, path.into(), lower.clone(), upper.clone())
        }),
        None => either(path, |path| {
            Filter::Range(path.into(), lower.clone(), upper.clone())
        }),
    }
}

/// `relation` is about fields whose values are ranges: a value that is in a range fulfils all of
/// them but one.
fn check_relation(bounds: &Object) -> Outcome<()> {
    let relation = match bounds.get("relation") {
        None | Some(Json::Null) => return Ok(()),
        Some(relation) => relation.as_str().unwrap_or_default().to_ascii_lowercase(),
    };
    match relation.as_str() {
        "intersects" | "within" | "contains" => Ok(()),
        other => Err(unsupported(format!(
            "[relation] of [range] is [intersects], [within] or [contains], not [{other}]"
        ))),
    }
}

/// The bounds of a range in milliseconds since 1970, where it says how its dates are to be read.
/// Those that are milliseconds already stay numbers, of which the field may be.
fn dates(
    bounds: &Object,
    lower: &Bound<Value>,
    upper: &Bound<Value>,
    now: i64,
) -> Outcome<Option<(Bound<Value>, Bound<Value>)>> {
    let how = |name: &str| match bounds.get(name) {
        None | Some(Json::Null) => Ok(None),
        Some(value) => text(Some(value), &format!("[{name}] of [range] is text")).map(Some),
    };
    let (format, zone) = (how("format")?, how("time_zone")?);
    if format.is_none() && zone.is_none() {
        return Ok(None);
    }
    let reading = DateReading::of(format, zone, now);
    let reading = reading.map_err(|what| unsupported(format!("[range]: {what}")))?;
    let is_number = |bound: &Bound<Value>| match bound {
        Bound::Included(value) | Bound::Excluded(value) => value.as_f64().is_some(),
        Bound::Unbounded => true,
    };
    if reading.takes_millis() && is_number(lower) && is_number(upper) {
        return Ok(None);
    }
    let read = |bound: &Bound<Value>, is_lower: bool| -> Outcome<Bound<Value>> {
        let (value, is_included) = match bound {
            Bound::Unbounded => return Ok(Bound::Unbounded),
            Bound::Included(value) => (value, true),
            Bound::Excluded(value) => (value, false),
        };
        let said = value.as_str().map_or_else(|| value.to_string(), Into::into);
        let (first, last) = reading.ends(&said).ok_or_else(|| {
            let format = format.unwrap_or("strict_date_optional_time||epoch_millis");
            unsupported(format!(
                "failed to parse date field [{said}] with format [{format}]"
            ))
        })?;
        let at = Value::from(if is_lower == is_included { first } else { last });
        Ok(match is_included {
            true => Bound::Included(at),
            false => Bound::Excluded(at),
        })
    };
    Ok(Some((read(lower, true)?, read(upper, false)?)))
}

/// A filter about the field that a query names.
fn on(at: &str, make: impl Fn(Field) -> Filter) -> Outcome<Filter> {
    either(at, |path| make(field(path)))
}

/// A filter about the field at a path. `x.keyword` is `x`, as clients of OpenSearch name the whole
/// of a text, or a field of that name in the object `x`.
fn either(at: &str, make: impl Fn(&str) -> Filter) -> Outcome<Filter> {
    check_field(at)?;
    Ok(match whole_text(at) {
        Some(whole) => make(whole).or(make(at)),
        None => make(at),
    })
}

/// `x` of `x.keyword`.
pub(crate) fn whole_text(path: &str) -> Option<&str> {
    path.strip_suffix(KEYWORD).filter(|whole| !whole.is_empty())
}

/// Refuses a field that is not in documents: a query about it would find nothing, or the wrong
/// documents.
pub(crate) fn check_field(path: &str) -> Outcome<()> {
    match METADATA.contains(&path) {
        true => Err(unsupported(format!(
            "field [{path}] can't be queried, sorted or aggregated: collections are named in the \
             path, and documents by [_id]"
        ))),
        false => Ok(()),
    }
}

/// `{FIELD: VALUE}` or `{FIELD: {"value": VALUE}}`, by whichever name of `members`, beside which
/// `others` may be; and whether letters are equal in both cases.
fn on_field<'a>(
    body: &'a Json,
    name: &str,
    members: &[&str],
    others: &[&str],
) -> Outcome<(&'a str, &'a Json, bool)> {
    let (at, value) = only_field(object(body, name)?, name)?;
    let Json::Object(options) = value else {
        return Ok((at, value, false));
    };
    known_query(
        options,
        name,
        &[members, others, &["case_insensitive"]].concat(),
    )?;
    let ignores_case = match options.get("case_insensitive") {
        None | Some(Json::Null) => false,
        Some(value) => value.as_bool().ok_or_else(|| {
            unsupported(format!(
                "[case_insensitive] of [{name}] is [true] or [false]"
            ))
        })?,
    };
    let value = members.iter().find_map(|member| options.get(*member));
    let first = members.first().copied().unwrap_or_default();
    let value =
        value.ok_or_else(|| unsupported(format!("[{name}] of [{at}] needs a [{first}]")))?;
    Ok((at, value, ignores_case))
}

/// A filter of the strings that a pattern matches.
fn like(at: &str, pattern: quiredb::query::Result<Pattern>, ignores_case: bool) -> Outcome<Filter> {
    let pattern = pattern.map_err(|error| unsupported(error.to_string()))?;
    let pattern = match ignores_case {
        true => pattern.ignoring_case(),
        false => pattern,
    };
    on(at, |field| field.is_like(pattern.clone()))
}

/// The values that a field may equal. An id is text, also where the document has it as a number.
fn values<'a>(
    at: &str,
    values: impl IntoIterator<Item = &'a Json>,
    name: &str,
) -> Outcome<Vec<Value>> {
    let mut all = Vec::new();
    for value in values {
        all.push(scalar(value, name)?);
        if at == ID
            && let Some(text) = value.as_str()
            && let Ok(number) = text.parse::<i64>()
        {
            all.push(Value::from(number));
        }
    }
    Ok(all)
}

/// A value to compare with.
pub(crate) fn scalar(value: &Json, name: &str) -> Outcome<Value> {
    match value {
        Json::Bool(value) => Ok(Value::from(*value)),
        Json::String(text) => Ok(Value::from(text.as_str())),
        Json::Number(number) => {
            let whole = number.as_i64().map(Value::from);
            let whole = whole.or_else(|| number.as_u64().map(Value::from));
            let value = whole.or_else(|| number.as_f64().map(Value::from));
            value.ok_or_else(|| unsupported(format!("[{name}]: [{number}] is out of range")))
        }
        Json::Null => Err(unsupported(format!(
            "[{name}] can't be null: to find documents without the field, use [must_not] with \
             [exists]"
        ))),
        Json::Array(_) | Json::Object(_) => Err(unsupported(format!(
            "[{name}] needs a string, a number or a boolean, not [{value}]"
        ))),
    }
}

/// The value as an object.
pub(crate) fn object<'a>(value: &'a Json, name: &str) -> Outcome<&'a Object> {
    value
        .as_object()
        .ok_or_else(|| unsupported(format!("[{name}] must be an object")))
}

/// The only member of an object.
pub(crate) fn only_entry<'a>(object: &'a Object, name: &str) -> Outcome<(&'a str, &'a Json)> {
    let mut members = object.iter();
    match (members.next(), members.next()) {
        (Some((only, value)), None) => Ok((only, value)),
        (Some(_), Some((second, _))) => Err(unsupported(format!(
            "[{name}] must have one member: [{second}] is not supported beside another"
        ))),
        (None, _) => Err(unsupported(format!("[{name}] is empty"))),
    }
}

/// The only member of a query that is a field: a `boost` may be beside it.
fn only_field<'a>(body: &'a Object, name: &str) -> Outcome<(&'a str, &'a Json)> {
    check_boost(body, name)?;
    let mut members = body.iter().filter(|(member, _)| *member != "boost");
    match (members.next(), members.next()) {
        (Some((only, value)), None) => Ok((only, value)),
        (Some(_), Some((second, _))) => Err(unsupported(format!(
            "[{name}] must have one member: [{second}] is not supported beside another"
        ))),
        (None, _) => Err(unsupported(format!("[{name}] is empty"))),
    }
}

/// Refuses members of a query that are not in `names`, nor a `boost` that changes nothing.
fn known_query(body: &Object, name: &str, names: &[&str]) -> Outcome<()> {
    check_boost(body, name)?;
    known(body, name, &[names, &["boost"]].concat())
}

/// Refuses a boost other than 1: nothing is scored.
fn check_boost(body: &Object, name: &str) -> Outcome<()> {
    match body.get("boost") {
        Some(boost) if boost.as_f64() != Some(1.0) && !boost.is_object() => Err(unsupported(
            format!("[boost] of [{name}] must be 1: nothing is scored"),
        )),
        _ => Ok(()),
    }
}

/// Refuses members that are not in `names`.
pub(crate) fn known(object: &Object, name: &str, names: &[&str]) -> Outcome<()> {
    match object.keys().find(|key| !names.contains(&key.as_str())) {
        Some(key) => Err(unsupported(format!("[{name}] does not support [{key}]"))),
        None => Ok(()),
    }
}

/// The value as a string.
pub(crate) fn text<'a>(value: Option<&'a Json>, what: &str) -> Outcome<&'a str> {
    value
        .and_then(Json::as_str)
        .ok_or_else(|| unsupported(what))
}
