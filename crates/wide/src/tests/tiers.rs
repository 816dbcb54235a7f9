//! Moves between tiers: when cells move, what is left by a crash at every step of them, and seeded
//! bugs.

use super::*;
use crate::machine::{EXPIRIES, WideRows, tree_of};
use crate::{TierFigures, TierPass};
use quire_lsm::TreeSpec;
use quire_store::{ApplyError, Machine, TreeWriter};

/// A whole pass. Gives the number of rows that it moved.
pub(super) fn pass(partition: &WidePartition, durability: Durability) -> Result<u64> {
    pass_of(partition, &schema(), durability)
}

pub(super) fn pass_of(
    partition: &WidePartition,
    schema: &Arc<Schema>,
    durability: Durability,
) -> Result<u64> {
    let (mut pass, mut rows) = (TierPass::default(), 0);
    loop {
        let step = partition.tier_step(schema, &mut pass, durability)?;
        rows += step.rows;
        if step.is_over {
            return Ok(rows);
        }
    }
}

fn figures(partition: &WidePartition, group: &str) -> TierFigures {
    let schema = schema();
    let mut groups = schema.groups().iter();
    let at = groups.position(|one| one.name == group).unwrap();
    partition.tier_figures(&schema).unwrap()[at]
}

fn hours(env: &SimEnv, count: u64) {
    env.advance(Duration::from_secs(3600 * count));
}

fn write(partition: &WidePartition, name: &str, kind: Kind, changes: &[Small]) {
    let write = write_of(name, kind, changes);
    partition
        .write(&schema(), &write, Triggers::none(), Durability::Sync)
        .unwrap();
}

const WHOLE: [Small; 5] = [
    Small::Hot(1),
    Small::Cold(1),
    Small::Link("a", 1),
    Small::Count("b", 7),
    Small::Undeclared("more", 1),
];

#[test]
fn cells_become_cold_by_the_age_of_their_group_and_come_back_with_a_write() {
    let env = SimEnv::new(1);
    let partition = open(&env).unwrap();
    write(&partition, "x", Kind::Put, &WHOLE);
    write(&partition, "y", Kind::Put, &WHOLE);
    let version = |name| {
        let view = partition.view(&schema()).unwrap();
        view.get(&key(name), "_id", None).unwrap().unwrap().version
    };
    let before = version("x");
    let model = contents(&partition).unwrap();
    assert_eq!(pass(&partition, Durability::Sync).unwrap(), 0, "too young");
    hours(&env, 1);
    // A write to another group does not make this one young.
    write(&partition, "y", Kind::Upsert, &[Small::Link("a", 1)]);
    assert_eq!(pass(&partition, Durability::Sync).unwrap(), 2);
    let cold = figures(&partition, "cold");
    assert_eq!((cold.rows_cold, cold.moved_cold, cold.moved_hot), (2, 2, 0));
    assert!(cold.bytes_moved > 60, "{cold:?}");
    assert_eq!(figures(&partition, "links").rows_cold, 0);
    assert_eq!(contents(&partition).unwrap(), model);
    assert_eq!(version("x"), before, "a move is no write");
    hours(&env, 1);
    assert_eq!(pass(&partition, Durability::Sync).unwrap(), 1, "links of x");
    partition.compact().unwrap();
    let partition = {
        partition.close().unwrap();
        open(&env).unwrap()
    };
    assert_eq!(figures(&partition, "links").rows_cold, 1);
    assert_eq!(pass(&partition, Durability::Sync).unwrap(), 0);

    // A patch of a cold cell stays with the others, and the next step brings all back.
    write(&partition, "x", Kind::Upsert, &[Small::Append(2)]);
    let patched = contents(&partition).unwrap();
    assert!(partition.is_tier_wanted());
    assert_eq!(figures(&partition, "cold").rows_cold, 2);
    assert_eq!(pass(&partition, Durability::Sync).unwrap(), 1);
    assert_eq!(figures(&partition, "cold").rows_cold, 1);
    assert_eq!(figures(&partition, "links").rows_cold, 1);
    assert_eq!(contents(&partition).unwrap(), patched);
    // A put writes all anew, so nothing has to move. A deletion leaves nothing.
    write(&partition, "x", Kind::Put, &WHOLE);
    assert_eq!(figures(&partition, "links").rows_cold, 0);
    assert_eq!(pass(&partition, Durability::Sync).unwrap(), 0);
    write(&partition, "y", Kind::Delete, &[]);
    assert_eq!(figures(&partition, "cold").rows_cold, 0);
    assert_eq!(contents(&partition).unwrap().len(), 1);
}

#[test]
fn cold_cells_that_are_read_often_come_back() {
    let env = SimEnv::new(1);
    let partition = open(&env).unwrap();
    write(&partition, "x", Kind::Put, &WHOLE);
    hours(&env, 2);
    assert_eq!(pass(&partition, Durability::None).unwrap(), 1);
    let read = |column, member| {
        let view = partition.view(&schema()).unwrap();
        view.cell(&key("x"), column, member).unwrap().unwrap()
    };
    // Of the group `cold` no reads count.
    (0..20).for_each(|_| drop(read("cold", None)));
    (0..11).for_each(|_| drop(read("links", Some("a"))));
    assert!(!partition.is_tier_wanted());
    read("counts", Some("b"));
    assert_eq!(pass(&partition, Durability::None).unwrap(), 1);
    assert_eq!(figures(&partition, "links").rows_cold, 0);
    assert_eq!(figures(&partition, "cold").rows_cold, 1);
    // It is young again.
    hours(&env, 1);
    assert_eq!(pass(&partition, Durability::None).unwrap(), 0);
    hours(&env, 1);
    assert_eq!(pass(&partition, Durability::None).unwrap(), 1);
}

#[test]
fn a_row_that_is_written_meanwhile_stays_and_a_group_with_one_tier_brings_all_back() {
    let env = SimEnv::new(1);
    let partition = open(&env).unwrap();
    write(&partition, "x", Kind::Put, &WHOLE);
    hours(&env, 2);
    let before = partition.view(&schema()).unwrap();
    assert_eq!(pass(&partition, Durability::Sync).unwrap(), 1);
    let shown = |view: &WideView| view.get(&key("x"), "_id", None).unwrap().unwrap();
    let after = partition.view(&schema()).unwrap();
    assert_eq!(
        shown(&before),
        shown(&after),
        "an older view sees it where it was"
    );
    let one_tier = (*schema())
        .clone()
        .with_group_json("cold", br#"{"codec":"none"}"#)
        .unwrap();
    let one_tier = Arc::new(one_tier.with_group_json("links", b"{}").unwrap());
    partition.set_tiers(&one_tier);
    let view = partition.view(&one_tier).unwrap();
    assert_eq!(shown(&view), shown(&after));
    let moved = pass_of(&partition, &one_tier, Durability::Sync).unwrap();
    assert_eq!(moved, 1);
    assert_eq!(figures(&partition, "cold").rows_cold, 0);
    assert_eq!(shown(&partition.view(&one_tier).unwrap()), shown(&after));
}

#[test]
fn a_row_with_too_many_cells_stays_and_is_counted() {
    let env = SimEnv::new(1);
    let partition = open(&env).unwrap();
    write(&partition, "x", Kind::Put, &[Small::Cold(1)]);
    for part in 0..3 {
        let member = part.to_string();
        let cell = Cell::String("m".repeat(6 << 20));
        let change = Change::set("links", cell).of_member(member);
        let write = RowWrite::upsert(key("x")).with(change);
        partition
            .write(&schema(), &write, Triggers::none(), Durability::None)
            .unwrap();
    }
    partition.flush().unwrap();
    hours(&env, 3);
    assert_eq!(pass(&partition, Durability::None).unwrap(), 1);
    let links = figures(&partition, "links");
    assert_eq!((links.rows_cold, links.too_large), (0, 1));
    assert!(links.lag_micros >= 3_600_000_000, "{links:?}");
    assert_eq!(figures(&partition, "cold").rows_cold, 1);
    let view = partition.view(&schema()).unwrap();
    assert_eq!(
        view.members(&key("x"), "links", None, None)
            .unwrap()
            .count(),
        3
    );
}

#[test]
fn full_disk_stops_moves_and_nothing_is_lost() {
    let env = SimEnv::new(1);
    let partition = open(&env).unwrap();
    write(&partition, "x", Kind::Put, &WHOLE);
    let model = contents(&partition).unwrap();
    hours(&env, 2);
    env.set_capacity(60 << 20);
    assert_eq!(pass(&partition, Durability::Sync).unwrap(), 0);
    let stopped = partition.tiers_stopped().unwrap();
    assert!(stopped.contains("no cells move to first"), "{stopped}");
    assert_eq!(contents(&partition).unwrap(), model);
    env.set_capacity(1 << 30);
    assert_eq!(pass(&partition, Durability::Sync).unwrap(), 1);
    assert_eq!(partition.tiers_stopped(), None);
    assert_eq!(contents(&partition).unwrap(), model);
}

#[test]
fn groups_with_tiers_that_can_not_be_are_refused() {
    let refused = [
        (r#"{"tiers":{"hot":"ssd","cold":"hdd","after":"7"}}"#, "7d"),
        (
            r#"{"tiers":{"hot":"ssd","cold":"hdd","after":"0s"}}"#,
            "at least 1s",
        ),
        (
            r#"{"tiers":{"hot":"ssd","cold":"tape","after":"7d"}}"#,
            "use ssd or hdd",
        ),
        (
            r#"{"tiers":{"hot":"hdd","cold":"hdd","after":"7d"}}"#,
            "both hdd",
        ),
        (r#"{"tiers":{"hot":"ssd","cold":"hdd"}}"#, "after"),
        (
            r#"{"tiers":{"hot":"ssd","cold":"hdd","after":"7d","reads":0}}"#,
            "reads",
        ),
        (
            r#"{"tiers":{"hot":"ssd","cold":"hdd","after":"7d","later":1}}"#,
            "later",
        ),
        (
            r#"{"tier":"ssd","tiers":{"hot":"ssd","cold":"hdd","after":"7d"}}"#,
            "one tier or two",
        ),
    ];
    for (json, expected) in refused {
        let error = Schema::new().with_group_json("g", json.as_bytes());
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("\"g\"") && error.contains(expected),
            "{error}"
        );
    }
    let stored = Schema::from_json(schema().to_json().as_bytes()).unwrap();
    assert_eq!(stored, *schema());
}

#[test]
fn a_follower_that_takes_the_records_has_the_same_trees() {
    let (env, copy_env) = (SimEnv::new(1), SimEnv::new(2));
    let partition = open(&env).unwrap();
    let copy = open(&copy_env).unwrap();
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
    for name in ["x", "y"] {
        write(&partition, name, Kind::Put, &WHOLE);
    }
    hours(&env, 1);
    pass(&partition, Durability::Sync).unwrap();
    follow();
    assert_eq!(contents(&copy).unwrap(), contents(&partition).unwrap());
    assert_eq!(figures(&copy, "cold").rows_cold, 2);
    write(&partition, "x", Kind::Upsert, &[Small::Append(3)]);
    pass(&partition, Durability::Sync).unwrap();
    follow();
    assert_eq!(contents(&copy).unwrap(), contents(&partition).unwrap());
    assert_eq!(figures(&copy, "cold").rows_cold, 1);
}

/// The machine as it was before groups had two trees, and cells expired.
struct OneTree(WideRows);

impl Machine for OneTree {
    type Summary = crate::Totals;

    const LOG_IS_KEPT: bool = false;

    fn trees() -> Vec<TreeSpec> {
        let cold = tree_of(0, true);
        let trees = WideRows::trees().into_iter();
        let is_old = |tree: &TreeSpec| tree.id < cold.0 && tree.id != EXPIRIES.0;
        trees.filter(is_old).collect()
    }

    fn new() -> OneTree {
        OneTree(WideRows::new())
    }

    fn decode(state: &[u8]) -> std::result::Result<OneTree, String> {
        WideRows::decode(state).map(OneTree)
    }

    fn encode(&self) -> Vec<u8> {
        self.0.encode()
    }

    fn summary(&self) -> crate::Totals {
        self.0.summary()
    }

    fn apply(
        &mut self,
        record: &[u8],
        trees: &TreeWriter<'_>,
    ) -> std::result::Result<(), ApplyError> {
        self.0.apply(record, trees)
    }

    fn check(
        &self,
        first: Position,
        records: &[bytes::Bytes],
    ) -> std::result::Result<(), (Position, String)> {
        self.0.check(first, records)
    }
}

#[test]
fn a_partition_that_was_made_before_there_were_tiers_gets_them() {
    let history = || {
        vec![
            Step::Write("x", Kind::Put, WHOLE.to_vec()),
            Step::Wait,
            Step::Wait,
            Step::Tier,
            Step::Write("y", Kind::Put, WHOLE.to_vec()),
            Step::Write("y", Kind::Upsert, vec![Small::LinkFor("b", 1, 15)]),
            Step::Flush,
            Step::Wait,
            Step::Expire,
        ]
    };
    let made = || {
        let env = SimEnv::new(1);
        let shared = Shared::new(env.clone(), 8 << 20, None);
        Store::<OneTree>::create(&shared, &place()).unwrap();
        env
    };
    let whole = made();
    let (before, left) = (
        made().operations(),
        run(&whole, &history(), Durability::Sync),
    );
    let partition = open(&whole).unwrap();
    assert_eq!(contents(&partition).unwrap(), left.last(&whole));
    assert_eq!(figures(&partition, "cold").rows_cold, 1);
    for step in before..whole.operations() {
        let env = made();
        env.crash_at(step);
        let left = run(&env, &history(), Durability::Sync);
        let env = env.after_crash(step);
        let found = contents(&open(&env).unwrap()).unwrap();
        assert!(left.has(&env, &found), "crash at step {step}");
    }
}

/// Rows that become cold, are written, put and deleted while they are, and come back.
fn tier_history() -> Vec<Step> {
    let mut steps = vec![
        Step::Write("x", Kind::Put, WHOLE.to_vec()),
        Step::Write("y", Kind::Put, WHOLE.to_vec()),
        Step::Flush,
        Step::Wait,
        Step::Wait,
        Step::Tier,
    ];
    for round in 0..2u8 {
        steps.extend([
            Step::Write("x", Kind::Upsert, vec![Small::Append(round), Small::Add(1)]),
            Step::Write("x", Kind::Upsert, vec![Small::Count("b", 1)]),
            Step::Flush,
            Step::Tier,
            [Step::Compact, Step::Reopen][usize::from(round)].clone(),
            Step::Write("z", Kind::Upsert, WHOLE.to_vec()),
            Step::Wait,
            Step::Wait,
            Step::Tier,
            Step::Write("z", Kind::Upsert, vec![Small::RemoveCold]),
            Step::Write(
                "y",
                Kind::Put,
                vec![Small::Image(round), Small::Link("b", round)],
            ),
            Step::Flush,
            Step::Write("z", Kind::Delete, Vec::new()),
            Step::Tier,
        ]);
    }
    steps.push(Step::Flush);
    steps
}

#[test]
fn a_crash_at_any_step_of_moves_leaves_each_row_whole_and_once() {
    crash_at_every_step(&tier_history());
}

#[test]
fn bugs_of_moves_are_found() {
    assert_each_is_found(Bug::OF_TIERS, || crash_at_every_step(&tier_history()));
}
