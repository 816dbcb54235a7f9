//! Opening a database: [`Database::open`], and [`Database::builder`] for everything else.

use crate::database::Database;
use crate::options::DatabaseOptions;
use crate::{Error, Result};
use quire_env::{Env, IoLimits, Medium, OsEnv, Volumes};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How a database is opened: each method sets one option, [`open`](DatabaseBuilder::open) opens it.
///
/// ```
/// use quiredb::Database;
/// use std::time::Duration;
/// # let dir = tempfile::tempdir()?;
/// # let (fast, large) = (dir.path().join("ssd"), dir.path().join("hdd"));
///
/// let database = Database::builder(&fast)
///     .volumes([&large]) // table files go to this disk too
///     .memory(64 << 20)
///     .scrub_every(Duration::from_secs(24 * 3600))
///     .open()?;
/// assert_eq!(database.stats()?.memory_bytes, 64 << 20);
/// database.close()?;
///
/// // The catalog knows the second volume.
/// let database = Database::builder(&fast).create(false).open()?;
/// assert_eq!(database.volume_stats().len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until `open` is called"]
pub struct DatabaseBuilder {
    /// The directory of each volume, the first one first, and what it is made of.
    volumes: Vec<(Option<String>, PathBuf, Medium)>,
    /// The operating system if none is given.
    env: Option<Arc<dyn Env>>,
    options: DatabaseOptions,
}

impl Database {
    /// Opens the database in a directory, with default options; creates it if the directory is
    /// absent or empty.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// let database = quiredb::Database::open(dir.path().join("library"))?;
    /// assert!(database.collections().is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `Locked` if another process has it open; `Invalid` if the directory holds something else;
    /// `Corrupt` if the catalog is damaged; `Io` if the directory can't be written.
    pub fn open(path: impl AsRef<Path>) -> Result<Database> {
        Database::builder(path).open()
    }

    /// A builder for the database in a directory: options, further volumes, another machine.
    pub fn builder(path: impl AsRef<Path>) -> DatabaseBuilder {
        DatabaseBuilder::on(&Volumes::single(path.as_ref()))
    }
}

impl DatabaseBuilder {
    /// A builder for the database on these volumes.
    pub fn on(volumes: &Volumes) -> DatabaseBuilder {
        let volumes = volumes.iter();
        DatabaseBuilder {
            volumes: volumes
                .map(|volume| {
                    (
                        Some(volume.name.clone()),
                        volume.path.clone(),
                        volume.medium,
                    )
                })
                .collect(),
            env: None,
            options: DatabaseOptions::default(),
        }
    }

    /// Adds SSD volumes, each a directory on a disk of its own: see [`volume`](Self::volume).
    pub fn volumes(mut self, paths: impl IntoIterator<Item = impl AsRef<Path>>) -> Self {
        let paths = paths.into_iter();
        self.volumes
            .extend(paths.map(|path| (None, path.as_ref().to_path_buf(), Medium::Ssd)));
        self
    }

    /// Adds a volume: a directory on a disk of its own, under a name of a to z, 0 to 9, `_`, `-`
    /// and `.`. The catalog keeps what a database is created on, so that an opening needs only the
    /// first directory; one that names all, in their order, says where they are now.
    ///
    /// Table files are spread over the volumes of a tier, by free room and load: of a column group
    /// over those of the medium that its schema says, of all else over those of the first volume's.
    pub fn volume(mut self, name: &str, path: impl AsRef<Path>, medium: Medium) -> Self {
        let path = path.as_ref().to_path_buf();
        self.volumes.push((Some(name.to_string()), path, medium));
        self
    }

    /// What the disk of the first volume is, for a database that is created. Default SSD.
    pub fn medium(mut self, medium: Medium) -> Self {
        if let Some(first) = self.volumes.first_mut() {
            first.2 = medium;
        }
        self
    }

    /// The machine: a simulated one for tests. Default: the operating system.
    pub fn env(mut self, env: Arc<dyn Env>) -> Self {
        self.env = Some(env);
        self
    }

    /// All options at once, in the place of those set before.
    pub fn options(mut self, options: DatabaseOptions) -> Self {
        self.options = options;
        self
    }

    /// Whether the database is created if the directory is absent or empty. Default true.
    pub fn create(mut self, create: bool) -> Self {
        self.options.create_if_missing = create;
        self
    }

    /// Bytes that memtables, caches and buffers may hold: see [`DatabaseOptions::memory_bytes`].
    pub fn memory(mut self, bytes: u64) -> Self {
        self.options.memory_bytes = bytes;
        self
    }

    /// Log bytes that opening after a crash may have to replay for one partition: see
    /// [`DatabaseOptions::replay_bytes_max`].
    pub fn replay_max(mut self, bytes: u64) -> Self {
        self.options.replay_bytes_max = bytes;
        self
    }

    /// The size of a log segment: see [`DatabaseOptions::segment_bytes`].
    pub fn segment(mut self, bytes: u64) -> Self {
        self.options.segment_bytes = bytes;
        self
    }

    /// How often every byte is read and checked in the background, or `None` for never: see
    /// [`DatabaseOptions::scrub_period`].
    pub fn scrub_every(mut self, period: impl Into<Option<Duration>>) -> Self {
        self.options.scrub_period = period.into();
        self
    }

    /// When segments of the log are compacted: see [`DatabaseOptions::log_live_percent`].
    pub fn log_live_percent(mut self, percent: u32) -> Self {
        self.options.log_live_percent = percent;
        self
    }

    /// Whether background jobs delete documents and move cells between tiers: see
    /// [`DatabaseOptions::retention`].
    pub fn retention(mut self, retention: bool) -> Self {
        self.options.retention = retention;
        self
    }

    /// How disks admit I/O and compactions: see [`DatabaseOptions::io`].
    pub fn io(mut self, limits: IoLimits) -> Self {
        self.options.io = Some(limits);
        self
    }

    /// Whether disks have an I/O manager: see [`DatabaseOptions::io_manager`].
    pub fn io_manager(mut self, managed: bool) -> Self {
        self.options.io_manager = managed;
        self
    }

    /// Opens the database.
    ///
    /// # Errors
    /// As of [`Database::open`]; `Invalid` for an option out of its range or other volumes than
    /// the database was created on; `NotFound` if there is none and it is not to be created.
    pub fn open(self) -> Result<Database> {
        self.open_as(false)
    }

    /// As [`open`](Self::open), for the repair that makes the database if `repairing`.
    pub(crate) fn open_as(self, repairing: bool) -> Result<Database> {
        let env = match self.env {
            Some(env) => env,
            None => OsEnv::new()?,
        };
        let named = self.volumes.into_iter().enumerate();
        let named = named.map(|(index, (name, path, medium))| {
            let name = name.unwrap_or_else(|| Volumes::default_name(index));
            (name, path, medium)
        });
        let volumes = Volumes::named(named).map_err(Error::from)?;
        Database::open_on(env, volumes, self.options, repairing)
    }
}
