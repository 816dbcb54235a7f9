//! A crash at every step of a short history, and of the recovery after it.

use crate::support::*;
use quire_env::SimEnv;
use quire_log::{ErrorKind, Log, LogDamage, Result};
use quire_model::Position;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What the log reported to a history before it ended.
#[derive(Debug, Default, Clone)]
struct Reported {
    /// The last position of each group accepted, and 0.
    group_ends: BTreeSet<u64>,
    /// The last position that a group handed to `append` may have got.
    offered: u64,
    /// The last position that a sync or a close made durable.
    synced: u64,
    /// The argument of the last `drop_before`.
    dropped: u64,
}

impl Reported {
    fn append(&mut self, log: &Log, count: u64) -> Result<()> {
        self.offered = log.last().0 + count;
        self.group_ends.insert(self.offered);
        append(log, count).map(drop)
    }

    fn sync(&mut self, log: &Log) -> Result<()> {
        self.synced = log.sync(log.last())?.0;
        Ok(())
    }

    fn write_back(&mut self, log: &Log) -> Result<()> {
        log.write_back()?;
        if !tiny().rotate_unsynced {
            self.synced = log.last().0;
        }
        Ok(())
    }

    fn close(&mut self, log: &Log) -> Result<()> {
        log.close()?;
        self.synced = log.last().0;
        Ok(())
    }

    /// Opens the log, compares it with what was reported, and returns it.
    fn check(&mut self, env: &Arc<SimEnv>) -> Result<Log> {
        let (log, recovery) = open(env)?;
        let last = log.last().0;
        assert_eq!(recovery.last, Position(last));
        assert!(last >= self.synced, "lost {} to {}", last + 1, self.synced);
        assert!(last <= self.offered);
        assert!(
            last == 0 || self.group_ends.contains(&last),
            "half a group: {last} of {self:?}"
        );
        assert!(log.first().0 <= self.dropped.max(1));
        assert_eq!(log.durable(), log.last());
        check_all(&log);
        // What is recovered is durable: it must never be lost again.
        self.synced = last;
        self.group_ends.retain(|end| *end <= last);
        self.group_ends.insert(last);
        Ok(log)
    }
}

/// Rotations, lone and shared syncs, unsynced tails, drops, clean and unclean reopening.
fn history(env: &Arc<SimEnv>, reported: &mut Reported) -> Result<()> {
    let log = reported.check(env)?;
    for round in 1..=6 {
        reported.append(&log, 1 + round % 3)?;
        if round % 2 == 0 {
            reported.append(&log, 2)?;
            reported.sync(&log)?;
        }
    }
    reported.append(&log, 9)?;
    reported.append(&log, 1)?;
    reported.close(&log)?;
    let log = reported.check(env)?;
    reported.append(&log, 3)?;
    reported.sync(&log)?;
    for _ in 0..8 {
        reported.append(&log, 3)?;
    }
    reported.dropped = 14;
    log.drop_before(Position(14))?;
    reported.append(&log, 2)?;
    reported.write_back(&log)?;
    reported.append(&log, 2)?;
    reported.synced = log.sync_aside(log.last())?.0;
    reported.append(&log, 2)?;
    drop(log); // like a killed process
    for _ in 0..3 {
        let log = reported.check(env)?;
        for _ in 0..2 {
            reported.append(&log, 1)?;
            reported.sync(&log)?;
        }
        reported.append(&log, 2)?;
    }
    let log = reported.check(env)?;
    reported.append(&log, 4)?;
    reported.sync(&log)
}

/// The history, run on a machine that crashes at `step`.
fn crashed_at(step: u64) -> (Arc<SimEnv>, Reported) {
    let env = SimEnv::new(step);
    env.crash_at(step);
    let mut reported = Reported::default();
    let error = history(&env, &mut reported).unwrap_err();
    assert!(env.crashed(), "{error}");
    (env, reported)
}

fn steps_of_history() -> u64 {
    let env = SimEnv::new(0);
    history(&env, &mut Reported::default()).unwrap();
    env.operations()
}

fn goes_on(env: &Arc<SimEnv>, reported: &mut Reported) {
    let log = reported.check(env).unwrap();
    for count in [1, 4, 2, 2, 3] {
        reported.append(&log, count).unwrap();
    }
    reported.sync(&log).unwrap();
    reported.append(&log, 1).unwrap();
    check_all(&log);
}

#[test]
fn a_crash_at_any_step_keeps_a_prefix_with_all_that_was_synced() {
    in_all_kinds(|| {
        for step in 0..steps_of_history() {
            let (crashed, reported) = crashed_at(step);
            for seed in 0..24 {
                let mut reported = reported.clone();
                let env = crashed.after_crash(seed);
                let damages = damages_or_new(&env);
                assert_eq!(damages, [], "step {step} seed {seed}");
                goes_on(&env, &mut reported);
                let env = env.after_crash(seed + 1000);
                goes_on(&env, &mut reported);
            }
        }
    });
}

/// What verification calls damage, if there is a log at all.
fn damages_or_new(env: &Arc<SimEnv>) -> Vec<LogDamage> {
    let exists = quire_env::Env::exists(env.as_ref(), dir()).unwrap();
    if exists {
        verify_all(env).1
    } else {
        Vec::new()
    }
}

#[test]
fn a_crash_at_any_step_of_recovery_loses_nothing_more() {
    in_all_kinds(|| {
        for step in (0..steps_of_history()).step_by(2) {
            let (crashed, reported) = crashed_at(step);
            for seed in 0..6 {
                let whole = crashed.after_crash(seed);
                let before = whole.operations();
                drop(reported.clone().check(&whole).unwrap());
                for recovery_step in before..whole.operations() {
                    let env = crashed.after_crash(seed);
                    env.crash_at(recovery_step);
                    let mut reported = reported.clone();
                    assert!(reported.clone().check(&env).is_err());
                    let env = env.after_crash(seed + 7);
                    let damages = damages_or_new(&env);
                    assert_eq!(damages, [], "step {step} seed {seed}, then {recovery_step}");
                    goes_on(&env, &mut reported);
                }
            }
        }
    });
}

#[test]
fn a_failed_sync_poisons_and_reopening_makes_durable_what_it_keeps() {
    in_all_kinds(|| {
        for step in 0..steps_of_history() {
            let env = SimEnv::new(step);
            env.fail_at(step, quire_env::Fault::Eio);
            let mut reported = Reported::default();
            if history(&env, &mut reported).is_ok() {
                continue; // the failure was of no consequence
            }
            env.heal();
            // The process opens the log again: what the system shows it may not be on the disk.
            drop(reported.check(&env).unwrap());
            for seed in 0..6 {
                drop(reported.clone().check(&env.after_crash(seed)).unwrap());
            }
            goes_on(&env, &mut reported);
            for seed in 0..6 {
                goes_on(&env.after_crash(seed), &mut reported.clone());
            }
        }
    });
}

#[test]
fn a_poisoned_log_takes_no_writes_and_goes_on_being_read() {
    let env = SimEnv::new(3);
    let (log, _) = open(&env).unwrap();
    append_synced(&log, 5);
    append(&log, 2).unwrap();
    env.fail_syncs(true);
    assert_eq!(log.sync(log.last()).unwrap_err().kind(), ErrorKind::Io);
    env.fail_syncs(false);
    assert_eq!(
        log.sync(log.last()).unwrap_err().kind(),
        ErrorKind::Poisoned
    );
    assert_eq!(log.append(&[b"x"]).unwrap_err().kind(), ErrorKind::Poisoned);
    assert_eq!(log.close().unwrap_err().kind(), ErrorKind::Poisoned);
    assert_eq!(
        log.sync(Position(5)).unwrap(),
        Position(5),
        "what was durable is"
    );
    assert_eq!(log.durable(), Position(5));
    check_all(&log);
}
