//! Placing the files of a partition in a directory that becomes a database: for a restore and for
//! the copy that a follower begins with.
//!
//! # Invariants
//! 1. The manifest comes last, when all files that it names, and their names, are durable.

use crate::backup::{PartitionFiles, StoredFile};
use quire_database::Result;
use quire_env::{Env, FileId, VolumeId};
use quire_store::{FileName, Place, move_manifest};
use std::path::Path;
use std::sync::Arc;

/// The most that a manifest may hold, as of the store.
pub(crate) const MANIFEST_BYTES_MAX: u64 = 256 << 20;

/// Where the files of a partition come from.
pub(crate) trait FileSource {
    /// Makes the file at `to`, durably but for its name.
    ///
    /// # Errors
    /// If it is damaged, and those of the machine.
    fn place(&mut self, files: &PartitionFiles, file: &StoredFile, to: &Path) -> Result<()>;

    /// The bytes of a manifest.
    ///
    /// # Errors
    /// If it is damaged, and those of the machine.
    fn manifest(&mut self, files: &PartitionFiles, file: &StoredFile) -> Result<Vec<u8>>;
}

/// Where the tables of each volume go on `count` volumes.
pub(crate) fn spread(count: usize) -> impl Fn(VolumeId) -> VolumeId {
    let count = u16::try_from(count).unwrap_or(u16::MAX).max(1);
    move |volume| VolumeId(volume.0 % count)
}

/// Puts the files of a partition in their places, the manifest last. `to` says where the tables of
/// each volume go.
pub(crate) fn place_partition(
    env: &Arc<dyn Env>,
    place: &Place,
    files: &PartitionFiles,
    to: &dyn Fn(VolumeId) -> VolumeId,
    source: &mut dyn FileSource,
) -> Result<()> {
    let dirs = place.dirs();
    for dir in &dirs {
        env.create_dir_all(dir)?;
    }
    for file in &files.files {
        let name = match file.name() {
            FileName::Manifest(_) => continue,
            FileName::Table(table) => FileName::Table(FileId {
                volume: to(table.volume),
                ..table
            }),
            name => name,
        };
        source.place(files, file, &name.path(place, env)?)?;
    }
    for dir in &dirs {
        env.sync_dir(dir)?;
    }
    let mut manifests = 0;
    for file in &files.files {
        if let name @ FileName::Manifest(_) = file.name() {
            manifests += 1;
            let manifest = source.manifest(files, file)?;
            let moved = move_manifest(place, &manifest, to)?;
            env.replace(&name.path(place, env)?, &moved)?;
        }
    }
    assert_eq!(
        manifests, 1,
        "a snapshot has one manifest of each partition"
    );
    Ok(())
}
