//! `sort` of a search, as orders.

use quiredb::ID;
use quiredb::query::{DateFormat, Order, field};
use serde_json::Value as Json;

use super::filter::{check_field, known, object, only_entry, scalar, text, unsupported};
use crate::http::failure::Outcome;

/// How hits show the values that they are sorted by.
#[derive(Debug, Clone, Default)]
pub(crate) struct SortShown {
    /// The format of the dates of each order, if it has one.
    pub(crate) formats: Vec<Option<DateFormat>>,
    /// The places of `_score` among the values. It is the same of all documents, so it is no order.
    scores: Vec<usize>,
}

/// The score of each document.
const SCORE: f64 = 1.0;

impl SortShown {
    /// Whether hits that are sorted by these orders have a score.
    pub(crate) fn is_scored(&self, orders: &[Order]) -> bool {
        orders.is_empty() || !self.scores.is_empty()
    }

    /// Whether the value at a place is the score.
    pub(crate) fn is_score(&self, place: usize) -> bool {
        self.scores.contains(&place)
    }

    /// The values of `search_after` that are of orders.
    ///
    /// # Errors
    /// 400 if the score is another than each document has.
    pub(crate) fn without_scores(&self, values: Vec<Json>) -> Outcome<Vec<Json>> {
        let mut left = Vec::new();
        for (place, value) in values.into_iter().enumerate() {
            if !self.is_score(place) {
                left.push(value);
            } else if value.as_f64() != Some(SCORE) {
                return Err(unsupported(format!(
                    "[search_after] has [{value}] for [_score], which is 1.0 in all documents"
                )));
            }
        }
        Ok(left)
    }
}

/// The orders of a `sort` in a body: a field, an object `{FIELD: "desc"}` or `{FIELD: {"order":
/// "desc"}}`, or a list of these. A document with several values of a field is sorted by the least
/// ascending, and by the greatest descending. Null is no value: documents with it alone come last,
/// or first or as another value where `missing` says so, as those without the field.
///
/// `_shard_doc` is the order of keys, which a later page can begin in. So is `_doc` if `ties` is
/// true; otherwise it is the order in which documents are found.
pub(crate) fn orders(sort: &Json, ties: bool) -> Outcome<Vec<Order>> {
    let (orders, shown) = shown_orders(sort, ties)?;
    match shown.formats.iter().any(Option::is_some) {
        true => Err(unsupported("[sort] does not support [format] here")),
        false => Ok(orders),
    }
}

/// As [`orders`], and how hits show their values.
pub(crate) fn shown_orders(sort: &Json, ties: bool) -> Outcome<(Vec<Order>, SortShown)> {
    let sorts = match sort {
        Json::Array(sorts) => sorts.as_slice(),
        one => std::slice::from_ref(one),
    };
    collect(sorts.iter().map(|sort| {
        let by = order(sort, ties)?;
        let format = match by {
            By::Order(_) => format(sort)?,
            By::Score | By::Found => None,
        };
        Ok((by, format))
    }))
}

/// The orders among the parts of a `sort`, each with the format of its dates, and how hits show
/// their values.
fn collect(
    parts: impl Iterator<Item = Outcome<(By, Option<DateFormat>)>>,
) -> Outcome<(Vec<Order>, SortShown)> {
    let (mut orders, mut shown) = (Vec::new(), SortShown::default());
    for part in parts {
        match part? {
            (By::Order(order), format) => {
                orders.push(*order);
                shown.formats.push(format);
            }
            (By::Score, _) => shown.scores.push(orders.len() + shown.scores.len()),
            (By::Found, _) => {}
        }
    }
    Ok((orders, shown))
}

/// The format of a `{FIELD: {"format": "…"}}`.
fn format(sort: &Json) -> Outcome<Option<DateFormat>> {
    let how = sort.as_object().and_then(|sort| sort.values().next());
    let format = how.and_then(|how| how.get("format"));
    let Some(format) = format.filter(|format| !format.is_null()) else {
        return Ok(None);
    };
    let format = text(Some(format), "[format] of [sort] must be a string")?;
    let parsed = DateFormat::parse(format);
    parsed.map(Some).map_err(|part| {
        unsupported(format!(
            "[format] of [sort] has [{part}], which is not supported"
        ))
    })
}

/// The orders of the parameter `sort`: `FIELD:desc,FIELD`.
pub(crate) fn orders_of_text(sort: &str, ties: bool) -> Outcome<(Vec<Order>, SortShown)> {
    collect(sort.split(',').map(|part| {
        let (at, direction) = part.rsplit_once(':').unwrap_or((part, "asc"));
        Ok((by(at, direction, ties, false)?, None))
    }))
}

/// What one part of a `sort` is.
enum By {
    Order(Box<Order>),
    /// All documents have the same score.
    Score,
    /// The order in which documents are found.
    Found,
}

/// Whether the last order of a `sort` is `_shard_doc`.
pub(crate) fn ends_in_shard_doc(sort: Option<&Json>, text: Option<&str>) -> bool {
    let last = match (text, sort) {
        (Some(text), _) => {
            let last = text.rsplit(',').next().unwrap_or_default();
            return last.split(':').next() == Some("_shard_doc");
        }
        (None, Some(Json::Array(sorts))) => sorts.last(),
        (None, one) => one,
    };
    match last {
        Some(Json::String(name)) => name == "_shard_doc",
        Some(Json::Object(how)) => how.contains_key("_shard_doc"),
        _ => false,
    }
}

fn order(sort: &Json, ties: bool) -> Outcome<By> {
    if let Some(at) = sort.as_str() {
        return by(at, "asc", ties, false);
    }
    let (at, how) = only_entry(object(sort, "sort")?, "sort")?;
    check_kind(at)?;
    let Json::Object(how) = how else {
        let direction = text(Some(how), "[sort] needs [asc] or [desc]")?;
        return by(at, direction, ties, false);
    };
    known(
        how,
        "sort",
        &["order", "missing", "mode", "unmapped_type", "format"],
    )?;
    let direction = how.get("order").and_then(Json::as_str).unwrap_or("asc");
    let natural = if direction == "desc" { "max" } else { "min" };
    if how.get("mode").is_some_and(|value| value != natural) {
        let what = format!("[mode] of a [sort] {direction} must be [{natural}]");
        return Err(unsupported(what));
    }
    let (missing_first, missing) = match how.get("missing") {
        None | Some(Json::Null) => (false, None),
        Some(Json::String(place)) if place == "_last" => (false, None),
        Some(Json::String(place)) if place == "_first" => (true, None),
        Some(value) => (false, Some(scalar(value, "missing")?)),
    };
    let order = by(at, direction, ties, missing_first)?;
    Ok(match (order, missing) {
        (By::Order(order), Some(value)) if order.path.as_str() != ID => {
            By::Order(Box::new(order.missing_as(value)))
        }
        (order, _) => order,
    })
}

/// Refuses what documents can't be sorted by.
fn check_kind(at: &str) -> Outcome<()> {
    match at {
        "_doc" | "_shard_doc" | "_score" => Ok(()),
        "_script" | "_geo_distance" => {
            Err(unsupported(format!("[sort] by [{at}] is not supported")))
        }
        at => check_field(at),
    }
}

/// The order by one field. Nothing is scored, so `_score` is no order, and without ties nor is
/// `_doc`: documents stay in the order in which they are found.
fn by(at: &str, direction: &str, ties: bool, missing_first: bool) -> Outcome<By> {
    check_kind(at)?;
    let is_place = matches!(at, "_doc" | "_shard_doc");
    let path = if is_place { ID } else { at };
    let order = match direction {
        "asc" => field(path).ascending(),
        "desc" => field(path).descending(),
        _ => {
            let what = format!("[sort] of [{at}] must be [asc] or [desc], not [{direction}]");
            return Err(unsupported(what));
        }
    };
    let order = match missing_first {
        _ if path == ID => order,
        true => order.nulls_first(),
        false => order.nulls_last(),
    };
    Ok(match at {
        "_score" => By::Score,
        "_doc" if !ties => By::Found,
        _ => By::Order(Box::new(order)),
    })
}
