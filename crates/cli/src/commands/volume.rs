//! `quire volume`: the disks that a database lies on.

use crate::Context;
use crate::database;
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::size::{Size, counted};
use crate::table;
use quiredb::operations::{ReplaceOptions, ReplaceReport, replace_volumes};
use quiredb::{ErrorKind, Medium, VolumeStats, Volumes};
use std::path::{Path, PathBuf};

/// Show the volumes of a database, or add one
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  quire volume list ./db
  quire volume add ./db --volume cold=/mnt/disk2/db:hdd
  quire volume replace ./db --from /backups/db --dry-run
  quire volume replace ./db --from /backups/db --volume cold=/mnt/disk9/db")]
pub(crate) struct VolumeCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Show the volumes: name, medium, free room, directory
    List {
        /// The directory of the database
        db: PathBuf,
    },
    /// Add volumes; the database is not open in another process
    Add {
        /// The directory of the database
        db: PathBuf,
        /// A name, an absent or empty directory, and ssd or hdd
        #[arg(long, value_name = "NAME=PATH:MEDIUM", required = true)]
        volume: Vec<NewVolume>,
    },
    /// Give lost volumes what they held, from a backup of the database or of a follower
    ///
    /// All volumes that `quire volume list` shows as lost are replaced. What lies on the others is
    /// kept, and so is every record: if the backup and the log here do not have all that was lost,
    /// the command says so and changes nothing. After an interruption, run it again.
    Replace {
        /// The directory of the database
        db: PathBuf,
        /// The directory of the backup
        #[arg(long, value_name = "BACKUP")]
        from: PathBuf,
        /// The number of the snapshot, as `quire backups` lists it [default: the newest]
        #[arg(long, value_name = "N")]
        snapshot: Option<u64>,
        /// A lost volume and its new directory, absent or empty [default: the one it had]
        #[arg(long, value_name = "NAME=PATH", value_parser = moved_volume)]
        volume: Vec<(String, PathBuf)>,
        /// Only show what would be done
        #[arg(long)]
        dry_run: bool,
    },
}

/// A volume and its new directory, as `cold=/mnt/disk9/db`.
fn moved_volume(text: &str) -> std::result::Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, path)) if !name.is_empty() && !path.is_empty() => {
            Ok((name.to_owned(), PathBuf::from(path)))
        }
        _ => Err("use NAME=PATH".to_owned()),
    }
}

/// A volume, as `cold=/mnt/disk2/db:hdd`.
#[derive(Debug, Clone)]
pub(crate) struct NewVolume {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) medium: Medium,
}

impl std::str::FromStr for NewVolume {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<NewVolume, String> {
        let wrong = || "use NAME=PATH:ssd or NAME=PATH:hdd".to_owned();
        let (name, rest) = text.split_once('=').ok_or_else(wrong)?;
        let (path, medium) = rest.rsplit_once(':').ok_or_else(wrong)?;
        if path.is_empty() {
            return Err(wrong());
        }
        Ok(NewVolume {
            name: name.to_owned(),
            path: PathBuf::from(path),
            medium: medium.parse().map_err(|_| wrong())?,
        })
    }
}

impl VolumeCommand {
    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        match self.action {
            Action::List { db } => list(context, &db),
            Action::Add { db, volume } => {
                let database = database::open_existing(context, &db)?;
                for one in &volume {
                    database
                        .add_volume(&one.name, &one.path, one.medium)
                        .map_err(Error::engine(format!("cannot add volume {}", one.name)))?;
                }
                database
                    .close()
                    .map_err(Error::engine("cannot close the database"))?;
                list(context, &db)
            }
            Action::Replace {
                db,
                from,
                snapshot,
                volume,
                dry_run,
            } => {
                let options = ReplaceOptions {
                    snapshot,
                    paths: volume.into_iter().collect(),
                    dry_run,
                };
                replace(context, &db, &from, &options)
            }
        }
    }
}

fn replace(context: &mut Context, db: &Path, from: &Path, options: &ReplaceOptions) -> Result<()> {
    let progress = Progress::bytes(None);
    let report = replace_volumes(
        context.env.clone(),
        &Volumes::single(db),
        from,
        options,
        &mut |done, total| {
            progress.total(total);
            progress.at(done, String::new);
        },
    );
    progress.finish();
    let report = report.map_err(|source| match source.kind() {
        ErrorKind::NotFound | ErrorKind::Invalid => Error::Failed(source.to_string()),
        _ => Error::Engine {
            context: format!("cannot replace the lost volumes of {}", db.display()),
            source,
        },
    })?;
    if context.out.is_json() {
        return context.out.json_line(&report);
    }
    for line in report_lines(&report) {
        context.out.line(line)?;
    }
    Ok(())
}

/// A line for each partition, then one for each volume.
fn report_lines(report: &ReplaceReport) -> Vec<String> {
    let mut lines = Vec::new();
    for partition in &report.partitions {
        let lost = format!(
            "{}, {}",
            counted(partition.lost_tables, "lost table", "lost tables"),
            Size(partition.lost_bytes)
        );
        let how = match partition.restored {
            false => "the snapshot has them".to_owned(),
            true => format!(
                "restored from the snapshot, then {} from the log",
                counted(partition.records, "record", "records")
            ),
        };
        let (collection, number) = (&partition.collection, partition.partition);
        lines.push(format!("{collection} partition {number}: {lost}; {how}"));
    }
    let done = match report.dry_run {
        true => "would be replaced",
        false => "replaced",
    };
    let volumes = report.volumes.iter();
    lines.extend(volumes.map(|volume| format!("volume {} {done}: {}", volume.name, volume.path)));
    lines
}

fn list(context: &mut Context, db: &Path) -> Result<()> {
    let volumes = database::open_existing(context, db)?.volume_stats();
    if context.out.is_json() {
        return context.out.json_line(&volumes);
    }
    for line in lines(&volumes) {
        context.out.line(line)?;
    }
    Ok(())
}

/// A heading, then a line for each volume, in aligned columns.
pub(super) fn lines(volumes: &[VolumeStats]) -> Vec<String> {
    let mut rows = vec![
        ["volume", "medium", "free", "directory"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for volume in volumes {
        let free = match (volume.lost, volume.free_bytes) {
            (true, _) => "lost".to_owned(),
            (false, Some(bytes)) => Size(bytes).to_string(),
            (false, None) => "?".to_owned(),
        };
        let (name, medium) = (volume.name.clone(), volume.medium.clone());
        rows.push(vec![name, medium, free, volume.path.clone()]);
    }
    table::aligned(&rows, &[0, 1, 3])
}
