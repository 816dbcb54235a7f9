//! `quire collections`: lists the collections of a database.

use super::wide;
use crate::Context;
use crate::database;
use crate::error::Result;
use std::path::PathBuf;

/// List the collections of a database
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  quire collections ./db")]
pub(crate) struct Collections {
    /// The directory of the database
    db: PathBuf,
}

impl Collections {
    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        let database = database::open_existing(context, &self.db)?;
        for name in database.collections() {
            if context.out.is_json() {
                let collection = database::collection(&database, &self.db, &name)?;
                // A name has no characters that JSON escapes.
                let settings = collection.settings().to_json();
                context.out.line(format_args!(
                    "{{\"name\":\"{name}\",\"settings\":{settings}}}"
                ))?;
            } else {
                context.out.line(name)?;
            }
        }
        for name in database.wide_collections() {
            match wide::find(&database, &name)? {
                Some(collection) if context.out.is_json() => {
                    let settings = collection.settings().to_json();
                    context.out.line(format_args!(
                        "{{\"name\":\"{name}\",\"settings\":{settings}}}"
                    ))?;
                }
                _ => context.out.line(name)?,
            }
        }
        Ok(())
    }
}
