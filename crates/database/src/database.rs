//! A database: a directory (or several, one a disk) of collections.

mod catalog_changes;
mod collections;
mod disks;
mod leader;
mod opened;
mod opening;
mod repartition;
mod scrubbed;
mod wide_collections;

use self::opened::{Opened, Plain, Wide};
use crate::alias::Aliases;
use crate::api_settings::ApiSettings;
use crate::catalog::{Catalog, Entry};
use crate::collection::Collection;
use crate::error::first_error;
use crate::frozen::FrozenCollection;
use crate::options::DatabaseOptions;
use crate::scrub::Scrubber;
use crate::stats::{DatabaseStats, FilterStats};
use crate::wide::WideCollection;
use crate::{Error, Result};
use parking_lot::{Mutex, RwLock};
use quire_env::{Budget, Env, FileLock, Gate, Volumes};
use quire_store::Shared;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often a database that is being closed looks whether splits have ended.
const SPLIT_LOOK: Duration = Duration::from_millis(5);

/// An open database. Cheap to clone; any number of threads. One process has it open at a time.
///
/// ```
/// use quiredb::{CollectionSettings, Database, Document, Key};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("shop");
///
/// let database = Database::open(&path)?;
/// let cars = database.create_collection("cars", CollectionSettings::default())?;
/// let key = Key::parse("golf-7")?;
/// cars.put_at(&key, &Document::from_json(br#"{"make":"VW","km":81000}"#)?)?;
/// cars.patch(&key, &Document::from_json(br#"{"km":82500}"#)?)?;
/// let found = cars.get(&key)?.expect("it was just written");
/// assert_eq!(found.document.to_json(), r#"{"make":"VW","km":82500}"#);
/// database.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Database {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    /// The directory of the first volume.
    root: PathBuf,
    /// Those that collections are opened on from now on.
    volumes: RwLock<Volumes>,
    /// Those on the other volumes: a copy of the first may name them too.
    volume_locks: Mutex<Vec<Box<dyn FileLock>>>,
    options: DatabaseOptions,
    state: Mutex<State>,
    /// Collections by name: they are found without waiting for a change of the catalog.
    opened: RwLock<Opened>,
    /// Those of the catalog that counts: names are resolved without waiting for one being written.
    aliases: RwLock<Arc<Aliases>>,
    /// What is served beside the collections, by its name.
    frozen: RwLock<BTreeMap<String, FrozenCollection>>,
    /// What servers keep of collections, likewise.
    api_settings: RwLock<Arc<BTreeMap<String, ApiSettings>>>,
    changed: Arc<dyn Gate>,
    /// Set first when it is closed, so that what takes long ends.
    closing: AtomicBool,
    scrubber: Option<Arc<Scrubber>>,
}

struct State {
    catalog: Catalog,
    /// Collections that the catalog on disk may not have, since dropping them failed half-way.
    /// Nothing is acknowledged for them until that is settled.
    in_doubt: BTreeSet<u32>,
    /// Those whose partitions are being split or merged.
    repartitioned: BTreeSet<u32>,
    closed: bool,
}

impl State {
    /// The entry of a collection.
    fn entry(&self, name: &str) -> Result<Entry> {
        let found = self.catalog.find(name).cloned();
        found.ok_or_else(|| Error::NoCollection {
            name: name.to_string(),
            existing: self.catalog.existing(),
        })
    }

    /// The id of the next collection.
    fn next_id(&self) -> Result<u32> {
        match self.catalog.next_collection {
            u32::MAX => Err(Error::Invalid("all ids of collections are used up".into())),
            id => Ok(id),
        }
    }
}

/// Closes collections, then gives up the lock.
fn close_all((plain, wide): (Plain, Wide), shared: &Shared) -> Result<()> {
    let closed = first_error(plain.values().map(Collection::close));
    let closed = closed.and(first_error(wide.values().map(WideCollection::close)));
    shared.unlock();
    closed
}

impl Drop for Inner {
    /// Closes the collections, unless a handle to one is still held: it goes on working, and keeps
    /// the lock.
    fn drop(&mut self) {
        if let Some(scrubber) = &self.scrubber {
            scrubber.stop();
        }
        let opened = self.opened.get_mut();
        let unshared = opened.plain.values().all(Collection::is_unshared)
            && opened.wide.values().all(WideCollection::is_unshared);
        if unshared {
            // An error has no receiver here. What is acknowledged under `sync` is safe all the
            // same.
            let _ = close_all(opened.take(), &self.shared);
        }
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database")
            .field("path", &self.inner.root)
            .finish_non_exhaustive()
    }
}

impl Database {
    /// The directory that it lies in, as it was opened.
    pub fn path(&self) -> &Path {
        &self.inner.root
    }

    /// The machine that it runs on.
    pub fn env(&self) -> &Arc<dyn Env> {
        self.inner.shared.env()
    }

    /// The memory for work in progress. Requests of a server draw from it, and so does background
    /// work with large documents: together they hold 48 MiB and a sixteenth of
    /// [`memory_bytes`](crate::DatabaseOptions::memory_bytes) at most.
    pub fn work(&self) -> &Arc<Budget> {
        self.inner.shared.work()
    }

    /// The memory that it was opened with, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.inner.shared.memory_bytes()
    }

    /// Gives about `bytes` of memory back that only make reads faster. For a process that takes
    /// more memory than is counted.
    pub fn give_memory_back(&self, bytes: u64) {
        self.inner.shared.cache().shrink(bytes);
    }

    /// The memory for writes that no table file has yet. Past its limit a writer waits.
    pub fn memtables(&self) -> &Arc<Budget> {
        self.inner.shared.memtables()
    }

    /// Serves a frozen collection beside the others.
    pub(crate) fn attach(&self, collection: FrozenCollection) -> Result<()> {
        let state = self.state()?;
        let name = collection.name();
        if self.alias(name).is_some() {
            return Err(Error::Invalid(format!("{name:?} is an alias")));
        }
        let mut frozen = self.inner.frozen.write();
        if state.catalog.find(name).is_some() || frozen.contains_key(name) {
            return Err(Error::CollectionExists {
                name: name.to_owned(),
            });
        }
        frozen.insert(name.to_owned(), collection);
        Ok(())
    }

    /// The entry of a collection that is not frozen.
    fn entry(&self, state: &State, name: &str) -> Result<Entry> {
        self.refuse_frozen([name])?;
        state.entry(name)
    }

    pub(crate) fn with_frozen<T>(
        &self,
        read: impl FnOnce(&BTreeMap<String, FrozenCollection>) -> T,
    ) -> T {
        read(&self.inner.frozen.read())
    }

    /// Told whenever something new is visible in a collection, and when there is another collection
    /// or one less.
    pub(crate) fn changed(&self) -> &Arc<dyn Gate> {
        &self.inner.changed
    }

    /// Whether this is the only handle to it.
    pub fn is_unshared(&self) -> bool {
        Arc::strong_count(&self.inner) == 1
    }

    /// Writes all memtables out. Everything acknowledged before is durable when it returns.
    ///
    /// # Errors
    /// `Full` or `Io`, the first that occurs; every collection is tried.
    pub fn flush(&self) -> Result<()> {
        let (open, wide): (Vec<_>, Vec<_>) = {
            let _state = self.state()?;
            let opened = self.inner.opened.read();
            let wide = opened.wide.values().cloned().collect();
            (opened.plain.values().cloned().collect(), wide)
        };
        let plain = first_error(open.iter().map(Collection::flush));
        plain.and(first_error(wide.iter().map(WideCollection::flush)))
    }

    /// Figures about the database and each of its collections; opens those that are not open yet.
    ///
    /// # Errors
    /// As of [`collection`](Database::collection).
    pub fn stats(&self) -> Result<DatabaseStats> {
        let mut collections = Vec::new();
        for name in self.collections() {
            match self
                .collection(&name)
                .and_then(|collection| collection.stats())
            {
                Ok(stats) => collections.push(stats),
                // Dropped since it was listed.
                Err(Error::NoCollection { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        for name in self.wide_collections() {
            match self.wide_collection(&name).and_then(|wide| wide.stats()) {
                Ok(stats) => collections.push(stats),
                Err(Error::NoCollection { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let shared = &self.inner.shared;
        let (cache, memtables) = (shared.cache(), shared.memtables());
        Ok(DatabaseStats {
            path: self.inner.root.display().to_string(),
            memory_bytes: shared.memory_bytes(),
            memory_used_bytes: memtables.used()
                + cache.bytes()
                + shared.filters().stats().resident_bytes
                + shared.index_reads().used()
                + shared.index_changes().used()
                + shared.work().used(),
            work_bytes: shared.work().used(),
            work_peak_bytes: shared.work().peak(),
            work_bytes_max: shared.work().limit(),
            index_bytes: shared.index_reads().used() + shared.index_changes().used(),
            anonymous_bytes: shared.env().anonymous_bytes().unwrap_or(0),
            resident_bytes: shared.env().resident_bytes().unwrap_or(0),
            memtable_bytes: memtables.used(),
            memtable_peak_bytes: memtables.peak(),
            cache_bytes: cache.bytes(),
            cache_hits: cache.hits(),
            cache_misses: cache.misses(),
            filters: FilterStats::new(shared, &collections),
            scrub: self.scrub_stats(),
            volumes: self.volume_stats(),
            collections,
        })
    }

    /// Syncs everything, closes every collection and gives up the lock; later calls fail with
    /// `Closed`. A database that is dropped without it loses nothing that was acknowledged under
    /// `sync`.
    ///
    /// # Errors
    /// `Full` or `Io`, the first that occurs; every collection is closed all the same.
    pub fn close(&self) -> Result<()> {
        self.inner.closing.store(true, Ordering::Release);
        // Splits end soon. What they write is not named by the catalog, and they hold no lock.
        while !self.inner.state.lock().repartitioned.is_empty() {
            self.env().sleep(SPLIT_LOOK);
        }
        let mut state = self.inner.state.lock();
        if state.closed {
            return Ok(());
        }
        state.closed = true;
        if let Some(scrubber) = &self.inner.scrubber {
            scrubber.stop();
        }
        let opened = self.inner.opened.write().take();
        let closed = close_all(opened, &self.inner.shared);
        self.inner.volume_locks.lock().clear();
        closed
    }

    /// Its first volume's directory.
    pub(crate) fn root(&self) -> &Path {
        &self.inner.root
    }

    /// Fails if it is closed, or about to be.
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.inner.closing.load(Ordering::Acquire) {
            Err(Error::Closed)
        } else {
            Ok(())
        }
    }

    fn state(&self) -> Result<parking_lot::MutexGuard<'_, State>> {
        let state = self.inner.state.lock();
        if state.closed {
            Err(Error::Closed)
        } else {
            Ok(state)
        }
    }
}
