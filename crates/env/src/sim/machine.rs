//! The simulated machine behind one lock: every call comes through here, is counted, timed, interrupted and traced.
//!
//! # Invariants
//! 1. What happens depends on the seed and on the calls alone, in their order.
//! 2. Once crashed, every call fails and changes nothing.
//! 3. No job, nor anything a job owns, runs or is dropped while the lock is held.

use super::faults::{FaultPlan, Interruption};
use super::file::FileRef;
use super::jobs::Jobs;
use super::rng::Rng;
use super::tree::Tree;
use crate::{Error, Result};
use parking_lot::Mutex;
use rustix::io::Errno;
use std::io;
use std::path::Path;
use std::time::Duration;

/// 2026-01-01T00:00:00Z in microseconds since 1970: every first machine is switched on then.
pub(super) const EPOCH_MICROS: u64 = 1_767_225_600_000_000;
/// The clock stops here, some 280,000 years on, so that no wait, however long, can wind it past its type.
const CLOCK_MICROS_MAX: u64 = i64::MAX as u64 - EPOCH_MICROS;
/// What a call takes.
const CALL_TIME: Duration = Duration::from_micros(1);
/// What a disk that was given no size says it holds: 1 TiB.
const CAPACITY_BYTES: u64 = 1 << 40;

/// The state of a machine.
pub(super) struct State {
    pub(super) tree: Tree,
    pub(super) rng: Rng,
    pub(super) plan: FaultPlan,
    /// None: a disk that does not fill.
    pub(super) capacity_bytes: Option<u64>,
    pub(super) jobs: Jobs,
    pub(super) trace: Vec<String>,
    /// Steps so far.
    pub(super) steps: u64,
    /// Microseconds since the first machine was switched on.
    clock_micros: u64,
    crashed: bool,
}

/// See the module.
pub(super) struct Machine(Mutex<State>);

impl Machine {
    pub(super) fn new(
        seed: u64,
        tree: Tree,
        clock_micros: u64,
        capacity_bytes: Option<u64>,
    ) -> Machine {
        Machine(Mutex::new(State {
            tree,
            rng: Rng::new(seed),
            plan: FaultPlan::default(),
            capacity_bytes,
            jobs: Jobs::default(),
            trace: Vec::new(),
            steps: 0,
            clock_micros,
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

    /// A call that changes nothing: never interrupted. `detail` goes into the trace.
    pub(super) fn look<T>(
        &self,
        op: &'static str,
        path: &Path,
        detail: &str,
        act: impl FnOnce(&mut State) -> io::Result<T>,
    ) -> Result<T> {
        let mut state = self.0.lock();
        state.enter(op, path)?;
        let outcome = act(&mut state);
        state.leave(op, path, detail, outcome)
    }

    /// A step that is carried out whole, or, where a fault is due, not at all. One at which the machine crashes is carried
    /// out too: nobody is told, and as nothing of it is durable yet, the crash decides what is left of it.
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

    /// Bytes of the disk not in use.
    pub(super) fn free_bytes(&mut self) -> u64 {
        let capacity = self.capacity_bytes.unwrap_or(CAPACITY_BYTES);
        capacity.saturating_sub(self.tree.used_bytes())
    }

    /// ENOSPC for a new name on a full disk.
    pub(super) fn check_room_for(&mut self, path: &Path) -> io::Result<()> {
        if self.capacity_bytes.is_some() && self.free_bytes() == 0 && self.tree.find(path).is_err()
        {
            return Err(Errno::NOSPC.into());
        }
        Ok(())
    }

    /// How many of the bytes that `file` would take, were it to end at `end`, find no room.
    pub(super) fn shortage(&mut self, file: &FileRef, end: usize) -> usize {
        if self.capacity_bytes.is_none() {
            return 0;
        }
        let free = usize::try_from(self.free_bytes()).unwrap_or(usize::MAX);
        end.saturating_sub(file.lock().room()).saturating_sub(free)
    }

    fn enter(&mut self, op: &'static str, path: &Path) -> Result<()> {
        self.advance(CALL_TIME);
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
