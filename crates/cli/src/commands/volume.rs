//! `quire volume`: the disks that a database lies on.

use crate::Context;
use crate::database;
use crate::error::{Error, Result};
use crate::size::Size;
use crate::table;
use quiredb::{Medium, VolumeStats};
use std::path::{Path, PathBuf};

/// Show the volumes of a database, or add one
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  quire volume list ./db
  quire volume add ./db --volume cold=/mnt/disk2/db:hdd")]
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
        }
    }
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
