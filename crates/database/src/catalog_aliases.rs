//! How the aliases in a catalog are read and changed, and what servers keep there.

use crate::alias::{AliasChange, Aliases};
use crate::catalog::Catalog;
use crate::{ApiSettings, Error, Result};
use std::collections::{BTreeMap, BTreeSet};

impl Catalog {
    /// All aliases.
    pub fn aliases(&self) -> Aliases {
        let mut all = Aliases::new();
        for entry in &self.collections {
            for (name, alias) in &entry.aliases {
                let of_alias = all.entry(name.clone()).or_default();
                of_alias.insert(entry.name.clone(), alias.clone());
            }
        }
        all
    }

    /// What servers keep of collections, by the collection's name; those of which they keep nothing
    /// are left out.
    pub(crate) fn api_settings(&self) -> BTreeMap<String, ApiSettings> {
        let mut kept = BTreeMap::new();
        for entry in &self.collections {
            if entry.settings.api != ApiSettings::default() {
                kept.insert(entry.name.clone(), entry.settings.api.clone());
            }
        }
        kept
    }

    /// Makes changes, in their order. Returns the ids of the collections that they drop. After an
    /// error the catalog is to be discarded.
    pub(crate) fn change_aliases(&mut self, changes: &[AliasChange]) -> Result<BTreeSet<u32>> {
        let mut dropped = BTreeSet::new();
        for change in changes {
            let (AliasChange::Add { collection, .. }
            | AliasChange::Remove { collection, .. }
            | AliasChange::Drop { collection }) = change;
            let existing = self.existing();
            let mut entries = self.collections.iter_mut();
            let Some(entry) = entries.find(|entry| entry.name == *collection) else {
                let name = collection.clone();
                return Err(Error::NoCollection { name, existing });
            };
            match change {
                AliasChange::Add { alias, options, .. } => {
                    entry.aliases.insert(alias.clone(), options.clone());
                }
                AliasChange::Remove { alias, .. } => {
                    if entry.aliases.remove(alias).is_none() {
                        let (alias, collection) = (alias.clone(), collection.clone());
                        return Err(Error::NoAlias { alias, collection });
                    }
                }
                AliasChange::Drop { .. } => {
                    let id = entry.id;
                    dropped.insert(id);
                    self.collections.retain(|entry| entry.id != id);
                }
            }
        }
        self.check_aliases().map_err(Error::Invalid)?;
        Ok(dropped)
    }
}
