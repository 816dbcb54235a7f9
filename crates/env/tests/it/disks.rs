//! Disks of the simulated machine: their sizes, their speed, disks that vanish, bits that rot.

use quire_env::{Absence, Env, ErrorKind, Latency, Result, SimEnv};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

fn kind<T>(outcome: Result<T>) -> Option<ErrorKind> {
    outcome.err().map(|error| error.kind())
}

/// Two directories with a file each, all durable, and in `/b` a directory with one more.
fn machine(seed: u64) -> Arc<SimEnv> {
    let env = SimEnv::new(seed);
    for dir in ["/a", "/b", "/b/in"] {
        let dir = Path::new(dir);
        env.create_dir_all(dir).unwrap();
        env.replace(&dir.join("f"), b"durable").unwrap();
    }
    env
}

#[test]
fn each_disk_fills_alone() {
    let env = machine(0);
    env.set_capacity(20);
    env.set_capacity_below(Path::new("/b"), 100);
    let used = |path: &str| env.used_bytes(Path::new(path));
    let free = |path: &str| env.free_bytes(Path::new(path)).unwrap();
    assert_eq!([used("/"), used("/a"), used("/b/in")], [7, 7, 14]);
    assert_eq!([free("/"), free("/a"), free("/b/in")], [13, 13, 86]);
    let full = Some(ErrorKind::NoSpace);
    let mut on_root = env.create(Path::new("/a/g")).unwrap();
    let mut on_b = env.create(Path::new("/b/in/g")).unwrap();
    assert_eq!(kind(on_root.append(&[0; 14])), full);
    on_b.append(&[0; 80]).unwrap();
    assert_eq!(kind(on_b.reserve(7)), full);
    assert_eq!(
        kind(env.create(Path::new("/h"))),
        full,
        "a part was written"
    );
    env.create(Path::new("/b/h")).unwrap();
    // A file that is open takes room on the disk where its name was.
    env.remove(Path::new("/b/in/g")).unwrap();
    assert_eq!(used("/b"), 94);
    drop(on_b);
    assert_eq!(used("/b"), 14);
    let after = env.after_crash(0);
    assert_eq!(after.free_bytes(Path::new("/b")).unwrap(), 86);
}

#[test]
fn disk_without_a_size_does_not_fill_beside_one_that_does() {
    let env = machine(0);
    env.set_capacity_below(Path::new("/b"), 14);
    assert_eq!(
        kind(env.replace(Path::new("/b/f"), b"x")),
        Some(ErrorKind::NoSpace)
    );
    env.replace(Path::new("/a/f"), &[0; 1000]).unwrap();
    assert!(env.free_bytes(Path::new("/")).unwrap() > 1 << 30);
}

#[test]
fn slow_disk_moves_the_clock_and_the_same_seed_by_as_much() {
    let run = |seed: u64, latency: Latency| {
        let env = SimEnv::new(seed);
        env.set_latency(latency);
        let before = env.monotonic();
        let mut file = env.create(Path::new("/f")).unwrap();
        file.append(&vec![0; 4 << 20]).unwrap();
        file.sync().unwrap();
        file.sync().unwrap();
        env.read(Path::new("/f"), u64::MAX).unwrap();
        (env.monotonic() - before, env.after_crash(0))
    };
    let millis = Duration::from_millis;
    let near = |took: Duration, expected: Duration| {
        assert!(took >= expected && took < expected + millis(1), "{took:?}");
    };
    near(run(0, Latency::default()).0, Duration::ZERO);
    let slow = Latency {
        per_operation: millis(5),
        per_mib: millis(10),
        jitter: Duration::ZERO,
    };
    // Five operations; 4 MiB appended, synced and read.
    let (took, after) = run(0, slow);
    near(took, millis(5 * 5 + 3 * 4 * 10));
    let before = after.monotonic();
    after.list(Path::new("/")).unwrap();
    assert!(after.monotonic() - before > millis(5), "it stays slow");
    let uneven = Latency {
        jitter: millis(100),
        ..slow
    };
    let times: BTreeSet<_> = (0..20)
        .map(|seed| {
            let took = run(seed, uneven).0;
            assert_eq!(took, run(seed, uneven).0, "seed {seed}");
            assert!(took > millis(145) && took < millis(700), "{took:?}");
            took
        })
        .collect();
    assert_eq!(times.len(), 20);
}

#[test]
fn failing_disk_answers_nothing_and_others_answer_all() {
    let env = machine(0);
    let reader = env.open_read(Path::new("/b/in/f")).unwrap();
    let mut writer = env.open_append(Path::new("/b/in/f")).unwrap();
    let lock = env.lock(Path::new("/b/lock")).unwrap();
    env.vanish(Path::new("/b"), Absence::Failing).unwrap();
    let io = Some(ErrorKind::Io);
    assert_eq!(kind(reader.read_at(0, 1)), io);
    assert_eq!(kind(reader.len()), io);
    assert_eq!(kind(writer.append(b"x")), io);
    assert_eq!(kind(writer.reserve(1)), io);
    assert_eq!(kind(writer.truncate(0)), io);
    assert_eq!(kind(writer.sync()), io);
    for path in ["/b", "/b/in", "/b/in/f", "/b/new"] {
        let path = Path::new(path);
        assert_eq!(kind(env.exists(path)), io, "{path:?}");
        assert_eq!(kind(env.list(path)), io, "{path:?}");
        assert_eq!(kind(env.open_read(path)), io, "{path:?}");
        assert_eq!(kind(env.create(path)), io, "{path:?}");
        assert_eq!(kind(env.create_dir_all(path)), io, "{path:?}");
        assert_eq!(kind(env.remove_dir_all(path)), io, "{path:?}");
        assert_eq!(kind(env.remove(path)), io, "{path:?}");
        assert_eq!(kind(env.sync_dir(path)), io, "{path:?}");
        assert_eq!(kind(env.free_bytes(path)), io, "{path:?}");
        assert_eq!(kind(env.lock(path)), io, "{path:?}");
        assert_eq!(kind(env.rename(Path::new("/a/f"), path)), io, "{path:?}");
    }
    assert_eq!(env.files(), [Path::new("/a/f")]);
    env.replace(Path::new("/a/f"), b"goes on").unwrap();
    drop(lock);
    env.bring_back(Path::new("/b"));
    assert_eq!(env.read(Path::new("/b/in/f"), 100).unwrap(), b"durable");
    assert_eq!(kind(reader.read_at(0, 1)), io, "a handle is gone for ever");
    assert_eq!(kind(writer.sync()), io);
    let reader = env.open_read(Path::new("/b/in/f")).unwrap();
    assert_eq!(&reader.read_at(0, 7).unwrap()[..], b"durable");
}

#[test]
fn mount_point_without_its_disk_is_an_empty_directory_and_keeps_nothing_for_the_disk() {
    let env = machine(0);
    let reader = env.open_read(Path::new("/b/f")).unwrap();
    env.vanish(Path::new("/b"), Absence::Unmounted).unwrap();
    assert_eq!(kind(reader.read_at(0, 1)), Some(ErrorKind::Io));
    assert_eq!(env.list(Path::new("/b")).unwrap(), [""; 0]);
    assert!(env.exists(Path::new("/b")).unwrap());
    assert!(!env.exists(Path::new("/b/f")).unwrap());
    env.create_dir_all(Path::new("/b/in")).unwrap();
    env.replace(Path::new("/b/in/f"), b"hidden").unwrap();
    let mut hidden = env.open_append(Path::new("/b/in/f")).unwrap();
    env.bring_back(Path::new("/b"));
    assert_eq!(env.list(Path::new("/b")).unwrap(), ["f", "in"]);
    assert_eq!(env.read(Path::new("/b/in/f"), 100).unwrap(), b"durable");
    hidden.append(b"!").unwrap();
    assert_eq!(env.read(Path::new("/b/in/f"), 100).unwrap(), b"durable");
    // Again, and back by a restart.
    env.vanish(Path::new("/b"), Absence::Unmounted).unwrap();
    env.vanish(Path::new("/b/nothing"), Absence::Failing)
        .unwrap_err();
    let env = env.after_crash(3);
    assert_eq!(env.read(Path::new("/b/in/f"), 100).unwrap(), b"durable");
}

#[test]
fn disk_that_comes_back_holds_what_a_power_cut_leaves() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..200 {
        let env = machine(seed);
        let mut file = env.open_append(Path::new("/b/in/f")).unwrap();
        file.append(b" and not").unwrap();
        env.create(Path::new("/b/in/g")).unwrap();
        env.create(Path::new("/a/g")).unwrap();
        env.vanish(Path::new("/b"), Absence::Failing).unwrap();
        env.heal();
        let names = env.list(Path::new("/b/in")).unwrap();
        let bytes = env.read(Path::new("/b/in/f"), 100).unwrap();
        assert!(bytes.starts_with(b"durable"));
        outcomes.insert((names.len(), bytes.len()));
        assert!(env.exists(Path::new("/a/g")).unwrap(), "not this disk's");
        // What is left is durable; what is done from now on is not.
        for seed in 0..5 {
            let after = env.after_crash(seed);
            assert_eq!(after.read_all(Path::new("/b/in/f")).unwrap(), bytes);
            assert_eq!(after.list(Path::new("/b/in")).unwrap(), names);
        }
    }
    for expected in [(1, 7), (2, 7), (1, 15), (2, 15)] {
        assert!(outcomes.contains(&expected), "{expected:?}: {outcomes:?}");
    }
}

#[test]
fn disk_vanishes_just_before_the_given_step() {
    let env = machine(0);
    let steps = env.operations();
    env.vanish_at(steps + 1, Path::new("/b"), Absence::Failing);
    let mut file = env.create(Path::new("/b/g")).unwrap();
    assert_eq!(kind(file.append(b"x")), Some(ErrorKind::Io));
    env.vanish_at(env.operations(), Path::new("/no"), Absence::Failing);
    env.replace(Path::new("/a/f"), b"x").unwrap();
}

#[test]
fn only_a_directory_that_is_no_root_can_vanish() {
    let env = machine(0);
    for (path, expected) in [
        ("/", ErrorKind::Io),
        ("/a/f", ErrorKind::Io),
        ("/no", ErrorKind::NotFound),
    ] {
        let outcome = env.vanish(Path::new(path), Absence::Failing);
        assert_eq!(kind(outcome), Some(expected), "{path}");
    }
    env.bring_back(Path::new("/no"));
}

#[test]
fn rot_flips_one_bit_of_one_file_that_the_seed_chooses() {
    assert_eq!(SimEnv::new(0).rot(1), None);
    let env = SimEnv::new(0);
    env.create(Path::new("/empty")).unwrap();
    assert_eq!(env.rot(1), None);
    let mut hit = BTreeSet::new();
    for seed in 0..100 {
        let env = machine(0);
        let (path, bit) = env.rot(seed).unwrap();
        assert_eq!(machine(0).rot(seed), Some((path.clone(), bit)));
        let mut bytes = env.read_all(&path).unwrap();
        bytes[bit as usize / 8] ^= 1 << (bit % 8);
        assert_eq!(bytes, b"durable", "nothing else in the file");
        let files = env.files();
        let changed = files
            .iter()
            .filter(|path| env.read_all(path).unwrap() != b"durable");
        assert_eq!(changed.count(), 1);
        hit.insert((path, bit));
    }
    assert!(hit.len() > 50, "{}", hit.len());
}
