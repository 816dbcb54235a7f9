//! `terms`.

use quire_model::ordered::Direction;
use quiredb::query::{
    BucketKey, BucketOrder, BucketOrderBy, Buckets, Facet, Missing, Source, TextFilter, Value,
};
use serde_json::{Value as Json, json};

use super::body::Body;
use super::kind::{Aggregation, Kind};
use super::paths::order_by;
use crate::http::failure::Outcome;
use crate::search::filter::{object, only_entry, scalar, text, unsupported};

/// Buckets by default, and at the most as in OpenSearch.
const SIZE_DEFAULT: u64 = 10;
pub(super) const BUCKETS_MAX: u64 = 65_535;

/// Options that say how OpenSearch computes, and change nothing here.
const WITHOUT_EFFECT: [&str; 6] = [
    "shard_size",
    "shard_min_doc_count",
    "execution_hint",
    "collect_mode",
    "show_term_doc_count_error",
    "value_type",
];

pub(super) fn terms(body: &Json, inner: &[Aggregation]) -> Outcome<(Kind, Facet)> {
    let names = [
        "field",
        "size",
        "min_doc_count",
        "order",
        "missing",
        "include",
        "exclude",
    ];
    let body = Body::of("terms", body, &[&names[..], &WITHOUT_EFFECT].concat())?;
    body.only("show_term_doc_count_error", &json!(false))?;
    let mut buckets = Buckets::by([Source {
        missing: body.missing()?.map_or(Missing::LeftOut, Missing::As),
        ..Source::new(body.field()?, BucketKey::Value(text_filter(&body)?))
    }]);
    buckets.limit = Some(body.whole("size", SIZE_DEFAULT, 1..=BUCKETS_MAX)?);
    // A value that no matching document has is not known here.
    buckets.documents_min = body.whole("min_doc_count", 1, 1..=u64::MAX)?;
    buckets.order = match body.get("order") {
        None => vec![BucketOrder {
            by: BucketOrderBy::Count,
            direction: Direction::Descending,
        }],
        Some(Json::Array(orders)) => {
            let orders = orders.iter().map(|one| order(one, inner));
            orders.collect::<Outcome<_>>()?
        }
        Some(one) => vec![order(one, inner)?],
    };
    Ok((Kind::Terms, Facet::buckets(buckets)))
}

fn order(order: &Json, inner: &[Aggregation]) -> Outcome<BucketOrder> {
    let (path, direction) = only_entry(object(order, "order")?, "order")?;
    Ok(BucketOrder {
        by: order_by(inner, path)?,
        direction: direction_of(direction)?,
    })
}

/// `asc` or `desc`.
pub(super) fn direction_of(direction: &Json) -> Outcome<Direction> {
    match direction.as_str().map(str::to_ascii_lowercase).as_deref() {
        Some("asc") => Ok(Direction::Ascending),
        Some("desc") => Ok(Direction::Descending),
        _ => Err(unsupported(format!(
            "[order] must be [asc] or [desc], not [{direction}]"
        ))),
    }
}

/// `include` and `exclude`: a list of values, or a pattern.
fn text_filter(body: &Body<'_>) -> Outcome<TextFilter> {
    let mut wanted = TextFilter::default();
    let refused = |error: quiredb::query::Error| body.refused(&error.to_string());
    for name in ["include", "exclude"] {
        let is_include = name == "include";
        match body.get(name) {
            None => {}
            Some(Json::Array(values)) => {
                let values = values.iter().map(|value| scalar(value, name));
                let values: Vec<Value> = values.collect::<Outcome<_>>()?;
                wanted = match is_include {
                    true => wanted.including(values),
                    false => wanted.excluding(values),
                };
            }
            Some(Json::Object(members)) if members.contains_key("partition") => {
                return Err(body
                    .refused("[partition] of [include] is not supported: page with [composite]"));
            }
            Some(pattern) => {
                let what = format!("[{name}] must be a list of values, or a pattern");
                let pattern = text(Some(pattern), &what)?;
                wanted = match is_include {
                    true => wanted.including_pattern(pattern),
                    false => wanted.excluding_pattern(pattern),
                }
                .map_err(refused)?;
            }
        }
    }
    Ok(wanted)
}
