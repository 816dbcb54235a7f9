//! [`Cast`]: values that are compared as what they say, and not as what they are.

use crate::dates::{NANOS_PER_MILLI, millis_of, nanos_of};
use crate::value::number;
use crate::{Bounds, DateFormats, Error, Result, TermRange, Value};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use quire_index::term;
use quire_model::ordered::OrderedValue;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Bound::{self, Excluded, Included, Unbounded};
use std::ops::Range;

/// The local time of a text is by less than this before or after UTC, in milliseconds.
const OFFSET_MAX: i64 = 26 * 3_600_000;

const DAY: i64 = 24 * 3_600_000;

/// As what a value is compared. A value that is none of it doesn't match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cast {
    /// A number, or a string that holds one: `"17.5"`.
    Number,
    /// A number as 16 bits of floating point hold it: 184.4 is 184.375. Bounds are rounded too.
    Half,
    /// A moment, in milliseconds: text of ISO 8601 with any offset, or a number of milliseconds
    /// since 1970 UTC. See [`Value::as_date_millis`].
    Date,
    /// A moment, in milliseconds, as these formats read it. Bounds are milliseconds, or text of ISO
    /// 8601.
    DateAs(DateFormats),
    /// A moment, in nanoseconds, read as that of `Date`. Bounds are numbers of nanoseconds since
    /// 1970 UTC.
    Nanos,
    /// An address of IPv4 or IPv6. One of IPv4 equals itself written as IPv6. A bound may be a
    /// block: `"10.0.0.0/8"`, which is all of its addresses.
    Address,
    /// Text: a string, or a number or a boolean as it is written: 200 is `"200"`.
    Text,
    /// A boolean, or the string `"true"` or `"false"`.
    Boolean,
    /// The number 1 for what is true as a `Boolean`, and 0 for what is false: to be measured.
    Flag,
}

/// What shards look for, and which of it is tested.
pub(crate) struct Target {
    /// What the values are as terms, once they are cast.
    pub(crate) range: TermRange,
    /// Values that match as they are; none if none can.
    pub(crate) plain: Option<TermRange>,
    /// Other values, among which all are that match.
    pub(crate) others: TermRange,
}

impl Cast {
    /// Its name, as a function of filters.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Cast::Number | Cast::Half | Cast::Flag => "NUMBER",
            Cast::Date | Cast::DateAs(_) | Cast::Nanos => "DATE",
            Cast::Address => "ADDRESS",
            Cast::Text => "TEXT",
            Cast::Boolean => "BOOLEAN",
        }
    }

    /// Those that the text of a filter can name.
    pub(crate) const ALL: [Cast; 5] = [
        Cast::Number,
        Cast::Date,
        Cast::Address,
        Cast::Text,
        Cast::Boolean,
    ];

    /// What a value says, to be compared; none if it says nothing of this kind, as null does.
    pub(crate) fn of(&self, value: &OrderedValue<'_>) -> Option<Value> {
        match (self, value) {
            (Cast::Date, value) => millis_of(value).map(Value::from),
            (Cast::DateAs(formats), value) => formats.millis_of_ordered(value).map(Value::from),
            (Cast::Nanos, value) => nanos_of(value).map(Value::from),
            (Cast::Half, value) => Cast::Number.of(value).and_then(|number| half(&number)),
            (Cast::Flag, value) => {
                let flag = Cast::Boolean.of(value)?;
                Some(Value::from(i64::from(flag == Value::from(true))))
            }
            (_, OrderedValue::String(text)) => match self {
                Cast::Number => Value::from_numeral(text),
                Cast::Address => address(text).map(of_address),
                Cast::Boolean => text.parse::<bool>().ok().map(Value::from),
                Cast::Text
                | Cast::Half
                | Cast::Date
                | Cast::DateAs(_)
                | Cast::Nanos
                | Cast::Flag => Some(Value::from(text.as_ref())),
            },
            (Cast::Text, OrderedValue::Bool(value)) => Some(Value::from(value.to_string())),
            (Cast::Text, value) => {
                number(value)?;
                Some(Value::from(Value::from(value.clone()).to_string()))
            }
            (Cast::Boolean, OrderedValue::Bool(value)) => Some(Value::from(*value)),
            (Cast::Number, value) => number(value).map(|_| Value::from(value.clone())),
            (Cast::Address | Cast::Boolean, _) => None,
        }
    }

    /// As [`of`](Cast::of), of the value of a term.
    pub(crate) fn of_term(&self, term: &[u8]) -> Option<Value> {
        term::decode(term).and_then(|value| self.of(&value))
    }

    /// The first bytes of the terms that it leaves as they are; none if it may change any.
    pub(crate) fn kept(&self) -> Option<Range<u8>> {
        let one = match self {
            Cast::Number => Value::from(0),
            Cast::Text => Value::from(""),
            Cast::Boolean => Value::from(true),
            Cast::Half
            | Cast::Date
            | Cast::DateAs(_)
            | Cast::Nanos
            | Cast::Address
            | Cast::Flag => return None,
        };
        Some(term::type_range(one.term()))
    }

    /// An address as text: of IPv4 where it stands for one.
    #[must_use]
    pub fn show_address(address: Ipv6Addr) -> String {
        match address.to_ipv4_mapped() {
            Some(address) => address.to_string(),
            None => address.to_string(),
        }
    }

    /// The first and the last address of a block, `"10.0.0.0/8"`, or of one address; none if the
    /// text is neither.
    #[must_use]
    pub fn address_block(text: &str) -> Option<(Ipv6Addr, Ipv6Addr)> {
        let (first, last) = block(text)?;
        Some((Ipv6Addr::from_bits(first), Ipv6Addr::from_bits(last)))
    }

    /// The text of the value that an address is compared as: of IPv4 where it is one.
    #[must_use]
    pub fn address_text(value: &Value) -> Option<String> {
        let bits = u128::from_str_radix(&value.as_str()?, 16).ok()?;
        Some(Cast::show_address(Ipv6Addr::from_bits(bits)))
    }

    /// What matches between two bounds; none if nothing can.
    ///
    /// # Errors
    /// `Invalid` if a bound is nothing of this kind.
    pub(crate) fn target(&self, bounds: &Bounds) -> Result<Option<Target>> {
        let strings = TermRange::of_prefix("");
        match self {
            Cast::Number => {
                let range = TermRange::of_numbers(bounds.0.as_ref(), bounds.1.as_ref())?;
                Ok(range.map(|range| Target {
                    plain: Some(range.clone()),
                    range,
                    others: strings,
                }))
            }
            Cast::Half => halves(bounds),
            Cast::Date => dates(bounds),
            Cast::DateAs(_) => formatted_dates(bounds),
            Cast::Nanos => nanos(bounds),
            Cast::Address => addresses(bounds),
            Cast::Text => of_type(bounds, strings, TermRange::of_booleans_and_numbers()),
            Cast::Boolean => of_type(bounds, TermRange::of_booleans(), strings),
            Cast::Flag => {
                let range = TermRange::of_numbers(bounds.0.as_ref(), bounds.1.as_ref())?;
                Ok(range.map(|range| Target {
                    range,
                    plain: None,
                    others: TermRange::of_booleans_to_strings(),
                }))
            }
        }
    }
}

impl fmt::Display for Cast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn invalid<T>(value: &Value, what: &str) -> Result<T> {
    Err(Error::Invalid(format!(
        "a field is compared as {what} with {value}, which is none"
    )))
}

/// A number as 16 bits of floating point hold it; one that they can't hold stays as it is.
fn half(number: &Value) -> Option<Value> {
    // Of the significand, and the exponent of the least number with all of them.
    const DIGITS: i32 = 10;
    const EXPONENT_MIN: i32 = -14;
    // As OpenSearch does it, by way of 32 bits.
    let number = f64::from(number.as_f64()? as f32);
    let exponent = ((number.to_bits() >> 52) & 0x7ff) as i32 - 1023;
    let unit = 2_f64.powi(exponent.max(EXPONENT_MIN) - DIGITS);
    let rounded = (number / unit).round_ties_even() * unit;
    // One zero.
    Some(Value::from(if rounded.is_finite() {
        rounded + 0.0
    } else {
        number
    }))
}

/// Numbers between two bounds, all rounded.
fn halves(bounds: &Bounds) -> Result<Option<Target>> {
    let rounded = |bound: &Bound<Value>| match bound {
        Unbounded => Ok(Unbounded),
        Included(value) | Excluded(value) => match (half(value), bound) {
            (None, _) => invalid(value, "a number"),
            (Some(value), Excluded(_)) => Ok(Excluded(value)),
            (Some(value), _) => Ok(Included(value)),
        },
    };
    let (lower, upper) = (rounded(&bounds.0)?, rounded(&bounds.1)?);
    let range = TermRange::of_numbers(lower.as_ref(), upper.as_ref())?;
    Ok(range.map(|range| Target {
        range,
        plain: None,
        others: TermRange::of_numbers_and_strings(),
    }))
}

/// The first and the last millisecond between two bounds; none if there is none.
fn millis_between(bounds: &Bounds) -> Result<Option<(i64, i64)>> {
    let millis = |value: &Value| match value.as_date_millis() {
        Some(millis) => Ok(millis),
        None => invalid(value, "a date"),
    };
    let least = Timestamp::MIN.as_millisecond();
    let most = Timestamp::MAX.as_millisecond();
    let from = match &bounds.0 {
        Unbounded => least,
        Included(value) => millis(value)?,
        Excluded(value) => millis(value)? + 1,
    };
    let to = match &bounds.1 {
        Unbounded => most,
        Included(value) => millis(value)?,
        Excluded(value) => millis(value)? - 1,
    };
    Ok((from <= to).then_some((from, to)))
}

/// Any number and any text may be a date of a format.
fn formatted_dates(bounds: &Bounds) -> Result<Option<Target>> {
    let Some((from, to)) = millis_between(bounds)? else {
        return Ok(None);
    };
    let (from, to) = (Value::from(from), Value::from(to));
    let range = TermRange::between(Included(&from), Included(&to))?;
    Ok(range.map(|range| Target {
        range,
        plain: None,
        others: TermRange::of_numbers_and_strings(),
    }))
}

fn dates(bounds: &Bounds) -> Result<Option<Target>> {
    let Some((from, to)) = millis_between(bounds)? else {
        return Ok(None);
    };
    // A part of a millisecond is no part of a date.
    let (first, end) = (Value::from(from), Value::from(to + 1));
    let numbers = TermRange::between(Included(&first), Excluded(&end))?;
    Ok(numbers
        .zip(texts(from, to)?)
        .map(|(range, strings)| Target {
            plain: Some(range.clone()),
            range,
            others: strings,
        }))
}

/// Dates by nanosecond. Numbers of documents are milliseconds.
fn nanos(bounds: &Bounds) -> Result<Option<Target>> {
    let number = |value: &Value| match value.get() {
        OrderedValue::Int(nanos) => Ok(nanos),
        _ => invalid(value, "a number of nanoseconds"),
    };
    let from = match &bounds.0 {
        Unbounded => i64::MIN,
        Included(value) => number(value)?,
        Excluded(value) => number(value)?.saturating_add(1),
    };
    let to = match &bounds.1 {
        Unbounded => i64::MAX,
        Included(value) => number(value)?,
        Excluded(value) => number(value)?.saturating_sub(1),
    };
    if from > to {
        return Ok(None);
    }
    let (first, last) = (Value::from(from), Value::from(to));
    let range = TermRange::between(Included(&first), Included(&last))?;
    if from == to {
        return Ok(range.map(|range| Target {
            range,
            plain: None,
            others: TermRange::of_numbers_and_strings(),
        }));
    }
    let first = from.div_euclid(NANOS_PER_MILLI) + i64::from(from.rem_euclid(NANOS_PER_MILLI) > 0);
    let last = to.div_euclid(NANOS_PER_MILLI);
    let plain = match first <= last {
        true => {
            let (first, end) = (Value::from(first), Value::from(last + 1));
            TermRange::between(Included(&first), Excluded(&end))?
        }
        false => None,
    };
    let millis = (from.div_euclid(NANOS_PER_MILLI), last);
    Ok(range
        .zip(texts(millis.0, millis.1)?)
        .map(|(range, others)| Target {
            range,
            plain,
            others,
        }))
}

/// The texts of dates between two milliseconds are among these.
fn texts(from: i64, to: i64) -> Result<Option<TermRange>> {
    // Texts of dates begin with the day, which is not always that of UTC.
    let day = |millis: i64| {
        let at = Timestamp::from_millisecond(millis).ok()?;
        let date = at.to_zoned(TimeZone::UTC).date();
        (date.year() >= 0).then(|| Value::from(date.to_string()))
    };
    let lower = day(from.saturating_sub(OFFSET_MAX));
    let upper = day(to.saturating_add(OFFSET_MAX + DAY));
    let lower = lower.unwrap_or_else(|| Value::from(""));
    let upper = upper.as_ref().map_or(Unbounded, Excluded);
    TermRange::between(Included(&lower), upper)
}

/// Values of one type, `own`, and `others` that may say one.
fn of_type(bounds: &Bounds, own: TermRange, others: TermRange) -> Result<Option<Target>> {
    let is_in = |bound: &Bound<Value>| match bound {
        Unbounded => true,
        Included(value) | Excluded(value) => own.contains(value.term()),
    };
    if !is_in(&bounds.0) || !is_in(&bounds.1) {
        let what = "a field is cast to a type, and compared with a value of another";
        return Err(Error::Invalid(what.into()));
    }
    let range = match bounds {
        (Unbounded, Unbounded) => Some(own),
        (lower, upper) => TermRange::between(lower.as_ref(), upper.as_ref())?,
    };
    Ok(range.map(|range| Target {
        plain: Some(range.clone()),
        range,
        others,
    }))
}

fn addresses(bounds: &Bounds) -> Result<Option<Target>> {
    let read = |bound: &Bound<Value>, is_lower: bool| -> Result<Bound<u128>> {
        let (value, is_included) = match bound {
            Unbounded => return Ok(Unbounded),
            Included(value) => (value, true),
            Excluded(value) => (value, false),
        };
        let Some((first, last)) = value.as_str().and_then(|text| block(&text)) else {
            return invalid(value, "an address");
        };
        let end = if is_lower == is_included { first } else { last };
        Ok(match is_included {
            true => Included(end),
            false => Excluded(end),
        })
    };
    let lower = read(&bounds.0, true)?;
    let upper = read(&bounds.1, false)?;
    let lower = match lower {
        Unbounded => Included(of_address(0)),
        bound => bound.map(of_address),
    };
    let upper = upper.map(of_address);
    let range = TermRange::between(lower.as_ref(), upper.as_ref())?;
    Ok(range.map(|range| Target {
        range,
        plain: None,
        // One address may be written in many ways.
        others: TermRange::of_prefix(""),
    }))
}

/// The address that a text is, as one of IPv6.
fn address(text: &str) -> Option<u128> {
    Some(match text.parse().ok()? {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    })
}

/// The first and the last address of a block, `address/bits`, or of one address.
fn block(text: &str) -> Option<(u128, u128)> {
    let Some((start, bits)) = text.split_once('/') else {
        return address(text).map(|one| (one, one));
    };
    let is_v4 = start.parse::<Ipv4Addr>().is_ok();
    let bits: u32 = bits.parse().ok().filter(|_| !bits.starts_with('+'))?;
    let free = if is_v4 { 32_u32 } else { 128 }.checked_sub(bits)?;
    let start = address(start)?;
    let others = u128::MAX.checked_shr(128 - free).unwrap_or(0);
    Some((start & !others, start | others))
}

/// An address as a value whose order is that of addresses.
fn of_address(address: u128) -> Value {
    Value::from(format!("{address:032x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_half_is_the_nearest_number_of_sixteen_bits() {
        for (number, expected) in [
            (184.4, 184.375),
            (-184.4, -184.375),
            (2_048.0, 2_048.0),
            (2_049.0, 2_048.0),
            (2_051.0, 2_052.0),
            (65_504.0, 65_504.0),
            (0.1, 0.099_975_585_937_5),
            (5.960_464_477_539_063e-8, 5.960_464_477_539_063e-8),
            (2e-8, 0.0),
            (0.0, 0.0),
        ] {
            assert_eq!(
                half(&Value::from(number)),
                Some(Value::from(expected)),
                "{number}"
            );
        }
        assert_eq!(
            Cast::Half.of(&Value::from("184.4").get()),
            Some(Value::from(184.375))
        );
        assert_eq!(Cast::Half.of(&Value::from("x").get()), None);
        let bound = Included(Value::from(184.4));
        let target = Cast::Half.target(&(bound.clone(), bound)).unwrap().unwrap();
        assert!(target.range.contains(Value::from(184.375).term()));
    }

    #[test]
    fn dates_of_nanoseconds_and_of_formats_are_found_among_numbers_and_texts() {
        let formats = DateFormats::parse("yyyy/MM/dd||epoch_second").unwrap();
        let cases = [
            (
                Cast::Nanos,
                [Value::from(1_000_000_001), Value::from(1_999_999_999)],
                "\"1970-01-01T00:00:01.000000001Z\" \"1970-01-01T01:00:01.5+01:00\" 1001 1999",
                "\"1970-01-01T00:00:01Z\" 1000 2000 1500000000 true \"x\"",
            ),
            (
                Cast::DateAs(formats),
                [Value::from(86_400_000), Value::from(86_400_000)],
                "\"1970/01/02\" 86400 \"86400\"",
                "\"1970-01-02\" 86400000 \"86401\" false",
            ),
        ];
        for (cast, [lower, upper], within, beyond) in cases {
            let target = cast.target(&(Included(lower), Included(upper)));
            let target = target.unwrap().unwrap();
            for (texts, expected) in [(within, true), (beyond, false)] {
                for text in texts.split(' ') {
                    let value = match text.trim_matches('"') {
                        "true" | "false" => Value::from(text == "true"),
                        bare if bare.len() < text.len() => Value::from(bare),
                        number => Value::from_numeral(number).unwrap(),
                    };
                    let is_plain = target.plain.iter().any(|it| it.contains(value.term()));
                    let is_other = target.others.contains(value.term());
                    let said = cast.of(&value.get()).filter(|_| is_other);
                    let is_in = said.is_some_and(|said| target.range.contains(said.term()));
                    assert_eq!(is_plain || is_in, expected, "{cast:?} {value}");
                }
            }
        }
    }

    fn is_in(text: &str, bound: &str) -> bool {
        let bound = Included(Value::from(bound));
        let target = Cast::Address.target(&(bound.clone(), bound)).unwrap();
        let value = Cast::Address
            .of(&OrderedValue::String(text.into()))
            .unwrap();
        target.is_some_and(|target| target.range.contains(value.term()))
    }

    #[test]
    fn a_block_is_all_of_its_addresses() {
        for (text, block, expected) in [
            ("10.255.0.1", "10.0.0.0/8", true),
            ("11.0.0.0", "10.0.0.0/8", false),
            ("::ffff:10.1.2.3", "10.1.2.3/32", true),
            ("1.2.3.4", "0.0.0.0/0", true),
            ("::1", "0.0.0.0/0", false),
            ("::1", "::/0", true),
            ("2001:db8::42", "2001:0db8::/32", true),
            ("2001:db9::", "2001:db8::/32", false),
        ] {
            assert_eq!(is_in(text, block), expected, "{text} in {block}");
        }
    }

    #[test]
    fn a_bound_that_can_not_be_cast_is_named() {
        for (cast, bound) in [
            (Cast::Address, "10.0.0.0/33"),
            (Cast::Address, "10.0.0"),
            (Cast::Address, "::/+8"),
            (Cast::Date, "yesterday"),
        ] {
            let bounds = (Included(Value::from(bound)), Unbounded);
            let error = cast.target(&bounds).err().map(|error| error.to_string());
            let error = error.unwrap_or_default();
            assert!(error.contains(bound), "{error}");
        }
    }
}
