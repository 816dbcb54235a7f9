//! The directory of a backup: whose it is, and where its snapshots and pieces are.

use super::snapshot::{FILES, Snapshot};
use quire_database::directory::LOCK_NAME;
use quire_database::{Error, Result};
use quire_env::{Env, ErrorKind as EnvErrorKind, FileLock};
use quire_store::{seal, unseal};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file that says whose backup it is.
const MARKER_NAME: &str = "BACKUP";
const MARKER_BYTES_MAX: u64 = 64 << 10;
const KIND: &str = "quire-backup";
const VERSION: u32 = 1;

const SNAPSHOTS: &str = "snapshots";
const SNAPSHOT_SUFFIX: &str = ".snapshot";
/// A snapshot of a million files is about this large.
const SNAPSHOT_BYTES_MAX: u64 = 256 << 20;

#[derive(Debug, Serialize, Deserialize)]
struct Marker {
    /// The id of the database, as in its catalog.
    database: String,
}

/// A backup's directory.
#[derive(Debug)]
pub(crate) struct BackupDir {
    env: Arc<dyn Env>,
    root: PathBuf,
    /// Held by one that writes.
    _lock: Option<Box<dyn FileLock>>,
}

/// The snapshots of a backup.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    /// Those that can be read, oldest first.
    pub(crate) whole: Vec<Snapshot>,
    /// The numbers of those that can't, and why.
    pub(crate) damaged: Vec<(u64, Error)>,
    /// The number that the next one gets.
    pub(crate) next: u64,
}

impl BackupDir {
    /// The backup of `database` in `root`, to add to; made if the directory is absent or empty.
    pub(crate) fn open(env: Arc<dyn Env>, root: &Path, database: &str) -> Result<BackupDir> {
        let fresh = is_fresh(&*env, root)?;
        if fresh {
            env.create_dir_all(root)?;
        }
        let lock = env.lock_dir(root)?;
        let dir = BackupDir {
            env,
            root: root.to_path_buf(),
            _lock: Some(lock),
        };
        if is_fresh(&*dir.env, root)? {
            let marker = serde_json::json!(Marker {
                database: database.to_string()
            });
            let bytes = seal(KIND, VERSION, &marker.to_string());
            dir.env.replace(&dir.marker(), &bytes)?;
        }
        // A marker whose writer could not sync its name must not vanish from below what is added
        // now.
        dir.env.sync_dir(root)?;
        let found = dir.database()?;
        if found != database {
            return Err(Error::ForeignBackup {
                path: root.to_path_buf(),
                what: format!("it is a backup of database {found}, and this is {database}"),
            });
        }
        dir.env.create_dir_all(&root.join(SNAPSHOTS))?;
        Ok(dir)
    }

    /// The backup in `root`, to read.
    pub(crate) fn read(env: Arc<dyn Env>, root: &Path) -> Result<BackupDir> {
        let names = match env.list(root) {
            Err(error) if error.kind() == EnvErrorKind::NotFound => Vec::new(),
            listed => listed?,
        };
        if !names.iter().any(|name| name == MARKER_NAME) {
            return Err(Error::NoBackup {
                path: root.to_path_buf(),
            });
        }
        let dir = BackupDir {
            env,
            root: root.to_path_buf(),
            _lock: None,
        };
        dir.database()?;
        Ok(dir)
    }

    pub(crate) fn env(&self) -> &Arc<dyn Env> {
        &self.env
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    fn marker(&self) -> PathBuf {
        self.root.join(MARKER_NAME)
    }

    /// Whose it is.
    fn database(&self) -> Result<String> {
        let path = self.marker();
        let bytes = self.env.read(&path, MARKER_BYTES_MAX)?;
        let marker = unseal(KIND, VERSION, "backup", &bytes).and_then(|json| {
            serde_json::from_str::<Marker>(json)
                .map_err(|error| format!("the backup's marker is damaged: {error}"))
        });
        match marker {
            Ok(marker) => Ok(marker.database),
            Err(what) => Err(Error::Backup { path, what }),
        }
    }

    fn snapshot_path(&self, number: u64) -> PathBuf {
        let name = format!("{number:08}{SNAPSHOT_SUFFIX}");
        self.root.join(SNAPSHOTS).join(name)
    }

    /// Reads all snapshots.
    pub(crate) fn snapshots(&self) -> Result<Snapshots> {
        let dir = self.root.join(SNAPSHOTS);
        let mut found = Snapshots {
            next: 1,
            ..Snapshots::default()
        };
        let names = match self.env.list(&dir) {
            // Interrupted before the first.
            Err(error) if error.kind() == EnvErrorKind::NotFound => Vec::new(),
            listed => listed?,
        };
        for number in names.iter().filter_map(|name| snapshot_number(name)) {
            found.next = found.next.max(number.saturating_add(1));
            match self.snapshot(number) {
                Ok(snapshot) => found.whole.push(snapshot),
                Err(error @ Error::Backup { .. }) => found.damaged.push((number, error)),
                Err(error) => return Err(error),
            }
        }
        found.whole.sort_by_key(|snapshot| snapshot.number);
        Ok(found)
    }

    /// Reads one snapshot.
    fn snapshot(&self, number: u64) -> Result<Snapshot> {
        let path = self.snapshot_path(number);
        let bytes = self.env.read(&path, SNAPSHOT_BYTES_MAX)?;
        match Snapshot::decode(&bytes) {
            Ok(snapshot) if snapshot.number == number => Ok(snapshot),
            Ok(other) => Err(Error::Backup {
                path,
                what: format!("the snapshot in it is number {}", other.number),
            }),
            Err(what) => Err(Error::Backup { path, what }),
        }
    }

    /// Adds a snapshot, whose pieces are all durable.
    pub(crate) fn add(&self, snapshot: &Snapshot) -> Result<()> {
        assert!(
            snapshot.check().is_ok(),
            "a snapshot that is written can be read again"
        );
        let path = self.snapshot_path(snapshot.number);
        Ok(self.env.replace(&path, &snapshot.encode())?)
    }

    /// Removes snapshots, durably: nothing needs their pieces any more, unless others do.
    pub(crate) fn remove(&self, numbers: &[u64]) -> Result<()> {
        for number in numbers {
            self.env.remove(&self.snapshot_path(*number))?;
        }
        Ok(self.env.sync_dir(&self.root.join(SNAPSHOTS))?)
    }

    /// Every file that is there for pieces, whole or not: below the backup's directory.
    pub(crate) fn stored(&self) -> Result<Vec<PathBuf>> {
        let mut paths = Vec::new();
        let files = Path::new(FILES);
        for collection in self.list(files)? {
            let collection = files.join(collection);
            for partition in self.list(&collection)? {
                let partition = collection.join(partition);
                let names = self.list(&partition)?;
                paths.extend(names.into_iter().map(|name| partition.join(name)));
            }
        }
        Ok(paths)
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        match self.env.list(&self.root.join(dir)) {
            Err(error) if error.kind() == EnvErrorKind::NotFound => Ok(Vec::new()),
            listed => Ok(listed?),
        }
    }
}

/// Whether the directory is absent, empty, or what a crash left of the first moment of a backup.
fn is_fresh(env: &dyn Env, root: &Path) -> Result<bool> {
    let names = match env.list(root) {
        Err(error) if error.kind() == EnvErrorKind::NotFound => return Ok(true),
        listed => listed?,
    };
    if names.iter().any(|name| name == MARKER_NAME) {
        return Ok(false);
    }
    if names
        .iter()
        .all(|name| name == LOCK_NAME || name.starts_with(MARKER_NAME))
    {
        return Ok(true);
    }
    Err(Error::ForeignBackup {
        path: root.to_path_buf(),
        what: "it has files and is no backup".into(),
    })
}

/// The number in the name of a snapshot's file.
fn snapshot_number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SNAPSHOT_SUFFIX)?;
    let number = digits.parse().ok()?;
    (format!("{number:08}") == digits).then_some(number)
}
