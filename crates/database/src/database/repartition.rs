//! Splitting and merging the partitions of a collection, while it is read and written.
//!
//! # Steps
//! 1. The new partitions lie in the directory of a new collection's id. No catalog names it before
//!    they replace the old ones: what a crash leaves of them is removed by the next opening.
//! 2. The new partitions get the documents of the old ones that they are of, and are opened.
//! 3. They follow what is written meanwhile, and build their indexes.
//! 4. Once they are nearly level, writers are held. The new partitions take the last records over
//!    and are synced; the catalog names them instead of the old ones; writers go on, in them.
//! 5. The old partitions are closed, and their files removed. Views of them stay readable.
//!
//! # Invariants
//! 1. Whatever fails before the catalog is replaced leaves the collection as it was.
//! 2. Writers are held for no longer than the last records and the syncs take.

mod due;
mod merged;
mod parts;
mod plain;
mod wide;

use self::parts::{Copy, NEARLY_LEVEL, Parts};
use self::plain::PlainParts;
use self::wide::WideParts;
use super::{Database, State};
use crate::catalog::Entry;
use crate::directory::remove_collection;
use crate::layout::partition_of;
use crate::partitions_before::{Before, forget_old_marks};
use crate::partitions_progress::{PartitionsProgress, PartitionsStage};
use crate::settings::CollectionSettings;
use crate::{Error, Result};
use quire_env::{IoClass, IoScope};
use quire_model::Key;
use quire_seeded::{Bug, seeded};
use std::time::Duration;

/// The longest that writers are waited for, while new ones wait too.
const PATIENCE: Duration = Duration::from_millis(50);

/// How long writers are held at a time while they are faster than the new partitions.
const TURN: Duration = Duration::from_millis(50);

/// How long a level one waits for its indexes before it looks again.
const PAUSE: Duration = Duration::from_millis(10);

/// Is told how far it is; false ends it.
type Watch<'a> = &'a dyn Fn(PartitionsProgress) -> bool;

/// Whether there are more partitions afterwards, or fewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Split,
    Merge,
}

impl Kind {
    /// Refuses a number of partitions that a collection can't get so.
    fn check(self, old: &Entry, partitions: u32) -> Result<()> {
        let (name, count) = (&old.name, old.settings.partitions);
        let what = match self {
            Kind::Split if partitions > count && partitions.is_multiple_of(count) => return Ok(()),
            Kind::Split => format!(
                "collection {name:?} has {count} partitions: a split makes a multiple of them, {} \
                 for example, and not {partitions}",
                count * 2
            ),
            Kind::Merge
                if partitions > 0 && partitions < count && count.is_multiple_of(partitions) =>
            {
                return Ok(());
            }
            Kind::Merge => format!(
                "collection {name:?} has {count} partitions: a merge leaves a number of them that \
                 divides it, and not {partitions}"
            ),
        };
        Err(Error::Invalid(what))
    }
}

/// A split or a merge under way.
struct Repartition {
    parts: Box<dyn Parts>,
    old: Entry,
    new: Entry,
}

/// One of the collection of this id, which the database waits for before it closes.
struct UnderWay<'a>(&'a Database, u32);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.inner.state.lock().repartitioned.remove(&self.1);
    }
}

impl Repartition {
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

    fn follow(&mut self) -> Result<u64> {
        let owner = self.owner();
        self.parts.follow(&owner)
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
        self.repartition(name, (Kind::Split, partitions), watch)
    }

    /// Merges the partitions of a collection, plain or wide, neighbours together, while it is read
    /// and written: it has `partitions` of them then, which divides the number before. Documents
    /// get higher versions: a condition on a version from before does not hold. Positions that were
    /// seen before stay good for [`Collection::tail_after`](crate::Collection::tail_after), which
    /// may give some changes once more. `watch`, and what it costs, are as of
    /// [`split_collection`](Database::split_collection).
    ///
    /// ```
    /// use quiredb::{CollectionSettings, Database, Document, Key};
    /// # let dir = tempfile::tempdir()?;
    /// # let database = Database::open(dir.path())?;
    /// let eight = CollectionSettings { partitions: 8, ..CollectionSettings::default() };
    /// let songs = database.create_collection("songs", eight)?;
    /// let before = songs.put(&Document::from_json(br#"{"_id":7,"title":"Jolene"}"#)?)?;
    /// let seen = songs.positions();
    ///
    /// database.merge_collection("songs", 2, &|_progress| true)?;
    /// assert_eq!(songs.settings().partitions, 2);
    /// let found = songs.get(&Key::from(7))?.expect("it was written");
    /// assert!(found.version > before.version);
    /// assert!(songs.tail_after(&seen)?.next().is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The collection is as it was: as of [`split_collection`](Database::split_collection);
    /// `Invalid` too if more than a billion records are written to a partition meanwhile.
    pub fn merge_collection(&self, name: &str, partitions: u32, watch: Watch<'_>) -> Result<()> {
        self.repartition(name, (Kind::Merge, partitions), watch)
    }

    fn repartition(&self, name: &str, to: (Kind, u32), watch: Watch<'_>) -> Result<()> {
        let mut work = match self.alias(name) {
            Some(alias) => self.begin(alias.only_unfiltered(name)?, to)?,
            None => self.begin(name, to)?,
        };
        // Until it has ended the database does not close.
        let _under_way = UnderWay(self, work.old.id);
        let done = {
            let _io = IoScope::enter(IoClass::Background);
            let copied = self.copy_into(&mut work, watch);
            copied.and_then(|()| self.bring_level(&mut work, watch))
        };
        match done {
            Ok(()) => {
                self.remove_old(&work);
                Ok(())
            }
            Err(error) => {
                self.give_up(&work);
                Err(error)
            }
        }
    }

    /// Closes the old partitions, and removes them.
    fn remove_old(&self, work: &Repartition) {
        // Their files go away: what they could not write is no matter.
        work.parts.close_old();
        if let Err(error) = remove_collection(&**self.env(), &self.volumes(), work.old.id) {
            // The next opening removes them.
            let collection = &work.old.name;
            tracing::warn!(collection, %error, "partitions that were replaced were left");
        }
    }

    /// Closes the new partitions of one that failed, and removes them.
    fn give_up(&self, work: &Repartition) {
        work.parts.close_new();
        // If the catalog may name them, they stay until that is settled.
        if !self.inner.state.lock().in_doubt.contains(&work.old.id) {
            let _ = remove_collection(&**self.env(), &self.volumes(), work.new.id);
        }
    }

    fn begin(&self, name: &str, (kind, partitions): (Kind, u32)) -> Result<Repartition> {
        let mut state = self.state()?;
        let old = self.entry(&state, name)?;
        let parts: Box<dyn Parts> = match old.settings.wide {
            Some(_) => Box::new(WideParts::new(
                self.open_wide_locked(&mut state, &old)?,
                &old,
            )),
            None => Box::new(PlainParts::new(self.open_locked(&mut state, &old)?, &old)),
        };
        let count = old.settings.partitions;
        kind.check(&old, partitions)?;
        let settings = CollectionSettings {
            partitions,
            ..old.settings.clone()
        };
        settings.check()?;
        let id = state.next_id()?;
        if !state.repartitioned.insert(old.id) {
            let what = format!("collection {name:?} is being split or merged already");
            return Err(Error::Invalid(what));
        }
        let mut partitions_before = old.partitions_before.clone();
        // Told anew in the end.
        partitions_before.push(Before::Split(count));
        let new = Entry {
            id,
            origin: old.origin.or(Some(old.id)),
            partitions_before,
            settings,
            ..old.clone()
        };
        state.catalog.next_collection += 1;
        Ok(Repartition { parts, old, new })
    }

    /// Copies what the old partitions have, and opens the new ones.
    fn copy_into(&self, work: &mut Repartition, watch: Watch<'_>) -> Result<()> {
        let catalog = self.catalog()?;
        self.make_room(&catalog, work.new.id)?;
        let stage = PartitionsStage::Copying;
        let owner = work.owner();
        let copy = Copy {
            database: self,
            catalog: &catalog,
            new: &work.new,
            owner: &owner,
        };
        let watch = |done: u64, total: u64| {
            let total = total.max(done);
            self.check_open().is_ok() && watch(PartitionsProgress { stage, done, total })
        };
        match work.parts.copy(&copy, &watch)? {
            true => Ok(()),
            false => Err(Error::Stopped),
        }
    }

    /// Has the new partitions follow until they replace the old ones.
    fn bring_level(&self, work: &mut Repartition, watch: Watch<'_>) -> Result<()> {
        let mut before = u64::MAX;
        loop {
            let left = work.follow()?;
            if left >= before && left > NEARLY_LEVEL {
                self.take_turn(work)?;
            }
            before = left;
            let (done, total, is_indexed) = work.parts.indexed();
            let stage = match is_indexed {
                true => PartitionsStage::Switching,
                false => PartitionsStage::Indexing,
            };
            if !watch(PartitionsProgress { stage, done, total }) {
                return Err(Error::Stopped);
            }
            self.check_open()?;
            if is_indexed && left < NEARLY_LEVEL && self.switch(work)? {
                return Ok(());
            }
            if !is_indexed && left == 0 {
                self.inner.changed.wait_until(&mut || false, PAUSE);
            }
        }
    }

    /// Holds writers for a moment, as they write faster than the new partitions follow.
    fn take_turn(&self, work: &mut Repartition) -> Result<()> {
        let gate = work.parts.gate();
        let held = gate.hold_writers(PATIENCE);
        let end = self.env().monotonic() + TURN;
        while held.is_some() && self.env().monotonic() < end && work.follow()? > 0 {}
        Ok(())
    }

    /// Replaces the old partitions by the new ones. False if it has to be tried again.
    fn switch(&self, work: &mut Repartition) -> Result<bool> {
        let _io = IoScope::enter(IoClass::Log);
        let mut state = self.state()?;
        let mut entries = state.catalog.collections.iter();
        let entry = entries.find(|entry| entry.id == work.old.id).cloned();
        let Some(entry) = entry else {
            return Err(Error::Closed);
        };
        if !work.parts.take_index(&entry)? {
            return Ok(false);
        }
        work.old = entry;
        work.new = Entry {
            id: work.new.id,
            origin: work.new.origin,
            partitions_before: std::mem::take(&mut work.new.partitions_before),
            settings: CollectionSettings {
                partitions: work.new.settings.partitions,
                ..work.old.settings.clone()
            },
            ..work.old.clone()
        };
        // Settings that changed meanwhile may be wrong for more partitions.
        work.new.settings.check()?;
        let gate = work.parts.gate();
        let Some(held) = gate.hold_writers(PATIENCE) else {
            return Ok(false);
        };
        work.parts.stop_jobs();
        if let Err(error) = self.replace_partitions(&mut state, work) {
            work.parts.restart_jobs();
            return Err(error);
        }
        held.replaced();
        Ok(true)
    }

    /// Takes over the last records, and names the new partitions in the catalog. Nobody writes.
    fn replace_partitions(&self, state: &mut State, work: &mut Repartition) -> Result<()> {
        work.parts.sync_old()?;
        while !seeded(Bug::SplitNotLevel) && work.follow()? > 0 {}
        work.parts.finish(&work.new.settings)?;
        if let Some(before) = work.new.partitions_before.last_mut() {
            *before = work.parts.before();
        }
        forget_old_marks(&mut work.new.partitions_before);
        let mut catalog = state.catalog.clone();
        for entry in &mut catalog.collections {
            if entry.id == work.old.id {
                *entry = work.new.clone();
            }
        }
        if let Err(error) = self.replace_catalog(state, catalog) {
            if self.catalog_is_in_doubt(state) {
                // Nothing is acknowledged in the old partitions before it is settled.
                state.in_doubt.insert(work.old.id);
                work.parts.close_collection(self, &work.old);
            }
            return Err(error);
        }
        work.parts.replace(self, &work.old, &work.new);
        Ok(())
    }
}
