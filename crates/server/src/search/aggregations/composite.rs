//! `composite`: buckets by several sources, page by page.

use quire_model::ordered::Direction;
use quiredb::query::{BucketKey, Buckets, Facet, Missing, Source, TextFilter, Value};
use serde_json::Value as Json;

use super::body::{Body, Reading};
use super::histograms::{date_shape, rounding};
use super::kind::{CompositeSource, Kind};
use super::terms::direction_of;
use crate::http::failure::Outcome;
use crate::search::execute::BUCKETS_MAX;
use crate::search::filter::{object, only_entry, scalar};

/// Buckets of a page by default, as in OpenSearch.
const SIZE_DEFAULT: u64 = 10;

pub(super) fn composite(body: &Json, reading: &Reading<'_>) -> Outcome<(Kind, Facet)> {
    let body = Body::of("composite", body, &["size", "sources", "after"])?;
    let given = body.get("sources");
    let given = given.ok_or_else(|| body.refused("Required [sources]"))?;
    let given = given.as_array().filter(|sources| !sources.is_empty());
    let given = given.ok_or_else(|| {
        body.refused("Composite [sources] cannot be null or empty: it needs a list")
    })?;
    let (mut shapes, mut sources): (Vec<CompositeSource>, Vec<Source>) = (Vec::new(), Vec::new());
    for one in given {
        let (name, of) = only_entry(object(one, "sources")?, "sources")?;
        if shapes.iter().any(|other| other.name == name) {
            return Err(body.refused(&format!(
                "Composite source names must be unique, found duplicates: [{name}]"
            )));
        }
        let (shape, source) = source(name, of, reading)?;
        shapes.push(shape);
        sources.push(source);
    }
    let after = match body.get("after") {
        None => None,
        Some(after) => {
            let after = object(after, "after")?;
            if after.len() != shapes.len() {
                let what = "[after] must have the value of each of [sources], and no other";
                return Err(body.refused(what));
            }
            let mut values = Vec::new();
            for (shape, source) in shapes.iter().zip(&sources) {
                let value = after
                    .get(&shape.name)
                    .ok_or_else(|| body.refused(&format!("[after] has no [{}]", shape.name)))?;
                let value = after_value(value, shape, source).ok_or_else(|| {
                    body.refused(&format!("[after]: [{value}] is no key of [{}]", shape.name))
                })?;
                values.push(value);
            }
            Some(values)
        }
    };
    let mut buckets = Buckets::by(sources);
    if let Some(size) = body.get("size").and_then(Json::as_u64)
        && size > BUCKETS_MAX
    {
        return Err(body.refused(&format!(
            "Trying to create too many buckets. Must be less than or equal to: [{BUCKETS_MAX}] \
             but was [{size}]"
        )));
    }
    buckets.limit = Some(body.whole("size", SIZE_DEFAULT, 1..=BUCKETS_MAX)?);
    buckets.after = after;
    Ok((Kind::Composite(shapes), Facet::buckets(buckets)))
}

fn source(name: &str, of: &Json, reading: &Reading<'_>) -> Outcome<(CompositeSource, Source)> {
    let (kind, body) = only_entry(object(of, "sources")?, "sources")?;
    let common = ["field", "order", "missing_bucket"];
    let mut dates = None;
    let (body, key) = match kind {
        "terms" => {
            let body = Body::of(kind, body, &common)?;
            (body, BucketKey::Value(TextFilter::default()))
        }
        "histogram" => {
            let body = Body::of(kind, body, &[&common[..], &["interval"]].concat())?;
            let width = body.number("interval")?.filter(|interval| *interval > 0.0);
            let width =
                width.ok_or_else(|| body.refused("it needs an [interval] greater than 0"))?;
            (body, BucketKey::Interval { width, offset: 0.0 })
        }
        "date_histogram" => {
            let own = [
                "calendar_interval",
                "fixed_interval",
                "interval",
                "time_zone",
                "offset",
                "format",
            ];
            let body = Body::of(kind, body, &[&common[..], &own].concat())?;
            if body.get("format").is_some() {
                dates = Some(date_shape(&body, reading)?);
            }
            (body, BucketKey::Date(rounding(&body)?))
        }
        other => {
            let of = Body::of("composite", of, &[other])?;
            return Err(of.refused(&format!(
                "a source [{other}] is not supported: known are date_histogram, histogram and terms"
            )));
        }
    };
    let source = Source {
        missing: match body.flag("missing_bucket")? {
            true => Missing::Null,
            false => Missing::LeftOut,
        },
        direction: match body.get("order") {
            None => Direction::Ascending,
            Some(order) => direction_of(order)?,
        },
        ..Source::new(body.field()?, key)
    };
    let name = name.to_owned();
    Ok((CompositeSource { name, dates }, source))
}

/// A part of the key to go on after.
fn after_value(value: &Json, shape: &CompositeSource, source: &Source) -> Option<Value> {
    if value.is_null() {
        return (source.missing == Missing::Null).then(Value::null);
    }
    match &source.key {
        BucketKey::Value(_) | BucketKey::DateRanges(_) => scalar(value, "after").ok(),
        BucketKey::Interval { .. } => {
            let number = value.as_f64().map(Value::from);
            number.or_else(|| Value::from_numeral(value.as_str()?))
        }
        BucketKey::Date(_) => match (value, &shape.dates) {
            (Json::Number(number), _) => number.as_i64().map(Value::from),
            (Json::String(text), Some(dates)) => {
                dates.format.read(text, &dates.zone).map(Value::from)
            }
            // Milliseconds, as the key is shown.
            (Json::String(text), None) => {
                let millis = text.parse::<i64>().ok();
                let millis = millis.or_else(|| Value::from(text.as_str()).as_date_millis());
                millis.map(Value::from)
            }
            _ => None,
        },
    }
}
