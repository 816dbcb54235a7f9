//! A search or a count, from its body and its parameters.

use std::time::Duration;

use quiredb::query::{Query, find, find_all};
use serde_json::{Map, Value as Json};

use super::aggregations::{Aggregation, aggregations};
use super::execute::Limits;
use super::filter::{filter, known, object, unsupported};
use super::sort::{orders, orders_of_text};
use crate::documents::source::{Source, SourceBody};
use crate::http::failure::{Failure, Outcome};
use crate::http::params::Params;

/// Hits in an answer by default, as in OpenSearch.
const SIZE_DEFAULT: u64 = 10;

/// A search.
#[derive(Debug)]
pub(crate) struct Request {
    /// Which documents, in which order, and the aggregates, named as in `aggregations`.
    pub(crate) query: Query,
    pub(crate) aggregations: Vec<Aggregation>,
    /// Which part of a hit's document is shown.
    pub(crate) source: Source,
    pub(crate) limits: Limits,
}

impl Request {
    /// Reads a search. A parameter overrides the body's member of the same name.
    pub(crate) fn search(body: &[u8], params: &Params) -> Outcome<Request> {
        let body = parse(body)?;
        known(
            &body,
            "search",
            &[
                "query",
                "from",
                "size",
                "sort",
                "_source",
                "track_total_hits",
                "timeout",
                "aggs",
                "aggregations",
            ],
        )?;
        for (name, allowed) in [
            ("search_type", &["query_then_fetch"][..]),
            ("typed_keys", &["false"]),
            ("rest_total_hits_as_int", &["false"]),
        ] {
            params.only(name, allowed, "it is not supported")?;
        }
        let mut query = query_of(&body)?;
        query.order = match (params.text("sort"), body.get("sort")) {
            (Some(sort), _) => orders_of_text(sort)?,
            (None, Some(sort)) => orders(sort)?,
            (None, None) => Vec::new(),
        };
        query.skip = number(&body, params, "from", 0)?;
        query.limit = Some(number(&body, params, "size", SIZE_DEFAULT)?);
        query.count = is_total_tracked(&body, params)?;
        let aggs = match (body.get("aggs"), body.get("aggregations")) {
            (Some(_), Some(_)) => {
                return Err(unsupported(
                    "[aggs] and [aggregations] are the same: give one",
                ));
            }
            (aggs, aggregations) => aggs.or(aggregations),
        };
        let aggregations = aggs.map(aggregations).transpose()?.unwrap_or_default();
        for Aggregation {
            name, aggregate, ..
        } in &aggregations
        {
            query = query.aggregate(name, aggregate.clone());
        }
        let is_in_params = ["_source", "_source_includes", "_source_excludes"];
        let is_in_params = is_in_params.iter().any(|name| params.text(name).is_some());
        let source = match body.get("_source") {
            Some(source) if !is_in_params => serde_json::from_value::<SourceBody>(source.clone())
                .map_err(|_| {
                    unsupported(
                        "[_source] must be a boolean, patterns, or [includes] and [excludes]",
                    )
                })?
                .source()?,
            _ => Source::of(params)?,
        };
        Ok(Request {
            query,
            aggregations,
            source,
            limits: limits(&body, params)?,
        })
    }

    /// The query of a count: all documents that it matches.
    pub(crate) fn count(body: &[u8]) -> Outcome<Query> {
        let body = parse(body)?;
        known(&body, "count", &["query"])?;
        Ok(query_of(&body)?.limit(0).with_count())
    }
}

/// A body, which may be absent.
fn parse(body: &[u8]) -> Outcome<Map<String, Json>> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Map::new());
    }
    let body: Json =
        serde_json::from_slice(body).map_err(|error| Failure::parse(error.to_string()))?;
    object(&body, "body").cloned()
}

fn query_of(body: &Map<String, Json>) -> Outcome<Query> {
    match body.get("query") {
        Some(query) => Ok(find(filter(query)?)),
        None => Ok(find_all()),
    }
}

/// `timeout` and `allow_partial_search_results`, which is false by default.
fn limits(body: &Map<String, Json>, params: &Params) -> Outcome<Limits> {
    let given = match (params.text("timeout"), body.get("timeout")) {
        (Some(text), _) => Some(text.to_owned()),
        (None, Some(Json::String(text))) => Some(text.clone()),
        (None, Some(_)) => return Err(unsupported("[timeout] must be a time such as \"500ms\"")),
        (None, None) => None,
    };
    let timeout = match given.as_deref() {
        None | Some("-1") => None,
        Some(text) => Some(time(text).ok_or_else(|| {
            unsupported(format!(
                "[timeout] can't be [{text}]: use ms, s or m, as in 500ms"
            ))
        })?),
    };
    let partial = params.flag("allow_partial_search_results")?;
    Ok(Limits {
        timeout,
        partial: partial.unwrap_or(false),
    })
}

fn time(text: &str) -> Option<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let number: u64 = number.parse().ok()?;
    match unit {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => number.checked_mul(60).map(Duration::from_secs),
        _ => None,
    }
}

fn number(body: &Map<String, Json>, params: &Params, name: &str, default: u64) -> Outcome<u64> {
    if let Some(number) = params.number(name)? {
        return Ok(number);
    }
    match body.get(name) {
        None => Ok(default),
        Some(number) => number
            .as_u64()
            .ok_or_else(|| unsupported(format!("[{name}] must be a whole number from 0 on"))),
    }
}

/// Whether the total is counted. A number, up to which OpenSearch counts, means that it is: the
/// total is always exact.
fn is_total_tracked(body: &Map<String, Json>, params: &Params) -> Outcome<bool> {
    let given = match params.text("track_total_hits") {
        Some(text) => Some(serde_json::from_str(text).unwrap_or(Json::Null)),
        None => body.get("track_total_hits").cloned(),
    };
    match given {
        None => Ok(true),
        Some(Json::Bool(tracked)) => Ok(tracked),
        Some(Json::Number(number)) if number.is_u64() => Ok(true),
        Some(_) => Err(unsupported(
            "[track_total_hits] must be a boolean or a number",
        )),
    }
}
