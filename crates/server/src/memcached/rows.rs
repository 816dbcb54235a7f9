//! A memcached value in a row of a wide collection: in the column of the field's name, as it is.
//!
//! ```text
//! NAME          the value: bytes, text, or an integer as its digits
//! NAME_flags    the client's flags, integers; without this column they must be 0
//! ```
//! The value expires, and not the row. A value that is removed leaves the row.

use quiredb::wide::{
    Cell, CellExpiry, Change, Column, ColumnType, Condition, RowCells, RowWrite, WideCollection,
};
use quiredb::{Action, Error, Expiry, Found, Key, Within, Write};

use super::outcome::Outcome;
use super::value::{Names, Stored, Values};

/// The row under a key as a document that has its value alone, as [`Values`] knows it; of values
/// that are documents, the row as it is. One with more than `bytes_max` bytes is left out.
pub(super) fn find(
    wide: &WideCollection,
    values: &Values,
    key: &Key,
    bytes_max: u64,
) -> Result<Within, Outcome> {
    let refused = |error: quiredb::Error| Outcome::of_error(&error);
    let found = match values {
        Values::Json => wide.get(key).map_err(refused)?,
        Values::Field(names) => {
            let columns = columns(wide, names).map_err(refused)?;
            let named: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
            let row = wide.cells(key, &named).map_err(refused)?;
            row.map(|row| found_of(names, key, row)).transpose()?
        }
    };
    Ok(match found {
        None => Within::Absent,
        Some(found) => match found.document.as_bytes().len() as u64 {
            bytes if bytes > bytes_max => Within::Longer(bytes),
            _ => Within::Found(found),
        },
    })
}

/// The column of values, and that of flags if there is one.
///
/// # Errors
/// `Invalid` if they can't have values.
fn columns(wide: &WideCollection, names: &Names) -> quiredb::Result<Vec<Column>> {
    let schema = wide.schema();
    let wrong = |name: &str, what: &str| {
        Error::Invalid(format!("column [{name}] of [{}] {what}", wide.name()))
    };
    let Some(value) = schema.column(&names.value) else {
        return Err(wrong(&names.value, "does not exist"));
    };
    let can_be = matches!(
        value.kind,
        ColumnType::Bytes | ColumnType::String | ColumnType::Int
    );
    if value.family || !can_be {
        let what = "has no values for memcached: these are bytes, strings and integers";
        return Err(wrong(&names.value, what));
    }
    let mut columns = vec![value.clone()];
    if let Some(flags) = schema.column(&names.flags) {
        if flags.family || flags.kind != ColumnType::Int {
            return Err(wrong(&names.flags, "must have integers"));
        }
        columns.push(flags.clone());
    }
    Ok(columns)
}

/// The cells of the columns of values as a document.
fn found_of(names: &Names, key: &Key, row: RowCells) -> Result<Found, Outcome> {
    let mut cells = row.cells.into_iter();
    let (value, flags) = (cells.next().flatten(), cells.next().flatten());
    let flags = match flags {
        Some((Cell::Int(flags), _)) => u32::try_from(flags).unwrap_or(0),
        _ => 0,
    };
    let (value, expires_micros) = match value {
        Some((cell, expires)) => (Some(cell), expires),
        None => (None, None),
    };
    let document = match value {
        Some(Cell::Bytes(bytes)) => names.document(&bytes, flags, false, false)?,
        Some(Cell::String(text)) => names.document(text.as_bytes(), flags, false, false)?,
        Some(Cell::Int(number)) => {
            names.document(number.to_string().as_bytes(), flags, true, false)?
        }
        _ => Values::no_document()?,
    };
    Ok(Found {
        key: key.clone(),
        version: row.version,
        external: None,
        expires_micros,
        partition: row.partition,
        document,
    })
}

/// The write of a row that does what a write of a document with a value does.
///
/// # Errors
/// `Invalid` for what the columns can't have.
pub(super) fn write_of(
    wide: &WideCollection,
    values: &Values,
    write: &Write,
) -> quiredb::Result<RowWrite> {
    let names = match values {
        Values::Json => return wide.write_of(write),
        Values::Field(names) => names,
    };
    let columns = columns(wide, names)?;
    let condition = WideCollection::condition_of(write.condition)?;
    let key = write.key.clone();
    let stored = match &write.action {
        Action::Put(document) | Action::Patch(document) => values.stored(document),
        Action::Delete => None,
    };
    let expiry = match write.expiry {
        Expiry::Usual => CellExpiry::Usual,
        Expiry::Never => CellExpiry::Never,
        Expiry::At(micros) => CellExpiry::At(micros),
    };
    let row = match (&stored, condition) {
        (Some(_), Condition::Always | Condition::IfAbsent) => RowWrite::upsert(key),
        _ => RowWrite::patch(key),
    };
    let mut row = row.condition(condition);
    let Some(stored) = stored else {
        for column in &columns {
            row = row.with(Change::remove(&column.name));
        }
        return Ok(row);
    };
    if stored.flags != 0 && columns.len() == 1 {
        return Err(Error::Invalid(format!(
            "flags must be 0: [{}] has no column [{}] of integers for them",
            wide.name(),
            names.flags
        )));
    }
    for (number, column) in columns.iter().enumerate() {
        let change = match number {
            0 => Change::set(&column.name, cell_of(column, &stored)?).expiring(expiry),
            _ => match stored.flags {
                0 => Change::remove(&column.name),
                flags => Change::set(&column.name, Cell::Int(flags.into())).expiring(expiry),
            },
        };
        row = row.with(change);
    }
    Ok(row)
}

fn cell_of(column: &Column, stored: &Stored) -> quiredb::Result<Cell> {
    let wrong = |what: &str| {
        let name = &column.name;
        Error::Invalid(format!("column [{name}] has {what}: this value is none"))
    };
    let text = || std::str::from_utf8(&stored.value).ok();
    match column.kind {
        ColumnType::Bytes => Ok(Cell::Bytes(stored.value.clone())),
        ColumnType::String => match text() {
            Some(text) => Ok(Cell::String(text.to_owned())),
            None => Err(wrong("text in UTF-8")),
        },
        _ => match text().and_then(|text| text.parse().ok()) {
            Some(number) => Ok(Cell::Int(number)),
            None => Err(wrong("integers of 64 bits")),
        },
    }
}
