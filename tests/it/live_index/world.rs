//! A simulated machine, a database with one collection, and what its documents are.

use super::text::{Step, Text};
use quire_query::testing::naive;
use quire_query::{Answer, Hit, Options, Query};
use quire_tests::sim::with_key;
use quiredb::operations::{VerifyOptions, verify_open};
use quiredb::{
    Collection, CollectionSettings, Database, DatabaseOptions, Document, IndexStats, Key, Result,
    SimEnv, View,
};
use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::ops::ControlFlow::Continue;
use std::sync::Arc;
use std::time::Duration;

/// The documents of each partition in the order of their docids.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Model(pub(crate) Vec<Vec<(Key, Document)>>);

impl Model {
    fn place(&self, key: &Key) -> Option<(usize, usize)> {
        let mut partitions = self.0.iter().enumerate();
        partitions.find_map(|(number, all)| {
            let at = all.iter().position(|(known, _)| known == key)?;
            Some((number, at))
        })
    }

    fn put(&mut self, partition: u32, key: &Key, document: Document) {
        match self.place(key) {
            Some((partition, at)) => self.0[partition][at].1 = document,
            None => self.0[partition as usize].push((key.clone(), document)),
        }
    }

    /// The documents that a view has: without an order, all of them come partition by partition, by
    /// their docids.
    pub(crate) fn of_view(view: &View) -> Model {
        let all = quire_query::find_all().prepare().unwrap();
        let hits = view.query(&all, &Options::default()).unwrap().hits;
        let mut model = Model(vec![Vec::new(); view.positions().len()]);
        for (hit, found) in hits.iter().zip(view.documents(&hits).unwrap()) {
            model.0[hit.shard as usize].push((found.key, found.document));
        }
        model
    }

    /// All documents, by key.
    pub(crate) fn by_key(&self) -> BTreeMap<Key, Document> {
        self.0.iter().flatten().cloned().collect()
    }

    /// The right answer; the doc of a hit is its place among the documents of the partition.
    pub(crate) fn answer(&self, query: &Query) -> Answer {
        let with_keys = |all: &Vec<(Key, Document)>| -> Vec<Document> {
            all.iter().map(|(key, one)| with_key(key, one)).collect()
        };
        let documents: Vec<_> = self.0.iter().map(with_keys).collect();
        let documents: Vec<&[Document]> = documents.iter().map(Vec::as_slice).collect();
        naive::answer(&documents, query)
    }

    /// The keys of hits of [`answer`](Model::answer).
    pub(crate) fn keys(&self, hits: &[Hit]) -> Vec<Key> {
        let key = |hit: &Hit| self.0[hit.shard as usize][hit.doc as usize].0.clone();
        hits.iter().map(key).collect()
    }

    /// Checks that a view answers a query as these documents do.
    pub(crate) fn check(&self, view: &View, query: &Query, what: &str) {
        let right = self.answer(query);
        let prepared = query.clone().prepare().unwrap();
        let answer = view.query(&prepared, &Options::default());
        let answer = answer.unwrap_or_else(|error| panic!("{what}: {error}, {query:?}"));
        let found = view.documents(&answer.hits).unwrap();
        let found: Vec<_> = found.into_iter().map(|found| found.key).collect();
        assert_eq!(found, self.keys(&right.hits), "{what}: hits of {query:?}");
        assert_eq!(answer.count, right.count, "{what}: {query:?}");
        assert_eq!(answer.aggregates, right.aggregates, "{what}: {query:?}");
    }
}

/// How many queries found the index in which state.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    pub(crate) absent: u64,
    pub(crate) building: u64,
    pub(crate) behind: u64,
    pub(crate) level: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.absent += other.absent;
        self.building += other.building;
        self.behind += other.behind;
        self.level += other.level;
    }
}

pub(crate) fn open(env: &Arc<SimEnv>, path: &str) -> Result<Database> {
    let options = DatabaseOptions {
        memory_bytes: 16 << 20,
        segment_bytes: 10_000,
        scrub_period: None,
        ..DatabaseOptions::default()
    };
    Database::builder(path)
        .env(env.clone())
        .options(options)
        .open()
}

/// Has background work done, as far as it ends within seconds.
pub(crate) fn settle(env: &SimEnv) {
    for _ in 0..20 {
        env.advance(Duration::from_millis(100));
        env.run_due();
    }
}

/// Compares all trees with the log, and the index with the documents.
pub(crate) fn verify(database: &Database, what: &str) {
    let report = verify_open(
        database,
        &VerifyOptions::default(),
        &mut |_, _| Continue(()),
    );
    assert_eq!(report.unwrap().damage, [], "{what}");
}

pub(crate) fn index_stats(collection: &Collection) -> Option<IndexStats> {
    collection.stats().unwrap().index
}

/// See the module.
pub(crate) struct World {
    pub(crate) env: Arc<SimEnv>,
    pub(crate) database: Database,
    pub(crate) collection: Collection,
    pub(crate) model: Model,
    held: Vec<(View, Model)>,
    tally: Tally,
}

impl World {
    pub(crate) fn new(text: &Text) -> World {
        let env = SimEnv::new(text.seed);
        let database = open(&env, "/db").unwrap();
        let settings = CollectionSettings {
            partitions: text.partitions,
            index: text.index.clone(),
            ..CollectionSettings::default()
        };
        let collection = database.create_collection("c", settings).unwrap();
        World {
            env,
            database,
            collection,
            model: Model(vec![Vec::new(); text.partitions as usize]),
            held: Vec::new(),
            tally: Tally::default(),
        }
    }

    pub(crate) fn tally(&self) -> Tally {
        self.tally
    }

    /// Does a step, then checks the queries after it.
    pub(crate) fn step(&mut self, text: &Text, at: usize) {
        let step = text.step(at);
        let what = format!("seed {}, after step {at}", text.seed);
        if self.act(step, &what).is_err() || self.env.crashed() {
            assert!(self.env.crashed(), "{what}: {step:?}");
            self.restart(text.seed + at as u64);
        }
        let view = self.collection.view().unwrap();
        for query in text.queries(at) {
            self.model.check(&view, query, &what);
            for (view, model) in &self.held {
                model.check(view, query, &what);
            }
            let index = index_stats(&self.collection);
            match &index {
                None => self.tally.absent += 1,
                Some(index) if !index.complete => self.tally.building += 1,
                Some(index) if index.lag_records > 0 => self.tally.behind += 1,
                Some(_) => self.tally.level += 1,
            }
            // Else wrong indexes would be taken for damaged ones, and documents read instead.
            let rebuilt = index.and_then(|index| index.rebuilt_why);
            assert_eq!(rebuilt, None, "{what}");
        }
    }

    fn act(&mut self, step: &Step, what: &str) -> Result<()> {
        let collection = &self.collection;
        match step {
            Step::Put(key, document) => {
                collection.put_at(key, document)?;
                self.model
                    .put(collection.partition_of(key), key, document.clone());
            }
            Step::Patch(key, patch) => {
                if let Some((partition, at)) = self.model.place(key) {
                    collection.patch(key, patch)?;
                    let document = &mut self.model.0[partition][at].1;
                    *document = document.merge_patch(patch).unwrap();
                }
            }
            Step::Delete(key) => {
                collection.delete(key)?;
                if let Some((partition, at)) = self.model.place(key) {
                    self.model.0[partition].remove(at);
                }
            }
            Step::Flush => collection.flush()?,
            Step::Compact => collection.compact()?,
            Step::RunDue => drop(self.env.run_due()),
            Step::Pass(millis) => {
                self.env.advance(Duration::from_millis(*millis));
                self.env.run_due();
            }
            Step::Settle => settle(&self.env),
            Step::Reopen => {
                self.held.clear();
                self.database.close()?;
                self.open_again()?;
            }
            Step::Crash(seed) => {
                self.restart(*seed);
            }
            Step::CrashIn(steps) => {
                let now = self.env.operations();
                self.env.crash_at(now + steps);
            }
            Step::Index(fields) => {
                let settings = CollectionSettings {
                    index: fields.clone(),
                    ..CollectionSettings::clone(&collection.settings())
                };
                self.database.change_settings("c", settings)?;
            }
            Step::HoldView => {
                let view = collection.view()?;
                self.held.truncate(2);
                self.held.push((view, self.model.clone()));
            }
            Step::Verify if !self.env.crashed() => {
                let report =
                    verify_open(&self.database, &VerifyOptions::default(), &mut |_, _| {
                        Continue(())
                    })?;
                assert_eq!(report.damage, [], "{what}");
            }
            Step::Verify => {}
        }
        Ok(())
    }

    fn open_again(&mut self) -> Result<()> {
        self.database = open(&self.env, "/db")?;
        self.collection = self.database.collection("c")?;
        Ok(())
    }

    /// The machine stops and starts again. Of the last write either all is there or nothing.
    fn restart(&mut self, seed: u64) {
        self.held.clear();
        self.env = self.env.after_crash(seed);
        self.open_again().unwrap();
        self.model = Model::of_view(&self.collection.view().unwrap());
    }

    /// The end of the text: background work ends, and everything is compared.
    pub(crate) fn end(&mut self) {
        // No crash that was planned comes any more.
        self.env.crash_at(u64::MAX);
        if self.env.crashed() {
            self.restart(0);
        }
        self.held.clear();
        settle(&self.env);
        verify(&self.database, "at the end");
        let found = Model::of_view(&self.collection.view().unwrap());
        assert_eq!(found, self.model, "documents in the order of their docids");
    }
}
