//! What a table's columns are, as its definition says now, and as the binlog says of each change.

use crate::charset::Charset;
use crate::fault::OrFault;
use crate::options::{MysqlOptions, TableName, text};
use crate::value::Kind;
use mysql_async::binlog::events::{OptionalMetaExtractor, OptionalMetadataField, TableMapEvent};
use mysql_async::consts::ColumnType;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Value};
use quire_ship::Fault;
use std::collections::{BTreeMap, HashMap, HashSet};

/// The collation of bytes that are no text.
const BINARY: u16 = 63;

/// The present definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) columns: Vec<(String, Kind)>,
    /// The type of each column, and the collation of text.
    pub(crate) types: Vec<(String, Option<String>)>,
    /// The columns of the primary key, in its order.
    pub(crate) key: Vec<usize>,
    pub(crate) indexes: Vec<Index>,
}

/// An index of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Index {
    pub(crate) is_unique: bool,
    pub(crate) columns: Vec<String>,
}

/// Reads the definitions of all tables that are followed.
///
/// # Errors
/// As [`Table::read`].
pub(crate) async fn read_all(conn: &mut Conn, options: &MysqlOptions) -> Result<Vec<Table>, Fault> {
    let mut tables = Vec::new();
    for name in &options.tables {
        tables.push(Table::read(conn, name).await?);
    }
    Ok(tables)
}

impl Table {
    /// Reads the definition.
    ///
    /// # Errors
    /// If there is no such table, or it can't be followed: all reasons.
    pub(crate) async fn read(conn: &mut Conn, name: &TableName) -> Result<Table, Fault> {
        let place = format!(
            "table_schema = {} AND table_name = {}",
            text(&name.database),
            text(&name.name)
        );
        type Row = (String, String, Option<String>, Option<u64>, Option<String>);
        let rows: Vec<Row> = conn
            .query(format!(
                "SELECT column_name, data_type, character_set_name, datetime_precision, \
                 collation_name FROM information_schema.columns WHERE {place} ORDER BY \
                 ordinal_position"
            ))
            .await
            .or_fault()?;
        let parts: Vec<(String, bool, String)> = conn
            .query(format!(
                "SELECT index_name, non_unique, column_name FROM information_schema.statistics \
                 WHERE {place} ORDER BY index_name, seq_in_index"
            ))
            .await
            .or_fault()?;
        let mut indexes: BTreeMap<String, Index> = BTreeMap::new();
        for (index, is_common, column) in parts {
            let index = indexes.entry(index).or_insert(Index {
                is_unique: !is_common,
                columns: Vec::new(),
            });
            index.columns.push(column);
        }
        let key = indexes.get("PRIMARY").map(|index| index.columns.clone());
        if rows.is_empty() {
            return Err(Fault::Stop(format!(
                "there is no table {name}, or this user may not read it"
            )));
        }
        let create: Option<(String, String)> = conn
            .query_first(format!("SHOW CREATE TABLE {}", name.quoted()))
            .await
            .or_fault()?;
        let create = create.map(|row| row.1).unwrap_or_default();
        let json = json_columns(&create);
        let mut wrong = Vec::new();
        let (mut columns, mut types) = (Vec::new(), Vec::new());
        for (column, data_type, charset, precision, collation) in rows {
            let is_json = json.contains(&column);
            if data_type == "time" && precision.is_some_and(is_misread) {
                wrong.push(format!("column {column}: {MISREAD}"));
                continue;
            }
            match kind(&data_type, charset.as_deref(), is_json) {
                Ok(kind) => {
                    columns.push((column, kind));
                    types.push((data_type, collation));
                }
                Err(why) => wrong.push(format!("column {column}: {why}")),
            }
        }
        let place_of = |column: &String| columns.iter().position(|(name, _)| name == column);
        let key: Vec<usize> = key.iter().flatten().filter_map(place_of).collect();
        if key.is_empty() && wrong.is_empty() {
            wrong.push("it has no primary key, which would be the key of documents".to_owned());
        }
        for (column, kind) in key.iter().map(|index| &columns[*index]) {
            if !kind.orders() {
                wrong.push(format!("column {column} can't be in the primary key"));
            }
        }
        for line in create.lines().filter(|line| cascades(line)) {
            wrong.push(format!(
                "{} changes its rows when others change, and the binlog does not have such \
                 changes; let it be RESTRICT",
                line.trim().trim_end_matches(',')
            ));
        }
        match wrong.is_empty() {
            true => Ok(Table {
                columns,
                types,
                key,
                indexes: indexes.into_values().collect(),
            }),
            false => Err(Fault::Stop(format!(
                "table {name} can't be followed: {}",
                wrong.join("; ")
            ))),
        }
    }

    /// The names of columns with JSON, which the binlog has as text.
    pub(crate) fn json(&self) -> HashSet<String> {
        let json = self.columns.iter().filter(|(_, kind)| *kind == Kind::Json);
        json.map(|(name, _)| name.clone()).collect()
    }
}

/// Columns of the type JSON in a definition: text with a check that MariaDB makes. The definition
/// is shown to those who may read the table; `information_schema` shows checks to fewer.
fn json_columns(create: &str) -> HashSet<String> {
    let lines = create.lines().filter_map(|line| {
        let name = line.trim().strip_prefix('`')?.split_once("` ")?.0;
        let is_json = line.contains(&format!("CHECK (json_valid(`{name}`))"));
        is_json.then(|| name.replace("``", "`"))
    });
    lines.collect()
}

/// Whether a line of a definition is a foreign key that changes rows when others change.
fn cascades(line: &str) -> bool {
    let changes = ["CASCADE", "SET NULL", "SET DEFAULT"];
    let on = |event: &str| changes.map(|change| format!(" ON {event} {change}"));
    line.trim().starts_with("CONSTRAINT `")
        && line.contains("` FOREIGN KEY (")
        && on("DELETE")
            .iter()
            .chain(&on("UPDATE"))
            .any(|rule| line.contains(rule))
}

/// What to do about a column whose precision [is misread](is_misread).
const MISREAD: &str = "negative values of TIME(1) and TIME(2) can't be read from the binlog; use \
                       TIME, or TIME(3) to TIME(6)";

/// Whether `mysql_common` misreads negative times with this number of digits after the point: its
/// subtraction overflows.
fn is_misread(digits: u64) -> bool {
    matches!(digits, 1 | 2)
}

fn kind(data_type: &str, charset: Option<&str>, is_json: bool) -> Result<Kind, String> {
    Ok(match data_type {
        "tinyint" | "smallint" | "mediumint" | "int" | "bigint" | "decimal" | "float"
        | "double" | "year" => Kind::Number,
        "bit" => Kind::Bit,
        "char" | "varchar" | "tinytext" | "text" | "mediumtext" | "longtext" | "enum" | "set" => {
            let charset = charset.unwrap_or_default();
            if Charset::named(charset).is_none() {
                return Err(unknown_charset(charset));
            }
            match data_type {
                "set" => Kind::Set,
                _ if is_json => Kind::Json,
                _ => Kind::Text,
            }
        }
        "date" => Kind::Date,
        "datetime" => Kind::Datetime,
        "timestamp" => Kind::Timestamp,
        "time" => Kind::Time,
        "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" => Kind::Binary,
        other => {
            return Err(format!(
                "type {other} is not read; let it be text or binary"
            ));
        }
    })
}

fn unknown_charset(name: &str) -> String {
    format!("character set {name} is not read; convert it to utf8mb4")
}

/// What must be done to a value of the binlog, so that it is as a query gives it.
#[derive(Debug)]
enum Form {
    Same,
    Text(Charset),
    /// `BINARY` of this length, whose zeros at the end are left out.
    Padded(usize),
    /// The names of an `ENUM`, by number from 1.
    Enum(Vec<Vec<u8>>),
    /// The names of a `SET`, by bit.
    Set(Vec<Vec<u8>>),
    /// Seconds since 1970, with a fraction.
    Seconds,
    /// A signed `MEDIUMINT`, whose sign the library loses.
    Signed24,
    /// A `YEAR`, whose 0 the library takes for 1900, which no year is.
    Year,
}

/// The columns of changes, as a table map of the binlog has them.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) columns: Vec<(String, Kind)>,
    pub(crate) key: Vec<usize>,
    forms: Vec<Form>,
}

impl Layout {
    /// Reads a table map. `charsets` has the character set of each collation.
    ///
    /// # Errors
    /// If it says too little, or a column can't be read: a sentence.
    pub(crate) fn of(
        map: &TableMapEvent<'_>,
        charsets: &HashMap<u16, String>,
        json: &HashSet<String>,
    ) -> Result<Layout, String> {
        let bad = |error: std::io::Error| format!("the table map can't be read: {error}");
        let meta = OptionalMetaExtractor::new(map.iter_optional_meta()).map_err(bad)?;
        let (mut enums, mut sets) = (Vec::new(), Vec::new());
        for field in map.iter_optional_meta() {
            match field.map_err(bad)? {
                OptionalMetadataField::EnumStrValue(values) => {
                    for values in values.iter_values() {
                        let values = values.map_err(bad)?;
                        let values = values.values().iter();
                        enums.push(values.map(|value| value.value_raw().to_vec()).collect());
                    }
                }
                OptionalMetadataField::SetStrValue(values) => {
                    for values in values.iter_values() {
                        let values = values.map_err(bad)?;
                        let values = values.values().iter();
                        sets.push(values.map(|value| value.value_raw().to_vec()).collect());
                    }
                }
                _ => {}
            }
        }
        let (mut enums, mut sets) = (enums.into_iter(), sets.into_iter());
        let mut unsigned = meta.iter_signedness();
        let mut names = meta.iter_column_name();
        let mut texts = meta.iter_charset();
        let mut choices = meta.iter_enum_and_set_charset();
        let charset = |id: u16| {
            let name = charsets.get(&id).map_or("unknown", String::as_str);
            Charset::named(name).ok_or_else(|| unknown_charset(name))
        };
        let none = || {
            "the binlog has no names of columns there: it was written before \
             binlog_row_metadata was FULL. Set it, empty the sinks, remove their positions and \
             run again"
                .to_owned()
        };
        let (mut columns, mut forms) = (Vec::new(), Vec::new());
        for index in 0..map.columns_count() as usize {
            let name = names
                .next()
                .ok_or_else(none)?
                .map_err(bad)?
                .name()
                .into_owned();
            let column_type = map.get_column_type(index);
            let column_type = column_type
                .ok()
                .flatten()
                .unwrap_or(ColumnType::MYSQL_TYPE_NULL);
            let wrong = |why: String| format!("column {name}: {why}");
            let is_unsigned = column_type.is_numeric_type() && unsigned.next().unwrap_or_default();
            let (kind, form) = match column_type {
                ColumnType::MYSQL_TYPE_INT24 if !is_unsigned => (Kind::Number, Form::Signed24),
                ColumnType::MYSQL_TYPE_YEAR => (Kind::Number, Form::Year),
                ColumnType::MYSQL_TYPE_TINY
                | ColumnType::MYSQL_TYPE_SHORT
                | ColumnType::MYSQL_TYPE_INT24
                | ColumnType::MYSQL_TYPE_LONG
                | ColumnType::MYSQL_TYPE_LONGLONG
                | ColumnType::MYSQL_TYPE_NEWDECIMAL
                | ColumnType::MYSQL_TYPE_FLOAT
                | ColumnType::MYSQL_TYPE_DOUBLE => (Kind::Number, Form::Same),
                ColumnType::MYSQL_TYPE_BIT => (Kind::Bit, Form::Same),
                ColumnType::MYSQL_TYPE_DATE | ColumnType::MYSQL_TYPE_NEWDATE => {
                    (Kind::Date, Form::Same)
                }
                ColumnType::MYSQL_TYPE_DATETIME | ColumnType::MYSQL_TYPE_DATETIME2 => {
                    (Kind::Datetime, Form::Same)
                }
                ColumnType::MYSQL_TYPE_TIMESTAMP | ColumnType::MYSQL_TYPE_TIMESTAMP2 => {
                    (Kind::Timestamp, Form::Seconds)
                }
                ColumnType::MYSQL_TYPE_TIME2
                    if map.get_column_metadata(index).is_some_and(|digits| {
                        digits
                            .first()
                            .is_some_and(|digits| is_misread((*digits).into()))
                    }) =>
                {
                    return Err(wrong(MISREAD.to_owned()));
                }
                ColumnType::MYSQL_TYPE_TIME | ColumnType::MYSQL_TYPE_TIME2 => {
                    (Kind::Time, Form::Same)
                }
                ColumnType::MYSQL_TYPE_ENUM | ColumnType::MYSQL_TYPE_SET => {
                    let id = choices.next().ok_or_else(none)?.map_err(bad)?;
                    let charset = charset(id).map_err(wrong)?;
                    let is_set = column_type == ColumnType::MYSQL_TYPE_SET;
                    let values = if is_set { &mut sets } else { &mut enums };
                    let values: Vec<Vec<u8>> = values.next().ok_or_else(none)?;
                    let values = values.into_iter().map(|value| charset.decode(value));
                    match is_set {
                        true => (Kind::Set, Form::Set(values.collect())),
                        false => (Kind::Text, Form::Enum(values.collect())),
                    }
                }
                ColumnType::MYSQL_TYPE_VARCHAR
                | ColumnType::MYSQL_TYPE_VAR_STRING
                | ColumnType::MYSQL_TYPE_STRING
                | ColumnType::MYSQL_TYPE_BLOB => {
                    let id = texts.next().ok_or_else(none)?.map_err(bad)?;
                    let is_fixed = column_type == ColumnType::MYSQL_TYPE_STRING;
                    match (id, is_fixed) {
                        (BINARY, true) => {
                            let length = map.get_column_metadata(index).unwrap_or_default();
                            let length = length.get(1).copied().unwrap_or(0);
                            (Kind::Binary, Form::Padded(usize::from(length)))
                        }
                        (BINARY, false) => (Kind::Binary, Form::Same),
                        _ => {
                            let charset = charset(id).map_err(wrong)?;
                            let is_json = json.contains(&name);
                            let kind = if is_json { Kind::Json } else { Kind::Text };
                            (kind, Form::Text(charset))
                        }
                    }
                }
                other => return Err(wrong(format!("{other:?} is not read"))),
            };
            columns.push((name, kind));
            forms.push(form);
        }
        let key: Result<Vec<u64>, _> = meta.iter_primary_key().collect();
        let key: Vec<usize> = key
            .map_err(bad)?
            .into_iter()
            .map(|at| at as usize)
            .collect();
        if key.is_empty() || key.iter().any(|index| *index >= columns.len()) {
            return Err("it has no primary key any more, the key of documents".to_owned());
        }
        Ok(Layout {
            columns,
            key,
            forms,
        })
    }

    /// A value of the binlog as a query gives it.
    pub(crate) fn value(&self, index: usize, value: Value) -> Value {
        match (&self.forms[index], value) {
            (Form::Text(charset), Value::Bytes(bytes)) => Value::Bytes(charset.decode(bytes)),
            (Form::Padded(length), Value::Bytes(mut bytes)) => {
                bytes.resize(bytes.len().max(*length), 0);
                Value::Bytes(bytes)
            }
            (Form::Enum(names), Value::Int(number)) => {
                let name = usize::try_from(number - 1)
                    .ok()
                    .and_then(|at| names.get(at));
                // Number 0 is the empty text of a value that was none of them.
                Value::Bytes(name.cloned().unwrap_or_default())
            }
            (Form::Set(names), Value::Bytes(bits)) => {
                let is_set = |at: usize| bits.get(at / 8).is_some_and(|b| b >> (at % 8) & 1 == 1);
                let names = (0..).zip(names).filter(|(at, _)| is_set(*at));
                let names: Vec<&[u8]> = names.map(|(_, name)| name.as_slice()).collect();
                Value::Bytes(names.join(&b','))
            }
            (Form::Seconds, Value::Bytes(text)) => timestamp(&String::from_utf8_lossy(&text)),
            (Form::Signed24, Value::Int(number)) if number >= 1 << 23 => {
                Value::Int(number - (1 << 24))
            }
            (Form::Year, Value::Bytes(year)) if year == b"1900" => Value::Int(0),
            (Form::Seconds, Value::Int(seconds)) => timestamp(&seconds.to_string()),
            (_, value) => value,
        }
    }
}

/// Seconds since 1970, with six digits after the point if any, as a date in UTC; 0 is no date.
///
/// Source: Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
fn timestamp(text: &str) -> Value {
    let (seconds, micros) = text.split_once('.').unwrap_or((text, "0"));
    let seconds: i64 = seconds.parse().unwrap_or(0);
    let micros: u32 = micros.parse().unwrap_or(0);
    if seconds == 0 && micros == 0 {
        return Value::Date(0, 0, 0, 0, 0, 0, 0);
    }
    let days = seconds.div_euclid(86_400) + 719_468;
    let (era, second) = (days.div_euclid(146_097), seconds.rem_euclid(86_400));
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    Value::Date(
        year as u16,
        month as u8,
        day as u8,
        (second / 3600) as u8,
        (second / 60 % 60) as u8,
        (second % 60) as u8,
        micros,
    )
}

/// The character set of each collation.
pub(crate) async fn charsets(conn: &mut Conn) -> Result<HashMap<u16, String>, Fault> {
    let rows: Vec<(u16, String)> = conn
        .query(
            "SELECT id, character_set_name FROM \
             information_schema.collation_character_set_applicability WHERE id IS NOT NULL",
        )
        .await
        .or_fault()?;
    Ok(rows.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_dates() {
        for (text, date) in [
            ("951782400.000500", (2000, 2, 29, 0, 0, 0, 500)),
            ("2147483647", (2038, 1, 19, 3, 14, 7, 0)),
            ("0", (0, 0, 0, 0, 0, 0, 0)),
        ] {
            let (y, mo, d, h, mi, s, us) = date;
            assert_eq!(timestamp(text), Value::Date(y, mo, d, h, mi, s, us));
        }
    }
}
