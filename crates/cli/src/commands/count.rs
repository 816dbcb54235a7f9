//! `quire count`: counts the documents of a collection.

use crate::Context;
use crate::database;
use crate::error::{Error, Result};
use std::path::PathBuf;

/// Count the documents of a collection
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  quire count ./db papers")]
pub(crate) struct Count {
    /// The directory of the database
    db: PathBuf,
    /// The collection
    collection: String,
}

impl Count {
    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        let database = database::open_existing(context, &self.db)?;
        let collection = database::collection(&database, &self.db, &self.collection)?;
        let count = collection.count().map_err(Error::engine("cannot count"))?;
        if context.out.is_json() {
            context.out.line(format_args!("{{\"count\":{count}}}"))
        } else {
            context.out.line(count)
        }
    }
}
