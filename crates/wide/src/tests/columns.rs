//! Columns that move from one group to another: each cell is read once at each step, whatever is
//! written meanwhile and wherever the machine crashes. And seeded bugs.

use super::*;
use crate::machine::tree_of;
use std::ops::Bound;

/// Moves all columns that are to move, in steps of a cell.
pub(super) fn move_all(
    partition: &WidePartition,
    schema: &Arc<Schema>,
    durability: Durability,
) -> Result<u64> {
    let mut cells = 0;
    loop {
        let step = partition.column_step_of(schema, durability, 1)?;
        cells += step.cells;
        if step.is_over {
            return Ok(cells);
        }
    }
}

fn moved(schema: &Arc<Schema>, column: &str, group: &str) -> Arc<Schema> {
    Arc::new((**schema).clone().with_moved(column, group).unwrap())
}

fn write(partition: &WidePartition, name: &str, kind: Kind, changes: &[Small]) {
    let write = write_of(name, kind, changes);
    partition
        .write(&schema(), &write, Triggers::none(), Durability::Sync)
        .unwrap();
}

/// The cells in the tree of a group.
fn cells_in(partition: &WidePartition, group: u8) -> usize {
    let view = partition.view_of_all(&schema()).unwrap();
    let tree = view.tree(tree_of(group, false)).unwrap();
    tree.scan(Bound::Unbounded, Bound::Unbounded)
        .unwrap()
        .count()
}

const WHOLE: [Small; 6] = [
    Small::Hot(1),
    Small::Cold(1),
    Small::Link("a", 1),
    Small::Link("b", 2),
    Small::LinkFor("http://c/", 3, 45),
    Small::Count("b", 7),
];

#[test]
fn a_column_moves_cell_by_cell_and_each_is_read_once_at_each_step() {
    let env = SimEnv::new(1);
    let partition = open(&env).unwrap();
    for name in NAMES {
        write(&partition, name, Kind::Put, &WHOLE);
    }
    let model = contents(&partition).unwrap();
    let version = || {
        let view = partition.view(&schema()).unwrap();
        let found = view.get(&key("y"), "_id", None).unwrap().unwrap();
        (found.version, found.time_micros)
    };
    let before = version();
    assert_eq!((cells_in(&partition, 0), cells_in(&partition, 2)), (3, 12));
    let to_default = moved(&schema(), "links", "default");
    assert!(!partition.has_column_moves(&schema()).unwrap());
    assert!(partition.has_column_moves(&to_default).unwrap());
    let (mut steps, mut passed) = (0, 0);
    loop {
        let step = partition
            .column_step_of(&to_default, Durability::Sync, 1)
            .unwrap();
        if step.is_over {
            break;
        }
        steps += 1;
        // Readers of both schemas see the same, and so does one that opens the partition.
        assert_eq!(contents(&partition).unwrap(), model, "step {steps}");
        assert_eq!(contents_of(&partition, &to_default).unwrap(), model);
        let progress = partition.column_progress(&to_default).unwrap();
        let [progress] = &progress[..] else {
            panic!("{progress:?}");
        };
        assert_eq!(progress.groups, ["links", "default"]);
        assert!(
            progress.passed >= passed && progress.of == 3,
            "{progress:?}"
        );
        passed = progress.passed;
    }
    assert_eq!((passed, steps), (3, 9));
    assert_eq!((cells_in(&partition, 0), cells_in(&partition, 2)), (12, 3));
    assert_eq!(version(), before, "a move is no write");
    assert_eq!(partition.column_cells_moved().0, 9);
    assert!(partition.column_progress(&to_default).unwrap()[0].is_done);

    // The place is kept, and a further move begins from where the cells are.
    partition.flush().unwrap();
    partition.close().unwrap();
    let partition = open(&env).unwrap();
    assert_eq!(contents(&partition).unwrap(), model);
    assert!(!partition.has_column_moves(&to_default).unwrap());
    let to_cold = moved(&to_default, "links", "cold");
    to_cold.check_follows(&schema()).unwrap();
    let cells = move_all(&partition, &to_cold, Durability::None).unwrap();
    assert_eq!(cells, 9);
    assert_eq!(cells_in(&partition, 0), 3);
    assert_eq!(contents_of(&partition, &to_cold).unwrap(), model);
    let back = moved(&to_cold, "links", "links");
    assert_eq!(move_all(&partition, &back, Durability::None).unwrap(), 9);
    assert_eq!(cells_in(&partition, 2), 12);
    assert_eq!(contents(&partition).unwrap(), model);
}

#[test]
fn what_is_written_while_a_column_moves_goes_where_it_is_read() {
    let env = SimEnv::new(1);
    let partition = open(&env).unwrap();
    for name in NAMES {
        write(&partition, name, Kind::Put, &WHOLE);
    }
    let mut states = Left {
        states: vec![Timed::new()],
        durable: 0,
    };
    for name in NAMES {
        let now = env.now_micros();
        apply(&mut states.states[0], name, Kind::Put, &WHOLE, now);
    }
    let schema = moved(&schema(), "links", "default");
    // `links` is at the member `b` of `y` then.
    for _ in 0..4 {
        partition
            .column_step_of(&schema, Durability::Sync, 1)
            .unwrap();
    }
    let writes = [
        ("y", Kind::Upsert, vec![Small::RemoveLinks("", None)]),
        ("x", Kind::Upsert, vec![Small::Link("b", 9)]),
        (
            "y",
            Kind::Upsert,
            vec![Small::Link("a", 8), Small::Link("http://c/", 7)],
        ),
        (
            "y",
            Kind::Upsert,
            vec![Small::RemoveLinks("a", Some("http://d/"))],
        ),
        (
            "z",
            Kind::Upsert,
            vec![Small::Link("", 6), Small::RemoveLink("a")],
        ),
        (
            "y",
            Kind::Put,
            vec![Small::Link("a", 5), Small::LinkFor("b", 5, 45)],
        ),
        ("z", Kind::Delete, Vec::new()),
        ("z", Kind::Upsert, vec![Small::Link("b", 4)]),
    ];
    for (name, kind, changes) in writes {
        let now = env.now_micros();
        apply(&mut states.states[0], name, kind, &changes, now);
        partition
            .write(
                &schema,
                &write_of(name, kind, &changes),
                Triggers::none(),
                Durability::Sync,
            )
            .unwrap();
        assert_eq!(contents_of(&partition, &schema).unwrap(), states.last(&env));
        partition
            .column_step_of(&schema, Durability::Sync, 1)
            .unwrap();
        assert_eq!(contents_of(&partition, &schema).unwrap(), states.last(&env));
    }
    move_all(&partition, &schema, Durability::Sync).unwrap();
    assert_eq!(contents_of(&partition, &schema).unwrap(), states.last(&env));
    partition.compact().unwrap();
    assert_eq!(contents(&partition).unwrap(), states.last(&env));
}

/// A row that is written between the plan of a step and its record is not passed.
fn a_write_comes_between(name: &str, change: Small) {
    let env = SimEnv::new(1);
    let partition = open(&env).unwrap();
    for name in NAMES {
        write(&partition, name, Kind::Put, &[Small::Hot(1)]);
    }
    write(&partition, "z", Kind::Upsert, &[Small::Link("a", 1)]);
    let schema = moved(&schema(), "links", "default");
    let plan = partition.plan_column(&schema, Durability::Sync, 1 << 20);
    let plan = plan.unwrap().unwrap();
    let mut expected = contents(&partition).unwrap();
    // The writer does not wait for its write to be durable, so no view sees it yet.
    let write = write_of(name, Kind::Upsert, std::slice::from_ref(&change));
    let (_, position) = partition
        .write_unsynced(&schema, &write, Triggers::none())
        .unwrap();
    let step = partition.move_column(&plan, Durability::Sync).unwrap();
    assert!(!step.is_over && step.wait > Duration::ZERO);
    partition.acknowledge(position, Durability::Sync).unwrap();
    let row = expected.get_mut(name).unwrap();
    let mut timed = TimedRow::new();
    change.apply(&mut timed, env.now_micros());
    row.extend(timed.into_iter().map(|(at, (cell, _))| (at, cell)));
    assert_eq!(contents(&partition).unwrap(), expected);
    move_all(&partition, &schema, Durability::Sync).unwrap();
    assert_eq!(contents(&partition).unwrap(), expected);
    assert_eq!(cells_in(&partition, 2), 0);
}

#[test]
fn a_row_that_is_written_between_plan_and_record_moves_later() {
    a_write_comes_between("x", Small::Link("a", 2));
    a_write_comes_between("y", Small::Link("b", 2));
    a_write_comes_between("z", Small::Link("b", 2));
    a_write_comes_between("z", Small::Hot(2));
}

#[test]
fn a_follower_and_a_salvage_of_a_column_that_moves_have_each_cell_once() {
    let (env, copy_env) = (SimEnv::new(1), SimEnv::new(2));
    let (partition, copy) = (open(&env).unwrap(), open(&copy_env).unwrap());
    let follow = || {
        let (store, seen) = (partition.any_store(), copy.position());
        if seen == partition.position() {
            return;
        }
        let Shipped::Records { records, .. } = store.ship(seen, 1 << 20).unwrap() else {
            panic!("the log has all records");
        };
        let records: Vec<_> = records.into_iter().collect();
        let copy = copy.any_store();
        copy.ingest(seen.next(), &records, true, Durability::Sync)
            .unwrap();
    };
    for name in NAMES {
        write(&partition, name, Kind::Put, &WHOLE);
    }
    follow();
    let model = contents(&partition).unwrap();
    let schema = moved(&schema(), "links", "default");
    for _ in 0..12 {
        partition
            .column_step_of(&schema, Durability::Sync, 1)
            .unwrap();
        follow();
        assert_eq!(contents(&copy).unwrap(), model);
        assert_eq!(cells_in(&copy, 0), cells_in(&partition, 0));
    }
    for steps in 0..12 {
        for is_flushed in [false, true] {
            let env = SimEnv::new(1);
            let partition = open(&env).unwrap();
            for name in NAMES {
                write(&partition, name, Kind::Put, &WHOLE);
            }
            if is_flushed {
                partition.flush().unwrap();
            }
            for _ in 0..steps {
                partition
                    .column_step_of(&schema, Durability::Sync, 1)
                    .unwrap();
            }
            partition.close().unwrap();
            let shared = Shared::new(env.clone(), 8 << 20, None);
            let mended = open(&SimEnv::new(3)).unwrap();
            let place = place();
            let salvage = crate::WideSalvage::begin(&shared, &place, (&schema, "_id"), &mut |_| {});
            let run = salvage.unwrap().run::<crate::Error>(&mut |found| {
                match found {
                    crate::Salvaged::Write(write) => {
                        mended.write(&schema, &write, Triggers::none(), Durability::None)?;
                    }
                    crate::Salvaged::Senseless(_, what) => panic!("{what}"),
                    _ => {}
                }
                Ok(())
            });
            run.unwrap();
            assert_eq!(contents(&mended).unwrap(), model, "{steps} steps");
        }
    }
}

#[test]
fn a_schema_says_where_a_column_was_at_first() {
    let schema = schema();
    let twice = moved(&moved(&schema, "links", "default"), "links", "new");
    let stored = Schema::from_json(twice.to_json().as_bytes()).unwrap();
    assert_eq!(stored, *twice);
    stored.check_follows(&schema).unwrap();
    assert!(twice.to_json().contains(r#""movedFrom":"links""#));
    assert!(
        !moved(&twice, "links", "links")
            .to_json()
            .contains("movedFrom")
    );
    let error = (*schema).clone().with_moved("absent", "cold").unwrap_err();
    assert!(error.to_string().contains("absent"), "{error}");
    assert!((*schema).clone().with_moved("_rest", "cold").is_err());
    let given = r#"{"type":"integer","movedFrom":"cold"}"#;
    assert!(
        (*schema)
            .clone()
            .with_property("n", given.as_bytes())
            .is_err()
    );
    let whole = r#"{"properties":{"n":{"type":"integer","movedFrom":"default"}}}"#;
    assert!(Schema::from_json(whole.as_bytes()).is_err());
    // Another group that is not said to be one that it moved to.
    let other = schema
        .to_json()
        .replacen(r#""group":"links""#, r#""group":"cold""#, 1);
    let other = Schema::from_json(other.as_bytes()).unwrap();
    assert_eq!(
        other.check_follows(&schema).unwrap_err().kind(),
        ErrorKind::Invalid
    );
}

/// Columns that move, in steps between writes, expiry, moves between tiers, flushes and openings.
fn column_history() -> Vec<Step> {
    let upsert = |name, changes: &[Small]| Step::Write(name, Kind::Upsert, changes.to_vec());
    vec![
        Step::Write("x", Kind::Put, WHOLE.to_vec()),
        Step::Write("y", Kind::Put, WHOLE.to_vec()),
        Step::Flush,
        Step::MoveTo("links", "default"),
        Step::MoveSome,
        Step::MoveSome,
        upsert(
            "x",
            &[
                Small::RemoveLinks("", Some("http://d/")),
                Small::Link("b", 4),
            ],
        ),
        Step::MoveSome,
        Step::Flush,
        Step::Write("z", Kind::Put, WHOLE.to_vec()),
        Step::MoveSome,
        upsert("y", &[Small::Link("a", 5), Small::LinkFor("b", 5, 15)]),
        Step::MoveSome,
        Step::MoveSome,
        Step::Compact,
        Step::Write(
            "y",
            Kind::Put,
            vec![Small::Link("http://c/", 6), Small::Hot(3)],
        ),
        Step::Wait,
        Step::Expire,
        Step::MoveAll,
        Step::MoveTo("hot", "cold"),
        Step::MoveTo("links", "links"),
        Step::MoveSome,
        Step::Wait,
        Step::Wait,
        Step::Tier,
        Step::MoveSome,
        upsert("x", &[Small::Add(5), Small::LinkFor("a", 2, 15)]),
        Step::MoveSome,
        Step::Write("z", Kind::Delete, Vec::new()),
        Step::MoveSome,
        Step::Reopen,
        Step::Tier,
        Step::MoveAll,
        Step::Wait,
        Step::Expire,
        Step::Flush,
    ]
}

#[test]
fn a_crash_at_any_step_of_a_moving_column_leaves_each_cell_once() {
    crash_at_every_step(&column_history());
}

#[test]
fn bugs_of_moving_columns_are_found() {
    assert_each_is_found(Bug::OF_COLUMN_MOVES, || {
        a_write_comes_between("y", Small::Link("b", 2));
        crash_at_every_step(&column_history());
    });
}
