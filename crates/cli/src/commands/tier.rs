//! `quire tier`: moves cells between the tiers of column groups, now.

use super::wide;
use crate::Context;
use crate::database;
use crate::error::{Error, Result};
use crate::size::Size;
use serde_json::json;
use std::path::PathBuf;

/// Move the cells of a wide collection that are due between the tiers of their groups
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Move the cells of a wide collection that are due between the tiers of their \
        groups.\n\n\
        A database that is served does this in the background, as fast as bytes_per_second of the \
        group says. This command does all of it at once. Cells that were not written for longer \
        than the group's tiers say go to the cold tier; those that were written since come back.",
    after_help = "Example:\n  quire tier ./db pages"
)]
pub(crate) struct Tier {
    /// The directory of the database
    db: PathBuf,
    /// The wide collection
    collection: String,
}

impl Tier {
    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        let database = database::open_existing(context, &self.db)?;
        let name = self.collection;
        let Some(collection) = wide::find(&database, &name)? else {
            database::collection(&database, &self.db, &name)?;
            let what = format!("tiers are of wide collections, and `{name}` is a plain one");
            return Err(Error::Usage(what));
        };
        let failed = || Error::engine(format!("cannot move cells of `{name}`"));
        let moved = collection.tier().map_err(failed())?;
        let stats = collection.stats().map_err(failed())?;
        let tiers = stats.groups.iter().filter_map(|group| group.tiers.as_ref());
        let stopped = tiers.filter_map(|tiers| tiers.stopped.clone()).next();
        collection.sync().map_err(failed())?;
        if context.out.is_json() {
            context.out.json_line(&json!({
                "collection": name,
                "rows": moved.rows,
                "bytes": moved.bytes,
                "stopped": stopped,
            }))?;
        } else {
            let (rows, bytes) = (moved.rows, Size(moved.bytes));
            context
                .out
                .line(format_args!("{name}: cells of {rows} rows moved, {bytes}"))?;
        }
        match stopped {
            Some(stopped) => Err(Error::Failed(stopped)),
            None => Ok(()),
        }
    }
}
