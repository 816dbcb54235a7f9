//! A simulated machine, a store of counters on it, and the model of its contents.
//!
//! It checks what the world of documents checks: answers, views, durability promises, groups that
//! are whole or absent, and that trees and log agree.

use super::machine::{Counters, LAST, Record, State, VALUES, key, number, state_of};
use super::{History, Op};
use crate::sim::rng::Rng;
use quire_env::{Env, Fault, SimEnv};
use quire_store::{Error, ErrorKind, Place, Shared, Store, StoreOptions, TreeId, View};
use quiredb::{Durability, Position, Volumes};
use std::collections::BTreeSet;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Counters that no history uses: never there.
const ABSENT: std::ops::Range<u16> = 5_000..5_020;

/// A batch that failed.
#[derive(Debug)]
struct InDoubt {
    records: Vec<Record>,
    /// Whether it was to be durable before it was visible.
    sync: bool,
}

/// Two failures: see [`World::fail_twice`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    pub(super) order: Order,
    /// When the first happens.
    pub(super) step: u64,
    /// The step of the next opening at which the second happens; for a full disk, its free space.
    pub(super) recovery: u64,
    pub(super) seed: u64,
}

/// Which failures, and their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    FaultThenCrash,
    CrashThenFault,
    FaultThenFull,
}

/// What the owner does after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AfterFailure {
    /// One of these.
    Anything,
    Nothing,
}

/// See the module.
#[derive(Debug)]
pub(super) struct World {
    env: Arc<SimEnv>,
    memory_bytes: u64,
    options: StoreOptions,
    store: Option<Store<Counters>>,
    /// The acknowledged records: views show all of them.
    records: Vec<Record>,
    /// Positions where batches end.
    ends: BTreeSet<u64>,
    /// Failed batches, any of which may follow the records, each whole or not at all.
    in_doubt: Vec<InDoubt>,
    /// The last position that a crash must leave.
    durable: u64,
    /// Positions that become durable by background work alone, and the time by which they do.
    durable_by: Vec<(u64, Duration)>,
    views: Vec<(Arc<View<u64>>, State)>,
    /// Any step may fail.
    trouble: bool,
    crash_seed: u64,
    /// What the owner does after a failure.
    after_failure: AfterFailure,
    /// Compare everything after each step.
    watched: bool,
    rng: Rng,
    /// The trace of the machines before this one.
    traces: Vec<String>,
    /// Index of the operation that is running.
    pub(super) step: usize,
}

impl World {
    pub(super) fn new(history: &History) -> World {
        let mut options = StoreOptions {
            replay_bytes_max: history.replay_bytes_max,
            ..StoreOptions::default()
        };
        options.log.block_bytes = history.block_bytes;
        options.log.segment_bytes = history.segment_bytes;
        options.log.reserve_bytes = 4 << 10;
        World {
            env: SimEnv::new(history.seed),
            memory_bytes: history.memory_bytes,
            options,
            store: None,
            records: Vec::new(),
            ends: BTreeSet::new(),
            in_doubt: Vec::new(),
            durable: 0,
            durable_by: Vec::new(),
            views: Vec::new(),
            trouble: false,
            crash_seed: 0,
            after_failure: AfterFailure::Anything,
            watched: history.seed.is_multiple_of(4),
            rng: Rng::new(history.seed),
            traces: Vec::new(),
            step: 0,
        }
    }

    /// Runs all operations, restarts the machine after each crash, and checks the end.
    pub(super) fn run(&mut self, ops: &[Op]) {
        for op in ops {
            self.perform(op);
            if self.env.crashed() {
                self.restart(self.crash_seed);
            } else if self.watched && self.store.is_some() {
                self.look_at_views();
                self.check();
            }
            self.step += 1;
        }
        self.finish();
    }

    /// The trace of all machines of this world.
    pub(super) fn trace(&self) -> Vec<String> {
        let mut trace = self.traces.clone();
        trace.extend(self.env.trace());
        trace
    }

    /// I/O steps of a history without faults.
    pub(super) fn steps(&mut self, ops: &[Op]) -> u64 {
        ops.iter().for_each(|op| self.perform(op));
        self.env.operations()
    }

    /// Runs operations up to the one that meets a fault, or a crash, at `step`. Opens the store
    /// again, with the other of the two at step `recovery` of that. If that was the fault, opens it
    /// once more. Then crashes in any case.
    pub(super) fn fail_twice(&mut self, ops: &[Op], case: Case) {
        self.after_failure = AfterFailure::Nothing;
        self.trouble = case.order != Order::CrashThenFault;
        match case.order {
            Order::CrashThenFault => self.env.crash_at(case.step),
            Order::FaultThenCrash | Order::FaultThenFull => {
                self.env.fail_at(case.step, Fault::Eio);
            }
        }
        for op in ops {
            if self.env.operations() > case.step || self.env.crashed() {
                break;
            }
            self.perform(op);
            self.step += 1;
        }
        match case.order {
            Order::CrashThenFault => {
                (self.views, self.store) = (Vec::new(), None);
                self.traces.extend(self.env.trace());
                self.env = self.env.after_crash(case.seed);
                self.trouble = true;
                let step = self.env.operations() + case.recovery;
                self.env.fail_at(step, Fault::Eio);
                self.reopen(false);
                self.reopen(false);
            }
            Order::FaultThenCrash => {
                self.env.crash_at(self.env.operations() + case.recovery);
                self.reopen(false);
            }
            Order::FaultThenFull => {
                let used = self.env.used_bytes(Path::new("/"));
                self.env.set_capacity(used + 40 * case.recovery);
                self.reopen(false);
                self.settle_by(Store::sync);
                self.reopen(true);
            }
        }
        self.env.set_capacity(u64::MAX);
        self.restart(case.seed + 1);
        self.after_failure = AfterFailure::Anything;
        self.finish();
    }

    fn finish(&mut self) {
        self.heal();
        self.look_at_views();
        self.perform(&Op::Reopen { close: true });
        self.check();
        let one = Record::Change {
            keys: 0..2,
            times: 1,
            plus: 1,
        };
        self.write(&[one], Durability::Sync);
        self.perform(&Op::Compact);
        self.check();
    }

    fn perform(&mut self, op: &Op) {
        match op {
            Op::Write(records, durability) => self.write(records, *durability),
            Op::Sync => self.settle_by(Store::sync),
            Op::Flush => self.settle_by(Store::flush),
            Op::Compact => self.settle_by(Store::compact),
            Op::Check => self.check(),
            Op::View => {
                if let Some(store) = self.open() {
                    let view = self.observe(&store);
                    let state = state_of(&self.records[..view.position().0 as usize]);
                    self.views.push((view, state));
                }
            }
            Op::LookAtViews => {
                self.look_at_views();
                self.views.pop();
            }
            Op::Run(time) => {
                self.run_due();
                self.env.advance(*time);
                self.run_due();
            }
            Op::Advance(time) => self.env.advance(*time),
            Op::Reopen { close } => self.reopen(*close),
            Op::Crash { seed } => self.restart(*seed),
            Op::CrashIn { steps, seed } => {
                self.env.crash_at(self.env.operations() + steps);
                self.crash_seed = *seed;
            }
            Op::FailIn {
                steps,
                full,
                lasting,
            } => {
                let fault = if *full { Fault::Enospc } else { Fault::Eio };
                let step = self.env.operations() + steps;
                match lasting {
                    true => self.env.fail_from(step, fault),
                    false => self.env.fail_at(step, fault),
                }
                self.trouble = true;
            }
            Op::FailSyncs => {
                self.env.fail_syncs(true);
                self.trouble = true;
            }
            Op::Heal => self.heal(),
        }
    }

    /// Ends all faults. What was found then may be missing from the disk because an earlier sync
    /// failed: the first acknowledged write makes it durable, or is refused.
    fn heal(&mut self) {
        self.env.heal();
        if !self.trouble || self.env.crashed() {
            return;
        }
        self.reopen(false);
        self.trouble = false;
        let one = Record::Change {
            keys: 0..1,
            times: 2,
            plus: 1,
        };
        self.write(&[one], Durability::Sync);
    }

    /// Stops the machine and starts it again.
    fn restart(&mut self, seed: u64) {
        self.views.clear();
        self.store = None;
        self.traces.extend(self.env.trace());
        self.env = self.env.after_crash(seed);
        self.trouble = false;
        assert!(self.open().is_some(), "it opens after a crash");
    }

    fn reopen(&mut self, close: bool) {
        self.views.clear();
        if let Some(store) = self.store.take()
            && close
        {
            match store.close() {
                Ok(()) => self.durable = self.records.len() as u64,
                Err(error) => self.accept(&error, "close"),
            }
        }
        self.open();
    }

    fn open(&mut self) -> Option<Store<Counters>> {
        if let Some(store) = &self.store {
            return Some(store.clone());
        }
        match self.try_open() {
            Ok(store) => {
                self.settle(&store);
                self.store = Some(store.clone());
                Some(store)
            }
            Err(error) => {
                self.accept(&error, "open");
                None
            }
        }
    }

    fn try_open(&self) -> Result<Store<Counters>, Error> {
        let env: Arc<dyn Env> = self.env.clone();
        let place = Place {
            volumes: Volumes::single("/db"),
            subdir: "counters".into(),
            identity: *b"counters in test",
        };
        let shared = Shared::new(Arc::clone(&env), self.memory_bytes, None);
        match Store::<Counters>::create(&shared, &place) {
            Ok(()) | Err(Error::Exists { .. }) => {}
            Err(error) => return Err(error),
        }
        Store::open(shared, place, self.options.clone(), env.gate())
    }

    /// Fails unless the present faults may cause this error.
    #[track_caller]
    fn accept(&self, error: &Error, doing: &str) {
        use ErrorKind::{Closed, Full, Io, ReadOnly};
        let kind = error.kind();
        let expected = self.trouble && matches!(kind, Io | Full | ReadOnly | Closed);
        assert!(
            self.env.crashed() || expected,
            "{doing}: {error} ({kind:?}), trouble: {}",
            self.trouble
        );
    }

    /// Compares what an opening found with what must be there.
    fn settle(&mut self, store: &Store<Counters>) {
        let found = records_of(store);
        let last = found.len() as u64;
        if found.len() > self.records.len() {
            self.found(&found, false);
        }
        assert!(
            last >= self.durable,
            "position {last}, but {} was promised to stay",
            self.durable
        );
        assert!(
            last == 0 || self.ends.contains(&last),
            "position {last} is inside a batch; batches end at {:?}",
            self.ends
        );
        self.records.truncate(found.len());
        assert!(self.records == found, "the log holds {found:?}");
        self.ends.retain(|end| *end <= last);
        self.in_doubt.clear();
        self.durable_by.clear();
        if !self.trouble {
            self.durable = last;
        }
    }

    /// Notes that the log continues as `found` does: each batch in doubt is there, in order, or is
    /// not.
    fn found(&mut self, found: &[Record], seen: bool) {
        let mut rest = &found[self.records.len()..];
        while !rest.is_empty() {
            assert!(
                !self.in_doubt.is_empty(),
                "records that nobody wrote, or half a batch: {rest:?}"
            );
            let InDoubt { records, sync } = self.in_doubt.remove(0);
            if let Some(after) = rest.strip_prefix(records.as_slice()) {
                rest = after;
                self.acknowledged(records);
                if seen && sync {
                    self.durable = self.records.len() as u64;
                }
            }
        }
    }

    fn acknowledged(&mut self, records: Vec<Record>) {
        self.records.extend(records);
        self.ends.insert(self.records.len() as u64);
    }

    /// A view of now, which decides some of the batches in doubt.
    fn observe(&mut self, store: &Store<Counters>) -> Arc<View<u64>> {
        let view = store.view().unwrap();
        let position = view.position().0 as usize;
        assert!(
            position >= self.records.len(),
            "a view at {position} misses what was acknowledged: {} records",
            self.records.len()
        );
        if position > self.records.len() {
            self.found(&records_of(store)[..position], true);
        }
        view
    }

    fn write(&mut self, records: &[Record], durability: Durability) {
        let Some(store) = self.open() else { return };
        let written = store.write(durability, |transaction| {
            for record in records {
                transaction.append(record.encode());
            }
            Ok::<_, Error>(())
        });
        match written {
            Ok(()) => {
                self.acknowledged(records.to_vec());
                let last = self.records.len() as u64;
                match durability {
                    Durability::Sync => self.durable = last,
                    Durability::Async(delay) => {
                        self.durable_by.push((last, self.env.monotonic() + delay));
                    }
                    Durability::None => {}
                }
            }
            // Views hold memory that the store needs.
            Err(error) if error.kind() == ErrorKind::Full && !self.views.is_empty() => {
                self.views.clear();
            }
            Err(error) => {
                self.accept(&error, "write");
                if error.kind() != ErrorKind::Full {
                    self.in_doubt.push(InDoubt {
                        records: records.to_vec(),
                        sync: durability == Durability::Sync,
                    });
                    self.after_failed_write(&store);
                }
            }
        }
    }

    /// If a sync succeeds later, or a view shows the records, they stay. Then the store is opened
    /// again.
    fn after_failed_write(&mut self, store: &Store<Counters>) {
        if self.env.crashed() {
            return;
        }
        let synced = store.sync().is_ok();
        self.observe(store);
        if synced {
            self.durable = self.records.len() as u64;
        }
        match self.after_failure {
            AfterFailure::Nothing => {}
            AfterFailure::Anything if self.rng.one_in(2) => {
                let seed = self.rng.next();
                self.restart(seed);
            }
            AfterFailure::Anything => self.heal(),
        }
    }

    /// An owner that sees a flush fail may restart the store or the machine.
    fn after_failed_flush(&mut self) {
        if self.env.crashed() || self.after_failure == AfterFailure::Nothing {
            return;
        }
        match self.rng.within(0..=3) {
            0 => self.reopen(false),
            1 => {
                let seed = self.rng.next();
                self.restart(seed);
            }
            _ => {}
        }
    }

    /// Makes everything durable and visible.
    fn settle_by(&mut self, act: impl Fn(&Store<Counters>) -> Result<(), Error>) {
        let Some(store) = self.open() else { return };
        if let Err(error) = act(&store) {
            self.accept(&error, "sync, flush or compact");
            self.after_failed_flush();
            return;
        }
        self.observe(&store);
        self.durable = self.records.len() as u64;
        self.in_doubt.clear();
    }

    fn run_due(&mut self) {
        let now = self.env.monotonic();
        self.env.run_due();
        if !self.trouble && !self.env.crashed() {
            for (position, _) in self.durable_by.extract_if(.., |(_, due)| *due <= now) {
                self.durable = self.durable.max(position);
            }
        }
    }

    fn look_at_views(&self) {
        for (view, state) in &self.views {
            check_view(view, state);
        }
    }

    fn check(&mut self) {
        if let Some(store) = self.open() {
            let view = self.observe(&store);
            check_view(&view, &state_of(&self.records));
            assert!(records_of(&store) == self.records, "the log changed");
        }
    }
}

/// All visible records of the log.
fn records_of(store: &Store<Counters>) -> Vec<Record> {
    let tail = store.tail(Position(0)).unwrap().zip(1..);
    let records = tail.map(|(item, expected)| {
        let (position, record) = item.unwrap();
        assert_eq!(position.0, expected);
        Record::decode(&record).expect("a record that was written")
    });
    records.collect()
}

/// Reads a view in every way.
fn check_view(view: &View<u64>, state: &State) {
    assert_eq!(*view.summary(), view.position().0, "records applied");
    let expected: Vec<_> = state.iter().map(|(n, entry)| (key(*n), *entry)).collect();
    let scan = |from: Bound<&[u8]>, to: Bound<&[u8]>| -> Vec<(Vec<u8>, (u64, u64))> {
        let tree = |id: TreeId| {
            let items = view.tree(id).unwrap().scan(from, to).unwrap();
            items.map(|item| {
                let (key, value) = item.unwrap();
                (key.to_vec(), number(&value).unwrap())
            })
        };
        let (values, last): (Vec<_>, Vec<_>) = (tree(VALUES).collect(), tree(LAST).collect());
        assert_eq!(values.len(), last.len(), "entries of the trees");
        let both = values.into_iter().zip(last);
        both.map(|((key, value), (other, last))| {
            assert_eq!(key, other);
            (key, (value, last))
        })
        .collect()
    };
    assert_same(&scan(Bound::Unbounded, Bound::Unbounded), &expected, "scan");
    if let [_, middle @ .., _] = expected.as_slice()
        && let [(first, _), .., (last, _)] = middle
    {
        let (from, to) = (
            Bound::Included(first.as_slice()),
            Bound::Included(last.as_slice()),
        );
        assert_same(&scan(from, to), middle, "scan of a range");
        let (from, to) = (
            Bound::Excluded(first.as_slice()),
            Bound::Excluded(last.as_slice()),
        );
        assert_same(
            &scan(from, to),
            &middle[1..middle.len() - 1],
            "scan inside a range",
        );
    }
    // Of many counters, some.
    let stride = state.len().div_ceil(100).max(1);
    let some = state.keys().copied().step_by(stride).chain(ABSENT);
    for counter in some.chain(state.keys().map(|key| key + 1).step_by(stride)) {
        let get = |id: TreeId| view.tree(id).unwrap().get(&key(counter)).unwrap();
        let found = get(VALUES).zip(get(LAST));
        let found = found.map(|(value, last)| (number(&value).unwrap(), number(&last).unwrap()));
        assert_eq!(found.as_ref(), state.get(&counter), "counter {counter}");
    }
}

/// Like `assert_eq`, but shows only what differs.
fn assert_same<T: PartialEq + std::fmt::Debug>(found: &[T], expected: &[T], what: &str) {
    let same = found
        .iter()
        .zip(expected)
        .take_while(|(one, other)| one == other);
    let at = same.count();
    assert!(
        found == expected,
        "{what}, entry {at}: {:?} and not {:?}; {} entries and not {}",
        found.get(at),
        expected.get(at),
        found.len(),
        expected.len()
    );
}
