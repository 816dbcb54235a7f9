//! `quire compact`: frees the disk space of overwritten and deleted documents, now.

use super::wide;
use crate::Context;
use crate::database;
use crate::error::{Error, Result};
use crate::size::Size;
use quiredb::CollectionStats;
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
            None => [database.collections(), database.wide_collections()].concat(),
        };
        for name in names {
            let (before, after) = match wide::find(&database, &name)? {
                Some(wide) => compact(&name, || wide.stats(), || wide.compact())?,
                None => {
                    let plain = database::collection(&database, &self.db, &name)?;
                    compact(&name, || plain.stats(), || plain.compact())?
                }
            };
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

/// Compacts a collection; gives its bytes on disk before and afterwards.
fn compact(
    name: &str,
    stats: impl Fn() -> quiredb::Result<CollectionStats>,
    compact: impl FnOnce() -> quiredb::Result<()>,
) -> Result<(u64, u64)> {
    let disk_bytes = || {
        let stats = stats().map_err(Error::engine("cannot read the statistics"))?;
        Ok::<u64, Error>(stats.disk_bytes)
    };
    let before = disk_bytes()?;
    compact().map_err(Error::engine(format!("cannot compact `{name}`")))?;
    Ok((before, disk_bytes()?))
}
