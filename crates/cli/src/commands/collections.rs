//! `quire collections`: lists the collections of a database.

use super::wide;
use crate::Context;
use crate::database;
use crate::error::{Error, Result};
use crate::link::{Link, Request};
use crate::place::Place;
use quiredb::Database;
use serde::Deserialize;

/// List the collections of a database
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  quire collections ./db")]
pub(crate) struct Collections {
    #[command(flatten)]
    place: Place,
}

impl Collections {
    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        let Some(link) = self.place.server(context)? else {
            let database = database::open_existing(context, self.place.path())?;
            return listed(context, &database);
        };
        for name in names_of(&link)? {
            let settings = match context.out.is_json() {
                true => Some(self.place.open(context, &name)?.settings().to_json()),
                false => None,
            };
            print(context, &name, settings)?;
        }
        Ok(())
    }
}

/// Prints the collections of a directory: plain ones, then wide ones.
fn listed(context: &mut Context, database: &Database) -> Result<()> {
    for name in database.collections() {
        let collection = database.collection(&name);
        let collection = collection.map_err(Error::engine("cannot open a collection"))?;
        print(context, &name, Some(collection.settings().to_json()))?;
    }
    for name in database.wide_collections() {
        let settings = wide::find(database, &name)?.map(|wide| wide.settings().to_json());
        print(context, &name, settings)?;
    }
    Ok(())
}

/// Prints a name, which has no characters that JSON escapes.
fn print(context: &mut Context, name: &str, settings: Option<String>) -> Result<()> {
    match settings.filter(|_| context.out.is_json()) {
        Some(settings) => context.out.line(format_args!(
            "{{\"name\":\"{name}\",\"settings\":{settings}}}"
        )),
        None => context.out.line(name),
    }
}

/// The names of a server's collections, in their order.
fn names_of(link: &Link) -> Result<Vec<String>> {
    let cannot = "cannot list the collections";
    let answer = link.whole(Request::get("/_cat/indices?format=json&h=index"));
    let answer = answer.map_err(Error::engine(cannot))?;
    let rows: Vec<Row> = serde_json::from_str(&answer)
        .map_err(|error| Error::Failed(format!("{cannot}: {}: {error}", link.url())))?;
    let mut names: Vec<String> = rows.into_iter().map(|row| row.index).collect();
    names.sort();
    Ok(names)
}

/// A collection in the server's list.
#[derive(Deserialize)]
struct Row {
    index: String,
}
