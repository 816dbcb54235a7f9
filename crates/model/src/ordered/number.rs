//! Numbers in the order: integers and floats in one order by exact value.
//!
//! Every number but zero is ±2^e × 1.f, with e from -1074 (the smallest float) to 1023 and f a
//! binary fraction of at most 63 bits. Exponent, then fraction, then type, each in an
//! order-preserving form, make the order.
//!
//! # Layout
//! ```text
//! positive   | tag | exponent: 2, if tag is 0x54 or 0x95 | fraction: 1 to 9 | type |
//!   tag       0x55 + e for e of 0 to 63, 0x54 below, 0x95 above
//!   exponent  e + 2,048, big-endian
//!   fraction  7 bits a byte in bits 7-1, highest first; bit 0 says that more follow;
//!             no byte of zeros at the end
//! zero       | 0x53 | type |
//! negative   as positive for its magnitude, with tag 0xa6 - that tag (0x11 to 0x52), and with
//!            exponent and fraction complemented
//! infinity   | 0x10 | negative, | 0x96 | positive
//! type       1 integer, 2 the float -0.0, 3 any other float
//! ```
//! A small integer takes 3 bytes, a random f64 10 to 12.

use super::reader::Reader;
use crate::error::Error;
use std::cmp::Ordering;

pub(super) const TAG_MIN: u8 = NEGATIVE_INFINITY;
pub(super) const TAG_MAX: u8 = POSITIVE_INFINITY;

const NEGATIVE_INFINITY: u8 = 0x10;
const ZERO: u8 = 0x53;
const POSITIVE_BELOW_ONE: u8 = 0x54;
const POSITIVE_ONE: u8 = 0x55;
const POSITIVE_LARGE: u8 = 0x95;
const POSITIVE_INFINITY: u8 = 0x96;
/// A positive tag and its negative twin add up to this.
const TAGS_SUM: u8 = 2 * ZERO;

const INTEGER: u8 = 1;
const FLOAT_MINUS_ZERO: u8 = 2;
const FLOAT: u8 = 3;

const EXPONENT_BIAS: i32 = 2048;
const GROUP_BITS: u32 = 7;
const GROUPS_MAX: usize = 9;

/// A number that was decoded.
pub(super) enum Number {
    Int(i64),
    /// Above `i64::MAX` only.
    UInt(u64),
    Float(f64),
}

/// The magnitude of a number that is not zero: 2^`exponent` × (1 + `fraction` / 2^64).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Magnitude {
    exponent: i32,
    fraction: u64,
}

impl Magnitude {
    /// Of `value` × 2^`exponent`; none for zero.
    fn new(value: u64, exponent: i32) -> Option<Self> {
        let top = value.checked_ilog2()?;
        let fraction = value.checked_shl(64 - top).unwrap_or(0);
        Some(Self {
            exponent: exponent + top as i32,
            fraction,
        })
    }

    /// Of a finite float; none for zero.
    fn of_float(value: f64) -> Option<Self> {
        const MANTISSA_BITS: u32 = 52;
        let bits = value.to_bits();
        let mantissa = bits & ((1 << MANTISSA_BITS) - 1);
        match (bits >> MANTISSA_BITS) as i32 & 0x7ff {
            0 => Self::new(mantissa, -1074),
            exponent => Self::new(mantissa | 1 << MANTISSA_BITS, exponent - 1075),
        }
    }

    /// The integer it is, if it is one below 2^64.
    fn to_integer(self) -> Option<u64> {
        let top = u32::try_from(self.exponent).ok().filter(|top| *top < 64)?;
        let value = 1 << top | self.fraction.checked_shr(64 - top).unwrap_or(0);
        (Self::new(value, 0) == Some(self)).then_some(value)
    }

    /// The float it is, if it is one.
    fn to_float(self) -> Option<f64> {
        let bits = match self.exponent {
            -1022..=1023 => ((self.exponent + 1023) as u64) << 52 | self.fraction >> 12,
            // Subnormal: the leading one is written out, shifted to where 2^-1074 is bit 0.
            -1074..-1022 => {
                let top = (self.exponent + 1074) as u32;
                1 << top | self.fraction.checked_shr(64 - top).unwrap_or(0)
            }
            _ => return None,
        };
        let value = f64::from_bits(bits);
        (Self::of_float(value) == Some(self)).then_some(value)
    }
}

/// Appends an integer of the range of i64 or u64.
pub(super) fn encode_integer(value: i128, out: &mut Vec<u8>) {
    match Magnitude::new(value.unsigned_abs() as u64, 0) {
        None => out.extend_from_slice(&[ZERO, INTEGER]),
        Some(magnitude) => encode(value < 0, magnitude, INTEGER, out),
    }
}

/// Appends a float.
pub(super) fn encode_float(value: f64, out: &mut Vec<u8>) -> Result<(), Error> {
    let negative = value.is_sign_negative();
    if value.is_nan() {
        return Err(Error::NaN);
    } else if value.is_infinite() {
        out.push(if negative {
            NEGATIVE_INFINITY
        } else {
            POSITIVE_INFINITY
        });
    } else if let Some(magnitude) = Magnitude::of_float(value) {
        encode(negative, magnitude, FLOAT, out);
    } else {
        out.extend_from_slice(&[ZERO, if negative { FLOAT_MINUS_ZERO } else { FLOAT }]);
    }
    Ok(())
}

fn encode(negative: bool, magnitude: Magnitude, kind: u8, out: &mut Vec<u8>) {
    let start = out.len();
    let tag = match magnitude.exponent {
        ..0 => POSITIVE_BELOW_ONE,
        exponent @ 0..64 => POSITIVE_ONE + exponent as u8,
        64.. => POSITIVE_LARGE,
    };
    debug_assert!(
        (-1074..=1023).contains(&magnitude.exponent),
        "the exponent is a float's"
    );
    out.push(if negative { TAGS_SUM - tag } else { tag });
    if matches!(tag, POSITIVE_BELOW_ONE | POSITIVE_LARGE) {
        out.extend_from_slice(&((magnitude.exponent + EXPONENT_BIAS) as u16).to_be_bytes());
    }
    let mut rest = magnitude.fraction;
    loop {
        let group = (rest >> (64 - GROUP_BITS)) as u8;
        rest <<= GROUP_BITS;
        out.push(group << 1 | u8::from(rest != 0));
        if rest == 0 {
            break;
        }
    }
    if negative {
        out.iter_mut()
            .skip(start + 1)
            .for_each(|byte| *byte = !*byte);
    }
    out.push(kind);
}

/// Decodes a number: `tag`, which has been read, and the rest from `reader`.
pub(super) fn decode(tag: u8, reader: &mut Reader<'_>) -> Result<Number, Error> {
    match tag {
        NEGATIVE_INFINITY => return Ok(Number::Float(f64::NEG_INFINITY)),
        POSITIVE_INFINITY => return Ok(Number::Float(f64::INFINITY)),
        ZERO => {
            return match reader.next()? {
                INTEGER => Ok(Number::Int(0)),
                FLOAT_MINUS_ZERO => Ok(Number::Float(-0.0)),
                FLOAT => Ok(Number::Float(0.0)),
                _ => Err(reader.corrupt("no type of zero")),
            };
        }
        _ => {}
    }
    let negative = tag < ZERO;
    let (tag, flip) = if negative {
        (TAGS_SUM - tag, 0xff)
    } else {
        (tag, 0)
    };
    let exponent = match tag {
        POSITIVE_BELOW_ONE | POSITIVE_LARGE => {
            let biased = u16::from_be_bytes([reader.next()? ^ flip, reader.next()? ^ flip]);
            let exponent = i32::from(biased) - EXPONENT_BIAS;
            if (exponent < 0) != (tag == POSITIVE_BELOW_ONE) || (0..64).contains(&exponent) {
                return Err(reader.corrupt("an exponent that its tag does not allow"));
            }
            exponent
        }
        _ => i32::from(tag) - i32::from(POSITIVE_ONE),
    };
    let magnitude = Magnitude {
        exponent,
        fraction: decode_fraction(reader, flip)?,
    };
    let value = match reader.next()? {
        INTEGER => magnitude
            .to_integer()
            .and_then(|value| integer(negative, value)),
        FLOAT => magnitude
            .to_float()
            .map(|value| Number::Float(if negative { -value } else { value })),
        _ => None,
    };
    value.ok_or_else(|| reader.corrupt("a number that its type does not hold"))
}

fn integer(negative: bool, magnitude: u64) -> Option<Number> {
    if negative {
        return 0_i64.checked_sub_unsigned(magnitude).map(Number::Int);
    }
    Some(i64::try_from(magnitude).map_or(Number::UInt(magnitude), Number::Int))
}

fn decode_fraction(reader: &mut Reader<'_>, flip: u8) -> Result<u64, Error> {
    let mut fraction = 0;
    for index in 0..GROUPS_MAX {
        let byte = reader.next()? ^ flip;
        let group = u64::from(byte >> 1);
        fraction |= group << (64 - GROUP_BITS) >> (GROUP_BITS * index as u32);
        if byte & 1 == 0 {
            if group == 0 && index > 0 {
                break;
            }
            return Ok(fraction);
        }
    }
    Err(reader.corrupt("a fraction that is not in its shortest form"))
}

/// Compares an integer with a float by exact value; the integer is first where they are equal.
pub(super) fn compare(integer: i128, float: f64) -> Ordering {
    if float.is_nan() {
        return if float.is_sign_negative() {
            Ordering::Greater
        } else {
            Ordering::Less
        };
    }
    // Beyond the range of both integer types a float is on its side of all of them; within it i128
    // holds its whole part.
    let whole = float.floor();
    if float.abs() >= 2_f64.powi(65) {
        return if float > 0.0 {
            Ordering::Less
        } else {
            Ordering::Greater
        };
    }
    // Equal whole parts: the float is as large or larger by its fraction, and after the integer
    // either way.
    integer.cmp(&(whole as i128)).then(Ordering::Less)
}
