//! What commands do with wide collections.

use crate::error::{Error, Result, causes};
use crate::message::print_message;
use crate::output::key_json;
use crate::place::{Documents, Place};
use crate::{Context, database};
use quiredb::operations::Origin;
use quiredb::wide::{Condition, RowWrite, Schema, WideCollection};
use quiredb::{CollectionSettings, Database, Document, Effect, ErrorKind, Key, Position};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The longest schema.
const SCHEMA_BYTES_MAX: u64 = 16 << 20;

/// The columns of a new wide collection.
#[derive(Debug, clap::Args)]
pub(super) struct Wide {
    /// Make a wide collection: its documents are rows of declared columns in column groups
    #[arg(long, requires = "schema")]
    wide: bool,
    /// With --wide: a file with the columns, a subset of JSON Schema
    #[arg(long, value_name = "FILE", requires = "wide")]
    schema: Option<PathBuf>,
}

impl Wide {
    /// The schema, if the collection is to be wide.
    pub(super) fn schema(&self, context: &Context) -> Result<Option<Schema>> {
        let Some(path) = &self.schema else {
            return Ok(None);
        };
        let failed = |error: &dyn std::fmt::Display| {
            Error::Failed(format!(
                "cannot read the schema {}: {error}",
                path.display()
            ))
        };
        let json = context
            .env
            .read(path, SCHEMA_BYTES_MAX)
            .map_err(|error| failed(&causes(&error)))?;
        Schema::from_json(&json)
            .map(Some)
            .map_err(|error| failed(&error))
    }
}

/// Changes of the columns of a wide collection.
#[derive(Debug, clap::Args)]
pub(super) struct AlterWide {
    /// Of a wide collection: add a column, as {"type":"integer","group":"meta"}
    #[arg(long, value_name = "NAME=JSON", value_parser = parse_pair)]
    add_column: Vec<(String, String)>,
    /// Of a wide collection: drop a column
    #[arg(long, value_name = "NAME")]
    drop_column: Vec<String>,
    /// Of a wide collection: give a column another name
    #[arg(long, value_name = "NAME=NEW", value_parser = parse_pair)]
    rename_column: Vec<(String, String)>,
    /// Of a wide collection: how long cells of a column are there that are written from now on, as
    /// 7d; or none
    #[arg(long, value_name = "NAME=AGE", value_parser = parse_pair)]
    time_to_live: Vec<(String, String)>,
    /// Of a wide collection: move a column to another column group, and wait until its cells are
    /// there
    #[arg(long, value_name = "NAME=GROUP", value_parser = parse_pair)]
    move_column: Vec<(String, String)>,
    /// Of a wide collection: shape a column group, as
    /// {"tiers":{"hot":"ssd","cold":"hdd","after":"7d"}}
    #[arg(long, value_name = "NAME=JSON", value_parser = parse_pair)]
    group: Vec<(String, String)>,
}

fn parse_pair(text: &str) -> std::result::Result<(String, String), String> {
    let pair = text.split_once('=').ok_or("there is no = in it")?;
    Ok((pair.0.to_string(), pair.1.to_string()))
}

impl AlterWide {
    pub(super) fn is_empty(&self) -> bool {
        let columns = [
            &self.add_column,
            &self.rename_column,
            &self.time_to_live,
            &self.move_column,
            &self.group,
        ];
        columns.iter().all(|changes| changes.is_empty()) && self.drop_column.is_empty()
    }

    /// Drops, renames and adds columns, gives them times to live, shapes groups and moves columns
    /// to them, in this order, in one change.
    pub(super) fn run(&self, context: &mut Context, database: &Database, name: &str) -> Result<()> {
        let altered = database.alter_wide_collection(name, |mut schema| {
            for column in &self.drop_column {
                schema = schema.without_column(column)?;
            }
            for (from, to) in &self.rename_column {
                schema = schema.with_renamed(from, to)?;
            }
            for (column, json) in &self.add_column {
                schema = schema.with_property(column, json.as_bytes())?;
            }
            for (column, age) in &self.time_to_live {
                let age = (age != "none").then_some(age.as_str());
                schema = schema.with_time_to_live_text(column, age)?;
            }
            for (group, json) in &self.group {
                schema = schema.with_group_json(group, json.as_bytes())?;
            }
            for (column, group) in &self.move_column {
                schema = schema.with_moved(column, group)?;
            }
            Ok(schema)
        });
        let altered = altered.map_err(Error::engine(format!(
            "cannot change the columns of `{name}`"
        )))?;
        // No background work goes on once the command is done. What had begun is ended too.
        altered
            .move_columns()
            .map_err(Error::engine("cannot move the column"))?;
        print_schema(context, "altered", name, &altered)
    }
}

/// Makes a wide collection.
pub(super) fn create(
    context: &mut Context,
    database: &Database,
    name: &str,
    schema: Schema,
    settings: CollectionSettings,
) -> Result<()> {
    let created = database
        .create_wide_with_aliases(name, schema, settings, BTreeMap::new())
        .map_err(Error::engine(format!(
            "cannot create the collection `{name}`"
        )))?;
    print_schema(context, "created", name, &created)
}

fn print_schema(
    context: &mut Context,
    did: &str,
    name: &str,
    collection: &WideCollection,
) -> Result<()> {
    let schema = collection.schema();
    if context.out.is_json() {
        let settings = collection.settings().to_json();
        return context.out.line(format_args!(
            "{{\"{did}\":\"{name}\",\"settings\":{settings}}}"
        ));
    }
    let mut groups = Vec::new();
    for group in schema.groups() {
        let columns = schema.columns().iter();
        let columns = columns.filter(|column| schema.group_of(column) == group.name);
        let columns: Vec<_> = columns.map(|column| column.name.as_str()).collect();
        if !columns.is_empty() {
            groups.push(format!("{} ({})", group.name, columns.join(", ")));
        }
    }
    let groups = groups.join(", ");
    context
        .out
        .line(format_args!("{did} {name}: wide, column groups {groups}"))
}

/// A collection that a command works on.
pub(super) enum Opened {
    /// A wide one, with its database.
    Wide(Database, WideCollection),
    /// Another one.
    Plain(Documents),
}

/// Opens a collection, wide or not. A wide one is found in a directory only.
///
/// # Errors
/// If there is no such place, or no collection of this name.
pub(super) fn open(context: &Context, place: &Place, name: &str) -> Result<Opened> {
    if place.server(context)?.is_some() {
        return place.open(context, name).map(Opened::Plain);
    }
    let database = database::open_existing(context, place.path())?;
    match find(&database, name)? {
        Some(wide) => Ok(Opened::Wide(database, wide)),
        None => {
            let collection = database::collection(&database, place.path(), name)?;
            Ok(Opened::Plain(Documents::Directory {
                database,
                collection,
            }))
        }
    }
}

/// The collection of this name, if it is a wide one.
///
/// # Errors
/// If it can't be opened.
pub(super) fn find(database: &Database, name: &str) -> Result<Option<WideCollection>> {
    if !database.is_wide(name) {
        return Ok(None);
    }
    let opened = database.wide_collection(name);
    opened.map(Some).map_err(Error::engine(format!(
        "cannot open the collection `{name}`"
    )))
}

/// Refuses `--columns` of a plain collection.
pub(super) fn refuse_columns(name: &str, columns: &[String]) -> Result<()> {
    match columns.is_empty() {
        true => Ok(()),
        false => Err(Error::Usage(format!(
            "--columns is for wide collections, and `{name}` is a plain one"
        ))),
    }
}

/// Prints rows by key, whole or some columns of them.
pub(super) fn get(
    context: &mut Context,
    collection: &WideCollection,
    keys: &[Key],
    columns: &[String],
) -> Result<()> {
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut missing = false;
    for key in keys {
        let found = match columns.is_empty() {
            true => collection.get(key),
            false => collection.get_columns(key, &columns),
        };
        match found.map_err(Error::engine("cannot read"))? {
            Some(found) => {
                let origin = Origin::of(&found);
                context.out.found(&origin, &found.document)?;
            }
            None => {
                missing = true;
                let name = collection.name();
                print_message(format_args!("quire: no document {key} in {name}"));
                if context.out.is_json() {
                    let key = key_json(key);
                    context
                        .out
                        .line(format_args!("{{\"key\":{key},\"found\":false}}"))?;
                }
            }
        }
    }
    match missing {
        true => Err(Error::Reported),
        false => Ok(()),
    }
}

/// Writes or patches one row.
pub(super) fn put(
    context: &mut Context,
    collection: &WideCollection,
    key: Option<Key>,
    document: &Document,
    is_patch: bool,
    condition: Condition,
) -> Result<()> {
    let no_key = || Error::Usage("give the key of the document beside it".into());
    let field = collection.settings().key_field.clone();
    let key = match (key, document.get(&field)) {
        (Some(key), _) => key,
        (None, Some(value)) => Key::from_value(value)
            .map_err(|error| Error::Failed(format!("the key of the document: {error}")))?,
        (None, None) => return Err(no_key()),
    };
    let cannot = || Error::engine(format!("cannot write {key}"));
    let write = match is_patch {
        true => collection.patch_write(&key, document),
        false => collection.put_write(&key, document),
    };
    let write = write.map_err(cannot())?.condition(condition);
    let written = collection.write(&write).map_err(cannot())?;
    collection
        .sync()
        .map_err(Error::engine("cannot make the document durable"))?;
    context.out.written(&key, &written)
}

/// The condition of a write.
pub(super) fn condition(if_version: Option<u64>, if_absent: bool) -> Condition {
    match if_version {
        Some(version) => Condition::IfVersion(Position(version)),
        None if if_absent => Condition::IfAbsent,
        None => Condition::Always,
    }
}

/// Removes rows.
pub(super) fn delete(
    context: &mut Context,
    collection: &WideCollection,
    keys: &[Key],
    if_version: Option<u64>,
) -> Result<()> {
    let mut missing = false;
    for key in keys {
        let write = RowWrite::delete(key.clone()).condition(condition(if_version, false));
        let written = collection
            .write(&write)
            .map_err(Error::engine(format!("cannot delete {key}")))?;
        if written.effect == Effect::Unchanged {
            missing = true;
            let name = collection.name();
            print_message(format_args!("quire: no document {key} in {name}"));
        }
        context.out.written(key, &written)?;
    }
    collection
        .sync()
        .map_err(Error::engine("cannot make the deletions durable"))?;
    match missing {
        true => Err(Error::Reported),
        false => Ok(()),
    }
}

/// Prints all rows, whole, partition after partition in the order of their first writes.
fn scan_rows(
    context: &mut Context,
    collection: &WideCollection,
    limit: Option<usize>,
) -> Result<()> {
    let key_field = collection.settings().key_field.clone();
    let (mut left, mut too_large) = (limit.unwrap_or(usize::MAX), false);
    for row in collection.rows().map_err(Error::engine("cannot scan"))? {
        if left == 0 {
            break;
        }
        match row {
            Ok(found) => {
                let origin = Origin::of(&found);
                context.out.keyed(&key_field, &origin, &found.document)?;
            }
            // The rows after it can be read.
            Err(error) if error.kind() == ErrorKind::TooLarge => {
                too_large = true;
                print_message(format_args!("quire: {error}"));
            }
            Err(error) => return Err(Error::engine("cannot scan")(error)),
        }
        left -= 1;
    }
    match too_large {
        true => Err(Error::Reported),
        false => Ok(()),
    }
}

/// Prints columns of all rows that have a cell in one of them.
pub(super) fn scan(
    context: &mut Context,
    collection: &WideCollection,
    columns: &[String],
    limit: Option<usize>,
) -> Result<()> {
    if columns.is_empty() {
        return scan_rows(context, collection, limit);
    }
    let names: Vec<&str> = columns.iter().map(String::as_str).collect();
    let quoted: Vec<String> = names
        .iter()
        .map(|name| serde_json::json!(name).to_string())
        .collect();
    let key_field = serde_json::json!(collection.settings().key_field).to_string();
    let mut left = limit.unwrap_or(usize::MAX);
    let failed = || Error::engine("cannot scan");
    for batch in collection.scan_columns(&names).map_err(failed())? {
        let batch = batch.map_err(failed())?;
        for (at, key) in batch.keys.iter().enumerate().take(left) {
            let mut line = format!("{{{key_field}:{}", key_json(key)).into_bytes();
            for (name, cells) in quoted.iter().zip(&batch.columns) {
                if let Some(cell) = &cells[at] {
                    line.extend(format!(",{name}:").bytes());
                    cell.write_json(&mut line);
                }
            }
            line.push(b'}');
            context.out.document(&String::from_utf8_lossy(&line))?;
        }
        left = left.saturating_sub(batch.keys.len());
        if left == 0 {
            break;
        }
    }
    Ok(())
}
