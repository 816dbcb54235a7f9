//! Full disks: an append is refused before anything is accepted, and succeeds once there is space
//! again.

use crate::support::*;
use quire_env::{BlockCache, SimEnv};
use quire_log::{ErrorKind, Log, LogOptions};
use quire_model::Position;
use std::sync::Arc;

fn used(env: &SimEnv) -> u64 {
    env.files()
        .iter()
        .map(|path| env.read_all(path).unwrap().len() as u64)
        .sum()
}

#[test]
fn a_full_disk_refuses_appends_and_nothing_else() {
    in_all_kinds(|| {
        for room in (0..2500).step_by(7) {
            let env = SimEnv::new(room);
            let (log, _) = open(&env).unwrap();
            env.set_capacity(used(&env) + room);
            let mut synced = Position(0);
            let error = loop {
                match append(&log, 1 + log.last().0 % 3) {
                    Ok(last) if last.0 % 5 == 0 => synced = log.sync(last).unwrap(),
                    Ok(_) => {}
                    Err(error) => break error,
                }
            };
            assert_eq!(error.kind(), ErrorKind::NoSpace, "room {room}: {error}");
            let last = log.last();
            check_all(&log);
            assert!(log.durable() >= synced);
            // Smaller groups may still fit; whatever was accepted can be written out and closed.
            let _ = append(&log, 1);
            assert_eq!(log.sync(log.last()).unwrap(), log.last());
            if room % 2 == 0 {
                log.close().unwrap();
            }
            drop(log);
            let (log, recovery) = open(&env).unwrap();
            assert!(recovery.last >= last, "room {room}");
            check_all(&log);
            // A log on a full disk opens, is read, refuses appends, and is closed; a close reports
            // what it could not make durable.
            while append(&log, 1).is_ok() {}
            match log.close() {
                Ok(()) => assert_eq!(log.durable(), log.last(), "room {room}"),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::NoSpace, "room {room}: {error}");
                    assert!(synced <= log.durable() && log.durable() < log.last());
                }
            }

            env.set_capacity(1 << 20);
            let (log, _) = open(&env).unwrap();
            append_synced(&log, recovery.last.0 + 20);
            check_all(&log);
        }
    });
}

#[test]
fn what_a_failed_sync_left_is_not_durable_until_there_is_room_to_prove_it() {
    in_all_kinds(|| {
        for seed in 0..40 {
            let env = SimEnv::new(seed);
            let (log, _) = open(&env).unwrap();
            append_synced(&log, seed % 12);
            append(&log, 3).unwrap();
            env.fail_syncs(true);
            log.sync(log.last()).unwrap_err();
            env.fail_syncs(false);
            drop(log);
            env.set_capacity(used(&env));

            let (log, recovery) = open(&env).unwrap();
            check_all(&log);
            let proven = log.durable();
            assert!(proven.0 >= seed % 12, "seed {seed}");
            for _ in 0..2 {
                let synced = log.sync(log.last());
                let appended = append(&log, 1);
                for result in [synced, appended] {
                    if proven < recovery.last {
                        assert_eq!(result.unwrap_err().kind(), ErrorKind::NoSpace);
                    }
                }
                assert_eq!(log.durable(), proven);
            }
            let kept = |env: &Arc<SimEnv>, least: Position| {
                let after = env.after_crash(seed);
                after.set_capacity(1 << 20);
                let (log, recovery) = open(&after).unwrap();
                assert!(recovery.last >= least, "seed {seed}");
                check_all(&log);
            };
            kept(&env, proven);

            env.set_capacity(1 << 20);
            // A reader is in the old file all the while.
            let mut scan = log.scan(Position(1));
            let (first, _) = scan.next().unwrap().unwrap();
            assert_eq!(log.sync(log.last()).unwrap(), recovery.last);
            kept(&env, recovery.last);
            append_synced(&log, recovery.last.0 + 5);
            check_all(&log);
            let scanned = scan.map(|found| found.unwrap().0);
            assert_eq!(scanned.last().unwrap_or(first), recovery.last);
            assert_eq!(verify_all(&env).1, []);
            kept(&env, log.last());
        }
    });
}

#[test]
fn logs_on_one_disk_leave_each_other_room() {
    let env = SimEnv::new(1);
    let options = LogOptions {
        reserve_bytes: 8 << 20,
        ..LogOptions::default()
    };
    let logs: Vec<Log> = (0..16)
        .map(|number| {
            let dir = format!("/log-{number}");
            let cache = BlockCache::new(1 << 20);
            Log::open(env.clone(), dir.as_ref(), IDENTITY, cache, options.clone())
                .unwrap()
                .0
        })
        .collect();
    // Enough for one of them to take it all, and for each to write its part.
    env.set_capacity(9 << 20);
    for log in &logs {
        log.append(&[vec![7; 200 << 10].as_slice()]).unwrap();
    }
}

#[test]
fn a_refused_append_can_be_tried_again_on_the_same_log() {
    in_all_kinds(|| {
        let env = SimEnv::new(1);
        let (log, _) = open(&env).unwrap();
        for round in 0..40 {
            env.set_capacity(used(&env) + 400);
            while append(&log, 2).is_ok() {}
            check_all(&log);
            env.set_capacity(1 << 20);
            append(&log, 2).unwrap();
            if round % 3 == 0 {
                log.sync(log.last()).unwrap();
            }
        }
        log.close().unwrap();
        let (log, _) = open(&env).unwrap();
        check_all(&log);
    });
}

#[test]
fn a_step_that_finds_the_disk_full_changes_nothing_but_by_an_error() {
    in_all_kinds(|| {
        let steps = {
            let env = SimEnv::new(0);
            write(&env);
            env.operations()
        };
        for step in 0..steps {
            let env = SimEnv::new(0);
            env.fail_at(step, quire_env::Fault::Enospc);
            let accepted = write(&env);
            env.heal();
            let (log, recovery) = open(&env).unwrap();
            assert!(recovery.last.0 >= accepted, "step {step}");
            check_all(&log);
            append_synced(&log, recovery.last.0 + 3);
        }
    });
}

/// Appends until the end, or until an error that comes at a second try too. Returns the last synced
/// position.
fn write(env: &Arc<SimEnv>) -> u64 {
    let Ok((log, _)) = open(env) else { return 0 };
    let mut synced = 0;
    for _ in 0..12 {
        let last = log.last();
        if let Err(error) = append(&log, 2) {
            assert_eq!(log.last(), last);
            if error.kind() == ErrorKind::NoSpace && append(&log, 2).is_err() {
                break;
            }
        }
        check_all(&log);
        match log.sync(log.last()) {
            Ok(position) => synced = position.0,
            Err(_) => break,
        }
    }
    let _ = log.close();
    synced
}
