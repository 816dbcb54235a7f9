//! What only the real machine has: reserved blocks, processes that die, threads.

#![allow(
    clippy::disallowed_methods,
    reason = "the machine is looked at from outside"
)]

use quire_env::{Env, ErrorKind, JobClass, OsEnv};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);
/// Set in a child process, to the file that it locks.
const LOCK_VARIABLE: &str = "QUIRE_ENV_TEST_LOCK";

#[test]
fn reserved_room_is_on_the_disk_and_given_back_by_truncation() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let env = OsEnv::new().unwrap();
    let mut file = env.create(&path).unwrap();
    file.append(b"x").unwrap();
    file.sync().unwrap();
    let bytes_on_disk = || std::fs::metadata(&path).unwrap().blocks() * 512;
    file.reserve(1 << 20).unwrap();
    assert_eq!(file.len(), 1);
    assert_eq!(
        std::fs::metadata(&path).unwrap().len(),
        1,
        "the length stays"
    );
    if bytes_on_disk() < 1 << 20 {
        eprintln!("skipped: this file system reserves nothing");
        return;
    }
    file.append(&[7; 1000]).unwrap();
    file.truncate(1).unwrap();
    assert!(bytes_on_disk() < 1 << 20, "{}", bytes_on_disk());
    file.reserve(1 << 20).unwrap();
    assert!(bytes_on_disk() >= 1 << 20, "reserved again");
}

#[test]
fn full_device_is_told_from_other_errors() {
    let path = Path::new("/dev/full");
    if !path.exists() {
        eprintln!("skipped: no /dev/full here");
        return;
    }
    let env = OsEnv::new().unwrap();
    let error = env.open_append(path).unwrap().append(b"x").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    assert!(error.to_string().contains("/dev/full"), "{error}");
}

#[test]
fn file_that_grows_past_the_limit_while_it_is_read_is_too_large() {
    // Its length is reported as 0.
    let path = Path::new("/proc/self/status");
    if !path.exists() {
        eprintln!("skipped: no /proc here");
        return;
    }
    let env = OsEnv::new().unwrap();
    assert_eq!(env.read(path, 10).unwrap_err().kind(), ErrorKind::TooLarge);
    assert!(!env.read(path, 1 << 20).unwrap().is_empty());
}

#[test]
fn lock_works_where_nothing_may_be_written_and_says_so_where_it_cannot() {
    let env = OsEnv::new().unwrap();
    // Not even root may write or make files there.
    let existing = Path::new("/sys/kernel/uevent_seqnum");
    if !existing.exists() {
        eprintln!("skipped: no /sys here");
        return;
    }
    let lock = env.lock(existing).unwrap();
    assert_eq!(env.lock(existing).unwrap_err().kind(), ErrorKind::Locked);
    drop(lock);
    env.lock(existing).unwrap();
    let error = env.lock(Path::new("/sys/kernel/quire.lock")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(
        error.to_string().contains("/sys/kernel/quire.lock"),
        "{error}"
    );
}

#[test]
fn lock_of_a_directory_outlives_its_file_and_notices_another_directory_in_its_place() {
    let parent = tempfile::tempdir().unwrap();
    let (dir, other) = (parent.path().join("db"), parent.path().join("moved"));
    let env = OsEnv::new().unwrap();
    env.create_dir_all(&dir).unwrap();
    let lock = env.lock_dir(&dir).unwrap();
    env.remove(&dir.join("LOCK")).unwrap();
    assert_eq!(env.lock_dir(&dir).unwrap_err().kind(), ErrorKind::Locked);
    lock.check().unwrap();
    env.rename(&dir, &other).unwrap();
    assert_eq!(lock.check().unwrap_err().kind(), ErrorKind::Locked);
    env.create_dir_all(&dir).unwrap();
    let error = lock.check().unwrap_err();
    assert!(error.to_string().contains("replaced"), "{error}");
    drop(lock);
    env.lock_dir(&dir).unwrap().check().unwrap();
}

/// Not a test of its own: the code that the child process of the next test runs.
#[test]
fn child_holds_a_lock_until_it_is_killed() {
    let Some(path) = std::env::var_os(LOCK_VARIABLE) else {
        return;
    };
    let env = OsEnv::new().unwrap();
    let _lock = env.lock(Path::new(&path)).unwrap();
    println!("\nlocked");
    env.sleep(LONG);
}

#[test]
fn lock_keeps_out_other_processes_until_its_holder_dies() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    let env = OsEnv::new().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "os::child_holds_a_lock_until_it_is_killed",
            "--nocapture",
        ])
        .env(LOCK_VARIABLE, &path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let locked = lines
        .map_while(|line| line.ok())
        .any(|line| line == "locked");
    assert!(locked);
    let error = env.lock(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked);
    assert!(error.to_string().contains("LOCK"), "{error}");
    child.kill().unwrap();
    child.wait().unwrap();
    let _lock = env.lock(&path).unwrap();
}

#[test]
fn jobs_run_on_named_threads_of_their_class_after_their_delay() {
    let env = OsEnv::new().unwrap();
    let (sender, receiver) = mpsc::channel();
    let start = env.monotonic();
    for (class, after) in [(JobClass::Flush, 30), (JobClass::Compaction, 0)] {
        let sender = sender.clone();
        let job = move || {
            sender
                .send(std::thread::current().name().map(String::from))
                .unwrap()
        };
        env.schedule(class, Duration::from_millis(after), Box::new(job));
    }
    let next = || receiver.recv_timeout(LONG).unwrap().unwrap();
    assert!(next().starts_with("quire-compact-"));
    assert!(next().starts_with("quire-flush-"));
    assert!(env.monotonic() - start >= Duration::from_millis(30));
    let job = move || {
        let name = std::thread::current().name().map(String::from);
        sender.send(name).unwrap();
    };
    env.schedule(JobClass::Derive, Duration::ZERO, Box::new(job));
    assert!(next().starts_with("quire-derive-"));
}

#[test]
fn panic_of_a_job_ends_that_job_alone() {
    let env = OsEnv::new().unwrap();
    for _ in 0..10 {
        env.schedule(
            JobClass::Flush,
            Duration::ZERO,
            Box::new(|| panic!("a job's mistake")),
        );
    }
    let (sender, receiver) = mpsc::channel();
    let job = move || sender.send(()).unwrap();
    env.schedule(JobClass::Flush, Duration::ZERO, Box::new(job));
    receiver.recv_timeout(LONG).unwrap();
}

#[test]
fn dropped_machine_forgets_waiting_jobs_and_finishes_running_ones() {
    let env = OsEnv::new().unwrap();
    let token = Arc::new(());
    let held = Arc::clone(&token);
    env.schedule(JobClass::Flush, LONG, Box::new(move || drop(held)));
    let (started, has_started) = mpsc::channel();
    let finished = Arc::new(AtomicBool::new(false));
    let job = {
        let (held, finished) = (Arc::clone(&token), Arc::clone(&finished));
        move || {
            started.send(()).unwrap();
            std::thread::sleep(Duration::from_millis(50));
            finished.store(true, Ordering::SeqCst);
            drop(held);
        }
    };
    env.schedule(JobClass::Compaction, Duration::ZERO, Box::new(job));
    has_started.recv_timeout(LONG).unwrap();
    drop(env);
    assert!(finished.load(Ordering::SeqCst));
    assert_eq!(Arc::strong_count(&token), 1);
}

#[test]
fn machine_may_be_dropped_by_its_own_job() {
    let env = OsEnv::new().unwrap();
    let weak = Arc::downgrade(&env);
    let (sender, receiver) = mpsc::channel();
    let (start, wait) = mpsc::channel::<()>();
    env.schedule(JobClass::Flush, Duration::ZERO, {
        let env = Arc::clone(&env);
        Box::new(move || {
            wait.recv().unwrap();
            drop(env);
            sender.send(()).unwrap();
        })
    });
    drop(env);
    start.send(()).unwrap();
    receiver.recv_timeout(LONG).unwrap();
    assert!(weak.upgrade().is_none());
}

#[test]
fn waiter_is_woken_by_a_background_job() {
    let env = OsEnv::new().unwrap();
    for _ in 0..1000 {
        let (gate, done) = (env.gate(), Arc::new(AtomicBool::new(false)));
        let job = {
            let (gate, done) = (Arc::clone(&gate), Arc::clone(&done));
            move || {
                done.store(true, Ordering::SeqCst);
                gate.notify();
            }
        };
        env.schedule(JobClass::Flush, Duration::ZERO, Box::new(job));
        assert!(gate.wait_until(&mut || done.load(Ordering::SeqCst), LONG));
    }
    assert!(env.monotonic() < LONG, "no wake-up was missed");
}

#[test]
fn file_that_gives_fewer_bytes_than_it_is_long_is_an_error() {
    // The kernel reports 4,096 bytes for its own files, in any case.
    let path = Path::new("/sys/kernel/mm/transparent_hugepage/enabled");
    if std::fs::metadata(path).is_ok_and(|metadata| metadata.len() == 4096) {
        let read = OsEnv::new().unwrap().read(path, 10_000);
        assert_eq!(read.unwrap_err().kind(), ErrorKind::UnexpectedEnd);
    }
}
