//! Salvage of a damaged log: whole records are reported, and the others are reported as lost.

use crate::support::*;
use quire_env::{Env, SimEnv};
use quire_log::{Finding, salvage};
use quire_model::Position;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

const LAST: u64 = 40;

/// A log of single records and of groups over several blocks, closed or not; all durable.
fn machine(closed: bool) -> Arc<SimEnv> {
    let env = SimEnv::new(1);
    let (log, _) = open(&env).unwrap();
    while log.last().0 < LAST {
        let last = append(&log, if log.last().0 % 4 == 0 { 5 } else { 1 }).unwrap();
        log.sync(last).unwrap();
    }
    assert_eq!(log.last(), Position(LAST));
    if closed {
        log.close().unwrap();
    }
    env
}

/// Positions reported as records and as lost: each record is right, none comes twice, and none is
/// missing.
fn salvaged(env: &SimEnv, known: u64, at: &str) -> (BTreeSet<u64>, BTreeSet<u64>) {
    let before = env.files();
    let (mut given, mut lost) = (BTreeSet::new(), BTreeSet::new());
    for finding in salvage(env, dir(), Some(IDENTITY), Position(known)).unwrap() {
        match finding.unwrap() {
            Finding::Record(position, bytes) => {
                assert_eq!(bytes, record(position.0), "{at}");
                assert!(given.last() < Some(&position.0), "{at}: {position} again");
                given.insert(position.0);
            }
            Finding::Damage(damage) => {
                let (first, last) = damage.lost.unwrap_or((Position(1), Position(0)));
                lost.extend(first.0..=last.0);
            }
            _ => {}
        }
    }
    for position in 1..=known {
        assert!(
            given.contains(&position) || lost.contains(&position),
            "{at}: {position} is neither given nor lost"
        );
    }
    assert_eq!(env.files(), before, "{at}: only read");
    (given, lost)
}

fn damaged(template: &SimEnv, at: &str, most: u64, damage: impl Fn(&SimEnv)) {
    let env = template.after_crash(0);
    damage(&env);
    let (given, lost) = salvaged(&env, LAST, at);
    let missing = LAST - given.len() as u64;
    assert!(missing <= most, "{at}: {missing} lost: {lost:?}");
}

#[test]
fn an_undamaged_log_is_given_whole_and_a_torn_group_not_at_all() {
    in_both_codecs(|| {
        for closed in [true, false] {
            let env = machine(closed);
            let (given, lost) = salvaged(&env, LAST, "whole");
            assert_eq!((given.len() as u64, lost.len()), (LAST, 0));
        }
        // A group of which a crash kept a part was not acknowledged; recovery would cut it, as long
        // as nothing proves more.
        let env = machine(false);
        let path = segments(&env).pop().unwrap();
        let whole = env.read_all(&path).unwrap().len() as u64;
        for cut in 0..whole {
            let torn = env.after_crash(0);
            torn.truncate_file(&path, cut).unwrap();
            let (given, _) = salvaged(&torn, 0, "torn");
            if let Ok((log, _)) = open(&torn) {
                let kept: BTreeSet<u64> = (1..=log.last().0).collect();
                assert_eq!(given, kept, "cut at {cut}");
            }
        }
    });
}

#[test]
fn any_flipped_byte_costs_one_block_at_most() {
    in_both_codecs(|| {
        for closed in [true, false] {
            let template = machine(closed);
            for path in segments(&template) {
                for byte in 0..template.read_all(&path).unwrap().len() as u64 {
                    let at = format!("closed {closed}, byte {byte} of {}", path.display());
                    let of_dictionary = is_of_dictionary(&template, &path, byte);
                    let most = if of_dictionary { LAST / 2 } else { 5 };
                    damaged(&template, &at, most, |env| {
                        env.flip_bit(&path, byte * 8 + byte % 8).unwrap();
                    });
                }
            }
        }
    });
}

#[test]
fn files_that_are_cut_missing_or_under_another_name_cost_no_more_than_they_hold() {
    in_both_codecs(|| {
        for closed in [true, false] {
            let template = machine(closed);
            let files = segments(&template);
            assert!(files.len() >= 3, "{files:?}");
            for (number, path) in files.iter().enumerate() {
                let bytes = template.read_all(path).unwrap();
                let step = if closed { 3 } else { 11 };
                for cut in (0..bytes.len() as u64).step_by(step) {
                    let at = format!("cut at {cut} of {}", path.display());
                    damaged(&template, &at, LAST / 2, |env| {
                        env.truncate_file(path, cut).unwrap()
                    });
                }
                damaged(&template, "missing", LAST / 2, |env| {
                    env.remove(path).unwrap()
                });
                let other = files[(number + 1) % files.len()].as_path();
                let swap = |env: &SimEnv| {
                    let others = env.read_all(other).unwrap();
                    env.replace(path, &others).unwrap();
                    env.replace(other, &bytes).unwrap();
                };
                damaged(&template, "swapped", 0, swap);
                damaged(&template, "renamed", 0, |env| {
                    env.rename(path, Path::new("/log/x.log")).unwrap();
                });
                damaged(&template, "copied over the next", LAST / 2, |env| {
                    env.replace(other, &bytes).unwrap();
                });
            }
        }
    });
}
