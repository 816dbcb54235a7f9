//! Where a store lives.

use quire_env::{Env, Volumes};
use std::path::PathBuf;

/// Where a store lives: a directory of this name below each volume's; the manifest and the log are
/// on the first.
#[derive(Debug, Clone)]
pub struct Place {
    /// The volumes.
    pub volumes: Volumes,
    /// The directory below each.
    pub subdir: PathBuf,
    /// Whose it is: kept in the manifest and in every log segment, so that no file of another store
    /// is taken for its own.
    pub identity: [u8; 16],
}

impl Place {
    /// The directory of the manifest.
    pub fn dir(&self) -> PathBuf {
        self.volumes.root().join(&self.subdir)
    }

    pub(crate) fn log_dir(&self) -> PathBuf {
        self.dir().join("log")
    }

    /// The directories of its log and, on every volume, of its tables.
    pub fn dirs(&self) -> Vec<PathBuf> {
        let tables = self.volumes.iter();
        let tables = tables.map(|volume| volume.path.join(self.tables_subdir()));
        std::iter::once(self.log_dir()).chain(tables).collect()
    }

    /// The volumes; those that do not have the directory of its tables are not there. One that has
    /// it and can't be read is logged.
    pub(crate) fn volumes_there(&self, env: &dyn Env) -> Volumes {
        let volumes = self.volumes.clone();
        volumes.with_subdir(env, &self.tables_subdir(), |error| {
            tracing::error!(%error, "its tables can't be used");
        })
    }

    pub(crate) fn tables_subdir(&self) -> PathBuf {
        self.subdir.join("tables")
    }
}
