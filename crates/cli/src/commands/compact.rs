//! `quire compact`: frees the disk space of overwritten and deleted documents, now.

use crate::Context;
use crate::database;
use crate::error::{Error, Result};
use crate::size::Size;
use quiredb::Collection;
use serde_json::json;
use std::path::PathBuf;

/// Free the disk space of overwritten and deleted documents
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Free the disk space of overwritten and deleted documents.\n\n\
        An open database does this in the background. This command does all of it at once: every \
        tree becomes one run, and the log keeps only the newest versions. Superseded versions \
        can't be read afterwards.",
    after_help = "Example:\n  quire compact ./db papers"
)]
pub(crate) struct Compact {
    /// The directory of the database
    db: PathBuf,
    /// The collection [default: all]
    collection: Option<String>,
}

impl Compact {
    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        let database = database::open_existing(context, &self.db)?;
        let names = match self.collection {
            Some(name) => vec![name],
            None => database.collections(),
        };
        let disk_bytes = |collection: &Collection| {
            let stats = collection.stats();
            let stats = stats.map_err(Error::engine("cannot read the statistics"))?;
            Ok::<u64, Error>(stats.disk_bytes)
        };
        for name in names {
            let collection = database::collection(&database, &self.db, &name)?;
            let before = disk_bytes(&collection)?;
            collection
                .compact()
                .map_err(Error::engine(format!("cannot compact `{name}`")))?;
            let after = disk_bytes(&collection)?;
            if context.out.is_json() {
                context.out.json_line(&json!({
                    "collection": name,
                    "disk_bytes_before": before,
                    "disk_bytes": after,
                }))?;
            } else {
                let (before, after) = (Size(before), Size(after));
                context
                    .out
                    .line(format_args!("{name}: {before} before, {after} now"))?;
            }
        }
        Ok(())
    }
}
