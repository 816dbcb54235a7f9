//! Faults of the simulated machine: failing steps, lying syncs, a full disk, damaged bytes.

use quire_env::{AppendFile, Env, ErrorKind, Fault, Result, SimEnv};
use std::path::Path;
use std::sync::Arc;

fn path() -> &'static Path {
    Path::new("/f")
}

fn machine_with_file() -> (Arc<SimEnv>, Box<dyn AppendFile>) {
    let env = SimEnv::new(0);
    let file = env.create(path()).unwrap();
    env.sync_dir(Path::new("/")).unwrap();
    (env, file)
}

fn kind<T>(outcome: Result<T>) -> Option<ErrorKind> {
    outcome.err().map(|error| error.kind())
}

#[test]
fn step_fails_once_or_from_then_on() {
    let (env, mut file) = machine_with_file();
    let now = env.operations();
    env.fail_at(now + 1, Fault::Eio);
    env.fail_from(now + 3, Fault::Enospc);
    let outcomes: Vec<_> = (0..5).map(|_| kind(file.append(b"x"))).collect();
    let (io, full) = (Some(ErrorKind::Io), Some(ErrorKind::NoSpace));
    assert_eq!(outcomes, [None, io, None, full, full]);
    assert_eq!(kind(env.create(Path::new("/g"))), full);
    assert_eq!(kind(env.sync_dir(Path::new("/"))), full);
    assert_eq!(kind(env.remove(path())), full);
    assert!(env.read(path(), 100).is_ok(), "reads are no steps");
    env.heal();
    file.append(b"x").unwrap();
    assert_eq!(env.read_all(path()).unwrap(), b"xxx");
}

#[test]
fn failed_append_leaves_any_first_part_until_it_is_truncated() {
    let mut lengths = std::collections::BTreeSet::new();
    for seed in 0..100 {
        let env = SimEnv::new(seed);
        let mut file = env.create(path()).unwrap();
        file.append(b"kept").unwrap();
        env.fail_at(env.operations(), Fault::Eio);
        assert!(file.append(b"1234").is_err());
        assert_eq!(file.len(), 4);
        let found = env.read_all(path()).unwrap();
        assert!(b"kept1234".starts_with(&found[..]) && found.len() >= 4);
        lengths.insert(found.len());
        file.truncate(4).unwrap();
        file.append(b"!").unwrap();
        assert_eq!(env.read_all(path()).unwrap(), b"kept!");
    }
    assert_eq!(lengths.len(), 5);
}

#[test]
fn failed_replace_leaves_the_old_bytes_and_nothing_beside_them() {
    let replace = |failing: Option<u64>| {
        let env = SimEnv::new(0);
        env.replace(path(), b"old").unwrap();
        let first = env.operations();
        if let Some(step) = failing {
            env.fail_at(first + step, Fault::Enospc);
        }
        let outcome = env.replace(path(), b"new");
        (
            env.operations() - first,
            kind(outcome),
            env.read_all(path()).unwrap(),
            env.files(),
        )
    };
    let (steps, ..) = replace(None);
    for step in 0..steps {
        let (_, outcome, found, files) = replace(Some(step));
        assert_eq!(outcome, Some(ErrorKind::NoSpace));
        // The directory sync comes after the rename: the new bytes are in place, and not known to
        // be durable.
        assert_eq!(
            found,
            if step + 1 == steps { b"new" } else { b"old" },
            "step {step}"
        );
        assert_eq!(files, [path()], "step {step}");
    }
}

#[test]
fn sync_that_failed_is_not_made_good_by_one_that_succeeds() {
    let (env, mut file) = machine_with_file();
    file.append(b"synced").unwrap();
    file.sync().unwrap();
    file.append(b"forgotten").unwrap();
    env.fail_syncs(true);
    assert_eq!(kind(file.sync()), Some(ErrorKind::Io));
    assert_eq!(kind(env.sync_dir(Path::new("/"))), Some(ErrorKind::Io));
    env.fail_syncs(false);
    file.sync().unwrap();
    let left = |env: &SimEnv, seed| env.after_crash(seed).read_all(path()).unwrap();
    assert!((0..50).any(|seed| left(&env, seed) == b"synced"));
    // A new file can still be synced.
    env.replace(path(), b"whole").unwrap();
    assert!((0..50).all(|seed| left(&env, seed) == b"whole"));
}

#[test]
fn full_disk_refuses_what_has_no_reserved_room() {
    let (env, mut file) = machine_with_file();
    env.set_capacity(100);
    file.append(&[1; 30]).unwrap();
    file.reserve(50).unwrap();
    assert_eq!(env.free_bytes(Path::new("/")).unwrap(), 20);
    let mut other = env.create(Path::new("/g")).unwrap();
    assert_eq!(kind(other.reserve(21)), Some(ErrorKind::NoSpace));
    assert_eq!(kind(other.append(&[2; 30])), Some(ErrorKind::NoSpace));
    assert_eq!(
        env.read_all(Path::new("/g")).unwrap(),
        [2; 20],
        "a first part found room"
    );
    assert_eq!(kind(env.create(Path::new("/h"))), Some(ErrorKind::NoSpace));
    assert_eq!(
        kind(env.create(Path::new("/g"))),
        Some(ErrorKind::AlreadyExists)
    );
    env.create_dir_all(Path::new("/")).unwrap();
    file.append(&[3; 50]).unwrap();
    assert_eq!(kind(file.append(&[3; 1])), Some(ErrorKind::NoSpace));
    // Truncation releases space, and so does removal, except of a file that is still open.
    other.truncate(0).unwrap();
    assert_eq!(env.free_bytes(Path::new("/")).unwrap(), 20);
    env.rename(path(), Path::new("/renamed")).unwrap();
    assert_eq!(env.free_bytes(Path::new("/")).unwrap(), 20);
    env.remove(Path::new("/renamed")).unwrap();
    assert_eq!(env.free_bytes(Path::new("/")).unwrap(), 20);
    drop(file);
    assert_eq!(env.free_bytes(Path::new("/")).unwrap(), 100);
}

#[test]
fn truncation_gives_back_reserved_room() {
    let (env, mut file) = machine_with_file();
    env.set_capacity(100);
    file.reserve(100).unwrap();
    file.truncate(0).unwrap();
    assert_eq!(env.free_bytes(Path::new("/")).unwrap(), 100);
}

#[test]
fn damage_is_durable_and_seen_by_open_readers() {
    let (env, mut file) = machine_with_file();
    file.append(&[0b1010; 20]).unwrap();
    let reader = env.open_read(path()).unwrap();
    env.flip_bit(path(), 8 * 3 + 1).unwrap();
    env.overwrite(path(), 18, b"xy").unwrap();
    let mut expected = vec![0b1010; 20];
    expected[3] = 0b1000;
    expected[18..].copy_from_slice(b"xy");
    assert_eq!(reader.read_at(0, 20).unwrap(), expected);
    env.truncate_file(path(), 19).unwrap();
    assert_eq!(kind(reader.read_at(0, 20)), Some(ErrorKind::UnexpectedEnd));
    for seed in 0..20 {
        assert_eq!(
            env.after_crash(seed).read_all(path()).unwrap(),
            expected[..19]
        );
    }
    let refused = Some(ErrorKind::InvalidArgument);
    assert_eq!(kind(env.flip_bit(path(), 19 * 8)), refused);
    assert_eq!(kind(env.overwrite(path(), u64::MAX, b"x")), refused);
    assert_eq!(kind(env.truncate_file(path(), 20)), refused);
    assert_eq!(
        kind(env.flip_bit(Path::new("/no"), 0)),
        Some(ErrorKind::NotFound)
    );
}
