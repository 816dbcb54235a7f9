//! A second, small world: a store alone, whose values change by merging.
//!
//! Documents are only put and deleted, so applying a record twice, or folding in the wrong order,
//! may not show in them. A counter changes by a function of its old value, and no two such changes
//! may be lost, doubled or exchanged. One short record changes a range of thousands of counters, so
//! tables of many blocks, index blocks and filter pages are cheap to make. Blocks and segments of
//! the log are tiny, so groups and recoveries extend over many of them.

mod generate;
mod machine;
mod world;

use super::run::{Failure, quietly};
use quiredb::Durability;
use std::time::Duration;

pub use generate::generate;

use machine::Record;
use world::{Case, Order, World};

/// The options of a store, and the operations on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    seed: u64,
    memory_bytes: u64,
    replay_bytes_max: u64,
    block_bytes: usize,
    segment_bytes: u64,
    ops: Vec<Op>,
}

/// One operation or fault.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Op {
    Write(Vec<Record>, Durability),
    Sync,
    Flush,
    Compact,
    Check,
    View,
    LookAtViews,
    /// Time passes, and the background jobs that are due in it run.
    Run(Duration),
    Advance(Duration),
    Reopen {
        close: bool,
    },
    Crash {
        seed: u64,
    },
    CrashIn {
        steps: u64,
        seed: u64,
    },
    FailIn {
        steps: u64,
        full: bool,
        lasting: bool,
    },
    FailSyncs,
    Heal,
}

/// Runs a history on a new machine and a new model, comparing them as it goes and at the end.
///
/// # Errors
/// The first failure: a wrong answer, an error, a panic.
pub fn run(history: &History) -> Result<(), Failure> {
    attempt(World::new(history), |world| world.run(&history.ops))
}

/// Injects a fault at every I/O step of a history, then opens the store again, and crashes the
/// machine at each of the first `recovery_max` steps of that, or leaves the disk full for that.
/// Also crashes at every step, then injects a fault at each step of the recovery, then crashes
/// again. Returns the number of cases.
///
/// # Errors
/// The first case that fails, with its name.
pub fn fail_twice(history: &History, recovery_max: u64) -> Result<u64, Failure> {
    let mut cases = 0;
    for step in 0..World::new(history).steps(&history.ops) {
        for recovery in 0..recovery_max {
            for (order, seed) in [
                (Order::FaultThenCrash, 0),
                (Order::FaultThenCrash, 1),
                (Order::CrashThenFault, 2),
                (Order::CrashThenFault, 3),
                (Order::FaultThenFull, 4),
                (Order::FaultThenFull, 5),
            ] {
                let case = Case {
                    order,
                    step,
                    recovery,
                    seed,
                };
                cases += 1;
                attempt(World::new(history), |world| {
                    world.fail_twice(&history.ops, case);
                })
                .map_err(|failure| Failure {
                    message: format!("{case:?}: {}", failure.message),
                    ..failure
                })?;
            }
        }
    }
    Ok(cases)
}

/// A short history with some of every operation, for [`fail_twice`].
pub fn short() -> History {
    let change = |first: u16, count: u16| Record::Change {
        keys: first..first + count,
        times: 3,
        plus: 5,
    };
    let write = |records: Vec<Record>| Op::Write(records, Durability::Sync);
    History {
        seed: 1,
        memory_bytes: 16 << 20,
        replay_bytes_max: 1 << 20,
        block_bytes: 64,
        segment_bytes: 400,
        ops: vec![
            write(vec![change(0, 4)]),
            write(vec![change(2, 4), Record::Forget { keys: 0..1 }]),
            Op::Flush,
            write(vec![change(1, 3)]),
            Op::Flush,
            Op::Run(Duration::from_secs(1)),
            write(vec![
                Record::Set {
                    keys: 5..9,
                    value: 7,
                },
                change(0, 9),
            ]),
            Op::Compact,
            write((0..8).map(|n| change(n, 2)).collect()),
            Op::Reopen { close: true },
            write(vec![change(4, 1)]),
        ],
    }
}

fn attempt(mut world: World, act: impl FnOnce(&mut World)) -> Result<(), Failure> {
    let outcome = quietly(|| act(&mut world));
    let (step, trace) = (world.step, world.trace());
    // A failed run may fail again when its world is dropped.
    let _ = quietly(|| drop(world));
    outcome.map_err(|(message, place)| Failure {
        step,
        message,
        place,
        trace,
    })
}
