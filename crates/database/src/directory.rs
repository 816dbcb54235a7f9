//! The directory of a database: which files lie in it, and where each partition lives.

use crate::catalog::{
    CATALOG_COPY_NAME, CATALOG_NAME, Catalog, Entry, collection_dir, parse_collection_dir,
    partition_dir,
};
use crate::error::first_error;
use crate::{Error, Result};
use quire_env::{Env, ErrorKind as EnvErrorKind, Volumes};
use quire_store::Place;
use std::path::Path;

/// The lock file: the process that has the database open holds a lock on it and on its directory.
pub use quire_env::LOCK_NAME;

/// The file that says that a restore or a copy into the directory has not ended.
pub const RESTORING_NAME: &str = "RESTORING";

/// The file that says that a repair into the directory has not ended.
pub const REPAIRING_NAME: &str = "REPAIRING";

/// The file in the first volume that says that lost volumes are being replaced, and with what.
pub const REPLACING_NAME: &str = "REPLACING";

/// The directory in each volume with what is prepared for the replacement of lost volumes.
pub const REPLACEMENT_NAME: &str = "replacement";

/// Where a partition lives.
pub fn partition_place(
    volumes: &Volumes,
    catalog: &Catalog,
    entry: &Entry,
    partition: u32,
) -> Place {
    Place {
        volumes: volumes.clone(),
        subdir: partition_dir(entry.id, partition),
        identity: catalog.identity(entry.id, partition),
    }
}

/// Whether the directory holds a database. One that is absent or empty does not; one with other
/// files is refused.
pub fn holds_database(env: &dyn Env, root: &Path) -> Result<bool> {
    let names = match env.list(root) {
        Ok(names) => names,
        Err(error) if error.kind() == EnvErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    if names.iter().any(|name| name == REPAIRING_NAME) {
        return Err(Error::Repairing {
            path: root.to_path_buf(),
        });
    }
    if names.iter().any(|name| name == REPLACING_NAME) {
        return Err(Error::Replacing {
            path: root.to_path_buf(),
        });
    }
    if names.iter().any(is_catalog) {
        return Ok(true);
    }
    if names.iter().any(|name| name == quire_kv::MARKER_NAME) {
        return Err(Error::KeysAndValues {
            path: root.to_path_buf(),
        });
    }
    if names.iter().any(|name| name == RESTORING_NAME) {
        return Err(Error::Restoring {
            path: root.to_path_buf(),
        });
    }
    // What a crash between the lock and the first catalog leaves is ours.
    if names
        .iter()
        .all(|name| name == LOCK_NAME || name.starts_with(CATALOG_NAME))
    {
        return Ok(false);
    }
    Err(Error::Foreign {
        path: root.to_path_buf(),
    })
}

/// Whether the directory, into which a repair writes, holds a catalog already.
pub(crate) fn holds_repair(env: &dyn Env, root: &Path) -> Result<bool> {
    Ok(env.list(root)?.iter().any(is_catalog))
}

fn is_catalog(name: &String) -> bool {
    name == CATALOG_NAME || name == CATALOG_COPY_NAME
}

/// Removes what a crash left of collections that were being made or dropped, of a restore that was
/// just ending, and of a replacement of volumes that was not complete.
pub(crate) fn remove_leftovers(env: &dyn Env, volumes: &Volumes, catalog: &Catalog) -> Result<()> {
    for volume in volumes.iter().filter(|volume| volume.is_there) {
        let names = env.list(&volume.path);
        for name in names.map_err(|error| volume.lost(error))? {
            if name == RESTORING_NAME {
                // All is restored: the catalog is there.
                env.remove(&volume.path.join(name))?;
                continue;
            }
            if name == REPLACEMENT_NAME {
                env.remove_dir_all(&volume.path.join(name))?;
                continue;
            }
            let Some(id) = parse_collection_dir(&name) else {
                continue;
            };
            if !catalog.collections.iter().any(|entry| entry.id == id) {
                env.remove_dir_all(&volume.path.join(name))?;
            }
        }
    }
    Ok(())
}

pub(crate) fn remove_collection(env: &dyn Env, volumes: &Volumes, id: u32) -> Result<()> {
    // What is on a lost volume is removed by an opening that finds it again.
    let there = volumes.iter().filter(|volume| volume.is_there);
    first_error(there.map(|volume| Ok(env.remove_dir_all(&volume.path.join(collection_dir(id)))?)))
}
