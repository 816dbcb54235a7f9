//! The wide collection: writes of rows, moves, splits and merges of it, and what can be read of it.

use super::World;
use super::collections::{PARTITIONS_MAX, SPLIT_TURNS_MAX};
use super::trouble::Trouble;
use crate::sim::document::{KEYS, key};
use crate::sim::history::{self, Action, Condition, End};
use crate::sim::wide::model::Wide;
use crate::sim::wide::row::{Row, Rows, Write, is_same};
use crate::sim::wide::{NAME, WideOp, schema};
use quire_env::Env;
use quiredb::query::{field, find};
use quiredb::wide::{Cell, WideCollection};
use quiredb::{CollectionSettings, Database, Durability, Effect, Error, ErrorKind, Key, Result};
use std::cell::RefCell;
use std::collections::BTreeMap;

impl World {
    pub(super) fn perform_wide(&mut self, op: &WideOp) {
        match op {
            WideOp::Write { durability, writes } => self.write_wide(writes, *durability),
            WideOp::Sync => drop(self.settle_wide_by(|wide| wide.sync())),
            WideOp::Flush => drop(self.settle_wide_by(|wide| wide.flush())),
            WideOp::Compact => drop(self.settle_wide_by(|wide| wide.compact())),
            WideOp::Check => self.check_wide(),
            WideOp::Tier => self.move_wide(|_, wide| wide.tier().map(drop)),
            WideOp::MoveColumns => self.move_wide(|_, wide| wide.move_columns().map(drop)),
            WideOp::Move { column, group } => self.move_wide(|database, _| {
                let moved =
                    database.alter_wide_collection(NAME, |schema| schema.with_moved(column, group));
                moved.map(drop)
            }),
            WideOp::Split(writes) => self.repartition_wide(writes, false),
            WideOp::Merge(writes) => self.repartition_wide(writes, true),
        }
    }

    /// Moves cells, which no reader notices.
    fn move_wide(&mut self, act: impl FnOnce(&Database, &WideCollection) -> Result<()>) {
        if let Some((database, collection)) = self.open().zip(self.wide_collection()) {
            self.accepted(act(&database, &collection), "move cells");
        }
    }

    /// The open collection, if the machine and the catalog have it.
    fn wide_collection(&mut self) -> Option<WideCollection> {
        let database = self.open()?;
        let is_opened = self.wide.as_ref().is_some_and(|known| known.was_closed);
        if is_opened {
            self.well_for_opening();
        }
        match database.wide_collection(NAME) {
            Ok(collection) => {
                if is_opened {
                    self.settle_wide(&collection, "after a split or a merge that failed")?;
                }
                Some(collection)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let known = self.wide.as_ref();
                assert!(known.is_none_or(|known| !known.certain), "{error}");
                None
            }
            Err(error) => {
                self.accept(&error, "open the wide collection");
                None
            }
        }
    }

    /// As of plain collections: opens it with the database, and compares what is there.
    pub(super) fn open_wide(&mut self, when: &str) -> Option<()> {
        if self.wide.is_none() {
            return Some(());
        }
        let found = self.open()?.wide_collections();
        if found.is_empty() {
            let gone = self.wide.take().filter(|gone| gone.certain);
            assert!(gone.is_none(), "{when}: the wide collection is gone");
            return Some(());
        }
        let collection = self.wide_collection()?;
        self.settle_wide(&collection, when)
    }

    /// Compares the rows of a collection that was just opened with what must be there. `None` if
    /// they can't be read.
    fn settle_wide(&mut self, collection: &WideCollection, when: &str) -> Option<()> {
        let found = self.accepted(read(collection), "read rows")?;
        let durable = self.trouble == Trouble::None;
        let model = self.wide.as_mut()?;
        let count = collection.settings().partitions;
        let mut partitions = model.partitions.iter();
        if !model.certain && partitions.all(|partition| partition.is_untouched()) {
            *model = Wide::new(count);
        }
        match model.may_have == Some(count) {
            true if (count as usize) < model.partitions.len() => model.merge(&found, when),
            true => model.split(count, |key| collection.partition_of(key)),
            false => {}
        }
        assert_eq!(count as usize, model.partitions.len(), "{when}: partitions");
        for (partition, found) in model.partitions.iter_mut().zip(&found) {
            partition.cut(found, when);
            if durable {
                partition.all_durable();
            }
        }
        (model.certain, model.was_closed) = (true, false);
        model.may_have = None;
        Some(())
    }

    /// Makes the first acknowledged write to each partition after one of them failed.
    pub(super) fn write_all_wide(&mut self, when: &str) {
        let Some(collection) = self
            .wide
            .is_some()
            .then(|| self.wide_collection())
            .flatten()
        else {
            return;
        };
        for number in 0..collection.settings().partitions {
            let of_this = |index: &u8| collection.partition_of(&key(*index)) == number;
            let Some(index) = (0..KEYS).find(of_this) else {
                continue;
            };
            let done = self.write_rows(&collection, &[put(index, 40)], Durability::Sync);
            assert!(
                done || self.env.crashed(),
                "{when}: the wide collection can't be written"
            );
        }
    }

    /// Makes everything durable and visible, so that nothing is in doubt. Returns whether it
    /// succeeded.
    fn settle_wide_by(&mut self, act: impl Fn(&WideCollection) -> Result<()>) -> bool {
        let Some(collection) = self.wide_collection() else {
            return false;
        };
        let done = self.accepted(act(&collection), "sync, flush or compact");
        if done.is_none() || self.observe_wide(&collection).is_none() {
            return false;
        }
        for partition in self.wide.iter_mut().flat_map(|wide| &mut wide.partitions) {
            partition.no_more();
            partition.all_durable();
        }
        true
    }

    /// The collection; created if it certainly does not exist, and with no write in doubt.
    fn ready_wide(&mut self) -> Option<WideCollection> {
        if self.wide.is_none() {
            self.create_wide();
        }
        if !self.wide.as_ref()?.is_in_doubt() {
            return self.wide_collection();
        }
        if !self.settle_wide_by(|wide| wide.sync()) {
            self.heal();
            self.reopen(End::Close);
        }
        match self.env.crashed() {
            true => None,
            false => self.wide_collection(),
        }
    }

    fn create_wide(&mut self) {
        let Some(database) = self.open() else { return };
        let settings = CollectionSettings {
            partitions: self.settings.partitions,
            ..CollectionSettings::default()
        };
        let made = database.create_wide_collection(NAME, schema(), settings);
        let indexed = self.settings.index.clone();
        let made = made.and_then(|made| match indexed.is_none() {
            true => Ok(made),
            // That it failed says nothing about the collection.
            false => database.set_wide_index(NAME, indexed).or(Ok(made)),
        });
        self.wide = Some(Wide {
            certain: self.accepted(made, "create the wide collection").is_some(),
            ..Wide::new(self.settings.partitions)
        });
    }

    pub(super) fn write_wide(&mut self, writes: &[history::Write], durability: Durability) {
        if let Some(collection) = self.ready_wide() {
            self.write_rows(&collection, writes, durability);
        }
    }

    /// Does a batch of writes, up to one that fails, and notes its answers. Returns whether all
    /// were acknowledged.
    fn write_rows(
        &mut self,
        collection: &WideCollection,
        writes: &[history::Write],
        durability: Durability,
    ) -> bool {
        let sync = durability == Durability::Sync;
        let mut last: BTreeMap<u32, u64> = BTreeMap::new();
        let mut batch = collection.batch();
        let mut whole = true;
        for write in writes {
            self.serial += 1;
            let number = collection.partition_of(&key(write.key));
            let known = &mut self.wide.as_mut().unwrap().partitions[number as usize];
            let write = Write::new(write, self.serial, known.version(&key(write.key)));
            let result = match sync && writes.len() == 1 {
                true => collection.write(&write.real()),
                false => batch.write(&write.real()),
            };
            if let Err(error) = &result
                && error.kind() != ErrorKind::Conflict
            {
                // Full means that no record was written.
                if error.kind() != ErrorKind::Full {
                    known.write(write, None, sync);
                }
                self.accept(error, "write a row");
                whole = false;
                break;
            }
            let answer = result.as_ref().map(|written| written.effect);
            assert_eq!(
                answer.map_err(Error::kind),
                known.answer(&write),
                "{write:?}"
            );
            match result.map(|written| (written.effect, written.version.0)) {
                Ok((Effect::Unchanged, version)) => {
                    let before = known.version(&write.key);
                    assert_eq!(version, before.unwrap_or(0), "{write:?}");
                }
                Ok((_, version)) => {
                    let before = last.insert(number, version);
                    assert!(before < Some(version), "{version} after {before:?}");
                    known.write(write, Some(version), sync);
                }
                Err(_) => {}
            }
        }
        let failed = batch.finish_as(Some(durability));
        let now = self.env.monotonic();
        for number in last.into_keys() {
            if let Some(error) = failed.get(&number) {
                self.accept(error, "write rows");
                whole = false;
                continue;
            }
            let wide = self.wide.as_mut().unwrap();
            let partition = &mut wide.partitions[number as usize];
            match durability {
                Durability::Sync => {
                    partition.acknowledge(None);
                    partition.all_durable();
                    wide.certain = true;
                }
                Durability::Async(delay) => partition.acknowledge(Some(now + delay)),
                Durability::None => partition.acknowledge(None),
            }
        }
        whole
    }

    /// Splits each partition in two, or merges each two; these writes are done meanwhile, as is
    /// background work.
    fn repartition_wide(&mut self, writes: &[history::Write], is_merge: bool) {
        let Some((database, collection)) = self.open().zip(self.wide_collection()) else {
            return;
        };
        let now = collection.settings().partitions;
        let count = if is_merge { now / 2 } else { 2 * now };
        let can_be = match is_merge {
            true => now.is_multiple_of(2),
            false => count <= PARTITIONS_MAX,
        };
        if !can_be || self.observe_wide(&collection).is_none() {
            return;
        }
        if self.wide.as_ref().is_none_or(Wide::is_in_doubt) {
            return;
        }
        let state = RefCell::new((&mut *self, writes.iter(), 0));
        let watch = |_| {
            let (world, writes, turns) = &mut *state.borrow_mut();
            *turns += 1;
            world.env.run_due();
            let is_in_doubt = world.wide.as_ref().is_none_or(Wide::is_in_doubt);
            if let Some(write) = writes.next().filter(|_| !is_in_doubt) {
                world.write_rows(&collection, &[*write], Durability::Sync);
            }
            *turns < SPLIT_TURNS_MAX && !world.env.crashed()
        };
        let done = match is_merge {
            true => database.merge_collection(NAME, count, &watch),
            false => database.split_collection(NAME, count, &watch),
        };
        let (world, _, turns) = state.into_inner();
        let is_closed = collection.view().is_err();
        if turns >= SPLIT_TURNS_MAX && !is_closed && !world.env.crashed() {
            assert!(done.is_err(), "one that is stopped fails");
            return;
        }
        let is_done = world.accepted(done, "split or merge the wide collection");
        // The versions that rows have since a merge are those that are found.
        let merged =
            (is_merge && is_done.is_some()).then(|| world.accepted(read(&collection), "read rows"));
        let known = world.wide.as_mut().unwrap();
        match (is_done, merged) {
            (Some(()), None) => {
                known.split(count, |key| collection.partition_of(key));
                known.certain = true;
            }
            (Some(()), Some(Some(found))) => {
                known.merge(&found, "after a merge");
                known.certain = true;
            }
            (None, _) if !is_closed && !world.env.crashed() => {}
            // They are compared at the next opening.
            _ => (known.may_have, known.was_closed) = (Some(count), true),
        }
    }

    /// Compares all that can be read with the model.
    pub(super) fn check_wide(&mut self) {
        if let Some(collection) = self.wide_collection() {
            assert!(self.wide.is_some(), "the wide collection was never made");
            self.observe_wide(&collection);
        }
    }

    /// Reads all rows, which decides some of the writes in doubt. `None` if that can't be done.
    fn observe_wide(&mut self, collection: &WideCollection) -> Option<()> {
        let found = self.accepted(read(collection), "read rows")?;
        let partitions = self.wide.iter_mut().flat_map(|wide| &mut wide.partitions);
        for (partition, found) in partitions.zip(&found) {
            partition.found(found, "a view");
        }
        Some(())
    }

    /// All rows of a snapshot that was made just now; an error if that is not known.
    pub(super) fn wide_rows(&mut self) -> std::result::Result<Option<Rows>, ()> {
        if self.wide.is_none() {
            return Ok(None);
        }
        let Some(collection) = self.wide_collection() else {
            return Err(());
        };
        let seen = self.observe_wide(&collection);
        let known = self.wide.as_ref().filter(|wide| !wide.is_in_doubt());
        match seen.and(known) {
            Some(known) => Ok(Some(known.rows())),
            None => Err(()),
        }
    }
}

fn put(key: u8, bytes: u32) -> history::Write {
    history::Write {
        key,
        action: Action::Put { bytes },
        condition: Condition::Always,
    }
}

/// The rows of each partition: read by key and whole, in a scan, and column by column, which all
/// show the same.
fn read(collection: &WideCollection) -> Result<Vec<Rows>> {
    let mut partitions = vec![Rows::new(); collection.settings().partitions as usize];
    let mut all = Rows::new();
    for key in (0..KEYS).map(key) {
        if let Some(found) = collection.get(&key)? {
            let row = Row::read(&found);
            partitions[collection.partition_of(&key) as usize].insert(key.clone(), row.clone());
            all.insert(key, row);
        }
    }
    let mut scanned = Rows::new();
    for found in collection.rows()? {
        let found = found?;
        let twice = scanned.insert(found.key.clone(), Row::read(&found));
        assert_eq!(twice, None, "a scan has row {} twice", found.key);
    }
    assert_eq!(scanned, all, "a scan of rows");
    assert_eq!(collection.count()?, all.len() as u64, "rows");
    let mut columns = BTreeMap::new();
    for batch in collection.scan_columns(&["n", "text"])? {
        let batch = batch?;
        for (index, key) in batch.keys.into_iter().enumerate() {
            let cells = [0, 1].map(|column: usize| batch.columns[column][index].clone());
            columns.insert(key, cells);
        }
    }
    let expected = all.iter().map(|(key, row)| (key.clone(), row.plain()));
    let expected = expected.filter(|(_, cells)| cells.iter().any(Option::is_some));
    let expected: BTreeMap<Key, _> = expected.collect();
    assert_eq!(columns, expected, "a scan of columns");
    check_queries(collection, &all)?;
    Ok(partitions)
}

/// Checks that queries find the rows that have what others have.
fn check_queries(collection: &WideCollection, rows: &Rows) -> Result<()> {
    for key in rows.keys().step_by(3) {
        let [number, text] = rows[key].plain();
        let like = |other: &Row, column: usize, cell: &Cell| {
            other.plain()[column]
                .as_ref()
                .is_some_and(|one| one == cell)
        };
        let mut filters = Vec::new();
        if let Some(Cell::Int(number)) = number {
            let wanted = rows.values().filter(|row| match &row.plain()[0] {
                Some(Cell::Int(other)) => *other >= number,
                _ => false,
            });
            filters.push((field("n").gte(number), wanted.count()));
        }
        if let Some(Cell::String(text)) = text {
            let cell = Cell::String(text.clone());
            let wanted = rows.values().filter(|row| like(row, 1, &cell));
            filters.push((field("text").eq(text), wanted.count()));
        }
        for (filter, wanted) in filters {
            let page = collection.query(find(filter).with_count())?;
            assert_eq!(page.count, Some(wanted as u64), "rows like {key}");
        }
    }
    Ok(())
}

/// Checks that a copy has these rows; of the same versions, if it is `exact`.
pub(super) fn check_wide_copy(
    database: &Database,
    expected: Option<&Rows>,
    exact: bool,
    what: &str,
) {
    let found = match database.wide_collection(NAME) {
        Ok(collection) => Some(read(&collection).unwrap()),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::NotFound, "{what}: {error}");
            None
        }
    };
    assert_eq!(
        found.is_some(),
        expected.is_some(),
        "{what}: wide collections"
    );
    let found: Rows = found.into_iter().flatten().flatten().collect();
    for key in (0..KEYS).map(key) {
        let row = expected.and_then(|rows| rows.get(&key).cloned());
        let row = row.map(|row| if exact { row } else { row.with_version(None) });
        let found = found.get(&key);
        assert!(
            is_same(row.as_ref(), found),
            "{what}: row {key} is {found:?}, and not {row:?}"
        );
    }
}
