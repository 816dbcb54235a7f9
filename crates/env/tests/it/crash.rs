//! What a crash of the simulated machine leaves, over many seeds.

use proptest::collection::vec;
use proptest::prelude::*;
use quire_env::{Env, ErrorKind, Result, SimEnv};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

const SECTOR_BYTES: usize = 512;
const SEEDS: u64 = 300;

fn root() -> &'static Path {
    Path::new("/")
}

/// A machine with an empty file `/f`, durably named.
fn machine_with_file() -> (Arc<SimEnv>, Box<dyn quire_env::AppendFile>) {
    let env = SimEnv::new(0);
    let file = env.create(Path::new("/f")).unwrap();
    env.sync_dir(root()).unwrap();
    (env, file)
}

fn after(env: &SimEnv, seed: u64) -> Vec<u8> {
    env.after_crash(seed).read_all(Path::new("/f")).unwrap()
}

#[test]
fn unsynced_bytes_are_lost_or_kept_or_cut_or_zero_or_have_holes_at_sectors() {
    let (env, mut file) = machine_with_file();
    let synced = [1; 700];
    file.append(&synced).unwrap();
    file.sync().unwrap();
    file.append(&[2; 4000]).unwrap();
    file.append(&[3; 1000]).unwrap();
    let whole = env.read_all(Path::new("/f")).unwrap();
    let (mut lost, mut kept, mut cut, mut holes, mut zeros) = (0, 0, 0, 0, 0);
    for seed in 0..SEEDS {
        let left = after(&env, seed);
        assert_eq!(left[..700], synced, "synced bytes stay");
        assert!(left.len() <= whole.len());
        for start in (0..left.len()).step_by(SECTOR_BYTES) {
            let sector = start.max(700)..(start + SECTOR_BYTES).min(left.len()).max(700);
            let (found, written) = (&left[sector.clone()], &whole[sector.clone()]);
            // Within a sector the two appends may be there, or the first alone, or none.
            let first = |b: &u8| if *b == 3 { 0 } else { *b };
            let first: Vec<u8> = written.iter().map(first).collect();
            let second: Vec<u8> = written
                .iter()
                .map(|b| if *b == 2 { 0 } else { *b })
                .collect();
            let zero = vec![0; written.len()];
            assert!(
                [written, &first[..], &second[..], &zero[..]].contains(&found),
                "a sector is written whole or not: {sector:?} with seed {seed}"
            );
        }
        lost += usize::from(left.len() == 700);
        kept += usize::from(left == whole);
        cut += usize::from(left.len() > 700 && left.len() < whole.len());
        zeros += usize::from(left.len() == whole.len() && left[700..].iter().all(|b| *b == 0));
        let hole = left[700..].iter().position(|b| *b == 0);
        holes += usize::from(hole.is_some_and(|at| left[700 + at..].iter().any(|b| *b != 0)));
    }
    for (what, count) in [
        ("lost", lost),
        ("kept", kept),
        ("cut", cut),
        ("holes", holes),
        ("zeros", zeros),
    ] {
        assert!(count >= SEEDS as usize / 10, "{what}: {count} of {SEEDS}");
    }
}

#[test]
fn files_survive_apart_from_each_other() {
    let env = SimEnv::new(0);
    for name in ["/a", "/b"] {
        env.create(Path::new(name))
            .unwrap()
            .append(b"bytes")
            .unwrap();
    }
    env.sync_dir(root()).unwrap();
    let mut outcomes = BTreeSet::new();
    for seed in 0..SEEDS {
        let env = env.after_crash(seed);
        outcomes
            .insert(["/a", "/b"].map(|name| env.read_all(Path::new(name)).unwrap() == b"bytes"));
    }
    assert_eq!(outcomes.len(), 4, "{outcomes:?}");
}

#[test]
fn what_was_cut_and_written_again_comes_back_as_zeros_past_the_cut_at_most() {
    let (env, mut file) = machine_with_file();
    file.append(&[1; 2000]).unwrap();
    file.sync().unwrap();
    file.truncate(100).unwrap();
    file.append(&[2; 50]).unwrap();
    for seed in 0..SEEDS {
        let left = after(&env, seed);
        assert!(left.len() == 2000 || left.len() <= 150);
        let (old, new) = left.split_at(100);
        assert_eq!(old, [1; 100]);
        assert!(left.len() == 2000 || new.iter().all(|b| [0, 2].contains(b)));
    }
}

#[test]
fn cut_is_kept_whole_or_lost_whole() {
    let (env, mut file) = machine_with_file();
    file.append(&[1; 2000]).unwrap();
    file.sync().unwrap();
    file.truncate(100).unwrap();
    let lengths: BTreeSet<_> = (0..SEEDS).map(|seed| after(&env, seed).len()).collect();
    assert_eq!(lengths, BTreeSet::from([100, 2000]));
    file.sync().unwrap();
    let lengths: BTreeSet<_> = (0..SEEDS).map(|seed| after(&env, seed).len()).collect();
    assert_eq!(lengths, BTreeSet::from([100]));
}

#[test]
fn names_are_lost_from_the_last_change_on_until_the_directory_is_synced() {
    let env = SimEnv::new(0);
    let names = ["/a", "/b", "/c"].map(Path::new);
    for name in names {
        env.create(name).unwrap().sync().unwrap();
    }
    env.rename(names[0], Path::new("/d")).unwrap();
    env.remove(names[1]).unwrap();
    let list = |env: &SimEnv| env.list(root()).unwrap().concat();
    let outcomes: BTreeSet<_> = (0..SEEDS)
        .map(|seed| list(&env.after_crash(seed)))
        .collect();
    let expected = ["", "a", "ab", "abc", "bcd", "cd"].map(String::from);
    assert_eq!(outcomes, BTreeSet::from(expected));
    env.sync_dir(root()).unwrap();
    for seed in 0..SEEDS {
        assert_eq!(list(&env.after_crash(seed)), "cd");
    }
}

#[test]
fn rename_between_directories_is_never_half_done() {
    let env = SimEnv::new(0);
    env.create_dir_all(Path::new("/a")).unwrap();
    env.create_dir_all(Path::new("/b")).unwrap();
    let mut file = env.create(Path::new("/a/f")).unwrap();
    file.append(b"f").unwrap();
    file.sync().unwrap();
    env.sync_dir(Path::new("/a")).unwrap();
    env.create(Path::new("/b/g")).unwrap();
    env.rename(Path::new("/a/f"), Path::new("/b/f")).unwrap();
    env.create(Path::new("/a/h")).unwrap();
    let files = |env: &SimEnv| {
        let names = env.files();
        assert_eq!(
            names.iter().filter(|path| path.ends_with("f")).count(),
            1,
            "{names:?}"
        );
        names
            .iter()
            .map(|path| path.to_string_lossy().into_owned())
            .collect::<Vec<_>>()
            .join(" ")
    };
    let outcomes: BTreeSet<_> = (0..SEEDS)
        .map(|seed| files(&env.after_crash(seed)))
        .collect();
    let expected = ["/a/f", "/a/f /b/g", "/b/f /b/g", "/a/h /b/f /b/g"].map(String::from);
    assert_eq!(outcomes, BTreeSet::from(expected));
    // Syncing one directory syncs the rename, and what came before it in the other.
    env.sync_dir(Path::new("/a")).unwrap();
    for seed in 0..SEEDS {
        assert_eq!(files(&env.after_crash(seed)), "/a/h /b/f /b/g");
    }
}

/// Runs `program` with a crash at each of its steps, and without; for each, `check` sees what
/// several restarts find, with the number of the crash step.
fn crash_everywhere(
    set_up: impl Fn(&SimEnv),
    program: impl Fn(&SimEnv) -> Result<()>,
    check: impl Fn(&SimEnv, Result<()>, &str),
) {
    let steps = {
        let env = SimEnv::new(0);
        set_up(&env);
        let before = env.operations();
        program(&env).unwrap();
        before..=env.operations()
    };
    for step in steps {
        let env = SimEnv::new(0);
        set_up(&env);
        env.crash_at(step);
        let outcome = program(&env);
        assert_eq!(outcome.is_err(), env.crashed());
        for seed in 0..40 {
            let outcome = outcome.as_ref().copied().map_err(|error| {
                assert_eq!(error.kind(), ErrorKind::Crashed);
                quire_env::Error::invalid_argument("crashed")
            });
            check(
                &env.after_crash(seed),
                outcome,
                &format!("step {step}, seed {seed}"),
            );
        }
    }
}

#[test]
fn replace_leaves_the_old_bytes_or_the_new_and_is_durable_when_it_returns() {
    let path = Path::new("/dir/current");
    let (old, new) = (vec![1; 1500], vec![2; 5000]);
    let seen = std::cell::RefCell::new(BTreeSet::new());
    crash_everywhere(
        |env| {
            env.create_dir_all(Path::new("/dir")).unwrap();
            env.replace(path, &old).unwrap();
            // Files left by an earlier crash do no harm.
            env.create(Path::new("/dir/current.tmp"))
                .unwrap()
                .append(b"rest")
                .unwrap();
        },
        |env| env.replace(path, &new),
        |env, outcome, when| {
            let found = env.read(path, u64::MAX).unwrap();
            assert!(
                found == old || found == new,
                "{} bytes, {when}",
                found.len()
            );
            assert!(outcome.is_err() || found == new, "{when}");
            seen.borrow_mut().insert((outcome.is_ok(), found == new));
            env.replace(path, &old).unwrap();
            assert_eq!(env.list(Path::new("/dir")).unwrap(), ["current"]);
        },
    );
    let all = BTreeSet::from([(false, false), (false, true), (true, true)]);
    assert_eq!(seen.into_inner(), all);
}

#[test]
fn directories_are_durable_when_made_even_by_one_who_died_before_syncing() {
    let path = Path::new("/a/b/c");
    crash_everywhere(
        |_| {},
        |env| env.create_dir_all(path),
        |env, outcome, when| {
            assert!(outcome.is_err() || env.list(path).is_ok(), "{when}");
            env.create_dir_all(path).unwrap();
            assert!(env.after_crash(1).list(path).is_ok(), "{when}");
        },
    );
    // The process dies at a step and the machine keeps running: the next process finds a name that
    // was never synced.
    for step in 0..6 {
        let env = SimEnv::new(0);
        env.fail_from(step, quire_env::Fault::Eio);
        assert!(env.create_dir_all(path).is_err());
        env.heal();
        env.create_dir_all(path).unwrap();
        for seed in 0..20 {
            assert!(
                env.after_crash(seed).list(path).is_ok(),
                "died at {step}, seed {seed}"
            );
        }
    }
    // Several processes die, one after the other, each a little later.
    for first in 0..6 {
        for second in 0..6 {
            let env = SimEnv::new(0);
            for steps in [first, second] {
                env.fail_from(env.operations() + steps, quire_env::Fault::Eio);
                let _ = env.create_dir_all(path);
                env.heal();
            }
            env.create_dir_all(path).unwrap();
            for seed in 0..20 {
                let after = env.after_crash(seed);
                assert!(after.list(path).is_ok(), "{first}, {second}, seed {seed}");
            }
        }
    }
}

#[test]
fn directory_is_removed_with_all_in_it_or_can_be_removed_again() {
    crash_everywhere(
        |env| {
            env.create_dir_all(Path::new("/d/e")).unwrap();
            for name in ["/d/x", "/d/e/y"] {
                env.replace(Path::new(name), b"x").unwrap();
            }
        },
        |env| {
            env.remove_dir_all(Path::new("/d"))?;
            env.sync_dir(root())
        },
        |env, outcome, when| {
            assert!(
                outcome.is_err() || !env.exists(Path::new("/d")).unwrap(),
                "{when}"
            );
            env.remove_dir_all(Path::new("/d")).unwrap();
            assert_eq!(env.files(), <[&Path; 0]>::default(), "{when}");
        },
    );
}

#[test]
fn crashed_machine_does_nothing_any_more() {
    let (env, mut file) = machine_with_file();
    let reader = env.open_read(Path::new("/f")).unwrap();
    let lock = env.lock(Path::new("/lock")).unwrap();
    env.crash_at(env.operations());
    let crashed = |outcome: Result<()>| {
        assert_eq!(
            outcome.map_err(|error| error.kind()),
            Err(ErrorKind::Crashed)
        );
    };
    crashed(file.append(b"x"));
    let left = env.after_crash(0).files();
    crashed(file.append(b"x"));
    crashed(file.sync());
    crashed(file.truncate(0));
    crashed(reader.read_at(0, 1).map(drop));
    crashed(env.list(root()).map(drop));
    crashed(env.read(Path::new("/f"), 10).map(drop));
    crashed(env.create(Path::new("/g")).map(drop));
    crashed(env.replace(Path::new("/g"), b"x"));
    crashed(env.remove(Path::new("/f")));
    crashed(env.lock(Path::new("/lock2")).map(drop));
    crashed(env.free_bytes(root()).map(drop));
    assert_eq!(env.after_crash(0).files(), left);
    // The lock is released, although its holder still exists here.
    env.after_crash(0).lock(Path::new("/lock")).unwrap();
    drop(lock);
}

#[test]
fn one_crash_can_be_continued_in_many_ways_and_each_repeats() {
    let (env, mut file) = machine_with_file();
    file.append(&[5; 3000]).unwrap();
    let contents: Vec<_> = (0..50).map(|seed| after(&env, seed)).collect();
    assert_eq!(
        contents,
        (0..50).map(|seed| after(&env, seed)).collect::<Vec<_>>()
    );
    assert_eq!(
        env.read_all(Path::new("/f")).unwrap(),
        [5; 3000],
        "the first run is as it was"
    );
    let next = env.after_crash(3);
    assert!(next.now_micros() > env.now_micros(), "the clock goes on");
    assert_eq!(next.operations(), 0);
}

#[derive(Debug, Clone)]
enum Change {
    Append(usize, u8),
    Sync,
    Truncate(u16),
}

fn any_change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => (0..3000usize, 1..255u8).prop_map(|(n, b)| Change::Append(n, b)),
        2 => Just(Change::Sync),
        1 => any::<u16>().prop_map(Change::Truncate),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// After any operations: bytes before every later cut that were synced are there, and no byte
    /// is one that was never at its offset.
    #[test]
    fn synced_bytes_survive_and_no_byte_is_made_up(
        changes in vec(any_change(), 1..25),
        crash_step in 0..30u64,
        seed in any::<u64>(),
    ) {
        let (env, mut file) = machine_with_file();
        env.crash_at(crash_step + env.operations());
        let mut written: Vec<BTreeSet<u8>> = Vec::new(); // all that ever was at each place
        let mut now: Vec<u8> = Vec::new();
        let mut synced: Vec<u8> = Vec::new();
        for change in changes {
            match change {
                Change::Append(count, byte) => {
                    for _ in 0..count {
                        if written.len() <= now.len() {
                            written.push(BTreeSet::from([0]));
                        }
                        written[now.len()].insert(byte);
                        now.push(byte);
                    }
                    if file.append(&vec![byte; count]).is_err() { break }
                }
                Change::Sync => {
                    if file.sync().is_err() { break }
                    synced.clone_from(&now);
                }
                Change::Truncate(to) => {
                    let len = usize::from(to) % (now.len() + 1);
                    now.truncate(len);
                    synced.truncate(len);
                    if file.truncate(len as u64).is_err() { break }
                }
            }
        }
        let left = after(&env, seed);
        prop_assert!(left.len() >= synced.len());
        prop_assert!(left.len() <= written.len());
        for (place, byte) in left.iter().enumerate() {
            prop_assert!(written[place].contains(byte));
            prop_assert!(place >= synced.len() || synced[place] == *byte);
        }
    }
}
