//! Deleted ranges.

use super::*;

/// Old keys in one run, newer ones and deletions of ranges in others; what is deleted is not read
/// again.
#[test]
fn a_range_that_is_deleted_is_passed_over_and_goes_with_the_oldest_run() {
    let env = SimEnv::new(1);
    let spec = TreeSpec {
        table_bytes_max: 4000,
        ..spec()
    };
    let mut pair = Pair::on(&env, spec);
    let key = |number: u32| format!("key/{number:05}").into_bytes();
    let put = |number| (key(number), Write::Put(vec![7; 20]));
    pair.write(&(0..20_000).map(put).collect::<Vec<_>>());
    pair.step(&Step::Flush);
    let (all, files) = (pair.tree.stats(), pair.run_files());
    // The first two are adjacent, so they are one in a table.
    let ranges = [(100, 9000), (9000, 9500), (10_000, 19_900)];
    for (from, to) in ranges {
        pair.write(&[(key(from), Write::DeleteRange(key(to)))]);
        pair.check_now();
    }
    pair.write(&[put(5000), (key(6000), Write::Merge(b"new".to_vec()))]);
    let before = pair.tree.snapshot(pair.position());
    pair.step(&Step::Flush);
    let of_run = pair.tree.stats();
    assert_eq!((of_run.runs, of_run.range_tombstones), (2, 2));
    for snapshot in [before, pair.tree.snapshot(pair.position())] {
        let reads = pair.tree.stats().block_reads;
        assert_eq!(
            scan(&snapshot, Bound::Unbounded, Bound::Unbounded).len(),
            702
        );
        let (read, blocks) = (pair.tree.stats().block_reads - reads, all.entries / 2);
        assert!(read < blocks / 5, "{read} of {blocks} blocks");
    }
    pair.check_now();
    // A range that is cut where tables end, and has no entries, above what it deletes.
    pair.write(&[(key(0), Write::DeleteRange(key(50)))]);
    let filler = |number: u32| (key(20_000 + number), Write::Put(vec![number as u8; 30]));
    pair.write(&(0..300).map(filler).collect::<Vec<_>>());
    pair.write(&[(key(20_010), Write::DeleteRange(key(20_290)))]);
    pair.write(&(100..200).map(filler).collect::<Vec<_>>());
    pair.step(&Step::Flush);
    let upper = pair.tree.runs()[0].clone();
    assert!(upper.tables.len() > 1 && pair.tree.stats().range_tombstones > 3);
    pair.check_now();
    pair.step(&Step::Reopen);
    pair.check_now();

    pair.step(&Step::Compact { full: true });
    pair.check_now();
    let left = pair.tree.stats();
    let live = pair.history.last().unwrap().len() as u64;
    assert_eq!((left.runs, left.entries, live), (1, live, 772));
    assert!(!pair.run_files().iter().any(|file| files.contains(file)));
}

#[test]
fn very_many_ranges_without_entries_are_cut_into_tables() {
    let mut pair = Pair::new(spec());
    let key = |number: u32| format!("key/{number:05}").into_bytes();
    pair.write(&[
        (key(1), Write::Put(b"old".to_vec())),
        (key(5), Write::Put(b"old".to_vec())),
    ]);
    pair.step(&Step::Flush);
    let ranges =
        (0..300).map(|number| (key(10 * number), Write::DeleteRange(key(10 * number + 5))));
    pair.write(&ranges.collect::<Vec<_>>());
    pair.step(&Step::Flush);
    let stats = pair.tree.stats();
    assert!(
        stats.tables > 10 && stats.range_tombstones == 300,
        "{stats:?}"
    );
    pair.check_now();
    pair.step(&Step::Reopen);
    pair.check_now();
    // Memory for it is charged, and given back.
    let pinned = pair.context.budget.used();
    assert!(
        pinned > 300 * crate::range_tombstones::NODE_BYTES,
        "{pinned} bytes"
    );
    pair.step(&Step::Compact { full: true });
    assert!(pair.context.budget.used() < pinned / 10);
    assert_eq!(pair.tree.stats().entries, 1);
}
