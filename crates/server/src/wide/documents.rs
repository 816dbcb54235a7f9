//! Rows as documents: put, get, change in part, delete.

use quiredb::wide::{Condition, RowWrite, WideCollection};
use quiredb::{Document, ErrorKind, Found, Key, Use, ValueRef, Written};

use super::{collection, condition_of};
use crate::documents::ack::{Ack, write_failure};
use crate::documents::parse::parse_key;
use crate::documents::source::Source;
use crate::documents::tally::counted;
use crate::documents::update::Update;
use crate::engine::Engine;
use crate::http::failure::{Failure, Outcome};

/// Puts a document, under its id, the key in its key field, or a new id. Gives the id.
pub(crate) fn put(
    engine: &Engine,
    index: &str,
    key: Option<Key>,
    document: &Document,
    condition: quiredb::Condition,
) -> Outcome<(Ack, String)> {
    let wide = collection(engine, index)?;
    let key = match key {
        Some(key) => key,
        None => key_of(engine, &wide, document)?,
    };
    let id = key.to_string();
    let condition = condition_of(condition)?;
    let ack = counted(wide.usage(), Use::Index, || {
        let write = wide.put_write(&key, document);
        let written = write.and_then(|write| wide.write(&write.condition(condition)));
        written
            .map(Ack::put)
            .map_err(|error| write_failure(&error, index, &id))
    })?;
    Ok((ack, id))
}

/// The key that a document names, or a new one.
fn key_of(engine: &Engine, wide: &WideCollection, document: &Document) -> Outcome<Key> {
    match document.get(&wide.settings().key_field) {
        Some(value) => Key::from_value(value).map_err(|error| Failure::document(error.to_string())),
        None => parse_key(&engine.new_id()),
    }
}

/// Removes a row.
pub(crate) fn delete(
    engine: &Engine,
    index: &str,
    key: &Key,
    condition: quiredb::Condition,
) -> Outcome<Ack> {
    let write = RowWrite::delete(key.clone()).condition(condition_of(condition)?);
    let wide = collection(engine, index)?;
    counted(wide.usage(), Use::Delete, || {
        let written = wide.write(&write);
        written
            .map(Ack::delete)
            .map_err(|error| write_failure(&error, index, &key.to_string()))
    })
}

/// The row under `key`: the columns that `source` shows, or all.
pub(crate) fn get(
    engine: &Engine,
    index: &str,
    key: &Key,
    source: &Source,
) -> Outcome<Option<Found>> {
    let wide = collection(engine, index)?;
    let schema = wide.schema();
    let named = match source.shown {
        true => source.fields.first_names(),
        false => Some(Vec::new()),
    };
    // A field that is no column is one of those that are kept undeclared: the row is read whole.
    let named = named.filter(|names| {
        let key_field = &wide.settings().key_field;
        let mut names = names.iter();
        names.all(|name| schema.column(name).is_some() || **name == **key_field)
    });
    let using = wide.usage().begin(Use::GetFound);
    let found = match named {
        Some(names) => {
            let columns: Vec<&str> = names
                .into_iter()
                .filter(|name| schema.column(name).is_some())
                .collect();
            wide.get_columns(key, &columns)
        }
        None => wide.get(key),
    };
    match &found {
        Ok(Some(_)) => using.end(1),
        Ok(None) => using.end_as(Use::GetMissing, 1),
        Err(_) => {}
    }
    found.map_err(|error| Failure::engine(&error, Some(index)))
}

/// Changes cells of a row, which are not read for it.
pub(crate) fn update(engine: &Engine, index: &str, key: &Key, update: &Update) -> Outcome<Ack> {
    let wide = collection(engine, index)?;
    check_objects(&wide, update)?;
    let id = key.to_string();
    let mut retries = update.retries;
    counted(wide.usage(), Use::Index, || {
        loop {
            match patched(&wide, key, update) {
                Ok(written) => return Ok(Ack::put(written)),
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    return Err(Failure::document_missing(index, &id));
                }
                // Somebody made or removed the row between two tries.
                Err(error) if error.kind() == ErrorKind::Conflict && retries > 0 => retries -= 1,
                Err(error) => return Err(write_failure(&error, index, &id)),
            }
        }
    })
}

/// Refuses to change a part of an object in a column of JSON, which is written whole.
fn check_objects(wide: &WideCollection, update: &Update) -> Outcome<()> {
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

fn patched(wide: &WideCollection, key: &Key, update: &Update) -> quiredb::Result<Written> {
    let condition = update
        .version
        .map_or(Condition::Always, Condition::IfVersion);
    let patch = match &update.partial {
        Some(partial) => wide.patch_write(key, partial)?,
        None => RowWrite::patch(key.clone()),
    };
    let written = wide.write(&patch.condition(condition));
    match (&update.upsert, written) {
        (Some(upsert), Err(error)) if error.kind() == ErrorKind::NotFound => {
            let put = wide.put_write(key, upsert)?;
            wide.write(&put.condition(Condition::IfAbsent))
        }
        (_, written) => written,
    }
}
