//! Compactions in steps, and beside flushes.

use super::*;
use crate::tree::maintain::RUNS_WAITING;

fn key(number: u32) -> Vec<u8> {
    format!("key/{number:05}").into_bytes()
}

/// Two runs of many tables each, with the same keys and a deleted range in the newer one.
fn two_runs(env: &Arc<SimEnv>) -> Pair {
    let spec = TreeSpec {
        table_bytes_max: 2000,
        codec: BlockCodec::None,
        ..spec()
    };
    let mut pair = Pair::on(env, spec);
    for round in 0..2u8 {
        let put = |number: u32| (key(number), Write::Put(vec![round; 20]));
        pair.write(&(0..3000).map(put).collect::<Vec<_>>());
        // So a table's last range goes on after its last key.
        pair.write(&[(key(700), Write::DeleteRange(key(1400)))]);
        pair.tree.freeze();
        let edit = pair.tree.flush().unwrap().unwrap();
        pair.install(edit);
        pair.write(&[(key(3000), Write::Put(vec![1]))]);
    }
    assert_eq!(pair.tree.stats().runs, 1, "runs of one size are one");
    let put = |number: u32| (key(number * 3), Write::Put(vec![2; 20]));
    pair.write(&(0..700).map(put).collect::<Vec<_>>());
    pair.write(&[(key(500), Write::DeleteRange(key(1600)))]);
    pair.step(&Step::Flush);
    let stats = pair.tree.stats();
    assert!(stats.runs == 2 && stats.tables > 60, "{stats:?}");
    pair
}

#[test]
fn a_merge_takes_room_for_a_few_tables() {
    let env = SimEnv::new(1);
    let pair = two_runs(&env);
    // The table that is being written, and what is left of two tables that are read.
    let room = 4 * 2000;
    let used = pair.tree.stats().table_bytes;
    assert!(used > 10 * room);
    env.set_capacity(used + room);
    let picked = pair.tree.full_compaction().expect("two runs");
    pair.compact(picked);
    while let Some(picked) = pair.tree.unfinished_compaction() {
        pair.compact(picked);
        let files = pair.context.files.list().unwrap();
        assert_eq!(files, pair.run_files());
    }
    pair.check_now();
    let stats = pair.tree.stats();
    assert!(stats.runs == 1 && stats.table_bytes < used, "{stats:?}");
}

#[test]
fn a_compaction_goes_on_where_it_was_when_the_tree_is_opened_again() {
    let merge = |opened_again: bool| {
        let env = SimEnv::new(1);
        let mut pair = two_runs(&env);
        let picked = pair.tree.full_compaction().expect("two runs");
        let (mut steps, bytes) = (1, picked.bytes());
        pair.compact(picked);
        loop {
            if opened_again {
                pair.step(&Step::Reopen);
                pair.check_now();
            }
            let Some(picked) = pair.tree.pick_compaction() else {
                break;
            };
            assert!(picked.bytes() < bytes);
            pair.compact(picked);
            steps += 1;
        }
        assert_eq!(pair.tree.stats().runs, 1);
        (steps, pair.context.files.next_number(), pair.run_files())
    };
    let (steps, files, run) = merge(false);
    assert!(steps > 20, "{steps} steps");
    assert_eq!(merge(true), (steps, files, run), "nothing is written twice");
}

#[test]
fn newer_runs_wait_for_a_merge_of_older_ones_until_they_are_many() {
    let env = SimEnv::new(1);
    let mut pair = two_runs(&env);
    let picked = pair.tree.full_compaction().expect("two runs");
    pair.compact(picked);
    // Two that are being merged, and what was made of them.
    let being_merged = pair.tree.runs().len();
    assert_eq!(being_merged, 3);
    let (mut newer, mut next) = (0, 4000);
    while newer <= RUNS_WAITING {
        assert!(next < 6000, "they are merged as they come");
        let picked = pair.tree.pick_compaction().expect("it is not finished");
        assert!(picked.picked.merged.is_some(), "{newer} newer runs");
        drop(picked);
        let put = |number: u32| (key(number), Write::Put(vec![3; 20]));
        pair.write(&(next..next + 50).map(put).collect::<Vec<_>>());
        next += 50;
        pair.step(&Step::Flush);
        newer = pair.tree.runs().len() - being_merged;
    }
    // Beside the one that is not finished, which another thread may be at.
    let unfinished = pair.tree.unfinished_compaction().expect("nobody is");
    let picked = pair.tree.pick_compaction().expect("they are many");
    assert_eq!(picked.picked.runs.len(), newer);
    assert!(picked.picked.merged.is_none());
    pair.compact(picked);
    pair.check_now();
    pair.compact(unfinished);
    pair.check_now();
}

#[test]
fn compactions_and_flushes_take_different_things_and_install_in_any_order() {
    for flush_first in [true, false] {
        let env = SimEnv::new(1);
        let pair = prepared(&env);
        let compaction = compact(&pair.tree).unwrap().unwrap();
        let flush = pair.tree.flush().unwrap().unwrap();
        assert!(pair.tree.flush().unwrap().is_none(), "a flush is out");
        assert!(
            pair.tree.full_compaction().is_none() && pair.tree.pick_compaction().is_none(),
            "the runs are claimed"
        );
        let (first, second) = if flush_first {
            (flush, compaction)
        } else {
            (compaction, flush)
        };
        pair.install(first);
        pair.check_now();
        pair.install(second);
        pair.check_now();
        assert_eq!(pair.tree.stats().runs, 3);
        assert!(pair.tree.full_compaction().is_none(), "one is not finished");
        let unfinished = pair.tree.pick_compaction();
        drop(unfinished.expect("claims were given up"));
        let unfinished = pair.tree.pick_compaction();
        let unfinished = unfinished.expect("an unused pick gives its claim up");
        assert!(pair.tree.pick_compaction().is_none(), "it is gone on with");
        pair.compact(unfinished);
        pair.finish_compactions();
        pair.check_now();
        assert_eq!(pair.tree.stats().runs, 2);
        assert!(pair.tree.full_compaction().is_some());
    }
}
