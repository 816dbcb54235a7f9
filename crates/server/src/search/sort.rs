//! `sort` of a search, as orders.

use quiredb::ID;
use quiredb::query::{DateFormat, Order, field};
use serde_json::Value as Json;

use super::filter::{check_field, known, object, only_entry, scalar, text, unsupported};
use crate::http::failure::Outcome;

/// The orders of a `sort` in a body: a field, an object `{FIELD: "desc"}` or `{FIELD: {"order":
/// "desc"}}`, or a list of these. A document with several values of a field is sorted by the least
/// ascending, and by the greatest descending. Null is no value: documents with it alone come last,
/// or first or as another value where `missing` says so, as those without the field.
///
/// `_shard_doc` is the order of keys, which a later page can begin in. So is `_doc` if `ties` is
/// true; otherwise it is the order in which documents are found.
pub(crate) fn orders(sort: &Json, ties: bool) -> Outcome<Vec<Order>> {
    let (orders, formats) = formatted_orders(sort, ties)?;
    match formats.iter().any(Option::is_some) {
        true => Err(unsupported("[sort] does not support [format] here")),
        false => Ok(orders),
    }
}

/// As [`orders`], each with the format in which hits show its dates, if it has one.
pub(crate) fn formatted_orders(
    sort: &Json,
    ties: bool,
) -> Outcome<(Vec<Order>, Vec<Option<DateFormat>>)> {
    let sorts = match sort {
        Json::Array(sorts) => sorts.as_slice(),
        one => std::slice::from_ref(one),
    };
    let (mut orders, mut formats) = (Vec::new(), Vec::new());
    for sort in sorts {
        if let Some(order) = order(sort, ties)? {
            orders.push(order);
            formats.push(format(sort)?);
        }
    }
    Ok((orders, formats))
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
pub(crate) fn orders_of_text(sort: &str, ties: bool) -> Outcome<Vec<Order>> {
    let mut orders = Vec::new();
    for part in sort.split(',') {
        let (at, direction) = part.rsplit_once(':').unwrap_or((part, "asc"));
        orders.extend(by(at, direction, ties, false)?);
    }
    Ok(orders)
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

fn order(sort: &Json, ties: bool) -> Outcome<Option<Order>> {
    if let Some(at) = sort.as_str() {
        return by(at, "asc", ties, false);
    }
    let (at, how) = only_entry(object(sort, "sort")?, "sort")?;
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
    Ok(order.map(|order| match missing {
        Some(value) if order.path.as_str() != ID => order.missing_as(value),
        _ => order,
    }))
}

/// The order by one field. Nothing is scored, so `_score` is no order, and without ties nor is
/// `_doc`: documents stay in the order in which they are found.
fn by(at: &str, direction: &str, ties: bool, missing_first: bool) -> Outcome<Option<Order>> {
    check_field(at)?;
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
    Ok((at != "_score" && (ties || at != "_doc")).then_some(order))
}
