//! A world: a simulated machine, a database on it, and the model of what the database must say.

use super::compare::{
    answer, check_tail, check_view, concrete, database_exists, positions_of, real, records_after,
    verify_env,
};
use super::document;
use super::history::{self, History, Op};
use super::model::{Answer, Collection, Decider, Partition, Record, State};
use quire_env::{Env, Fault, SimEnv};
use quiredb::{
    CollectionSettings, Database, Document, Durability, Error, ErrorKind, Options, View, Volumes,
    Write, Written,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const NAMES: [&str; 2] = ["alpha", "beta"];
const ROOMY: u64 = 1 << 40;

/// What may go wrong just now. It lasts until the machine is well and the database was opened again, or, for a full
/// disk, until there is room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Trouble {
    /// Nothing: any error is a failure of the test.
    None,
    /// The disk may be full: errors are `Full`, and nothing is read-only for that.
    Full,
    /// Any step may fail.
    Any,
}

/// See the module.
#[derive(Debug)]
pub struct World {
    /// The machine as it is now: another after each restart.
    pub env: Arc<SimEnv>,
    options: Options,
    volumes: Volumes,
    partitions: u32,
    database: Option<Database>,
    collections: BTreeMap<&'static str, Collection>,
    views: Vec<HeldView>,
    trouble: Trouble,
    /// The disk was given little room. That outlasts a crash.
    filled: bool,
    /// The seed of the crash that is planned.
    crash_seed: u64,
    /// Numbers writes.
    serial: u64,
    /// Traces of the machines that have crashed.
    traces: Vec<String>,
}

/// A view and what it must show.
#[derive(Debug)]
struct HeldView {
    view: View,
    positions: Vec<u64>,
    state: State,
}

/// What is left of a world whose machine has crashed: it can be restarted more than once.
#[derive(Debug)]
pub struct Crashed {
    env: Arc<SimEnv>,
    options: Options,
    volumes: Volumes,
    partitions: u32,
    collections: BTreeMap<&'static str, Collection>,
    serial: u64,
    traces: Vec<String>,
}

impl World {
    /// An empty machine, no database opened yet.
    pub fn new(history: &History) -> World {
        World {
            env: SimEnv::new(history.seed),
            options: history.options(),
            volumes: history.volumes(),
            partitions: history.partitions,
            database: None,
            collections: BTreeMap::new(),
            views: Vec::new(),
            trouble: Trouble::None,
            filled: false,
            crash_seed: history.seed,
            serial: 0,
            traces: Vec::new(),
        }
    }

    /// Runs all operations, restarting the machine wherever it crashes, and checks the end.
    pub fn run(&mut self, ops: &[Op]) {
        for op in ops {
            self.perform(op);
            if self.env.crashed() {
                self.restart(self.crash_seed);
            }
        }
        self.finish();
    }

    /// Runs operations until the machine crashes; false if it does not.
    pub fn run_until_crash(&mut self, ops: &[Op]) -> bool {
        for op in ops {
            self.perform(op);
            if self.env.crashed() {
                return true;
            }
        }
        false
    }

    /// Everything that must hold at the end of any history: all can be read, verified, closed, opened and written to.
    pub fn finish(&mut self) {
        self.heal();
        self.look_at_views();
        self.reopen(true);
        self.check_all();
        self.write_on();
        self.verify();
        self.check_all();
    }

    /// Plans a failure, before or in between operations: any error is allowed from now on.
    pub fn allow_faults(&mut self) {
        self.trouble = Trouble::Any;
    }

    /// All that the machines of this world have done.
    pub fn trace(&self) -> Vec<String> {
        let mut trace = self.traces.clone();
        trace.extend(self.env.trace());
        trace
    }

    /// Carries out one operation on the database and on the model, and compares what they answer.
    pub fn perform(&mut self, op: &Op) {
        match op {
            Op::Write {
                c,
                writes,
                durability,
            } => self.write(name(*c), writes, *durability),
            Op::Sync { c } => self.settle_by(*c, |collection| collection.sync()),
            Op::Flush { c } => self.settle_by(*c, |collection| collection.flush()),
            Op::Compact { c } => self.settle_by(*c, |collection| collection.compact()),
            Op::Create { c, partitions } => self.create(name(*c), *partitions),
            Op::Drop { c } => self.drop_collection(name(*c)),
            Op::Check { c } => self.check(name(*c)),
            Op::View { c } => self.take_view(name(*c)),
            Op::LookAtViews => {
                self.look_at_views();
                if !self.views.is_empty() {
                    self.views.remove(0);
                }
            }
            Op::RunDue => self.run_due(),
            Op::RunAll => self.run_all(),
            Op::Advance { millis } => self.env.advance(Duration::from_millis((*millis).into())),
            Op::Reopen { close } => self.reopen(*close),
            Op::Crash { seed } => self.restart(*seed),
            Op::CrashIn { steps, seed } => {
                self.env.crash_at(self.env.operations() + u64::from(*steps));
                self.crash_seed = *seed;
            }
            Op::FailIn {
                steps,
                full,
                lasting,
            } => {
                let fault = if *full { Fault::Enospc } else { Fault::Eio };
                let step = self.env.operations() + u64::from(*steps);
                match lasting {
                    true => self.env.fail_from(step, fault),
                    false => self.env.fail_at(step, fault),
                }
                self.trouble = Trouble::Any;
            }
            Op::FailSyncs => {
                self.env.fail_syncs(true);
                self.trouble = Trouble::Any;
            }
            Op::Fill { spare } => {
                self.env.set_capacity(ROOMY);
                let used = ROOMY - self.env.free_bytes(Path::new("/")).unwrap();
                self.env.set_capacity(used + u64::from(*spare));
                self.filled = true;
                self.trouble = self.trouble.max(Trouble::Full);
            }
            Op::Heal => self.heal(),
        }
    }

    fn heal(&mut self) {
        // This forgets a planned crash, too.
        self.env.heal();
        self.env.set_capacity(ROOMY);
        self.filled = false;
        if self.trouble == Trouble::Full {
            self.trouble = Trouble::None;
        }
    }

    /// Lets the jobs that are due run, and those that they give rise to within seconds. (Not "until there is none": on a
    /// machine that fails or has crashed, jobs are tried again for ever.)
    fn run_all(&mut self) {
        for _ in 0..4 {
            self.run_due();
            self.env.advance(Duration::from_secs(2));
        }
        self.run_due();
    }

    fn run_due(&mut self) {
        let now = self.env.monotonic();
        self.env.run_due();
        if self.trouble == Trouble::None && !self.env.crashed() {
            for partition in self
                .collections
                .values_mut()
                .flat_map(|collection| &mut collection.partitions)
            {
                partition.background_done(now);
            }
        }
    }

    /// Fails the test unless this error is what the trouble there is may cause.
    #[track_caller]
    fn accept(&self, error: &Error, doing: &str) {
        if self.env.crashed() {
            return;
        }
        match self.trouble {
            Trouble::None => panic!(
                "{doing}: {error} ({:?}), on a machine that is well",
                error.kind()
            ),
            Trouble::Full => assert_eq!(
                error.kind(),
                ErrorKind::Full,
                "{doing} on a full disk: {error}"
            ),
            // A fault is not damage, and nothing of what was asked for was wrong.
            Trouble::Any => assert!(
                matches!(
                    error.kind(),
                    ErrorKind::Io | ErrorKind::Full | ErrorKind::ReadOnly | ErrorKind::Closed
                ),
                "{doing} on a failing machine: {error} ({:?})",
                error.kind()
            ),
        }
    }

    fn open(&mut self) -> Option<Database> {
        if let Some(database) = &self.database {
            return Some(database.clone());
        }
        let opened =
            Database::open_with(self.env.clone(), self.volumes.clone(), self.options.clone());
        match opened {
            Ok(database) => {
                self.database = Some(database.clone());
                Some(database)
            }
            Err(error) => {
                self.accept(&error, "open");
                None
            }
        }
    }

    /// The open collection, if the machine and the catalog have it.
    fn collection(&mut self, name: &'static str) -> Option<quiredb::Collection> {
        let database = self.open()?;
        match database.collection(name) {
            Ok(collection) => {
                if self
                    .collections
                    .get(name)
                    .is_some_and(|known| known.was_closed)
                {
                    self.settle(name, &collection, "after a removal that failed");
                }
                Some(collection)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let known = self.collections.get(name);
                assert!(
                    known.is_none_or(|known| !known.certain),
                    "collection {name} is gone: {error}"
                );
                None
            }
            Err(error) => {
                self.accept(&error, "open a collection");
                None
            }
        }
    }

    fn create(&mut self, name: &'static str, partitions: u32) {
        let Some(database) = self.open() else { return };
        let there = self
            .collections
            .get(name)
            .is_some_and(|known| known.certain);
        let settings = CollectionSettings {
            partitions,
            ..CollectionSettings::default()
        };
        match database.create_collection(name, settings) {
            Ok(_) => {
                assert!(!there, "collection {name} was made twice");
                self.collections.insert(name, Collection::new(partitions));
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                assert!(self.collections.contains_key(name), "{error}");
            }
            Err(error) => {
                self.accept(&error, "create a collection");
                if !there {
                    self.collections.insert(
                        name,
                        Collection {
                            certain: false,
                            ..Collection::new(partitions)
                        },
                    );
                }
            }
        }
    }

    fn drop_collection(&mut self, name: &'static str) {
        let Some(database) = self.open() else { return };
        let handle = self.collection(name);
        match database.drop_collection(name) {
            Ok(()) => {
                assert!(
                    self.collections.remove(name).is_some(),
                    "collection {name} was never made"
                );
                assert_eq!(
                    database.collection(name).unwrap_err().kind(),
                    ErrorKind::NotFound
                );
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let known = self.collections.get(name);
                assert!(
                    known.is_none_or(|known| !known.certain),
                    "collection {name} is gone: {error}"
                );
            }
            Err(error) => {
                self.accept(&error, "drop a collection");
                if let Some(known) = self.collections.get_mut(name) {
                    known.certain = false;
                    known.was_closed |= handle.is_some_and(|handle| handle.view().is_err());
                }
            }
        }
    }

    /// The collection, made where it is certain that there is none, with no partition in doubt.
    fn ready(&mut self, name: &'static str) -> Option<quiredb::Collection> {
        if !self.collections.contains_key(name) {
            self.create(name, self.partitions);
        }
        let collection = self.collection(name)?;
        for number in 0..collection.settings().partitions {
            if self.partition(name, number)?.is_in_doubt() && !self.probe(name, &collection, number)
            {
                // What was attempted is unknown until the database is opened again on a machine that is well.
                self.heal();
                self.reopen(true);
                return if self.env.crashed() {
                    None
                } else {
                    self.collection(name)
                };
            }
        }
        Some(collection)
    }

    fn partition(&mut self, name: &str, number: u32) -> Option<&mut Partition> {
        self.collections
            .get_mut(name)?
            .partitions
            .get_mut(number as usize)
    }

    /// After a write that failed, a further one may be acknowledged only if it is clear what became of the first.
    fn probe(&mut self, name: &'static str, collection: &quiredb::Collection, number: u32) -> bool {
        let mut keys = (0..document::KEYS).map(document::key);
        let Some(key) = keys.find(|key| collection.partition_of(key) == number) else {
            return false;
        };
        self.serial += 1;
        let text: Arc<str> = document::document(self.serial, 40).to_string().into();
        let put = Write::put(key.clone(), Document::from_json(text.as_bytes()).unwrap());
        let record = Record {
            key,
            document: Some(text),
        };
        match collection
            .write_batch(vec![put], Some(Durability::Sync))
            .remove(0)
        {
            Ok(Written { version, .. }) => {
                self.partition(name, number)
                    .unwrap()
                    .doubt(vec![record.clone()], Durability::Sync);
                self.observe(name, collection);
                let model = self.collections.get_mut(name).unwrap();
                model.certain = true;
                let partition = &mut model.partitions[number as usize];
                assert_eq!(
                    (partition.last(), partition.records.last()),
                    (version.0, Some(&record))
                );
                partition.durable = version.0;
                partition.no_more();
                true
            }
            Err(error) => {
                self.accept(&error, "write after a write that failed");
                if error.kind() != ErrorKind::Full {
                    self.partition(name, number)
                        .unwrap()
                        .doubt(vec![record], Durability::Sync);
                }
                false
            }
        }
    }

    /// A view of now, which decides some of what was in doubt.
    fn observe(&mut self, name: &'static str, collection: &quiredb::Collection) -> View {
        let view = collection.view().unwrap();
        let model = self.collections.get_mut(name).unwrap();
        for (number, position) in positions_of(&view).into_iter().enumerate() {
            let partition = &mut model.partitions[number];
            assert!(
                position >= partition.last(),
                "a view at {position} misses what was acknowledged: {partition:?}"
            );
            partition.found(
                &records_after(collection, number, partition.last(), position),
                true,
                "a view",
            );
        }
        view
    }

    fn write(&mut self, name: &'static str, writes: &[history::Write], durability: Durability) {
        let Some(collection) = self.ready(name) else {
            return;
        };
        let mut deciders: BTreeMap<u32, Decider> = BTreeMap::new();
        let mut batch = Vec::new();
        let mut expected = Vec::new();
        for write in writes {
            self.serial += 1;
            let number = collection.partition_of(&document::key(write.key));
            let partition = &self.collections[name].partitions[number as usize];
            let decider = deciders
                .entry(number)
                .or_insert_with(|| Decider::new(partition));
            let write = concrete(write, self.serial, decider);
            expected.push((number, decider.decide(&write)));
            batch.push(real(&write));
        }
        let results = collection.write_batch(batch, Some(durability));
        assert_eq!(results.len(), expected.len());
        for (number, decider) in deciders {
            let mine = expected
                .iter()
                .zip(&results)
                .filter(|((of, _), _)| *of == number);
            let mine: Vec<_> = mine
                .map(|((_, answer), result)| (*answer, result))
                .collect();
            self.written(name, number, decider.records, &mine, durability);
        }
    }

    /// Takes note of what a partition answered to its part of a batch.
    fn written(
        &mut self,
        name: &str,
        number: u32,
        records: Vec<Record>,
        answers: &[(Answer, &Result<Written, Error>)],
        durability: Durability,
    ) {
        let failed = answers.iter().find_map(|(_, result)| match result {
            Err(error) if !matches!(error.kind(), ErrorKind::Conflict | ErrorKind::NotFound) => {
                Some(error.clone())
            }
            _ => None,
        });
        if let Some(error) = failed {
            self.accept(&error, "write");
            let whole = answers.iter().all(|(_, result)| result.is_err());
            // Once the machine is gone, a write that has to read fails by itself; what is written then goes nowhere.
            assert!(
                whole || self.env.crashed(),
                "a batch was done in part: {answers:?}"
            );
            // Full means that nothing was written.
            if error.kind() != ErrorKind::Full && whole {
                self.partition(name, number)
                    .unwrap()
                    .doubt(records, durability);
            }
            return;
        }
        for (expected, result) in answers {
            assert_eq!(answer(result), *expected, "{result:?}");
        }
        let partition = self.partition(name, number).unwrap();
        partition.write(records);
        match durability {
            Durability::Sync => partition.durable = partition.last(),
            Durability::Async(delay) => {
                let (last, now) = (partition.last(), self.env.monotonic());
                self.partition(name, number)
                    .unwrap()
                    .durable_by
                    .push((last, now + delay));
            }
            Durability::None => {}
        }
        let model = self.collections.get_mut(name).unwrap();
        if durability == Durability::Sync && model.partitions[number as usize].last() > 0 {
            model.certain = true;
        }
    }

    /// Does what makes everything durable and visible, so that no doubt is left.
    fn settle_by(&mut self, c: u8, act: impl Fn(&quiredb::Collection) -> quiredb::Result<()>) {
        let Some(collection) = self.collection(name(c)) else {
            return;
        };
        if let Err(error) = act(&collection) {
            self.accept(&error, "sync, flush or compact");
            return;
        }
        self.observe(name(c), &collection);
        for partition in &mut self.collections.get_mut(name(c)).unwrap().partitions {
            partition.durable = partition.last();
            partition.no_more();
        }
    }

    fn reopen(&mut self, close: bool) {
        self.views.clear();
        if let Some(database) = self.database.take() {
            let closed = close.then(|| database.close());
            match closed {
                Some(Ok(())) => {
                    assert_eq!(database.flush().unwrap_err().kind(), ErrorKind::Closed);
                    for partition in self
                        .collections
                        .values_mut()
                        .flat_map(|collection| &mut collection.partitions)
                    {
                        partition.durable = partition.last();
                    }
                }
                Some(Err(error)) => self.accept(&error, "close"),
                None => {}
            }
        }
        if !self.env.crashed() {
            self.recover("opened again");
        }
    }

    /// Stops the machine and starts it again.
    fn restart(&mut self, seed: u64) {
        self.views.clear();
        let env = self.env.after_crash(seed);
        self.database = None;
        self.traces.extend(self.env.trace());
        self.env = env;
        self.trouble = match self.filled {
            true => Trouble::Full,
            false => Trouble::None,
        };
        self.recover("after a crash");
    }

    /// For many restarts of one machine.
    pub fn into_crashed(self) -> Crashed {
        let World {
            env,
            options,
            volumes,
            partitions,
            database,
            collections,
            views,
            serial,
            mut traces,
            ..
        } = self;
        drop(views);
        drop(database);
        traces.extend(env.trace());
        Crashed {
            env,
            options,
            volumes,
            partitions,
            collections,
            serial,
            traces,
        }
    }

    /// Opens the database and finds out which of what was in doubt is so. What is found on a machine that is well is
    /// durable.
    fn recover(&mut self, when: &str) {
        let mut database = self.open();
        if database.is_none() && !self.env.crashed() {
            self.heal();
            database = self.open();
        }
        let Some(database) = database else {
            assert!(
                self.env.crashed(),
                "{when}: the database does not open on a machine that is well"
            );
            return;
        };
        let found = database.collections();
        for name in &found {
            assert!(
                self.collections.contains_key(name.as_str()),
                "{when}: collection {name} was never made"
            );
        }
        let known: Vec<_> = self.collections.keys().copied().collect();
        for name in known {
            if !found.iter().any(|other| other == name) {
                assert!(
                    !self.collections[name].certain,
                    "{when}: collection {name} is gone"
                );
                self.collections.remove(name);
                continue;
            }
            let mut collection = self.collection(name);
            if collection.is_none() && !self.env.crashed() {
                self.heal();
                collection = self.collection(name);
            }
            let Some(collection) = collection else {
                assert!(
                    self.env.crashed(),
                    "{when}: collection {name} does not open on a machine that is well"
                );
                return;
            };
            self.settle(name, &collection, when);
        }
        if self.trouble == Trouble::Any {
            // Poison is gone with the files that had it; faults that are still planned are not.
            self.heal();
            self.trouble = Trouble::None;
            // What was found may have been kept from the disk by a sync that failed before. The first write that is
            // acknowledged makes it durable, or it would have to be refused.
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
        }
    }

    /// Compares how far each partition of a collection that was opened just now goes with what must be there.
    fn settle(&mut self, name: &'static str, collection: &quiredb::Collection, when: &str) {
        let positions = positions_of(&collection.view().unwrap());
        let model = self.collections.get_mut(name).unwrap();
        if !model.certain && model.partitions.iter().all(Partition::is_untouched) {
            // Creations that failed: any of them may have made it.
            *model = Collection::new(collection.settings().partitions);
        }
        assert_eq!(
            collection.settings().partitions as usize,
            model.partitions.len()
        );
        (model.certain, model.was_closed) = (true, false);
        for (number, position) in positions.into_iter().enumerate() {
            let (partition, when) = (
                &mut model.partitions[number],
                format!("{when}, collection {name}"),
            );
            if position > partition.last() {
                partition.found(
                    &records_after(collection, number, partition.last(), position),
                    false,
                    &when,
                );
            }
            partition.cut(position, &when);
            if self.trouble != Trouble::Any {
                partition.durable = position;
            }
        }
    }

    fn take_view(&mut self, name: &'static str) {
        let Some(collection) = self.collection(name) else {
            return;
        };
        let view = self.observe(name, &collection);
        let positions = positions_of(&view);
        let state = self.collections[name].state_at(&positions);
        self.views.push(HeldView {
            view,
            positions,
            state,
        });
    }

    fn look_at_views(&self) {
        for held in &self.views {
            assert_eq!(positions_of(&held.view), held.positions);
            check_view(&held.view, &held.state);
        }
    }

    fn check_all(&mut self) {
        for name in NAMES {
            self.check(name);
        }
    }

    /// Compares all that can be read of a collection with the model.
    fn check(&mut self, name: &'static str) {
        let Some(collection) = self.collection(name) else {
            return;
        };
        assert!(
            self.collections.contains_key(name),
            "collection {name} was never made"
        );
        let view = self.observe(name, &collection);
        let positions = positions_of(&view);
        let model = &self.collections[name];
        check_view(&view, &model.state_at(&positions));
        assert_eq!(collection.count().unwrap(), view.count());
        check_tail(&collection, model, &positions);
    }

    /// Writing goes on.
    fn write_on(&mut self) {
        let names: Vec<_> = self.collections.keys().copied().collect();
        for name in names {
            self.write(
                name,
                &[
                    history::put(1, 100),
                    history::put(2, 100),
                    history::delete(1),
                ],
                Durability::Sync,
            );
            self.write(name, &[history::put(3, 5_000)], Durability::None);
        }
    }

    /// Closes the database, verifies every byte of it and opens it again.
    fn verify(&mut self) {
        assert_eq!(self.trouble, Trouble::None);
        if let Some(database) = self.database.take() {
            database.close().unwrap();
            for partition in self
                .collections
                .values_mut()
                .flat_map(|collection| &mut collection.partitions)
            {
                partition.durable = partition.last();
            }
        }
        verify_env(&self.env, &self.volumes, self.collections.values());
        self.recover("after a verification");
    }
}

impl Crashed {
    /// Starts the machine again and checks everything; every other time also before the database is opened.
    pub fn restart(&self, seed: u64) -> World {
        let mut world = self.world(seed);
        if seed.is_multiple_of(2) && database_exists(&world.env) {
            // What a crash left is no damage, and looking at it takes nothing away.
            let report =
                quiredb::verify(world.env.clone(), self.volumes.clone(), &mut |_, _| {}).unwrap();
            assert_eq!(report.damage, [], "after a crash");
        }
        world.recover("after a crash");
        world.check_all();
        world
    }

    /// Starts the machine again, and once more after a crash at a step of the recovery, if it has that many.
    pub fn restart_and_crash_at(&self, step: u64, seed: u64) -> World {
        let mut world = self.world(seed);
        world.env.crash_at(step);
        world.recover("after a crash");
        world.restart(seed + 1);
        world.check_all();
        world
    }

    fn world(&self, seed: u64) -> World {
        World {
            env: self.env.after_crash(seed),
            options: self.options.clone(),
            volumes: self.volumes.clone(),
            partitions: self.partitions,
            database: None,
            collections: self.collections.clone(),
            views: Vec::new(),
            trouble: Trouble::None,
            filled: false,
            crash_seed: seed,
            serial: self.serial,
            traces: self.traces.clone(),
        }
    }
}

fn name(c: u8) -> &'static str {
    NAMES[usize::from(c) % NAMES.len()]
}
