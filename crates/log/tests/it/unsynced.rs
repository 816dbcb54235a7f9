//! Logs that rotate unsynced: segments are begun before the older ones are durable, and a crash
//! leaves any part of them.

use crate::support::*;
use quire_env::{BlockCache, Env, Fault, SimEnv};
use quire_log::{ErrorKind, Log, Result};
use quire_model::Position;
use std::path::Path;
use std::sync::Arc;

/// A log of groups of two records up to `last`, all written and none durable.
fn unsynced(last: u64) -> (Arc<SimEnv>, Log) {
    let env = SimEnv::new(1);
    let (log, _) = open(&env).unwrap();
    while log.last().0 < last {
        append(&log, 2).unwrap();
    }
    log.write_back().unwrap();
    (env, log)
}

fn base(segment: &Path) -> u64 {
    segment
        .file_stem()
        .unwrap()
        .to_str()
        .unwrap()
        .parse()
        .unwrap()
}

fn open_after(env: &Arc<SimEnv>, obsolete: u64) -> Result<Log> {
    let (env, cache): (Arc<dyn Env>, _) = (env.clone(), BlockCache::new(1 << 20));
    Log::open_after(env, dir(), IDENTITY, cache, tiny(), Position(obsolete)).map(|(log, _)| log)
}

#[test]
fn nothing_is_synced_before_a_sync_and_everything_after_it() {
    lazily(|| {
        let (env, log) = unsynced(60);
        assert!(log.stats().segments > 4, "{:?}", log.stats());
        assert_eq!((log.durable(), log.stats().syncs), (Position(0), 0));
        log.sync(Position(1)).unwrap();
        assert_eq!(log.durable(), Position(60));
        for seed in 0..20 {
            let (log, _) = open(&env.after_crash(seed)).unwrap();
            assert_eq!(log.last(), Position(60));
            check_all(&log);
        }
    });
}

#[test]
fn after_a_crash_the_log_ends_in_the_first_segment_that_is_torn() {
    lazily(|| {
        let (env, _log) = unsynced(60);
        let before = segments(&env).len();
        let mut cut = 0;
        for seed in 0..60 {
            let env = env.after_crash(seed);
            let (summary, damages) = verify_all(&env);
            assert_eq!(damages, [], "seed {seed}");
            let (log, _) = open(&env).unwrap();
            assert_eq!(log.last(), summary.last, "seed {seed}");
            check_all(&log);
            cut += usize::from(segments(&env).len() < before);
        }
        assert!(
            cut > 20,
            "{cut} of 60 crashes left a segment torn before others"
        );
    });
}

#[test]
fn what_a_later_segment_proves_durable_is_damage_when_it_is_gone() {
    lazily(|| {
        let (template, log) = unsynced(36);
        log.sync(Position(36)).unwrap();
        append(&log, 1).unwrap();
        log.sync(Position(37)).unwrap();
        let files = segments(&template);
        let (_newest, older) = files.split_last().unwrap();
        assert!(older.len() >= 2);
        for path in older {
            for byte in 48..template.read_all(path).unwrap().len() as u64 {
                let env = template.after_crash(0);
                env.flip_bit(path, byte * 8 + byte % 8).unwrap();
                assert_eq!(verify_all(&env).1.len(), 1, "{} {byte}", path.display());
                let error = open(&env).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            }
        }
    });
}

#[test]
fn a_log_that_ends_among_obsolete_records_begins_anew_after_them() {
    lazily(|| {
        let (env, log) = unsynced(40);
        drop(log);
        assert!(
            base(&segments(&env)[1]) <= 21,
            "the first has obsolete records alone"
        );
        for (seed, obsolete) in (0..30).flat_map(|seed| [(seed, 20), (seed, 50)]) {
            let crashed = env.after_crash(seed);
            let first_step = crashed.operations();
            let log = open_after(&crashed, obsolete).unwrap();
            assert!(log.last() >= Position(obsolete), "seed {seed}");
            assert!(log.first() <= Position(obsolete + 1), "seed {seed}");
            assert!(log.first() > Position(1), "seed {seed}");
            let is_new = log.last() == Position(obsolete) && log.first() > log.last();
            assert!(is_new || obsolete == 20, "seed {seed}");
            for step in first_step..crashed.operations() {
                let env = env.after_crash(seed);
                env.crash_at(step);
                open_after(&env, obsolete).unwrap_err();
                let env = env.after_crash(step);
                assert_eq!(verify_all(&env).1, [], "seed {seed} step {step}");
                let log = open_after(&env, obsolete).unwrap();
                let position = append(&log, 3).unwrap();
                log.sync(position).unwrap();
                let log = open_after(&env.after_crash(step), obsolete).unwrap();
                assert_eq!(log.last(), position, "seed {seed} step {step}");
                check_all(&log);
            }
        }
    });
}

/// A log that has just rotated and written a block to the new segment, and the last position in
/// that segment.
fn just_gone_over() -> (Arc<SimEnv>, Log, Position) {
    let (env, log) = unsynced(20);
    let newest = || log.segments().pop().unwrap();
    let before = newest();
    while newest().base == before.base || newest().records == 0 {
        append(&log, 2).unwrap();
    }
    let written = Position(newest().next.0 - 1);
    (env, log, written)
}

#[test]
fn a_new_segment_has_no_name_until_it_is_durable_and_a_view_keeps_it_either_way() {
    lazily(|| {
        let (env, log, _) = just_gone_over();
        let view = log.view();
        let seen = || view.scan(Position(1)).map(|item| item.unwrap().0).last();
        let last = seen();
        assert!(log.write_back_is_due());
        assert_eq!(log.stats().segments, segments(&env).len() as u64 + 1);
        check_all(&log);

        log.write_back().unwrap();
        assert!(!log.write_back_is_due());
        assert_eq!(log.stats().segments, segments(&env).len() as u64);
        check_all(&log);
        assert_eq!(seen(), last);
    });
}

#[test]
fn after_a_kill_a_segment_without_a_name_gets_it_with_all_that_was_written() {
    lazily(|| {
        // The process is killed; the machine keeps running.
        let killed = || {
            let (env, _log, written) = just_gone_over();
            (env, written)
        };
        let (env, written) = killed();
        let (named, first_step) = (segments(&env).len(), env.operations());
        let (log, _) = open(&env).unwrap();
        assert_eq!(log.last(), written);
        assert!(segments(&env).len() > named);
        check_all(&log);

        for step in first_step..env.operations() {
            let (env, _) = killed();
            env.crash_at(step);
            open(&env).unwrap_err();
            for seed in 0..6 {
                let env = env.after_crash(seed);
                let (log, _) = open(&env).unwrap();
                assert!(log.last() <= written, "step {step} seed {seed}");
                let position = append(&log, 2).unwrap();
                log.sync(position).unwrap();
                let (log, _) = open(&env.after_crash(seed)).unwrap();
                assert_eq!(log.last(), position, "step {step} seed {seed}");
                check_all(&log);
            }
        }
    });
}

#[test]
fn what_a_sync_said_of_a_segment_without_a_name_holds_after_any_crash() {
    lazily(|| {
        let (env, log, _) = just_gone_over();
        let (first_step, last) = (env.operations(), log.last());
        log.sync(last).unwrap();
        for step in first_step..env.operations() {
            let (env, log, _) = just_gone_over();
            env.crash_at(step);
            assert!(log.sync(last).is_err());
            for seed in 0..6 {
                let env = env.after_crash(seed);
                let (log, _) = open(&env).unwrap();
                assert!(log.last() <= last, "step {step} seed {seed}");
                check_all(&log);
                let position = append(&log, 2).unwrap();
                log.sync(position).unwrap();
                drop(log);
                let (log, _) = open(&env.after_crash(seed)).unwrap();
                assert_eq!(log.last(), position, "step {step} seed {seed}");
                check_all(&log);
            }
        }
        for seed in 0..20 {
            let (log, _) = open(&env.after_crash(seed)).unwrap();
            assert_eq!(log.last(), last);
            check_all(&log);
        }
    });
}

#[test]
fn no_segment_is_dropped_before_the_one_after_it_has_its_name() {
    lazily(|| {
        let (env, log, written) = just_gone_over();
        log.drop_before(written).unwrap();
        for seed in 0..20 {
            let (log, _) = open(&env.after_crash(seed)).unwrap();
            assert!(log.first() > Position(1), "seed {seed}");
            check_all(&log);
        }
    });
}

#[test]
fn a_name_that_finds_no_room_is_given_later_and_nothing_is_lost() {
    lazily(|| {
        let (env, log, _) = just_gone_over();
        let first_step = env.operations();
        log.write_back().unwrap();
        let mut given_later = 0;
        for step in first_step..env.operations() {
            let (env, log, _) = just_gone_over();
            env.fail_at(step, Fault::Enospc);
            let failed = log.write_back().is_err();
            let synced = log.sync(log.last()).is_ok();
            assert!(failed || synced, "step {step}");
            given_later += u64::from(failed && synced);
            let durable = log.durable();
            drop(log);
            for seed in 0..6 {
                let (log, _) = open(&env.after_crash(seed)).unwrap();
                assert!(log.last() >= durable, "step {step} seed {seed}");
                check_all(&log);
            }
        }
        assert!(given_later > 0);
    });
}
