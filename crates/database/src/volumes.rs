//! The volumes of a database, as its catalog names them.
//!
//! # Invariants
//! 1. A volume that the catalog names holds the file `VOLUME`, which was durable before the catalog
//!    was. Where it is not there the volume is lost, and nothing is written to what is in its
//!    place. Where it can't be read or is damaged, the volume is there: its other files say
//!    themselves what can't be read of them.
//! 2. A partition that the catalog names has its directory on every volume that the catalog names.

use crate::catalog::{Catalog, NamedVolume, parse_collection_dir, partition_dir};
use crate::{Error, Result};
use quire_env::{Env, ErrorKind as EnvErrorKind, LOCK_NAME, Medium, Volume, Volumes, found};
use quire_seeded::{Bug, seeded};
use quire_store::{seal, unseal};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The file that says which volume of which database a directory is.
pub const VOLUME_NAME: &str = "VOLUME";

const KIND: &str = "quire-volume";
const VERSION: u32 = 1;
const BYTES_MAX: u64 = 4096;

/// What `VOLUME` says.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Marker {
    database: String,
    volume: u16,
}

impl Catalog {
    /// Names these volumes. One SSD volume alone needs no names.
    ///
    /// # Errors
    /// `Invalid` for a path that is not UTF-8.
    pub fn set_volumes(&mut self, volumes: &Volumes) -> Result<()> {
        self.volumes = u32::try_from(volumes.count()).unwrap_or(u32::MAX);
        self.named_volumes.clear();
        let mut all = volumes.iter();
        if volumes.count() == 1 && all.all(|volume| volume.medium == Medium::Ssd) {
            return Ok(());
        }
        for volume in volumes.iter() {
            self.named_volumes.push(NamedVolume {
                name: volume.name.clone(),
                path: match volume.id.0 {
                    0 => String::new(),
                    _ => stored_path(&volume.path)?,
                },
                medium: volume.medium.to_string(),
            });
        }
        Ok(())
    }

    /// The volumes of the database, of which `given` names the first or all.
    ///
    /// # Errors
    /// `Invalid` if it names another number of them.
    pub fn all_volumes(&self, given: &Volumes) -> Result<Volumes> {
        let count = self.volumes as usize;
        let knows_all = count == self.named_volumes.len();
        if given.count() != count && !(given.count() == 1 && knows_all) {
            let what = format!(
                "the database was made on {count} volumes; give all of them, in their order{}",
                if knows_all { ", or only the first" } else { "" }
            );
            return Err(Error::Invalid(what));
        }
        if !knows_all {
            return Ok(given.clone());
        }
        let mut paths = given.iter().map(|volume| volume.path.clone());
        let named = self.named_volumes.iter().map(|named| {
            let path = paths.next().unwrap_or_else(|| PathBuf::from(&named.path));
            Ok((named.name.clone(), path, named.medium.parse()?))
        });
        let named: Vec<_> = named.collect::<quire_env::Result<_>>()?;
        Ok(Volumes::named(named)?)
    }

    /// Checks the names of volumes.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub(crate) fn check_volumes(&self) -> std::result::Result<(), String> {
        if self.named_volumes.is_empty() {
            return Ok(());
        }
        if self.named_volumes.len() != self.volumes as usize {
            return Err("it names another number of volumes than there are".to_string());
        }
        let all = self.all_volumes(&Volumes::single(""));
        all.map(drop).map_err(|error| error.to_string())
    }

    /// The volumes; those without the file `VOLUME` are not there. A damaged one is written anew.
    ///
    /// # Errors
    /// `Invalid` if a directory is that of another volume or database.
    pub fn volumes_there(&self, env: &dyn Env, volumes: Volumes) -> Result<Volumes> {
        if self.named_volumes.is_empty() {
            return Ok(volumes);
        }
        let mut foreign = None;
        let noted = volumes.noting(|volume| match read_marker(env, &volume.path) {
            FoundMarker::Whole(marker) => {
                if marker != self.marker(volume) {
                    foreign = Some(volume.path.clone());
                }
                true
            }
            FoundMarker::Damaged => {
                let path = volume.path.join(VOLUME_NAME);
                tracing::error!(path = %path.display(), "is damaged, and is written anew");
                if let Err(error) = self.write_marker(env, volume) {
                    tracing::error!(path = %path.display(), %error, "could not be written");
                }
                true
            }
            FoundMarker::Unread => true,
            FoundMarker::Absent => seeded(Bug::MountPointTaken),
        });
        match foreign {
            Some(path) => Err(foreign_volume(&path)),
            None => Ok(noted),
        }
    }

    fn marker(&self, volume: &Volume) -> Marker {
        Marker {
            database: self.database.clone(),
            volume: volume.id.0,
        }
    }

    /// Makes the directory of a volume other than the first, with the file `VOLUME`.
    ///
    /// # Errors
    /// `Invalid` if it holds something else; those of the machine.
    pub(crate) fn mark(&self, env: &dyn Env, volume: &Volume) -> Result<()> {
        env.create_dir_all(&volume.path)?;
        let is_ours = match read_marker(env, &volume.path) {
            FoundMarker::Whole(marker) => marker == self.marker(volume),
            _ => false,
        };
        let of_volume = |name: &String| {
            name == "lost+found" || name == LOCK_NAME || name.starts_with(VOLUME_NAME)
        };
        let of_database = |name: &String| {
            name == crate::directory::RESTORING_NAME
                || name == crate::directory::REPAIRING_NAME
                || is_ours && parse_collection_dir(name).is_some()
        };
        let names = env.list(&volume.path)?;
        if !names
            .iter()
            .all(|name| of_volume(name) || of_database(name))
        {
            return Err(foreign_volume(&volume.path));
        }
        if !is_ours {
            self.write_marker(env, volume)?;
        }
        Ok(())
    }

    /// Writes the file `VOLUME` of a volume: from then on it is there.
    ///
    /// # Errors
    /// Those of the machine.
    pub fn write_marker(&self, env: &dyn Env, volume: &Volume) -> Result<()> {
        let marker = serde_json::json!(self.marker(volume)).to_string();
        let text = seal(KIND, VERSION, &marker);
        Ok(env.replace(&volume.path.join(VOLUME_NAME), &text)?)
    }

    /// Makes the directories of all partitions on a volume that is to be added.
    ///
    /// # Errors
    /// Those of the machine.
    pub(crate) fn make_dirs(&self, env: &dyn Env, volume: &Volume) -> Result<()> {
        for (collection, partition) in self.partitions() {
            let dir = volume.path.join(partition_dir(collection, partition));
            env.create_dir_all(&dir.join("tables"))?;
        }
        Ok(())
    }
}

/// Has a catalog that is not written yet name these volumes, each of which says so from then on.
///
/// # Errors
/// `Invalid` if one holds something else; those of the machine.
pub fn name(env: &dyn Env, catalog: &mut Catalog, volumes: &Volumes) -> Result<()> {
    catalog.set_volumes(volumes)?;
    let mut further = volumes.iter().skip(1);
    further.try_for_each(|volume| catalog.mark(env, volume))
}

fn foreign_volume(path: &Path) -> Error {
    Error::Invalid(format!(
        "{} holds something else than this volume of the database; give an empty directory, or the \
         one that it had",
        path.display()
    ))
}

/// What is there of a file `VOLUME`.
enum FoundMarker {
    Whole(Marker),
    Damaged,
    /// It is there, and can't be read now.
    Unread,
    Absent,
}

fn read_marker(env: &dyn Env, dir: &Path) -> FoundMarker {
    let read = || env.read(&dir.join(VOLUME_NAME), BYTES_MAX);
    let bytes = match found(read) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == EnvErrorKind::NotFound => return FoundMarker::Absent,
        Err(_) => return FoundMarker::Unread,
    };
    let json = unseal(KIND, VERSION, "volume", &bytes).ok();
    let marker = json.and_then(|json| serde_json::from_str(json).ok());
    marker.map_or(FoundMarker::Damaged, FoundMarker::Whole)
}

/// A path as the catalog has it: it must be the same in whatever directory a process runs.
fn stored_path(path: &Path) -> Result<String> {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    match absolute.to_str() {
        Some(path) => Ok(path.to_string()),
        None => Err(Error::Invalid(format!(
            "{} is not UTF-8: a volume needs a path that is",
            path.display()
        ))),
    }
}
