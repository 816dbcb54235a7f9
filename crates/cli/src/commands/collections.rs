//! `quire collections`: lists the collections of a database.

use crate::Context;
use crate::database;
use crate::error::{Error, Result};
use crate::link::{Link, Request};
use crate::place::Place;
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
        let link = self.place.server(context)?;
        let names = match &link {
            Some(link) => names_of(link)?,
            None => database::open_existing(context, self.place.path())?.collections(),
        };
        for name in names {
            if context.out.is_json() {
                let collection = self.place.open(context, &name)?;
                // A name has no characters that JSON escapes.
                let settings = collection.settings().to_json();
                context.out.line(format_args!(
                    "{{\"name\":\"{name}\",\"settings\":{settings}}}"
                ))?;
            } else {
                context.out.line(name)?;
            }
        }
        Ok(())
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
