//! Cell: one value of a row. It says its own type, so that a column's type can become wider without
//! its cells being written again.
//!
//! # Layout
//! ```text
//! | type u8 | value |
//!   1 string: UTF-8    2 bytes          3 int: i64 LE          4 float: f64 LE, finite
//!   5 bool: u8, 0 or 1                  6 timestamp: i64 LE, microseconds since 1970 UTC
//!   7 json: compact JSON text
//! ```

use crate::ColumnType;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use quire_model::ValueRef;

/// The longest cell, in bytes.
pub const CELL_BYTES_MAX: usize = 16 << 20;

const STRING: u8 = 1;
const BYTES: u8 = 2;
const INT: u8 = 3;
const FLOAT: u8 = 4;
const BOOL: u8 = 5;
const TIMESTAMP: u8 = 6;
const JSON: u8 = 7;

/// One value of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Text.
    String(String),
    /// Any bytes; base64 in JSON.
    Bytes(Vec<u8>),
    /// An integer.
    Int(i64),
    /// A finite number.
    Float(f64),
    /// True or false.
    Bool(bool),
    /// Microseconds since 1970 UTC.
    Timestamp(i64),
    /// The text of any JSON value but null.
    Json(String),
}

impl Cell {
    /// The bytes of the cell.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let tagged = |tag: u8, value: &[u8]| {
            let mut out = Vec::with_capacity(1 + value.len());
            out.push(tag);
            out.extend_from_slice(value);
            out
        };
        match self {
            Cell::String(text) => tagged(STRING, text.as_bytes()),
            Cell::Bytes(bytes) => tagged(BYTES, bytes),
            Cell::Int(number) => tagged(INT, &number.to_le_bytes()),
            Cell::Float(number) => tagged(FLOAT, &number.to_le_bytes()),
            Cell::Bool(value) => tagged(BOOL, &[u8::from(*value)]),
            Cell::Timestamp(micros) => tagged(TIMESTAMP, &micros.to_le_bytes()),
            Cell::Json(text) => tagged(JSON, text.as_bytes()),
        }
    }

    /// The cell of these bytes.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Cell, String> {
        let (tag, value) = bytes.split_first().ok_or("a cell without a type")?;
        let wrong = || format!("a cell of type {tag} with {} bytes", value.len());
        let text = || String::from_utf8(value.to_vec()).map_err(|_| wrong());
        let number = || value.try_into().map_err(|_| wrong());
        match *tag {
            STRING => Ok(Cell::String(text()?)),
            BYTES => Ok(Cell::Bytes(value.to_vec())),
            INT => Ok(Cell::Int(i64::from_le_bytes(number()?))),
            FLOAT => match f64::from_le_bytes(number()?) {
                number if number.is_finite() => Ok(Cell::Float(number)),
                _ => Err(wrong()),
            },
            BOOL => match value {
                [0] => Ok(Cell::Bool(false)),
                [1] => Ok(Cell::Bool(true)),
                _ => Err(wrong()),
            },
            TIMESTAMP => Ok(Cell::Timestamp(i64::from_le_bytes(number()?))),
            JSON => Ok(Cell::Json(text()?)),
            _ => Err(wrong()),
        }
    }

    /// The bytes that it takes.
    pub(crate) fn bytes(&self) -> usize {
        1 + match self {
            Cell::String(text) | Cell::Json(text) => text.len(),
            Cell::Bytes(bytes) => bytes.len(),
            Cell::Int(_) | Cell::Float(_) | Cell::Timestamp(_) => 8,
            Cell::Bool(_) => 1,
        }
    }

    /// Whether a column of this type can have it. An integer is a float too.
    pub(crate) fn fits(&self, kind: ColumnType) -> bool {
        match (self, kind) {
            (Cell::Float(number), ColumnType::Float) => number.is_finite(),
            (Cell::Int(_), ColumnType::Float) => true,
            (cell, kind) => cell.kind() == kind,
        }
    }

    /// Its own type.
    pub fn kind(&self) -> ColumnType {
        match self {
            Cell::String(_) => ColumnType::String,
            Cell::Bytes(_) => ColumnType::Bytes,
            Cell::Int(_) => ColumnType::Int,
            Cell::Float(_) => ColumnType::Float,
            Cell::Bool(_) => ColumnType::Bool,
            Cell::Timestamp(_) => ColumnType::Timestamp,
            Cell::Json(_) => ColumnType::Json,
        }
    }

    /// What a JSON value is in a column of this type; `None` for null, which is no cell.
    ///
    /// # Errors
    /// What was expected.
    pub fn from_json(kind: ColumnType, value: ValueRef<'_>) -> Result<Option<Cell>, String> {
        let wrong = || format!("expected {}, found {}", kind.words(), value.type_name());
        Ok(Some(match (kind, value) {
            (_, ValueRef::Null) => return Ok(None),
            (ColumnType::String, ValueRef::String(text)) => Cell::String(text.to_string()),
            (ColumnType::Bytes, ValueRef::String(text)) => {
                let decoded = STANDARD.decode(text);
                Cell::Bytes(decoded.map_err(|error| format!("it is no base64: {error}"))?)
            }
            (ColumnType::Int, ValueRef::Int(number)) => Cell::Int(number),
            (ColumnType::Timestamp, ValueRef::Int(micros)) => Cell::Timestamp(micros),
            (ColumnType::Float, ValueRef::Int(number)) => Cell::Int(number),
            (ColumnType::Float, ValueRef::Float(number)) => Cell::Float(number.value()),
            (ColumnType::Bool, ValueRef::Bool(value)) => Cell::Bool(value),
            (ColumnType::Json, value) => {
                let mut json = Vec::new();
                value.write_json(&mut json);
                Cell::Json(String::from_utf8(json).map_err(|_| wrong())?)
            }
            _ => return Err(wrong()),
        }))
    }

    /// Appends it as JSON.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        match self {
            Cell::String(text) => out.extend(serde_json::json!(text).to_string().bytes()),
            Cell::Bytes(bytes) => {
                out.push(b'"');
                out.extend(STANDARD.encode(bytes).bytes());
                out.push(b'"');
            }
            Cell::Int(number) | Cell::Timestamp(number) => out.extend(number.to_string().bytes()),
            Cell::Float(number) => out.extend(serde_json::json!(number).to_string().bytes()),
            Cell::Bool(value) => out.extend(value.to_string().bytes()),
            Cell::Json(text) => out.extend(text.bytes()),
        }
    }
}
