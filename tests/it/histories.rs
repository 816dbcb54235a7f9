//! Histories: kept ones, random ones, and short ones with a crash or a fault at every single I/O
//! step.

use quire_env::SimEnv;
use quire_tests::sim::{
    self, Failure, History, Profile, RunStats, check_seeds, counters, exhaustive, generate,
    kept_histories, seeds_wanted,
};
use quiredb::{
    CollectionSettings, Database, DatabaseOptions, Document, Durability, Key, Volumes, Write,
};
use std::sync::Arc;

/// About how many restarts of a short history are wanted, and how many first crashes of two.
const CASES_WANTED: u64 = 1_000;
const FIRST_CRASHES_WANTED: usize = 40;

/// Runs this with each short history, and prints the totals.
fn each_short(act: impl Fn(&History) -> Result<RunStats, Failure>) {
    for (name, history) in kept_histories("short") {
        match act(&history) {
            Ok(stats) => println!("{name}: {stats}"),
            Err(failure) => panic!("{name}: {failure}"),
        }
    }
}

/// Restarts after each step: fewer of a history with many steps, and never one alone, as they
/// differ in what a crash leaves.
fn seeds_of(history: &History, usual: u64) -> u64 {
    let steps = steps_of(history);
    (CASES_WANTED / steps.max(1)).clamp(2, usual)
}

/// Every how many steps of a history the first of two crashes comes.
fn stride_of(history: &History) -> usize {
    (steps_of(history) as usize / FIRST_CRASHES_WANTED).max(7)
}

fn steps_of(history: &History) -> u64 {
    exhaustive::steps_of(history).unwrap_or_else(|failure| panic!("{failure}"))
}

#[test]
fn what_was_acknowledged_survives_a_crash_at_every_step() {
    each_short(|history| exhaustive::crash_at_every_step(history, seeds_of(history, 6)));
}

#[test]
fn crash_while_recovering_from_a_crash_loses_nothing() {
    each_short(|history| exhaustive::crash_twice(history, stride_of(history), 25));
}

#[test]
fn fault_at_every_step_loses_nothing_and_is_reported() {
    each_short(exhaustive::fault_at_every_step);
}

#[test]
fn what_a_failed_step_leaves_in_doubt_is_settled_by_opening_again() {
    each_short(|history| exhaustive::fault_then_crash(history, seeds_of(history, 4)));
}

#[test]
fn an_outage_at_every_step_loses_nothing_that_was_acknowledged_before_or_after() {
    each_short(|history| exhaustive::outage_then_crash(history, seeds_of(history, 4)));
}

#[test]
fn kept_histories_that_once_failed_do_not_fail_again() {
    for (name, history) in kept_histories("") {
        if let Err(failure) = sim::run(&history) {
            panic!("{name}: {failure}");
        }
    }
}

fn random(profile: Profile) {
    println!(
        "{profile}: {}",
        check_seeds(seeds_wanted(0..1_000), profile)
    );
}

#[test]
fn any_history_with_crashes_agrees_with_the_model() {
    random(Profile::Crashes);
}

#[test]
fn any_history_on_a_disk_that_fills_agrees_with_the_model() {
    random(Profile::FullDisk);
}

#[test]
fn any_history_on_a_failing_machine_agrees_with_the_model() {
    random(Profile::Faults);
}

#[test]
fn any_history_of_counters_agrees_with_the_model() {
    for seed in seeds_wanted(0..400) {
        let history = counters::generate(seed, seed % 2 == 1);
        if let Err(failure) = counters::run(&history) {
            panic!("seed {seed} of counters: {failure}\n{history:?}");
        }
    }
}

#[test]
fn a_second_failure_while_counters_recover_from_a_first_loses_nothing() {
    let cases = counters::fail_twice(&counters::short(), 12);
    println!(
        "{} cases",
        cases.unwrap_or_else(|failure| panic!("{failure}"))
    );
}

#[test]
fn same_history_twice_gives_the_same_trace() {
    for seed in 0..300 {
        let history = generate(seed, Profile::Faults);
        let (first, second) = (sim::trace(&history), sim::trace(&history));
        let (first, second) = (first.unwrap(), second.unwrap());
        let same = first
            .iter()
            .zip(&second)
            .take_while(|(first, second)| first == second)
            .count();
        assert!(
            first == second,
            "seed {seed}, line {same}: {:?} and {:?}",
            first.get(same),
            second.get(same)
        );
    }
}

#[test]
fn a_database_that_outgrows_its_memory_survives_crashes_anywhere() {
    // Keys are long, so that the memtables are soon full, are written out while writes go on, and
    // replay does not fit.
    let run = |env: &Arc<SimEnv>| -> quiredb::Result<u64> {
        let options = DatabaseOptions {
            memory_bytes: 16 << 20,
            ..DatabaseOptions::default()
        };
        let database = Database::builder("/db")
            .env(env.clone())
            .options(options)
            .open()?;
        let settings = || CollectionSettings {
            partitions: 1,
            ..CollectionSettings::default()
        };
        let collection = database.collection_or_create("docs", settings)?;
        let position = collection.view()?.positions()[0].0;
        assert_eq!(
            position,
            collection.count()?,
            "each document is written once"
        );
        for (found, n) in collection.scan(..)?.zip(0..) {
            let found = found?;
            assert_eq!((found.key, found.version.0), (long_key(n), n + 1));
        }
        for first in (position..position + 25_000).step_by(500) {
            let document = Document::from_json(br#"{"a":1}"#)?;
            let batch = (first..first + 500).map(|n| Write::put(long_key(n), document.clone()));
            for result in collection
                .batch()
                .writes(batch)
                .durability(Durability::None)
                .write()
            {
                result?;
            }
        }
        let stats = collection.stats()?;
        assert!(stats.flushes > 0, "{stats:?}");
        Ok(position)
    };
    let template = SimEnv::new(3);
    assert_eq!(run(&template).unwrap(), 0);
    let steps = template.operations();
    let mut most = 0;
    for step in (0..steps).step_by(steps as usize / 12) {
        let env = SimEnv::new(3);
        env.crash_at(step);
        let _ = run(&env);
        assert!(env.crashed());
        for seed in 0..3 {
            println!("crash at step {step}, seed {seed}");
            // Once more while it recovers and continues.
            let env = env.after_crash(seed);
            env.crash_at(step / 2);
            let _ = run(&env);
            let env = env.after_crash(seed);
            most = most.max(run(&env).unwrap());
            assert_eq!(
                quiredb::operations::verify(
                    env,
                    Volumes::single("/db"),
                    &Default::default(),
                    &mut |_, _| {}
                )
                .unwrap()
                .damage,
                []
            );
        }
    }
    assert!(most > 20_000, "crashes left {most} documents at most");
}

fn long_key(n: u64) -> Key {
    Key::parse(&format!("{n:08}{}", "k".repeat(200))).unwrap()
}
