//! [`CellType`]: what the cells of a column are, given or inferred from its first rows.

use std::collections::BTreeMap;
use std::fmt;

/// An integer has at most this many digits, and a decimal this many significant ones: more are not
/// kept by a double.
const DIGITS_MAX: usize = 17;

/// What a cell of a column is in its document. An empty cell is null, but in a column of strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellType {
    /// A number without a fraction, of up to 64 bits.
    Integer,
    /// A number.
    Decimal,
    /// `true` or `false`.
    Boolean,
    /// The text of the cell.
    String,
}

/// How a CSV input is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsvOptions {
    /// The byte between two cells of a row: a comma.
    pub delimiter: u8,
    /// The types of columns. Where none is given, the type of each is inferred from the first rows,
    /// and a later cell of another type is a string.
    pub types: ColumnTypes,
}

/// The types that columns are given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ColumnTypes {
    /// By name. A cell that is of another type makes its document bad.
    pub by_name: BTreeMap<String, CellType>,
    /// The type of all other columns.
    pub others: Option<CellType>,
}

impl ColumnTypes {
    /// The type that a column is given.
    pub(crate) fn of(&self, name: &str) -> Option<CellType> {
        self.by_name.get(name).copied().or(self.others)
    }
}

/// A column of an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsvColumn {
    /// Its name in the header row.
    pub name: String,
    /// What its cells are.
    pub cell_type: CellType,
    /// Whether the type was inferred.
    pub is_inferred: bool,
}

impl Default for CsvOptions {
    fn default() -> CsvOptions {
        CsvOptions {
            delimiter: b',',
            types: ColumnTypes::default(),
        }
    }
}

impl fmt::Display for CellType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CellType::Integer => "integer",
            CellType::Decimal => "decimal",
            CellType::Boolean => "boolean",
            CellType::String => "string",
        })
    }
}

impl CellType {
    /// Appends a cell as JSON; false if it is of another type.
    pub(crate) fn write(self, cell: &str, out: &mut Vec<u8>) -> bool {
        let trimmed = cell.trim_ascii();
        let is_empty = trimmed.is_empty() && self != CellType::String;
        match self {
            _ if is_empty => out.extend_from_slice(b"null"),
            CellType::Integer => match (trimmed.parse::<i64>(), trimmed.parse::<u64>()) {
                (Ok(number), _) => out.extend_from_slice(number.to_string().as_bytes()),
                (_, Ok(number)) => out.extend_from_slice(number.to_string().as_bytes()),
                _ => return false,
            },
            // As it is written: digits that a float rounds off are for the database to refuse or
            // to keep.
            CellType::Decimal if is_json_number(trimmed) => {
                out.extend_from_slice(trimmed.as_bytes());
            }
            CellType::Decimal => match trimmed.parse::<f64>() {
                Ok(number) if number.is_finite() => {
                    out.extend_from_slice(format!("{number:?}").as_bytes());
                }
                _ => return false,
            },
            CellType::Boolean if trimmed.eq_ignore_ascii_case("true") => {
                out.extend_from_slice(b"true");
            }
            CellType::Boolean if trimmed.eq_ignore_ascii_case("false") => {
                out.extend_from_slice(b"false");
            }
            CellType::Boolean => return false,
            CellType::String => return write_string(cell, out),
        }
        true
    }
}

/// Appends text as a JSON string.
pub(crate) fn write_string(text: &str, out: &mut Vec<u8>) -> bool {
    serde_json::to_writer(out, text).is_ok()
}

/// The type of a column, found cell by cell.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct InferredType(Option<CellType>);

impl InferredType {
    /// Takes in a cell. Numbers of which digits would get lost are strings: a number with leading
    /// zeros, one of more digits than a double has, and one with an exponent but no point, which is
    /// rather a name, such as `12E5`.
    pub(crate) fn add(&mut self, cell: &str) {
        let cell = cell.trim_ascii();
        if cell.is_empty() {
            return;
        }
        let found = type_of(cell);
        self.0 = Some(match (self.0, found) {
            (None, found) => found,
            (Some(before), found) if before == found => before,
            (
                Some(CellType::Integer | CellType::Decimal),
                CellType::Integer | CellType::Decimal,
            ) => CellType::Decimal,
            _ => CellType::String,
        });
    }

    /// The type of all cells; a string if none had any text.
    pub(crate) fn get(self) -> CellType {
        self.0.unwrap_or(CellType::String)
    }
}

fn type_of(cell: &str) -> CellType {
    if cell.eq_ignore_ascii_case("true") || cell.eq_ignore_ascii_case("false") {
        return CellType::Boolean;
    }
    let is_integer = || cell.parse::<i64>().is_ok() || cell.parse::<u64>().is_ok();
    if !is_json_number(cell) || cell == "-0" {
        return CellType::String;
    }
    if cell
        .bytes()
        .all(|byte| byte == b'-' || byte.is_ascii_digit())
    {
        return match is_integer() {
            true => CellType::Integer,
            false => CellType::String,
        };
    }
    let mantissa = cell.split(['e', 'E']).next().unwrap_or_default();
    let digits = mantissa.bytes().filter(u8::is_ascii_digit);
    let significant = digits.skip_while(|digit| *digit == b'0').count();
    let is_finite = cell.parse::<f64>().is_ok_and(f64::is_finite);
    match mantissa.contains('.') && significant <= DIGITS_MAX && is_finite {
        true => CellType::Decimal,
        false => CellType::String,
    }
}

/// Whether text is a number as JSON writes it.
fn is_json_number(text: &str) -> bool {
    let first = text.bytes().next();
    first.is_some_and(|byte| byte == b'-' || byte.is_ascii_digit())
        && serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inferred(cells: &[&str]) -> CellType {
        let mut inferred = InferredType::default();
        cells.iter().for_each(|cell| inferred.add(cell));
        inferred.get()
    }

    #[test]
    fn a_type_is_inferred_only_if_no_cell_loses_by_it() {
        for (cells, expected) in [
            (
                &["1", "", "-20", "18446744073709551615"][..],
                CellType::Integer,
            ),
            (&["1", "2.50", "-0.1", "1.5e10"], CellType::Decimal),
            (&["52.520008000000001"], CellType::Decimal),
            (&["true", "FALSE", ""], CellType::Boolean),
            (&["007", "1"], CellType::String),
            (&["1", "+2"], CellType::String),
            (&["-0"], CellType::String),
            (&["12E5", "1.5"], CellType::String),
            (&["0.123456789012345678"], CellType::String),
            (&["18446744073709551616"], CellType::String),
            (&["1.5e999"], CellType::String),
            (&["1", "n/a"], CellType::String),
            (&["true", "1"], CellType::String),
            (&["NaN"], CellType::String),
            (&["2024-05-01"], CellType::String),
            (&["1,5"], CellType::String),
            (&["", " "], CellType::String),
        ] {
            assert_eq!(inferred(cells), expected, "{cells:?}");
        }
    }

    #[test]
    fn cells_are_written_as_their_type() {
        for (cell_type, cell, expected) in [
            (CellType::Integer, " 42 ", Some("42")),
            (CellType::Integer, "007", Some("7")),
            (CellType::Integer, "", Some("null")),
            (CellType::Integer, "1.5", None),
            (CellType::Decimal, "1.50", Some("1.50")),
            (CellType::Decimal, ".5", Some("0.5")),
            (CellType::Decimal, "1e400", Some("1e400")),
            (CellType::Decimal, "inf", None),
            (CellType::Boolean, "True", Some("true")),
            (CellType::Boolean, "yes", None),
            (CellType::String, " a\"\n", Some("\" a\\\"\\n\"")),
            (CellType::String, "", Some("\"\"")),
        ] {
            let mut out = Vec::new();
            let written = cell_type.write(cell, &mut out).then_some(out);
            let written = written.map(|out| String::from_utf8(out).unwrap());
            assert_eq!(written.as_deref(), expected, "{cell_type} {cell:?}");
        }
    }
}
