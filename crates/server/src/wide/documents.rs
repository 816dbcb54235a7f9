//! Rows as documents: put, get, change in part, delete.

use quiredb::wide::{Condition, RowWrite, WideCollection};
use quiredb::{Document, ErrorKind, Found, Key, Use, ValueRef, Within, Written};

use super::condition_of;
use crate::documents::ack::{Ack, write_failure};
use crate::documents::parse::parse_key;
use crate::documents::source::Source;
use crate::documents::tally::counted;
use crate::documents::update::Update;
use crate::engine::Engine;
use crate::http::failure::{Failure, Outcome};
use crate::unknown_fields::is_below;

/// Puts a document, under its id, the key in its key field, or a new id. Gives the id.
pub(crate) fn put(
    engine: &Engine,
    wide: &WideCollection,
    key: Option<Key>,
    document: &Document,
    condition: quiredb::Condition,
) -> Outcome<(Ack, String)> {
    let key = match key {
        Some(key) => key,
        None => key_of(engine, wide, document)?,
    };
    let id = key.to_string();
    let condition = condition_of(condition)?;
    let ack = counted(wide.usage(), Use::Index, || {
        let write = wide.put_write(&key, document);
        let written = write.and_then(|write| wide.write(&write.condition(condition)));
        written
            .map(Ack::put)
            .map_err(|error| write_failure(&error, wide.name(), &id))
    })?;
    Ok((ack, id))
}

/// The key that a document names, or a new one.
pub(crate) fn key_of(engine: &Engine, wide: &WideCollection, document: &Document) -> Outcome<Key> {
    match document.get(&wide.settings().key_field) {
        Some(value) => Key::from_value(value).map_err(|error| Failure::document(error.to_string())),
        None => parse_key(&engine.new_id()),
    }
}

/// Removes a row.
pub(crate) fn delete(
    wide: &WideCollection,
    key: &Key,
    condition: quiredb::Condition,
) -> Outcome<Ack> {
    let write = RowWrite::delete(key.clone()).condition(condition_of(condition)?);
    counted(wide.usage(), Use::Delete, || {
        let written = wide.write(&write);
        written
            .map(Ack::delete)
            .map_err(|error| write_failure(&error, wide.name(), &key.to_string()))
    })
}

/// The row under `key`: the columns that `source` shows, or all.
pub(crate) fn get(wide: &WideCollection, key: &Key, source: &Source) -> Outcome<Option<Found>> {
    get_one(wide, key, columns_of(wide, source).as_deref())
}

/// The rows under some keys: the columns that `source` shows, or all. Rows that together are longer
/// than `bytes_max` are read one by one.
pub(crate) fn get_many(
    wide: &WideCollection,
    keys: &[Key],
    source: &Source,
    bytes_max: usize,
) -> Outcome<Vec<Outcome<Option<Found>>>> {
    let columns = columns_of(wide, source);
    let names: Option<Vec<&str>> = columns
        .as_ref()
        .map(|names| names.iter().map(String::as_str).collect());
    let using = wide.usage().begin(Use::GetFound);
    let rows = wide.get_many(keys, names.as_deref(), bytes_max);
    let rows = rows.map_err(|error| Failure::engine(&error, Some(wide.name())))?;
    let (mut found, mut missing) = (0, 0);
    for row in &rows {
        found += u64::from(matches!(row, Ok(Within::Found(_))));
        missing += u64::from(matches!(row, Ok(Within::Absent)));
    }
    using.end_as_both((Use::GetFound, found), (Use::GetMissing, missing));
    let rows = keys.iter().zip(rows).map(|(key, row)| match row {
        Ok(Within::Absent) => Ok(None),
        Ok(Within::Found(row)) => Ok(Some(row)),
        Ok(Within::Longer(_)) => get_one(wide, key, columns.as_deref()),
        Err(error) => Err(Failure::engine(&error, Some(wide.name()))),
    });
    Ok(rows.collect())
}

/// The columns that are shown, none if the row is to be read whole.
fn columns_of(wide: &WideCollection, source: &Source) -> Option<Vec<String>> {
    let schema = wide.schema();
    let named = match source.shown {
        true => source.fields.first_names(),
        false => Some(Vec::new()),
    };
    let settings = wide.settings();
    let key_field = &settings.key_field;
    let is_column = |name: &str| schema.column(name).is_some();
    let has_below = |name: &str| {
        let mut columns = schema.columns().iter();
        columns.any(|column| is_below(&column.name, name))
    };
    // A field that is no column is one of those that are kept undeclared, or columns are below it:
    // the row is read whole.
    let named = named.filter(|names| {
        let mut names = names.iter();
        names.all(|name| (is_column(name) || **name == **key_field) && !has_below(name))
    })?;
    let columns = named.into_iter().filter(|name| is_column(name));
    Some(columns.map(|name| name.to_string()).collect())
}

fn get_one(wide: &WideCollection, key: &Key, columns: Option<&[String]>) -> Outcome<Option<Found>> {
    let using = wide.usage().begin(Use::GetFound);
    let found = match columns {
        Some(columns) => {
            let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
            wide.get_columns(key, &columns)
        }
        None => wide.get(key),
    };
    match &found {
        Ok(Some(_)) => using.end(1),
        Ok(None) => using.end_as(Use::GetMissing, 1),
        Err(_) => {}
    }
    found.map_err(|error| Failure::engine(&error, Some(wide.name())))
}

/// Changes cells of a row, which are not read for it.
pub(crate) fn update(wide: &WideCollection, key: &Key, update: &Update) -> Outcome<Ack> {
    check_objects(wide, update)?;
    let (index, id) = (wide.name(), key.to_string());
    counted(wide.usage(), Use::Index, || {
        let mut write = |write: &RowWrite| wide.write(write);
        match patched(wide, key, update, &mut write) {
            Ok(written) => Ok(Ack::put(written)),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Err(Failure::document_missing(index, &id))
            }
            Err(error) => Err(write_failure(&error, index, &id)),
        }
    })
}

/// Refuses to change a part of an object in a column of JSON, which is written whole.
pub(crate) fn check_objects(wide: &WideCollection, update: &Update) -> Outcome<()> {
    let schema = wide.schema();
    let fields = update.partial.iter().flat_map(Document::fields);
    for (name, value) in fields {
        let is_family = schema.column(name).is_some_and(|column| column.family);
        if matches!(value, ValueRef::Object(_)) && !is_family {
            return Err(Failure::illegal_argument(format!(
                "[{name}] has objects, of which an update would change a part: a column of JSON is \
                 written whole, with PUT /{}/_cell/{{id}}/{name}",
                wide.name()
            )));
        }
    }
    Ok(())
}

/// Patches a row by `write`, or puts one if there is none and the update says so.
///
/// # Errors
/// As of [`WideCollection::write`].
pub(crate) fn patched(
    wide: &WideCollection,
    key: &Key,
    update: &Update,
    write: &mut dyn FnMut(&RowWrite) -> quiredb::Result<Written>,
) -> quiredb::Result<Written> {
    let condition = update
        .version
        .map_or(Condition::Always, Condition::IfVersion);
    let mut retries = update.retries;
    loop {
        let patch = match &update.partial {
            Some(partial) => wide.patch_write(key, partial)?,
            None => RowWrite::patch(key.clone()),
        };
        let written = write(&patch.condition(condition));
        let written = match (&update.upsert, written) {
            (Some(upsert), Err(error)) if error.kind() == ErrorKind::NotFound => {
                let put = wide.put_write(key, upsert)?;
                write(&put.condition(Condition::IfAbsent))
            }
            (_, written) => written,
        };
        match written {
            // Somebody made or removed the row between two tries.
            Err(error) if error.kind() == ErrorKind::Conflict && retries > 0 => retries -= 1,
            written => return written,
        }
    }
}
