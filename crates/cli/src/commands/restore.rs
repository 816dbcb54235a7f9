//! `quire restore`: a database of a snapshot.

use super::backup::unreadable;
use crate::Context;
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::size::{Size, counted};
use crate::time::Moment;
use quiredb::{ErrorKind, Volumes};
use std::path::PathBuf;

/// Make a database of a snapshot of a backup
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Every byte's checksum is compared on the way. The directory becomes a database in the very end: one that was
interrupted is begun anew by the same command. The database is a copy of the one backed up, under the same identity.

Examples:
  quire restore /backups/db ./copy
  quire restore /backups/db ./copy --snapshot 12")]
pub(crate) struct Restore {
    /// The backup's directory
    dir: PathBuf,
    /// The new database's directory: absent or empty
    db: PathBuf,
    /// The snapshot's number, as `quire backups` lists it [default: the newest]
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
