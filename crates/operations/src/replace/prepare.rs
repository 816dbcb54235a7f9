//! Preparing what replaces lost volumes, beside a database that stays as it is.

use super::plan::Plan;
use crate::backup::{BackupDir, Snapshot};
use crate::file_source::{FileSource, spread};
use crate::follow::{Cursor, Verdict};
use crate::restore::{SnapshotFiles, restore_files};
use quire_database::catalog::{Catalog, partition_dir};
use quire_database::directory::{REPLACEMENT_NAME, partition_place};
use quire_database::{Database, DatabaseBuilder, Error, Result, engine};
use quire_env::{Env, VolumeId, Volumes};
use quire_store::{AnyStore, Durability, FileName, Shipped};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Records are taken from the log in pieces of about this size.
const PIECE_BYTES: usize = 4 << 20;

/// Opens the database or what is prepared of one. No background work writes to it.
pub(super) fn open(env: &Arc<dyn Env>, volumes: &Volumes) -> Result<Database> {
    let builder = DatabaseBuilder::on(volumes).env(Arc::clone(env));
    let builder = builder.create(false).retention(false);
    builder.scrub_every(None).open()
}

/// What is prepared, and where.
pub(super) struct Preparation<'a> {
    pub(super) env: &'a Arc<dyn Env>,
    /// The volumes as they will be.
    pub(super) after: &'a Volumes,
    pub(super) lost: &'a [VolumeId],
    pub(super) catalog: &'a Catalog,
}

impl Preparation<'_> {
    /// Prepares all, durably. The database is open: the logs of its partitions are read.
    pub(super) fn run(
        &self,
        database: &Database,
        backup: &BackupDir,
        snapshot: &Snapshot,
        plans: &[Plan<'_>],
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<()> {
        self.discard()?;
        let bytes = plans.iter().map(|plan| match &plan.exact {
            Some(files) => files.iter().map(|file| file.bytes()).sum::<u64>(),
            None => plan.source.files.iter().map(|file| file.bytes()).sum(),
        });
        let mut source = SnapshotFiles::new(self.env, backup, bytes.sum(), progress);
        let volumes = self.volumes()?;
        let restored = plans.iter().filter(|plan| plan.exact.is_none());
        let restored: Vec<&Plan<'_>> = restored.collect();
        if !restored.is_empty() {
            self.restore(database, snapshot, &restored, &volumes, &mut source)?;
        }
        self.make_dirs(&volumes)?;
        for plan in plans {
            let place = partition_place(&volumes, self.catalog, &plan.entry, plan.number);
            let mut dirs = BTreeSet::new();
            for (table, file) in plan.tables.iter().zip(plan.exact.iter().flatten()) {
                let path = FileName::Table(table.file).path(&place, self.env)?;
                source.place(plan.source, file, &path)?;
                dirs.extend(path.parent().map(ToOwned::to_owned));
            }
            for dir in dirs {
                self.env.sync_dir(&dir)?;
            }
        }
        Ok(())
    }

    /// Removes what an earlier preparation left.
    pub(super) fn discard(&self) -> Result<()> {
        for volume in self.after.iter() {
            self.env
                .remove_dir_all(&volume.path.join(REPLACEMENT_NAME))?;
        }
        Ok(())
    }

    /// Where it is prepared: below each volume, so that all gets its place by a renaming.
    fn volumes(&self) -> Result<Volumes> {
        let named = self.after.iter().map(|volume| {
            let path = volume.path.join(REPLACEMENT_NAME);
            (volume.name.clone(), path, volume.medium)
        });
        Ok(Volumes::named(named)?)
    }

    /// The directories of all partitions on the lost volumes.
    fn make_dirs(&self, volumes: &Volumes) -> Result<()> {
        for id in self.lost {
            let root = &volumes.get(*id)?.path;
            self.env.create_dir_all(root)?;
            for (collection, partition) in self.catalog.partitions() {
                let dir = root.join(partition_dir(collection, partition));
                self.env.create_dir_all(&dir.join("tables"))?;
            }
        }
        Ok(())
    }

    /// Makes a database of the partitions that are restored, as they are here.
    fn restore(
        &self,
        database: &Database,
        snapshot: &Snapshot,
        plans: &[&Plan<'_>],
        volumes: &Volumes,
        source: &mut SnapshotFiles<'_>,
    ) -> Result<()> {
        let is_wanted = |id: u32| plans.iter().any(|plan| plan.entry.id == id);
        let mut part = snapshot.clone();
        part.catalog.collections.retain(|entry| is_wanted(entry.id));
        part.partitions.retain(|files| {
            let mut plans = plans.iter();
            plans.any(|plan| plan.is_of(files.collection, files.partition))
        });
        restore_files(self.env, &part, volumes, &self.spread(snapshot), source)?;
        for entry in &part.catalog.collections {
            let is_restored = |number| plans.iter().any(|plan| plan.is_of(entry.id, number));
            for number in (0..entry.settings.partitions).filter(|number| !is_restored(*number)) {
                // A collection is opened with all its partitions. These are not used.
                let place = partition_place(volumes, &part.catalog, entry, number);
                engine::create_partition(database, entry, &place)?;
            }
        }
        let copy = open(self.env, volumes)?;
        let added = self.add_records(database, &copy, plans, is_wanted);
        let closed = copy.close();
        added.and(closed)
    }

    /// Where tables of the snapshot go. If it is of a database with other volumes, such as a
    /// follower, the first lost volume takes all: it is new, and so has room.
    fn spread(&self, snapshot: &Snapshot) -> Box<dyn Fn(VolumeId) -> VolumeId> {
        let count = self.after.count();
        let first = self.lost.first().copied();
        match first {
            Some(lost) if snapshot.catalog.volumes as usize != count => Box::new(move |_| lost),
            _ => Box::new(spread(count)),
        }
    }

    /// Adds to what was restored what came after the snapshot.
    fn add_records(
        &self,
        database: &Database,
        copy: &Database,
        plans: &[&Plan<'_>],
        is_wanted: impl Fn(u32) -> bool,
    ) -> Result<()> {
        let mut catalog = self.catalog.clone();
        catalog.collections.retain(|entry| is_wanted(entry.id));
        engine::take_collections_of(copy, &catalog)?;
        for entry in &catalog.collections {
            let (from, to) = (
                engine::stores(database, entry)?,
                engine::stores(copy, entry)?,
            );
            for plan in plans.iter().filter(|plan| plan.entry.id == entry.id) {
                let number = plan.number as usize;
                match (from.get(number), to.get(number)) {
                    (Some(from), Some(to)) => add(&**from, &**to, plan)?,
                    _ => return Err(changed(plan)),
                }
            }
        }
        Ok(())
    }
}

/// Adds the records that `to` does not have yet.
fn add(from: &dyn AnyStore, to: &dyn AnyStore, plan: &Plan<'_>) -> Result<()> {
    let last = from.extent().last;
    let seen = to.extent().last;
    if seen.0 != plan.source.position || seen > last {
        return Err(changed(plan));
    }
    match Cursor::of(plan.entry.id, plan.number, to)?.judge(&plan.entry.name, from)? {
        Verdict::Follows => {}
        Verdict::Diverged(why) => {
            let what = format!("the snapshot is not of the past of this database: {why}");
            return Err(Error::Diverged(what));
        }
        Verdict::StartOver(why) => {
            let what = format!("the snapshot can't be compared with this database: {why}");
            return Err(Error::Invalid(what));
        }
    }
    while to.extent().last < last {
        let seen = to.extent().last;
        match from.ship(seen, PIECE_BYTES)? {
            Shipped::Records { records, whole } => {
                to.ingest(seen.next(), &records, whole, Durability::None)?;
            }
            Shipped::Nothing | Shipped::Gap => return Err(changed(plan)),
        }
    }
    to.sync_log()?;
    assert_eq!(to.extent().durable, last, "no record is lost");
    Ok(())
}

fn changed(plan: &Plan<'_>) -> Error {
    Error::Invalid(format!(
        "partition {} of collection {:?} does not have the records that it should have; run `quire \
         verify` to see what is damaged",
        plan.number, plan.entry.name
    ))
}
