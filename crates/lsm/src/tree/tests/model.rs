//! Random steps on a tree, compared with a map.

use super::*;

proptest! {
    #[test]
    fn pairs_of_one_length_come_in_order_from_many_runs(
        front in prop_oneof![Just(0usize), Just(6), Just(9)], own in 1usize..4,
        runs in vec(vec(any::<[u8; 3]>(), 0..60), 1..5), probe in any::<[u8; 3]>(),
        block_bytes in prop_oneof![Just(60usize), Just(400)],
        mapped: bool,
        table_bytes_max in prop_oneof![Just(400u64), Just(64 << 20)],
    ) {
        let key = |bytes: &[u8; 3]| [&vec![255; front], &bytes[..own]].concat();
        let spec = TreeSpec {
            block_bytes,
            mapped,
            table_bytes_max,
            codec: BlockCodec::None,
            ..TreeSpec::new(1, "t")
        };
        let mut pair = Pair::new(spec);
        for (number, run) in runs.iter().enumerate() {
            let put = |bytes| (key(bytes), Write::Put(vec![number as u8; 5]));
            pair.step(&Step::Record(run.iter().map(put).collect()));
            pair.step(&Step::Flush);
        }
        pair.check(&pair.tree.snapshot(pair.position()), &key(&probe));
        pair.step(&Step::Reopen);
        // The first scan reads the blocks, the next one looks at them in the map.
        pair.check_now();
        pair.check_now();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn a_tree_agrees_with_a_map_at_every_position_that_is_held(
        spec in any_spec(), steps in vec(any_step(), 1..80), probe in any_key(),
    ) {
        let mut pair = Pair::new(spec);
        for step in &steps {
            pair.step(step);
            pair.check(&pair.tree.snapshot(pair.position()), &probe);
        }
        for snapshot in &pair.snapshots {
            pair.check(snapshot, &probe);
        }
        pair.snapshots.clear();
        pair.step(&Step::Reopen);
        pair.check_now();
        prop_assert_eq!(pair.context.files.list().unwrap(), pair.run_files());
        for table in pair.tree.runs().iter().flat_map(|run| &run.tables) {
            let path = pair.context.files.path(table.file).unwrap();
            verify_table(pair.context.env.as_ref(), &path, table).unwrap();
        }
    }
}
