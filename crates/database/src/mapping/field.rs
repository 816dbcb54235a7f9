//! [`FieldKind`]: the types that a field can be given.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as STANDARD;
use quire_model::ValueRef;
use quire_model::ordered::OrderedValue;
use quire_query::Value;

use super::point;

/// The type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// Whole text.
    Keyword,
    /// Text, which is compared as a whole too: there is no analysis.
    Text,
    /// As `Text`.
    MatchOnlyText,
    /// As `Keyword`.
    Wildcard,
    /// 64 bits, signed.
    Long,
    /// 32 bits, signed.
    Integer,
    /// 16 bits, signed.
    Short,
    /// 8 bits, signed.
    Byte,
    /// 64 bits, unsigned.
    UnsignedLong,
    /// A number that 64 bits of floating point hold.
    Double,
    /// A number that 32 bits of floating point hold.
    Float,
    /// A number, compared as the nearest one that 16 bits of floating point hold.
    HalfFloat,
    /// A number. Its scaling factor changes nothing: it is compared as it is.
    ScaledFloat,
    /// True or false.
    Boolean,
    /// ISO 8601 text, or milliseconds since 1970 UTC; or what the formats of the field say.
    Date,
    /// A date from 1970 to 2262, compared by time to the nanosecond.
    DateNanos,
    /// An object with any fields.
    FlatObject,
    /// Bytes, as text of base64. Only whether there are some can be searched.
    Binary,
    /// An address of IPv4 or IPv6, compared as an address.
    Ip,
    /// A place: `{"lat": 52.5, "lon": 13.4}`, `[13.4, 52.5]`, `"52.5,13.4"` or
    /// `"POINT (13.4 52.5)"`. Only whether there is one can be searched.
    GeoPoint,
}

const ALL: [(FieldKind, &str); 20] = [
    (FieldKind::Keyword, "keyword"),
    (FieldKind::Text, "text"),
    (FieldKind::MatchOnlyText, "match_only_text"),
    (FieldKind::Wildcard, "wildcard"),
    (FieldKind::Long, "long"),
    (FieldKind::Integer, "integer"),
    (FieldKind::Short, "short"),
    (FieldKind::Byte, "byte"),
    (FieldKind::UnsignedLong, "unsigned_long"),
    (FieldKind::Double, "double"),
    (FieldKind::Float, "float"),
    (FieldKind::HalfFloat, "half_float"),
    (FieldKind::ScaledFloat, "scaled_float"),
    (FieldKind::Boolean, "boolean"),
    (FieldKind::Date, "date"),
    (FieldKind::DateNanos, "date_nanos"),
    (FieldKind::FlatObject, "flat_object"),
    (FieldKind::Binary, "binary"),
    (FieldKind::Ip, "ip"),
    (FieldKind::GeoPoint, "geo_point"),
];

impl FieldKind {
    /// The type of this name.
    pub fn named(name: &str) -> Option<FieldKind> {
        let mut all = ALL.into_iter();
        all.find(|(_, of)| *of == name).map(|(kind, _)| kind)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        let mut all = ALL.into_iter();
        let named = all.find(|(kind, _)| *kind == self);
        named.map_or("object", |(_, name)| name)
    }

    /// Whether its values are numbers.
    pub fn is_number(self) -> bool {
        self.whole_numbers().is_some() || self.magnitude_max().is_some()
    }

    /// Whether its values are whole numbers.
    pub fn is_whole(self) -> bool {
        self.whole_numbers().is_some()
    }

    /// Whether its values are text.
    pub fn is_text(self) -> bool {
        use FieldKind::{Keyword, MatchOnlyText, Text, Wildcard};
        matches!(self, Keyword | MatchOnlyText | Text | Wildcard)
    }

    /// Whether OpenSearch analyzes its values: searches each word of them.
    pub fn is_analyzed(self) -> bool {
        matches!(self, FieldKind::Text | FieldKind::MatchOnlyText)
    }

    /// Whether documents can be found, sorted and grouped by its values, and not only by whether
    /// there is one.
    pub fn is_searchable(self) -> bool {
        !matches!(self, FieldKind::Binary | FieldKind::GeoPoint)
    }

    /// Whether its values are dates.
    pub fn is_date(self) -> bool {
        matches!(self, FieldKind::Date | FieldKind::DateNanos)
    }

    /// The numbers that a type of whole numbers holds.
    fn whole_numbers(self) -> Option<RangeInclusive<i128>> {
        Some(match self {
            FieldKind::Long => i64::MIN.into()..=i64::MAX.into(),
            FieldKind::Integer => i32::MIN.into()..=i32::MAX.into(),
            FieldKind::Short => i16::MIN.into()..=i16::MAX.into(),
            FieldKind::Byte => i8::MIN.into()..=i8::MAX.into(),
            FieldKind::UnsignedLong => 0..=u64::MAX.into(),
            _ => return None,
        })
    }

    /// The least and the greatest number of a type of numbers.
    pub fn bounds(self) -> Option<(Value, Value)> {
        if let Some(most) = self.magnitude_max() {
            return Some((Value::from(-most), Value::from(most)));
        }
        let range = self.whole_numbers()?;
        let value = |number: i128| match i64::try_from(number) {
            Ok(number) => Some(Value::from(number)),
            Err(_) => u64::try_from(number).ok().map(Value::from),
        };
        Some((value(*range.start())?, value(*range.end())?))
    }

    /// How far from 0 a number of a type with fractions may be.
    fn magnitude_max(self) -> Option<f64> {
        match self {
            FieldKind::Double | FieldKind::ScaledFloat => Some(f64::MAX),
            FieldKind::Float => Some(f32::MAX.into()),
            FieldKind::HalfFloat => Some(65_504.0),
            _ => None,
        }
    }

    /// Why a value, which is neither null nor an array, is none of this type. If it `coerces`, text
    /// that is a number counts as one.
    pub(super) fn refuses(self, value: ValueRef<'_>, coerces: bool) -> Option<String> {
        let said;
        let value = match value {
            ValueRef::String(text) if coerces && self.is_number() => {
                said = Value::from_numeral(text);
                match said.as_ref().map(Value::get) {
                    Some(OrderedValue::Int(number)) => ValueRef::Int(number),
                    Some(OrderedValue::UInt(number)) => ValueRef::UInt(number),
                    Some(OrderedValue::Float(number)) => return self.refuses_number(number),
                    _ => value,
                }
            }
            value => value,
        };
        if self == FieldKind::FlatObject {
            let what = || format!("{} is no object", value.type_name());
            return (!matches!(value, ValueRef::Object(_))).then(what);
        }
        if self == FieldKind::GeoPoint {
            return point::refuses(value);
        }
        if matches!(value, ValueRef::Object(_)) {
            return Some("Can't get text on a START_OBJECT".to_owned());
        }
        if let Some(range) = self.whole_numbers() {
            return self.refuses_whole(value, &range);
        }
        if self.magnitude_max().is_some() {
            return match number(value) {
                Ok(number) => self.refuses_number(number),
                Err(what) => Some(self.no_number(&what)),
            };
        }
        match self {
            FieldKind::Boolean => {
                let is_boolean = matches!(
                    value,
                    ValueRef::Bool(_) | ValueRef::String("true" | "false")
                );
                (!is_boolean).then(|| {
                    let shown = shown(value);
                    format!(
                        "Failed to parse value [{shown}] as only [true] or [false] are allowed."
                    )
                })
            }
            FieldKind::Date | FieldKind::DateNanos => {
                let date = match value {
                    ValueRef::String(text) => Some(Value::from(text)),
                    ValueRef::Int(millis) => Some(Value::from(millis)),
                    _ => None,
                };
                let millis = date.and_then(|date| date.as_date_millis());
                if self == FieldKind::DateNanos
                    && let Some(beyond) = millis.and_then(beyond_nanos)
                {
                    let shown = shown(value);
                    return Some(format!(
                        "date[{shown}] is {beyond} and cannot be stored in nanosecond resolution"
                    ));
                }
                millis.is_none().then(|| {
                    let shown = shown(value);
                    format!(
                        "failed to parse date field [{shown}] with format \
                         [strict_date_optional_time||epoch_millis]"
                    )
                })
            }
            FieldKind::Ip => {
                let is_address = matches!(value, ValueRef::String(text) if is_address(text));
                let what = || format!("'{}' is not an IP string literal.", shown(value));
                (!is_address).then(what)
            }
            FieldKind::Binary => {
                let is_base64 =
                    matches!(value, ValueRef::String(text) if STANDARD.decode(text).is_ok());
                (!is_base64).then(|| "the value is not text of base64".to_owned())
            }
            _ => None,
        }
    }

    fn refuses_whole(self, value: ValueRef<'_>, range: &RangeInclusive<i128>) -> Option<String> {
        let whole = match value {
            ValueRef::Int(number) => i128::from(number),
            ValueRef::UInt(number) => number.into(),
            _ => match number(value) {
                Ok(number) => return self.refuses_number(number),
                Err(what) => return Some(self.no_number(&what)),
            },
        };
        self.refuses_beyond(whole, range)
    }

    fn refuses_beyond(self, whole: i128, range: &RangeInclusive<i128>) -> Option<String> {
        let name = self.name();
        (!range.contains(&whole)).then(|| format!("Value [{whole}] is out of range for a {name}"))
    }

    /// Why a number of floating point is none of this type of numbers.
    fn refuses_number(self, number: f64) -> Option<String> {
        let name = self.name();
        if let Some(range) = self.whole_numbers() {
            return match number.fract() == 0.0 {
                // Numbers of this size are exact; greater ones are out of every range.
                true => self.refuses_beyond(number as i128, &range),
                false => Some(format!(
                    "Value [{number}] is not a whole number: type {name}"
                )),
            };
        }
        let is_beyond = self.magnitude_max().is_some_and(|most| number.abs() > most);
        is_beyond.then(|| format!("[{name}] supports only finite values, but got [{number}]"))
    }

    fn no_number(self, what: &str) -> String {
        match what.parse::<f64>() {
            // OpenSearch calls the option that says so `coerce`.
            Ok(_) => format!("{} value passed as String", self.name()),
            Err(_) => format!("For input string: \"{what}\""),
        }
    }
}

/// Why a moment, in milliseconds since 1970 UTC, can't be said in nanoseconds since then.
fn beyond_nanos(millis: i64) -> Option<&'static str> {
    match millis {
        ..0 => Some("before the epoch in 1970"),
        at if at > i64::MAX / 1_000_000 => Some("after 2262-04-11T23:47:16.854775807"),
        _ => None,
    }
}

fn is_address(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
}

/// The number, or what is there in its place.
fn number(value: ValueRef<'_>) -> Result<f64, String> {
    match value {
        // Only the size is looked at, not the last digits.
        ValueRef::Int(number) => Ok(number as f64),
        ValueRef::UInt(number) => Ok(number as f64),
        ValueRef::Float(number) => Ok(number.value()),
        other => Err(shown(other)),
    }
}

/// The value as OpenSearch shows it: text without quotes.
pub(super) fn shown(value: ValueRef<'_>) -> String {
    if let ValueRef::String(text) = value {
        return text.to_owned();
    }
    let mut json = Vec::new();
    value.write_json(&mut json);
    String::from_utf8_lossy(&json).into_owned()
}
