//! A world: a simulated machine, a database on it, and the model of its answers.
//!
//! # What is checked
//! 1. An answer is that of the model. An error is one that the present [trouble](trouble::Trouble)
//!    may cause.
//! 2. Every later view shows what was acknowledged; positions never go back.
//! 3. A crash leaves a prefix of each log that ends where a batch does, with all that was promised
//!    durable.
//! 4. A failed batch is there whole or not at all; once a reader has seen which, that stays.
//! 5. A view shows the same for as long as it is held.
//! 6. After all faults end, the database opens, can be written, and verifies without damage.
//! 7. A row of the wide collection has the cells of all column groups as of one write, wherever
//!    they have moved.

mod backup;
mod collections;
mod crashed;
mod follower;
mod look;
mod open;
mod rot;
mod trouble;
mod wide;
mod writes;

pub(crate) use crashed::Crashed;

use super::history::{End, History, Name, Op};
use super::model::{Collection, Partition, State};
use super::run::RunStats;
use super::wide::model::Wide;
use backup::Snapshot;
use follower::Follower;
use quire_env::{Env, SimEnv};
use quiredb::{CollectionSettings, Database, DatabaseOptions, View, Volumes};
use rot::Rotten;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use trouble::{Reads, Trouble};

/// See the module.
#[derive(Debug)]
pub(crate) struct World {
    /// The present machine: another one after each restart.
    pub(crate) env: Arc<SimEnv>,
    options: DatabaseOptions,
    volumes: Volumes,
    /// Of collections that are made.
    settings: CollectionSettings,
    database: Option<Database>,
    collections: BTreeMap<Name, Collection>,
    /// The wide collection, once it was made.
    wide: Option<Wide>,
    views: Vec<HeldView>,
    backups: Vec<Snapshot>,
    follower: Option<Follower>,
    /// The highest number that a snapshot can have.
    snapshot_max: u64,
    trouble: Trouble,
    /// The faults that reads may meet, as long as there are any.
    reads: Reads,
    rotten: Vec<Rotten>,
    /// A disk has vanished.
    vanished: bool,
    /// The disk has little free space. That outlasts a crash.
    filled: bool,
    /// The number of errors, all of them caused by faults.
    excused: Cell<u64>,
    /// The seed of the crash that is planned.
    crash_seed: u64,
    /// Compare everything after each step. Most worlds do not: a comparison also settles what was
    /// in doubt, and fills the cache.
    watched: bool,
    /// Numbers writes.
    serial: u64,
    /// Index of the operation that is running.
    pub(crate) step: usize,
    /// Of the machines before this one.
    past: RunStats,
    /// Of the machines before this one.
    traces: Vec<String>,
}

/// A view and what it must show.
#[derive(Debug)]
struct HeldView {
    name: Name,
    view: View,
    positions: Vec<u64>,
    state: State,
}

impl World {
    /// An empty machine, no database opened yet.
    pub(crate) fn new(history: &History) -> World {
        World {
            env: SimEnv::new(history.seed),
            options: history.options(),
            volumes: history.volumes(),
            settings: history.settings(),
            database: None,
            collections: BTreeMap::new(),
            wide: None,
            views: Vec::new(),
            backups: Vec::new(),
            follower: None,
            snapshot_max: 0,
            trouble: Trouble::None,
            reads: Reads::Whole,
            rotten: Vec::new(),
            vanished: false,
            filled: false,
            excused: Cell::new(0),
            crash_seed: history.seed,
            watched: history.seed.is_multiple_of(4),
            serial: 0,
            step: 0,
            past: RunStats {
                histories: 1,
                ..RunStats::default()
            },
            traces: Vec::new(),
        }
    }

    /// Runs all operations, restarting the machine wherever it crashes, and checks the end.
    pub(crate) fn run(&mut self, ops: &[Op]) {
        for op in ops {
            self.perform(op);
            if self.env.crashed() {
                self.restart(self.crash_seed);
            } else if self.watched && self.trouble == Trouble::None && self.database.is_some() {
                self.look_at_views();
                for name in self.collections.keys().copied().collect::<Vec<_>>() {
                    self.check(name);
                }
                self.check_wide();
            }
            self.step += 1;
        }
        self.finish();
    }

    /// Runs operations until the machine crashes; false if it does not.
    pub(crate) fn run_until_crash(&mut self, ops: &[Op]) -> bool {
        for op in ops {
            self.perform(op);
            if self.env.crashed() {
                return true;
            }
            self.step += 1;
        }
        false
    }

    /// Checks what must hold at the end of any history: everything can be read, verified, closed,
    /// opened and written to.
    pub(crate) fn finish(&mut self) {
        self.heal();
        self.look_at_views();
        self.reopen(End::Close);
        self.check_all();
        self.write_on();
        self.verify();
        self.check_all();
    }

    /// The trace of all machines of this world.
    pub(crate) fn trace(&self) -> Vec<String> {
        let mut trace = self.traces.clone();
        trace.extend(self.env.trace());
        trace
    }

    /// The totals until now.
    pub(crate) fn stats(&self) -> RunStats {
        let mut stats = self.past;
        stats += RunStats::of_trace(&self.env.trace());
        stats.io_steps += self.env.operations();
        stats
    }

    /// Runs one operation on the database and on the model, and compares their answers.
    pub(crate) fn perform(&mut self, op: &Op) {
        self.past.operations += 1;
        match op {
            Op::Write {
                name,
                durability,
                writes,
            } => self.write(*name, writes, *durability),
            Op::Wide(op) => self.perform_wide(op),
            Op::Sync(name) => {
                self.settle_by(*name, |collection| collection.sync());
            }
            Op::Flush(name) => {
                self.settle_by(*name, |collection| collection.flush());
            }
            Op::Compact(name) => {
                if self.settle_by(*name, |collection| collection.compact()) {
                    self.check_compacted(*name);
                }
            }
            Op::Index(name, all) => self.index(*name, *all),
            Op::Split(name) => self.split(*name),
            Op::Merge(name) => self.merge(*name),
            Op::Create(name, partitions) => self.create(*name, *partitions),
            Op::Drop(name) => self.drop_collection(*name),
            Op::Check(name) => self.check(*name),
            Op::View(name) => self.take_view(*name),
            Op::LookAtViews => {
                self.look_at_views();
                if !self.views.is_empty() {
                    self.views.remove(0);
                }
            }
            Op::Verify => {
                if self.trouble == Trouble::None {
                    self.verify();
                }
            }
            Op::VerifyRotten { seed } => {
                if self.trouble == Trouble::None {
                    self.verify_rotten(*seed);
                }
            }
            Op::Rebuild(name) => self.rebuild(*name),
            Op::Backup => self.backup(),
            Op::Restore { seed } => self.restore(*seed),
            Op::Repair => {
                if self.trouble == Trouble::None {
                    self.repair();
                }
            }
            Op::Follow => self.follow(),
            Op::RunDue => self.run_due(),
            Op::RunAll => self.run_all(),
            Op::Advance(millis) => self.env.advance(Duration::from_millis((*millis).into())),
            Op::Reopen(end) => self.reopen(*end),
            Op::Crash { seed } => self.restart(*seed),
            Op::CrashIn { steps, seed } => self.crash_in(*steps, *seed),
            Op::FailIn {
                steps,
                full,
                lasting,
            } => self.fail_in(*steps, *full, *lasting),
            Op::FailReadIn {
                reads,
                short,
                lasting,
            } => self.fail_read_in(*reads, *short, *lasting),
            Op::FailSyncs => self.fail_syncs(),
            Op::Rot { seed } => self.rot(*seed),
            Op::Vanish(volume) => self.vanish(*volume),
            Op::Slow(micros) => self.slow(*micros),
            Op::Fill(spare) => self.fill(Path::new("/"), *spare),
            Op::FillVolume(volume, spare) => {
                if let Some(dir) = self.volume_dir(*volume) {
                    self.fill(&dir, *spare);
                }
            }
            Op::Heal => self.heal(),
        }
    }

    /// Runs the jobs that are due, and those that they schedule within seconds. It does not run all
    /// jobs: on a machine that fails or has crashed, jobs are retried for ever.
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
            for partition in self.all_partitions() {
                partition.background_done(now);
            }
            for partition in self.wide.iter_mut().flat_map(|wide| &mut wide.partitions) {
                partition.background_done(now);
            }
        }
    }

    fn all_partitions(&mut self) -> impl Iterator<Item = &mut Partition> {
        self.collections
            .values_mut()
            .flat_map(|collection| &mut collection.partitions)
    }

    fn partition(&mut self, name: Name, number: u32) -> Option<&mut Partition> {
        self.collections
            .get_mut(&name)?
            .partitions
            .get_mut(number as usize)
    }
}
