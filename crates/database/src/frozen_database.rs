//! Frozen collections of a database.

use crate::database::Database;
use crate::frozen::FrozenCollection;
use crate::{AliasChange, Error, Result, check_name};
use std::path::Path;

impl Database {
    /// Serves a frozen file, or a folder of them, under a name, beside the collections: it is
    /// queried and its documents are read, and nothing is written. It is there until this database
    /// is closed: the catalog does not name it.
    ///
    /// ```
    /// use quiredb::operations::{FreezeOptions, freeze};
    /// use quiredb::query::{Options, field, find};
    /// use quiredb::{CollectionSettings, Database, Document, Key, View};
    /// # let dir = tempfile::tempdir()?;
    /// # let database = Database::open(&dir.path().join("db"))?;
    /// let cars = database.create_collection("cars", CollectionSettings::default())?;
    /// cars.put_at(&Key::parse("a")?, &Document::from_json(br#"{"mark":"audi"}"#)?)?;
    /// let path = dir.path().join("cars-2025.quire");
    /// freeze(&cars.view()?, &path, &FreezeOptions::default(), &mut |_| {})?;
    ///
    /// let old = database.attach_frozen("cars-2025", &path)?;
    /// cars.put_at(&Key::parse("b")?, &Document::from_json(br#"{"mark":"audi"}"#)?)?;
    /// let audi = find(field("mark").eq("audi")).prepare()?;
    /// let views = [cars.view()?, old.view()];
    /// let answer = View::query_all(&views, &audi, &Options::default())?;
    /// assert_eq!(View::documents_of(&views, &answer.hits)?.len(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `NotFound`; `AlreadyExists` for a name that is used; `Invalid` for a bad name, one that an
    /// alias has, for what is no frozen file or a folder without any, and if its documents are not
    /// found by their keys; `Corrupt` for a damaged one.
    pub fn attach_frozen(&self, name: &str, path: &Path) -> Result<FrozenCollection> {
        check_name(name)?;
        let collection = FrozenCollection::open(self.env(), name, path)?;
        self.attach(collection.clone())?;
        Ok(collection)
    }

    /// What is attached under this name. Does not wait.
    pub fn frozen_collection(&self, name: &str) -> Option<FrozenCollection> {
        self.with_frozen(|all| all.get(name).cloned())
    }

    /// All that is attached, sorted by name. Does not wait.
    pub fn frozen_collections(&self) -> Vec<FrozenCollection> {
        self.with_frozen(|all| all.values().cloned().collect())
    }

    /// Refuses aliases of frozen collections, and those that would have the name of one.
    pub(crate) fn refuse_frozen_in(&self, changes: &[AliasChange]) -> Result<()> {
        let names = changes.iter().flat_map(|change| match change {
            AliasChange::Add {
                collection, alias, ..
            }
            | AliasChange::Remove { collection, alias } => [collection, alias],
            AliasChange::Drop { collection } => [collection, collection],
        });
        self.refuse_frozen(names.map(String::as_str))
    }

    /// Refuses names that are those of frozen collections.
    pub(crate) fn refuse_frozen<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Result<()> {
        self.with_frozen(|all| {
            let mut names = names.into_iter();
            match names.find(|name| all.contains_key(*name)) {
                Some(name) => Err(Error::IsFrozen {
                    name: name.to_owned(),
                }),
                None => Ok(()),
            }
        })
    }
}
