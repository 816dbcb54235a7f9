//! Crashes and faults: a short history with one at every single I/O step, random ones with anything anywhere.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use quire_env::{Fault, SimEnv};
use quire_tests::sim::history::{History, Op, Trouble, any_history, delete, patch, put, write};
use quire_tests::sim::world::World;
use quiredb::{CollectionSettings, Database, Document, Durability, Key, Options, Volumes, Write};
use std::sync::Arc;
use std::time::Duration;

/// What users do, once each. No background job but what the calls themselves run.
fn short_history() -> History {
    let ops = vec![
        Op::Create {
            c: 0,
            partitions: 2,
        },
        Op::Create {
            c: 1,
            partitions: 1,
        },
        write(1, [put(0, 10)]),
        write(0, [put(0, 100)]),
        write(0, [put(1, 100), put(2, 3_000), put(3, 0), put(4, 10)]),
        write(0, [put(0, 200)]),
        write(0, [patch(1, 7)]),
        write(0, [delete(2)]),
        write(
            0,
            [
                put(5, 10).if_absent(),
                put(0, 20).if_current(),
                put(1, 20).if_stale(),
            ],
        ),
        Op::Flush { c: 0 },
        write(0, [put(0, 300), delete(3), patch(4, 15)]),
        Op::Write {
            c: 0,
            writes: vec![put(6, 40_000)],
            durability: Durability::None,
        },
        Op::Flush { c: 0 },
        Op::RunAll,
        Op::Compact { c: 0 },
        Op::Write {
            c: 0,
            writes: vec![put(7, 50)],
            durability: Durability::Async(Duration::from_millis(5)),
        },
        Op::RunAll,
        write(0, [put(8, 50), delete(0)]),
        Op::Reopen { close: true },
        write(0, [put(0, 60)]),
        Op::Drop { c: 1 },
        write(0, [put(9, 60), delete(8)]),
        Op::Reopen { close: false },
        // More than a segment.
        write(0, [put(10, 1_100_000)]),
        write(0, [put(11, 10)]),
        write(0, [put(12, 10)]),
    ];
    History {
        seed: 1,
        volumes: 1,
        partitions: 2,
        replay_bytes_max: 256 << 20,
        ops,
    }
}

/// I/O steps of a history on a machine that is well.
fn steps_of(history: &History) -> u64 {
    let mut world = World::new(history);
    assert!(!world.run_until_crash(&history.ops));
    world.env.operations()
}

#[test]
fn what_was_acknowledged_survives_a_crash_at_every_step() {
    let history = short_history();
    let steps = steps_of(&history);
    assert!(steps > 150, "the history has only {steps} steps");
    for step in 0..steps {
        let mut world = World::new(&history);
        world.env.crash_at(step);
        assert!(world.run_until_crash(&history.ops), "step {step}");
        let crashed = world.into_crashed();
        for seed in 0..6 {
            println!("crash at step {step}, seed {seed}");
            crashed.restart(seed).finish();
        }
    }
}

#[test]
fn crash_while_recovering_from_a_crash_loses_nothing() {
    let history = short_history();
    for step in (0..steps_of(&history)).step_by(7) {
        let mut world = World::new(&history);
        world.env.crash_at(step);
        assert!(world.run_until_crash(&history.ops), "step {step}");
        let crashed = world.into_crashed();
        for second in 0..25 {
            println!("crash at step {step}, then at step {second}");
            crashed.restart_and_crash_at(second, step + second).finish();
        }
    }
}

#[test]
fn fault_at_every_step_loses_nothing_and_is_reported() {
    let history = short_history();
    let steps = steps_of(&history);
    for fault in [Fault::Eio, Fault::Enospc] {
        for lasting in [false, true] {
            for step in 0..steps {
                println!("{fault:?} at step {step}, lasting: {lasting}");
                let mut world = World::new(&history);
                world.allow_faults();
                match lasting {
                    true => world.env.fail_from(step, fault),
                    false => world.env.fail_at(step, fault),
                }
                world.run(&history.ops);
            }
        }
    }
}

#[test]
fn what_a_failed_step_leaves_in_doubt_is_settled_by_opening_again() {
    let history = short_history();
    for step in 0..steps_of(&history) {
        for seed in 0..4 {
            println!("fault at step {step}, then a crash with seed {seed}");
            let mut world = World::new(&history);
            world.allow_faults();
            world.env.fail_at(step, Fault::Eio);
            let mut ops = history.ops.iter();
            while world.env.operations() <= step
                && let Some(op) = ops.next()
            {
                world.perform(op);
            }
            // What was seen after the fault, and was durable for all one knew, is there after a crash.
            world.perform(&Op::Reopen {
                close: seed % 2 == 0,
            });
            world.perform(&Op::Crash { seed });
            world.finish();
        }
    }
}

#[test]
fn a_database_that_outgrows_its_memory_survives_crashes_anywhere() {
    // Keys are long, so that the memtables are soon full, are written out while writes go on, and replay does not fit.
    let run = |env: &Arc<SimEnv>| -> quiredb::Result<u64> {
        let options = Options {
            memory_bytes: 16 << 20,
            ..Options::default()
        };
        let database = Database::open_with(env.clone(), Volumes::single("/db"), options)?;
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
            let batch = (first..first + 500)
                .map(|n| Write::put(long_key(n), document.clone()))
                .collect();
            for result in collection.write_batch(batch, Some(Durability::None)) {
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
            // Once more while it recovers and goes on.
            let env = env.after_crash(seed);
            env.crash_at(step / 2);
            let _ = run(&env);
            let env = env.after_crash(seed);
            most = most.max(run(&env).unwrap());
            assert_eq!(
                quiredb::verify(env, Volumes::single("/db"), &mut |_, _| {})
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

/// Random histories of each kind of trouble: always the same ones, or others, and as many as `PROPTEST_CASES` says.
fn config() -> ProptestConfig {
    let wanted = std::env::var("PROPTEST_CASES").ok();
    let wanted: Option<u32> = wanted.and_then(|cases| cases.parse().ok());
    ProptestConfig {
        cases: wanted.unwrap_or(700),
        rng_seed: match wanted {
            Some(_) => RngSeed::Random,
            None => RngSeed::Fixed(2_026),
        },
        max_shrink_iters: 20_000,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_history_with_crashes_agrees_with_the_model(history in any_history(Trouble::Crashes, 60)) {
        World::new(&history).run(&history.ops);
    }

    #[test]
    fn any_history_on_a_disk_that_fills_agrees_with_the_model(history in any_history(Trouble::FullDisk, 60)) {
        World::new(&history).run(&history.ops);
    }

    #[test]
    fn any_history_on_a_failing_machine_agrees_with_the_model(history in any_history(Trouble::Faults, 60)) {
        World::new(&history).run(&history.ops);
    }

    #[test]
    fn same_history_twice_gives_the_same_trace(history in any_history(Trouble::Faults, 40)) {
        let trace = || {
            let mut world = World::new(&history);
            world.run(&history.ops);
            world.trace()
        };
        let (first, second) = (trace(), trace());
        let same = first.iter().zip(&second).take_while(|(first, second)| first == second).count();
        prop_assert!(first == second, "line {same}: {:?} and {:?}", first.get(same), second.get(same));
    }
}
