//! `terms`.

use quire_model::ordered::Direction;
use quiredb::FieldKind;
use quiredb::query::{
    BucketKey, BucketOrder, BucketOrderBy, Buckets, Facet, Missing, Source, TextFilter, Value,
};
use serde_json::{Value as Json, json};

use super::body::Body;
use super::kind::{Aggregation, DateShape, Kind, TermsShape};
use super::paths::order_by;
use crate::http::failure::Outcome;
use crate::search::filter::{known, object, only_entry, scalar, text, unsupported};

/// Buckets by default, and at the most as in OpenSearch.
const SIZE_DEFAULT: u64 = 10;
pub(super) const SIZE_MAX: u64 = i32::MAX as u64;

/// Documents of a rare term by default, and at the most as in OpenSearch.
const RARE_DEFAULT: u64 = 1;
const RARE_MAX: u64 = 100;

/// Options that say how OpenSearch computes, and change nothing here.
const WITHOUT_EFFECT: [&str; 5] = [
    "shard_size",
    "shard_min_doc_count",
    "execution_hint",
    "collect_mode",
    "show_term_doc_count_error",
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
        "value_type",
    ];
    let body = Body::of("terms", body, &[&names[..], &WITHOUT_EFFECT].concat())?;
    body.only("show_term_doc_count_error", &json!(false))?;
    let mut buckets = Buckets::by([source(&body, text_filter(&body)?)?]);
    let least = limit(&mut buckets, &body, inner, 0)?;
    let shape = TermsShape {
        field: value_type(&body)?,
        has_empty: least == 0,
        ..TermsShape::default()
    };
    Ok((Kind::Terms(shape), Facet::buckets(buckets)))
}

/// `rare_terms`: the values that few documents have.
pub(super) fn rare_terms(body: &Json) -> Outcome<(Kind, Facet)> {
    let names = [
        "field",
        "max_doc_count",
        "missing",
        "include",
        "exclude",
        "precision",
        "value_type",
    ];
    let body = Body::of("rare_terms", body, &names)?;
    let documents_max = body.whole("max_doc_count", RARE_DEFAULT, 1..=RARE_MAX)?;
    let mut buckets = Buckets::by([source(&body, text_filter(&body)?)?]);
    buckets.order = vec![BucketOrder {
        by: BucketOrderBy::Count,
        direction: Direction::Ascending,
    }];
    let shape = TermsShape {
        documents_max: Some(documents_max),
        field: value_type(&body)?,
        ..TermsShape::default()
    };
    Ok((Kind::Terms(shape), Facet::buckets(buckets)))
}

/// `multi_terms`: buckets by the values of several fields.
pub(super) fn multi_terms(body: &Json, inner: &[Aggregation]) -> Outcome<(Kind, Facet)> {
    let names = ["terms", "size", "min_doc_count", "order"];
    let body = Body::of("multi_terms", body, &[&names[..], &WITHOUT_EFFECT].concat())?;
    body.only("show_term_doc_count_error", &json!(false))?;
    let terms = body.get("terms").and_then(Json::as_array);
    let terms = terms.filter(|terms| terms.len() > 1);
    let terms = terms.ok_or_else(|| body.refused("it needs a list of two [terms] or more"))?;
    let (mut sources, mut dates) = (Vec::new(), Vec::new());
    for one in terms {
        let body = Body::of("multi_terms", one, &["field", "missing", "value_type"])?;
        sources.push(source(&body, TextFilter::default())?);
        let is_date = value_type(&body)?.is_some_and(FieldKind::is_date);
        dates.push(is_date.then(DateShape::utc));
    }
    let mut buckets = Buckets::by(sources);
    limit(&mut buckets, &body, inner, 1)?;
    Ok((Kind::MultiTerms(dates), Facet::buckets(buckets)))
}

fn source(body: &Body<'_>, wanted: TextFilter) -> Outcome<Source> {
    Ok(Source {
        missing: body.missing()?.map_or(Missing::LeftOut, Missing::As),
        ..Source::new(body.field()?, BucketKey::Value(wanted))
    })
}

/// The type of the values of a field without one in the mapping.
fn value_type(body: &Body<'_>) -> Outcome<Option<FieldKind>> {
    let name = match body.text("value_type")? {
        Some("string") => Some("keyword"),
        name => name,
    };
    Ok(name.and_then(FieldKind::named))
}

/// `size`, `min_doc_count` and `order`. Returns the fewest documents of a bucket, at least `least`.
fn limit(
    buckets: &mut Buckets,
    body: &Body<'_>,
    inner: &[Aggregation],
    least: u64,
) -> Outcome<u64> {
    buckets.limit = Some(body.whole("size", SIZE_DEFAULT, 1..=SIZE_MAX)?);
    let documents_min = body.whole("min_doc_count", 1, least..=u64::MAX)?;
    buckets.documents_min = documents_min.max(1);
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
    Ok(documents_min)
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
            Some(Json::Object(part)) if is_include => {
                known(part, name, &["partition", "num_partitions"])?;
                let number = |name: &str| {
                    let number = part.get(name).and_then(Json::as_u64);
                    let number = number.and_then(|number| u32::try_from(number).ok());
                    number.ok_or_else(|| {
                        body.refused(&format!("[include] needs [{name}], a whole number"))
                    })
                };
                let (number, of) = (number("partition")?, number("num_partitions")?);
                wanted = wanted.of_part(number, of).map_err(refused)?;
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
