//! Restore: a database made of a snapshot of a backup.
//!
//! # Invariants
//! 1. Every byte's checksum is compared on the way. What is damaged is not restored: the restore
//!    fails.
//! 2. The catalog comes last, when all files and their names are durable. Until then each volume
//!    holds a file that says that a restore is under way: such a directory is not opened as a
//!    database, and a restore begins anew in it.
//!
//! The database has the identity of the one backed up: it is a copy of it.

use crate::backup::{BackupDir, PartitionFiles, Snapshot, SnapshotInfo, StoredFile};
use crate::file_source::{FileSource, MANIFEST_BYTES_MAX, place_partition, spread};
use quire_database::catalog::{CATALOG_COPY_NAME, CATALOG_NAME, parse_collection_dir};
use quire_database::directory::{LOCK_NAME, RESTORING_NAME, partition_place};
use quire_database::volumes::{self as named, VOLUME_NAME};
use quire_database::{Error, Result};
use quire_env::{Env, ErrorKind as EnvErrorKind, VolumeId, Volumes};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes are read, checked and written in pieces of this size.
const CHUNK_BYTES: u64 = 256 << 10;

/// What a restore did.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct RestoreReport {
    /// The snapshot restored.
    #[serde(flatten)]
    pub snapshot: SnapshotInfo,
}

/// Makes a database of a snapshot of the backup in `from`, on volumes that are absent or empty: the
/// newest snapshot if none is named. The result is the database as it was at the snapshot's moment,
/// under the same identity. It may have another number of volumes.
///
/// `progress` receives the bytes restored so far, and of how many in all.
///
/// # Errors
/// `NotFound` if there is no such backup or snapshot; `Corrupt` if a file of the backup is damaged:
/// it is named, and what was restored so far is not a database; `Invalid` if a volume is not empty,
/// but for what an interrupted restore left, which is begun anew; `Full` or `Io`.
pub fn restore(
    env: Arc<dyn Env>,
    from: &Path,
    number: Option<u64>,
    volumes: &Volumes,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<RestoreReport> {
    let backup = BackupDir::read(Arc::clone(&env), from)?;
    let snapshot = choose(&backup, number)?;
    let mut source = SnapshotFiles::new(&env, &backup, snapshot.size().1, progress);
    restore_files(
        &env,
        &snapshot,
        volumes,
        &spread(volumes.count()),
        &mut source,
    )?;
    Ok(RestoreReport {
        snapshot: SnapshotInfo::of(&snapshot),
    })
}

/// Makes a database of the partitions of a snapshot. `to` says where the tables of each volume go.
///
/// # Errors
/// As of [`restore`].
pub(crate) fn restore_files(
    env: &Arc<dyn Env>,
    snapshot: &Snapshot,
    volumes: &Volumes,
    to: &dyn Fn(VolumeId) -> VolumeId,
    source: &mut SnapshotFiles<'_>,
) -> Result<()> {
    for volume in volumes.iter() {
        check_target(&**env, &volume.path)?;
    }
    for volume in volumes.iter() {
        env.create_dir_all(&volume.path)?;
    }
    let _lock = env.lock_dir(volumes.root())?;
    for volume in volumes.iter() {
        begin(&**env, &volume.path)?;
    }
    let mut catalog = snapshot.catalog.clone();
    named::name(&**env, &mut catalog, volumes)?;
    for files in &snapshot.partitions {
        let entry = catalog
            .collections
            .iter()
            .find(|entry| entry.id == files.collection);
        if let Some(entry) = entry {
            let place = partition_place(volumes, &catalog, entry, files.partition);
            place_partition(env, &place, files, to, source)?;
        }
    }
    catalog.write(&**env, volumes.root())?;
    for volume in volumes.iter() {
        env.remove(&volume.path.join(RESTORING_NAME))?;
        env.sync_dir(&volume.path)?;
    }
    Ok(())
}

/// The snapshot of this number, or the newest.
///
/// # Errors
/// `NotFound` if there is none; `Corrupt` if its file is damaged; those of the machine.
pub(crate) fn choose(backup: &BackupDir, number: Option<u64>) -> Result<Snapshot> {
    let mut found = backup.snapshots()?;
    let newest = found.next.saturating_sub(1);
    let wanted = number.unwrap_or(newest);
    if let Some(at) = found.whole.iter().position(|s| s.number == wanted) {
        return Ok(found.whole.swap_remove(at));
    }
    if let Some(at) = found.damaged.iter().position(|(n, _)| *n == wanted) {
        return Err(found.damaged.swap_remove(at).1);
    }
    Err(Error::NoSnapshot {
        path: backup.root().to_path_buf(),
        wanted: number,
        existing: found.whole.iter().map(|s| s.number).collect(),
    })
}

/// Refuses a volume that holds anything else than an interrupted restore.
fn check_target(env: &dyn Env, volume: &Path) -> Result<()> {
    let names = match env.list(volume) {
        Err(error) if error.kind() == EnvErrorKind::NotFound => return Ok(()),
        listed => listed?,
    };
    let is = |wanted: &str| names.iter().any(|name| name == wanted);
    let ours = |name: &String| {
        name == LOCK_NAME
            || name.starts_with(RESTORING_NAME)
            || (is(RESTORING_NAME)
                && (parse_collection_dir(name).is_some()
                    || name.starts_with(CATALOG_NAME)
                    || name.starts_with(VOLUME_NAME)))
    };
    let is_database = is(CATALOG_NAME) || is(CATALOG_COPY_NAME) && !is(RESTORING_NAME);
    if !is_database && names.iter().all(ours) {
        return Ok(());
    }
    let what = match is_database {
        true => "holds a database already",
        false => "is not empty",
    };
    Err(Error::Invalid(format!(
        "{} {what}: a backup is restored into a new or an empty directory",
        volume.display()
    )))
}

/// Says that a restore is under way in a volume, and removes what an earlier one left.
fn begin(env: &dyn Env, volume: &Path) -> Result<()> {
    let text =
        b"A backup is being restored here. If that was interrupted, run `quire restore` again.\n";
    env.replace(&volume.join(RESTORING_NAME), text)?;
    for name in env.list(volume)? {
        if parse_collection_dir(&name).is_some() {
            env.remove_dir_all(&volume.join(name))?;
        }
    }
    Ok(env.sync_dir(volume)?)
}

/// The files of a snapshot, and how many bytes of them were read.
pub(crate) struct SnapshotFiles<'a> {
    env: &'a Arc<dyn Env>,
    backup: &'a BackupDir,
    done: u64,
    total: u64,
    progress: &'a mut dyn FnMut(u64, u64),
}

impl FileSource for SnapshotFiles<'_> {
    fn place(&mut self, files: &PartitionFiles, file: &StoredFile, to: &Path) -> Result<()> {
        let mut target = self.env.create(to)?;
        self.pieces(files, file, &mut |bytes| Ok(target.append(bytes)?))?;
        Ok(target.sync()?)
    }

    fn manifest(&mut self, files: &PartitionFiles, file: &StoredFile) -> Result<Vec<u8>> {
        if file.bytes() > MANIFEST_BYTES_MAX {
            let path = self.backup.root().to_path_buf();
            return Err(damaged(path, "a manifest too long"));
        }
        let mut manifest = Vec::new();
        self.pieces(files, file, &mut |bytes| {
            manifest.extend_from_slice(bytes);
            Ok(())
        })?;
        Ok(manifest)
    }
}

impl<'a> SnapshotFiles<'a> {
    /// `progress` receives the bytes read so far, and `total`.
    pub(crate) fn new(
        env: &'a Arc<dyn Env>,
        backup: &'a BackupDir,
        total: u64,
        progress: &'a mut dyn FnMut(u64, u64),
    ) -> SnapshotFiles<'a> {
        SnapshotFiles {
            env,
            backup,
            done: 0,
            total,
            progress,
        }
    }

    /// Reads the pieces of a file, checks them, and passes their bytes to `sink`. Part of a damaged
    /// piece has been passed when its checksum shows the damage.
    fn pieces(
        &mut self,
        files: &PartitionFiles,
        file: &StoredFile,
        sink: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let all = files.stored().filter(|(_, owner, _)| *owner == file);
        for (path, _, piece) in all {
            let path = self.backup.root().join(path);
            let stored = match self.env.open_read(&path) {
                Err(error) if error.kind() == EnvErrorKind::NotFound => {
                    return Err(damaged(path, "a file of the snapshot is missing"));
                }
                opened => opened?,
            };
            if stored.len()? != piece.bytes() {
                return Err(damaged(path, "a file of the snapshot has another length"));
            }
            let (mut crc32c, mut at) = (0, 0);
            while at < piece.bytes() {
                let length = CHUNK_BYTES.min(piece.bytes() - at);
                let bytes = stored.read_at(at, length as usize)?;
                crc32c = crc32c::crc32c_append(crc32c, &bytes);
                sink(&bytes)?;
                at += length;
                self.done += length;
                (self.progress)(self.done, self.total);
            }
            if crc32c != piece.crc32c {
                return Err(damaged(
                    path,
                    "the checksum of a file of the snapshot does not match",
                ));
            }
        }
        Ok(())
    }
}

fn damaged(path: PathBuf, what: &str) -> Error {
    Error::Backup {
        path,
        what: what.into(),
    }
}
