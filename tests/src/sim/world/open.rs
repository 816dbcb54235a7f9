//! Opening: for the first time, again, and after a crash, when the model learns what is left.

use super::World;
use super::trouble::Trouble;
use crate::sim::compare::{merged_records, positions_of, records_after};
use crate::sim::history::{End, Name};
use crate::sim::model::{Collection, Partition};
use crate::sim::run::RunStats;
use quiredb::{Database, DatabaseBuilder, ErrorKind};

impl World {
    pub(super) fn open(&mut self) -> Option<Database> {
        if self.database.is_none() {
            let opened = DatabaseBuilder::on(&self.volumes)
                .env(self.env.clone())
                .options(self.options.clone())
                .open();
            self.database = self.accepted(opened, "open");
        }
        self.database.clone()
    }

    /// Closes the database, if it is open, and checks that this succeeded.
    pub(super) fn close(&mut self) {
        self.views.clear();
        let Some(database) = self.database.take() else {
            return;
        };
        if self.accepted(database.close(), "close").is_some() {
            let closed = database.flush().unwrap_err();
            assert_eq!(closed.kind(), ErrorKind::Closed, "{closed}");
            // A collection that a removal closed was not open.
            let open = self.collections.values_mut();
            for collection in open.filter(|collection| !collection.was_closed) {
                for partition in &mut collection.partitions {
                    partition.durable = partition.last();
                }
            }
            let wide = self.wide.iter_mut().filter(|wide| !wide.was_closed);
            for partition in wide.flat_map(|wide| &mut wide.partitions) {
                partition.all_durable();
            }
        }
    }

    pub(super) fn reopen(&mut self, end: End) {
        match end {
            End::Close => self.close(),
            End::Drop => {
                self.views.clear();
                self.past.recoveries += u64::from(self.database.take().is_some());
            }
        }
        if !self.env.crashed() {
            self.well_for_opening();
            self.recover("opened again");
        }
    }

    /// Stops the machine and starts it again.
    pub(super) fn restart(&mut self, seed: u64) {
        self.views.clear();
        // The damaged file may be on a disk that has vanished.
        self.env.heal();
        self.undo_rot();
        let env = self.env.after_crash(seed);
        self.database = None;
        let trace = self.env.trace();
        self.past += RunStats::of_trace(&trace);
        self.past.io_steps += self.env.operations();
        self.past.crashes += 1;
        self.past.recoveries += 1;
        self.traces.extend(trace);
        self.env = env;
        self.undo_rot();
        self.end_trouble();
        if self.filled {
            self.trouble = Trouble::Full;
        }
        self.recover("after a crash");
    }

    /// Opens the database and settles the batches in doubt. Records found on a machine without
    /// faults are durable. A planned fault may make the first attempt fail.
    pub(super) fn recover(&mut self, when: &str) {
        let mut recovered = self.open_all(when);
        if recovered.is_none() && !self.env.crashed() {
            self.heal();
            recovered = self.open_all(when);
        }
        if recovered.is_none() {
            assert!(
                self.env.crashed(),
                "{when}: the database does not open on a machine that is well"
            );
            return;
        }
        if self.trouble == Trouble::Any {
            // Opening clears poisoned files; planned faults stay.
            self.heal();
            self.end_trouble();
            self.write_all(when);
        }
    }

    /// Opens the database and each of its collections. `None` if that fails.
    fn open_all(&mut self, when: &str) -> Option<()> {
        let found = self.open()?.collections();
        for name in &found {
            assert!(
                self.collections.keys().any(|known| known.as_str() == name),
                "{when}: collection {name} was never made"
            );
        }
        let known: Vec<_> = self.collections.keys().copied().collect();
        for name in known {
            if found.iter().any(|other| other == name.as_str()) {
                let collection = self.collection(name)?;
                self.settle(name, &collection, when)?;
            } else {
                let gone = self.collections.remove(&name);
                assert!(
                    gone.is_some_and(|gone| !gone.certain),
                    "{when}: collection {name} is gone"
                );
            }
        }
        self.open_wide(when)
    }

    /// Records that were found may be missing from the disk because an earlier sync failed. The
    /// first acknowledged write makes them durable, or is refused.
    fn write_all(&mut self, when: &str) {
        let names: Vec<_> = self.collections.keys().copied().collect();
        for name in names {
            let Some(collection) = self.collection(name) else {
                return;
            };
            for number in 0..collection.settings().partitions {
                assert!(
                    self.probe(name, &collection, number),
                    "{when}: collection {name} can't be written"
                );
            }
        }
        self.write_all_wide(when);
    }

    /// Compares the last position of each partition of a collection that was just opened with what
    /// must be there. `None` if that can't be read.
    pub(super) fn settle(
        &mut self,
        name: Name,
        collection: &quiredb::Collection,
        when: &str,
    ) -> Option<()> {
        let positions = positions_of(&self.accepted(collection.view(), "take a view")?);
        let partitions = collection.settings().partitions;
        let model = self.collections.get_mut(&name)?;
        if !model.certain && model.partitions.iter().all(Partition::is_untouched) {
            // Failed creations: any of them may have made it.
            *model = Collection::new(partitions);
        }
        if model.may_have == Some(partitions) {
            if partitions as usize > model.partitions.len() {
                model.split(partitions, |key| collection.partition_of(key));
            } else {
                let records = merged_records(collection, &positions);
                let records = self.accepted(records, "read the log")?;
                let model = self.collections.get_mut(&name)?;
                model.merge(records, |key| collection.partition_of(key), when);
            }
        }
        let model = self.collections.get_mut(&name)?;
        assert_eq!(
            partitions as usize,
            model.partitions.len(),
            "{when}: partitions of {name}"
        );
        let when = format!("{when}, collection {name}");
        for (number, position) in positions.into_iter().enumerate() {
            let last = self.collections[&name].partitions[number].last();
            let more = match position > last {
                true => records_after(collection, number, last, position),
                false => Ok(Vec::new()),
            };
            let more = self.accepted(more, "read the log")?;
            // On a full disk, some records may become durable only when there is space.
            let durable = self.trouble == Trouble::None;
            let partition = self.partition(name, number as u32)?;
            partition.found(&more, false, &when);
            partition.cut(position, &when);
            if durable {
                partition.durable = position;
            }
        }
        let model = self.collections.get_mut(&name)?;
        (model.certain, model.was_closed) = (true, false);
        model.may_have = None;
        Some(())
    }
}
