//! A database: a directory (or several, one a disk) of collections.

use crate::alias::{Alias, AliasChange, Aliases, Resolved};
use crate::api_settings::ApiSettings;
use crate::attached::AttachedTriggers;
use crate::catalog::{Catalog, Entry, FoundCatalog, StoredCoprocessor, Templates};
use crate::collection::Collection;
use crate::directory::{
    holds_database, holds_repair, partition_place, remove_collection, remove_leftovers,
};
use crate::error::first_error;
use crate::frozen::FrozenCollection;
use crate::options::DatabaseOptions;
use crate::scrub::{Ended, ScrubSource, Scrubber, Stores};
use crate::settings::{CollectionSettings, check_name};
use crate::stats::{DatabaseStats, FilterStats, IoStats, ScrubStats, VolumeStats};
use crate::stored_code::triggers_of;
use crate::volumes::name;
use crate::wide::WideCollection;
use crate::{Error, ErrorKind, Result};
use parking_lot::{Mutex, RwLock};
use quire_collection::Partition;
use quire_coprocessor::Trigger;
use quire_env::{
    Budget, Env, ErrorKind as EnvErrorKind, FileLock, Gate, IoLimits, ManagedEnv, Medium, Volume,
    Volumes,
};
use quire_seeded::{Bug, seeded};
use quire_store::{Place, Shared, StoreOptions};
use quire_wide::{Schema, WidePartition};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

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

/// A database for its scrub, which does not keep it open.
struct Scrubbed(Weak<Inner>);

impl Scrubbed {
    fn database(&self) -> std::result::Result<Database, Ended> {
        let inner = self.0.upgrade().ok_or(Ended::Gone)?;
        Ok(Database { inner })
    }
}

impl ScrubSource for Scrubbed {
    fn collections(&self) -> std::result::Result<Vec<String>, Ended> {
        self.database()?.try_collections().ok_or(Ended::Busy)
    }

    fn partitions(&self, name: &str) -> std::result::Result<Result<Stores>, Ended> {
        self.database()?.try_stores(name).ok_or(Ended::Busy)
    }
}

struct State {
    catalog: Catalog,
    /// Collections that the catalog on disk may not have, since dropping them failed half-way.
    /// Nothing is acknowledged for them until that is settled.
    in_doubt: BTreeSet<u32>,
    /// Those that were used: a collection is opened when it is first used, so that damage to
    /// one leaves the others.
    open: BTreeMap<u32, Collection>,
    /// Of those the wide ones.
    open_wide: BTreeMap<u32, WideCollection>,
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

    /// Closes collections, then gives up the lock.
    fn close_all(&mut self, shared: &Shared) -> Result<()> {
        let plain = std::mem::take(&mut self.open);
        let wide = std::mem::take(&mut self.open_wide);
        let closed = first_error(plain.values().map(Collection::close));
        let closed = closed.and(first_error(wide.values().map(WideCollection::close)));
        shared.unlock();
        closed
    }
}

impl Drop for Inner {
    /// Closes the collections, unless a handle to one is still held: it goes on working, and keeps
    /// the lock.
    fn drop(&mut self) {
        if let Some(scrubber) = &self.scrubber {
            scrubber.stop();
        }
        let state = self.state.get_mut();
        let unshared = state.open.values().all(Collection::is_unshared)
            && state.open_wide.values().all(WideCollection::is_unshared);
        if unshared {
            // An error has no receiver here. What is acknowledged under `sync` is safe all the
            // same.
            let _ = state.close_all(&self.shared);
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
    /// Opens a database: what a [`DatabaseBuilder`](crate::DatabaseBuilder) does with what it was
    /// given.
    /// One that a repair is making is opened only by that repair, which says so.
    pub(crate) fn open_on(
        env: Arc<dyn Env>,
        volumes: Volumes,
        options: DatabaseOptions,
        repairing: bool,
    ) -> Result<Database> {
        options.check()?;
        let root = volumes.root().to_path_buf();
        let is_there = match repairing {
            true => holds_repair(&*env, &root)?,
            false => holds_database(&*env, &root)?,
        };
        if is_there {
            env.list(&root)?;
        } else {
            if !options.create_if_missing {
                return Err(Error::NoDatabase { path: root });
            }
            env.create_dir_all(&root)?;
        }
        let lock = env.lock_dir(&root)?;
        // Who held the lock until now may have been a repair.
        if !repairing {
            holds_database(&*env, &root)?;
        }
        let mut catalog = if Catalog::exists(&*env, &root)? {
            find_catalog(&*env, &root)?
        } else {
            let mut catalog = Catalog::new(&*env);
            name(&*env, &mut catalog, &volumes)?;
            catalog.write(&*env, &root)?;
            catalog
        };
        let volumes = open_volumes(&*env, &volumes, &mut catalog)?;
        let locks = lock_volumes(&*env, &volumes)?;
        let env = match options.io_manager {
            true => managed(env, &volumes, &catalog, options.io)?,
            false => env,
        };
        remove_leftovers(&*env, &volumes, &catalog)?;
        let shared = Shared::new(Arc::clone(&env), options.memory_bytes, Some(lock));
        let aliases = RwLock::new(Arc::new(catalog.aliases()));
        let api_settings = RwLock::new(Arc::new(catalog.api_settings()));
        let state = Mutex::new(State {
            catalog,
            in_doubt: BTreeSet::new(),
            open: BTreeMap::new(),
            open_wide: BTreeMap::new(),
            closed: false,
        });
        let inner = Arc::new_cyclic(|me: &Weak<Inner>| {
            let scrubber = options.scrub_period.map(|period| {
                let source = Box::new(Scrubbed(Weak::clone(me)));
                Scrubber::start(env, source, &root, period)
            });
            Inner {
                changed: shared.env().gate(),
                root,
                volumes: RwLock::new(volumes),
                volume_locks: Mutex::new(locks),
                options,
                state,
                aliases,
                frozen: RwLock::default(),
                api_settings,
                shared,
                closing: AtomicBool::new(false),
                scrubber,
            }
        });
        Ok(Database { inner })
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

    /// Makes a collection. Durable when it returns.
    ///
    /// # Errors
    /// `AlreadyExists`; `Invalid` for a bad name or setting.
    pub fn create_collection(
        &self,
        name: &str,
        settings: CollectionSettings,
    ) -> Result<Collection> {
        self.create_with_aliases(name, settings, BTreeMap::new())
    }

    /// As [`create_collection`](Database::create_collection), with aliases from the start.
    ///
    /// # Errors
    /// As there; `Invalid` for aliases that break a rule.
    pub fn create_with_aliases(
        &self,
        name: &str,
        settings: CollectionSettings,
        aliases: BTreeMap<String, Alias>,
    ) -> Result<Collection> {
        self.create_and_change_aliases(name, settings, aliases, &[])
    }

    /// As [`create_with_aliases`](Database::create_with_aliases), and changes other aliases at the
    /// same moment: a crash leaves the collection and all changes, or none of it.
    ///
    /// # Errors
    /// As there, and as of [`change_aliases`](Database::change_aliases).
    pub fn create_and_change_aliases(
        &self,
        name: &str,
        settings: CollectionSettings,
        aliases: BTreeMap<String, Alias>,
        changes: &[AliasChange],
    ) -> Result<Collection> {
        let mut state = self.state()?;
        self.create_locked(&mut state, name, settings, aliases, changes)
    }

    /// The collection of this name, or the only one that has it as an alias without a filter.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` for an alias of several collections, or with a filter; `Corrupt` if
    /// its files are damaged so that it can't be opened.
    pub fn collection(&self, name: &str) -> Result<Collection> {
        let Some(resolved) = self.alias(name) else {
            return self.collection_named(name);
        };
        let collection = resolved.only(name)?;
        if resolved.0.values().any(|alias| alias.filter.is_some()) {
            return Err(Error::Invalid(format!(
                "alias {name:?} has a filter, which only searches over HTTP apply: name the \
                 collection {collection:?} instead"
            )));
        }
        self.collection_named(collection)
    }

    /// The collection that writes to this name go to: it, or that of an alias.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` for an alias without a collection for writes; `Corrupt` as of
    /// [`collection`](Database::collection).
    pub fn collection_for_writes(&self, name: &str) -> Result<Collection> {
        match self.alias(name) {
            Some(resolved) => self.collection_named(resolved.write_target(name)?),
            None => self.collection_named(name),
        }
    }

    /// The collection of this name, which is no alias.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` if it is wide or frozen; `Corrupt` as of
    /// [`collection`](Database::collection).
    pub fn collection_named(&self, name: &str) -> Result<Collection> {
        let mut state = self.state()?;
        let entry = self.entry(&state, name)?;
        self.open_locked(&mut state, &entry)
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

    /// The collections of an alias; `None` if there is no alias of this name. Does not wait.
    pub fn alias(&self, name: &str) -> Option<Resolved> {
        let aliases = self.inner.aliases.read();
        aliases.get(name).cloned().map(Resolved)
    }

    /// All aliases. Does not wait.
    pub fn aliases(&self) -> Arc<Aliases> {
        Arc::clone(&self.inner.aliases.read())
    }

    /// What servers keep of collections, by the collection's name; those of which they keep nothing
    /// are left out. Does not wait.
    pub fn api_settings(&self) -> Arc<BTreeMap<String, ApiSettings>> {
        Arc::clone(&self.inner.api_settings.read())
    }

    /// Changes aliases, all of them at one moment: no reader sees some of the changes, and a crash
    /// leaves all of them or none. Durable when it returns.
    ///
    /// ```
    /// use quiredb::{Alias, AliasChange, Database};
    /// # let dir = tempfile::tempdir()?;
    /// let database = Database::open(dir.path().join("db"))?;
    /// let add = |collection: &str| AliasChange::Add {
    ///     collection: collection.into(),
    ///     alias: "jobs".into(),
    ///     options: Alias::default(),
    /// };
    /// database.create_collection("jobs-1", Default::default())?;
    /// database.create_collection("jobs-2", Default::default())?;
    /// database.change_aliases(&[add("jobs-1")])?;
    /// let remove = AliasChange::Remove { collection: "jobs-1".into(), alias: "jobs".into() };
    /// database.change_aliases(&[add("jobs-2"), remove])?;
    /// assert_eq!(database.collection("jobs")?.name(), "jobs-2");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `NotFound` if a collection or an alias to be removed is not there; `Invalid` for a bad name,
    /// one that a collection has, or two collections for writes: nothing is changed then. After a
    /// failure of the machine all changes are made, or none.
    pub fn change_aliases(&self, changes: &[AliasChange]) -> Result<()> {
        let mut state = self.state()?;
        self.refuse_frozen_in(changes)?;
        let mut catalog = state.catalog.clone();
        let dropped = catalog.change_aliases(changes)?;
        if catalog.same_collections(&state.catalog) {
            return Ok(());
        }
        self.replace_and_drop(&mut state, catalog, &dropped)
    }

    /// The collection of this name, made with `settings` if there is none. An alias stands for the
    /// collection that its writes go to.
    ///
    /// # Errors
    /// As of [`collection_for_writes`](Database::collection_for_writes) and
    /// [`create_collection`](Database::create_collection).
    pub fn collection_or_create(
        &self,
        name: &str,
        settings: impl FnOnce() -> CollectionSettings,
    ) -> Result<Collection> {
        if let Some(resolved) = self.alias(name) {
            return self.collection_named(resolved.write_target(name)?);
        }
        let mut state = self.state()?;
        match state.catalog.find(name).cloned() {
            Some(entry) => self.open_locked(&mut state, &entry),
            None => self.create_locked(&mut state, name, settings(), BTreeMap::new(), &[]),
        }
    }

    /// Changes the settings of a collection: all but the number of partitions and the key field,
    /// which stay what they are. Durable when it returns. What documents are on disk stay as they
    /// are; new segments of the log, and those that are compacted, are made as the settings say
    /// then.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` for a bad setting, or another value of one that is fixed.
    pub fn change_settings(&self, name: &str, settings: CollectionSettings) -> Result<Collection> {
        let mut state = self.state()?;
        let entry = self.entry(&state, name)?;
        self.change_locked(&mut state, &entry, settings)
    }

    fn change_locked(
        &self,
        state: &mut State,
        entry: &Entry,
        settings: CollectionSettings,
    ) -> Result<Collection> {
        entry.settings.check_change(&settings)?;
        let collection = self.open_locked(state, entry)?;
        let mut catalog = state.catalog.clone();
        let entries = catalog.collections.iter_mut();
        let mut index = None;
        for entry in entries.filter(|other| other.id == entry.id) {
            if entry.settings.index != settings.index {
                entry.index_generation = entry.index_generation.saturating_add(1);
            }
            entry.settings = settings.clone();
            index = entry.index();
        }
        self.replace_catalog(state, catalog)?;
        collection.set_settings(settings)?;
        collection.set_index(index.as_ref())?;
        Ok(collection)
    }

    /// The templates that the catalog has.
    pub(crate) fn catalog_templates(&self) -> Templates {
        self.inner.state.lock().catalog.templates.clone()
    }

    /// Replaces the templates of the catalog by what `change` makes of them.
    pub(crate) fn replace_templates<E: From<Error>>(
        &self,
        change: impl FnOnce(&mut Templates) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let mut state = self.state()?;
        let mut catalog = state.catalog.clone();
        change(&mut catalog.templates)?;
        match catalog.templates == state.catalog.templates {
            true => Ok(()),
            false => Ok(self.replace_catalog(&mut state, catalog)?),
        }
    }

    /// What the catalog says of the coprocessors.
    pub(crate) fn catalog_coprocessors(&self) -> BTreeMap<String, StoredCoprocessor> {
        self.inner.state.lock().catalog.coprocessors.clone()
    }

    /// Replaces the coprocessors of the catalog by what `change` makes of them.
    pub(crate) fn replace_coprocessors<T>(
        &self,
        change: impl FnOnce(&mut BTreeMap<String, StoredCoprocessor>) -> Result<T>,
    ) -> Result<T> {
        let mut state = self.state()?;
        let mut catalog = state.catalog.clone();
        let changed = change(&mut catalog.coprocessors)?;
        catalog.check_triggers().map_err(Error::Invalid)?;
        self.replace_catalog(&mut state, catalog)?;
        Ok(changed)
    }

    /// What the catalog says of a collection.
    pub(crate) fn catalog_entry(&self, name: &str) -> Result<Entry> {
        self.entry(&*self.state()?, name)
    }

    /// Replaces the triggers of a collection by what `change` makes of them, which is given the
    /// coprocessors too. They run with the writes that begin after this.
    pub(crate) fn replace_triggers<T>(
        &self,
        collection: &str,
        change: impl FnOnce(&mut Entry, &BTreeMap<String, StoredCoprocessor>) -> Result<T>,
    ) -> Result<T> {
        let mut state = self.state()?;
        let mut entry = state.entry(collection)?;
        let mut catalog = state.catalog.clone();
        let changed = change(&mut entry, &catalog.coprocessors)?;
        let mut entries = catalog.collections.iter_mut();
        if let Some(other) = entries.find(|other| other.id == entry.id) {
            *other = entry;
        }
        self.replace_catalog(&mut state, catalog)?;
        Ok(changed)
    }

    /// The names of the collections, sorted, but for wide ones: these are
    /// [`wide_collections`](Database::wide_collections).
    pub fn collections(&self) -> Vec<String> {
        self.inner.state.lock().catalog.names(false)
    }

    /// Drops a collection with all its documents. Handles to it fail with `Closed` from then on.
    ///
    /// # Errors
    /// `NotFound`. After a failure of the machine the collection may be there or not, and once it
    /// was opened again, views of it from before may fail.
    pub fn drop_collection(&self, name: &str) -> Result<()> {
        let mut state = self.state()?;
        let entry = self.entry(&state, name)?;
        self.drop_locked(&mut state, &entry)
    }

    fn drop_locked(&self, state: &mut State, entry: &Entry) -> Result<()> {
        let mut catalog = state.catalog.clone();
        catalog.collections.retain(|other| other.id != entry.id);
        self.replace_and_drop(state, catalog, &BTreeSet::from([entry.id]))
    }

    /// Writes the next catalog, then removes what is left of the collections that it lacks.
    fn replace_and_drop(
        &self,
        state: &mut State,
        catalog: Catalog,
        dropped: &BTreeSet<u32>,
    ) -> Result<()> {
        assert!(
            catalog
                .collections
                .iter()
                .all(|entry| !dropped.contains(&entry.id)),
            "files are removed of collections alone that the catalog does not have"
        );
        let remove = || {
            let removed = dropped.iter();
            first_error(removed.map(|id| remove_collection(&**self.env(), &self.volumes(), *id)))
        };
        if seeded(Bug::DroppedFilesRemovedFirst) {
            remove()?;
        }
        let replaced = self.replace_catalog(state, catalog);
        if replaced.is_err() {
            if dropped.is_empty() || !self.catalog_is_in_doubt(state) {
                return replaced;
            }
            state.in_doubt.extend(dropped);
        }
        for id in dropped {
            // Its files go away, or it is opened again: what it could not write is no matter.
            if let Some(collection) = state.open.remove(id) {
                let _ = collection.close();
            }
            if let Some(collection) = state.open_wide.remove(id) {
                let _ = collection.close();
            }
        }
        replaced.and_then(|()| remove())
    }

    /// Makes, drops and changes collections until they are those of `leader`, under the same ids,
    /// with the same settings and aliases. Documents of a collection that both have stay.
    ///
    /// The aliases change at one moment, with the last of what is dropped: an alias that goes from
    /// a dropped collection to a new one stands for one of them all the time, unless a new
    /// collection or alias takes the name of a dropped collection.
    pub(crate) fn take_collections_of(&self, leader: &Catalog) -> Result<()> {
        let mut state = self.state()?;
        let is_kept = |entry: &Entry| leader.collections.iter().any(|other| other.id == entry.id);
        let is_named = |entry: &Entry| leader.find(&entry.name).is_some();
        let ours = state.catalog.collections.iter();
        let in_the_way: Vec<_> = ours
            .filter(|entry| !is_kept(entry) && is_named(entry))
            .cloned()
            .collect();
        for entry in in_the_way {
            self.drop_locked(&mut state, &entry)?;
        }
        self.make_way(&mut state, leader)?;
        for entry in &leader.collections {
            let mut ours = state.catalog.collections.iter();
            match ours.find(|other| other.id == entry.id).cloned() {
                None => {
                    let entry = Entry {
                        aliases: BTreeMap::new(),
                        triggers: BTreeMap::new(),
                        ..entry.clone()
                    };
                    self.make_any(&mut state, entry)?;
                }
                Some(ours) if ours.settings != entry.settings => {
                    let settings = entry.settings.clone();
                    self.change_any(&mut state, &ours, settings)?;
                }
                Some(_) => {}
            }
        }
        let mut catalog = state.catalog.clone();
        let gone: BTreeSet<u32> = catalog
            .collections
            .iter()
            .filter(|entry| !is_kept(entry))
            .map(|entry| entry.id)
            .collect();
        catalog.collections.retain(is_kept);
        for entry in &mut catalog.collections {
            let mut theirs = leader.collections.iter();
            if let Some(theirs) = theirs.find(|theirs| theirs.id == entry.id) {
                entry.aliases.clone_from(&theirs.aliases);
                entry.triggers.clone_from(&theirs.triggers);
            }
        }
        catalog.next_collection = catalog.next_collection.max(leader.next_collection);
        catalog.coprocessors.clone_from(&leader.coprocessors);
        catalog.templates.clone_from(&leader.templates);
        let is_changed = !catalog.is_followed_by(&state.catalog)
            || catalog.next_collection != state.catalog.next_collection;
        match is_changed {
            true => self.replace_and_drop(&mut state, catalog, &gone),
            false => Ok(()),
        }
    }

    /// Removes the aliases whose names collections of the leader have.
    fn make_way(&self, state: &mut State, leader: &Catalog) -> Result<()> {
        let mut catalog = state.catalog.clone();
        for entry in &mut catalog.collections {
            entry.aliases.retain(|name, _| leader.find(name).is_none());
        }
        match catalog.same_collections(&state.catalog) {
            true => Ok(()),
            false => self.replace_catalog(state, catalog),
        }
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
            let state = self.state()?;
            let wide = state.open_wide.values().cloned().collect();
            (state.open.values().cloned().collect(), wide)
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
        let mut state = self.inner.state.lock();
        if state.closed {
            return Ok(());
        }
        state.closed = true;
        if let Some(scrubber) = &self.inner.scrubber {
            scrubber.stop();
        }
        let closed = state.close_all(&self.inner.shared);
        self.inner.volume_locks.lock().clear();
        closed
    }

    /// The catalog as it is now.
    pub(crate) fn catalog(&self) -> Result<Catalog> {
        Ok(self.state()?.catalog.clone())
    }

    /// Whether the database has just the collections, coprocessors and templates of `catalog`;
    /// `None` if that is about to change. Does not wait.
    pub(crate) fn catalog_is_still(&self, catalog: &Catalog) -> Option<bool> {
        let state = self.inner.state.try_lock()?;
        Some(!state.closed && state.catalog.is_followed_by(catalog))
    }

    /// What scrubbing has done and found; none if it is off.
    pub fn scrub_stats(&self) -> Option<ScrubStats> {
        self.inner
            .scrubber
            .as_ref()
            .map(|scrubber| scrubber.stats())
    }

    /// As [`collections`](Database::collections), for background work, which never waits:
    /// `None` if it would have to, or the database is closed.
    pub(crate) fn try_collections(&self) -> Option<Vec<String>> {
        let state = self.inner.state.try_lock()?;
        if state.closed {
            return None;
        }
        let mut names = state.catalog.names(false);
        names.extend(state.catalog.names(true));
        names.sort_unstable();
        Some(names)
    }

    /// The stores of a collection's partitions, for background work.
    pub(crate) fn try_stores(&self, name: &str) -> Option<Result<Stores>> {
        let mut state = self.inner.state.try_lock()?;
        Some(self.stores(&mut state, name))
    }

    fn stores(&self, state: &mut State, name: &str) -> Result<Stores> {
        if state.closed {
            return Err(Error::Closed);
        }
        let entry = self.entry(state, name)?;
        if entry.settings.wide.is_some() {
            let collection = self.open_wide_locked(state, &entry)?;
            let partitions = collection.partitions().iter();
            return Ok(partitions.map(WidePartition::any_store).collect());
        }
        let collection = self.open_locked(state, &entry)?;
        let partitions = collection.partitions().iter();
        Ok(partitions.map(Partition::any_store).collect())
    }

    /// Adds a volume: a directory that is absent or empty, on a disk of its own. Collections that
    /// are open use it once the database is opened again. Durable when it returns.
    ///
    /// # Errors
    /// `Invalid` for a name or directory of another volume, or a directory with other files; those
    /// of the machine.
    pub fn add_volume(&self, name: &str, path: &Path, medium: Medium) -> Result<()> {
        let mut state = self.state()?;
        let volumes = state.catalog.volumes_there(&**self.env(), self.volumes())?;
        volumes.check_there()?;
        let of_all = |volume: &Volume| (volume.name.clone(), volume.path.clone(), volume.medium);
        let added = (name.to_string(), path.to_path_buf(), medium);
        let all = volumes.iter().map(of_all).chain([added]);
        let volumes = Volumes::named(all).map_err(Error::from)?;
        let mut catalog = state.catalog.clone();
        catalog.set_volumes(&volumes)?;
        for volume in volumes.iter().skip(1) {
            catalog.mark(&**self.env(), volume)?;
            catalog.make_dirs(&**self.env(), volume)?;
        }
        let added = self.env().lock_dir(path)?;
        self.replace_catalog(&mut state, catalog)?;
        self.inner.volume_locks.lock().push(added);
        *self.inner.volumes.write() = volumes;
        Ok(())
    }

    /// Figures of the volumes, in their order.
    pub fn volume_stats(&self) -> Vec<VolumeStats> {
        let volumes = self.volumes();
        let of_one = |volume: &Volume| VolumeStats {
            name: volume.name.clone(),
            path: volume.path.display().to_string(),
            medium: volume.medium.to_string(),
            lost: !volume.is_there,
            free_bytes: match volume.is_there {
                true => self.env().free_bytes(&volume.path).ok(),
                false => None,
            },
            io: self
                .env()
                .volume_io(&volume.path)
                .map(|disk| IoStats::of(&disk)),
        };
        volumes.iter().map(of_one).collect()
    }

    /// Refuses a tier without a volume.
    fn check_tiers(&self, settings: &CollectionSettings) -> Result<()> {
        let groups = settings.wide.iter().flat_map(Schema::groups);
        let volumes = self.inner.volumes.read();
        for group in groups {
            let two = group.tiers.iter().flat_map(|tiers| [tiers.hot, tiers.cold]);
            for tier in group.tier.into_iter().chain(two) {
                if !volumes.has(tier) {
                    return Err(Error::Invalid(format!(
                        "group {:?}: no volume is of the tier {tier}; add one by `quire volume \
                         add DB --volume NAME=PATH:{tier}`",
                        group.name
                    )));
                }
            }
        }
        Ok(())
    }

    /// The volumes that collections are opened on; those whose disk is not mounted are not there.
    pub(crate) fn volumes(&self) -> Volumes {
        self.inner.volumes.read().clone()
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

    fn create_locked(
        &self,
        state: &mut State,
        name: &str,
        settings: CollectionSettings,
        aliases: BTreeMap<String, Alias>,
        changes: &[AliasChange],
    ) -> Result<Collection> {
        if settings.wide.is_some() {
            let what = "the settings are those of a wide collection: make it as one".to_string();
            return Err(Error::Invalid(what));
        }
        self.refuse_frozen_in(changes)?;
        let entry = self.new_entry(state, name, settings, aliases)?;
        self.make_locked(state, entry, changes)
    }

    /// The entry of a new collection.
    fn new_entry(
        &self,
        state: &State,
        name: &str,
        settings: CollectionSettings,
        aliases: BTreeMap<String, Alias>,
    ) -> Result<Entry> {
        check_name(name)?;
        self.refuse_frozen(aliases.keys().map(String::as_str).chain([name]))?;
        settings.check()?;
        if state.catalog.find(name).is_some() {
            return Err(Error::CollectionExists {
                name: name.to_string(),
            });
        }
        if state.catalog.next_collection == u32::MAX {
            return Err(Error::Invalid("all ids of collections are used up".into()));
        }
        let entry = Entry {
            id: state.catalog.next_collection,
            name: name.to_string(),
            settings,
            index_generation: 0,
            aliases,
            triggers: BTreeMap::new(),
        };
        let mut next = state.catalog.clone();
        next.collections.push(entry.clone());
        next.check_aliases().map_err(Error::Invalid)?;
        Ok(entry)
    }

    /// Makes the collection of this entry, whose id was never used.
    fn make_locked(
        &self,
        state: &mut State,
        entry: Entry,
        changes: &[AliasChange],
    ) -> Result<Collection> {
        self.make_partitions(state, &entry, changes, Partition::create)?;
        self.open_locked(state, &entry)
    }

    /// Makes the collection of this entry, plain or wide, whose id was never used.
    fn make_any(&self, state: &mut State, entry: Entry) -> Result<()> {
        match entry.settings.wide {
            Some(_) => self.make_wide_locked(state, &entry).map(drop),
            None => self.make_locked(state, entry, &[]).map(drop),
        }
    }

    /// Gives a collection, plain or wide, the settings of its leader, the schema too.
    fn change_any(
        &self,
        state: &mut State,
        entry: &Entry,
        settings: CollectionSettings,
    ) -> Result<()> {
        match (&entry.settings.wide, settings.wide.clone()) {
            (Some(_), Some(schema)) => self
                .replace_schema(state, entry, settings, schema)
                .map(drop),
            _ => self.change_locked(state, entry, settings).map(drop),
        }
    }

    /// Makes the partitions of an entry, whose id was never used, and names it in the catalog, in
    /// which it changes aliases too.
    fn make_partitions<E>(
        &self,
        state: &mut State,
        entry: &Entry,
        changes: &[AliasChange],
        create: impl Fn(&Shared, &Place) -> std::result::Result<(), E>,
    ) -> Result<()>
    where
        Error: From<E>,
    {
        // An id is used once, even if the attempt fails: its catalog may be on disk all the same.
        let next = entry.id.saturating_add(1);
        state.catalog.next_collection = state.catalog.next_collection.max(next);
        let mut catalog = state.catalog.clone();
        catalog.collections.push(entry.clone());
        let dropped = catalog.change_aliases(changes)?;
        // What an earlier attempt under this id may have left.
        // A directory made now in the place of a lost volume would be taken for it.
        let volumes = state.catalog.volumes_there(&**self.env(), self.volumes())?;
        volumes.check_there()?;
        remove_collection(&**self.env(), &volumes, entry.id)?;
        for partition in 0..entry.settings.partitions {
            create(&self.inner.shared, &self.place(&catalog, entry, partition))?;
        }
        self.replace_and_drop(state, catalog, &dropped)
    }

    /// Writes the next catalog, which is then the one that counts.
    fn replace_catalog(&self, state: &mut State, mut next: Catalog) -> Result<()> {
        assert!(
            next.next_collection >= state.catalog.next_collection,
            "ids of collections are never given twice"
        );
        assert_eq!(
            next.database, state.catalog.database,
            "a database keeps its id"
        );
        let triggers = changed_triggers(state, &next)?;
        // The loser of a lock changes nothing that the winner reads.
        self.inner.shared.check_lock()?;
        // A number is used once, even if the attempt fails: it may be on disk all the same.
        state.catalog.number += 1;
        next.number = state.catalog.number;
        next.write(&**self.env(), &self.inner.root)?;
        state.catalog = next;
        for (id, triggers) in triggers {
            if let Some(collection) = state.open.get(&id) {
                collection.set_triggers(triggers.clone());
            }
            if let Some(collection) = state.open_wide.get(&id) {
                collection.set_triggers(triggers);
            }
        }
        *self.inner.aliases.write() = Arc::new(state.catalog.aliases());
        *self.inner.api_settings.write() = Arc::new(state.catalog.api_settings());
        state.in_doubt.clear();
        self.inner.changed.notify();
        Ok(())
    }

    /// Whether a crash now could leave another catalog than the one that counts, after an attempt
    /// to replace it failed.
    fn catalog_is_in_doubt(&self, state: &mut State) -> bool {
        let (env, root) = (&**self.env(), self.inner.root.as_path());
        // The next one was never in place, or this one is again.
        let stands =
            Catalog::read(env, root).is_ok_and(|found| found.same_collections(&state.catalog));
        if stands {
            return false;
        }
        state.catalog.number += 1;
        state.catalog.write(env, root).is_err()
    }

    fn open_locked(&self, state: &mut State, entry: &Entry) -> Result<Collection> {
        if entry.settings.wide.is_some() {
            return Err(Error::IsWide {
                name: entry.name.clone(),
            });
        }
        if let Some(collection) = state.open.get(&entry.id) {
            return Ok(collection.clone());
        }
        if state.in_doubt.contains(&entry.id) {
            self.replace_catalog(state, state.catalog.clone())?;
        }
        let begun = self.env().monotonic();
        let changed = Arc::clone(&self.inner.changed);
        let options = self.store_options(&entry.settings);
        let mut partitions = Vec::new();
        let index = entry.index();
        for number in 0..entry.settings.partitions {
            partitions.push(Partition::open(
                Arc::clone(&self.inner.shared),
                self.place(&state.catalog, entry, number),
                number,
                options.clone(),
                index.as_ref(),
                Arc::clone(&changed),
            )?);
        }
        let identity = state.catalog.identity(entry.id, 0);
        let collection = Collection::new(
            (entry.name.clone(), identity, begun),
            entry.settings.clone(),
            AttachedTriggers::new(triggers_of(&state.catalog, entry)?),
            partitions,
            changed,
            self.inner.options.retention,
        );
        // Without it the documents are there all the same.
        if let Err(error) = collection.set_index(index.as_ref()) {
            tracing::error!(collection = entry.name, %error, "an index could not be added");
        }
        state.open.insert(entry.id, collection.clone());
        Ok(collection)
    }

    /// Makes a wide collection with these settings, which have its schema.
    pub(crate) fn create_wide(
        &self,
        name: &str,
        settings: CollectionSettings,
    ) -> Result<WideCollection> {
        self.check_tiers(&settings)?;
        self.create_wide_copy(name, settings)
    }

    /// As [`create_wide`](Database::create_wide), of what another database has: where a tier has no
    /// volume, the first takes the tables.
    pub(crate) fn create_wide_copy(
        &self,
        name: &str,
        settings: CollectionSettings,
    ) -> Result<WideCollection> {
        let mut state = self.state()?;
        let entry = self.new_entry(&state, name, settings, BTreeMap::new())?;
        self.make_wide_locked(&mut state, &entry)
    }

    fn make_wide_locked(&self, state: &mut State, entry: &Entry) -> Result<WideCollection> {
        self.make_partitions(state, entry, &[], WidePartition::create)?;
        self.open_wide_locked(state, entry)
    }

    /// The wide collection of this name.
    pub(crate) fn open_wide(&self, name: &str) -> Result<WideCollection> {
        let mut state = self.state()?;
        let entry = self.entry(&state, name)?;
        self.open_wide_locked(&mut state, &entry)
    }

    /// Gives a wide collection the schema that `alter` makes of the one that it has.
    pub(crate) fn change_schema(
        &self,
        name: &str,
        alter: impl FnOnce(Schema) -> quire_wide::Result<Schema>,
    ) -> Result<WideCollection> {
        let mut state = self.state()?;
        let entry = self.entry(&state, name)?;
        let collection = self.open_wide_locked(&mut state, &entry)?;
        let schema = alter((*collection.schema()).clone())?;
        let settings = CollectionSettings {
            wide: Some(schema.clone()),
            ..entry.settings.clone()
        };
        self.check_tiers(&settings)?;
        self.replace_schema(&mut state, &entry, settings, schema)
    }

    /// Gives a wide collection these settings, which have this schema.
    fn replace_schema(
        &self,
        state: &mut State,
        entry: &Entry,
        settings: CollectionSettings,
        schema: Schema,
    ) -> Result<WideCollection> {
        settings.check()?;
        let collection = self.open_wide_locked(state, entry)?;
        let mut catalog = state.catalog.clone();
        let mut entries = catalog.collections.iter_mut();
        if let Some(entry) = entries.find(|other| other.id == entry.id) {
            entry.settings = settings.clone();
        }
        self.replace_catalog(state, catalog)?;
        collection.set_settings(settings, schema);
        Ok(collection)
    }

    fn open_wide_locked(&self, state: &mut State, entry: &Entry) -> Result<WideCollection> {
        let Some(schema) = &entry.settings.wide else {
            let what = format!("collection {:?} is a plain one, and not wide", entry.name);
            return Err(Error::Invalid(what));
        };
        if let Some(collection) = state.open_wide.get(&entry.id) {
            return Ok(collection.clone());
        }
        if state.in_doubt.contains(&entry.id) {
            self.replace_catalog(state, state.catalog.clone())?;
        }
        let begun = self.env().monotonic();
        let open = |number| {
            let mut options = self.store_options(&entry.settings);
            options.log.obsolete_bytes_kept =
                OBSOLETE_BYTES_KEPT / u64::from(entry.settings.partitions.max(1));
            WidePartition::open(
                Arc::clone(&self.inner.shared),
                self.place(&state.catalog, entry, number),
                number,
                options,
                schema,
                Arc::clone(&self.inner.changed),
            )
        };
        let partitions = (0..entry.settings.partitions).map(open);
        let identity = state.catalog.identity(entry.id, 0);
        let collection = WideCollection::new(
            (entry.name.clone(), identity, begun),
            entry.settings.clone(),
            schema.clone(),
            AttachedTriggers::new(triggers_of(&state.catalog, entry)?),
            partitions.collect::<quire_wide::Result<_>>()?,
            self.volumes(),
            self.inner.options.retention,
        );
        state.open_wide.insert(entry.id, collection.clone());
        Ok(collection)
    }

    /// Whether there is a wide collection of this name.
    pub fn is_wide(&self, name: &str) -> bool {
        let state = self.inner.state.lock();
        let entry = state.catalog.find(name);
        entry.is_some_and(|entry| entry.settings.wide.is_some())
    }

    /// The names of the wide collections, sorted.
    pub fn wide_collections(&self) -> Vec<String> {
        self.inner.state.lock().catalog.names(true)
    }

    /// Makes an empty partition of a collection like this at a place outside of this database.
    pub(crate) fn create_partition(&self, entry: &Entry, place: &Place) -> Result<()> {
        match entry.settings.wide {
            Some(_) => WidePartition::create(&self.inner.shared, place)?,
            None => Partition::create(&self.inner.shared, place)?,
        }
        Ok(())
    }

    fn place(&self, catalog: &Catalog, entry: &Entry, partition: u32) -> Place {
        partition_place(&self.inner.volumes.read(), catalog, entry, partition)
    }

    fn store_options(&self, settings: &CollectionSettings) -> StoreOptions {
        let log = settings.log();
        let mut options = StoreOptions {
            replay_bytes_max: self.inner.options.replay_bytes_max,
            log_live_percent: self.inner.options.log_live_percent,
            dead_bytes_min: DEAD_BYTES_MIN / u64::from(settings.partitions.max(1)),
            segment_age: log.segment_age,
            ..StoreOptions::default()
        };
        options.log.segment_bytes = self.inner.options.segment_bytes;
        options.log.block_bytes = log.block_bytes;
        options.log.codec = log.codec;
        options
    }
}

/// All partitions of a collection together may keep this many dead bytes, beside what is in
/// proportion to the live ones.
const DEAD_BYTES_MIN: u64 = 32 << 20;

/// All partitions of a wide collection together keep this many bytes of the log that their trees do
/// not need, for followers that come back.
const OBSOLETE_BYTES_KEPT: u64 = 256 << 20;

/// The machine, with an I/O manager for each volume if the catalog names them.
fn managed(
    env: Arc<dyn Env>,
    volumes: &Volumes,
    catalog: &Catalog,
    limits: Option<IoLimits>,
) -> Result<Arc<dyn Env>> {
    if catalog.named_volumes.is_empty() {
        return Ok(env);
    }
    let limits = |volume: &Volume| limits.unwrap_or_else(|| IoLimits::of(volume.medium));
    // As many as all volumes together let run: none waits for a thread that another one has.
    let compactions = volumes.iter().map(|volume| limits(volume).merges.most());
    env.reserve_compactions(compactions.sum())?;
    let disk = |volume: &Volume| ManagedEnv::disk_of(&env, &volume.path, limits(volume));
    Ok(Arc::new(ManagedEnv::new(Arc::clone(&env), volumes, disk)))
}

/// The triggers of the collections that have others in the next catalog.
fn changed_triggers(state: &State, next: &Catalog) -> Result<Vec<(u32, Vec<Arc<Trigger>>)>> {
    let is_changed = |entry: &&Entry| {
        let mut now = state.catalog.collections.iter();
        let now = now.find(|now| now.id == entry.id);
        now.is_some_and(|now| now.triggers != entry.triggers)
    };
    let changed = next.collections.iter().filter(is_changed);
    changed
        .map(|entry| Ok((entry.id, triggers_of(next, entry)?)))
        .collect()
}

/// Locks on the volumes that are there, but for the first.
fn lock_volumes(env: &dyn Env, volumes: &Volumes) -> Result<Vec<Box<dyn FileLock>>> {
    let others = volumes.iter().skip(1).filter(|volume| volume.is_there);
    others
        .map(|volume| Ok(env.lock_dir(&volume.path)?))
        .collect()
}

/// The volumes of a database that is opened with `given`. The catalog takes paths that have
/// changed.
fn open_volumes(env: &dyn Env, given: &Volumes, catalog: &mut Catalog) -> Result<Volumes> {
    let volumes = catalog.all_volumes(given)?;
    if catalog.named_volumes.is_empty() {
        volumes.check(env)?;
        return Ok(volumes);
    }
    let volumes = catalog.volumes_there(env, volumes)?;
    for volume in volumes.iter().filter(|volume| !volume.is_there) {
        tracing::error!(error = %volume.missing(), "what does not lie on it is served");
    }
    let named = catalog.named_volumes.clone();
    catalog.set_volumes(&volumes)?;
    if catalog.named_volumes != named {
        catalog.number += 1;
        catalog.write(env, volumes.root())?;
    }
    Ok(volumes)
}

/// The catalog that counts, in both copies.
fn find_catalog(env: &dyn Env, root: &Path) -> Result<Catalog> {
    let found = FoundCatalog::read(env, root)?;
    if let Some((path, what)) = found.damage() {
        tracing::error!(path = %path.display(), what, "a copy of the catalog is damaged");
    }
    let is_settled = found.is_settled();
    let mut catalog = found.newest()?;
    // One whose writer could not sync its name must not give way to the one before it once it was
    // read.
    if !seeded(Bug::FoundCatalogBelieved) {
        env.sync_dir(root)?;
    }
    if !is_settled && !seeded(Bug::CatalogCopyStale) {
        catalog.number += 1;
        // Without room, or in a directory that can only be read, one copy does.
        if let Err(error) = catalog.write(env, root) {
            let is_denied =
                matches!(&error, Error::Env(error) if error.kind() == EnvErrorKind::Denied);
            if error.kind() != ErrorKind::Full && !is_denied {
                return Err(error);
            }
            tracing::warn!(%error, "the copies of the catalog differ, and could not be written");
        }
    }
    Ok(catalog)
}
