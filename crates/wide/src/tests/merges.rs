//! Partitions that are merged: the new one has what the old ones have together, whatever is done to
//! them meanwhile, and goes on from there. Those who tail the old ones go on in it.

use super::tails;
use super::*;
use crate::{Gathered, Merge};
use std::cell::RefCell;

/// Which old partition has a row.
fn owner(name: &str) -> usize {
    usize::from(name != "y")
}

/// A partition of this number, which is made if there is none.
fn open_one(env: &Arc<SimEnv>, number: u32, is_tailed: bool) -> WidePartition {
    let shared = Shared::new(env.clone(), 8 << 20, None);
    let place = Place {
        volumes: Volumes::single("/db"),
        subdir: format!("part-{number}").into(),
        identity: [8 + number as u8; 16],
    };
    if number < 2 && !Store::<crate::machine::WideRows>::exists(&shared, &place).unwrap() {
        WidePartition::create(&shared, &place).unwrap();
    }
    match is_tailed {
        true => tails::open_tailed(env, place, number).unwrap(),
        false => open_at(env, shared, place, number).unwrap(),
    }
}

/// Two partitions with the same schema.
struct Pair {
    env: Arc<SimEnv>,
    is_tailed: bool,
    olds: Vec<WidePartition>,
    lefts: [Left; 2],
    schema: Arc<Schema>,
}

fn nothing() -> Left {
    Left {
        states: vec![Timed::new()],
        durable: 0,
    }
}

impl Pair {
    fn new(is_tailed: bool) -> Pair {
        let env = SimEnv::new(1);
        Pair {
            olds: (0..2)
                .map(|number| open_one(&env, number, is_tailed))
                .collect(),
            env,
            is_tailed,
            lefts: [nothing(), nothing()],
            schema: schema(),
        }
    }

    /// Does a step to the partition of its row, or to both.
    fn step(&mut self, step: &Step) {
        let owned = match step {
            Step::Write(name, ..) => owner(name)..owner(name) + 1,
            Step::Wait | Step::MoveTo(..) => 0..1,
            _ => 0..2,
        };
        for (number, (old, left)) in self.olds.iter().zip(&mut self.lefts).enumerate() {
            if owned.contains(&number) {
                let schema = &mut self.schema;
                do_step(&self.env, old, schema, step, Durability::Sync, left).unwrap();
                self.env.run_until_idle();
            }
        }
    }

    fn reopen(&mut self) {
        for (number, old) in self.olds.iter_mut().enumerate() {
            old.close().unwrap();
            *old = open_one(&self.env, number as u32, self.is_tailed);
        }
    }

    /// The rows of both.
    fn rows(&self) -> Timed {
        let both = self.lefts.iter().filter_map(|left| left.states.last());
        let rows = both.flatten();
        rows.map(|(name, row)| (name.clone(), row.clone()))
            .collect()
    }

    fn model(&self) -> Model {
        seen(&self.rows(), self.env.now_micros())
    }
}

/// The versions of rows, and when they were changed.
fn versions(partition: &WidePartition, schema: &Arc<Schema>) -> BTreeMap<Key, (Position, i64)> {
    let view = partition.view(schema).unwrap();
    let rows = view.rows("_id", Some(&[])).unwrap();
    let rows = rows.map(|row| row.unwrap().1);
    rows.map(|row| (row.key, (row.version, row.time_micros)))
        .collect()
}

/// Does steps to two partitions, merges them, does some to them while the new one follows, and then
/// some to the new one.
fn merge_between(is_tailed: bool, before: &[Step], meanwhile: &[Step], after: &[Step]) {
    let mut pair = Pair::new(is_tailed);
    for step in before {
        match step {
            Step::Reopen => pair.reopen(),
            step => pair.step(step),
        }
    }
    let env = Arc::clone(&pair.env);
    let marks = RefCell::new(Vec::<(Vec<Position>, Position)>::new());
    let mut mark = |seen: &[Position], at: Position| {
        let mut marks = marks.borrow_mut();
        if let Some((before, was_at)) = marks.last() {
            assert!(*was_at <= at && before.iter().zip(seen).all(|(before, seen)| before <= seen));
        }
        marks.push((seen.to_vec(), at));
    };
    let last = pair.olds.iter().map(WidePartition::position).max().unwrap();
    let base = Position(last.0 + 1000);
    let place = Place {
        volumes: Volumes::single("/db"),
        subdir: "part-2".into(),
        identity: [10; 16],
    };
    let schema_now = Arc::clone(&pair.schema);
    let merge = Merge {
        olds: &pair.olds,
        place: &place,
        base,
        schema: &|| Arc::clone(&schema_now),
        open: &|| Ok(open_one(&env, 2, is_tailed)),
        watch: &|_| true,
    };
    let mut gathered = merge.gather(&mut mark).unwrap().unwrap();
    let mut known = BTreeMap::new();
    agree(&pair, &gathered, base, &mut known);
    log_has_docids_of_now(gathered.partition());
    for (number, step) in meanwhile.iter().enumerate() {
        match step {
            Step::Reopen => pair.step(&Step::Flush),
            step => pair.step(step),
        }
        if number % 3 == 0 {
            while gathered.follow(&mut mark).unwrap() > 0 {}
            agree(&pair, &gathered, base, &mut known);
        }
    }
    while gathered.follow(&mut mark).unwrap() > 0 {}
    agree(&pair, &gathered, base, &mut known);
    if is_tailed {
        tails_go_on(&pair, gathered.partition(), &marks.borrow());
    }

    // It goes on alone, also after it was opened again.
    let mut left = Left {
        states: vec![pair.rows()],
        durable: 0,
    };
    pair.olds.iter().for_each(|old| old.close().unwrap());
    gathered.partition().sync().unwrap();
    gathered.partition().close().unwrap();
    let mut one = open_one(&env, 2, is_tailed);
    let mut schema = Arc::clone(&pair.schema);
    for step in after {
        match step {
            Step::Reopen => {
                one.close().unwrap();
                one = open_one(&env, 2, is_tailed);
            }
            step => do_step(&env, &one, &mut schema, step, Durability::Sync, &mut left).unwrap(),
        }
        env.run_until_idle();
    }
    assert_eq!(contents_of(&one, &schema).unwrap(), left.last(&env));
    one.close().unwrap();
}

/// The changes in the log, which come from the old ones, have the docids of the rows here.
fn log_has_docids_of_now(new: &WidePartition) {
    let view = new.view(&schema()).unwrap();
    let first = new.store().log_first();
    for item in new.store().tail(Position(first.0 - 1)).unwrap() {
        let (_, bytes) = item.unwrap();
        let (head, _) = crate::record::decode(&bytes).unwrap();
        if !head.key.is_empty() && head.docid != crate::gathered_log::GONE {
            let docid = view.tree(crate::machine::KEYS).unwrap().get(head.key);
            let docid = docid.unwrap().expect("there is such a row");
            assert_eq!(*docid, head.docid.0.to_be_bytes());
        }
    }
}

/// Compares the new partition with the old ones. `known` has the versions there.
fn agree(pair: &Pair, gathered: &Gathered, base: Position, known: &mut BTreeMap<Key, Position>) {
    let new = gathered.partition();
    assert_eq!(contents_of(new, &pair.schema).unwrap(), pair.model());
    let found = versions(new, &pair.schema);
    for old in &pair.olds {
        for (key, (version, time_micros)) in versions(old, &pair.schema) {
            let (of_new, its_time) = found[&key];
            assert!(of_new >= base && of_new > version && of_new <= new.position());
            assert_eq!(its_time, time_micros, "{key}");
        }
    }
    for (key, (version, _)) in &found {
        let before = known.insert(key.clone(), *version);
        assert!(before.is_none_or(|before| before <= *version), "{key}");
    }
}

/// One who has read the old partitions up to a mark reads the rest in the new one; and each row has
/// the version of its last change.
fn tails_go_on(pair: &Pair, new: &WidePartition, marks: &[(Vec<Position>, Position)]) {
    let now = pair.env.now_micros();
    let all = |partition: &WidePartition, seen| tails::tail(partition, seen).unwrap();
    for (of_olds, at) in marks {
        let mut rows = Timed::new();
        for (old, of_old) in pair.olds.iter().zip(of_olds) {
            let changes = all(old, Position(0)).into_iter();
            let changes: Vec<_> = changes.filter(|one| one.version <= *of_old).collect();
            tails::follow(&mut rows, &changes);
        }
        tails::follow(&mut rows, &all(new, *at));
        assert_eq!(seen(&rows, now), pair.model(), "from {at} on");
    }
    let mut last = BTreeMap::new();
    for change in all(new, Position(0)) {
        last.insert(change.key.clone(), change.version);
    }
    for (key, (version, _)) in versions(new, &pair.schema) {
        assert_eq!(last.get(&key), Some(&version), "{key}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn any_operations_before_while_and_after_a_merge_agree_with_the_model(
        is_tailed in any::<bool>(),
        before in vec(any_step(), 0..25),
        meanwhile in vec(any_step(), 0..15),
        after in vec(any_step(), 0..10),
    ) {
        merge_between(is_tailed, &before, &meanwhile, &after);
    }
}

/// A column moves in the old partitions before the merge and while the new one follows, and its
/// cells are written before, between and after.
fn a_column_moves() {
    let row = |name, cell| Step::Write(name, Kind::Upsert, vec![cell]);
    let before = [
        row("y", Small::Cold(1)),
        row("x", Small::Hot(1)),
        row("z", Small::Hot(1)),
        Step::MoveTo("hot", "links"),
        Step::MoveSome,
    ];
    let meanwhile = [
        row("y", Small::Hot(2)),
        Step::MoveTo("hot", "cold"),
        Step::MoveSome,
        Step::MoveAll,
        row("x", Small::Add(3)),
        row("y", Small::Hot(4)),
    ];
    merge_between(
        false,
        &before,
        &meanwhile,
        &[Step::MoveAll, row("x", Small::Add(1))],
    );
}

#[test]
fn a_column_moves_on_in_the_new_partition() {
    a_column_moves();
    assert_each_is_found(Bug::OF_WIDE_MERGES, a_column_moves);
}

/// Rows that are removed leave no docids: a partition can be split and merged for ever.
#[test]
fn docids_are_given_without_gaps() {
    let row = |name, cell| Step::Write(name, Kind::Upsert, vec![cell]);
    let mut pair = Pair::new(false);
    for round in 0..50 {
        for name in ["x", "y"] {
            pair.step(&row(name, Small::Hot(round)));
            pair.step(&Step::Write(name, Kind::Delete, Vec::new()));
        }
    }
    pair.step(&row("y", Small::Hot(7)));
    pair.step(&row("z", Small::Hot(8)));
    let place = Place {
        volumes: Volumes::single("/db"),
        subdir: "part-2".into(),
        identity: [10; 16],
    };
    let merge = Merge {
        olds: &pair.olds,
        place: &place,
        base: Position(1 << 20),
        schema: &schema,
        open: &|| Ok(open_one(&pair.env, 2, false)),
        watch: &|_| true,
    };
    let gathered = merge.gather(&mut |_, _| {}).unwrap().unwrap();
    let view = gathered.partition().view(&schema()).unwrap();
    assert_eq!((view.count(), view.rows_made()), (2, 2));
}
