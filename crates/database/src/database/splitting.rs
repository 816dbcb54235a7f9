//! Splitting the partitions of a collection, while it is read and written.
//!
//! # Steps
//! 1. The new partitions lie in the directory of a new collection's id. No catalog names it before
//!    they replace the old ones: what a crash leaves of them is removed by the next opening.
//! 2. The documents of each partition are copied into its new ones, which are opened.
//! 3. They follow what is written meanwhile, and build their indexes.
//! 4. Once they are nearly level, writers are held. The new partitions take the last records over
//!    and are synced; the catalog names them instead of the old ones; writers go on, in them.
//! 5. The old partitions are closed, and their files removed. Views of them stay readable.
//!
//! # Invariants
//! 1. Whatever fails before the catalog is replaced leaves the collection as it was.
//! 2. Writers are held for no longer than the last records and the syncs take.

mod parts;
mod plain;
mod wide;

use self::parts::{Copy, Parts};
use self::plain::PlainParts;
use self::wide::WideParts;
use super::{Database, State};
use crate::catalog::Entry;
use crate::directory::remove_collection;
use crate::layout::partition_of;
use crate::settings::CollectionSettings;
use crate::split_progress::{SplitProgress, SplitStage};
use crate::{Error, Result};
use quire_collection::Partition;
use quire_env::{IoClass, IoScope};
use quire_model::Key;
use quire_seeded::{Bug, seeded};
use quire_wide::WidePartition;
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
    parts: Box<dyn Parts>,
    old: Entry,
    new: Entry,
}

/// A split of the collection of this id, which the database waits for before it closes.
struct UnderWay<'a>(&'a Database, u32);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.inner.state.lock().splitting.remove(&self.1);
    }
}

impl Split {
    /// The new partition of a key.
    fn owner(&self) -> impl Fn(&Key) -> usize + use<> {
        let (old, new) = (self.old.settings.partitions, self.new.settings.partitions);
        move |key| {
            let owner = partition_of(key, new) as usize;
            match seeded(Bug::SplitBoundaryMoved) {
                // The first of those that its old partition becomes.
                true => owner - owner % (new / old) as usize,
                false => owner,
            }
        }
    }

    fn follow(&self) -> Result<u64> {
        self.parts.follow(&self.owner())
    }
}

impl Database {
    /// Splits each partition of a collection, plain or wide, while it is read and written: it has
    /// `partitions` of them then, a multiple of what it has. Documents keep their versions, and
    /// positions that were seen before stay good for
    /// [`Collection::tail_after`](crate::Collection::tail_after). Cells of a wide collection keep
    /// their times of expiry, their tiers and their groups. `watch` is told how far it is, and ends
    /// it by returning false; it does not close the database, which waits for the end of the split.
    /// Long: all documents are written once.
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
    /// The collection is as it was: `NotFound`; `Invalid` for a frozen collection, for an alias of
    /// several collections or with a filter, for a number that is no greater multiple or too high,
    /// and while it is being split already; `Closed` if `watch` returned false, or the collection
    /// was dropped meanwhile; `Corrupt` for damage; `Full`, `Io`.
    pub fn split_collection(&self, name: &str, partitions: u32, watch: Watch<'_>) -> Result<()> {
        let mut split = match self.alias(name) {
            Some(alias) => self.begin_split(alias.only_unfiltered(name)?, partitions)?,
            None => self.begin_split(name, partitions)?,
        };
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
                Ok(())
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
        let (settings, largest) = match self.is_wide(name) {
            true => {
                let collection = self.open_wide(name)?;
                let partitions = collection.partitions();
                let bytes = partitions.iter().map(WidePartition::tree_bytes).max();
                (collection.settings(), bytes)
            }
            false => {
                let collection = self.collection_named(name)?;
                let bytes = |partition: &Partition| partition.stats().log.disk_bytes;
                let bytes = collection.partitions().iter().map(bytes).max();
                (collection.settings(), bytes)
            }
        };
        let twice = CollectionSettings {
            partitions: settings.partitions.saturating_mul(2),
            ..CollectionSettings::clone(&settings)
        };
        let is_due = settings.split_bytes > 0
            && twice.check().is_ok()
            && largest > Some(settings.split_bytes);
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
        // Their files go away: what they could not write is no matter.
        split.parts.close_old();
        if let Err(error) = remove_collection(&**self.env(), &self.volumes(), split.old.id) {
            // The next opening removes them.
            let collection = &split.old.name;
            tracing::warn!(collection, %error, "partitions that were split were left");
        }
    }

    /// Closes the new partitions of a split that failed, and removes them.
    fn give_up(&self, split: &Split) {
        split.parts.close_new();
        // If the catalog may name them, they stay until that is settled.
        if !self.inner.state.lock().in_doubt.contains(&split.old.id) {
            let _ = remove_collection(&**self.env(), &self.volumes(), split.new.id);
        }
    }

    fn begin_split(&self, name: &str, partitions: u32) -> Result<Split> {
        let mut state = self.state()?;
        let old = self.entry(&state, name)?;
        let parts: Box<dyn Parts> = match old.settings.wide {
            Some(_) => Box::new(WideParts::new(self.open_wide_locked(&mut state, &old)?)),
            None => Box::new(PlainParts::new(self.open_locked(&mut state, &old)?, &old)),
        };
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
        Ok(Split { parts, old, new })
    }

    /// Copies what the old partitions have, and opens the new ones.
    fn copy_into(&self, split: &mut Split, watch: Watch<'_>) -> Result<()> {
        let catalog = self.catalog()?;
        self.make_room(&catalog, split.new.id)?;
        let (stage, total) = (SplitStage::Copying, split.parts.total());
        let owner = split.owner();
        let copy = Copy {
            database: self,
            catalog: &catalog,
            new: &split.new,
            owner: &owner,
        };
        let watch = |done: u64| {
            let total = total.max(done);
            self.check_open().is_ok() && watch(SplitProgress { stage, done, total })
        };
        match split.parts.copy(&copy, &watch)? {
            true => Ok(()),
            false => Err(Error::Stopped),
        }
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
            let (done, total, is_indexed) = split.parts.indexed();
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
        let gate = split.parts.gate();
        let held = gate.hold_writers(PATIENCE);
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
        if !split.parts.take_index(&entry)? {
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
        let gate = split.parts.gate();
        let Some(held) = gate.hold_writers(PATIENCE) else {
            return Ok(false);
        };
        split.parts.stop_jobs();
        if let Err(error) = self.replace_partitions(&mut state, split) {
            split.parts.restart_jobs();
            return Err(error);
        }
        held.replaced();
        Ok(true)
    }

    /// Takes over the last records, and names the new partitions in the catalog. Nobody writes.
    fn replace_partitions(&self, state: &mut State, split: &Split) -> Result<()> {
        split.parts.sync_old()?;
        while !seeded(Bug::SplitNotLevel) && split.follow()? > 0 {}
        split.parts.finish(&split.new.settings)?;
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
                split.parts.close_collection(state, &split.old);
            }
            return Err(error);
        }
        split.parts.replace(self, state, &split.old, &split.new);
        Ok(())
    }
}
