//! [`Cast`]: values that are compared as what they say, and not as what they are.

use crate::dates::millis_of;
use crate::value::number;
use crate::{Bounds, Error, Result, TermRange, Value};
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cast {
    /// A number, or a string that holds one: `"17.5"`.
    Number,
    /// A moment, in milliseconds: text of ISO 8601 with any offset, or a number of milliseconds
    /// since 1970 UTC. See [`Value::as_date_millis`].
    Date,
    /// An address of IPv4 or IPv6. One of IPv4 equals itself written as IPv6. A bound may be a
    /// block: `"10.0.0.0/8"`, which is all of its addresses.
    Address,
    /// Text: a string, or a number or a boolean as it is written: 200 is `"200"`.
    Text,
    /// A boolean, or the string `"true"` or `"false"`.
    Boolean,
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
    pub(crate) fn name(self) -> &'static str {
        match self {
            Cast::Number => "NUMBER",
            Cast::Date => "DATE",
            Cast::Address => "ADDRESS",
            Cast::Text => "TEXT",
            Cast::Boolean => "BOOLEAN",
        }
    }

    /// All there are.
    pub(crate) const ALL: [Cast; 5] = [
        Cast::Number,
        Cast::Date,
        Cast::Address,
        Cast::Text,
        Cast::Boolean,
    ];

    /// What a value says, to be compared; none if it says nothing of this kind, as null does.
    pub(crate) fn of(self, value: &OrderedValue<'_>) -> Option<Value> {
        match (self, value) {
            (Cast::Date, value) => millis_of(value).map(Value::from),
            (_, OrderedValue::String(text)) => match self {
                Cast::Number => Value::from_numeral(text),
                Cast::Address => address(text).map(of_address),
                Cast::Boolean => text.parse::<bool>().ok().map(Value::from),
                Cast::Text | Cast::Date => Some(Value::from(text.as_ref())),
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
    pub(crate) fn of_term(self, term: &[u8]) -> Option<Value> {
        term::decode(term).and_then(|value| self.of(&value))
    }

    /// The first bytes of the terms that it leaves as they are; none if it may change any.
    pub(crate) fn kept(self) -> Option<Range<u8>> {
        let one = match self {
            Cast::Number => Value::from(0),
            Cast::Text => Value::from(""),
            Cast::Boolean => Value::from(true),
            Cast::Date | Cast::Address => return None,
        };
        Some(term::type_range(one.term()))
    }

    /// The text of the value that an address is compared as: of IPv4 where it is one.
    #[must_use]
    pub fn address_text(value: &Value) -> Option<String> {
        let bits = u128::from_str_radix(&value.as_str()?, 16).ok()?;
        let address = Ipv6Addr::from_bits(bits);
        Some(match address.to_ipv4_mapped() {
            Some(address) => address.to_string(),
            None => address.to_string(),
        })
    }

    /// What matches between two bounds; none if nothing can.
    ///
    /// # Errors
    /// `Invalid` if a bound is nothing of this kind.
    pub(crate) fn target(self, bounds: &Bounds) -> Result<Option<Target>> {
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
            Cast::Date => dates(bounds),
            Cast::Address => addresses(bounds),
            Cast::Text => of_type(bounds, strings, TermRange::of_booleans_and_numbers()),
            Cast::Boolean => of_type(bounds, TermRange::of_booleans(), strings),
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

fn dates(bounds: &Bounds) -> Result<Option<Target>> {
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
    if from > to {
        return Ok(None);
    }
    // A part of a millisecond is no part of a date.
    let (first, end) = (Value::from(from), Value::from(to + 1));
    let numbers = TermRange::between(Included(&first), Excluded(&end))?;
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
    let strings = TermRange::between(Included(&lower), upper)?;
    Ok(numbers.zip(strings).map(|(range, strings)| Target {
        plain: Some(range.clone()),
        range,
        others: strings,
    }))
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
