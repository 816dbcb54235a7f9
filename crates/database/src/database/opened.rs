//! [`Opened`]: the collections of a database by their names, and those of them that are open.
//!
//! Kept beside the catalog, and not within the lock of those who change it: a request finds its
//! collection while another one is made, dropped or opened, which waits for the disk.

use crate::catalog::Catalog;
use crate::collection::Collection;
use crate::wide::WideCollection;
use std::collections::BTreeMap;

/// Plain collections by their ids.
pub(crate) type Plain = BTreeMap<u32, Collection>;
/// Wide collections by their ids.
pub(crate) type Wide = BTreeMap<u32, WideCollection>;

/// See the module.
#[derive(Default)]
pub(crate) struct Opened {
    names: BTreeMap<String, Named>,
    /// Those that were used: a collection is opened when it is first used, so that damage to
    /// one leaves the others.
    pub(crate) plain: Plain,
    /// As `plain`, of wide ones.
    pub(crate) wide: Wide,
}

/// What the catalog has by a name.
#[derive(Clone, Copy)]
struct Named {
    id: u32,
    is_wide: bool,
}

impl Opened {
    /// The collections of a catalog, none of which is open.
    pub(crate) fn of(catalog: &Catalog) -> Opened {
        let mut opened = Opened::default();
        opened.set_names(catalog);
        opened
    }

    /// Has names stand for the collections of a catalog, which counts from now on.
    pub(crate) fn set_names(&mut self, catalog: &Catalog) {
        let named = catalog.collections.iter().map(|entry| {
            let named = Named {
                id: entry.id,
                is_wide: entry.settings.wide.is_some(),
            };
            (entry.name.clone(), named)
        });
        self.names = named.collect();
    }

    /// Those that are open; none is afterwards.
    pub(crate) fn take(&mut self) -> (Plain, Wide) {
        let plain = std::mem::take(&mut self.plain);
        (plain, std::mem::take(&mut self.wide))
    }

    /// The plain collection of this name, if it is open.
    pub(crate) fn plain_named(&self, name: &str) -> Option<&Collection> {
        self.plain.get(&self.names.get(name)?.id)
    }

    /// The wide collection of this name, if it is open.
    pub(crate) fn wide_named(&self, name: &str) -> Option<&WideCollection> {
        self.wide.get(&self.names.get(name)?.id)
    }

    /// Whether a collection of this name is wide; none if there is none.
    pub(crate) fn is_wide(&self, name: &str) -> Option<bool> {
        self.names.get(name).map(|named| named.is_wide)
    }

    /// The names of the wide collections, or of the others, sorted.
    pub(crate) fn names(&self, is_wide: bool) -> Vec<String> {
        let named = self.names.iter();
        let named = named.filter(|(_, named)| named.is_wide == is_wide);
        named.map(|(name, _)| name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::{CollectionSettings, Database, ErrorKind};
    use quire_env::SimEnv;
    use quire_wide::Schema;

    #[test]
    fn open_collections_are_found_while_the_catalog_is_being_changed() {
        let database = Database::builder("/db").env(SimEnv::new(1)).open().unwrap();
        let settings = CollectionSettings::default;
        database.create_collection("plain", settings()).unwrap();
        let schema = Schema::from_json(br#"{"properties":{"a":{"type":"string"}}}"#).unwrap();
        database
            .create_wide_collection("wide", schema, settings())
            .unwrap();

        // A thread that changes the catalog has this lock. A wait for it here would not end.
        let changing = database.inner.state.lock();
        for _ in 0..2 {
            database.collection("plain").unwrap();
            database.collection_for_writes("plain").unwrap();
            database.collection_or_create("plain", settings).unwrap();
            database.wide_collection("wide").unwrap();
        }
        assert_eq!(database.collections(), ["plain"]);
        assert_eq!(database.wide_collections(), ["wide"]);
        let is_wide = |name| (database.has_collection(name), database.is_wide(name));
        let found = ["plain", "wide", "other"].map(is_wide);
        assert_eq!(found, [(true, false), (true, true), (false, false)]);
        drop(changing);

        let kind = |name| database.collection(name).unwrap_err().kind();
        assert_eq!(kind("wide"), ErrorKind::Invalid);
        database.drop_collection("plain").unwrap();
        assert_eq!(kind("plain"), ErrorKind::NotFound);
        assert!(!database.has_collection("plain"));
        database.create_collection("plain", settings()).unwrap();
        database.close().unwrap();
        assert_eq!(kind("plain"), ErrorKind::Closed);
    }
}
