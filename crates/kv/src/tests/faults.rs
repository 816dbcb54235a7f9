//! Crashes and faults at every step of a history, a full disk, and damage to every byte.

use super::{Change, Model, Pairs, batch_of, change, load, options, read};
use crate::{Durability, ErrorKind, Kv, KvOptions, Result, WriteOptions, verify};
use proptest::collection::vec;
use proptest::prelude::*;
use quire_env::{Env, Fault, SimEnv};
use std::ops::Bound;
use std::sync::Arc;

/// As users open it, but with segments of the log so small that they are dropped all the time.
fn open(env: &Arc<SimEnv>) -> Result<Kv> {
    open_with(env, Durability::Sync)
}

/// The same, where what does not say how durable it is to be is that durable: for `None` the log is
/// rotate_unsynced.
fn open_with(env: &Arc<SimEnv>, durability: Durability) -> Result<Kv> {
    let options = KvOptions {
        durability,
        ..options()
    };
    let mut of_store = options.of_store();
    of_store.log.block_bytes = 64;
    of_store.log.segment_bytes = 300;
    Kv::open_store(env.clone(), "/db".as_ref(), options, of_store)
}

#[derive(Debug, Clone)]
enum Step {
    Write(Vec<Change>, Durability),
    Load(Pairs),
    Flush,
    Settle,
    Compact,
    Reopen,
}

fn put(key: &str, fill: u8) -> Change {
    Change::Put(key.into(), vec![fill; 20])
}

/// Every kind of step, with and without what is left of the log at the end of it.
fn history() -> Vec<Step> {
    let append = |key: &str| Change::Merge(key.into(), b"+".to_vec());
    let mut steps = Vec::new();
    for round in 0..3 {
        steps.push(Step::Write(vec![put("a", round)], Durability::Sync));
        steps.push(Step::Write(
            vec![put("b", round), append("c"), Change::Delete("a".into())],
            Durability::Sync,
        ));
        steps.push(Step::Flush);
        let many = (0..12).map(|at| put(&format!("m{at}"), round));
        steps.extend(many.map(|one| Step::Write(vec![one], Durability::None)));
        steps.push(match round {
            0 => Step::Settle,
            1 => Step::Compact,
            _ => Step::Flush,
        });
        steps.push(Step::Write(vec![append("c")], Durability::Sync));
        let pair = |key: &str| (key.into(), vec![b'l'; 20]);
        steps.push(Step::Load(["b", "l", "c", "a", "m3"].map(pair).to_vec()));
        let erase = |from: &str, to: &str| {
            let (from, to) = (Bound::Included(from.into()), Bound::Excluded(to.into()));
            Change::DeleteRange(from, to)
        };
        let hour = |key: &str| Change::PutFor(key.into(), vec![round; 9], 3600);
        let erased = vec![
            append("m4"),
            erase("c", "m5"),
            hour("m4"),
            append("m4"),
            hour("a"),
        ];
        steps.push(Step::Write(erased, Durability::Sync));
        if round == 1 {
            steps.extend([
                Step::Flush,
                Step::Write(vec![erase("l", "m7")], Durability::None),
            ]);
        }
        steps.push(Step::Reopen);
    }
    steps
}

/// What a history that ended early may have left: the model after each write, from the last that is
/// durable.
struct Left {
    states: Vec<Model>,
    durable: usize,
    /// The error that ended it.
    error: Option<crate::Error>,
}

impl Left {
    fn holds(&self, found: &Pairs) -> bool {
        let mut states = self.states.iter().skip(self.durable);
        states.any(|state| {
            state
                .iter()
                .eq(found.iter().map(|(key, value)| (key, value)))
        })
    }
}

/// What a step makes of the model; `None` if the merger refuses.
fn apply(model: &mut Model, step: &Step) -> Option<()> {
    match step {
        Step::Write(changes, _) => changes.iter().try_for_each(|one| change(model, one)),
        Step::Load(pairs) => {
            model.extend(pairs.iter().cloned());
            Some(())
        }
        Step::Flush | Step::Settle | Step::Compact | Step::Reopen => Some(()),
    }
}

/// With a log that is made durable as it grows, and with a rotate_unsynced one.
const DURABILITIES: [Durability; 2] = [Durability::Sync, Durability::None];

/// Does the steps until one fails that must not; flushes and compactions may.
fn run(env: &Arc<SimEnv>, steps: &[Step], durability: Durability) -> Left {
    let mut left = Left {
        states: vec![Model::new()],
        durable: 0,
        error: None,
    };
    if let Err(error) = run_steps(env, steps, durability, &mut left) {
        left.error = Some(error);
    }
    left
}

fn run_steps(
    env: &Arc<SimEnv>,
    steps: &[Step],
    durability: Durability,
    left: &mut Left,
) -> Result<()> {
    let mut kv = open_with(env, durability)?;
    for step in steps {
        let saved = match step {
            Step::Write(changes, durability) => {
                let mut model = left.states.last().cloned().unwrap_or_default();
                let all = apply(&mut model, step);
                assert_eq!(all, Some(()), "the merger takes them all");
                left.states.push(model.clone());
                kv.with(WriteOptions::new().durability(*durability))
                    .write(&batch_of(changes))?;
                let now: Pairs = model.into_iter().collect();
                // A fault may strike this read, and then it says so.
                let found: Result<Pairs> = kv
                    .range(..)?
                    .map(|pair| pair.map(|(key, value)| (key.to_vec(), value.to_vec())))
                    .collect();
                assert_eq!(found?, now);
                *durability == Durability::Sync
            }
            Step::Load(pairs) => {
                let mut model = left.states.last().cloned().unwrap_or_default();
                apply(&mut model, step);
                left.states.push(model);
                load(&kv, pairs)?;
                true
            }
            Step::Flush => kv.flush().is_ok(),
            Step::Settle => kv.settle().is_ok(),
            Step::Compact => kv.compact().is_ok(),
            Step::Reopen => {
                kv.close()?;
                left.durable = left.states.len() - 1;
                drop(kv);
                kv = open_with(env, durability)?;
                true
            }
        };
        if saved {
            left.durable = left.states.len() - 1;
        }
        env.run_until_idle();
    }
    Ok(())
}

fn contents(env: &Arc<SimEnv>) -> Pairs {
    read(open(env).unwrap().range(..).unwrap())
}

#[test]
fn a_crash_at_any_step_leaves_a_prefix_of_what_was_written_and_all_that_was_durable() {
    DURABILITIES.into_iter().for_each(crashes_at_any_step);
}

fn crashes_at_any_step(durability: Durability) {
    let whole = SimEnv::new(1);
    let left = run(&whole, &history(), durability);
    assert!(left.error.is_none() && left.durable + 1 == left.states.len());
    let dropped = open(&whole).unwrap().stats().log.first;
    assert!(dropped.0 > 20, "the log begins late: {dropped}");
    for step in 0..whole.operations() {
        for seed in 0..3 {
            let env = SimEnv::new(1);
            env.crash_at(step);
            let left = run(&env, &history(), durability);
            let env = env.after_crash(seed);
            let found = contents(&env);
            assert!(left.holds(&found), "step {step}, seed {seed}: {found:?}");
            // And it goes on from there, with what is in the log and with what is in files.
            let kv = open_with(&env, durability).unwrap();
            kv.with(WriteOptions::new().durability(Durability::Sync))
                .put(b"after", b"")
                .unwrap();
            drop(kv);
            let env = env.after_crash(seed);
            assert_eq!(contents(&env).len(), found.len() + 1);
            open_with(&env, durability).unwrap().compact().unwrap();
            assert_eq!(contents(&env.after_crash(seed)).len(), found.len() + 1);
        }
    }
}

#[test]
fn a_fault_at_any_step_is_an_error_or_heals_and_loses_nothing() {
    DURABILITIES.into_iter().for_each(faults_at_any_step);
}

fn faults_at_any_step(durability: Durability) {
    let whole = SimEnv::new(1);
    run(&whole, &history(), durability);
    for fault in [Fault::Eio, Fault::Enospc] {
        for step in 0..whole.operations() {
            let env = SimEnv::new(1);
            env.fail_at(step, fault);
            let left = run(&env, &history(), durability);
            env.heal();
            let found = contents(&env);
            assert!(left.holds(&found), "{fault:?} at step {step}: {found:?}");
            let found = contents(&env.after_crash(step));
            assert!(
                left.holds(&found),
                "{fault:?} at step {step}, then a crash: {found:?}"
            );
        }
    }
}

#[test]
fn a_full_disk_refuses_writes_and_takes_them_again_once_there_is_room() {
    let env = SimEnv::new(1);
    let kv = open(&env).unwrap();
    env.set_capacity(30_000);
    let mut model = Model::new();
    let value = vec![7; 500];
    let error = (0..1000u32)
        .find_map(|number| {
            let key = number.to_be_bytes();
            let done = kv
                .with(WriteOptions::new().durability(Durability::None))
                .put(key, &value);
            if done.is_ok() {
                model.insert(key.to_vec(), value.clone());
            }
            done.err()
        })
        .unwrap();
    assert_eq!(error.kind(), ErrorKind::Full);
    let all: Pairs = model.clone().into_iter().collect();
    assert_eq!(read(kv.range(..).unwrap()), all);
    env.set_capacity(1 << 30);
    kv.put(b"z", b"room").unwrap();
    kv.flush().unwrap();
    drop(kv);
    assert_eq!(contents(&env).len(), all.len() + 1);
}

#[test]
fn what_is_whole_is_verified_and_a_file_that_is_gone_is_damage() {
    let env = SimEnv::new(1);
    run(&env, &history(), Durability::Sync);
    let left = |env: &Arc<SimEnv>| {
        let mut lost = Vec::new();
        let mut bytes = 0;
        let verified = verify(
            env.clone(),
            "/db".as_ref(),
            &mut |damage| lost.push(damage.lost),
            &mut |more| bytes += more,
        );
        assert_eq!(verified.unwrap().bytes, bytes);
        lost
    };
    assert_eq!(left(&env), [""; 0]);
    for file in env.files() {
        let name = file.to_string_lossy().into_owned();
        if name.ends_with(".log") || name.ends_with(".table") || name.ends_with("MANIFEST") {
            let env = env.after_crash(1);
            env.remove(&file).unwrap();
            assert_eq!(left(&env).len(), 1, "{name}");
        }
    }
    let error = verify(env, "/".as_ref(), &mut |_| {}, &mut |_| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[test]
fn a_flipped_bit_or_a_cut_anywhere_is_an_error_or_does_not_matter() {
    DURABILITIES.into_iter().for_each(damage_anywhere);
}

fn damage_anywhere(durability: Durability) {
    let env = SimEnv::new(1);
    let left = run(&env, &history(), durability);
    let expected: Pairs = left.states.last().cloned().unwrap().into_iter().collect();
    let mut errors = 0;
    for file in env.files() {
        let bytes = env.read_all(&file).unwrap();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            let damages = [Some(damaged), (at % 7 == 0).then(|| bytes[..at].to_vec())];
            for damaged in damages.into_iter().flatten() {
                let env = env.after_crash(1);
                env.replace(&file, &damaged).unwrap();
                let found = open(&env).and_then(|kv| {
                    let pairs = kv.range(..)?;
                    pairs
                        .map(|pair| pair.map(|(key, value)| (key.to_vec(), value.to_vec())))
                        .collect::<Result<Pairs>>()
                });
                // Whatever a read tells of, and what it happens not to come by.
                let mut damages = Vec::new();
                let verified = verify(
                    env.clone(),
                    "/db".as_ref(),
                    &mut |damage| damages.push(damage),
                    &mut |_| {},
                );
                assert!(verified.is_ok(), "{} at {at}: {verified:?}", file.display());
                assert!(
                    !damages.is_empty() || found.is_ok(),
                    "{} at {at}",
                    file.display()
                );
                match found {
                    Ok(found) => assert_eq!(found, expected, "{} at {at}", file.display()),
                    Err(error) => {
                        errors += 1;
                        let named = error.to_string().contains("/db");
                        assert!(named, "{} at {at}: {error}", file.display());
                    }
                }
            }
        }
    }
    assert!(errors > 500, "{errors}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn random_histories_survive_a_crash_at_a_random_step(
        order in vec(0usize..1000, 1..40),
        at in 0u64..4000,
        seed in 0u64..100,
        rotate_unsynced: bool,
    ) {
        let all = history();
        let steps: Vec<_> = order.iter().map(|step| all[step % all.len()].clone()).collect();
        // No merge is refused: what is appended to stays short.
        let mut model = Model::new();
        prop_assume!(steps.iter().try_for_each(|step| apply(&mut model, step)).is_some());
        let env = SimEnv::new(seed);
        env.crash_at(at % 400);
        let left = run(&env, &steps, DURABILITIES[usize::from(rotate_unsynced)]);
        let found = contents(&env.after_crash(seed));
        prop_assert!(left.holds(&found), "{:?}", found);
    }
}
