//! The directory of a log: where its segments are made, and for which log.

use crate::format::dictionary::Dictionaries;
use crate::writing::settings::SegmentSettings;
use crate::{LogIdentity, LogOptions, Result};
use parking_lot::Mutex;
use quire_env::{AppendFile, BlockCache, Env, ErrorKind};
use quire_seeded::{Bug, seeded};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Ends the name of a segment that is not whole yet; one found at opening was left by a crash.
pub(crate) const TEMPORARY_SUFFIX: &str = ".log.tmp";

/// Where a log's segments are made, and for which log.
#[derive(Debug, Clone)]
pub(crate) struct LogDirectory {
    pub(crate) env: Arc<dyn Env>,
    pub(crate) dir: PathBuf,
    pub(crate) identity: LogIdentity,
    pub(crate) cache: Arc<BlockCache>,
    pub(crate) dictionaries: Arc<Dictionaries>,
    /// How new segments are made. Held for a moment only.
    pub(crate) settings: Arc<Mutex<SegmentSettings>>,
}

impl LogDirectory {
    pub(crate) fn new(
        env: Arc<dyn Env>,
        dir: &Path,
        identity: LogIdentity,
        cache: Arc<BlockCache>,
        options: &LogOptions,
    ) -> LogDirectory {
        let settings = SegmentSettings::new(options.block_bytes, options.codec);
        LogDirectory {
            env,
            dir: dir.to_path_buf(),
            identity,
            cache,
            dictionaries: Arc::default(),
            settings: Arc::new(Mutex::new(settings)),
        }
    }

    /// A new file at `path`, which may hold what an attempt before this one left.
    pub(crate) fn create_temporary(&self, path: &Path) -> Result<Box<dyn AppendFile>> {
        Ok(match self.env.create(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                self.env.remove(path)?;
                self.env.create(path)?
            }
            created => created?,
        })
    }

    /// A new name is not durable until its directory is.
    pub(crate) fn sync_names(&self) -> Result<()> {
        if !seeded(Bug::SegmentNameUnsynced) {
            self.env.sync_dir(&self.dir)?;
        }
        Ok(())
    }
}

/// Where a segment is until it has its name.
pub(crate) fn temporary_path(path: &Path) -> PathBuf {
    path.with_extension("log.tmp")
}
