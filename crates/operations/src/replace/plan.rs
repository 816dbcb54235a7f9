//! What is to be done for each partition with tables on a lost volume.

use crate::backup::{PartitionFiles, Snapshot, StoredFile};
use quire_database::catalog::{Catalog, Entry};
use quire_database::directory::partition_place;
use quire_database::{Database, Error, Result, engine};
use quire_env::Volumes;
use quire_model::Position;
use quire_store::{AnyStore, FileName, NamedTable, Shipped, named_tables};
use std::sync::Arc;

/// What is done for a partition.
pub(super) struct Plan<'s> {
    pub(super) entry: Entry,
    pub(super) number: u32,
    pub(super) source: &'s PartitionFiles,
    pub(super) tables: Vec<NamedTable>,
    /// The files of `source` that are the lost tables; none if one is not among them.
    pub(super) exact: Option<Vec<&'s StoredFile>>,
    /// How many records the log here has after the snapshot.
    pub(super) records: u64,
}

/// Finds the partitions with tables on a lost volume, and where what they held comes from.
///
/// # Errors
/// `Invalid` for a partition that the snapshot and the log can't make whole; those of opening a
/// collection.
pub(super) fn plan<'s>(
    database: &Database,
    catalog: &Catalog,
    volumes: &Volumes,
    snapshot: &'s Snapshot,
) -> Result<Vec<Plan<'s>>> {
    let mut plans = Vec::new();
    for entry in &catalog.collections {
        let mut stores: Option<Vec<Arc<dyn AnyStore>>> = None;
        for number in 0..entry.settings.partitions {
            let place = partition_place(volumes, catalog, entry, number);
            let mut tables = Vec::new();
            for table in named_tables(&**database.env(), &place)? {
                if !volumes.get(table.file.volume)?.is_there {
                    tables.push(table);
                }
            }
            if tables.is_empty() {
                continue;
            }
            let mut sources = snapshot.partitions.iter();
            let source =
                sources.find(|files| (files.collection, files.partition) == (entry.id, number));
            let source = source.ok_or_else(|| {
                Error::Invalid(format!(
                    "collection {:?} is newer than snapshot {}: take a newer one of a follower, or \
                     drop the collection",
                    entry.name, snapshot.number
                ))
            })?;
            let exact = tables.iter().map(|table| source.table(table)).collect();
            let records = match &exact {
                Some(_) => 0,
                None => {
                    if stores.is_none() {
                        stores = Some(engine::stores(database, entry)?);
                    }
                    let store = stores.as_ref().and_then(|all| all.get(number as usize));
                    let store = store.ok_or(Error::Closed)?;
                    records_after(&**store, source, entry, snapshot)?
                }
            };
            plans.push(Plan {
                entry: entry.clone(),
                number,
                source,
                tables,
                exact,
                records,
            });
        }
    }
    Ok(plans)
}

impl Plan<'_> {
    /// Whether it is of this partition of the collection of this id.
    pub(super) fn is_of(&self, collection: u32, partition: u32) -> bool {
        (self.entry.id, self.number) == (collection, partition)
    }
}

impl PartitionFiles {
    /// The file that is this table.
    fn table(&self, wanted: &NamedTable) -> Option<&StoredFile> {
        self.files.iter().find(|file| {
            let is_named = match file.name() {
                FileName::Table(id) => id.number == wanted.file.number,
                FileName::Manifest(_) | FileName::Segment(_) => false,
            };
            let has_bytes = match file.pieces.as_slice() {
                [piece] => piece.start == 0 && piece.digest == wanted.digest,
                _ => false,
            };
            is_named && has_bytes && file.bytes() == wanted.bytes
        })
    }
}

/// How many records the log of a store has after those of a snapshot.
///
/// # Errors
/// `Invalid` if it does not have all of them, or if the snapshot is not of its past.
fn records_after(
    store: &dyn AnyStore,
    source: &PartitionFiles,
    entry: &Entry,
    snapshot: &Snapshot,
) -> Result<u64> {
    let (seen, last) = (Position(source.position), store.extent().last);
    let refused = |why: &str| {
        Error::Invalid(format!(
            "partition {} of collection {:?} is at position {last}, and snapshot {} has it at \
             {seen}: {why}",
            source.partition, entry.name, snapshot.number
        ))
    };
    if seen > last {
        return Err(refused(
            "the snapshot has records that are missing here; restore it as a database of its own",
        ));
    }
    if seen < last && store.ship(seen, 1)? == Shipped::Gap {
        return Err(refused(
            "the log here no longer has all records after the snapshot; take a backup of a \
             follower that has them, or restore this one and lose them",
        ));
    }
    Ok(last.0 - seen.0)
}
