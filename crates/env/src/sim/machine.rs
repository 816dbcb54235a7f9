//! The simulated machine behind one lock: every call comes through here, is counted, timed, made to
//! fail and traced.
//!
//! # Invariants
//! 1. What happens depends on the seed and on the calls alone, in their order.
//! 2. Once crashed, every call fails and changes nothing.
//! 3. No job, nor anything a job owns, runs or is dropped while the lock is held.

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

/// 2026-01-01T00:00:00Z in microseconds since 1970: every first machine is switched on then.
pub(super) const EPOCH_MICROS: u64 = 1_767_225_600_000_000;
/// The clock stops here, some 280,000 years on, so that no wait, however long, can wind it past its
/// type.
const CLOCK_MICROS_MAX: u64 = i64::MAX as u64 - EPOCH_MICROS;
/// What a call takes.
const CALL_TIME: Duration = Duration::from_micros(1);
const MIB: u128 = 1 << 20;
/// What a disk that was given no size says it holds: 1 TiB.
const CAPACITY_BYTES: u64 = 1 << 40;

/// The state of a machine.
pub(super) struct State {
    pub(super) tree: Tree,
    pub(super) rng: Rng,
    pub(super) plan: FaultPlan,
    pub(super) capacities: Capacities,
    pub(super) latency: Latency,
    /// Where disks have vanished so far: a handle fails if one did since it was opened, at a place
    /// that it lies below.
    pub(super) losses: Vec<Vec<String>>,
    pub(super) jobs: Jobs,
    pub(super) trace: Vec<String>,
    /// Steps so far.
    pub(super) steps: u64,
    /// Reads so far.
    pub(super) reads: u64,
    /// Microseconds since the first machine was switched on.
    clock_micros: u64,
    /// How far the wall clock is from where it would be.
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

    /// Looks at the machine or sets it up: no call of the program that it runs.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.0.lock())
    }

    /// The clock, which a look at it moves.
    pub(super) fn tick(&self) -> Duration {
        self.with(|state| {
            state.advance(CALL_TIME);
            state.clock()
        })
    }

    /// A read that reads no bytes of a file. `detail` goes into the trace.
    pub(super) fn look<T>(
        &self,
        op: &'static str,
        path: &Path,
        detail: &str,
        act: impl FnOnce(&mut State) -> io::Result<T>,
    ) -> Result<T> {
        self.read(op, path, detail, false, act)
    }

    /// A read, which changes nothing; `of_bytes` if of bytes of a file.
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

    /// A step that is carried out whole, or, where a fault is due, not at all. One at which the
    /// machine crashes is carried out too: nobody is told, and as nothing of it is durable yet, the
    /// crash decides what is left of it.
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

    /// A step that `act` carries out as far as the interruption lets it.
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

    /// Lets time pass.
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
        let cover = absence == Absence::Unmounted;
        self.tree.vanish(dir, cover, &mut rng)?;
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

    /// Bytes not in use there; none if the disk does not fill.
    fn free_bytes_of(&mut self, path: &Path) -> Option<u64> {
        if self.capacities.0.is_empty() {
            return None;
        }
        let mount = self.capacities.mount_of(&names_of(path));
        let capacity = self.capacities.of(mount)?;
        Some(capacity.saturating_sub(self.used_bytes(path)))
    }

    /// Bytes not in use there, for those who ask.
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

    /// How many of the bytes that `file` at `path` would take, were it to end at `end`, find no
    /// room.
    pub(super) fn shortage(&mut self, path: &Path, file: &FileRef, end: usize) -> usize {
        let Some(free) = self.free_bytes_of(path) else {
            return 0;
        };
        let free = usize::try_from(free).unwrap_or(usize::MAX);
        end.saturating_sub(file.lock().room()).saturating_sub(free)
    }

    /// Lets the time pass that so many bytes take.
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
