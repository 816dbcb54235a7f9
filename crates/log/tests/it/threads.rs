//! The real machine, with a writer, syncers and readers at once.

use crate::support::{IDENTITY, record, room};
use bytes::Bytes;
use quire_env::{BlockCache, Env, OsEnv};
use quire_log::{ErrorKind, Log, LogOptions};
use quire_model::Position;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// One of each three records is needed: the others may be compacted away.
fn is_needed(position: u64) -> bool {
    position.is_multiple_of(3)
}

/// Makes the log durable up to a position, or does what comes before that.
type Sync = fn(&Log, Position) -> quire_log::Result<Position>;

/// Compacts the sealed segments that there are, two at a time.
fn compact_all(log: &Log) {
    for pair in log.segments().windows(3) {
        let [from, _, after] = pair else { continue };
        let mut keep = |records: &[(Position, Bytes)]| -> quire_log::Result<Vec<bool>> {
            Ok(records.iter().map(|(at, _)| is_needed(at.0)).collect())
        };
        match log.compact(from.base, after.base, &mut keep, &room, &|| false) {
            Ok(_) => {}
            // Joined or dropped meanwhile.
            Err(error) => assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}"),
        }
    }
}

#[test]
fn readers_and_syncers_beside_a_writer_see_exact_bytes() {
    readers_and_syncers_beside_a_writer(false);
}

#[test]
fn readers_and_syncers_beside_a_writer_of_an_unsynced_log_see_exact_bytes() {
    readers_and_syncers_beside_a_writer(true);
}

fn readers_and_syncers_beside_a_writer(rotate_unsynced: bool) {
    const LAST: u64 = 60_000;
    let directory = tempfile::tempdir().unwrap();
    let options = LogOptions {
        block_bytes: 2_000,
        segment_bytes: 200_000,
        pending_bytes_max: 20_000,
        reserve_bytes: 50_000,
        rotate_unsynced,
        ..LogOptions::default()
    };
    let env: Arc<dyn Env> = OsEnv::new().unwrap();
    let open = |options| {
        Log::open(
            env.clone(),
            directory.path(),
            IDENTITY,
            BlockCache::new(1 << 20),
            options,
        )
        .unwrap()
    };
    let (log, _) = open(options.clone());
    let done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        for thread in 0..2_u64 {
            let (log, done) = (&log, &done);
            threads.spawn(move || {
                let mut at = thread;
                while !done.load(Ordering::Relaxed) {
                    let (first, last) = (log.first().0, log.last().0);
                    at = at
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(thread + 1);
                    // Near the end as often as anywhere: that is where records move from memory to
                    // file.
                    let near = if at & 1 == 0 {
                        last.saturating_sub(at % 40)
                    } else {
                        at % last.max(1)
                    };
                    let position = near.max(first);
                    if position <= last {
                        match log.read(Position(position)) {
                            Ok(found) => assert_eq!(found, record(position)),
                            Err(error) if error.kind() == ErrorKind::Superseded => {
                                assert!(!is_needed(position), "{error}");
                            }
                            Err(error) => assert_eq!(error.kind(), ErrorKind::Dropped, "{error}"),
                        }
                    }
                }
            });
        }
        threads.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let from = Position(log.last().0.saturating_sub(500)).max(log.first());
                let mut expected = from.0.max(1);
                for item in log.scan(Position(expected)) {
                    match item {
                        Ok((position, found)) => {
                            assert!(!(expected..position.0).any(is_needed));
                            assert_eq!(found, record(position.0));
                            expected = position.0 + 1;
                        }
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Dropped, "{error}"),
                    }
                }
            }
        });
        threads.spawn(|| {
            // Records that are not durable are not compacted.
            while !rotate_unsynced && !done.load(Ordering::Relaxed) {
                compact_all(&log);
            }
        });
        let syncs: &[Sync] = match rotate_unsynced {
            false => &[Log::sync, Log::sync_aside, |log, _| {
                log.write_back().map(|()| log.durable())
            }],
            true => &[
                |log, last| log.write_back().map(|()| last),
                // Not always, or all records would be durable.
                |log, last| match last.0 % 64 {
                    0 => log.sync(last),
                    _ => Ok(last),
                },
            ],
        };
        for sync in syncs {
            let (log, done) = (&log, &done);
            threads.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let last = log.last();
                    let durable = sync(log, last).unwrap();
                    assert!(durable >= last && durable <= log.last());
                }
            });
        }
        while log.last().0 < LAST {
            crate::support::append(&log, 1 + log.last().0 % 4).unwrap();
            if log.last().0 % 20_000 < 4 {
                log.drop_before(Position(log.last().0 / 2)).unwrap();
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    log.close().unwrap();
    let (reopened, recovery) = open(options);
    assert_eq!((recovery.last, recovery.torn_bytes), (log.last(), 0));
    let mut next = reopened.first().0;
    for item in reopened.scan(reopened.first()) {
        let (position, found) = item.unwrap();
        assert_eq!(found, record(position.0));
        assert!(!(next..position.0).any(is_needed));
        next = position.0 + 1;
    }
    assert_eq!(next, log.last().0 + 1);
}

#[test]
fn appenders_at_once_get_positions_of_their_own_and_share_syncs() {
    let directory = tempfile::tempdir().unwrap();
    let options = LogOptions {
        segment_bytes: 5_000,
        reserve_bytes: 500,
        ..LogOptions::default()
    };
    let env: Arc<dyn Env> = OsEnv::new().unwrap();
    let (log, _) = Log::open(
        env,
        directory.path(),
        IDENTITY,
        BlockCache::new(1 << 20),
        options,
    )
    .unwrap();
    const THREADS: u64 = 8;
    const EACH: u64 = 100;
    let record =
        |thread: u64, at: u64| vec![b'a' + thread as u8; (at * 37 + thread * 11) as usize % 300];
    std::thread::scope(|threads| {
        for thread in 0..THREADS {
            let log = &log;
            threads.spawn(move || {
                for at in 0..EACH {
                    let written = record(thread, at);
                    let position = log.append(&[&written]).unwrap();
                    assert_eq!(log.read(position).unwrap(), written);
                    assert!(log.sync(position).unwrap() >= position);
                    assert_eq!(log.read(position).unwrap(), written);
                }
            });
        }
    });
    assert_eq!(log.durable(), Position(THREADS * EACH));
    assert!(log.stats().syncs <= THREADS * EACH);
    let mut found: Vec<Vec<u8>> = log
        .scan(Position(1))
        .map(|item| item.unwrap().1.to_vec())
        .collect();
    let mut written: Vec<Vec<u8>> = (0..THREADS)
        .flat_map(|thread| (0..EACH).map(move |at| record(thread, at)))
        .collect();
    found.sort();
    written.sort();
    assert_eq!(found, written);
}
