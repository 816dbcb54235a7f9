//! The switch from one version of a tree to the next under shuttle: readers beside the writer, two
//! who flush and compact, and snapshots that are kept meanwhile.

use super::*;
use crate::FoldBytes;
use crate::testing::{Sum, context, number};
use quire_env::SimEnv;
use quire_seeded::{Bug, assert_each_is_found};
use quire_sync::checker::thread;
use quire_sync::explore;
use std::ops::Bound;

const RECORDS: u64 = 8;
/// Writes between two freezes.
const FREEZE_EVERY: u64 = 2;

/// A snapshot, and the version that it is of.
struct Kept {
    version: Arc<Version>,
    snapshot: TreeSnapshot,
}

impl Kept {
    /// The tree as published, as a store makes it.
    fn take(tree: &Tree, published: &AtomicU64) -> Kept {
        loop {
            let at = Position(published.load(Ordering::Acquire));
            let version = tree.version.load_full();
            let snapshot = TreeSnapshot::new(Arc::clone(&version), at, 0);
            if snapshot.flushed() <= at {
                return Kept { version, snapshot };
            }
        }
    }

    /// Each record adds one to a sum, puts its position, and puts and deletes a key in turns: all
    /// three agree, both ways, and each file is there.
    fn check(&self, tree: &Tree) {
        let at = self.snapshot.position().0;
        let mut expected = Vec::new();
        if at > 0 {
            expected.push((b"put".to_vec(), at as i64));
            expected.push((b"sum".to_vec(), at as i64));
        }
        if at % 2 == 1 {
            expected.push((b"turns".to_vec(), at as i64));
        }
        for key in [b"put".as_slice(), b"sum", b"turns"] {
            let found = self.snapshot.get(key).unwrap();
            let meant = expected.iter().find(|(expected, _)| expected == key);
            assert_eq!(
                found.map(|value| number(&value)),
                meant.map(|(_, value)| *value),
                "{key:?} at {at}"
            );
        }
        let all = |scan: Scan| -> Vec<_> {
            let pairs = scan.map(Result::unwrap);
            pairs
                .map(|(key, value)| (key.to_vec(), number(&value)))
                .collect()
        };
        let (from, to) = (Bound::Unbounded, Bound::Unbounded);
        assert_eq!(all(self.snapshot.scan(from, to).unwrap()), expected);
        expected.reverse();
        assert_eq!(all(self.snapshot.scan_back(from, to).unwrap()), expected);
        for table in self.version.runs.iter().flat_map(|run| &run.tables) {
            let path = tree.context.files.path(table.meta().file).unwrap();
            assert!(tree.context.env.exists(&path).unwrap(), "{path:?} is gone");
        }
    }
}

fn is_done(published: &AtomicU64) -> bool {
    published.load(Ordering::Acquire) == RECORDS
}

fn scenario() {
    let spec = TreeSpec {
        merger: Some(FoldBytes::shared(Sum)),
        // Each entry is a table, and a step of a compaction.
        table_bytes_max: 1,
        ..TreeSpec::new(1, "t")
    };
    let tree = Arc::new(Tree::open(spec, context(&SimEnv::new(1)), Vec::new()).unwrap());
    let published = Arc::new(AtomicU64::new(0));
    let mut threads = Vec::new();
    for _ in 0..2 {
        let (tree, published) = (Arc::clone(&tree), Arc::clone(&published));
        threads.push(thread::spawn(move || {
            let mut before = Kept::take(&tree, &published);
            while !is_done(&published) {
                let kept = Kept::take(&tree, &published);
                kept.check(&tree);
                std::mem::replace(&mut before, kept).check(&tree);
                thread::yield_now();
            }
            before.check(&tree);
        }));
    }
    for _ in 0..2 {
        let (tree, published) = (Arc::clone(&tree), Arc::clone(&published));
        threads.push(thread::spawn(move || {
            while !is_done(&published) {
                if let Some(edit) = tree.flush().unwrap() {
                    tree.install(edit);
                }
                let unfinished = tree.unfinished_compaction();
                if let Some(picked) = unfinished.or_else(|| tree.full_compaction())
                    && let Some(edit) = tree.compact(picked, &|| false).unwrap()
                {
                    tree.install(edit);
                }
                thread::yield_now();
            }
        }));
    }
    for position in 1..=RECORDS {
        let at = Position(position);
        let value = (position as i64).to_le_bytes();
        let turns = match position % 2 {
            1 => Op::Put(&value),
            _ => Op::Delete,
        };
        tree.write(b"sum", at, Op::Merge(&1i64.to_le_bytes()))
            .unwrap();
        tree.write(b"put", at, Op::Put(&value)).unwrap();
        tree.write(b"turns", at, turns).unwrap();
        published.store(position, Ordering::Release);
        if position % FREEZE_EVERY == 0 {
            tree.freeze();
        }
    }
    for thread in threads {
        thread.join().unwrap();
    }
    let last = Kept::take(&tree, &published);
    last.check(&tree);
    let named = last.version.runs.iter().flat_map(|run| &run.tables);
    let mut named: Vec<_> = named.map(|table| table.meta().file).collect();
    named.sort_unstable();
    let there = tree.context.files.list().unwrap();
    assert_eq!(there, named, "what nobody holds is gone");
}

#[test]
fn readers_see_whole_records_whatever_is_flushed_and_compacted_and_no_file_goes_before_they_do() {
    explore(10_000, scenario);
}

#[test]
fn each_seeded_bug_is_found() {
    let [of_trees, _] = Bug::UNDER_SHUTTLE;
    assert_each_is_found(of_trees, || explore(60_000, scenario));
}
