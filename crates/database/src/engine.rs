//! What operations need of an open database beyond its public face: partitions, the catalog, the
//! files of one moment. `quiredb` does not re-export this module.

use crate::batch::Batch;
use crate::builder::DatabaseBuilder;
use crate::catalog::{Catalog, Entry};
use crate::collection::Collection;
use crate::database::Database;
use crate::frozen_view::Origin;
pub use crate::part_rows::PartRows;
use crate::settings::CollectionSettings;
use crate::view::View;
use crate::wide::WideCollection;
use crate::{Error, Result};
use quire_collection::{Partition, PartitionView, Written};
use quire_env::{Env, Gate, Volumes};
use quire_store::{AnyStore, Capture, Durability, Place};
use quire_wide::{RowWrite, WidePartition};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The directory of the database's first volume.
pub fn root(database: &Database) -> &Path {
    database.root()
}

/// The volumes of the database, and which of them are there.
pub fn volumes(database: &Database) -> Volumes {
    database.volumes()
}

/// The volumes of the database of which `given` names the first or all, as far as a catalog says.
pub fn volumes_of(env: &dyn Env, given: Volumes) -> Volumes {
    let catalog = Catalog::read(env, given.root());
    let all = catalog.and_then(|catalog| catalog.all_volumes(&given));
    all.unwrap_or(given)
}

/// Opens the new database that a repair makes, which nobody else may open yet.
///
/// # Errors
/// As of [`DatabaseBuilder::open`].
pub fn open_for_repair(builder: DatabaseBuilder) -> Result<Database> {
    builder.open_as(true)
}

/// The id that the database and every copy of it has.
///
/// # Errors
/// `Closed`.
pub fn id(database: &Database) -> Result<String> {
    Ok(catalog(database)?.database)
}

/// The catalog as it is now.
///
/// # Errors
/// `Closed`.
pub fn catalog(database: &Database) -> Result<Catalog> {
    database.catalog()
}

/// Whether the database has just the collections of `catalog`; `None` if that is about to change.
/// Does not wait.
pub fn catalog_is_still(database: &Database, catalog: &Catalog) -> Option<bool> {
    database.catalog_is_still(catalog)
}

/// Notified when something new is visible in a collection, and when a collection is created or
/// dropped.
pub fn changed(database: &Database) -> &Arc<dyn Gate> {
    database.changed()
}

/// Fails if the database is closed, or about to be.
///
/// # Errors
/// `Closed`.
pub fn check_open(database: &Database) -> Result<()> {
    database.check_open()
}

/// Creates, drops and changes collections until they are those of `leader`, under the same ids,
/// with the same settings. A collection that both have keeps its documents.
///
/// # Errors
/// `Closed`, and those of creating, dropping and changing a collection.
pub fn take_collections_of(database: &Database, leader: &Catalog) -> Result<()> {
    database.take_collections_of(leader)
}

/// Begins a batch of documents that a collection had before, and that a repair writes again as they
/// are: one that names another key than its own is not refused.
pub fn copies(collection: &Collection) -> Batch<'_> {
    crate::batch::copies(collection)
}

/// The partitions of a collection, in the order of their numbers.
pub fn partitions(collection: &Collection) -> Arc<[Partition]> {
    collection.partitions()
}

/// Makes a wide collection that a damaged database had, with these settings, which have its schema.
/// A tier may have no volume.
///
/// # Errors
/// As of [`Database::create_wide_collection`].
pub fn create_wide_copy(
    database: &Database,
    name: &str,
    settings: CollectionSettings,
) -> Result<WideCollection> {
    database.create_wide_copy(name, settings, BTreeMap::new())
}

/// As [`WideCollection::write`], as durable as `durability` says.
///
/// # Errors
/// As there.
pub fn write_wide(
    collection: &WideCollection,
    write: &RowWrite,
    durability: Durability,
) -> Result<Written> {
    collection.write_as(write, durability)
}

/// The partitions of a wide collection, in the order of their numbers.
pub fn wide_partitions(collection: &WideCollection) -> Arc<[WidePartition]> {
    collection.partitions()
}

/// The stores of the partitions of a collection, plain or wide, in the order of their numbers.
///
/// # Errors
/// As of [`Database::collection`].
pub fn stores(database: &Database, entry: &Entry) -> Result<Vec<Arc<dyn AnyStore>>> {
    Ok(match entry.settings.wide {
        Some(_) => {
            let collection = database.wide_collection(&entry.name)?;
            let partitions = collection.partitions();
            partitions.iter().map(WidePartition::any_store).collect()
        }
        None => {
            let collection = database.collection(&entry.name)?;
            let partitions = collection.partitions();
            partitions.iter().map(Partition::any_store).collect()
        }
    })
}

/// Makes an empty partition of a collection like this at a place outside of the database.
///
/// # Errors
/// `Full` or `Io`.
pub fn create_partition(database: &Database, entry: &Entry, place: &Place) -> Result<()> {
    database.create_partition(entry, place)
}

/// The documents of a partition of a view, plain or wide, in docid order.
///
/// # Errors
/// `Invalid` of a frozen collection; `Corrupt` for damage.
///
/// # Panics
/// If there is no such partition.
pub fn view_rows(view: &View, partition: u32) -> Result<PartRows> {
    match view.is_frozen() {
        true => Err(Error::IsFrozen {
            name: view.collection_name().into(),
        }),
        false => view.parts()[partition as usize].rows_of(None),
    }
}

/// The partitions of a view, in the order of their numbers.
///
/// # Errors
/// `Invalid` of a wide collection.
pub fn view_partitions(view: &View) -> Result<&[PartitionView]> {
    view.partitions()
}

/// The machine that a view's collection runs on.
pub fn view_env(view: &View) -> &Arc<dyn Env> {
    view.env()
}

/// Appends the bytes of an origin, which are beside a frozen document.
pub fn encode_origin(origin: &Origin, out: &mut Vec<u8>) {
    origin.encode(out);
}

/// Whether an index was damaged since its collection was opened, so that it is built anew.
pub fn rebuilds_indexes(database: &Database) -> bool {
    let names = database.collections();
    let opened = names
        .iter()
        .filter_map(|name| database.collection(name).ok());
    let mut partitions = opened.flat_map(|one| one.partitions().to_vec());
    partitions.any(|partition| {
        let trees = partition.stats().trees;
        trees.iter().any(|tree| tree.rebuilt.is_some())
    })
}

/// The catalog, and the files of all its partitions as they are at one moment. All writers wait for
/// an instant.
///
/// # Errors
/// `Corrupt` if a collection can't be opened; `Closed`; `Io` if a log can't be synced.
pub fn capture(database: &Database) -> Result<(Catalog, Vec<Capture>)> {
    loop {
        let catalog = database.catalog()?;
        let mut all = Vec::new();
        let opened = catalog.collections.iter().try_for_each(|entry| {
            all.extend(stores(database, entry)?);
            Ok::<_, Error>(())
        });
        let captured = opened.and_then(|()| {
            Ok(quire_store::capture(&all, || {
                database.catalog_is_still(&catalog)
            })?)
        });
        match captured {
            Ok((captures, Some(true))) => {
                assert_eq!(
                    captures.len(),
                    catalog.partitions().count(),
                    "a capture has each partition of its catalog"
                );
                return Ok((catalog, captures));
            }
            // A collection was created or dropped meanwhile, or is just being: once that is done,
            // again.
            Ok((_, Some(false) | None)) => {}
            Err(error) if database.catalog()?.same_collections(&catalog) => return Err(error),
            Err(_) => {}
        }
    }
}
