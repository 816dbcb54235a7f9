//! [`DateFormats`]: the formats that the dates of a field are written in.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use quire_model::ordered::OrderedValue;
use std::fmt;
use std::sync::Arc;

use super::format::DateFormat;
use super::pattern::DateGrain;
use crate::Value;

/// The most formats of a field.
const FORMATS_MAX: usize = 32;

/// Formats of dates, with `||` between: the first that fits a value reads it. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct DateFormats(Arc<Formats>);

#[derive(Debug, PartialEq, Eq)]
struct Formats {
    text: String,
    all: Vec<DateFormat>,
}

impl DateFormats {
    /// The formats of a text such as `yyyy/MM/dd||epoch_millis`.
    ///
    /// # Errors
    /// The part that is not known.
    pub fn parse(text: &str) -> Result<DateFormats, String> {
        let all = text.split("||").map(|one| match one {
            "" => Err(String::new()),
            one => DateFormat::parse(one),
        });
        let all: Vec<DateFormat> = all.take(FORMATS_MAX + 1).collect::<Result<_, _>>()?;
        if all.len() > FORMATS_MAX {
            return Err(format!("more than {FORMATS_MAX} formats"));
        }
        let text = text.to_owned();
        Ok(DateFormats(Arc::new(Formats { text, all })))
    }

    /// As it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    /// Each of them, in order.
    #[must_use]
    pub fn all(&self) -> &[DateFormat] {
        &self.0.all
    }

    /// The one that dates are shown in: the first.
    #[must_use]
    pub fn shown(&self) -> &DateFormat {
        self.0.all.first().unwrap_or(&DateFormat::ISO)
    }

    /// The milliseconds since 1970 UTC that a value of a document says, a number as the text that
    /// it is written as; none if no format fits. Without an offset it is a time of UTC.
    #[must_use]
    pub fn millis_of(&self, value: &Value) -> Option<i64> {
        self.millis_of_ordered(&value.get())
    }

    pub(crate) fn millis_of_ordered(&self, value: &OrderedValue<'_>) -> Option<i64> {
        let number;
        let text = match value {
            OrderedValue::String(text) => text.as_ref(),
            OrderedValue::Int(value) => {
                number = value.to_string();
                &number
            }
            OrderedValue::UInt(value) => {
                number = value.to_string();
                &number
            }
            OrderedValue::Float(value) => {
                number = value.to_string();
                &number
            }
            _ => return None,
        };
        self.read(text).map(|(millis, _)| millis)
    }

    fn read(&self, text: &str) -> Option<(i64, DateGrain)> {
        let mut all = self.0.all.iter();
        let (millis, grain) = all.find_map(|one| one.read_grain(text, &TimeZone::UTC))?;
        Timestamp::from_millisecond(millis).ok()?;
        Some((millis, grain))
    }
}

impl fmt::Debug for DateFormats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DateFormats({:?})", self.0.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_format_that_fits_a_value_reads_it() {
        let formats = DateFormats::parse("yyyy/MM/dd HH:mm:ss||yyyy/MM/dd||epoch_millis").unwrap();
        for (value, expected) in [
            (Value::from("1970/01/02 00:00:01"), Some(86_401_000)),
            (Value::from("1970/01/02"), Some(86_400_000)),
            (Value::from("5000"), Some(5_000)),
            (Value::from(5_000), Some(5_000)),
            (Value::from(1.5), Some(1)),
            (Value::from(i64::MAX), None),
            (Value::from("1970-01-02"), None),
            (Value::from("1970/02/30"), None),
            (Value::from(true), None),
            (Value::null(), None),
        ] {
            assert_eq!(formats.millis_of(&value), expected, "{value}");
        }
        let seconds = DateFormats::parse("yyyy||epoch_second").unwrap();
        assert_eq!(seconds.millis_of(&Value::from(1971)), Some(31_536_000_000));
        assert_eq!(seconds.millis_of(&Value::from(86_400)), Some(86_400_000));
        assert_eq!(seconds.millis_of(&Value::from(86_400.25)), Some(86_400_250));
        let unknown = DateFormats::parse("yyyy||yyyy-QQ").map(|_| ());
        assert_eq!(unknown, Err("QQ".into()));
        assert!(DateFormats::parse("yyyy||").is_err());
        assert!(DateFormats::parse(&"yyyy||".repeat(40)).is_err());
    }
}
