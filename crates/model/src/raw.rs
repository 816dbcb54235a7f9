//! [`Raw`]: one encoded value, told by its tag.

use crate::container::Container;
use crate::float::{Float, Number, Repr, SCALE_MAX};
use crate::layout::{self, tag};

/// A value as it is encoded. Its string is not checked yet.
pub(crate) enum Raw<'a> {
    Null,
    Bool(bool),
    Number(Number<'a>),
    String(&'a [u8]),
    Array(Container<'a>),
    Object(Container<'a>),
}

impl<'a> Raw<'a> {
    /// Reads a value. None if its tag is unknown, its payload is not the one spelling of a value,
    /// or its tables do not fit; and for an array or object if `depth` is too deep. Strings, and
    /// the items of arrays and objects, are not checked.
    pub(crate) fn parse(bytes: &'a [u8], depth: u8) -> Option<Raw<'a>> {
        let (&tag, payload) = bytes.split_first()?;
        Some(match tag {
            tag::NULL if payload.is_empty() => Raw::Null,
            tag::FALSE if payload.is_empty() => Raw::Bool(false),
            tag::TRUE if payload.is_empty() => Raw::Bool(true),
            tag::INT => Raw::Number(Number::Int(layout::read_int(payload)?)),
            tag::UINT => {
                let value = u64::from_le_bytes(payload.try_into().ok()?);
                Raw::Number(
                    i64::try_from(value)
                        .is_err()
                        .then_some(Number::UInt(value))?,
                )
            }
            tag::DECIMAL => Raw::Number(Number::Float(Float(read_decimal(payload)?))),
            tag::NUMBER => match Number::parse(payload) {
                Ok(number @ Number::Float(Float(Repr::Text(_)))) => Raw::Number(number),
                _ => return None,
            },
            tag::STRING => Raw::String(payload),
            tag if tag & !0b11 == tag::ARRAY => Raw::Array(Container::array(bytes, depth)?),
            tag if tag & !0b11 == tag::OBJECT => Raw::Object(Container::object(bytes, depth)?),
            _ => return None,
        })
    }
}

fn read_decimal(payload: &[u8]) -> Option<Repr<'_>> {
    let (&head, digits) = payload.split_first()?;
    let (negative, scale) = (head >= 0x80, head & 0x7f);
    let digits = layout::read_uint(digits)?;
    (1..=SCALE_MAX).contains(&scale).then_some(Repr::Decimal {
        negative,
        digits,
        scale,
    })
}
