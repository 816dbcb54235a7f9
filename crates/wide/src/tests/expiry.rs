//! Cells that expire: when they are seen and removed, what is left by a crash at every step, and
//! seeded bugs.

use super::*;
use crate::machine::{EXPIRIES, tree_of};
use crate::{ExpiryPass, Salvaged, WideSalvage};
use std::ops::Bound;

/// A whole pass. Gives the number of cells that it removed.
pub(super) fn pass(partition: &WidePartition, durability: Durability) -> Result<u64> {
    let (mut pass, mut cells) = (ExpiryPass::default(), 0);
    loop {
        let step = partition.expire_step(&mut pass, durability)?;
        cells += step.cells;
        if !step.more {
            return Ok(cells);
        }
    }
}

fn write(partition: &WidePartition, name: &str, changes: &[Small]) {
    let write = write_of(name, Kind::Upsert, changes);
    partition
        .write(&schema(), &write, Triggers::none(), Durability::Sync)
        .unwrap();
}

fn minutes(env: &SimEnv, count: u64) {
    env.advance(Duration::from_secs(60 * count));
}

fn count(partition: &WidePartition, member: &str) -> Option<i64> {
    let view = partition.view(&schema()).unwrap();
    match view.cell(&key("x"), "counts", Some(member)).unwrap() {
        Some(Cell::Int(number)) => Some(number),
        None => None,
        Some(other) => panic!("{other:?}"),
    }
}

/// The entries of expiries, and the cells of the group `links`.
fn sizes(partition: &WidePartition) -> (usize, usize) {
    let view = partition.view_of_all(&schema()).unwrap();
    let size = |tree| {
        let tree = view.tree(tree).unwrap();
        tree.scan(Bound::Unbounded, Bound::Unbounded)
            .unwrap()
            .count()
    };
    (size(EXPIRIES), size(tree_of(2, false)))
}

#[test]
fn cells_are_gone_at_their_time_and_a_pass_removes_them() {
    let env = SimEnv::new(1);
    let partition = open(&env).unwrap();
    assert!(!partition.has_expiring().unwrap());
    let links = [
        Small::LinkFor("a", 1, 15),
        Small::LinkFor("b", 2, 75),
        Small::Link("http://c/", 3),
        Small::CountFor("a", 5, 15),
    ];
    write(&partition, "x", &links);
    assert!(partition.has_expiring().unwrap());
    let version = || {
        let view = partition.view(&schema()).unwrap();
        let found = view.get(&key("x"), "_id", None).unwrap().unwrap();
        (found.version, found.time_micros)
    };
    let before = (version(), contents(&partition).unwrap());
    assert_eq!(before.1["x"].len(), 4);
    let view = partition.view(&schema()).unwrap();
    let (_, expires) = view
        .cell_until(&key("x"), "links", Some("a"))
        .unwrap()
        .unwrap();
    let after = expires.unwrap() - before.0.1;
    assert_eq!(after, 15 * 60_000_000);
    assert_eq!(pass(&partition, Durability::Sync).unwrap(), 0);
    minutes(&env, 30);
    assert_eq!(
        view.members(&key("x"), "links", None, None)
            .unwrap()
            .count(),
        3
    );
    let left = contents(&partition).unwrap();
    assert_eq!(left["x"].len(), 2, "{left:?}");
    assert_eq!(sizes(&partition), (3, 4));
    assert_eq!(pass(&partition, Durability::Sync).unwrap(), 2);
    assert_eq!(partition.cells_expired(), 2);
    assert_eq!(sizes(&partition), (1, 2));
    assert_eq!(contents(&partition).unwrap(), left);
    assert_eq!(version(), before.0, "the removal is no write");

    partition.flush().unwrap();
    partition.close().unwrap();
    let partition = open(&env).unwrap();
    assert!(partition.has_expiring().unwrap());
    minutes(&env, 60);
    assert_eq!(contents(&partition).unwrap()["x"].len(), 1);
    assert_eq!(pass(&partition, Durability::Sync).unwrap(), 1);
    partition.compact().unwrap();
    assert_eq!(sizes(&partition), (0, 1));
}

#[test]
fn an_operand_keeps_the_time_of_a_cell_and_begins_anew_once_it_has_passed() {
    let env = SimEnv::new(1);
    let partition = open(&env).unwrap();
    write(&partition, "x", &[Small::CountFor("a", 5, 45)]);
    minutes(&env, 30);
    write(&partition, "x", &[Small::Count("a", 1), Small::Seen(7)]);
    assert_eq!(count(&partition, "a"), Some(6));
    partition.flush().unwrap();
    minutes(&env, 30);
    assert_eq!(count(&partition, "a"), None);
    write(&partition, "x", &[Small::Count("a", 1), Small::Seen(1)]);
    assert_eq!(count(&partition, "a"), Some(1), "no time any more");
    minutes(&env, 30);
    // The column `seen` has its time from when its cell was made.
    let seen = || {
        let view = partition.view(&schema()).unwrap();
        view.cell(&key("x"), "seen", None).unwrap()
    };
    assert_eq!(seen(), None);
    write(&partition, "x", &[Small::Seen(2)]);
    assert_eq!(seen(), Some(Cell::Int(2)));
    assert_eq!(
        pass(&partition, Durability::Sync).unwrap(),
        0,
        "all were written anew"
    );
    assert_eq!(count(&partition, "a"), Some(1));
    assert_eq!(sizes(&partition).0, 1, "only that of `seen` is due later");
    let never = Change::set("seen", Cell::Int(3)).expiring(CellExpiry::Never);
    let never = RowWrite::upsert(key("x")).with(never);
    let none = Triggers::none();
    partition
        .write(&schema(), &never, none, Durability::Sync)
        .unwrap();
    minutes(&env, 600);
    assert_eq!(seen(), Some(Cell::Int(3)));
}

#[test]
fn a_time_that_has_passed_removes_the_cell_and_a_removal_has_none() {
    let env = SimEnv::new(1);
    let partition = open(&env).unwrap();
    write(&partition, "x", &[Small::Link("a", 1)]);
    let past = Change::set("links", Cell::String("b".into())).of_member("a");
    let past = past.expiring(CellExpiry::At(env.now_micros() - 1));
    let write = |change: Change| {
        let write = RowWrite::upsert(key("x")).with(change);
        partition.write(&schema(), &write, Triggers::none(), Durability::Sync)
    };
    write(past).unwrap();
    assert_eq!(contents(&partition).unwrap()["x"], Row::new());
    assert_eq!(sizes(&partition), (0, 0));
    let removal = Change::remove("hot").expiring(after_minutes(1));
    assert_eq!(write(removal).unwrap_err().kind(), ErrorKind::Invalid);
    // A time past all that there are is one that does not come.
    let far = Change::set("hot", Cell::Int(1)).expiring(CellExpiry::After(Duration::MAX));
    write(far).unwrap();
    minutes(&env, 60);
    assert_eq!(pass(&partition, Durability::Sync).unwrap(), 0);
    assert_eq!(contents(&partition).unwrap()["x"].len(), 1);
}

#[test]
fn a_clock_that_is_set_back_shows_what_was_not_removed() {
    let env = SimEnv::new(1);
    let partition = open(&env).unwrap();
    write(&partition, "x", &[Small::CountFor("a", 5, 45)]);
    let mut pass = ExpiryPass::default();
    let mut step = || partition.expire_step(&mut pass, Durability::Sync).unwrap();
    env.shift_wall_clock(3_600_000_000);
    assert_eq!(count(&partition, "a"), None);
    env.shift_wall_clock(-3_600_000_000);
    assert_eq!(count(&partition, "a"), Some(5));
    env.shift_wall_clock(7_200_000_000);
    assert_eq!(step().cells, 1);
    env.shift_wall_clock(-7_200_000_000);
    assert_eq!(count(&partition, "a"), None);
    write(&partition, "x", &[Small::CountFor("a", 5, 15)]);
    minutes(&env, 30);
    // A step notices that the clock was set back.
    assert_eq!(step().cells, 1);
}

#[test]
fn a_follower_has_the_same_cells_and_times() {
    let (env, copy_env) = (SimEnv::new(1), SimEnv::new(2));
    let (partition, copy) = (open(&env).unwrap(), open(&copy_env).unwrap());
    let follow = || {
        let (store, seen) = (partition.any_store(), copy.position());
        let Shipped::Records { records, .. } = store.ship(seen, 1 << 20).unwrap() else {
            panic!("the log has all records");
        };
        let records: Vec<_> = records.into_iter().collect();
        let copy = copy.any_store();
        copy.ingest(seen.next(), &records, true, Durability::Sync)
            .unwrap();
    };
    let both = |count| {
        minutes(&env, count);
        minutes(&copy_env, count);
    };
    write(
        &partition,
        "x",
        &[Small::LinkFor("a", 1, 15), Small::Seen(1)],
    );
    write(
        &partition,
        "y",
        &[Small::LinkFor("b", 1, 75), Small::Hot(1)],
    );
    follow();
    assert_eq!(contents(&copy).unwrap(), contents(&partition).unwrap());
    both(30);
    assert_eq!(contents(&copy).unwrap()["x"].len(), 1);
    assert_eq!(pass(&partition, Durability::Sync).unwrap(), 1);
    follow();
    assert_eq!(contents(&copy).unwrap(), contents(&partition).unwrap());
    assert_eq!(sizes(&copy), sizes(&partition));
}

#[test]
fn what_is_salvaged_expires_when_it_would_have() {
    for is_flushed in [false, true] {
        let env = SimEnv::new(1);
        let partition = open(&env).unwrap();
        write(
            &partition,
            "x",
            &[Small::LinkFor("a", 1, 15), Small::Seen(1)],
        );
        write(
            &partition,
            "y",
            &[Small::LinkFor("b", 1, 75), Small::Hot(1)],
        );
        minutes(&env, 30);
        pass(&partition, Durability::Sync).unwrap();
        if is_flushed {
            partition.flush().unwrap();
        }
        partition.close().unwrap();
        let shared = Shared::new(env.clone(), 8 << 20, None);
        let mended_env = SimEnv::new(3);
        mended_env.shift_wall_clock(env.now_micros() - mended_env.now_micros());
        let mended = open(&mended_env).unwrap();
        let (schema, place) = (schema(), place());
        let salvage = WideSalvage::begin(&shared, &place, (&schema, "_id"), &mut |_| {});
        let mut writes = 0;
        let run = salvage.unwrap().run::<crate::Error>(&mut |found| {
            if let Salvaged::Write(write) = found {
                mended.write(&schema, &write, Triggers::none(), Durability::None)?;
                writes += 1;
            }
            Ok(())
        });
        run.unwrap();
        assert_eq!(writes, 2);
        let cells = || {
            let rows = contents(&mended).unwrap();
            (rows["x"].len(), rows["y"].len())
        };
        assert_eq!(cells(), (1, 2));
        minutes(&mended_env, 30);
        assert_eq!(cells(), (0, 2));
        minutes(&mended_env, 30);
        assert_eq!(cells(), (0, 1));
    }
}

#[test]
fn a_time_to_live_is_a_setting_of_a_column() {
    let column = |json: &str| Schema::new().with_property("a", json.as_bytes());
    for (json, expected) in [
        (r#"{"type":"integer","timeToLive":"7"}"#, "7d"),
        (r#"{"type":"integer","timeToLive":"0s"}"#, "at least 1s"),
        (r#"{"type":"integer","timeToLive":"36501d"}"#, "at most"),
        (r#"{"type":"integer","timeToLive":7}"#, "string"),
        (
            r#"{"type":"object","additionalProperties":{"timeToLive":"1d"}}"#,
            "plain values",
        ),
    ] {
        let error = column(json).unwrap_err().to_string();
        assert!(
            error.contains("\"a\"") && error.contains(expected),
            "{error}"
        );
    }
    let family = r#"{"type":"object","additionalProperties":{},"timeToLive":"36h"}"#;
    let schema = column(family).unwrap();
    let day = Duration::from_secs(36 * 3600);
    assert_eq!(schema.column("a").unwrap().time_to_live, Some(day));
    let stored = Schema::from_json(schema.to_json().as_bytes()).unwrap();
    assert_eq!(stored, schema);
    let other = schema.clone().with_time_to_live("a", None).unwrap();
    other.check_follows(&schema).unwrap();
    assert!(!other.to_json().contains("timeToLive"));
    assert!(schema.with_time_to_live("b", None).is_err());
}

/// Cells that expire, are written again before and after, move between tiers, and are removed.
fn expiry_history() -> Vec<Step> {
    let upsert = |name, changes: &[Small]| Step::Write(name, Kind::Upsert, changes.to_vec());
    vec![
        upsert(
            "x",
            &[Small::CountFor("a", 1, 15), Small::LinkFor("a", 1, 15)],
        ),
        upsert("x", &[Small::LinkFor("b", 1, 75), Small::Seen(1)]),
        upsert(
            "y",
            &[Small::LinkFor("a", 1, 15), Small::CountFor("b", 1, 15)],
        ),
        upsert("z", &[Small::LinkFor("a", 1, 15)]),
        Step::Flush,
        upsert("x", &[Small::Count("a", 5), Small::Link("a", 2)]),
        Step::Write("z", Kind::Delete, Vec::new()),
        Step::Wait,
        upsert("x", &[Small::Count("a", 2)]),
        upsert("y", &[Small::Hot(1)]),
        Step::Expire,
        Step::Flush,
        upsert("y", &[Small::Count("b", 1), Small::LinkFor("b", 3, 75)]),
        Step::Compact,
        Step::Wait,
        Step::Wait,
        Step::Wait,
        Step::Tier,
        Step::Wait,
        Step::Tier,
        Step::Reopen,
        upsert("x", &[Small::Seen(2), Small::LinkFor("a", 4, 45)]),
        Step::Wait,
        Step::Wait,
        Step::Expire,
        Step::Write("x", Kind::Put, vec![Small::Seen(3)]),
        Step::Flush,
        Step::Wait,
        Step::Wait,
        Step::Expire,
        Step::Compact,
    ]
}

#[test]
fn a_crash_at_any_step_of_expiry_leaves_what_has_not_expired() {
    crash_at_every_step(&expiry_history());
}

#[test]
fn bugs_of_expiry_are_found() {
    assert_each_is_found(Bug::OF_CELL_EXPIRY, || {
        crash_at_every_step(&expiry_history())
    });
}
