//! What a search or a count asks, from its body and its parameters.

use quiredb::query::{Query, find, find_all};
use serde_json::{Map, Value as Json};

use super::aggregations::{Aggregation, aggregations};
use super::filter::{filter, known, object, unsupported};
use super::sort::{orders, orders_of_text};
use crate::documents::one::{Source, SourceBody};
use crate::http::failure::{Failure, Outcome};
use crate::http::params::Params;

/// Hits that are given if none are asked for by number, as in OpenSearch.
const SIZE_DEFAULT: u64 = 10;

/// A search.
#[derive(Debug)]
pub(crate) struct Request {
    /// Which documents, in which order, and what is said about them; what is said has the names of
    /// `aggregations`.
    pub(crate) query: Query,
    pub(crate) aggregations: Vec<Aggregation>,
    /// What is shown of a hit.
    pub(crate) source: Source,
}

impl Request {
    /// Reads a search. A parameter counts more than the body's member of its name.
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
                "aggs",
                "aggregations",
            ],
        )?;
        for (name, harmless) in [
            ("search_type", &["query_then_fetch"][..]),
            ("typed_keys", &["false"]),
            ("rest_total_hits_as_int", &["false"]),
        ] {
            params.only(name, harmless, "it is not supported")?;
        }
        let mut query = asked(&body)?;
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
        })
    }

    /// The query of a count: all documents that it matches.
    pub(crate) fn count(body: &[u8]) -> Outcome<Query> {
        let body = parse(body)?;
        known(&body, "count", &["query"])?;
        Ok(asked(&body)?.limit(0).with_count())
    }
}

/// A body, which may be left out.
fn parse(body: &[u8]) -> Outcome<Map<String, Json>> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Map::new());
    }
    let body: Json =
        serde_json::from_slice(body).map_err(|error| Failure::parse(error.to_string()))?;
    object(&body, "body").cloned()
}

fn asked(body: &Map<String, Json>) -> Outcome<Query> {
    match body.get("query") {
        Some(query) => Ok(find(filter(query)?)),
        None => Ok(find_all()),
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

/// Any number of hits that was to be counted up to is as good as all.
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
