//! A follower takes the collections of its leader.

use super::{Database, State};
use crate::Result;
use crate::catalog::{Catalog, Entry};
use crate::settings::CollectionSettings;
use quire_wide::Schema;
use std::collections::{BTreeMap, BTreeSet};

impl Database {
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
    pub(super) fn make_way(&self, state: &mut State, leader: &Catalog) -> Result<()> {
        let mut catalog = state.catalog.clone();
        for entry in &mut catalog.collections {
            entry.aliases.retain(|name, _| leader.find(name).is_none());
        }
        match catalog.same_collections(&state.catalog) {
            true => Ok(()),
            false => self.replace_catalog(state, catalog),
        }
    }

    /// Makes the collection of this entry, plain or wide, whose id was never used.
    pub(super) fn make_any(&self, state: &mut State, entry: Entry) -> Result<()> {
        match entry.settings.wide {
            Some(_) => self.make_wide_locked(state, &entry).map(drop),
            None => self.make_locked(state, entry, &[]).map(drop),
        }
    }

    /// Gives a collection, plain or wide, the settings of its leader, the schema too.
    pub(super) fn change_any(
        &self,
        state: &mut State,
        entry: &Entry,
        settings: CollectionSettings,
    ) -> Result<()> {
        match (&entry.settings.wide, settings.wide.clone()) {
            // Records may have come before the schema that they were written by.
            (Some(_), Some(schema)) => self
                .replace_schema(state, entry, (settings, schema), Schema::has_columns_of)
                .map(drop),
            _ => self.change_locked(state, entry, settings).map(drop),
        }
    }
}
