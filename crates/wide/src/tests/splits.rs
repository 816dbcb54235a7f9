//! Partitions that are split: the new ones together have what the old one has, whatever is done to
//! it meanwhile, and go on from there.

use super::*;

/// The new partition of a row.
fn owner(key: &Key) -> usize {
    usize::from(key.to_string() != "y")
}

fn new_place(number: u32) -> Place {
    Place {
        volumes: Volumes::single("/db"),
        subdir: format!("new-{number}").into(),
        identity: [8 + number as u8; 16],
    }
}

/// The rows of a partition of a split.
fn owned(rows: &Model, number: usize) -> Model {
    let rows = rows.iter().filter(|(name, _)| owner(&key(name)) == number);
    rows.map(|(name, row)| (name.clone(), row.clone()))
        .collect()
}

/// Does steps to a partition, splits it, does some to it while the new partitions follow, and then
/// some to the new ones.
fn split_between(before: &[Step], meanwhile: &[Step], after: &[Step]) {
    let env = SimEnv::new(1);
    let (mut left, mut schema) = (
        Left {
            states: vec![Timed::new()],
            durable: 0,
        },
        schema(),
    );
    let old = open(&env).unwrap();
    let step = |one: &WidePartition, schema: &mut Arc<Schema>, step: &Step, left: &mut Left| {
        do_step(&env, one, schema, step, Durability::Sync, left).unwrap();
        env.run_until_idle();
    };
    for one in before {
        step(&old, &mut schema, one, &mut left);
    }
    let shared = Shared::new(env.clone(), 8 << 20, None);
    let open = |number: usize| {
        let number = number as u32;
        open_at(&env, Arc::clone(&shared), new_place(number), number)
    };
    let places = [new_place(0), new_place(1)];
    let dealt = old.deal(&schema, &places, &owner, &open, &|_| true);
    let dealt = dealt.unwrap().unwrap();
    let new = &dealt.partitions;
    let follow = || {
        let mut left = 0;
        for (number, one) in new.iter().enumerate() {
            left = left.max(one.follow(&old, &|key| owner(key) == number).unwrap());
        }
        dealt
            .hold
            .advance(new.iter().map(WidePartition::position).min().unwrap());
        left
    };
    let agree = |schema: &Arc<Schema>, left: &Left| {
        for (number, one) in new.iter().enumerate() {
            assert_eq!(one.position(), old.position(), "of {number}");
            let found = contents_of(one, schema).unwrap();
            assert_eq!(found, owned(&left.last(&env), number), "of {number}");
            let versions = |one: &WidePartition| {
                let view = one.view(schema).unwrap();
                let rows = view.rows("_id", Some(&[])).unwrap();
                let rows = rows.map(|row| row.unwrap().1);
                let rows = rows.filter(|row| owner(&row.key) == number);
                rows.map(|row| (row.key, row.version, row.time_micros))
                    .collect::<Vec<_>>()
            };
            assert_eq!(versions(one), versions(&old), "of {number}");
        }
    };
    agree(&schema, &left);
    for (number, one) in meanwhile.iter().enumerate() {
        step(&old, &mut schema, one, &mut left);
        if number % 3 == 0 {
            while follow() > 0 {}
            agree(&schema, &left);
        }
    }
    while follow() > 0 {}
    agree(&schema, &left);

    // Nobody tails them: records are as programs wrote them that knew no tails.
    for one in new.iter().chain([&old]) {
        let first = one.store().log_first();
        for item in one.store().tail(Position(first.0 - 1)).unwrap() {
            let flags = item.unwrap().1[1];
            assert_eq!(flags & !7, 0, "flags of a record");
        }
    }

    // Each goes on alone, also after it was opened again.
    let last = left.states.last().unwrap().clone();
    old.close().unwrap();
    for (number, one) in new.iter().enumerate() {
        one.sync().unwrap();
        one.close().unwrap();
        let mut one = open(number).unwrap();
        let mut schema = Arc::clone(&schema);
        let rows = last.iter().filter(|(name, _)| owner(&key(name)) == number);
        let rows: Timed = rows
            .map(|(name, row)| (name.clone(), row.clone()))
            .collect();
        let mut left = Left {
            states: vec![rows],
            durable: 0,
        };
        for next in after {
            match next {
                Step::Write(name, ..) if owner(&key(name)) != number => {}
                Step::Reopen => {
                    one.close().unwrap();
                    one = open(number).unwrap();
                }
                next => step(&one, &mut schema, next, &mut left),
            }
        }
        let found = contents_of(&one, &schema).unwrap();
        assert_eq!(found, left.last(&env), "of {number}");
        one.close().unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn any_operations_before_while_and_after_a_split_agree_with_the_model(
        before in vec(any_step(), 0..25),
        meanwhile in vec(any_step(), 0..15),
        after in vec(any_step(), 0..10),
    ) {
        split_between(&before, &meanwhile, &after);
    }
}

/// A column moves in a row of one new partition, past a row of the other one, which then gets a
/// cell in it.
fn a_column_moves() {
    let row = |name, cell| Step::Write(name, Kind::Upsert, vec![cell]);
    let before = [
        row("y", Small::Cold(1)),
        row("x", Small::Hot(1)),
        row("z", Small::Hot(1)),
        Step::MoveTo("hot", "links"),
    ];
    let meanwhile = [Step::MoveSome, row("y", Small::Hot(2))];
    split_between(&before, &meanwhile, &[Step::MoveAll]);
}

#[test]
fn a_column_moves_on_in_all_new_partitions() {
    a_column_moves();
    assert_each_is_found(Bug::OF_WIDE_SPLITS, a_column_moves);
}

#[test]
fn a_split_that_is_stopped_leaves_the_old_partition_as_it_was() {
    let env = SimEnv::new(1);
    let old = open(&env).unwrap();
    for number in 0..2_000 {
        let write = RowWrite::put(Key::from(number)).with(Change::set("hot", Cell::Int(1)));
        let written = old.write(&schema(), &write, Triggers::none(), Durability::None);
        written.unwrap();
    }
    let shared = Shared::new(env.clone(), 8 << 20, None);
    let open = |number: usize| {
        let number = number as u32;
        open_at(&env, Arc::clone(&shared), new_place(number), number)
    };
    let places = [new_place(0), new_place(1)];
    let dealt = old.deal(&schema(), &places, &owner, &open, &|entries| {
        entries < 3_000
    });
    assert!(dealt.unwrap().is_none());
    assert_eq!(old.view(&schema()).unwrap().count(), 2_000);
}
