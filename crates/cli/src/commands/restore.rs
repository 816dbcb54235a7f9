//! `quire restore`: makes a database from a snapshot.

use super::backup::unreadable;
use crate::Context;
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::size::{Size, counted};
use crate::time::Moment;
use quiredb::{ErrorKind, Volumes};
use std::path::PathBuf;

/// Make a database from a snapshot of a backup
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Every checksum is checked. The directory becomes a database at the very end: after an
interruption, run the same command again. The database has the identity of the original.

Examples:
  quire restore /backups/db ./copy
  quire restore /backups/db ./copy --snapshot 12")]
pub(crate) struct Restore {
    /// The directory of the backup
    dir: PathBuf,
    /// The directory of the new database: absent or empty
    db: PathBuf,
    /// The number of the snapshot, as `quire backups` lists it [default: the newest]
    #[arg(long, value_name = "N")]
    snapshot: Option<u64>,
}

impl Restore {
    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        let progress = Progress::bytes(None);
        let report = quiredb::operations::restore(
            context.env.clone(),
            &self.dir,
            self.snapshot,
            &Volumes::single(&self.db),
            &mut |done, total| {
                progress.total(total);
                progress.at(done, String::new);
            },
        );
        progress.finish();
        let report = report.map_err(|source| match source.kind() {
            ErrorKind::Corrupt => unreadable(&self.dir, source),
            ErrorKind::NotFound | ErrorKind::Invalid => Error::Failed(source.to_string()),
            _ => Error::Engine {
                context: format!("cannot restore into {}", self.db.display()),
                source,
            },
        })?;
        if context.out.is_json() {
            return context.out.json_line(&report);
        }
        let snapshot = &report.snapshot;
        context.out.line(format_args!(
            "restored snapshot {} of {}: {} of {}",
            snapshot.number,
            Moment(snapshot.time_micros),
            counted(snapshot.files, "file", "files"),
            Size(snapshot.bytes)
        ))
    }
}
