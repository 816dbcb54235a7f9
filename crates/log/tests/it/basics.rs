//! What callers see of a log without faults and crashes.

use crate::support::*;
use quire_env::{BlockCache, SimEnv};
use quire_log::{ErrorKind, GROUP_RECORDS_MAX, Log, LogIdentity, LogOptions, RECORD_BYTES_MAX};
use quire_model::Position;

#[test]
fn records_are_readable_before_and_after_every_stage_of_their_life() {
    let env = SimEnv::new(1);
    let (log, recovery) = open(&env).unwrap();
    assert_eq!((recovery.first, recovery.last), (Position(1), Position(0)));
    assert_eq!(
        (log.first(), log.last(), log.durable()),
        (Position(1), Position(0), Position(0))
    );
    assert_eq!(log.scan(Position(1)).count(), 0);
    for count in [1, 3, 2, 7, 1, 4] {
        append(&log, count).unwrap();
        check_all(&log);
    }
    assert!(log.sync(Position(5)).unwrap() >= Position(5));
    let durable = log.sync(Position(17)).unwrap();
    assert_eq!(durable, Position(18), "one sync takes everything along");
    let syncs = log.stats().syncs;
    assert_eq!(log.sync(Position(18)).unwrap(), Position(18));
    assert_eq!(
        log.sync(Position(u64::MAX)).unwrap(),
        Position(18),
        "past the last is the last"
    );
    assert_eq!(log.stats().syncs, syncs, "what is durable needs no sync");
    check_all(&log);
    append(&log, 5).unwrap();
    log.close().unwrap();
    log.close().unwrap();
    check_all(&log);
    assert_eq!(log.append(&[b"x"]).unwrap_err().kind(), ErrorKind::Closed);

    let (log, recovery) = open(&env).unwrap();
    assert_eq!(
        (recovery.last, recovery.torn_bytes, recovery.footers_rebuilt),
        (Position(23), 0, 0)
    );
    assert_eq!(log.durable(), Position(23));
    check_all(&log);
    append_synced(&log, 60);
    check_all(&log);
    let stats = log.stats();
    assert!(stats.segments > 3, "{stats:?}");
    let on_disk: usize = segments(&env)
        .iter()
        .map(|path| env.read_all(path).unwrap().len())
        .sum();
    assert_eq!(stats.disk_bytes, on_disk as u64);
}

#[test]
fn positions_outside_the_log_and_groups_outside_the_limits_are_refused() {
    let env = SimEnv::new(1);
    let (log, _) = open(&env).unwrap();
    append(&log, 2).unwrap();
    for position in [0, 3, u64::MAX] {
        assert_eq!(
            log.read(Position(position)).unwrap_err().kind(),
            ErrorKind::NotFound
        );
        assert_eq!(
            log.read_many(&[Position(1), Position(position)])
                .unwrap_err()
                .kind(),
            ErrorKind::NotFound
        );
    }
    assert_eq!(
        log.scan(Position(0)).next().unwrap().unwrap_err().kind(),
        ErrorKind::NotFound
    );
    assert_eq!(log.scan(Position(3)).count(), 0);
    assert_eq!(log.scan(Position(1)).until(Position(1)).count(), 1);
    assert_eq!(
        log.append(&[]).unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
    let large = vec![0; RECORD_BYTES_MAX + 1];
    assert_eq!(
        log.append(&[&large]).unwrap_err().kind(),
        ErrorKind::TooLarge
    );
    let half = &large[..RECORD_BYTES_MAX / 2 + 1];
    assert_eq!(
        log.append(&[half, half]).unwrap_err().kind(),
        ErrorKind::TooLarge
    );
    let empty: &[u8] = b"";
    assert_eq!(
        log.append(&vec![empty; GROUP_RECORDS_MAX + 1])
            .unwrap_err()
            .kind(),
        ErrorKind::TooLarge
    );
    assert_eq!(log.last(), Position(2));
    check_all(&log);
}

#[test]
fn the_largest_record_and_the_longest_group_come_back() {
    let env = SimEnv::new(1);
    let (log, _) = open_with(&env, LogOptions::default()).unwrap();
    let large: Vec<u8> = (0..RECORD_BYTES_MAX).map(|at| (at / 1000) as u8).collect();
    let one: &[u8] = b"1";
    log.append(&[&large]).unwrap();
    log.append(&vec![one; GROUP_RECORDS_MAX]).unwrap();
    log.close().unwrap();
    let (log, _) = open_with(&env, LogOptions::default()).unwrap();
    assert_eq!(log.read(Position(1)).unwrap(), large);
    assert_eq!(log.last(), Position(1 + GROUP_RECORDS_MAX as u64));
    assert_eq!(log.read(log.last()).unwrap(), one);
}

#[test]
fn dropped_records_are_reported_as_dropped_and_the_rest_stays() {
    let env = SimEnv::new(1);
    let (log, _) = open(&env).unwrap();
    append_synced(&log, 60);
    let mut scan = log.scan(Position(1));
    assert!(scan.next().unwrap().is_ok());
    assert_eq!(log.drop_before(Position(1)).unwrap(), 0);
    let before = log.stats();
    let freed = log.drop_before(Position(40)).unwrap();
    let after = log.stats();
    assert!(freed > 0 && before.disk_bytes - freed == after.disk_bytes);
    let first = log.first();
    assert!(first > Position(1) && first <= Position(40));
    assert_eq!(
        log.read(Position(1)).unwrap_err().kind(),
        ErrorKind::Dropped
    );
    assert_eq!(
        log.scan(Position(1)).next().unwrap().unwrap_err().kind(),
        ErrorKind::Dropped
    );
    assert_eq!(
        scan.collect::<Result<Vec<_>, _>>().unwrap().len(),
        59,
        "a scan under way goes on"
    );
    check_all(&log);
    log.drop_before(Position(u64::MAX)).unwrap();
    assert_eq!(log.stats().segments, 1, "the newest segment stays");
    check_all(&log);
    drop(log);
    let (log, recovery) = open(&env).unwrap();
    assert_eq!(recovery.last, Position(60));
    check_all(&log);
}

#[test]
fn opening_often_for_a_record_each_makes_few_segments() {
    let env = SimEnv::new(1);
    let options = LogOptions::default();
    for _ in 0..50 {
        let (log, _) = open_with(&env, options.clone()).unwrap();
        append(&log, 1).unwrap();
        log.close().unwrap();
        check_all(&log);
    }
    assert_eq!(segments(&env).len(), 1);
    let (log, _) = open_with(&env, options).unwrap();
    check_all(&log);
    log.close().unwrap();
    let (summary, damages) = verify_all(&env);
    assert_eq!(
        (summary.records, summary.last, damages.len()),
        (50, Position(50), 0)
    );
}

#[test]
fn another_logs_segments_are_refused() {
    let env = SimEnv::new(1);
    let (log, _) = open(&env).unwrap();
    append_synced(&log, 3);
    drop(log);
    let other = LogIdentity([1; 16]);
    let refused = Log::open(env, dir(), other, BlockCache::new(1 << 20), tiny()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Foreign);
}

#[test]
fn impossible_options_are_refused() {
    let env = SimEnv::new(1);
    for options in [
        LogOptions {
            block_bytes: 0,
            ..tiny()
        },
        LogOptions {
            block_bytes: 1 << 30,
            ..tiny()
        },
        LogOptions {
            segment_bytes: 0,
            ..tiny()
        },
        LogOptions {
            segment_bytes: 4 << 30,
            ..tiny()
        },
        LogOptions {
            reserve_bytes: 4 << 30,
            ..tiny()
        },
    ] {
        assert_eq!(
            open_with(&env, options).unwrap_err().kind(),
            ErrorKind::InvalidArgument
        );
    }
}
