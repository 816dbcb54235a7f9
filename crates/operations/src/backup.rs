//! Backup: a directory of snapshots of a database, taken while it is written, each adding only what
//! is new.
//!
//! # What a snapshot is
//! All partitions of all collections, and the catalog, at one moment. For an instant every writer
//! waits; what each log holds then is what the snapshot has, no record more or less. The bytes that
//! are copied afterwards never change: the table files that each manifest names, and the logs up to
//! that moment. A restored snapshot opens as a database does after a crash: the log is replayed
//! from the manifest's position on.
//!
//! # Invariants
//! 1. A snapshot is written after all pieces that it names, and their names, are durable. It
//!    replaces nothing: an interrupted backup leaves the snapshots before it as they were.
//! 2. A piece is immutable, and its name says which bytes it holds: database, partition, file,
//!    range, and a digest of what is there. Restored copies that went different ways can be backed
//!    up to one place.
//! 3. No byte is copied whose checksum in the database does not hold: a damaged database is an
//!    error that names file and offset, and not a backup.
//! 4. A piece is removed after every snapshot that names it is, durably; and not while a snapshot
//!    can't be read.
//!
//! # Layout
//! ```text
//! BACKUP                                          whose it is (sealed text, kind quire-backup)
//! LOCK                                            held by the one that adds to it
//! snapshots/<number, 8 digits>.snapshot           see snapshot.rs
//! files/c<collection>/p<partition>/<kind>-<number>-<start>-<end>-<digest>
//!                                                 bytes start to end of one file
//! ```
//! A table file or a manifest is one piece. A segment of the log that was copied while it grew is
//! several: the next backup adds what has come since.

mod copy;
mod directory;
mod snapshot;

pub(crate) use directory::BackupDir;
pub(crate) use snapshot::{PartitionFiles, Piece, Snapshot, StoredFile, partition_path};

use copy::Copier;
use quire_database::{Database, Error, ErrorKind, Result, engine};
use quire_env::{Env, IoClass, IoScope};
use serde::Serialize;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Settings of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupOptions {
    /// Bytes copied in a second at most, default 32 MiB. Fewer where the machine is busy: nine
    /// tenths of its time the copier rests. `None`: as fast as possible, which takes disk and
    /// processor from writers and readers.
    pub rate_bytes: Option<u64>,
    /// How many snapshots to keep, the new one included, at least 1; the oldest go. All if `None`,
    /// the default.
    pub keep: Option<u32>,
}

impl Default for BackupOptions {
    fn default() -> BackupOptions {
        BackupOptions {
            rate_bytes: Some(32 << 20),
            keep: None,
        }
    }
}

impl BackupOptions {
    fn check(&self) -> Result<()> {
        if self.keep == Some(0) {
            return Err(Error::Invalid("a backup keeps at least 1 snapshot".into()));
        }
        if self.rate_bytes == Some(0) {
            return Err(Error::Invalid("a rate of 0 copies nothing".into()));
        }
        Ok(())
    }
}

/// What a backup did.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct BackupReport {
    /// The snapshot made.
    #[serde(flatten)]
    pub snapshot: SnapshotInfo,
    /// Bytes copied for it; the rest was there from earlier backups.
    pub copied_bytes: u64,
    /// Older snapshots removed.
    pub removed_snapshots: Vec<u64>,
    /// Bytes given back: of pieces that only those needed, or that an interrupted backup left.
    pub removed_bytes: u64,
    /// Older snapshots that can't be read, in words. Nothing is removed as long as there are any.
    pub damaged_snapshots: Vec<String>,
}

/// A snapshot of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SnapshotInfo {
    /// Its number, counted from 1.
    pub number: u64,
    /// When it was taken: microseconds since 1970 UTC.
    pub time_micros: i64,
    /// The id of the database.
    pub database: String,
    /// Files of the database in it.
    pub files: u64,
    /// Bytes of them: what a restored database takes on disk. Snapshots share what they have in
    /// common.
    pub bytes: u64,
    /// The last record of each partition of each collection.
    pub positions: Vec<PartitionPosition>,
}

/// How far a partition had come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PartitionPosition {
    /// The collection's name.
    pub collection: String,
    /// The partition's number in it.
    pub partition: u32,
    /// Position of the last record.
    pub position: u64,
}

impl SnapshotInfo {
    pub(crate) fn of(snapshot: &Snapshot) -> SnapshotInfo {
        let (files, bytes) = snapshot.size();
        let name_of = |id| {
            let entries = &snapshot.catalog.collections;
            let entry = entries.iter().find(|entry| entry.id == id);
            entry.map_or_else(String::new, |entry| entry.name.clone())
        };
        SnapshotInfo {
            number: snapshot.number,
            time_micros: snapshot.time_micros,
            database: snapshot.catalog.database.clone(),
            files,
            bytes,
            positions: snapshot
                .partitions
                .iter()
                .map(|files| PartitionPosition {
                    collection: name_of(files.collection),
                    partition: files.partition,
                    position: files.position,
                })
                .collect(),
        }
    }
}

/// The snapshots of the backup in a directory, oldest first.
///
/// # Errors
/// `NotFound` if there is no backup; `Corrupt` if a snapshot's file is damaged; `Io`.
pub fn snapshots(env: Arc<dyn Env>, from: &Path) -> Result<Vec<SnapshotInfo>> {
    let found = BackupDir::read(env, from)?.snapshots()?;
    match found.damaged.into_iter().next() {
        Some((_, error)) => Err(error),
        None => Ok(found.whole.iter().map(SnapshotInfo::of).collect()),
    }
}

/// Adds a snapshot of the database to the backup in the directory `to`, which is made if it is
/// absent or empty. Writes and reads go on meanwhile: writes wait for an instant, and not for
/// the copying. Copies what earlier snapshots do not have.
///
/// `progress` receives the bytes copied so far, and of how many in all, once the snapshot's moment
/// has passed; it can stop the backup. A backup that stopped, failed or died leaves the snapshots
/// before it whole, and the next one uses what it had copied.
/// [`restore`](crate::restore()) makes a database of a snapshot.
///
/// ```
/// use quiredb::operations::{BackupOptions, backup, restore};
/// use quiredb::{Database, Document, OsEnv, Volumes};
/// use std::ops::ControlFlow::Continue;
/// # let dir = tempfile::tempdir()?;
/// # let (path, to) = (dir.path().join("shop"), dir.path().join("backup"));
/// # let copy = dir.path().join("copy");
///
/// let database = Database::open(&path)?;
/// let cars = database.collection_or_create("cars", Default::default)?;
/// cars.put(&Document::from_json(br#"{"_id":"golf-7","make":"VW"}"#)?)?;
/// let report = backup(&database, &to, &BackupOptions::default(), &mut |_, _| Continue(()))?;
/// assert_eq!(report.snapshot.number, 1);
///
/// restore(OsEnv::new()?, &to, None, &Volumes::single(&copy), &mut |_, _| ())?;
/// assert_eq!(Database::open(&copy)?.collection("cars")?.count()?, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// `Corrupt` for damage in the database, with file and offset, or in the backup's marker;
/// `Invalid` if the directory holds something else or the backup of another database; `Locked`
/// if another backup adds to it; `Closed` if `progress` stopped it; `Full` or `Io`.
pub fn backup(
    database: &Database,
    to: &Path,
    options: &BackupOptions,
    progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<BackupReport> {
    let _io = IoScope::enter(IoClass::Background);
    options.check()?;
    match attempt(database, to, options, progress) {
        // If it was an index that is damaged, the next capture is without it.
        Err(error) if error.kind() == ErrorKind::Corrupt && engine::rebuilds_indexes(database) => {
            attempt(database, to, options, progress)
        }
        attempted => attempted,
    }
}

fn attempt(
    database: &Database,
    to: &Path,
    options: &BackupOptions,
    progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<BackupReport> {
    let dir = BackupDir::open(Arc::clone(database.env()), to, &engine::id(database)?)?;
    let found = dir.snapshots()?;
    let (catalog, captures) = engine::capture(database)?;
    let mut snapshot = Snapshot {
        number: found.next,
        time_micros: database.env().now_micros(),
        catalog,
        partitions: Vec::new(),
    };
    let mut copier = Copier::new(&dir, &found.whole, options.rate_bytes);
    copier.plan(snapshot.catalog.partitions().zip(&captures))?;
    snapshot.partitions = copier.copy(progress)?;
    assert_eq!(
        snapshot.partitions.len(),
        captures.len(),
        "a snapshot has each partition that was captured"
    );
    dir.add(&snapshot)?;
    let copied_bytes = copier.copied_bytes();
    drop(copier);
    drop(captures);

    let mut report = BackupReport {
        snapshot: SnapshotInfo::of(&snapshot),
        copied_bytes,
        removed_snapshots: Vec::new(),
        removed_bytes: 0,
        damaged_snapshots: found
            .damaged
            .iter()
            .map(|(_, error)| error.to_string())
            .collect(),
    };
    if found.damaged.is_empty() {
        let mut snapshots = found.whole;
        snapshots.push(snapshot);
        thin(&dir, snapshots, options.keep, &mut report)?;
    }
    Ok(report)
}

/// Removes the oldest of the snapshots, then every piece that none of the others names.
fn thin(
    dir: &BackupDir,
    mut snapshots: Vec<Snapshot>,
    keep: Option<u32>,
    report: &mut BackupReport,
) -> Result<()> {
    let keep = keep.map_or(snapshots.len(), |keep| keep as usize);
    let removed = snapshots.drain(..snapshots.len().saturating_sub(keep));
    report.removed_snapshots = removed.map(|snapshot| snapshot.number).collect();
    if !report.removed_snapshots.is_empty() {
        dir.remove(&report.removed_snapshots)?;
    }
    let parts = snapshots.iter().flat_map(|snapshot| &snapshot.partitions);
    let named: BTreeSet<PathBuf> = parts
        .flat_map(|files| files.stored().map(|(path, ..)| path))
        .collect();
    for path in dir.stored()? {
        if !named.contains(&path) {
            let path = dir.root().join(path);
            report.removed_bytes += dir.env().open_read(&path)?.len()?;
            dir.env().remove(&path)?;
        }
    }
    Ok(())
}
