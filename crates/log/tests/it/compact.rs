//! Compaction keeps positions: a needed record reads as before, and any other is reported as
//! superseded, under faults and crashes too.

use crate::support::*;
use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use quire_env::{Budget, Env, Fault, SimEnv};
use quire_log::{
    Codec, Compacted, Error, ErrorKind, Log, LogOptions, LogView, Result, SegmentInfo,
};
use quire_model::Position;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Which records are needed: `density` and the position decide.
#[derive(Debug, Clone, Copy)]
struct Needed {
    seed: u64,
    /// Out of 8; 0 is none.
    density: u64,
}

impl Needed {
    fn is_needed(self, position: u64) -> bool {
        let mixed = (position ^ self.seed).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 60;
        mixed % 8 < self.density
    }
}

/// The neighbouring sealed segments that `from` and `count` choose, if there are any.
fn choose(log: &Log, from: usize, count: usize) -> Option<(Position, Position)> {
    let sealed: Vec<SegmentInfo> = log
        .segments()
        .into_iter()
        .filter(|info| info.sealed)
        .collect();
    let from = from % sealed.len().max(1);
    let last = (from + count.max(1) - 1).min(sealed.len().checked_sub(1)?);
    Some((sealed.get(from)?.base, sealed.get(last)?.next))
}

/// Compacts what [`choose`] chooses, and adds what may be removed to `gone` before it is.
fn compact(
    log: &Log,
    needed: Needed,
    from: usize,
    count: usize,
    gone: &mut BTreeSet<u64>,
) -> Result<Option<Compacted>> {
    let Some((from, next)) = choose(log, from, count) else {
        return Ok(None);
    };
    gone.extend((from.0..next.0).filter(|position| !needed.is_needed(*position)));
    let mut keep = |records: &[(Position, Bytes)]| -> Result<Vec<bool>> {
        for (position, found) in records {
            assert_eq!(*found, record(position.0), "position {position}");
        }
        let answers = records.iter();
        Ok(answers
            .map(|(position, _)| needed.is_needed(position.0))
            .collect())
    };
    log.compact(from, next, &mut keep, &room, &|| false)
}

/// Each record is what was written, or superseded, if it may be; by every way of reading. Returns
/// the positions that are there.
fn check(log: &Log, gone: &BTreeSet<u64>) -> BTreeSet<u64> {
    let (first, last) = (log.first().0, log.last().0);
    let mut there = BTreeSet::new();
    for position in first..=last {
        match log.read(Position(position)) {
            Ok(found) => {
                assert_eq!(found, record(position), "position {position}");
                there.insert(position);
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Superseded, "{error}");
                assert!(gone.contains(&position), "position {position} is needed");
            }
        }
    }
    for from in [first, first + (last + 1 - first) / 3, last.max(first)] {
        let scanned: Vec<u64> = log
            .scan(Position(from))
            .map(|item| item.unwrap())
            .map(|(position, found)| {
                assert_eq!(found, record(position.0), "position {position}");
                position.0
            })
            .collect();
        let expected: Vec<u64> = there.range(from..).copied().collect();
        assert_eq!(scanned, expected, "scan from {from}");
    }
    let backwards: Vec<Position> = there.iter().rev().map(|at| Position(*at)).collect();
    for (position, found) in backwards.iter().zip(log.read_many(&backwards).unwrap()) {
        assert_eq!(found, record(position.0), "position {position}");
    }
    let records: u64 = log.segments().iter().map(|info| info.records).sum();
    assert_eq!(records + pending(log), there.len() as u64);
    there
}

/// Records that are in no segment yet.
fn pending(log: &Log) -> u64 {
    let next = log.segments().last().unwrap().next;
    log.last().0 + 1 - next.0
}

#[derive(Debug, Clone)]
enum Op {
    Append(u64),
    Sync,
    Rotate,
    Compact {
        needed: Needed,
        from: usize,
        count: usize,
    },
    Stopped {
        from: usize,
    },
    View,
    DropBefore(u64),
    Reopen {
        close: bool,
    },
}

fn any_op() -> impl Strategy<Value = Op> {
    let needed = (any::<u64>(), 0..8_u64).prop_map(|(seed, density)| Needed { seed, density });
    prop_oneof![
        8 => (1..30_u64).prop_map(Op::Append),
        3 => Just(Op::Sync),
        2 => Just(Op::Rotate),
        6 => (needed, 0..20_usize, 1..6_usize)
            .prop_map(|(needed, from, count)| Op::Compact { needed, from, count }),
        1 => (0..20_usize).prop_map(|from| Op::Stopped { from }),
        1 => Just(Op::View),
        1 => (1..50_u64).prop_map(Op::DropBefore),
        2 => any::<bool>().prop_map(|close| Op::Reopen { close }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn what_is_needed_reads_as_before_and_the_rest_is_superseded(
        ops in vec(any_op(), 1..50),
        zstd in any::<bool>(),
    ) {
        let env = SimEnv::new(1);
        let options = LogOptions { codec: if zstd { DICTIONARY } else { Codec::Lz4 }, ..tiny() };
        let open = |env| open_with(env, options.clone());
        let (mut log, _) = open(&env).unwrap();
        let mut gone = BTreeSet::new();
        let mut views: Vec<(LogView, BTreeSet<u64>)> = Vec::new();
        for op in ops {
            match op {
                Op::Append(count) => { append(&log, count).unwrap(); }
                Op::Sync => { log.sync(log.last()).unwrap(); }
                Op::Rotate => log.rotate().unwrap(),
                Op::Compact { needed, from, count } => {
                    let before = check(&log, &gone);
                    let chosen = choose(&log, from, count);
                    let removed = log.segments();
                    let compacted = compact(&log, needed, from, count, &mut gone).unwrap();
                    let after = check(&log, &gone);
                    prop_assert_eq!(compacted.is_some(), chosen.is_some());
                    if let (Some(compacted), Some((from, next))) = (compacted, chosen) {
                        let lost: Vec<u64> = before.difference(&after).copied().collect();
                        prop_assert_eq!(compacted.records, lost.len() as u64);
                        let bytes: u64 = lost.iter().map(|at| record(*at).len() as u64).sum();
                        prop_assert_eq!(compacted.record_bytes, bytes);
                        let left = after.range(from.0..next.0);
                        prop_assert!(left.into_iter().all(|at| needed.is_needed(*at)));
                        let mut segments = log.segments().into_iter();
                        let info = segments.find(|info| info.base == from).unwrap();
                        prop_assert_eq!(info.next, next);
                        let inputs = removed.iter();
                        let inputs = inputs.filter(|info| (from..next).contains(&info.base));
                        let removed_bytes: u64 = inputs.map(|info| info.removed_bytes).sum();
                        prop_assert_eq!(info.removed_bytes, removed_bytes + bytes);
                    }
                }
                Op::Stopped { from } => {
                    if let Some((from, next)) = choose(&log, from, 2) {
                        let mut none = |records: &[(Position, Bytes)]| -> Result<Vec<bool>> {
                            Ok(vec![false; records.len()])
                        };
                        let stopped = log.compact(from, next, &mut none, &room, &|| true);
                        prop_assert!(stopped.unwrap().is_none());
                    }
                }
                Op::View => views.push((log.view(), check(&log, &gone))),
                Op::DropBefore(part) => {
                    log.drop_before(Position(log.first().0 + part)).unwrap();
                }
                Op::Reopen { close } => {
                    views.clear();
                    if close {
                        log.close().unwrap();
                        prop_assert_eq!(verify_all(&env).1, vec![]);
                    }
                    let kept = check(&log, &gone);
                    drop(log);
                    (log, _) = open(&env).unwrap();
                    let found = check(&log, &gone);
                    let wanted = kept.range(..=log.last().0).copied().collect();
                    prop_assert_eq!(found, wanted);
                    gone.retain(|at| *at <= log.last().0);
                }
            }
            for (view, there) in &views {
                let positions: Vec<Position> = there.iter().map(|at| Position(*at)).collect();
                for (position, found) in positions.iter().zip(view.read_many(&positions).unwrap()) {
                    prop_assert_eq!(found, record(position.0));
                }
                let scanned: Result<Vec<_>> = view.scan(view.first()).collect();
                let scanned = scanned.unwrap().into_iter().map(|(at, _)| at);
                let scanned: Vec<Position> = scanned.collect();
                prop_assert_eq!(scanned, positions);
            }
            check(&log, &gone);
        }
        views.clear();
        prop_assert_eq!(log.stats().held_bytes, 0);
        let files = segments(&env);
        let file_bytes = files.iter().map(|path| env.open_read(path).unwrap().len().unwrap());
        let named: u64 = file_bytes.sum();
        let stats = log.stats();
        prop_assert!(stats.disk_bytes >= named || stats.segments == files.len() as u64);
        log.close().unwrap();
        prop_assert_eq!(verify_all(&env).1, vec![]);
    }
}

/// What the log reported to a history before it ended.
#[derive(Debug, Default, Clone)]
struct Reported {
    synced: u64,
    offered: u64,
    gone: BTreeSet<u64>,
}

impl Reported {
    fn append(&mut self, log: &Log, count: u64) -> Result<()> {
        self.offered = log.last().0 + count;
        append(log, count)?;
        self.synced = log.sync(log.last())?.0;
        Ok(())
    }

    fn compact(&mut self, log: &Log, seed: u64, from: usize, count: usize) -> Result<()> {
        let density = 2 + seed % 4;
        // A record that one compaction was told to remove is gone; the needed records are those
        // that none called obsolete.
        let needed = Needed { seed, density };
        compact(log, needed, from, count, &mut self.gone).map(drop)
    }

    fn check(&mut self, env: &Arc<SimEnv>) -> Result<Log> {
        let (log, _) = open(env)?;
        assert!(log.last().0 >= self.synced && log.last().0 <= self.offered);
        check(&log, &self.gone);
        self.synced = log.last().0;
        self.gone.retain(|at| *at <= log.last().0);
        Ok(log)
    }
}

/// Appends, rotations, and compactions of one segment and of several, repeatedly, with openings in
/// between.
fn history(env: &Arc<SimEnv>, reported: &mut Reported) -> Result<()> {
    let mut log = reported.check(env)?;
    for round in 0..3 {
        for count in [7, 3, 12, 5] {
            reported.append(&log, count)?;
        }
        reported.compact(&log, round, round as usize, 1)?;
        reported.append(&log, 4)?;
        log.rotate()?;
        reported.compact(&log, 10 + round, 0, 3)?;
        reported.compact(&log, 20 + round, 1, 2)?;
        reported.append(&log, 3)?;
        if round == 1 {
            log.close()?;
        }
        drop(log);
        log = reported.check(env)?;
    }
    reported.compact(&log, 5, 0, 100)?;
    reported.append(&log, 2)
}

fn steps_of_history() -> u64 {
    let env = SimEnv::new(0);
    history(&env, &mut Reported::default()).unwrap();
    env.operations()
}

fn goes_on(env: &Arc<SimEnv>, reported: &mut Reported) {
    let log = reported.check(env).unwrap();
    reported.append(&log, 9).unwrap();
    log.rotate().unwrap();
    reported.compact(&log, 3, 1, 4).unwrap();
    check(&log, &reported.gone);
    log.close().unwrap();
    assert_eq!(verify_all(env).1, []);
}

#[test]
fn a_crash_at_any_step_of_a_compaction_loses_nothing_that_is_needed() {
    in_both_codecs(|| {
        for step in 0..steps_of_history() {
            let env = SimEnv::new(step);
            env.crash_at(step);
            let mut reported = Reported::default();
            history(&env, &mut reported).unwrap_err();
            for seed in 0..12 {
                let mut reported = reported.clone();
                let after = env.after_crash(seed);
                if after.exists(dir()).unwrap() {
                    assert_eq!(verify_all(&after).1, [], "step {step} seed {seed}");
                }
                // Once more at a step of the recovery.
                if seed % 3 == 0 {
                    let before = after.operations();
                    after.crash_at(before + seed / 3);
                    let _ = reported.clone().check(&after);
                    goes_on(&after.after_crash(seed), &mut reported.clone());
                }
                let after = env.after_crash(seed);
                goes_on(&after, &mut reported);
                goes_on(&after.after_crash(seed + 100), &mut reported);
            }
        }
    });
}

#[test]
fn a_fault_at_any_step_of_a_compaction_changes_nothing_and_the_log_goes_on() {
    in_both_codecs(|| {
        for (fault, lasting) in [
            (Fault::Eio, false),
            (Fault::Enospc, false),
            (Fault::Enospc, true),
        ] {
            for step in 0..steps_of_history() {
                let env = SimEnv::new(step);
                match lasting {
                    true => env.fail_from(step, fault),
                    false => env.fail_at(step, fault),
                }
                let mut reported = Reported::default();
                let _ = history(&env, &mut reported);
                env.heal();
                for seed in 0..3 {
                    drop(reported.clone().check(&env.after_crash(seed)).unwrap());
                }
                goes_on(&env, &mut reported);
                goes_on(&env.after_crash(step), &mut reported);
            }
        }
    });
}

#[test]
fn a_compaction_that_fails_leaves_a_log_that_takes_writes_and_can_try_again() {
    in_both_codecs(|| {
        let whole = SimEnv::new(4);
        let mut steps = 0..0;
        // The first run finds out which steps are those of the compaction.
        for failing in std::iter::once(None).chain((0..40).map(Some)) {
            let env = match failing {
                None => whole.clone(),
                Some(_) => SimEnv::new(4),
            };
            let (log, _) = open(&env).unwrap();
            append_synced(&log, 80);
            log.rotate().unwrap();
            let begin = env.operations();
            if let Some(failing) = failing {
                if failing >= steps.end {
                    break;
                }
                let fault = if failing % 2 == 0 {
                    Fault::Eio
                } else {
                    Fault::Enospc
                };
                env.fail_at(begin + failing, fault);
            }
            let mut gone = BTreeSet::new();
            let needed = Needed {
                seed: 9,
                density: 4,
            };
            let first = compact(&log, needed, 1, 3, &mut gone);
            if failing.is_none() {
                steps = 0..env.operations() - begin;
            } else if let Err(error) = &first {
                assert!(
                    matches!(error.kind(), ErrorKind::Io | ErrorKind::NoSpace),
                    "{error}"
                );
            }
            check(&log, &gone);
            append_synced(&log, 84);
            let again = compact(&log, needed, 1, 3, &mut gone).unwrap();
            assert!(again.is_some());
            check(&log, &gone);
            let there = check(&log, &gone);
            for seed in 0..6 {
                let (log, _) = open(&env.after_crash(seed)).unwrap();
                assert_eq!(check(&log, &gone), there);
            }
        }
        assert!(steps.end > 5, "{steps:?}");
    });
}

#[test]
fn any_flipped_byte_of_a_compacted_segment_is_damage_and_never_served() {
    in_both_codecs(|| {
        let env = SimEnv::new(6);
        let (log, _) = open(&env).unwrap();
        append_synced(&log, 60);
        log.rotate().unwrap();
        let mut gone = BTreeSet::new();
        let needed = Needed {
            seed: 2,
            density: 5,
        };
        compact(&log, needed, 0, 2, &mut gone).unwrap();
        log.close().unwrap();
        drop(log);
        let path = segments(&env).remove(0);
        let length = env.open_read(&path).unwrap().len().unwrap();
        for at in 0..length {
            let env = env.after_crash(1);
            env.flip_bit(&path, at * 8 + 3).unwrap();
            assert!(!verify_all(&env).1.is_empty(), "byte {at} goes unnoticed");
            let Ok((log, _)) = open(&env) else { continue };
            for position in 1..=log.last().0 {
                match log.read(Position(position)) {
                    Ok(found) => assert_eq!(found, record(position), "byte {at}"),
                    Err(Error::Superseded { .. }) => assert!(gone.contains(&position), "byte {at}"),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt),
                }
            }
        }
        for cut in 0..length {
            let env = env.after_crash(1);
            env.truncate_file(&path, cut).unwrap();
            assert!(
                !verify_all(&env).1.is_empty(),
                "a cut at {cut} goes unnoticed"
            );
            assert!(open(&env).is_err(), "a cut at {cut} goes unnoticed");
        }
    });
}

#[test]
fn damage_ends_a_compaction_and_stays_where_it_is() {
    let env = SimEnv::new(6);
    let (log, _) = open(&env).unwrap();
    append_synced(&log, 60);
    log.rotate().unwrap();
    let path = segments(&env).remove(1);
    env.flip_bit(&path, 801).unwrap();
    let before = log.segments();
    let mut gone = BTreeSet::new();
    let needed = Needed {
        seed: 2,
        density: 0,
    };
    let error = compact(&log, needed, 0, 3, &mut gone).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(
        error.to_string().contains(path.to_str().unwrap()),
        "{error}"
    );
    assert_eq!(log.segments(), before);
    assert!(
        !env.files()
            .iter()
            .any(|path| path.to_string_lossy().ends_with(".tmp"))
    );
}

#[test]
fn a_large_block_has_room_while_it_is_compacted_and_one_at_a_time() {
    const RECORD_BYTES: usize = 2 << 20;
    let (log, _) = open(&SimEnv::new(1)).unwrap();
    for fill in 0..5 {
        log.append(&[&vec![fill; RECORD_BYTES], b"small"]).unwrap();
    }
    log.rotate().unwrap();
    let budget = Budget::new(u64::MAX);
    let room = |bytes| {
        assert_eq!(budget.used(), 0, "no other block has room");
        budget.charge(bytes)
    };
    let mut all = |records: &[(Position, Bytes)]| -> Result<Vec<bool>> {
        let is_large = records[0].1.len() == RECORD_BYTES;
        assert!(!is_large || budget.used() > 3 * RECORD_BYTES as u64);
        Ok(vec![true; records.len()])
    };
    let (from, next) = (Position(1), log.last().next());
    log.compact(from, next, &mut all, &room, &|| false).unwrap();
    assert_eq!(budget.used(), 0);
    assert!(budget.peak() < 4 * RECORD_BYTES as u64, "{}", budget.peak());
    let read = |position| log.read(Position(position)).unwrap();
    assert!((1..=5).all(|n| read(2 * n - 1) == vec![n as u8 - 1; RECORD_BYTES]));
}
