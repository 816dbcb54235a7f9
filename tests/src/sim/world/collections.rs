//! Collections that are made, opened and dropped.

use super::World;
use super::trouble::Trouble;
use crate::sim::compare::{merged_records, positions_of};
use crate::sim::history::{Name, indexed_fields};
use crate::sim::model::{Collection, Merged, Partition};
use quiredb::{CollectionSettings, ErrorKind, Key};
use std::cell::Cell;
use std::sync::Arc;

/// Collections are split into at most this many partitions: each has some of the keys.
pub(super) const PARTITIONS_MAX: u32 = 6;

/// A split that tells of its progress so often is stopped.
pub(super) const SPLIT_TURNS_MAX: u32 = 200;

impl World {
    /// The open collection, if the machine and the catalog have it.
    pub(super) fn collection(&mut self, name: Name) -> Option<quiredb::Collection> {
        let database = self.open()?;
        let known = self.collections.get(&name);
        let is_opened = known.is_some_and(|known| known.was_closed);
        if is_opened {
            self.well_for_opening();
        }
        match database.collection(name.as_str()) {
            Ok(collection) => {
                if is_opened {
                    self.settle(name, &collection, "after a removal or split that failed")?;
                }
                Some(collection)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.may_be_absent(name);
                None
            }
            Err(error) => {
                self.accept(&error, "open a collection");
                None
            }
        }
    }

    pub(super) fn create(&mut self, name: Name, partitions: u32) {
        let Some(database) = self.open() else { return };
        let there = self
            .collections
            .get(&name)
            .is_some_and(|known| known.certain);
        let settings = CollectionSettings {
            partitions,
            ..self.settings.clone()
        };
        match database.create_collection(name.as_str(), settings) {
            Ok(_) => {
                assert!(!there, "collection {name} was made twice");
                self.collections.insert(name, Collection::new(partitions));
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => self.was_made(name),
            Err(error) => {
                self.accept(&error, "create a collection");
                if !there {
                    let doubtful = Collection {
                        certain: false,
                        ..Collection::new(partitions)
                    };
                    self.collections.insert(name, doubtful);
                }
            }
        }
    }

    /// Indexes all fields of a collection, or none.
    pub(super) fn index(&mut self, name: Name, all: bool) {
        if self.trouble != Trouble::None {
            return;
        }
        let Some((database, collection)) = self.open().zip(self.collection(name)) else {
            return;
        };
        let settings = CollectionSettings {
            index: indexed_fields(all),
            ..CollectionSettings::clone(&collection.settings())
        };
        self.accepted(
            database.change_settings(name.as_str(), settings),
            "alter a collection",
        );
    }

    /// Splits each partition of a collection in two.
    pub(super) fn split(&mut self, name: Name) {
        let Some(collection) = self.collection(name) else {
            return;
        };
        let count = 2 * collection.settings().partitions;
        if count <= PARTITIONS_MAX {
            self.repartition(name, &collection, count);
        }
    }

    /// Merges each two partitions of a collection.
    pub(super) fn merge(&mut self, name: Name) {
        let Some(collection) = self.collection(name) else {
            return;
        };
        let now = collection.settings().partitions;
        if now.is_multiple_of(2) {
            self.repartition(name, &collection, now / 2);
        }
    }

    /// Has a collection have this number of partitions. A split or a merge that fails leaves all as
    /// it was, or has closed the collection: then its next opening tells.
    fn repartition(&mut self, name: Name, collection: &quiredb::Collection, count: u32) {
        let Some(database) = self.open() else { return };
        if self.observe(name, collection).is_none() {
            return;
        }
        let known = &self.collections[&name];
        if known.partitions.iter().any(Partition::is_in_doubt) {
            return;
        }
        // An index that can't be built, as the disk is full, is waited for.
        let (turns, env) = (Cell::new(0), Arc::clone(&self.env));
        let watch = |_| {
            turns.set(turns.get() + 1);
            turns.get() < SPLIT_TURNS_MAX && !env.crashed()
        };
        let is_merge = count < collection.settings().partitions;
        let done = match is_merge {
            true => database.merge_collection(name.as_str(), count, &watch),
            false => database.split_collection(name.as_str(), count, &watch),
        };
        let is_closed = collection.view().is_err();
        if turns.get() >= SPLIT_TURNS_MAX && !is_closed && !self.env.crashed() {
            assert!(done.is_err(), "one that is stopped fails");
            return;
        }
        if self.accepted(done, "split or merge a collection").is_some() {
            let merged = is_merge.then(|| self.merged(collection));
            let known = self.collections.get_mut(&name).unwrap();
            known.certain = true;
            let owner = |key: &Key| collection.partition_of(key);
            match merged {
                None => known.split(count, owner),
                Some(Some(records)) => known.merge(records, owner, "after a merge"),
                // They are compared at the next opening.
                Some(None) => (known.may_have, known.was_closed) = (Some(count), true),
            }
        } else if is_closed || self.env.crashed() {
            let known = self.collections.get_mut(&name).unwrap();
            (known.may_have, known.was_closed) = (Some(count), true);
            self.views.retain(|held| held.name != name);
        }
    }

    /// The records of partitions that others were merged into, if they can be read.
    fn merged(&self, collection: &quiredb::Collection) -> Option<Vec<Merged>> {
        let positions = positions_of(&self.accepted(collection.view(), "take a view")?);
        let records = merged_records(collection, &positions);
        self.accepted(records, "read the log")
    }

    pub(super) fn drop_collection(&mut self, name: Name) {
        let Some(database) = self.open() else { return };
        let handle = self.collection(name);
        match database.drop_collection(name.as_str()) {
            Ok(()) => {
                self.was_made(name);
                self.collections.remove(&name);
                let gone = database.collection(name.as_str()).unwrap_err();
                assert_eq!(gone.kind(), ErrorKind::NotFound, "{gone}");
            }
            Err(error) if error.kind() == ErrorKind::NotFound => self.may_be_absent(name),
            Err(error) => {
                self.accept(&error, "drop a collection");
                let closed = handle.is_some_and(|handle| handle.view().is_err());
                if let Some(known) = self.collections.get_mut(&name) {
                    known.certain = false;
                    known.was_closed |= closed;
                }
                if closed {
                    self.views.retain(|held| held.name != name);
                }
            }
        }
    }

    fn was_made(&self, name: Name) {
        assert!(
            self.collections.contains_key(&name),
            "collection {name} was never made"
        );
    }

    fn may_be_absent(&self, name: Name) {
        let known = self.collections.get(&name);
        assert!(
            known.is_none_or(|known| !known.certain),
            "collection {name} is gone"
        );
    }
}
