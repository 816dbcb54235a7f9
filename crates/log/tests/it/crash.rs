//! A crash at every step of a short history, and of the recovery after it.

use crate::support::*;
use quire_env::SimEnv;
use quire_log::{ErrorKind, Log, LogDamage, Result};
use quire_model::Position;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What a history was told before it ended.
#[derive(Debug, Default, Clone)]
struct Told {
    /// The last position of each group accepted, and 0.
    group_ends: BTreeSet<u64>,
    /// The last position that a group handed to `append` may have got.
    offered: u64,
    /// The last position that a sync or a close covered.
    synced: u64,
    /// What a `drop_before` was asked for last.
    dropped: u64,
}

impl Told {
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

    /// Opens the log and compares it with what was told. Returns it.
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

/// Rolls, lone and shared syncs, unsynced tails, drops, clean and unclean reopening.
fn history(env: &Arc<SimEnv>, told: &mut Told) -> Result<()> {
    let log = told.check(env)?;
    for round in 1..=6 {
        told.append(&log, 1 + round % 3)?;
        if round % 2 == 0 {
            told.append(&log, 2)?;
            told.sync(&log)?;
        }
    }
    told.append(&log, 9)?;
    told.append(&log, 1)?;
    told.close(&log)?;
    let log = told.check(env)?;
    told.append(&log, 3)?;
    told.sync(&log)?;
    for _ in 0..8 {
        told.append(&log, 3)?;
    }
    told.dropped = 14;
    log.drop_before(Position(14))?;
    told.append(&log, 2)?;
    told.write_back(&log)?;
    told.append(&log, 2)?;
    told.synced = log.sync_aside(log.last())?.0;
    told.append(&log, 2)?;
    drop(log); // like a killed process
    for _ in 0..3 {
        let log = told.check(env)?;
        for _ in 0..2 {
            told.append(&log, 1)?;
            told.sync(&log)?;
        }
        told.append(&log, 2)?;
    }
    let log = told.check(env)?;
    told.append(&log, 4)?;
    told.sync(&log)
}

/// The history, run on a machine that crashes at `step`.
fn crashed_at(step: u64) -> (Arc<SimEnv>, Told) {
    let env = SimEnv::new(step);
    env.crash_at(step);
    let mut told = Told::default();
    let error = history(&env, &mut told).unwrap_err();
    assert!(env.crashed(), "{error}");
    (env, told)
}

fn steps_of_history() -> u64 {
    let env = SimEnv::new(0);
    history(&env, &mut Told::default()).unwrap();
    env.operations()
}

fn goes_on(env: &Arc<SimEnv>, told: &mut Told) {
    let log = told.check(env).unwrap();
    for count in [1, 4, 2, 2, 3] {
        told.append(&log, count).unwrap();
    }
    told.sync(&log).unwrap();
    told.append(&log, 1).unwrap();
    check_all(&log);
}

#[test]
fn a_crash_at_any_step_keeps_a_prefix_with_all_that_was_synced() {
    in_all_kinds(|| {
        for step in 0..steps_of_history() {
            let (crashed, told) = crashed_at(step);
            for seed in 0..24 {
                let mut told = told.clone();
                let env = crashed.after_crash(seed);
                let damages = damages_or_new(&env);
                assert_eq!(damages, [], "step {step} seed {seed}");
                goes_on(&env, &mut told);
                let env = env.after_crash(seed + 1000);
                goes_on(&env, &mut told);
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
            let (crashed, told) = crashed_at(step);
            for seed in 0..6 {
                let whole = crashed.after_crash(seed);
                let before = whole.operations();
                drop(told.clone().check(&whole).unwrap());
                for recovery_step in before..whole.operations() {
                    let env = crashed.after_crash(seed);
                    env.crash_at(recovery_step);
                    let mut told = told.clone();
                    assert!(told.clone().check(&env).is_err());
                    let env = env.after_crash(seed + 7);
                    let damages = damages_or_new(&env);
                    assert_eq!(damages, [], "step {step} seed {seed}, then {recovery_step}");
                    goes_on(&env, &mut told);
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
            let mut told = Told::default();
            if history(&env, &mut told).is_ok() {
                continue; // the failure was of no consequence
            }
            env.heal();
            // The process goes on and opens the log again: what the system shows it may never have
            // reached the disk.
            drop(told.check(&env).unwrap());
            for seed in 0..6 {
                drop(told.clone().check(&env.after_crash(seed)).unwrap());
            }
            goes_on(&env, &mut told);
            for seed in 0..6 {
                goes_on(&env.after_crash(seed), &mut told.clone());
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
