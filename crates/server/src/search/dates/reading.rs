//! [`DateReading`]: which times a text of a request names.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use quiredb::query::{CalendarUnit, DateFormat, DateFormats, DateGrain, Rounding};

use super::math::{Moment, is_date_math, moment};

/// How texts of a request are read as dates.
#[derive(Debug, Clone)]
pub(crate) struct DateReading {
    /// The first that fits is taken.
    formats: Vec<DateFormat>,
    zone_name: String,
    zone: TimeZone,
    /// The current time, in milliseconds since 1970 UTC.
    now: i64,
}

impl DateReading {
    /// ISO 8601 or milliseconds since 1970, in UTC.
    pub(crate) fn usual(now: i64) -> DateReading {
        DateReading {
            formats: vec![DateFormat::ISO, DateFormat::MILLIS],
            zone_name: "UTC".to_owned(),
            zone: TimeZone::UTC,
            now,
        }
    }

    /// By the formats of a field, in UTC.
    pub(crate) fn by(formats: &DateFormats, now: i64) -> DateReading {
        DateReading {
            formats: formats.all().to_vec(),
            ..DateReading::usual(now)
        }
    }

    /// The same in another time zone; none if it is not known.
    pub(crate) fn in_zone(self, zone: &str) -> Option<DateReading> {
        let rounding = Rounding::calendar(CalendarUnit::Day, zone)?;
        Some(DateReading {
            zone_name: zone.to_owned(),
            zone: rounding.zone().clone(),
            ..self
        })
    }

    /// By the `format` and the `time_zone` of a request.
    ///
    /// # Errors
    /// What is not known.
    pub(crate) fn of(
        format: Option<&str>,
        zone: Option<&str>,
        now: i64,
    ) -> Result<DateReading, String> {
        let usual = DateReading::usual(now);
        let formats = match format {
            None => usual.formats,
            Some(formats) => {
                let formats = formats.split("||").map(DateFormat::parse);
                let unknown = |part| format!("[format] has [{part}], which is not supported");
                formats.collect::<Result<_, _>>().map_err(unknown)?
            }
        };
        let zone_name = zone.unwrap_or("UTC");
        let rounding = Rounding::calendar(CalendarUnit::Day, zone_name);
        let rounding = rounding.ok_or_else(|| format!("[time_zone] [{zone_name}] is unknown"))?;
        Ok(DateReading {
            formats,
            zone_name: zone_name.to_owned(),
            zone: rounding.zone().clone(),
            now,
        })
    }

    /// The first and the last millisecond of what a text names, which may be date math.
    pub(crate) fn ends(&self, text: &str) -> Option<(i64, i64)> {
        if !is_date_math(text) {
            let mut formats = self.formats.iter();
            let (first, grain) = formats.find_map(|format| format.read_grain(text, &self.zone))?;
            Timestamp::from_millisecond(first).ok()?;
            return Some((first, self.last(first, grain)?));
        }
        let text = match text.split_once("||") {
            None => text.to_owned(),
            Some((date, math)) => {
                let (first, _) = self.ends(date)?;
                format!("{}||{math}", Timestamp::from_millisecond(first).ok()?)
            }
        };
        let at = |is_rounded_up| {
            let how = Moment {
                now: self.now,
                format: &DateFormat::ISO,
                zone: &self.zone_name,
                is_rounded_up,
            };
            let at = moment(&text, &how)?;
            Timestamp::from_millisecond(at).ok()?;
            Some(at)
        };
        Some((at(false)?, at(true)?))
    }

    fn last(&self, first: i64, grain: DateGrain) -> Option<i64> {
        let unit = match grain {
            DateGrain::Millisecond => return Some(first),
            DateGrain::Second => return first.checked_add(999),
            DateGrain::Minute => CalendarUnit::Minute,
            DateGrain::Hour => CalendarUnit::Hour,
            DateGrain::Day => CalendarUnit::Day,
            DateGrain::Week => CalendarUnit::Week,
            DateGrain::Month => CalendarUnit::Month,
            DateGrain::Year => CalendarUnit::Year,
        };
        let rounding = Rounding::calendar(unit, &self.zone_name)?;
        Some(rounding.next(rounding.start(first)?)? - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_names_all_of_the_part_of_a_date_that_it_is() {
        let millis = |text: &str| text.parse::<Timestamp>().unwrap().as_millisecond();
        let now = millis("2026-03-31T10:20:30.5Z");
        for (format, zone, text, first, last) in [
            (
                "",
                "UTC",
                "2026",
                "2026-01-01T00:00:00Z",
                "2026-12-31T23:59:59.999Z",
            ),
            (
                "",
                "+02:00",
                "2026-03",
                "2026-02-28T22:00:00Z",
                "2026-03-31T21:59:59.999Z",
            ),
            (
                "",
                "UTC",
                "2026-03-01T10",
                "2026-03-01T10:00:00Z",
                "2026-03-01T10:59:59.999Z",
            ),
            (
                "",
                "UTC",
                "2026-03-01T10:00:05Z",
                "2026-03-01T10:00:05Z",
                "2026-03-01T10:00:05.999Z",
            ),
            (
                "",
                "UTC",
                "2026-03-01T10:00:05.5Z",
                "2026-03-01T10:00:05.5Z",
                "2026-03-01T10:00:05.5Z",
            ),
            (
                "",
                "+02:00",
                "2026-03-01T10:00Z",
                "2026-03-01T10:00:00Z",
                "2026-03-01T10:00:59.999Z",
            ),
            (
                "",
                "UTC",
                "1772366400000",
                "2026-03-01T12:00:00Z",
                "2026-03-01T12:00:00Z",
            ),
            (
                "epoch_second",
                "UTC",
                "1772366400",
                "2026-03-01T12:00:00Z",
                "2026-03-01T12:00:00.999Z",
            ),
            (
                "dd.MM.yyyy||yyyy/MM",
                "UTC",
                "2026/02",
                "2026-02-01T00:00:00Z",
                "2026-02-28T23:59:59.999Z",
            ),
            (
                "week_date||weekyear_week",
                "UTC",
                "2026-W10",
                "2026-03-02T00:00:00Z",
                "2026-03-08T23:59:59.999Z",
            ),
            (
                "yyyy/MM/dd",
                "+01:00",
                "2026/03/01||+1d/d",
                "2026-03-01T23:00:00Z",
                "2026-03-02T22:59:59.999Z",
            ),
            (
                "",
                "Europe/Berlin",
                "now/d",
                "2026-03-30T22:00:00Z",
                "2026-03-31T21:59:59.999Z",
            ),
        ] {
            let format = Some(format).filter(|format| !format.is_empty());
            let reading = DateReading::of(format, Some(zone), now).unwrap();
            let expected = Some((millis(first), millis(last)));
            assert_eq!(
                reading.ends(text),
                expected,
                "{text} by {format:?} in {zone}"
            );
        }
        let reading = DateReading::of(Some("yyyy/MM/dd"), None, now).unwrap();
        assert_eq!(reading.ends("2026-03-01"), None);
        assert!(DateReading::of(Some("yyyy ww qq"), None, now).is_err());
        assert!(DateReading::of(None, Some("Mars"), now).is_err());
    }
}
