//! What is read of the catalog, and how it is replaced: a change is written first, and counts then.

use super::{Database, State};
use crate::alias::{AliasChange, Aliases, Resolved};
use crate::api_settings::ApiSettings;
use crate::catalog::{Catalog, Entry, StoredCoprocessor, Templates};
use crate::directory::remove_collection;
use crate::error::first_error;
use crate::stored_code::triggers_of;
use crate::{Error, Result};
use quire_coprocessor::Trigger;
use quire_seeded::{Bug, seeded};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Database {
    /// The catalog as it is now.
    pub(crate) fn catalog(&self) -> Result<Catalog> {
        Ok(self.state()?.catalog.clone())
    }

    /// What the catalog says of a collection.
    pub(crate) fn catalog_entry(&self, name: &str) -> Result<Entry> {
        self.entry(&*self.state()?, name)
    }

    /// Whether the database has just the collections, coprocessors and templates of `catalog`;
    /// `None` if that is about to change. Does not wait.
    pub(crate) fn catalog_is_still(&self, catalog: &Catalog) -> Option<bool> {
        let state = self.inner.state.try_lock()?;
        Some(!state.closed && state.catalog.is_followed_by(catalog))
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

    /// Writes the next catalog, then removes what is left of the collections that it lacks.
    pub(super) fn replace_and_drop(
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
            let plain = self.inner.opened.write().plain.remove(id);
            let wide = self.inner.opened.write().wide.remove(id);
            if let Some(collection) = plain {
                let _ = collection.close();
            }
            if let Some(collection) = wide {
                let _ = collection.close();
            }
        }
        replaced.and_then(|()| remove())
    }

    /// Writes the next catalog, which is then the one that counts.
    pub(super) fn replace_catalog(&self, state: &mut State, mut next: Catalog) -> Result<()> {
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
        let mut opened = self.inner.opened.write();
        for (id, triggers) in triggers {
            if let Some(collection) = opened.plain.get(&id) {
                collection.set_triggers(triggers.clone());
            }
            if let Some(collection) = opened.wide.get(&id) {
                collection.set_triggers(triggers);
            }
        }
        opened.set_names(&state.catalog);
        drop(opened);
        *self.inner.aliases.write() = Arc::new(state.catalog.aliases());
        *self.inner.api_settings.write() = Arc::new(state.catalog.api_settings());
        state.in_doubt.clear();
        self.inner.changed.notify();
        Ok(())
    }

    /// Whether a crash now could leave another catalog than the one that counts, after an attempt
    /// to replace it failed.
    pub(super) fn catalog_is_in_doubt(&self, state: &mut State) -> bool {
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
