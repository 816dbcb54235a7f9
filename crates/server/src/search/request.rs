//! A search or a count, from its body and its parameters.

use quiredb::ID;
use quiredb::query::{Filter, Query, field, find, find_all};
use serde_json::{Map, Value as Json, json};
use std::sync::Arc;
use std::time::Duration;

use super::aggregations::{Aggregation, Reading, adapt, aggregations};
use super::collapse::Collapse;
use super::execute::{Limits, SEARCH_BYTES_MAX};
use super::filter::{WholeTexts, filter_with, known, object, text, unsupported, whole_number};
use super::lease::lease;
use super::limit::limit_to;
use super::point_id::PointKind;
use super::shown_fields::ShownFields;
use super::sort::{SortShown, ends_in_shard_doc, orders_of_text, shown_orders};
use crate::collections::coerce::Mappings;
use crate::documents::source::{Source, SourceBody};
use crate::http::failure::{Failure, Outcome};
use crate::http::params::Params;
use crate::http::unique;
use crate::tasks::registry::Running;

/// Hits in an answer by default, as in OpenSearch.
const SIZE_DEFAULT: u64 = 10;

/// The most slices of a scroll, as in OpenSearch.
const SLICES_MAX: u32 = 1_024;

/// Members of a body that change nothing here, with the values that they may have then.
const WITHOUT_EFFECT: [(&str, &[&str]); 6] = [
    ("explain", &["false"]),
    ("indices_boost", &["[]"]),
    ("profile", &["false"]),
    ("script_fields", &["{}"]),
    ("terminate_after", &["0"]),
    ("track_scores", &["false"]),
];

/// A search.
#[derive(Debug)]
pub(crate) struct Request {
    /// Which documents, in which order, and the facets of the aggregations.
    pub(crate) query: Query,
    /// What hits match beside the query, and what the total counts: aggregations are of all that
    /// the query matches.
    pub(crate) post_filter: Option<Filter>,
    /// What of the query holds only with some mappings.
    pub(crate) texts: WholeTexts,
    /// The documents that it is limited to, whatever it is about.
    pub(crate) visible: Filter,
    /// Those of the collections that it was adapted to.
    pub(crate) mappings: Mappings,
    /// The aggregations as they were given.
    aggs: Option<Json>,
    pub(crate) aggregations: Vec<Aggregation>,
    /// Whether they have dates that are to be read by the formats of a mapping.
    has_unread_dates: bool,
    /// Which part of a hit's document is shown.
    pub(crate) source: Source,
    /// Which values are shown beside it.
    pub(crate) fields: Arc<ShownFields>,
    /// The field whose values are shown once each.
    pub(crate) collapse: Option<Collapse>,
    /// Whether hits have their ids.
    pub(crate) with_id: bool,
    pub(crate) limits: Limits,
    /// The place in the order after which the page begins.
    pub(crate) search_after: Option<Vec<Json>>,
    /// How hits show what they are sorted by.
    pub(crate) sort_shown: Arc<SortShown>,
    /// Whether the last order is `_shard_doc`: by key, and documents of one key by collection.
    pub(crate) by_place: bool,
    /// The point in time that is searched, and its new lease.
    pub(crate) point: Option<(String, Option<Duration>)>,
    /// The lease of a scroll, if the search begins one.
    pub(crate) scroll: Option<Duration>,
    /// Whether the names of aggregations in the answer have their kinds.
    pub(crate) typed_keys: bool,
    /// Whether the total in the answer is a number, and no object.
    pub(crate) total_as_int: bool,
    /// Whether hits have their versions.
    pub(crate) with_version: bool,
    pub(crate) with_seq_no: bool,
    /// The groups that it is counted in.
    pub(crate) groups: Vec<String>,
    /// Where it is noted how the search was executed, if it is.
    pub(crate) noted: Option<Arc<Running>>,
}

impl Request {
    /// Reads a search. A parameter overrides the body's member of the same name.
    /// `now` is the time, in milliseconds since 1970 UTC.
    pub(crate) fn search(body: Map<String, Json>, params: &Params, now: i64) -> Outcome<Request> {
        let members = [
            "query",
            "from",
            "size",
            "sort",
            "_source",
            "track_total_hits",
            "aggs",
            "aggregations",
            "search_after",
            "collapse",
            "docvalue_fields",
            "fields",
            "pit",
            "post_filter",
            "stored_fields",
            "seq_no_primary_term",
            "quire",
            "slice",
            "stats",
            "timeout",
            "version",
        ];
        let others = WITHOUT_EFFECT.map(|(name, _)| name);
        known(&body, "search", &[&members[..], &others].concat())?;
        for (name, allowed) in WITHOUT_EFFECT {
            if let Some(value) = body.get(name)
                && !value.is_null()
                && !allowed.contains(&value.to_string().as_str())
            {
                return Err(unsupported(format!("[{name}] is not supported: [{value}]")));
            }
        }
        params.only("search_type", &["query_then_fetch"], "it is not supported")?;
        params.only("stored_fields", &["", "_none_"], "no field is stored apart")?;
        params.flag("ccs_minimize_roundtrips")?;
        // Answers of partitions are put together in one piece, whatever the size is.
        if params
            .number::<u64>("batched_reduce_size")?
            .is_some_and(|size| size < 2)
        {
            return Err(Failure::illegal_argument("batchedReduceSize must be >= 2"));
        }
        let (mut query, mut texts) = query_of(&body, now)?;
        let post_filter = body.get("post_filter").filter(|filter| !filter.is_null());
        let post_filter = post_filter.map(|filter| filter_with(filter, &mut texts, now));
        let post_filter = post_filter.transpose()?;
        let is_sliced = limit_to_slice(&mut query, &body)?;
        let point = point(&body)?;
        let search_after = search_after(&body)?;
        let scroll = params.text("scroll").map(lease).transpose()?;
        if is_sliced && scroll.is_none() && point.is_none() {
            return Err(Failure::validation(
                "[slice] can only be used with [scroll] or [point-in-time] requests",
            ));
        }
        let ties = point.is_some() || search_after.is_some();
        let (orders, sort_shown) = match (params.text("sort"), body.get("sort")) {
            (Some(sort), _) => orders_of_text(sort, ties)?,
            (None, None | Some(Json::Null)) => (Vec::new(), SortShown::default()),
            (None, Some(sort)) => shown_orders(sort, ties)?,
        };
        query.order = orders;
        let search_after = search_after.map(|values| sort_shown.without_scores(values));
        let search_after = search_after.transpose()?;
        let mut by_place = ends_in_shard_doc(body.get("sort"), params.text("sort"));
        let kind = point.as_ref().map(|(id, _)| PointKind::of(id));
        if kind == Some(PointKind::Elasticsearch) && !by_place && !query.order.is_empty() {
            query.order.push(field(ID).ascending());
            by_place = true;
        }
        query.skip = number(&body, params, "from", 0)?;
        if query.skip > 0 && (scroll.is_some() || search_after.is_some()) {
            return Err(Failure::validation(
                "`from` parameter must be set to 0 when `search_after` or a scroll is used",
            ));
        }
        query.limit = Some(number(&body, params, "size", SIZE_DEFAULT)?);
        // A scroll of no hits is refused where it begins.
        let is_cached = params.flag("request_cache")? == Some(true);
        if scroll.is_some() && is_cached && query.limit != Some(0) {
            return Err(Failure::validation(
                "[request_cache] cannot be used in a scroll context",
            ));
        }
        query.count = is_total_tracked(&body, params)?;
        let aggs = match (body.get("aggs"), body.get("aggregations")) {
            (Some(_), Some(_)) => {
                return Err(unsupported(
                    "[aggs] and [aggregations] are the same: give one",
                ));
            }
            (aggs, aggregations) => aggs.or(aggregations),
        };
        let reading = Reading::new(now, None);
        let aggregations = aggs.map(|aggs| aggregations(aggs, &reading));
        let aggregations = match aggregations.transpose() {
            Err(_) if reading.is_early() => Vec::new(),
            aggregations => aggregations?.unwrap_or_default(),
        };
        let has_unread_dates = reading.is_early();
        texts.extend(reading.into_texts());
        let aggs = aggs.cloned();
        query.facets = Aggregation::facets(&aggregations);
        let is_in_params = ["_source", "_source_includes", "_source_excludes"];
        let is_in_params = is_in_params.iter().any(|name| params.text(name).is_some());
        let source = match body.get("_source") {
            Some(source) if !is_in_params && !source.is_null() => serde_json::from_value::<
                SourceBody,
            >(source.clone())
            .map_err(|_| {
                unsupported("[_source] must be a boolean, patterns, or [includes] and [excludes]")
            })?
            .source()?,
            _ => Source::of(params)?,
        };
        let names_source = is_in_params || body.get("_source").is_some_and(|it| !it.is_null());
        let collapse = Collapse::of(&body)?;
        if collapse.is_some() && (scroll.is_some() || search_after.is_some()) {
            return Err(Failure::validation(
                "cannot use `collapse` in a scroll context, nor with `search_after`",
            ));
        }
        let mut fields = ShownFields::of(&body)?;
        if let Some(collapse) = &collapse {
            fields.add(&collapse.name);
        }
        let (hides_source, with_id) = stored_fields(&body, params, names_source)?;
        let source = if hides_source { Source::none() } else { source };
        Ok(Request {
            query,
            post_filter,
            texts,
            visible: Filter::All,
            mappings: Mappings::default(),
            aggs,
            aggregations,
            has_unread_dates,
            source,
            fields: Arc::new(fields),
            collapse,
            with_id,
            limits: limits(&body, params)?,
            search_after,
            sort_shown: Arc::new(sort_shown),
            by_place,
            point,
            scroll,
            typed_keys: params.flag("typed_keys")?.unwrap_or(false),
            total_as_int: params.flag("rest_total_hits_as_int")?.unwrap_or(false),
            with_version: switch(&body, params, "version")?,
            with_seq_no: switch(&body, params, "seq_no_primary_term")?,
            groups: groups(&body)?,
            noted: None,
        })
    }

    /// Limits the search to the documents that match `filter` too, and adapts it to the mappings of
    /// its collections.
    ///
    /// # Errors
    /// As those of [`limit_to`], and 400 for an aggregation of a field that can't have it.
    pub(crate) fn limit_to(&mut self, filter: Filter, mappings: &Mappings) -> Outcome<()> {
        let (skip, limit) = (self.query.skip, self.query.limit.unwrap_or_default());
        let is_scroll = self.scroll.is_some();
        mappings.limits().check_page(skip, limit, is_scroll)?;
        if !self.fields.is_empty()
            && let Some(fields) = Arc::get_mut(&mut self.fields)
        {
            fields.adapt(mappings)?;
        }
        if let Some(collapse) = &mut self.collapse {
            collapse.adapt(mappings)?;
        }
        self.visible = mappings.convert(filter.clone())?;
        limit_to(&mut self.query, &self.texts, filter, mappings)?;
        let post_filter = self.post_filter.take();
        self.post_filter = post_filter.map(|it| mappings.convert(it)).transpose()?;
        if let Some(aggs) = &self.aggs
            && (self.has_unread_dates || mappings.has_formats())
        {
            let reading = Reading::new(mappings.now(), Some(mappings));
            self.aggregations = aggregations(aggs, &reading)?;
            let texts = reading.into_texts();
            texts.check(|field| mappings.is_whole(field))?;
        }
        adapt(&mut self.aggregations, mappings)?;
        self.mappings = mappings.clone();
        self.query.facets = Aggregation::facets(&self.aggregations);
        Ok(())
    }

    /// The query of a count: all documents that it matches.
    pub(crate) fn count(body: &Map<String, Json>, now: i64) -> Outcome<(Query, WholeTexts)> {
        known(body, "count", &["query"])?;
        let (query, texts) = query_of(body, now)?;
        Ok((query.limit(0).with_count(), texts))
    }
}

/// A body, which may be absent.
pub(crate) fn parse(body: &[u8]) -> Outcome<Map<String, Json>> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Map::new());
    }
    match unique::from_slice(body) {
        Ok(Json::Object(body)) => Ok(body),
        Ok(other) => object(&other, "body").cloned(),
        Err(error) => Err(Failure::parse(error.to_string())),
    }
}

/// The query of a body, which holds once the texts are checked against the mappings.
pub(crate) fn query_of(body: &Map<String, Json>, now: i64) -> Outcome<(Query, WholeTexts)> {
    let mut texts = WholeTexts::default();
    let query = match body.get("query") {
        None | Some(Json::Null) => find_all(),
        Some(query) => find(filter_with(query, &mut texts, now)?),
    };
    Ok((query, texts))
}

/// Limits a query to one slice of the documents, by their keys, if the body has a `slice`. All
/// slices together are all documents, and each document is in one.
pub(crate) fn limit_to_slice(query: &mut Query, body: &Map<String, Json>) -> Outcome<bool> {
    let slice = match body.get("slice") {
        None | Some(Json::Null) => return Ok(false),
        Some(slice) => object(slice, "slice")?,
    };
    known(slice, "slice", &["field", "id", "max"])?;
    if slice.get("field").is_some_and(|field| field != ID) {
        return Err(unsupported("[slice] has only [_id] as its [field]"));
    }
    let number = |name: &str| {
        let number = slice.get(name).and_then(Json::as_u64);
        number.and_then(|number| u32::try_from(number).ok())
    };
    let (Some(id), Some(max)) = (number("id"), number("max")) else {
        return Err(unsupported(
            "[slice] needs an [id] and a [max], whole numbers",
        ));
    };
    if !(2..=SLICES_MAX).contains(&max) || id >= max {
        return Err(Failure::validation(&format!(
            "[slice] has the [id] {id} and the [max] {max}: the max is 2 to {SLICES_MAX}, the id \
             from 0 to one less"
        )));
    }
    let own = std::mem::replace(&mut query.filter, Filter::All);
    let slice = field(ID).in_slice(id, max);
    query.filter = match own {
        Filter::All => slice,
        own => own.and(slice),
    };
    Ok(true)
}

/// `stored_fields`: whether the document is hidden, and whether the id is shown. No field is stored
/// apart, so no other is there.
fn stored_fields(
    body: &Map<String, Json>,
    params: &Params,
    names_source: bool,
) -> Outcome<(bool, bool)> {
    let given = match params.text("stored_fields") {
        Some("_none_") => json!("_none_"),
        _ => body.get("stored_fields").cloned().unwrap_or_default(),
    };
    let is_none = given == "_none_" || given == json!(["_none_"]);
    if is_none && names_source {
        return Err(Failure::validation(
            "[stored_fields] cannot be disabled if [_source] is requested",
        ));
    }
    match given {
        Json::Null => Ok((false, true)),
        _ if is_none => Ok((true, false)),
        Json::Array(names) if names.is_empty() => Ok((!names_source, true)),
        // With `_source` beside it, "all that are" says nothing.
        given if names_source && given == json!(["*"]) => Ok((false, true)),
        given if given == "_source" || given == json!(["_source"]) => Ok((false, true)),
        given => Err(unsupported(format!(
            "[stored_fields] is not supported: [{given}]: no field is stored apart; use [fields]"
        ))),
    }
}

/// The groups that a search is counted in.
fn groups(body: &Map<String, Json>) -> Outcome<Vec<String>> {
    let texts = |groups: &Vec<Json>| {
        let texts = groups.iter();
        let texts = texts.map(|group| group.as_str().map(str::to_owned));
        texts.collect::<Option<Vec<String>>>()
    };
    let groups = match body.get("stats") {
        None | Some(Json::Null) => return Ok(Vec::new()),
        Some(Json::Array(groups)) => texts(groups),
        Some(_) => None,
    };
    groups.ok_or_else(|| unsupported("[stats] must be a list of names"))
}

/// The values of `search_after`.
fn search_after(body: &Map<String, Json>) -> Outcome<Option<Vec<Json>>> {
    match body.get("search_after") {
        None | Some(Json::Null) => Ok(None),
        Some(Json::Array(values)) => Ok(Some(values.clone())),
        Some(_) => Err(unsupported("[search_after] must be a list of values")),
    }
}

/// The point in time that is searched.
fn point(body: &Map<String, Json>) -> Outcome<Option<(String, Option<Duration>)>> {
    let point = match body.get("pit") {
        None | Some(Json::Null) => return Ok(None),
        Some(point) => object(point, "pit")?,
    };
    known(point, "pit", &["id", "keep_alive"])?;
    let id = text(point.get("id"), "[pit] needs an [id]")?.to_owned();
    let lease = match point.get("keep_alive") {
        None => None,
        Some(time) => Some(lease(text(Some(time), "[keep_alive] must be a time")?)?),
    };
    Ok(Some((id, lease)))
}

fn switch(body: &Map<String, Json>, params: &Params, name: &str) -> Outcome<bool> {
    match (params.flag(name)?, body.get(name)) {
        (Some(given), _) => Ok(given),
        (None, None | Some(Json::Null)) => Ok(false),
        (None, Some(Json::Bool(given))) => Ok(*given),
        (None, Some(_)) => Err(unsupported(format!("[{name}] must be a boolean"))),
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
        memory_bytes: memory(body)?,
    })
}

/// What finding the hits may hold: `{"quire": {"memory": "64mb"}}`.
fn memory(body: &Map<String, Json>) -> Outcome<usize> {
    let own = match body.get("quire") {
        None | Some(Json::Null) => return Ok(SEARCH_BYTES_MAX),
        Some(own) => object(own, "quire")?,
    };
    known(own, "quire", &["memory"])?;
    let bytes = match own.get("memory") {
        None | Some(Json::Null) => return Ok(SEARCH_BYTES_MAX),
        Some(Json::String(text)) => bytes(text),
        Some(number) => number
            .as_u64()
            .and_then(|bytes| usize::try_from(bytes).ok()),
    };
    bytes.filter(|bytes| *bytes > 0).ok_or_else(|| {
        unsupported("[memory] of [quire] is a number of bytes, or text such as \"64mb\"")
    })
}

/// A number of bytes, with a unit or without.
fn bytes(text: &str) -> Option<usize> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let unit: usize = match unit {
        "" | "b" => 1,
        "kb" => 1 << 10,
        "mb" => 1 << 20,
        "gb" => 1 << 30,
        _ => return None,
    };
    number.parse::<usize>().ok()?.checked_mul(unit)
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
        None | Some(Json::Null) => Ok(default),
        Some(number) => whole_number(number)
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
        None | Some(Json::Null) => Ok(true),
        Some(Json::Bool(tracked)) => Ok(tracked),
        Some(Json::Number(number)) if number.is_u64() => Ok(true),
        Some(_) => Err(unsupported(
            "[track_total_hits] must be a boolean or a number",
        )),
    }
}
