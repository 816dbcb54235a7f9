//! `quire backups`: the snapshots of a backup.

use super::backup::unreadable;
use crate::Context;
use crate::error::Result;
use crate::size::{Size, count, counted};
use crate::time::Moment;
use quiredb::operations::SnapshotInfo;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// List the snapshots of a backup, oldest first
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The bytes are those of a restored database; snapshots share files. The number after a collection
is the count of records that its partitions had written; --json has the position of each one.

Example:
  quire backups /backups/db")]
pub(crate) struct Backups {
    /// The directory of the backup
    dir: PathBuf,
}

impl Backups {
    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        let snapshots = quiredb::operations::snapshots(context.env.clone(), &self.dir)
            .map_err(|source| unreadable(&self.dir, source))?;
        for snapshot in &snapshots {
            if context.out.is_json() {
                context.out.json_line(snapshot)?;
            } else {
                context.out.line(line(snapshot))?;
            }
        }
        Ok(())
    }
}

fn line(snapshot: &SnapshotInfo) -> String {
    let mut collections: BTreeMap<&str, u64> = BTreeMap::new();
    for at in &snapshot.positions {
        *collections.entry(&at.collection).or_default() += at.position;
    }
    let collections: Vec<_> = collections
        .iter()
        .map(|(name, records)| format!("{name} {}", count(*records)))
        .collect();
    format!(
        "{}  {}  {} of {}  {}",
        snapshot.number,
        Moment(snapshot.time_micros),
        counted(snapshot.files, "file", "files"),
        Size(snapshot.bytes),
        collections.join(", ")
    )
}
