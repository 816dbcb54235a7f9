//! `histogram` and `date_histogram`.

use quiredb::query::{BucketKey, Buckets, DateFormat, Facet, Missing, Rounding, Source};
use serde_json::{Number, Value as Json};

use super::body::{Body, Reading};
use super::kind::{
    BucketsOrder, DateHistogram, DateShape, HardBounds, Histogram, HistogramShape, Kind,
};
use super::terms::direction_of;
use crate::http::failure::Outcome;
use crate::search::dates::{
    DateReading, Moment, calendar_unit, fixed_millis, moment, offset_millis,
};
use crate::search::filter::{known, object, only_entry};
use quire_model::ordered::Direction;

pub(super) fn histogram(body: &Json) -> Outcome<(Kind, Facet)> {
    let names = [
        "field",
        "interval",
        "offset",
        "min_doc_count",
        "keyed",
        "order",
        "missing",
        "extended_bounds",
        "hard_bounds",
    ];
    let body = Body::of("histogram", body, &names)?;
    let interval = body.number("interval")?.filter(|interval| *interval > 0.0);
    let interval = interval.ok_or_else(|| body.refused("it needs an [interval] greater than 0"))?;
    let offset = body.number("offset")?.unwrap_or(0.0).rem_euclid(interval);
    let key = BucketKey::Interval {
        width: interval,
        offset,
    };
    let read = |value: &Json| value.as_f64().filter(|number| number.is_finite());
    let (bounds, hard) = (bounds(&body, &read)?, hard_bounds(&body, &read)?);
    check_within(&body, bounds, hard)?;
    let shape = shape(&body)?;
    let facet = facet(&body, key, &shape)?;
    let histogram = Histogram {
        interval,
        offset,
        bounds,
        hard,
        shape,
    };
    Ok((Kind::Histogram(histogram), facet))
}

pub(super) fn date_histogram(body: &Json, reading: &Reading<'_>) -> Outcome<(Kind, Facet)> {
    let names = [
        "field",
        "calendar_interval",
        "fixed_interval",
        "interval",
        "time_zone",
        "offset",
        "format",
        "min_doc_count",
        "keyed",
        "order",
        "missing",
        "extended_bounds",
        "hard_bounds",
    ];
    let body = Body::of("date_histogram", body, &names)?;
    let (rounding, dates) = (rounding(&body)?, date_shape(&body, reading)?);
    let reader = DateReader::new(&body, &dates, reading)?;
    let read = |value: &Json| match value {
        // A number of a bound is milliseconds, whatever the format is.
        Json::Number(number) => whole_of(number),
        value => reader.read(value),
    };
    let (bounds, hard) = (bounds(&body, &read)?, hard_bounds(&body, &read)?);
    check_within(&body, bounds, hard)?;
    let shape = shape(&body)?;
    let facet = facet(&body, BucketKey::Date(rounding.clone()), &shape)?;
    let histogram = DateHistogram {
        rounding,
        bounds,
        hard,
        dates,
        shape,
    };
    Ok((Kind::DateHistogram(histogram), facet))
}

fn whole_of(number: &Number) -> Option<i64> {
    number.as_i64().or_else(|| Some(number.as_f64()? as i64))
}

/// How the dates of a body are read.
pub(super) struct DateReader<'a> {
    reading: &'a Reading<'a>,
    /// By the format of the body, or else those of the field.
    by: DateReading,
    /// The same, and ISO 8601 whatever the format is.
    how: Moment<'a>,
    /// Numbers are read by the formats of the field.
    has_own_formats: bool,
}

impl<'a> DateReader<'a> {
    /// `dates` is how they are shown.
    pub(super) fn new(
        body: &Body<'a>,
        dates: &'a DateShape,
        reading: &'a Reading<'a>,
    ) -> Outcome<DateReader<'a>> {
        let (format, zone) = (body.text("format")?, body.text("time_zone")?);
        let path = body.field()?;
        let formats = reading.mappings.and_then(|it| it.own_formats(&path));
        let by = match (format, formats) {
            (None, Some(formats)) => {
                let by = DateReading::by(formats, reading.now);
                let zone = zone.unwrap_or("UTC");
                let unknown = || format!("[time_zone] [{zone}] is unknown");
                by.in_zone(zone).ok_or_else(unknown)
            }
            (format, _) => DateReading::of(format, zone, reading.now),
        };
        Ok(DateReader {
            reading,
            by: by.map_err(|what| body.refused(&what))?,
            how: Moment {
                now: reading.now,
                format: &dates.format,
                zone: zone.unwrap_or("UTC"),
                is_rounded_up: false,
            },
            has_own_formats: format.is_none() && formats.is_some(),
        })
    }

    /// A moment: milliseconds, or text.
    pub(super) fn read(&self, value: &Json) -> Option<i64> {
        let text = match value {
            Json::Number(number) if !self.has_own_formats => return whole_of(number),
            Json::Number(number) => &number.to_string(),
            Json::String(text) => text,
            _ => return None,
        };
        let first = self.by.ends(text).map(|(first, _)| first);
        let read = first.or_else(|| moment(text, &self.how));
        if read.is_none() {
            self.reading.is_unread.set(true);
        }
        read
    }
}

/// `format` and `time_zone`.
pub(super) fn date_shape(body: &Body<'_>, reading: &Reading<'_>) -> Outcome<DateShape> {
    let format = body.text("format")?.map(DateFormat::parse).transpose();
    let format = format
        .map_err(|part| body.refused(&format!("[format] has [{part}], which is not supported")))?;
    let zone = body.text("time_zone")?.unwrap_or("UTC");
    let zone = Rounding::fixed(1, zone)
        .ok_or_else(|| body.refused(&format!("[time_zone] [{zone}] is not known")))?;
    let format = match (format, reading.mappings) {
        (Some(format), _) => format,
        (None, Some(mappings)) => mappings.shown_format(&body.field()?),
        (None, None) => DateFormat::ISO,
    };
    Ok(DateShape {
        format,
        zone: zone.zone().clone(),
    })
}

/// The intervals of dates that a body names.
pub(super) fn rounding(body: &Body<'_>) -> Outcome<Rounding> {
    let zone = body.text("time_zone")?.unwrap_or("UTC");
    let calendar = body.text("calendar_interval")?;
    let fixed = body.text("fixed_interval")?;
    let either = body.text("interval")?;
    let given = [calendar, fixed, either].into_iter().flatten().count();
    if given != 1 {
        return Err(body.refused("it needs either [calendar_interval] or [fixed_interval]"));
    }
    let unit = calendar.or(either).and_then(calendar_unit);
    let rounding = match (unit, fixed.or(either).and_then(fixed_millis)) {
        (Some(unit), _) => Rounding::calendar(unit, zone),
        (None, Some(millis)) => Rounding::fixed(millis, zone),
        (None, None) => {
            let text = calendar.or(fixed).or(either).unwrap_or_default();
            return Err(body.refused(&format!(
                "[{text}] is no interval: a calendar's is such as [month] or [1d], a fixed one \
                 such as [30s] or [12h]"
            )));
        }
    };
    let rounding =
        rounding.ok_or_else(|| body.refused(&format!("[time_zone] [{zone}] is not known")))?;
    let offset = match body.get("offset") {
        None => 0,
        Some(offset) => {
            let text = offset.as_str().filter(|text| *text != "0");
            let millis = text.map_or(offset.as_i64(), offset_millis);
            let is_zero = offset.as_str() == Some("0");
            millis.or(is_zero.then_some(0)).ok_or_else(|| {
                body.refused(&format!(
                    "[offset] {offset} is no time such as [+6h], nor milliseconds"
                ))
            })?
        }
    };
    Ok(rounding.later_by(offset))
}

fn facet(body: &Body<'_>, key: BucketKey, shape: &HistogramShape) -> Outcome<Facet> {
    let mut buckets = Buckets::by([Source {
        missing: body.missing()?.map_or(Missing::LeftOut, Missing::As),
        ..Source::new(body.field()?, key)
    }]);
    buckets.documents_min = shape.documents_min.max(1);
    Ok(Facet::buckets(buckets))
}

fn shape(body: &Body<'_>) -> Outcome<HistogramShape> {
    let order = match body.get("order") {
        None => None,
        Some(order) => {
            let (by, direction) = only_entry(object(order, "order")?, "order")?;
            match (by, direction_of(direction)?) {
                ("_key" | "_time", Direction::Ascending) => None,
                ("_key" | "_time", Direction::Descending) => Some(BucketsOrder::KeyDescending),
                ("_count", Direction::Ascending) => Some(BucketsOrder::CountAscending),
                ("_count", Direction::Descending) => Some(BucketsOrder::CountDescending),
                (other, _) => {
                    return Err(body.refused(&format!(
                        "[order] by [{other}] is not supported: order by [_key] or [_count], or \
                         use [bucket_sort]"
                    )));
                }
            }
        }
    };
    Ok(HistogramShape {
        documents_min: body.whole("min_doc_count", 0, 0..=u64::MAX)?,
        keyed: body.flag("keyed")?,
        order,
    })
}

/// `hard_bounds`: `min`, `max`, or both.
fn hard_bounds<T: PartialOrd + Copy>(
    body: &Body<'_>,
    read: &dyn Fn(&Json) -> Option<T>,
) -> Outcome<HardBounds<T>> {
    let Some(bounds) = body.get("hard_bounds") else {
        return Ok(HardBounds {
            min: None,
            max: None,
        });
    };
    let bounds = object(bounds, "hard_bounds")?;
    known(bounds, "hard_bounds", &["min", "max"])?;
    let end = |name: &str| match bounds.get(name) {
        None | Some(Json::Null) => Ok(None),
        Some(value) => match read(value) {
            Some(end) => Ok(Some(end)),
            None => Err(body.refused(&format!("[{name}] of [hard_bounds] can't be [{value}]"))),
        },
    };
    let (min, max) = (end("min")?, end("max")?);
    match (min, max) {
        (Some(min), Some(max)) if min > max => {
            Err(body.refused("[hard_bounds] has a [max] that is less than its [min]"))
        }
        _ => Ok(HardBounds { min, max }),
    }
}

/// Refuses extended bounds that go beyond hard ones.
fn check_within<T: PartialOrd + Copy>(
    body: &Body<'_>,
    extended: Option<(T, T)>,
    hard: HardBounds<T>,
) -> Outcome<()> {
    let Some((min, max)) = extended else {
        return Ok(());
    };
    match hard.min.is_some_and(|least| min < least) || hard.max.is_some_and(|most| max > most) {
        true => Err(body.refused("[extended_bounds] have to be inside [hard_bounds]")),
        false => Ok(()),
    }
}

/// `extended_bounds`: `min` and `max`, both.
fn bounds<T: PartialOrd + Copy>(
    body: &Body<'_>,
    read: &dyn Fn(&Json) -> Option<T>,
) -> Outcome<Option<(T, T)>> {
    let Some(bounds) = body.get("extended_bounds") else {
        return Ok(None);
    };
    let bounds = object(bounds, "extended_bounds")?;
    known(bounds, "extended_bounds", &["min", "max"])?;
    let ends = (
        bounds.get("min").and_then(read),
        bounds.get("max").and_then(read),
    );
    match ends {
        (Some(min), Some(max)) if min <= max => Ok(Some((min, max))),
        _ => Err(body.refused("[extended_bounds] needs a [min] and a [max] that is not less")),
    }
}
