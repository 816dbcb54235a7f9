//! Splitting the partitions of a plain collection, while it is read and written.
//!
//! # Steps
//! 1. The new partitions lie in the directory of a new collection's id. No catalog names it before
//!    they replace the old ones: what a crash leaves of them is removed by the next opening.
//! 2. Each partition is forked into its new ones, which are opened, and so have their trees.
//! 3. They follow what is written meanwhile, and build their indexes.
//! 4. Once they are nearly level, writers are held. The new partitions take the last records over
//!    and are synced; the catalog names them instead of the old ones; writers go on, in them.
//! 5. The old partitions are closed, and their files removed. Views of them stay readable.
//!
//! # Invariants
//! 1. Whatever fails before the catalog is replaced leaves the collection as it was.
//! 2. Writers are held for no longer than the last records and the syncs take.

use super::{Database, State};
use crate::catalog::Entry;
use crate::collection::Collection;
use crate::directory::remove_collection;
use crate::layout::{Layout, partition_of};
use crate::settings::CollectionSettings;
use crate::split_progress::{SplitProgress, SplitStage};
use crate::{Error, Result};
use quire_collection::{IndexSettings, Partition};
use quire_env::{IoClass, IoScope};
use quire_model::Key;
use quire_seeded::{Bug, seeded};
use quire_store::ForkPlace;
use std::sync::Arc;
use std::time::Duration;

/// With fewer records to take over than this, writers are held for the rest.
const NEARLY_LEVEL: u64 = 1_000;

/// The longest that writers are waited for, while new ones wait too.
const PATIENCE: Duration = Duration::from_millis(50);

/// How long writers are held at a time while they are faster than the new partitions.
const TURN: Duration = Duration::from_millis(50);

/// How long a level split waits for its indexes before it looks again.
const PAUSE: Duration = Duration::from_millis(10);

/// Is told how far a split is; false ends it.
type Watch<'a> = &'a dyn Fn(SplitProgress) -> bool;

/// A split under way.
struct Split {
    collection: Collection,
    /// The partitions that are split.
    layout: Arc<Layout>,
    old: Entry,
    new: Entry,
    /// The new partitions, once they are open.
    partitions: Vec<Partition>,
    /// The index that they have, or are building.
    index: Option<IndexSettings>,
}

/// A split of the collection of this id, which the database waits for before it closes.
struct UnderWay<'a>(&'a Database, u32);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.inner.state.lock().splitting.remove(&self.1);
    }
}

impl Split {
    /// The old partition that a new one is of.
    fn source(&self, number: usize) -> &Partition {
        let old = self.layout.partitions();
        &old[number * old.len() / self.new.settings.partitions as usize]
    }

    /// Takes over some of what was written. Returns the number of positions that are left where
    /// most are.
    fn follow(&self) -> Result<u64> {
        let mut left = 0;
        for (number, partition) in self.partitions.iter().enumerate() {
            let owns = |key: &Key| self.owner(key) == number;
            left = left.max(partition.follow(self.source(number), &owns)?);
        }
        Ok(left)
    }

    /// The new partition of a key.
    fn owner(&self, key: &Key) -> usize {
        let count = self.new.settings.partitions;
        let (owner, count) = (partition_of(key, count) as usize, count as usize);
        match seeded(Bug::SplitBoundaryMoved) {
            // The first of those that its old partition becomes.
            true => owner - owner % (count / self.layout.partitions().len()),
            false => owner,
        }
    }

    /// Gives the new partitions the index of these settings.
    fn set_index(&mut self, index: Option<IndexSettings>) -> Result<()> {
        for partition in &self.partitions {
            partition.set_index(index.as_ref())?;
        }
        self.index = index;
        Ok(())
    }

    /// How many documents the indexes have, and are to have.
    fn indexed(&self) -> (u64, u64, bool) {
        let (mut done, mut total, mut complete) = (0, 0, true);
        for partition in self.partitions.iter().filter(|_| self.index.is_some()) {
            let figures = partition.index_figures(&partition.stats());
            complete &= figures.as_ref().is_some_and(|figures| figures.complete);
            done += figures.map_or(0, |figures| figures.documents);
            total += partition.view().map_or(0, |view| view.count());
        }
        (done, total, complete)
    }
}

impl Database {
    /// Splits each partition of a plain collection, while it is read and written: it has
    /// `partitions` of them then, a multiple of what it has. Documents keep their versions, and
    /// positions that were seen before stay good for [`Collection::tail_after`]. `watch` is told
    /// how far it is, and ends it by returning false; it does not close the database, which waits
    /// for the end of the split. Long: all documents are written once.
    ///
    /// ```
    /// use quiredb::{CollectionSettings, Database, Document, Key};
    /// # let dir = tempfile::tempdir()?;
    /// # let database = Database::open(dir.path())?;
    /// let one = CollectionSettings { partitions: 1, ..CollectionSettings::default() };
    /// let songs = database.create_collection("songs", one)?;
    /// let before = songs.put(&Document::from_json(br#"{"_id":7,"title":"Jolene"}"#)?)?;
    /// let seen = songs.positions();
    ///
    /// database.split_collection("songs", 4, &|_progress| true)?;
    /// assert_eq!(songs.settings().partitions, 4);
    /// let found = songs.get(&Key::from(7))?.expect("it was written");
    /// assert_eq!(found.version, before.version);
    /// assert!(songs.tail_after(&seen)?.next().is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The collection is as it was: `NotFound`; `Invalid` for a wide or frozen collection, for a
    /// number that is no greater multiple or too high, and while it is being split already;
    /// `Closed` if `watch` returned false, or the collection was dropped meanwhile; `Corrupt` for
    /// damage; `Full`, `Io`.
    pub fn split_collection(
        &self,
        name: &str,
        partitions: u32,
        watch: Watch<'_>,
    ) -> Result<Collection> {
        let name = self.collection(name)?.name().to_string();
        let mut split = self.begin_split(&name, partitions)?;
        // Until it has ended the database does not close.
        let _under_way = UnderWay(self, split.old.id);
        let done = {
            let _io = IoScope::enter(IoClass::Background);
            let copied = self.copy_into(&mut split, watch);
            copied.and_then(|()| self.bring_level(&mut split, watch))
        };
        match done {
            Ok(()) => {
                self.remove_old(&split);
                Ok(split.collection)
            }
            Err(error) => {
                self.give_up(&split);
                Err(error)
            }
        }
    }

    /// How many partitions a collection is to be split into by its setting
    /// [`split_bytes`](CollectionSettings::split_bytes); `None` if it is not, or it has as many as
    /// it may have.
    ///
    /// # Errors
    /// As of [`collection_named`](Database::collection_named).
    pub fn split_due(&self, name: &str) -> Result<Option<u32>> {
        let collection = self.collection_named(name)?;
        let settings = collection.settings();
        let is_large = |partition: &Partition| {
            let log = partition.stats().log;
            log.disk_bytes > settings.split_bytes
        };
        let twice = CollectionSettings {
            partitions: settings.partitions.saturating_mul(2),
            ..CollectionSettings::clone(&settings)
        };
        let is_due = settings.split_bytes > 0
            && twice.check().is_ok()
            && collection.partitions().iter().any(is_large);
        Ok(is_due.then_some(twice.partitions))
    }

    /// The collections that are to be split by their settings, and into how many partitions. One
    /// that can't be opened is left out: it says so wherever it is used.
    pub fn splits_due(&self) -> Vec<(String, u32)> {
        let names: Vec<String> = {
            let state = self.inner.state.lock();
            let entries = state.catalog.collections.iter();
            let entries = entries.filter(|entry| entry.settings.split_bytes > 0);
            entries.map(|entry| entry.name.clone()).collect()
        };
        let due = |name: String| {
            let count = self.split_due(&name).ok().flatten();
            count.map(|count| (name, count))
        };
        names.into_iter().filter_map(due).collect()
    }

    /// Closes the partitions that were split, and removes them.
    fn remove_old(&self, split: &Split) {
        for partition in split.layout.partitions().iter() {
            // Its files go away: what it could not write is no matter.
            let _ = partition.close();
        }
        if let Err(error) = remove_collection(&**self.env(), &self.volumes(), split.old.id) {
            // The next opening removes them.
            let collection = &split.old.name;
            tracing::warn!(collection, %error, "partitions that were split were left");
        }
    }

    /// Closes the new partitions of a split that failed, and removes them.
    fn give_up(&self, split: &Split) {
        for partition in &split.partitions {
            let _ = partition.close();
        }
        // If the catalog may name them, they stay until that is settled.
        if !self.inner.state.lock().in_doubt.contains(&split.old.id) {
            let _ = remove_collection(&**self.env(), &self.volumes(), split.new.id);
        }
    }

    fn begin_split(&self, name: &str, partitions: u32) -> Result<Split> {
        let mut state = self.state()?;
        let old = self.entry(&state, name)?;
        let collection = self.open_locked(&mut state, &old)?;
        let count = old.settings.partitions;
        if partitions <= count || !partitions.is_multiple_of(count) {
            return Err(Error::Invalid(format!(
                "collection {name:?} has {count} partitions: a split makes a multiple of them, {} \
                 for example, and not {partitions}",
                count * 2
            )));
        }
        let settings = CollectionSettings {
            partitions,
            ..old.settings.clone()
        };
        settings.check()?;
        let id = state.next_id()?;
        if !state.splitting.insert(old.id) {
            let what = format!("collection {name:?} is being split already");
            return Err(Error::Invalid(what));
        }
        let mut partitions_before = old.partitions_before.clone();
        partitions_before.push(count);
        let new = Entry {
            id,
            origin: old.origin.or(Some(old.id)),
            partitions_before,
            settings,
            ..old.clone()
        };
        state.catalog.next_collection += 1;
        Ok(Split {
            layout: collection.state().layout.load_full(),
            index: old.index(),
            collection,
            old,
            new,
            partitions: Vec::new(),
        })
    }

    /// Forks the old partitions, and opens the new ones.
    fn copy_into(&self, split: &mut Split, watch: Watch<'_>) -> Result<()> {
        let catalog = self.catalog()?;
        self.make_room(&catalog, split.new.id)?;
        let sources = split.layout.partitions().iter();
        let total = sources.map(|source| source.stats().log.records).sum();
        let (mut before, stage) = (0, SplitStage::Copying);
        let each = split.new.settings.partitions as usize / split.layout.partitions().len();
        for (number, source) in split.layout.partitions().iter().enumerate() {
            let first = number * each;
            let place = |number: usize| ForkPlace {
                place: self.place(&catalog, &split.new, number as u32),
                options: self.store_options(&split.new.settings),
            };
            let places: Vec<_> = (first..first + each).map(place).collect();
            let owner = |key: &Key| split.owner(key).wrapping_sub(first);
            let watch = |records: u64| {
                let done = before + records;
                self.check_open().is_ok() && watch(SplitProgress { stage, done, total })
            };
            if !source.fork(&places, &owner, &watch)? {
                return Err(Error::Stopped);
            }
            before += source.stats().log.records;
            for number in first..first + each {
                let opened = self.open_partition(&catalog, &split.new, number as u32)?;
                split.partitions.push(opened);
            }
        }
        split.set_index(split.index.clone())
    }

    /// Has the new partitions follow until they replace the old ones.
    fn bring_level(&self, split: &mut Split, watch: Watch<'_>) -> Result<()> {
        let mut before = u64::MAX;
        loop {
            let left = split.follow()?;
            if left >= before && left > NEARLY_LEVEL {
                self.take_turn(split)?;
            }
            before = left;
            let (done, total, is_indexed) = split.indexed();
            let stage = match is_indexed {
                true => SplitStage::Switching,
                false => SplitStage::Indexing,
            };
            if !watch(SplitProgress { stage, done, total }) {
                return Err(Error::Stopped);
            }
            self.check_open()?;
            if is_indexed && left < NEARLY_LEVEL && self.switch(split)? {
                return Ok(());
            }
            if !is_indexed && left == 0 {
                self.inner.changed.wait_until(&mut || false, PAUSE);
            }
        }
    }

    /// Holds writers for a moment, as they write faster than the new partitions follow.
    fn take_turn(&self, split: &Split) -> Result<()> {
        let held = split.layout.hold_writers(PATIENCE);
        let end = self.env().monotonic() + TURN;
        while held.is_some() && self.env().monotonic() < end && split.follow()? > 0 {}
        Ok(())
    }

    /// Replaces the old partitions by the new ones. False if it has to be tried again.
    fn switch(&self, split: &mut Split) -> Result<bool> {
        let _io = IoScope::enter(IoClass::Log);
        let mut state = self.state()?;
        let mut entries = state.catalog.collections.iter();
        let entry = entries.find(|entry| entry.id == split.old.id).cloned();
        let Some(entry) = entry else {
            return Err(Error::Closed);
        };
        if entry.index() != split.index {
            split.set_index(entry.index())?;
            return Ok(false);
        }
        split.old = entry;
        split.new = Entry {
            id: split.new.id,
            origin: split.new.origin,
            partitions_before: std::mem::take(&mut split.new.partitions_before),
            settings: CollectionSettings {
                partitions: split.new.settings.partitions,
                ..split.old.settings.clone()
            },
            ..split.old.clone()
        };
        // Settings that changed meanwhile may be wrong for more partitions.
        split.new.settings.check()?;
        let layout = Arc::clone(&split.layout);
        let Some(held) = layout.hold_writers(PATIENCE) else {
            return Ok(false);
        };
        let rules: Vec<_> = layout.retention().iter().map(|one| one.stop()).collect();
        if let Err(error) = self.replace_partitions(&mut state, split) {
            for (retention, rule) in layout.retention().iter().zip(rules) {
                retention.go_on(rule);
            }
            return Err(error);
        }
        held.replaced();
        Ok(true)
    }

    /// Takes over the last records, and names the new partitions in the catalog. Nobody writes.
    fn replace_partitions(&self, state: &mut State, split: &Split) -> Result<()> {
        for source in split.layout.partitions().iter() {
            source.sync()?;
        }
        while !seeded(Bug::SplitNotLevel) && split.follow()? > 0 {}
        for (number, partition) in split.partitions.iter().enumerate() {
            if !seeded(Bug::SplitNamedUnsynced) {
                partition.sync()?;
            }
            partition.set_log(split.new.settings.log())?;
            assert!(
                partition.position() == split.source(number).position()
                    || seeded(Bug::SplitNotLevel)
                    || seeded(Bug::SplitPositionNotHeld),
                "a new partition ends where the old one does"
            );
        }
        let mut catalog = state.catalog.clone();
        for entry in &mut catalog.collections {
            if entry.id == split.old.id {
                *entry = split.new.clone();
            }
        }
        if let Err(error) = self.replace_catalog(state, catalog) {
            if self.catalog_is_in_doubt(state) {
                // Nothing is acknowledged in the old partitions before it is settled.
                state.in_doubt.insert(split.old.id);
                state.open.remove(&split.old.id);
                let _ = split.collection.close();
            }
            return Err(error);
        }
        let rule = self
            .inner
            .options
            .retention
            .then(|| split.new.settings.retention());
        let before = split.new.partitions_before.clone();
        let layout = Layout::new(split.partitions.clone(), before, rule);
        split.collection.replace(layout, split.new.settings.clone());
        state.open.remove(&split.old.id);
        state.open.insert(split.new.id, split.collection.clone());
        Ok(())
    }
}
