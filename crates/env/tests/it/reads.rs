//! Reads of the simulated machine: counted, and made to fail.

use quire_env::{Env, ErrorKind, ReadFault, Result, SimEnv};
use std::path::Path;
use std::sync::Arc;

fn root() -> &'static Path {
    Path::new("/")
}

fn machine_with_files() -> Arc<SimEnv> {
    let env = SimEnv::new(0);
    for path in ["/a", "/b"] {
        env.replace(Path::new(path), b"0123456789").unwrap();
    }
    env
}

fn kind<T>(outcome: Result<T>) -> Option<ErrorKind> {
    outcome.err().map(|error| error.kind())
}

/// Each kind of read once; how each ended.
fn read_all_ways(env: &SimEnv, path: &Path) -> Vec<Option<ErrorKind>> {
    let opened = env.open_read(path);
    let mut outcomes = vec![
        kind(env.exists(path)),
        kind(env.list(root())),
        kind(env.free_bytes(root())),
        kind(env.read(path, 100)),
        kind(env.open_append(path)),
    ];
    if let Ok(file) = &opened {
        outcomes.extend([kind(file.len()), kind(file.read_at(2, 5))]);
    }
    outcomes.push(kind(opened));
    outcomes
}

#[test]
fn each_look_at_the_disk_is_a_read_and_none_is_a_step() {
    let env = machine_with_files();
    let (steps, reads) = (env.operations(), env.reads());
    assert_eq!(read_all_ways(&env, Path::new("/a")), [None; 8]);
    assert_eq!((env.operations(), env.reads()), (steps, reads + 8));
    env.now_micros();
    env.files();
    env.used_bytes(root());
    assert_eq!(env.reads(), reads + 8, "the owner's looks do not count");
}

#[test]
fn read_fails_once_or_from_then_on_and_steps_go_on() {
    let env = machine_with_files();
    let file = env.open_read(Path::new("/a")).unwrap();
    let now = env.reads();
    env.fail_read_at(now + 1, ReadFault::Eio);
    env.fail_reads_from(now + 3, ReadFault::Eio);
    let outcomes: Vec<_> = (0..5).map(|_| kind(file.read_at(0, 10))).collect();
    let io = Some(ErrorKind::Io);
    assert_eq!(outcomes, [None, io, None, io, io]);
    assert!(
        read_all_ways(&env, Path::new("/a"))
            .iter()
            .all(|outcome| *outcome == io)
    );
    env.replace(Path::new("/c"), b"x").unwrap();
    env.heal();
    assert_eq!(&file.read_at(0, 10).unwrap()[..], b"0123456789");
}

#[test]
fn reads_of_one_file_fail_and_of_others_do_not() {
    let env = machine_with_files();
    let file = env.open_read(Path::new("/a")).unwrap();
    env.fail_reads_of(Path::new("/a"));
    let io = Some(ErrorKind::Io);
    assert_eq!(kind(file.read_at(0, 1)), io);
    assert_eq!(kind(file.len()), io);
    assert_eq!(kind(env.open_read(Path::new("/a"))), io);
    assert_eq!(kind(env.read(Path::new("/b"), 100)), None);
}

#[test]
fn short_read_ends_early_and_spares_what_reads_no_bytes() {
    let env = machine_with_files();
    env.fail_reads_from(0, ReadFault::Short);
    let short = Some(ErrorKind::UnexpectedEnd);
    let expected = [None, None, None, short, None, None, short, None];
    assert_eq!(read_all_ways(&env, Path::new("/a")), expected);
    let file = env.open_read(Path::new("/a")).unwrap();
    assert_eq!(kind(file.read_at(3, 0)), None, "no bytes were requested");
    let missing = kind(env.read(Path::new("/no"), 10));
    assert_eq!(missing, short, "a fault comes before what is wrong else");
}
