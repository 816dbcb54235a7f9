//! What the values of a column mean, and their text.

use crate::number::{half, write_decimal};
use crate::time::{julian, write_date, write_interval, write_time, write_timestamp};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type};
use parquet::data_type::{ByteArray, FixedLenByteArray, Int96};
use parquet::schema::types::ColumnDescriptor;
use std::fmt::Write;

/// Digits that a number keeps; a decimal of more is text.
const NUMBER_DIGITS_MAX: i32 = 17;

/// A decimal of more digits behind its point is none of a table.
const SCALE_MAX: i32 = 1_000;

/// What the values of a column mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A number or a boolean, as it is stored.
    Plain,
    Unsigned,
    Half,
    Decimal {
        scale: usize,
        is_number: bool,
    },
    Date,
    Time {
        /// Nanoseconds in one of its units.
        unit: i128,
    },
    Timestamp {
        unit: i128,
        is_utc: bool,
    },
    Text,
    Json,
    Uuid,
    Interval,
    Binary,
}

/// How a text stands in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// As it is: a number, a boolean, JSON.
    Bare,
    String,
    /// A number that is none.
    Null,
}

impl Kind {
    /// Of a column.
    ///
    /// # Errors
    /// If a decimal has more digits than one is read with.
    pub(crate) fn of(column: &ColumnDescriptor) -> Result<Kind, String> {
        let physical = column.physical_type();
        let decimal = |scale: i32, precision: i32| match usize::try_from(scale) {
            Ok(digits) if scale <= SCALE_MAX => Ok(Kind::Decimal {
                scale: digits,
                is_number: precision <= NUMBER_DIGITS_MAX,
            }),
            _ => Err(format!(
                "the column {} has decimals of {scale} digits behind the point; up to \
                 {SCALE_MAX} can be read",
                column.path().string()
            )),
        };
        let is_bytes = matches!(physical, Type::BYTE_ARRAY | Type::FIXED_LEN_BYTE_ARRAY);
        Ok(match column.logical_type_ref() {
            Some(LogicalType::String | LogicalType::Enum) => Kind::Text,
            Some(LogicalType::Json) => Kind::Json,
            Some(LogicalType::Decimal(of)) => decimal(of.scale, of.precision)?,
            Some(LogicalType::Date) => Kind::Date,
            Some(LogicalType::Time(of)) => Kind::Time {
                unit: nanoseconds(of.unit),
            },
            Some(LogicalType::Timestamp(of)) => Kind::Timestamp {
                unit: nanoseconds(of.unit),
                is_utc: of.is_adjusted_to_u_t_c,
            },
            Some(LogicalType::Integer(of)) if !of.is_signed => Kind::Unsigned,
            Some(LogicalType::Uuid) => Kind::Uuid,
            Some(LogicalType::Float16) => Kind::Half,
            _ => match column.converted_type() {
                ConvertedType::UTF8 | ConvertedType::ENUM => Kind::Text,
                ConvertedType::JSON => Kind::Json,
                ConvertedType::DECIMAL => decimal(column.type_scale(), column.type_precision())?,
                ConvertedType::DATE => Kind::Date,
                ConvertedType::TIME_MILLIS => Kind::Time { unit: 1_000_000 },
                ConvertedType::TIME_MICROS => Kind::Time { unit: 1_000 },
                ConvertedType::TIMESTAMP_MILLIS => Kind::Timestamp {
                    unit: 1_000_000,
                    is_utc: true,
                },
                ConvertedType::TIMESTAMP_MICROS => Kind::Timestamp {
                    unit: 1_000,
                    is_utc: true,
                },
                ConvertedType::UINT_8
                | ConvertedType::UINT_16
                | ConvertedType::UINT_32
                | ConvertedType::UINT_64 => Kind::Unsigned,
                ConvertedType::INTERVAL => Kind::Interval,
                _ if is_bytes => Kind::Binary,
                _ if physical == Type::INT96 => Kind::Timestamp {
                    unit: 1,
                    is_utc: false,
                },
                _ => Kind::Plain,
            },
        })
    }
}

/// The nanoseconds in a unit.
fn nanoseconds(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::MILLIS => 1_000_000,
        TimeUnit::MICROS => 1_000,
        TimeUnit::NANOS => 1,
    }
}

/// A value as it is stored.
pub(crate) trait Stored {
    /// Appends its text.
    ///
    /// # Errors
    /// Why there is none, for the user.
    fn write(&self, kind: Kind, out: &mut String) -> Result<Form, String>;
}

impl Stored for bool {
    fn write(&self, _: Kind, out: &mut String) -> Result<Form, String> {
        out.push_str(if *self { "true" } else { "false" });
        Ok(Form::Bare)
    }
}

impl Stored for i32 {
    fn write(&self, kind: Kind, out: &mut String) -> Result<Form, String> {
        match kind {
            Kind::Date => write_date(*self, out)?,
            // The bits of a number without sign.
            Kind::Unsigned => return write_bare(*self as u32, out),
            _ => return i64::from(*self).write(kind, out),
        }
        Ok(Form::String)
    }
}

impl Stored for i64 {
    fn write(&self, kind: Kind, out: &mut String) -> Result<Form, String> {
        match kind {
            Kind::Unsigned => write_bare(*self as u64, out),
            Kind::Decimal { .. } => write_number(&self.to_be_bytes(), kind, out),
            Kind::Time { unit } => {
                write_time(i128::from(*self) * unit, out)?;
                Ok(Form::String)
            }
            Kind::Timestamp { unit, is_utc } => {
                write_timestamp(i128::from(*self) * unit, is_utc, out)?;
                Ok(Form::String)
            }
            _ => write_bare(*self, out),
        }
    }
}

impl Stored for Int96 {
    fn write(&self, _: Kind, out: &mut String) -> Result<Form, String> {
        let &[low, high, day] = self.data() else {
            return Err("a timestamp of 96 bits has 3 parts".to_owned());
        };
        write_timestamp(julian([low, high, day]), false, out)?;
        Ok(Form::String)
    }
}

impl Stored for f32 {
    fn write(&self, _: Kind, out: &mut String) -> Result<Form, String> {
        // The fewest digits that are this number, which as 64 bits would be more.
        write_float(f64::from(*self), format_args!("{self:?}"), out)
    }
}

impl Stored for f64 {
    fn write(&self, _: Kind, out: &mut String) -> Result<Form, String> {
        write_float(*self, format_args!("{self:?}"), out)
    }
}

impl Stored for ByteArray {
    fn write(&self, kind: Kind, out: &mut String) -> Result<Form, String> {
        self.data().write(kind, out)
    }
}

impl Stored for FixedLenByteArray {
    fn write(&self, kind: Kind, out: &mut String) -> Result<Form, String> {
        self.data().write(kind, out)
    }
}

impl Stored for &[u8] {
    fn write(&self, kind: Kind, out: &mut String) -> Result<Form, String> {
        match (kind, *self) {
            (Kind::Decimal { .. }, bytes) => return write_number(bytes, kind, out),
            (Kind::Text, bytes) => out.push_str(utf8(bytes)?),
            (Kind::Json, bytes) => {
                let text = utf8(bytes)?;
                out.push_str(text);
                if serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok() {
                    return Ok(Form::Bare);
                }
            }
            (Kind::Half, &[low, high]) => {
                return half(u16::from_le_bytes([low, high])).write(kind, out);
            }
            (Kind::Interval, &[a, b, c, d, e, f, g, h, i, j, k, l]) => {
                let parts = [[a, b, c, d], [e, f, g, h], [i, j, k, l]];
                write_interval(parts.map(u32::from_le_bytes), out);
            }
            (Kind::Uuid, bytes) => {
                for (index, byte) in bytes.iter().enumerate() {
                    if matches!(index, 4 | 6 | 8 | 10) {
                        out.push('-');
                    }
                    let _ = write!(out, "{byte:02x}");
                }
            }
            (_, bytes) => STANDARD.encode_string(bytes, out),
        }
        Ok(Form::String)
    }
}

/// The text in bytes.
///
/// # Errors
/// If it is not UTF-8.
pub(crate) fn utf8(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())
}

fn write_bare(value: impl std::fmt::Display, out: &mut String) -> Result<Form, String> {
    let _ = write!(out, "{value}");
    Ok(Form::Bare)
}

fn write_number(bytes: &[u8], kind: Kind, out: &mut String) -> Result<Form, String> {
    let Kind::Decimal { scale, is_number } = kind else {
        return Ok(Form::Null);
    };
    write_decimal(bytes, scale, out);
    Ok(if is_number { Form::Bare } else { Form::String })
}

fn write_float(
    value: f64,
    text: std::fmt::Arguments<'_>,
    out: &mut String,
) -> Result<Form, String> {
    if value.is_nan() {
        return Ok(Form::Null);
    }
    if value.is_infinite() {
        return Err("it is infinite, which no number of a document is".to_owned());
    }
    let _ = out.write_fmt(text);
    Ok(Form::Bare)
}
