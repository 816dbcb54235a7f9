//! Verifying a database: reads every byte, checks every checksum, and compares each tree with the
//! log.

use crate::rate_limiter::RateLimiter;
use quire_collection::{Checked, ErrorKind as CollectionErrorKind, Partition};
use quire_database::catalog::{Catalog, Entry, FoundCatalog};
use quire_database::directory::{holds_database, partition_place};
use quire_database::{Damage, Database, DatabaseOptions, Error, ErrorKind, Result, engine};
use quire_env::{Env, IoClass, IoScope, Volumes};
use quire_store::{ErrorKind as StoreErrorKind, Inspected, Shared, StoreOptions};
use quire_wide::WidePartition;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

/// What damage to one of the two copies of a catalog loses.
pub(crate) const COPY_LOST: &str = "nothing: the other copy is whole, and the next opening uses it";

/// What a verification read and found.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Collections.
    pub collections: u64,
    /// Live documents whose key, row and record agree.
    pub documents: u64,
    /// Records of the logs.
    pub records: u64,
    /// Files.
    pub files: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Log bytes after the last whole write, as a crash leaves them: not acknowledged, so no
    /// damage. Recovery cuts them.
    pub torn_bytes: u64,
    /// Everything that is wrong.
    pub damage: Vec<Damage>,
}

/// How a verification goes about it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerifyOptions {
    /// The most bytes that are read in a second, so that others keep the disk. No limit by default.
    pub rate_bytes: Option<u64>,
}

/// Verifies a database, or a directory of [keys and values](quire_kv), that no process has open:
/// reads every byte, checks every checksum, then (of partitions whose bytes are whole) that every
/// record of the log and the trees agree. `progress` receives the bytes read so far, and of how
/// many in all. Files are read first; a partition that is whole is then opened, which cuts a torn
/// tail.
///
/// ```
/// use quiredb::operations::{VerifyOptions, verify};
/// use quiredb::{Database, OsEnv, Volumes};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("library");
///
/// Database::open(&path)?.close()?;
/// let options = VerifyOptions::default();
/// let report = verify(OsEnv::new()?, Volumes::single(&path), &options, &mut |_, _| {})?;
/// assert!(report.damage.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Only if it can't be done: `NotFound` if there is no database, `Locked` if a process has it open,
/// `Io`, `Full`. Damage is in the report.
pub fn verify(
    env: Arc<dyn Env>,
    volumes: Volumes,
    options: &VerifyOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<VerifyReport> {
    let _io = IoScope::enter(IoClass::Background);
    let root = &volumes.root().to_path_buf();
    if env.exists(&root.join(quire_kv::MARKER_NAME))? {
        return verify_keys_and_values(env, root, options, progress);
    }
    if !holds_database(&*env, root)? {
        return Err(Error::NoDatabase {
            path: root.to_path_buf(),
        });
    }
    let lock = env.lock_dir(root)?;
    let mut report = VerifyReport::default();
    let found = FoundCatalog::read(&*env, root)?;
    if let Some((path, what)) = found.damage() {
        report.damage.push(Damage::new(&path, 0, what, COPY_LOST));
    }
    let catalog = match found.newest() {
        Ok(catalog) => catalog,
        Err(Error::Catalog { path, what }) => {
            let lost = "which collections there are; their files stay as they are";
            report.damage.push(Damage::new(&path, 0, what, lost));
            return Ok(report);
        }
        Err(error) => return Err(error),
    };
    let volumes = catalog.volumes_there(&*env, catalog.all_volumes(&volumes)?)?;
    let total = total_bytes(&*env, &volumes, &catalog)?;
    let mut progress = limited(&env, options, total, progress);
    let shared = Shared::new(env, DatabaseOptions::default().memory_bytes, Some(lock));
    let verified = verify_collections(&shared, &volumes, &catalog, &mut report, &mut progress);
    // A background job of a partition that was opened here may end later; it writes nothing any
    // more.
    shared.unlock();
    verified.map(|()| report)
}

/// A function that takes the bytes read since it was last called. It waits as the rate limit says,
/// then calls `progress` with all bytes so far, of `total` or more.
fn limited<'p>(
    env: &Arc<dyn Env>,
    options: &VerifyOptions,
    total: u64,
    progress: &'p mut dyn FnMut(u64, u64),
) -> impl FnMut(u64) + use<'p> {
    let machine = Arc::clone(env);
    let mut limiter = RateLimiter::new(options.rate_bytes);
    let mut bytes = 0;
    move |more| {
        limiter.wait(&*machine, more, &mut || true);
        bytes += more;
        progress(bytes, total.max(bytes));
    }
}

fn verify_keys_and_values(
    env: Arc<dyn Env>,
    root: &Path,
    options: &VerifyOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<VerifyReport> {
    let mut report = VerifyReport::default();
    let mut progress = limited(&env, options, 0, progress);
    let mut on_damage = |found: quire_store::Damage| report.damage.push(found.into());
    let verified = quire_kv::verify(env, root, &mut on_damage, &mut progress)
        .map_err(|error| Error::OfKeysAndValues(Arc::new(error)))?;
    report.files = verified.files;
    report.bytes = verified.bytes;
    report.torn_bytes = verified.torn_bytes;
    Ok(report)
}

fn verify_collections(
    shared: &Arc<Shared>,
    volumes: &Volumes,
    catalog: &Catalog,
    report: &mut VerifyReport,
    progress: &mut dyn FnMut(u64),
) -> Result<()> {
    for entry in &catalog.collections {
        report.collections += 1;
        for number in 0..entry.settings.partitions {
            verify_partition(shared, volumes, catalog, entry, number, report, progress)?;
        }
    }
    Ok(())
}

/// Bytes of all files of all collections.
pub(crate) fn total_bytes(env: &dyn Env, volumes: &Volumes, catalog: &Catalog) -> Result<u64> {
    let mut total = 0;
    for entry in &catalog.collections {
        for number in 0..entry.settings.partitions {
            let subdir = partition_place(volumes, catalog, entry, number).subdir;
            let there = volumes.iter().filter(|volume| volume.is_there);
            for dir in there.flat_map(|volume| {
                ["log", "tables"].map(|part| volume.path.join(&subdir).join(part))
            }) {
                for name in if env.exists(&dir)? {
                    env.list(&dir)?
                } else {
                    Vec::new()
                } {
                    total += env.open_read(&dir.join(name))?.len()?;
                }
            }
        }
    }
    Ok(total)
}

fn verify_partition(
    shared: &Arc<Shared>,
    volumes: &Volumes,
    catalog: &Catalog,
    entry: &Entry,
    number: u32,
    report: &mut VerifyReport,
    progress: &mut dyn FnMut(u64),
) -> Result<()> {
    let place = partition_place(volumes, catalog, entry, number);
    let dir = place.dir();
    let before = report.damage.len();
    let verified = quire_store::verify(
        shared,
        &place,
        entry.settings.wide.is_none(),
        &mut |found| report.damage.push(found.into()),
        progress,
    )
    .map_err(quire_collection::Error::from)?;
    report.files += verified.files;
    report.bytes += verified.bytes;
    report.torn_bytes += verified.torn_bytes;
    if report.damage.len() > before {
        return Ok(());
    }
    // Every byte is whole: now what the bytes say.
    let gate = shared.env().gate();
    let mut options = StoreOptions {
        // Looking at a log does not change it.
        log_live_percent: 0,
        ..StoreOptions::default()
    };
    if let Some(schema) = &entry.settings.wide {
        options.log.obsolete_bytes_kept = u64::MAX;
        let shared = Arc::clone(shared);
        let index = entry.wide_index();
        let of_rows = (schema, index.as_ref());
        let checked = WidePartition::open(shared, place, number, options, of_rows, gate).and_then(
            |partition| {
                let checked = check_wide(&partition, &dir, report);
                match partition.close() {
                    Err(error) if is_full(&error) => checked,
                    closed => closed.and(checked),
                }
            },
        );
        return note(checked.map_err(Error::from), &dir, report);
    }
    let checked = Partition::open(
        Arc::clone(shared),
        place,
        number,
        options,
        entry.index().as_ref(),
        gate,
    )
    .and_then(|partition| {
        let checked = check(&partition, &dir, report);
        match partition.close() {
            // Whole, and with no room to make durable what another process left: no matter of this
            // one.
            Err(error) if error.kind() == CollectionErrorKind::Store(StoreErrorKind::Full) => {
                checked
            }
            closed => closed.and(checked),
        }
    });
    note(checked.map_err(Error::from), &dir, report)
}

/// Reads every cell of the wide collections of an open database, and compares their trees.
fn verify_open_wide(database: &Database, report: &mut VerifyReport) -> Result<()> {
    let root = engine::root(database);
    for name in database.wide_collections() {
        let collection = match database.wide_collection(&name) {
            // Dropped since it was listed.
            Err(Error::NoCollection { .. }) => continue,
            opened => opened,
        };
        report.collections += 1;
        let checked = collection.and_then(|collection| {
            let mut all = Checked::default();
            for partition in engine::wide_partitions(&collection).iter() {
                engine::check_open(database)?;
                all.documents += check_wide(partition, root, report)?.documents;
            }
            Ok(all)
        });
        note(checked, root, report)?;
    }
    Ok(())
}

fn is_full(error: &quire_wide::Error) -> bool {
    error.kind() == quire_wide::ErrorKind::Store(StoreErrorKind::Full)
}

/// Compares the trees of a wide partition, whose log has only what they do not have yet.
fn check_wide(
    partition: &WidePartition,
    dir: &Path,
    report: &mut VerifyReport,
) -> quire_wide::Result<Checked> {
    let documents = partition.check(&mut |what| {
        let lost = "answers about this document can be wrong";
        report.damage.push(Damage::new(dir, 0, what, lost));
    })?;
    Ok(Checked {
        documents,
        ..Checked::default()
    })
}

/// Compares trees and log of a partition.
fn check(
    partition: &Partition,
    dir: &Path,
    report: &mut VerifyReport,
) -> quire_collection::Result<Checked> {
    partition.check(&mut |found| {
        let what = format!("position {}: {}", found.position, found.what);
        let lost = "answers about this document can be wrong";
        report.damage.push(Damage::new(dir, 0, what, lost));
    })
}

fn note(checked: Result<Checked>, dir: &Path, report: &mut VerifyReport) -> Result<()> {
    match checked {
        Ok(checked) => {
            report.documents += checked.documents;
            report.records += checked.records;
            Ok(())
        }
        Err(error) => {
            // A machine that fails or is full says nothing about the files.
            if matches!(
                error.kind(),
                ErrorKind::Io | ErrorKind::Full | ErrorKind::Closed
            ) {
                return Err(error);
            }
            let lost = "the partition can't be opened";
            report
                .damage
                .push(Damage::new(dir, 0, error.to_string(), lost));
            Ok(())
        }
    }
}

/// Verifies the database while it is written and read: every byte of every file that it
/// consists of now, past the block cache, then (of partitions whose bytes are whole) that log
/// and trees agree. Of wide collections it reads every cell, through the block cache. Writes go on;
/// those made meanwhile may be looked at or not. `progress` receives the bytes read so far, and of
/// how many in all.
///
/// ```
/// use quiredb::Database;
/// use quiredb::operations::{VerifyOptions, verify_open};
/// use std::ops::ControlFlow::Continue;
/// # let dir = tempfile::tempdir()?;
///
/// let database = Database::open(dir.path())?;
/// let report = verify_open(&database, &VerifyOptions::default(), &mut |_, _| Continue(()))?;
/// assert!(report.damage.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Only if it can't be done: `Io`, or `Closed` if the database is closed meanwhile or
/// `progress` breaks it off. Damage is in the report.
pub fn verify_open(
    database: &Database,
    options: &VerifyOptions,
    progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<VerifyReport> {
    let _io = IoScope::enter(IoClass::Background);
    let mut report = VerifyReport::default();
    let mut limiter = RateLimiter::new(options.rate_bytes);
    let mut total = 0;
    let mut files = Vec::new();
    for name in database.collections() {
        let collection = match database.collection(&name) {
            Ok(collection) => collection,
            // Dropped since it was listed.
            Err(Error::NoCollection { .. }) => continue,
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                let what = format!("collection {name}: {error}");
                let lost = "the collection can't be opened";
                report
                    .damage
                    .push(Damage::new(engine::root(database), 0, what, lost));
                continue;
            }
            Err(error) => return Err(error),
        };
        report.collections += 1;
        for partition in engine::partitions(&collection).iter() {
            let listed = partition.files();
            total += listed.iter().map(|file| file.bytes).sum::<u64>();
            // Tables stay as long as a view holds them.
            files.push((partition.clone(), partition.view()?, listed));
        }
    }
    for (partition, view, listed) in files {
        let before = report.damage.len();
        let mut read = None;
        for file in listed {
            engine::check_open(database)?;
            // It was compacted into one that was read since.
            if Some(file.order()) <= read {
                continue;
            }
            let Some(inspection) = partition.inspect(&file)? else {
                continue;
            };
            read = Some(inspection.order());
            report.files += 1;
            for found in inspection {
                match found.map_err(quire_collection::Error::from)? {
                    Inspected::Damage(found) => report.damage.push(found.into()),
                    Inspected::Read(bytes) => {
                        let done = report.bytes;
                        limiter.wait(&**database.env(), bytes, &mut || {
                            let is_open = engine::check_open(database).is_ok();
                            is_open && progress(done, total.max(done)).is_continue()
                        });
                        engine::check_open(database)?;
                        report.bytes += bytes;
                        if progress(report.bytes, total.max(report.bytes)).is_break() {
                            return Err(Error::Stopped);
                        }
                    }
                }
            }
        }
        drop(view);
        if report.damage.len() == before {
            let checked = check(&partition, engine::root(database), &mut report);
            let checked = checked.map_err(Error::from);
            note(checked, engine::root(database), &mut report)?;
        }
    }
    verify_open_wide(database, &mut report)?;
    Ok(report)
}
