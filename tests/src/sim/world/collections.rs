//! Collections that are made, opened and dropped.

use super::World;
use super::trouble::Trouble;
use crate::sim::history::{Name, indexed_fields};
use crate::sim::model::{Collection, Partition};
use quiredb::{CollectionSettings, ErrorKind};
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

    /// Splits each partition of a collection in two. A split that fails leaves all as it was, or
    /// has closed the collection: then its next opening tells.
    pub(super) fn split(&mut self, name: Name) {
        let Some((database, collection)) = self.open().zip(self.collection(name)) else {
            return;
        };
        let count = 2 * collection.settings().partitions;
        if count > PARTITIONS_MAX || self.observe(name, &collection).is_none() {
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
        let split = database.split_collection(name.as_str(), count, &watch);
        let is_closed = collection.view().is_err();
        if turns.get() >= SPLIT_TURNS_MAX && !is_closed && !self.env.crashed() {
            assert!(split.is_err(), "a split that is stopped fails");
            return;
        }
        if self.accepted(split, "split a collection").is_some() {
            let known = self.collections.get_mut(&name).unwrap();
            known.split(count, |key| collection.partition_of(key));
            known.certain = true;
        } else if is_closed || self.env.crashed() {
            let known = self.collections.get_mut(&name).unwrap();
            (known.may_have, known.was_closed) = (Some(count), true);
            self.views.retain(|held| held.name != name);
        }
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
