//! Short histories with a crash, or a fault, at every single I/O step.

use super::history::{End, History, Op};
use super::run::{Failure, RunStats, attempt};
use super::world::World;
use quire_env::Fault;

/// I/O steps of a history without faults, and without the checks at its end.
///
/// # Errors
/// If the history fails without faults.
pub fn steps_of(history: &History) -> Result<u64, Failure> {
    let world = attempt(World::new(history), |world| {
        assert!(!world.run_until_crash(&history.ops), "it crashes by itself");
    })?;
    Ok(world.env.operations())
}

/// Crashes at every step, each time with `seeds` restarts that keep different unsynced bytes.
///
/// # Errors
/// The first case that fails, named.
pub fn crash_at_every_step(history: &History, seeds: u64) -> Result<RunStats, Failure> {
    let mut stats = RunStats::default();
    for step in 0..steps_of(history)? {
        let crashed = crash_at(history, step, &mut stats)?;
        for seed in 0..seeds {
            let what = format!("crash at step {step}, seed {seed}");
            stats += case(&what, crashed.world(seed), |world| {
                world.recover_and_check(seed);
            })?;
        }
    }
    Ok(stats)
}

/// Crashes at one step in `stride`, and again at each of the first `second_max` steps of the
/// recovery.
///
/// # Errors
/// As of [`crash_at_every_step`].
pub fn crash_twice(history: &History, stride: usize, second_max: u64) -> Result<RunStats, Failure> {
    let mut stats = RunStats::default();
    for step in (0..steps_of(history)?).step_by(stride) {
        let crashed = crash_at(history, step, &mut stats)?;
        for second in 0..second_max {
            let what = format!("crash at step {step}, then at step {second} of the recovery");
            stats += case(&what, crashed.world(step + second), |world| {
                world.recover_and_crash_at(second, step + second + 1);
            })?;
        }
    }
    Ok(stats)
}

fn crash_at(
    history: &History,
    step: u64,
    stats: &mut RunStats,
) -> Result<super::world::Crashed, Failure> {
    let what = format!("crash at step {step}");
    let world = named(&what, World::new(history), |world| {
        world.env.crash_at(step);
        assert!(world.run_until_crash(&history.ops), "it does not crash");
    })?;
    *stats += world.stats();
    Ok(world.into_crashed())
}

/// Injects a fault at every step: an I/O error or a full disk, once or from then on.
///
/// # Errors
/// As of [`crash_at_every_step`].
pub fn fault_at_every_step(history: &History) -> Result<RunStats, Failure> {
    let mut stats = RunStats::default();
    for step in 0..steps_of(history)? {
        for (fault, lasting) in [
            (Fault::Eio, false),
            (Fault::Eio, true),
            (Fault::Enospc, false),
            (Fault::Enospc, true),
        ] {
            let what = format!("{fault:?} at step {step}, lasting: {lasting}");
            stats += case(&what, World::new(history), |world| {
                world.allow_faults();
                match lasting {
                    true => world.env.fail_from(step, fault),
                    false => world.env.fail_at(step, fault),
                }
                world.run(&history.ops);
            })?;
        }
    }
    Ok(stats)
}

/// Injects a fault at every step. Right after the operation that met it, opens the database again
/// and crashes the machine: everything that was seen after the fault, and was believed durable, is
/// there after the crash.
///
/// # Errors
/// As of [`crash_at_every_step`].
pub fn fault_then_crash(history: &History, seeds: u64) -> Result<RunStats, Failure> {
    let mut stats = RunStats::default();
    for step in 0..steps_of(history)? {
        for seed in 0..seeds {
            let what = format!("EIO at step {step}, then a crash with seed {seed}");
            stats += case(&what, World::new(history), |world| {
                world.allow_faults();
                world.env.fail_at(step, Fault::Eio);
                let mut ops = history.ops.iter();
                while world.env.operations() <= step
                    && let Some(op) = ops.next()
                {
                    world.perform(op);
                    world.step += 1;
                }
                world.perform(&Op::Reopen(match seed % 2 {
                    0 => End::Close,
                    _ => End::Drop,
                }));
                world.perform(&Op::Crash { seed });
                world.finish();
            })?;
        }
    }
    Ok(stats)
}

/// At every step the disk begins to fail. After the operation that met it the disk works again, and
/// the open files are written to. Then the machine crashes.
///
/// # Errors
/// As of [`crash_at_every_step`].
pub fn outage_then_crash(history: &History, seeds: u64) -> Result<RunStats, Failure> {
    let mut stats = RunStats::default();
    for step in 0..steps_of(history)? {
        for seed in 0..seeds {
            let what =
                format!("EIO from step {step} on for one operation, then a crash with seed {seed}");
            stats += case(&what, World::new(history), |world| {
                world.allow_faults();
                world.env.fail_from(step, Fault::Eio);
                let mut ops = history.ops.iter();
                while world.env.operations() <= step
                    && let Some(op) = ops.next()
                {
                    world.perform(op);
                    world.step += 1;
                }
                world.perform(&Op::Heal);
                world.write_on();
                world.perform(&Op::Crash { seed });
                world.finish();
            })?;
        }
    }
    Ok(stats)
}

fn case(what: &str, world: World, act: impl FnOnce(&mut World)) -> Result<RunStats, Failure> {
    named(what, world, act).map(|world| world.stats())
}

fn named(what: &str, world: World, act: impl FnOnce(&mut World)) -> Result<World, Failure> {
    attempt(world, act).map_err(|failure| Failure {
        message: format!("{what}: {}", failure.message),
        ..failure
    })
}
