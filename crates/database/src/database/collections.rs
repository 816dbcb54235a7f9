//! The plain collections of a database: made, opened, changed, dropped.

use super::{Database, State};
use crate::alias::{Alias, AliasChange};
use crate::attached::AttachedTriggers;
use crate::catalog::{Catalog, Entry};
use crate::collection::Collection;
use crate::directory::{partition_place, remove_collection};
use crate::settings::{CollectionSettings, check_name};
use crate::stored_code::triggers_of;
use crate::{Error, Result};
use quire_collection::Partition;
use quire_store::{Place, Shared, StoreOptions};
use quire_wide::WidePartition;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// All partitions of a collection together may keep this many dead bytes, beside what is in
/// proportion to the live ones.
const DEAD_BYTES_MIN: u64 = 32 << 20;

impl Database {
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
        self.collection_named(resolved.only_unfiltered(name)?)
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
        if let Some(collection) = self.inner.opened.read().plain_named(name) {
            return Ok(collection.clone());
        }
        let mut state = self.state()?;
        let entry = self.entry(&state, name)?;
        self.open_locked(&mut state, &entry)
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
        if let Some(collection) = self.inner.opened.read().plain_named(name) {
            return Ok(collection.clone());
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

    pub(super) fn change_locked(
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

    /// The names of the collections, sorted, but for wide ones: these are
    /// [`wide_collections`](Database::wide_collections). Does not wait.
    pub fn collections(&self) -> Vec<String> {
        self.inner.opened.read().names(false)
    }

    /// Whether a collection has this name: a plain, a wide or a frozen one. An alias is none.
    /// Does not wait.
    pub fn has_collection(&self, name: &str) -> bool {
        let is_own = self.inner.opened.read().is_wide(name).is_some();
        is_own || self.frozen_collection(name).is_some()
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

    pub(super) fn drop_locked(&self, state: &mut State, entry: &Entry) -> Result<()> {
        let mut catalog = state.catalog.clone();
        catalog.collections.retain(|other| other.id != entry.id);
        self.replace_and_drop(state, catalog, &BTreeSet::from([entry.id]))
    }

    pub(super) fn create_locked(
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
    pub(super) fn new_entry(
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
        let entry = Entry {
            id: state.next_id()?,
            origin: None,
            partitions_before: Vec::new(),
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
    pub(super) fn make_locked(
        &self,
        state: &mut State,
        entry: Entry,
        changes: &[AliasChange],
    ) -> Result<Collection> {
        self.make_partitions(state, &entry, changes, Partition::create)?;
        self.open_locked(state, &entry)
    }

    /// Makes the partitions of an entry, whose id was never used, and names it in the catalog, in
    /// which it changes aliases too.
    pub(super) fn make_partitions<E>(
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
        self.make_room(&state.catalog, entry.id)?;
        for partition in 0..entry.settings.partitions {
            create(&self.inner.shared, &self.place(&catalog, entry, partition))?;
        }
        self.replace_and_drop(state, catalog, &dropped)
    }

    pub(super) fn open_locked(&self, state: &mut State, entry: &Entry) -> Result<Collection> {
        if entry.settings.wide.is_some() {
            return Err(Error::IsWide {
                name: entry.name.clone(),
            });
        }
        if let Some(collection) = self.inner.opened.read().plain.get(&entry.id) {
            return Ok(collection.clone());
        }
        if state.in_doubt.contains(&entry.id) {
            self.replace_catalog(state, state.catalog.clone())?;
        }
        let begun = self.env().monotonic();
        let numbers = 0..entry.settings.partitions;
        let partitions = numbers.map(|number| self.open_partition(&state.catalog, entry, number));
        let partitions = partitions.collect::<Result<Vec<_>>>()?;
        let index = entry.index();
        let identity = state.catalog.identity_of(entry);
        let collection = Collection::new(
            (entry.name.clone(), identity, begun),
            entry.settings.clone(),
            AttachedTriggers::new(triggers_of(&state.catalog, entry)?),
            (partitions, entry.partitions_before.clone()),
            Arc::clone(&self.inner.changed),
            self.inner.options.retention,
        );
        // Without it the documents are there all the same.
        if let Err(error) = collection.set_index(index.as_ref()) {
            tracing::error!(collection = entry.name, %error, "an index could not be added");
        }
        let mut opened = self.inner.opened.write();
        opened.plain.insert(entry.id, collection.clone());
        Ok(collection)
    }

    /// Removes what an earlier attempt may have left of a collection of this id, which is made now.
    pub(super) fn make_room(&self, catalog: &Catalog, id: u32) -> Result<()> {
        // A directory made now in the place of a lost volume would be taken for it.
        let volumes = catalog.volumes_there(&**self.env(), self.volumes())?;
        volumes.check_there()?;
        remove_collection(&**self.env(), &volumes, id)
    }

    /// Opens a partition of a plain collection.
    pub(super) fn open_partition(
        &self,
        catalog: &Catalog,
        entry: &Entry,
        number: u32,
    ) -> Result<Partition> {
        Ok(Partition::open(
            Arc::clone(&self.inner.shared),
            self.place(catalog, entry, number),
            number,
            self.store_options(&entry.settings),
            entry.index().as_ref(),
            Arc::clone(&self.inner.changed),
        )?)
    }

    /// Makes an empty partition of a collection like this at a place outside of this database.
    pub(crate) fn create_partition(&self, entry: &Entry, place: &Place) -> Result<()> {
        match entry.settings.wide {
            Some(_) => WidePartition::create(&self.inner.shared, place)?,
            None => Partition::create(&self.inner.shared, place)?,
        }
        Ok(())
    }

    pub(super) fn place(&self, catalog: &Catalog, entry: &Entry, partition: u32) -> Place {
        partition_place(&self.inner.volumes.read(), catalog, entry, partition)
    }

    pub(super) fn store_options(&self, settings: &CollectionSettings) -> StoreOptions {
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
