//! Full disks: refused before anything is accepted, and over when there is room again.

use crate::support::*;
use quire_env::SimEnv;
use quire_log::ErrorKind;
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
        // A full disk opens, is read, refuses, and is closed.
        while append(&log, 1).is_ok() {}
        log.close().unwrap();

        env.set_capacity(1 << 20);
        let (log, _) = open(&env).unwrap();
        append_synced(&log, recovery.last.0 + 20);
        check_all(&log);
    }
}

#[test]
fn a_refused_append_can_be_tried_again_on_the_same_log() {
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
}

#[test]
fn a_step_that_finds_the_disk_full_changes_nothing_but_by_an_error() {
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
}

/// Appends until the end or the first error that is not over at the second try. The last position synced.
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
