//! `sort` of a search, as orders.

use quiredb::query::{Order, field};
use serde_json::Value as Json;

use super::filter::{known, object, only_entry, text, unsupported};
use crate::http::failure::Outcome;

/// The orders of a `sort` in a body: a field, an object `{FIELD: "desc"}` or `{FIELD: {"order":
/// "desc"}}`, or a list of these. A document with several values of a field is sorted by the least
/// ascending, and by the greatest descending.
pub(crate) fn orders(sort: &Json) -> Outcome<Vec<Order>> {
    let sorts = match sort {
        Json::Array(sorts) => sorts.as_slice(),
        one => std::slice::from_ref(one),
    };
    let orders: Outcome<Vec<Option<Order>>> = sorts.iter().map(order).collect();
    Ok(orders?.into_iter().flatten().collect())
}

/// The orders of the parameter `sort`: `FIELD:desc,FIELD`.
pub(crate) fn orders_of_text(sort: &str) -> Outcome<Vec<Order>> {
    let mut orders = Vec::new();
    for part in sort.split(',') {
        let (at, direction) = part.rsplit_once(':').unwrap_or((part, "asc"));
        orders.extend(by(at, direction)?);
    }
    Ok(orders)
}

fn order(sort: &Json) -> Outcome<Option<Order>> {
    if let Some(at) = sort.as_str() {
        return by(at, "asc");
    }
    let (at, how) = only_entry(object(sort, "sort")?, "sort")?;
    let Json::Object(how) = how else {
        return by(at, text(Some(how), "[sort] needs [asc] or [desc]")?);
    };
    known(how, "sort", &["order", "missing", "mode", "unmapped_type"])?;
    let direction = how.get("order").and_then(Json::as_str).unwrap_or("asc");
    let natural = if direction == "desc" { "max" } else { "min" };
    for (name, only) in [("missing", "_last"), ("mode", natural)] {
        if how.get(name).is_some_and(|value| value != only) {
            let what = format!("[{name}] of a [sort] {direction} must be [{only}]");
            return Err(unsupported(what));
        }
    }
    by(at, direction)
}

/// The order by one field. Nothing is scored, so `_score` and `_doc` are no order: documents stay
/// in the order in which they are found.
fn by(at: &str, direction: &str) -> Outcome<Option<Order>> {
    let order = match direction {
        "asc" => field(at).ascending(),
        "desc" => field(at).descending(),
        _ => {
            let what = format!("[sort] of [{at}] must be [asc] or [desc], not [{direction}]");
            return Err(unsupported(what));
        }
    };
    Ok((!matches!(at, "_score" | "_doc")).then_some(order))
}
