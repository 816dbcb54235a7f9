//! Scalar values as bytes that sort as the values do, for composite keys.
//!
//! # Invariants
//! 1. Comparing encoded values bytewise compares the values (ascending), or compares them the other
//!    way round (descending: every byte complemented).
//! 2. No encoded value is a prefix of another of the same direction: values can be concatenated,
//!    with any bytes behind the last, and compare element by element.
//! 3. Each value has one encoding, and decoding gives back exactly that value, its type included.
//!
//! # Order
//! null < false < true < numbers < strings < bytes < timestamps.
//!
//! Numbers share one order, by exact value whatever their type: 1 < 1.5 < 2, and 2^53 + 1 lies
//! between the floats 2^53 and 2^53 + 2. Where an integer and a float are equal the integer comes
//! first; -0.0 comes between the integer 0 and 0.0. The infinities are the ends. NaN is refused.
//! Strings and bytes compare bytewise, timestamps by time.
//!
//! # Layout (big-endian)
//! ```text
//! null, false, true   | 0x01 |, | 0x02 |, | 0x03 |
//! number              0x10 to 0x96: see `number.rs`
//! string              | 0xa0 | UTF-8, each 0x00 as 0x00 0xff | 0x00 0x01 |
//! bytes               | 0xa8 | bytes, likewise               | 0x00 0x01 |
//! timestamp           | 0xb0 | 8: microseconds since 1970 UTC, sign bit flipped |
//! ```

mod number;
mod reader;

use crate::error::Error;
use crate::value::ValueRef;
use number::Number;
use reader::Reader;
use std::borrow::Cow;
use std::cmp::Ordering;

const NULL: u8 = 0x01;
const FALSE: u8 = 0x02;
const TRUE: u8 = 0x03;
const STRING: u8 = 0xa0;
const BYTES: u8 = 0xa8;
const TIMESTAMP: u8 = 0xb0;

/// Which way encoded values sort.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Smallest first.
    Ascending,
    /// Largest first.
    Descending,
}

/// A scalar value that has a place in the order: see the [module](self) for which.
///
/// Equality and order are those of the encoding: `Int(1)` and `UInt(1)` are one value, `Float(1.0)`
/// is another. A NaN can't be encoded; [`Ord`] puts it beyond the infinity of its sign.
#[derive(Debug, Clone)]
pub enum OrderedValue<'a> {
    /// No value.
    Null,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// An integer above `i64::MAX` (a smaller one is taken as `Int`).
    UInt(u64),
    /// A float, NaN excepted.
    Float(f64),
    /// A string.
    String(Cow<'a, str>),
    /// Bytes.
    Bytes(Cow<'a, [u8]>),
    /// A time, in microseconds since 1970 UTC.
    Timestamp(i64),
}

impl<'a> OrderedValue<'a> {
    /// The value of a document's field; none if it is an array or an object.
    #[must_use]
    pub fn from_value(value: ValueRef<'a>) -> Option<OrderedValue<'a>> {
        Some(match value {
            ValueRef::Null => OrderedValue::Null,
            ValueRef::Bool(value) => OrderedValue::Bool(value),
            ValueRef::Int(value) => OrderedValue::Int(value),
            ValueRef::UInt(value) => OrderedValue::UInt(value),
            ValueRef::Float(value) => OrderedValue::Float(value.value()),
            ValueRef::String(value) => OrderedValue::String(Cow::Borrowed(value)),
            ValueRef::Array(_) | ValueRef::Object(_) => return None,
        })
    }

    /// Appends the encoding: at most 12 bytes, or 3 more than twice a string's or bytes' own
    /// length.
    ///
    /// ```
    /// use quire_model::ordered::{Direction, OrderedValue};
    ///
    /// let encode = |value: OrderedValue<'_>| {
    ///     let mut out = Vec::new();
    ///     value.encode(Direction::Ascending, &mut out).map(|()| out)
    /// };
    /// assert!(encode(OrderedValue::Int(1))? < encode(OrderedValue::Float(1.5))?);
    /// assert!(encode(OrderedValue::Float(1.5))? < encode(OrderedValue::Int(2))?);
    /// let bytes = encode(OrderedValue::Int(2))?;
    /// let (value, rest) = OrderedValue::decode(&bytes, Direction::Ascending)?;
    /// assert_eq!((value, rest), (OrderedValue::Int(2), &[][..]));
    /// # Ok::<(), quire_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NaN`]; `out` is then as it was.
    pub fn encode(&self, direction: Direction, out: &mut Vec<u8>) -> Result<(), Error> {
        let start = out.len();
        match self {
            OrderedValue::Null => out.push(NULL),
            OrderedValue::Bool(value) => out.push(if *value { TRUE } else { FALSE }),
            OrderedValue::Int(value) => number::encode_integer((*value).into(), out),
            OrderedValue::UInt(value) => number::encode_integer((*value).into(), out),
            OrderedValue::Float(value) => number::encode_float(*value, out)?,
            OrderedValue::String(value) => encode_bytes(STRING, value.as_bytes(), out),
            OrderedValue::Bytes(value) => encode_bytes(BYTES, value, out),
            OrderedValue::Timestamp(micros) => {
                out.push(TIMESTAMP);
                out.extend_from_slice(&(*micros as u64 ^ 1 << 63).to_be_bytes());
            }
        }
        if direction == Direction::Descending {
            out.iter_mut().skip(start).for_each(|byte| *byte = !*byte);
        }
        Ok(())
    }

    /// The value that `bytes` start with, and the bytes behind it.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if they do not start with an encoded value of that direction.
    pub fn decode(
        bytes: &'a [u8],
        direction: Direction,
    ) -> Result<(OrderedValue<'a>, &'a [u8]), Error> {
        let mut reader = Reader::new(
            bytes,
            match direction {
                Direction::Ascending => 0,
                Direction::Descending => 0xff,
            },
        );
        let tag = reader.next()?;
        let value = match tag {
            NULL => OrderedValue::Null,
            FALSE => OrderedValue::Bool(false),
            TRUE => OrderedValue::Bool(true),
            number::TAG_MIN..=number::TAG_MAX => match number::decode(tag, &mut reader)? {
                Number::Int(value) => OrderedValue::Int(value),
                Number::UInt(value) => OrderedValue::UInt(value),
                Number::Float(value) => OrderedValue::Float(value),
            },
            STRING => OrderedValue::String(match decode_bytes(&mut reader)? {
                Cow::Borrowed(text) => {
                    let text = std::str::from_utf8(text);
                    Cow::Borrowed(text.map_err(|_| reader.corrupt("a string that is not UTF-8"))?)
                }
                Cow::Owned(text) => {
                    let text = String::from_utf8(text);
                    Cow::Owned(text.map_err(|_| reader.corrupt("a string that is not UTF-8"))?)
                }
            }),
            BYTES => OrderedValue::Bytes(decode_bytes(&mut reader)?),
            TIMESTAMP => {
                let mut micros = 0_u64;
                for _ in 0..8 {
                    micros = micros << 8 | u64::from(reader.next()?);
                }
                OrderedValue::Timestamp((micros ^ 1 << 63) as i64)
            }
            _ => return Err(reader.corrupt("no type of an ordered value")),
        };
        Ok((value, bytes.get(reader.at..).unwrap_or_default()))
    }

    /// The index of the type in the order of types.
    fn type_index(&self) -> u8 {
        match self {
            OrderedValue::Null => 0,
            OrderedValue::Bool(_) => 1,
            OrderedValue::Int(_) | OrderedValue::UInt(_) | OrderedValue::Float(_) => 2,
            OrderedValue::String(_) => 3,
            OrderedValue::Bytes(_) => 4,
            OrderedValue::Timestamp(_) => 5,
        }
    }
}

impl Ord for OrderedValue<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        use OrderedValue::{Bool, Bytes, Float, Int, Null, String, Timestamp, UInt};
        match (self, other) {
            (Null, Null) => Ordering::Equal,
            (Bool(a), Bool(b)) => a.cmp(b),
            (String(a), String(b)) => a.cmp(b),
            (Bytes(a), Bytes(b)) => a.cmp(b),
            (Timestamp(a), Timestamp(b)) => a.cmp(b),
            (Float(a), Float(b)) => a.total_cmp(b),
            (Int(a), Int(b)) => a.cmp(b),
            (UInt(a), UInt(b)) => a.cmp(b),
            (Int(a), UInt(b)) => i128::from(*a).cmp(&i128::from(*b)),
            (UInt(a), Int(b)) => i128::from(*a).cmp(&i128::from(*b)),
            (Int(a), Float(b)) => number::compare((*a).into(), *b),
            (UInt(a), Float(b)) => number::compare((*a).into(), *b),
            (Float(a), Int(b)) => number::compare((*b).into(), *a).reverse(),
            (Float(a), UInt(b)) => number::compare((*b).into(), *a).reverse(),
            _ => self.type_index().cmp(&other.type_index()),
        }
    }
}

impl PartialOrd for OrderedValue<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for OrderedValue<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for OrderedValue<'_> {}

fn encode_bytes(tag: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(bytes.len() + 3);
    out.push(tag);
    // Most strings have no zero byte, and this search is vectorized.
    if bytes.contains(&0) {
        for byte in bytes {
            out.push(*byte);
            if *byte == 0 {
                out.push(0xff);
            }
        }
    } else {
        out.extend_from_slice(bytes);
    }
    out.extend_from_slice(&[0, 1]);
}

/// Bytes up to their end mark; borrowed if they need no unescaping.
fn decode_bytes<'a>(reader: &mut Reader<'a>) -> Result<Cow<'a, [u8]>, Error> {
    let start = reader.at;
    let mut copy: Option<Vec<u8>> = (reader.flip != 0).then(Vec::new);
    if copy.is_none() {
        // As a rule this is the end mark.
        let left = reader.bytes.get(start..).unwrap_or_default();
        reader.at += memchr::memchr(0, left).unwrap_or(0);
    }
    loop {
        let byte = reader.next()?;
        if byte != 0 {
            if let Some(copy) = &mut copy {
                copy.push(byte);
            }
            continue;
        }
        let so_far = reader.bytes.get(start..reader.at - 1).unwrap_or_default();
        match reader.next()? {
            1 => return Ok(copy.map_or(Cow::Borrowed(so_far), Cow::Owned)),
            0xff => copy.get_or_insert_with(|| so_far.to_vec()).push(0),
            _ => {
                return Err(
                    reader.corrupt("a zero byte that neither ends a string nor stands for one")
                );
            }
        }
    }
}

#[cfg(test)]
mod tests;
