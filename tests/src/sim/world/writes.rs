//! Batches of writes, and what becomes of those that fail.

use super::World;
use super::trouble::Reads;
use crate::sim::compare::{answer, concrete, real};
use crate::sim::document;
use crate::sim::history::{self, Action, Condition, Name};
use crate::sim::model::{self, Decider, Record};
use quire_env::Env;
use quiredb::{Collection, Document, Durability, ErrorKind, Result, Write, Written};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The part of a batch for one partition: each write with its answer.
type Answered<'a> = Vec<(&'a model::Write, &'a Result<Written>)>;

impl World {
    pub(super) fn write(&mut self, name: Name, writes: &[history::Write], durability: Durability) {
        let Some(collection) = self.ready(name) else {
            return;
        };
        let mut deciders: BTreeMap<u32, Decider> = BTreeMap::new();
        let mut batch = Vec::new();
        for write in writes {
            self.serial += 1;
            let number = collection.partition_of(&document::key(write.key));
            let partition = &self.collections[&name].partitions[number as usize];
            let decider = deciders
                .entry(number)
                .or_insert_with(|| Decider::new(partition));
            let write = concrete(write, self.serial, decider);
            decider.decide(&write);
            batch.push((number, write));
        }
        let real = batch.iter().map(|(_, write)| real(write));
        let results = collection
            .batch()
            .writes(real)
            .durability(durability)
            .write();
        assert_eq!(results.len(), batch.len(), "an answer for each write");
        for number in deciders.into_keys() {
            let all = batch.iter().zip(&results);
            let mine = all.filter(|((of, _), _)| *of == number);
            let mine = mine.map(|((_, write), result)| (write, result)).collect();
            self.written(name, number, mine, durability);
        }
    }

    /// Notes the answers of a partition to its part of a batch.
    fn written(&mut self, name: Name, number: u32, answers: Answered<'_>, durability: Durability) {
        let now = self.env.monotonic();
        let mut decider = Decider::new(self.partition(name, number).unwrap());
        let failed = |result: &Result<Written>| match result {
            Err(error) => !matches!(error.kind(), ErrorKind::Conflict | ErrorKind::NotFound),
            Ok(_) => false,
        };
        let mut error = None;
        for (_, result) in answers.iter().filter(|(_, result)| failed(result)) {
            error = result.as_ref().err();
            self.accept(error.unwrap(), "write");
        }
        let whole = answers.iter().all(|(_, result)| failed(result));
        // A write that has to read and can't fails on its own.
        assert!(
            error.is_none() || whole || self.env.crashed() || self.reads != Reads::Whole,
            "a batch was done in part: {answers:?}"
        );
        for (write, result) in &answers {
            // The other writes are done without it.
            if whole || !failed(result) {
                let expected = decider.decide(write);
                assert!(
                    whole || answer(result) == expected,
                    "{write:?}: {result:?}, and not {expected:?}"
                );
            }
        }
        let in_part = self.reads != Reads::Whole;
        let partition = self.partition(name, number).unwrap();
        if let Some(error) = error.filter(|_| whole) {
            // Full means that no record was written.
            if error.kind() != ErrorKind::Full {
                let writes = answers.iter().map(|(write, _)| (*write).clone()).collect();
                partition.doubt(writes, durability, in_part);
            }
            return;
        }
        partition.write(decider.records);
        let last = partition.last();
        match durability {
            Durability::Sync => partition.durable = last,
            Durability::Async(delay) => partition.durable_by.push((last, now + delay)),
            Durability::None => {}
        }
        if durability == Durability::Sync && last > 0 {
            self.collections.get_mut(&name).unwrap().certain = true;
        }
    }

    /// The collection; created if it certainly does not exist, and with no partition in doubt.
    fn ready(&mut self, name: Name) -> Option<Collection> {
        if !self.collections.contains_key(&name) {
            self.create(name, self.settings.partitions);
        }
        let collection = self.collection(name)?;
        for number in 0..collection.settings().partitions {
            let in_doubt = self.partition(name, number)?.is_in_doubt();
            if in_doubt && !self.probe(name, &collection, number) {
                // The result of the attempt is unknown until the database is opened again without
                // faults.
                self.heal();
                self.reopen(history::End::Close);
                return match self.env.crashed() {
                    true => None,
                    false => self.collection(name),
                };
            }
        }
        Some(collection)
    }

    /// After a failed write, a later one may be acknowledged only if the result of the first is
    /// known. Returns whether it is now.
    pub(super) fn probe(&mut self, name: Name, collection: &Collection, number: u32) -> bool {
        let mut keys = (0..document::KEYS).map(document::key);
        let Some(key) = keys.find(|key| collection.partition_of(key) == number) else {
            return false;
        };
        self.serial += 1;
        let text: Arc<str> = document::document(self.serial, 40).to_string().into();
        let put = Write::put(key.clone(), Document::from_json(text.as_bytes()).unwrap());
        let mut record = Record {
            key: key.clone(),
            document: Some(text.clone()),
            external: None,
        };
        let write = model::Write {
            key,
            action: model::Action::Put(text),
            condition: model::Condition::Always,
        };
        let mut results = collection
            .batch()
            .writes(vec![put])
            .durability(Durability::Sync)
            .write();
        let written = match results.remove(0) {
            Ok(written) => written,
            Err(error) => {
                self.accept(&error, "write after a write that failed");
                if error.kind() != ErrorKind::Full {
                    let partition = self.partition(name, number).unwrap();
                    partition.doubt(vec![write], Durability::Sync, false);
                }
                return false;
            }
        };
        let partition = self.partition(name, number).unwrap();
        partition.doubt(vec![write], Durability::Sync, false);
        if self.observe(name, collection).is_none() {
            return false;
        }
        let model = self.collections.get_mut(&name).unwrap();
        model.certain = true;
        let partition = &mut model.partitions[number as usize];
        record.external = written.external;
        assert_eq!(
            (partition.last(), partition.records.last()),
            (written.version.0, Some(&record)),
            "a write is the last"
        );
        partition.durable = partition.last();
        partition.no_more();
        true
    }

    /// Makes everything durable and visible, so that nothing is in doubt. Returns whether it
    /// succeeded.
    pub(super) fn settle_by(
        &mut self,
        name: Name,
        act: impl Fn(&Collection) -> Result<()>,
    ) -> bool {
        let Some(collection) = self.collection(name) else {
            return false;
        };
        let done = self.accepted(act(&collection), "sync, flush or compact");
        if done.is_none() || self.observe(name, &collection).is_none() {
            return false;
        }
        for partition in &mut self.collections.get_mut(&name).unwrap().partitions {
            partition.durable = partition.last();
            partition.no_more();
        }
        true
    }

    /// Writes continue.
    pub(crate) fn write_on(&mut self) {
        let write = |key, action| history::Write {
            key,
            action,
            condition: Condition::Always,
        };
        let put = |key, bytes| write(key, Action::Put { bytes });
        let names: Vec<_> = self.collections.keys().copied().collect();
        for name in names {
            let batch = [put(1, 100), put(2, 100), write(1, Action::Delete)];
            self.write(name, &batch, Durability::Sync);
            self.write(name, &[put(3, 5_000)], Durability::None);
        }
        if self.wide.is_some() {
            self.write_wide(&[put(1, 100)], Durability::Sync);
            let patch = write(1, Action::Patch { shape: 15 });
            self.write_wide(&[patch, put(3, 5_000)], Durability::None);
        }
    }
}
