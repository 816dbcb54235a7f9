//! What the clauses of a query are made of: fields, values and patterns.

use quiredb::ID;
use quiredb::query::{Field, Filter, Pattern, Value, field};
use serde_json::{Map, Value as Json};

use crate::http::failure::{Failure, Outcome};

pub(super) type Object = Map<String, Json>;

/// The field in which queries see the name of a document's collection.
pub(crate) const INDEX: &str = "_index";

/// Names that OpenSearch has for what is not in a document, and that no query here can be about.
/// `_id` is the key, and can; so can [`INDEX`].
const METADATA: [&str; 12] = [
    "_doc",
    "_field_names",
    "_ignored",
    "_nested_path",
    "_primary_term",
    "_routing",
    "_score",
    "_seq_no",
    "_shard_doc",
    "_source",
    "_type",
    "_version",
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

/// The bytes of the clauses of a query, written as text, that combinations of them may take.
const COMBINED_BYTES_MAX: usize = 512 << 10;

/// The texts of `match` clauses that are about fields whose texts might be analyzed. As filters
/// they are about the whole text, which is right where a mapping says that the field is a keyword.
#[derive(Debug, Default)]
pub(crate) struct WholeTexts {
    texts: Vec<WholeText>,
    /// What combinations of the query's clauses take so far.
    combined_bytes: usize,
}

#[derive(Debug)]
struct WholeText {
    clause: String,
    field: String,
}

impl WholeTexts {
    /// Adds a text of a clause about a field, unless it is whole by what it is.
    pub(super) fn add(&mut self, clause: &str, at: &str) {
        if at != ID && at != INDEX && whole_text(at).is_none() {
            self.texts.push(WholeText {
                clause: clause.to_owned(),
                field: at.to_owned(),
            });
        }
    }

    /// Adds those of another part of a request.
    pub(crate) fn extend(&mut self, other: WholeTexts) {
        self.texts.extend(other.texts);
    }

    /// Counts clauses that are written out in combinations. They may have combinations within, so
    /// that a short query would be a long filter.
    ///
    /// # Errors
    /// 400 if all of the query take more than [`COMBINED_BYTES_MAX`].
    pub(super) fn combine(&mut self, bytes: usize) -> Outcome<()> {
        self.combined_bytes = self.combined_bytes.saturating_add(bytes);
        match self.combined_bytes > COMBINED_BYTES_MAX {
            true => Err(unsupported(
                "[minimum_should_match] of [bool] takes too many combinations of long clauses; use \
                 fewer clauses, shorter ones, or 1",
            )),
            false => Ok(()),
        }
    }

    /// Refuses the first whose field may be analyzed.
    ///
    /// # Errors
    /// 400.
    pub(crate) fn check(&self, is_whole: impl Fn(&str) -> bool) -> Outcome<()> {
        match self.texts.iter().find(|text| !is_whole(&text.field)) {
            None => Ok(()),
            Some(WholeText { clause, field }) => Err(unsupported(format!(
                "[{clause}] on [{field}] would analyze its text, and there are no analyzers; use \
                 [term], or [{field}.keyword], for the whole value, or [wildcard] for a part of \
                 it; where the mapping says that [{field}] is a keyword, it is [term]"
            ))),
        }
    }
}

/// `{FIELD: VALUE}` or `{FIELD: {"value": VALUE}}`, by whichever name of `members`, beside which
/// `others` may be; and whether letters are equal in both cases.
pub(super) fn on_field<'a>(
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

/// A filter about the field that a query names.
pub(super) fn on(at: &str, make: impl Fn(Field) -> Filter) -> Outcome<Filter> {
    either(at, |path| make(field(path)))
}

/// A filter about the field at a path. `x.keyword` is `x`, as clients of OpenSearch name the whole
/// of a text, or a field of that name in the object `x`.
pub(super) fn either(at: &str, make: impl Fn(&str) -> Filter) -> Outcome<Filter> {
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
            "field [{path}] can't be queried, sorted or aggregated: documents are named by [_id], \
             and their collections by [_index]"
        ))),
        false => Ok(()),
    }
}

/// A filter of the strings that a pattern matches.
pub(super) fn like(
    at: &str,
    pattern: quiredb::query::Result<Pattern>,
    ignores_case: bool,
) -> Outcome<Filter> {
    let pattern = pattern.map_err(|error| unsupported(error.to_string()))?;
    let pattern = match ignores_case {
        true => pattern.ignoring_case(),
        false => pattern,
    };
    on(at, |field| field.is_like(pattern.clone()))
}

/// Refuses a field that no document has itself, for what shows fields of documents.
pub(crate) fn check_own_field(path: &str) -> Outcome<()> {
    check_field(path)?;
    match path == INDEX {
        true => Err(unsupported(format!(
            "field [{path}] is shown in each hit, and can only be queried, sorted and aggregated"
        ))),
        false => Ok(()),
    }
}

/// The values that a field may equal. An id is text, also where the document has it as a number.
pub(super) fn values<'a>(
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

/// A whole number, or a text of its digits, as OpenSearch takes it too.
pub(crate) fn whole_number(value: &Json) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
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
pub(super) fn only_field<'a>(body: &'a Object, name: &str) -> Outcome<(&'a str, &'a Json)> {
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
pub(super) fn known_query(body: &Object, name: &str, names: &[&str]) -> Outcome<()> {
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
