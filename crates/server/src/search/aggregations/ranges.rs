//! `range` and `date_range`.

use quiredb::query::{
    BucketKey, Buckets, Facet, FacetKind, Filter, Missing, Path, Source, Value, field,
};
use serde_json::{Map, Value as Json};
use std::ops::Bound;

use super::body::{Body, Reading};
use super::histograms::{DateReader, date_shape};
use super::kind::{DateShape, Kind, Range, Ranges};
use crate::http::failure::Outcome;
use crate::search::filter::{known, object, text};

/// Ranges of one aggregation.
const RANGES_MAX: usize = 1024;

/// What a range of numbers or dates has.
const ENDS: [&str; 3] = ["from", "to", "key"];

pub(super) fn range(body: &Json) -> Outcome<(Kind, Facet)> {
    let body = Body::of("range", body, &["field", "ranges", "keyed", "missing"])?;
    let path = body.field()?;
    let missing = body.missing()?.and_then(|value| value.as_f64());
    let shown = |number: Option<f64>| match number {
        Some(number) => format!("{number:?}"),
        None => "*".into(),
    };
    let mut ranges = Vec::new();
    for members in members(&body, &ENDS)? {
        let end = |name: &str| match members.get(name) {
            None | Some(Json::Null) => Ok(None),
            // Java clients send numbers as text.
            Some(value) => match value.as_f64().or_else(|| value.as_str()?.parse().ok()) {
                Some(number) => Ok(Some(number)),
                None => Err(body.refused(&format!("[{name}] must be a number"))),
            },
        };
        let (from, to) = (end("from")?, end("to")?);
        let key = format!("{}-{}", shown(from), shown(to));
        let key = key_of(members)?.unwrap_or(key);
        ranges.push(Range { key, from, to });
    }
    ranges.sort_by(compare);
    let filters = ranges.iter().map(|range| {
        let within = within(&path, range);
        let is_missing = missing.is_some_and(|missing| {
            range.from.is_none_or(|from| from <= missing) && range.to.is_none_or(|to| missing < to)
        });
        match is_missing {
            true => within.or(!field(path.as_str()).exists()),
            false => within,
        }
    });
    let filters = FacetKind::Filters(filters.collect());
    let keyed = body.flag("keyed")?;
    Ok((Kind::Range(Ranges { ranges, keyed }), filters.into()))
}

/// The documents with a number in a range.
fn within(path: &Path, range: &Range<f64>) -> Filter {
    let from = range.from.unwrap_or(f64::NEG_INFINITY);
    let to = match range.to {
        Some(to) => Bound::Excluded(Value::from(to)),
        None => Bound::Unbounded,
    };
    Filter::Range(path.clone(), Bound::Included(Value::from(from)), to)
}

pub(super) fn date_range(body: &Json, reading: &Reading<'_>) -> Outcome<(Kind, Facet)> {
    let names = ["field", "ranges", "keyed", "missing", "format", "time_zone"];
    let body = Body::of("date_range", body, &names)?;
    let dates = date_shape(&body, reading)?;
    let reader = DateReader::new(&body, &dates, reading)?;
    let mut ranges = Vec::new();
    for members in members(&body, &ENDS)? {
        let end = |name: &str| match members.get(name) {
            None | Some(Json::Null) => Ok(None),
            Some(value) => match reader.read(value) {
                Some(millis) => Ok(Some(millis)),
                None => Err(body.refused(&format!("[{name}] [{value}] is no date"))),
            },
        };
        let (from, to) = (end("from")?, end("to")?);
        let key = format!("{}-{}", shown(from, &dates), shown(to, &dates));
        let key = key_of(members)?.unwrap_or(key);
        let as_float = |millis: Option<i64>| millis.map(|millis| millis as f64);
        let range = Range {
            key,
            from: as_float(from),
            to: as_float(to),
        };
        ranges.push((range, (from, to)));
    }
    ranges.sort_by(|(one, _), (other, _)| compare(one, other));
    let (ranges, millis) = ranges.into_iter().unzip();
    let buckets = Buckets::by([Source {
        missing: body.missing()?.map_or(Missing::LeftOut, Missing::As),
        ..Source::new(body.field()?, BucketKey::DateRanges(millis))
    }]);
    let keyed = body.flag("keyed")?;
    let kind = Kind::DateRange(Ranges { ranges, keyed }, dates);
    Ok((kind, Facet::buckets(buckets)))
}

fn shown(millis: Option<i64>, dates: &DateShape) -> String {
    match millis {
        Some(millis) => dates.format.write(millis, &dates.zone),
        None => "*".into(),
    }
}

/// The ranges, of which each has some of these members.
pub(super) fn members<'a>(body: &Body<'a>, names: &[&str]) -> Outcome<Vec<&'a Map<String, Json>>> {
    let ranges = body.get("ranges").and_then(Json::as_array);
    let ranges = ranges.filter(|ranges| (1..=RANGES_MAX).contains(&ranges.len()));
    let ranges =
        ranges.ok_or_else(|| body.refused(&format!("it needs 1 to {RANGES_MAX} [ranges]")))?;
    let members = ranges.iter().map(|range| {
        let members = object(range, "ranges")?;
        known(members, "ranges", names)?;
        Ok(members)
    });
    members.collect()
}

pub(super) fn key_of(members: &Map<String, Json>) -> Outcome<Option<String>> {
    let key = members.get("key").filter(|key| !key.is_null());
    let key = key.map(|key| text(Some(key), "[key] of a range must be a string"));
    Ok(key.transpose()?.map(str::to_owned))
}

/// By where they begin, then by where they end.
fn compare(one: &Range<f64>, other: &Range<f64>) -> std::cmp::Ordering {
    let from = |range: &Range<f64>| range.from.unwrap_or(f64::NEG_INFINITY);
    let to = |range: &Range<f64>| range.to.unwrap_or(f64::INFINITY);
    let by_from = from(one).total_cmp(&from(other));
    by_from.then_with(|| to(one).total_cmp(&to(other)))
}
