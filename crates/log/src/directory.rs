//! The directory of a log: where its segments are made, and for which log.

use crate::format::dictionary::Dictionaries;
use crate::writing::settings::SegmentSettings;
use crate::{LogIdentity, LogOptions, Result};
use parking_lot::Mutex;
use quire_env::{AppendFile, BlockCache, Env, ErrorKind};
use quire_seeded::{Bug, seeded};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The end of the name of a segment that is not whole yet. One found at opening was left by a
/// crash.
pub(crate) const TEMPORARY_SUFFIX: &str = ".log.tmp";

/// Where a log's segments are made, and for which log.
#[derive(Debug, Clone)]
pub(crate) struct LogDirectory {
    pub(crate) env: Arc<dyn Env>,
    pub(crate) dir: PathBuf,
    pub(crate) identity: LogIdentity,
    pub(crate) cache: Arc<BlockCache>,
    pub(crate) dictionaries: Arc<Dictionaries>,
    /// How new segments are made. Locked only for short reads and writes of it.
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

    /// Creates a file at `path`, and replaces one that an earlier attempt left there.
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

/// The path of a segment until it has its name.
pub(crate) fn temporary_path(path: &Path) -> PathBuf {
    path.with_extension("log.tmp")
}
