//! Runs a history, and catches its panics.

use super::history::History;
use super::world::World;
use std::cell::RefCell;
use std::fmt;
use std::ops::AddAssign;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

/// The totals of one or more runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunStats {
    /// Histories.
    pub histories: u64,
    /// Operations of them.
    pub operations: u64,
    /// Changes of the disk.
    pub io_steps: u64,
    /// Crashes.
    pub crashes: u64,
    /// Calls that failed by an injected fault.
    pub faults: u64,
    /// Openings of a database that was not closed.
    pub recoveries: u64,
    /// Bytes appended to files.
    pub bytes_written: u64,
}

impl RunStats {
    /// The totals in the trace of a machine.
    pub(crate) fn of_trace(trace: &[String]) -> RunStats {
        let mut stats = RunStats::default();
        for line in trace {
            let mut words = line.split(' ').skip(1);
            if words.next() == Some("append") {
                // "append to PATH at OFFSET, N bytes HASH"
                let bytes = words.nth(4).and_then(|bytes| bytes.parse::<u64>().ok());
                stats.bytes_written += bytes.unwrap_or(0);
            }
            let fault = ["Input/output error", "No space left", "end of file"]
                .iter()
                .any(|fault| line.contains(fault));
            stats.faults += u64::from(fault);
        }
        stats
    }
}

impl AddAssign for RunStats {
    fn add_assign(&mut self, other: RunStats) {
        self.histories += other.histories;
        self.operations += other.operations;
        self.io_steps += other.io_steps;
        self.crashes += other.crashes;
        self.faults += other.faults;
        self.recoveries += other.recoveries;
        self.bytes_written += other.bytes_written;
    }
}

impl fmt::Display for RunStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} histories, {} operations, {} I/O steps, {} crashes, {} faults, {} recoveries, {} \
             bytes written",
            self.histories,
            self.operations,
            self.io_steps,
            self.crashes,
            self.faults,
            self.recoveries,
            self.bytes_written
        )
    }
}

/// A history that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Index of the operation that failed; the number of operations if the end did.
    pub step: usize,
    /// What went wrong.
    pub message: String,
    /// The place in the source that found it: `file:line`.
    pub place: String,
    /// The trace of the machines until then.
    pub trace: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "operation {}: {} ({})",
            self.step, self.message, self.place
        )
    }
}

/// Runs a history on a new machine and a new model, comparing them as it goes and at the end.
///
/// # Errors
/// The first failure: a wrong answer, an error, a panic.
pub fn run(history: &History) -> Result<RunStats, Failure> {
    attempt(World::new(history), |world| world.run(&history.ops)).map(|world| world.stats())
}

/// Runs a history, and returns the trace of its machines. The same for the same history.
///
/// # Errors
/// As of [`run`].
pub fn trace(history: &History) -> Result<Vec<String>, Failure> {
    attempt(World::new(history), |world| world.run(&history.ops)).map(|world| world.trace())
}

/// Does something in a world, and returns the world if all was right.
pub(crate) fn attempt(mut world: World, act: impl FnOnce(&mut World)) -> Result<World, Failure> {
    let outcome = quietly(|| act(&mut world));
    let Err((message, place)) = outcome else {
        return Ok(world);
    };
    let (step, trace) = (world.step, world.trace());
    // A failed run may fail again when its world is dropped.
    let _ = quietly(|| drop(world));
    Err(Failure {
        step,
        message,
        place,
        trace,
    })
}

thread_local! {
    /// The place of the last panic, while panics of this thread are caught.
    static CAUGHT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs `act`, and returns the message and the place of a panic, without printing it.
///
/// # Errors
/// If it panicked.
pub fn quietly(act: impl FnOnce()) -> Result<(), (String, String)> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let place = panic
                .location()
                .map(|place| format!("{}:{}", place.file(), place.line()));
            let quiet = CAUGHT.with_borrow_mut(|caught| match caught {
                // The first of several panics is the cause.
                Some(first) if first.is_empty() => {
                    *first = place.unwrap_or_default();
                    true
                }
                Some(_) => true,
                None => false,
            });
            if !quiet {
                loud(panic);
            }
        }));
    });
    CAUGHT.set(Some(String::new()));
    let outcome = catch_unwind(AssertUnwindSafe(act));
    let place = CAUGHT.take().unwrap_or_default();
    outcome.map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()));
        (text.unwrap_or_else(|| "a panic".to_string()), place)
    })
}
