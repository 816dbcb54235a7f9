//! The simulator's clock, jobs, gates and traces.

use quire_env::{Absence, Env, ErrorKind, Fault, Gate, JobClass, Latency, ReadFault, SimEnv};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn log_job(log: &Arc<Mutex<Vec<u32>>>, number: u32) -> quire_env::Job {
    let log = Arc::clone(log);
    Box::new(move || log.lock().unwrap().push(number))
}

#[test]
fn jobs_run_only_when_somebody_waits_and_in_order_of_their_time() {
    let env = SimEnv::new(0);
    let log = Arc::default();
    for (number, seconds) in [(3, 30), (1, 10), (2, 10), (4, 40)] {
        env.schedule(JobClass::Flush, SECOND * seconds, log_job(&log, number));
    }
    env.replace(Path::new("/f"), b"x").unwrap();
    env.sleep(35 * SECOND);
    assert_eq!(*log.lock().unwrap(), []);
    assert_eq!(env.run_due(), 3);
    assert_eq!(*log.lock().unwrap(), [1, 2, 3]);
    let before = env.monotonic();
    assert_eq!(env.run_until_idle(), 1);
    assert!(
        env.monotonic() >= before + 4 * SECOND,
        "the clock moved to the job's time"
    );
    assert_eq!(env.run_until_idle(), 0);
}

#[test]
fn seed_decides_which_class_goes_first() {
    let orders: std::collections::BTreeSet<_> = (0..50)
        .map(|seed| {
            let (env, log) = (SimEnv::new(seed), Arc::default());
            env.schedule(JobClass::Flush, Duration::ZERO, log_job(&log, 1));
            env.schedule(JobClass::Compaction, Duration::ZERO, log_job(&log, 2));
            env.run_due();
            log.lock().unwrap().clone()
        })
        .collect();
    assert_eq!(orders, [vec![1, 2], vec![2, 1]].into());
}

#[test]
fn waiting_runs_jobs_until_one_makes_it_ready() {
    let env = SimEnv::new(0);
    let gate = env.gate();
    let ready = Arc::new(AtomicBool::new(false));
    // A job may schedule another.
    env.schedule(JobClass::Flush, 5 * SECOND, {
        let (env, gate, ready) = (Arc::clone(&env), Arc::clone(&gate), Arc::clone(&ready));
        Box::new(move || {
            let env_in_job = Arc::clone(&env);
            env_in_job.schedule(
                JobClass::Compaction,
                5 * SECOND,
                Box::new(move || {
                    ready.store(true, Ordering::SeqCst);
                    gate.notify();
                }),
            );
        })
    });
    let never = Arc::default();
    env.schedule(JobClass::Flush, 20 * SECOND, log_job(&never, 1));
    assert!(gate.wait_until(&mut || ready.load(Ordering::SeqCst), 15 * SECOND));
    let now = env.monotonic();
    assert!(now >= 10 * SECOND && now < 11 * SECOND, "{now:?}");
    assert_eq!(*never.lock().unwrap(), [], "a later job was not run");
}

#[test]
fn wait_for_what_never_comes_moves_the_clock_and_returns() {
    let env = SimEnv::new(0);
    let gate = env.gate();
    assert!(!gate.wait_until(&mut || false, 100 * SECOND));
    let now = env.monotonic();
    assert!(now >= 100 * SECOND && now < 101 * SECOND, "{now:?}");
    assert!(gate.wait_until(&mut || true, 100 * SECOND));
    assert!(
        env.monotonic() < 101 * SECOND,
        "what is ready is not waited for"
    );
    assert!(!gate.wait_until(&mut || false, Duration::MAX));
    assert!(env.now_micros() > 0, "the clock has an end");
}

#[test]
fn wait_ends_at_its_timeout_although_a_duty_repeats_for_ever() {
    fn again(env: &Arc<SimEnv>, gate: &Arc<dyn Gate>, runs: &Arc<AtomicUsize>) {
        let (next, gate, runs) = (Arc::clone(env), Arc::clone(gate), Arc::clone(runs));
        let duty = move || {
            runs.fetch_add(1, Ordering::SeqCst);
            gate.notify();
            again(&next, &gate, &runs);
        };
        env.schedule(JobClass::Flush, SECOND, Box::new(duty));
    }
    let (env, runs) = (SimEnv::new(0), Arc::default());
    let gate = env.gate();
    again(&env, &gate, &runs);
    assert!(!gate.wait_until(&mut || false, 10 * SECOND + SECOND / 2));
    assert_eq!(runs.load(Ordering::SeqCst), 10);
}

#[test]
fn polling_without_a_timeout_lets_jobs_get_on() {
    let env = SimEnv::new(0);
    let gate = env.gate();
    let done = Arc::new(AtomicBool::new(false));
    env.schedule(JobClass::Flush, Duration::ZERO, {
        let done = Arc::clone(&done);
        Box::new(move || done.store(true, Ordering::SeqCst))
    });
    let mut polls = 0;
    while !gate.wait_until(&mut || done.load(Ordering::SeqCst), Duration::ZERO) {
        polls += 1;
        assert!(polls < 3);
    }
}

#[test]
fn what_was_not_notified_is_seen_only_when_the_time_is_up() {
    let env = SimEnv::new(0);
    let gate = env.gate();
    let done = Arc::new(AtomicBool::new(false));
    env.schedule(JobClass::Flush, SECOND, {
        let done = Arc::clone(&done);
        Box::new(move || done.store(true, Ordering::SeqCst))
    });
    assert!(gate.wait_until(&mut || done.load(Ordering::SeqCst), 60 * SECOND));
    assert!(env.monotonic() >= 60 * SECOND, "as on the real machine");
}

#[test]
fn jobs_of_a_crashed_machine_fail_and_are_not_taken_to_the_next() {
    let env = SimEnv::new(0);
    env.crash_at(0);
    let outcome = Arc::new(Mutex::new(None));
    let job = |outcome: Arc<Mutex<_>>| {
        let env = Arc::clone(&env);
        move || *outcome.lock().unwrap() = Some(env.create(Path::new("/f")).map(drop))
    };
    env.schedule(
        JobClass::Flush,
        Duration::ZERO,
        Box::new(job(Arc::clone(&outcome))),
    );
    env.schedule(JobClass::Flush, SECOND, Box::new(job(Arc::clone(&outcome))));
    assert_eq!(env.run_due(), 1);
    let kind = outcome
        .lock()
        .unwrap()
        .take()
        .unwrap()
        .map_err(|error| error.kind());
    assert_eq!(kind, Err(ErrorKind::Crashed));
    let next = env.after_crash(0);
    assert_eq!(Arc::strong_count(&outcome), 1, "the other job was dropped");
    assert_eq!(next.run_until_idle(), 0);
}

/// A program that uses all there is; the same calls on every run.
fn program(env: &Arc<SimEnv>) {
    let gate = env.gate();
    let (dir, other) = (Path::new("/db"), Path::new("/db2"));
    env.create_dir_all(dir).unwrap();
    env.create_dir_all(other).unwrap();
    env.set_capacity_below(other, 50_000);
    let mut log = env.create(&dir.join("log")).unwrap();
    for round in 0..20u8 {
        let mut bytes = vec![0; 100];
        env.random(&mut bytes);
        let _ = log.append(&bytes);
        for class in [JobClass::Flush, JobClass::Compaction, JobClass::Derive] {
            let (job_env, gate) = (Arc::clone(env), Arc::clone(&gate));
            let job = move || {
                let path = format!("/db/{class:?}-{round}");
                let _ = job_env.replace(Path::new(&path), &[round; 2000]);
                gate.notify();
            };
            env.schedule(
                class,
                Duration::from_micros(u64::from(bytes[0]) * 20),
                Box::new(job),
            );
        }
        match round {
            5 => env.vanish(other, Absence::Unmounted).unwrap(),
            10 => env.bring_back(other),
            12 => drop(env.rot(bytes[2].into())),
            15 => env.vanish(other, Absence::Failing).unwrap(),
            _ => {}
        }
        let _ = env.replace(&other.join(format!("{round}")), &bytes);
        let _ = env.read(&other.join(format!("{}", bytes[3] % 20)), 200);
        gate.wait_until(&mut || bytes[1] < 100, Duration::from_millis(3));
        let _ = log.sync();
        let _ = env.list(dir);
    }
    env.run_until_idle();
}

#[test]
fn equal_seeds_give_equal_traces_and_equal_disks() {
    let run = |seed: u64| {
        let env = SimEnv::new(seed);
        env.fail_at(40, Fault::Eio);
        env.fail_read_at(20, ReadFault::Eio);
        env.fail_read_at(30, ReadFault::Short);
        env.set_latency(Latency {
            per_operation: Duration::from_micros(70),
            per_mib: Duration::from_millis(20),
            jitter: Duration::from_micros(200),
        });
        env.crash_at(150 + seed % 50);
        program(&env);
        assert!(env.crashed());
        let next = env.after_crash(seed);
        let disk: Vec<_> = next
            .files()
            .into_iter()
            .map(|path| (next.read_all(&path).unwrap(), path))
            .collect();
        (env.trace(), disk, env.monotonic())
    };
    let mut traces = std::collections::BTreeSet::new();
    for seed in 0..20 {
        let first = run(seed);
        assert!(first.0.len() > 150);
        assert_eq!(first, run(seed), "seed {seed}");
        traces.insert(first.0);
    }
    assert_eq!(traces.len(), 20, "other seeds give other runs");
}
