//! The simulated machine behind one lock. Every call comes through here: it is counted, timed, made
//! to fail, and traced.
//!
//! # Invariants
//! 1. What happens depends only on the seed and on the calls, in their order.
//! 2. Once crashed, every call fails and changes nothing.
//! 3. No job, and nothing that a job owns, runs or is dropped while the lock is held.

use super::disks::{Absence, Capacities, Latency};
use super::faults::{FaultPlan, Interruption};
use super::file::FileRef;
use super::jobs::Jobs;
use super::rng::Rng;
use super::tree::{Tree, names_of};
use crate::{Error, Result};
use parking_lot::Mutex;
use rustix::io::Errno;
use std::io;
use std::path::Path;
use std::time::Duration;

/// 2026-01-01T00:00:00Z in microseconds since 1970: the start of every first machine.
pub(super) const EPOCH_MICROS: u64 = 1_767_225_600_000_000;
/// The clock stops here, some 280,000 years later, so that no wait overflows its type.
const CLOCK_MICROS_MAX: u64 = i64::MAX as u64 - EPOCH_MICROS;
/// The time that a call takes.
const CALL_TIME: Duration = Duration::from_micros(1);
const MIB: u128 = 1 << 20;
/// The free and used bytes of a disk without a size: 1 TiB.
const CAPACITY_BYTES: u64 = 1 << 40;

/// The state of a machine.
pub(super) struct State {
    pub(super) tree: Tree,
    pub(super) rng: Rng,
    pub(super) plan: FaultPlan,
    pub(super) capacities: Capacities,
    pub(super) latency: Latency,
    /// The directories of the disks that have vanished so far. A handle fails if a disk above it
    /// vanished since it was opened.
    pub(super) losses: Vec<Vec<String>>,
    pub(super) jobs: Jobs,
    pub(super) trace: Vec<String>,
    /// Steps so far.
    pub(super) steps: u64,
    /// Reads so far.
    pub(super) reads: u64,
    /// Microseconds since the first machine was switched on.
    clock_micros: u64,
    /// The shift of the wall clock.
    pub(super) wall_shift_micros: i64,
    crashed: bool,
}

/// See the module.
pub(super) struct SimMachine(Mutex<State>);

impl SimMachine {
    pub(super) fn new(seed: u64) -> SimMachine {
        SimMachine::with_disks(
            seed,
            Tree::new(),
            0,
            Capacities::default(),
            Latency::default(),
        )
    }

    pub(super) fn with_disks(
        seed: u64,
        tree: Tree,
        clock_micros: u64,
        capacities: Capacities,
        latency: Latency,
    ) -> SimMachine {
        SimMachine(Mutex::new(State {
            tree,
            rng: Rng::new(seed),
            plan: FaultPlan::default(),
            capacities,
            latency,
            losses: Vec::new(),
            jobs: Jobs::default(),
            trace: Vec::new(),
            steps: 0,
            reads: 0,
            clock_micros,
            wall_shift_micros: 0,
            crashed: false,
        }))
    }

    /// Inspects the machine or sets it up: not a call of the program that it runs.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.0.lock())
    }

    /// The clock. Reading it takes time too.
    pub(super) fn tick(&self) -> Duration {
        self.with(|state| {
            state.advance(CALL_TIME);
            state.clock()
        })
    }

    /// A read that returns no bytes of a file. `detail` is for the trace.
    pub(super) fn look<T>(
        &self,
        op: &'static str,
        path: &Path,
        detail: &str,
        act: impl FnOnce(&mut State) -> io::Result<T>,
    ) -> Result<T> {
        self.read(op, path, detail, false, act)
    }

    /// A read, which changes nothing. `of_bytes` says that it returns bytes of a file.
    pub(super) fn read<T>(
        &self,
        op: &'static str,
        path: &Path,
        detail: &str,
        of_bytes: bool,
        act: impl FnOnce(&mut State) -> io::Result<T>,
    ) -> Result<T> {
        let mut state = self.0.lock();
        state.enter(op, path)?;
        let allowed = state.plan.at_read(state.reads, path, of_bytes);
        state.reads += 1;
        let outcome = allowed.and_then(|()| act(&mut state));
        state.leave(op, path, detail, outcome)
    }

    /// A step that is carried out whole, or not at all if a fault is due. If the machine crashes at
    /// it, it is carried out too: the caller gets no answer, and nothing of it is durable yet, so
    /// the crash decides what is left of it.
    pub(super) fn change<T>(
        &self,
        op: &'static str,
        path: &Path,
        detail: &str,
        act: impl FnOnce(&mut State) -> io::Result<T>,
    ) -> Result<T> {
        self.step(
            op,
            path,
            detail,
            false,
            |state, interruption| match interruption {
                Some(Interruption::Fault(errno)) => Err(errno.into()),
                Some(Interruption::Crash) | None => act(state),
            },
        )
    }

    /// A step that `act` carries out as far as the interruption allows.
    pub(super) fn step<T>(
        &self,
        op: &'static str,
        path: &Path,
        detail: &str,
        is_sync: bool,
        act: impl FnOnce(&mut State, Option<Interruption>) -> io::Result<T>,
    ) -> Result<T> {
        let mut state = self.0.lock();
        state.enter(op, path)?;
        if let Some((when, dir, absence)) = state.plan.vanish_at.take() {
            match when == state.steps {
                true => drop(state.vanish(&dir, absence)),
                false => state.plan.vanish_at = Some((when, dir, absence)),
            }
        }
        assert!(!state.crashed, "no step runs after a crash");
        let interruption = state.plan.at(state.steps, is_sync);
        state.steps += 1;
        let outcome = act(&mut state, interruption);
        if interruption == Some(Interruption::Crash) {
            state.crashed = true;
            state.note(format_args!("crash at: {op} {} {detail}", path.display()));
            return Err(Error::Crashed {
                op,
                path: path.to_path_buf(),
            });
        }
        state.leave(op, path, detail, outcome)
    }
}

impl State {
    pub(super) fn crashed(&self) -> bool {
        self.crashed
    }

    /// Time since the first machine was switched on.
    pub(super) fn clock(&self) -> Duration {
        Duration::from_micros(self.clock_micros)
    }

    pub(super) fn clock_micros(&self) -> u64 {
        self.clock_micros
    }

    /// Advances the clock.
    pub(super) fn advance(&mut self, by: Duration) {
        let micros = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
        self.clock_micros = self
            .clock_micros
            .saturating_add(micros)
            .min(CLOCK_MICROS_MAX);
    }

    /// Adds to the trace.
    pub(super) fn note(&mut self, what: std::fmt::Arguments<'_>) {
        self.trace.push(format!("{} {what}", self.clock_micros));
    }

    pub(super) fn vanish(&mut self, dir: &Path, absence: Absence) -> io::Result<()> {
        let mut rng = Rng::new(self.rng.next());
        let unmounted = absence == Absence::Unmounted;
        self.tree.vanish(dir, unmounted, &mut rng)?;
        self.losses.push(names_of(dir));
        self.note(format_args!("vanish {} {absence:?}", dir.display()));
        Ok(())
    }

    /// Bytes in use on the disk that holds `path`.
    pub(super) fn used_bytes(&mut self, path: &Path) -> u64 {
        let State {
            tree, capacities, ..
        } = self;
        let mount = capacities.mount_of(&names_of(path));
        tree.used_bytes(|dir| capacities.mount_of(dir) == mount)
    }

    /// Free bytes there; `None` if the disk never fills.
    fn free_bytes_of(&mut self, path: &Path) -> Option<u64> {
        if self.capacities.0.is_empty() {
            return None;
        }
        let mount = self.capacities.mount_of(&names_of(path));
        let capacity = self.capacities.of(mount)?;
        Some(capacity.saturating_sub(self.used_bytes(path)))
    }

    /// Free bytes there, as the program sees them.
    pub(super) fn free_bytes(&mut self, path: &Path) -> u64 {
        let free = self.free_bytes_of(path);
        free.unwrap_or_else(|| CAPACITY_BYTES.saturating_sub(self.used_bytes(path)))
    }

    /// ENOSPC for a new name on a full disk.
    pub(super) fn check_room_for(&mut self, path: &Path) -> io::Result<()> {
        if self.free_bytes_of(path) == Some(0) && self.tree.find(path).is_err() {
            return Err(Errno::NOSPC.into());
        }
        Ok(())
    }

    /// The number of bytes without disk space, if `file` at `path` were to end at `end`.
    pub(super) fn shortage(&mut self, path: &Path, file: &FileRef, end: usize) -> usize {
        let Some(free) = self.free_bytes_of(path) else {
            return 0;
        };
        let free = usize::try_from(free).unwrap_or(usize::MAX);
        end.saturating_sub(file.lock().room()).saturating_sub(free)
    }

    /// Advances the clock by the time that a transfer of `bytes` takes.
    pub(super) fn transfer(&mut self, bytes: usize) {
        let nanos = self.latency.per_mib.as_nanos() * bytes as u128 / MIB;
        let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
        self.advance(Duration::from_nanos(nanos));
    }

    fn enter(&mut self, op: &'static str, path: &Path) -> Result<()> {
        self.advance(CALL_TIME + self.latency.per_operation);
        if !self.latency.jitter.is_zero() {
            let jitter = usize::try_from(self.latency.jitter.as_micros()).unwrap_or(usize::MAX);
            let jitter = self.rng.up_to(jitter) as u64;
            self.advance(Duration::from_micros(jitter));
        }
        if self.crashed {
            return Err(Error::Crashed {
                op,
                path: path.to_path_buf(),
            });
        }
        Ok(())
    }

    fn leave<T>(
        &mut self,
        op: &'static str,
        path: &Path,
        detail: &str,
        outcome: io::Result<T>,
    ) -> Result<T> {
        let shown = path.display();
        match &outcome {
            Ok(_) => self.note(format_args!("{op} {shown} {detail}")),
            Err(error) => self.note(format_args!("{op} {shown} {detail}: {error}")),
        }
        outcome.map_err(|error| Error::io(op, path, error))
    }
}
