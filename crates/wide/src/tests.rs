//! Rows against a model: any operations and openings, and a crash at every step.

use crate::Triggers;
use crate::{
    Cell, CellExpiry, Change, ColumnType, Condition, ErrorKind, Operand, Result, RowWrite, Schema,
    WidePartition, WideView,
};
use proptest::collection::vec;
use proptest::prelude::*;
use quire_env::{Env, SimEnv, Volumes};
use quire_model::{Document, Key, Position};
use quire_seeded::{Bug, assert_each_is_found};
use quire_store::{Durability, Place, Shared, Shipped, Store, StoreOptions};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

mod cells;
mod columns;
mod expiry;
mod indexes;
mod many;
mod merges;
mod schemas;
mod splits;
mod tails;
mod tiers;
mod values;

/// The cells of a row, by column and member.
type Row = BTreeMap<(String, String), Cell>;
type Model = BTreeMap<String, Row>;

/// Rows with the times when cells expire.
type TimedRow = BTreeMap<(String, String), (Cell, Option<i64>)>;
type Timed = BTreeMap<String, TimedRow>;

/// What is seen of rows at a time.
fn seen(rows: &Timed, now: i64) -> Model {
    let cells = |row: &TimedRow| -> Row {
        let there = row
            .iter()
            .filter(|(_, (_, expires))| !has_passed(*expires, now));
        there
            .map(|(at, (cell, _))| (at.clone(), cell.clone()))
            .collect()
    };
    let rows = rows.iter().map(|(name, row)| (name.clone(), cells(row)));
    rows.collect()
}

fn has_passed(expires: Option<i64>, now: i64) -> bool {
    expires.is_some_and(|expires| expires <= now)
}

/// Columns in three groups, and families in one of them; two of the groups have two tiers.
fn schema() -> Arc<Schema> {
    let schema = Schema::from_json(
        br#"{
            "properties": {
                "hot": {"type": "integer"},
                "cold": {"type": "string", "group": "cold"},
                "image": {"type": "string", "contentEncoding": "base64", "group": "cold"},
                "links": {"type": "object", "additionalProperties": {"type": "string"},
                          "group": "links"},
                "counts": {"type": "object", "additionalProperties": {"type": "integer"},
                           "group": "links"},
                "seen": {"type": "integer", "timeToLive": "45m"}
            },
            "additionalProperties": true,
            "groups": {
                "cold": {"codec": "none", "block_bytes": 1024,
                         "tiers": {"hot": "ssd", "cold": "hdd", "after": "1h"}},
                "links": {"tiers": {"hot": "ssd", "cold": "hdd", "after": "2h", "reads": 12}}
            }
        }"#,
    );
    Arc::new(schema.unwrap())
}

fn place() -> Place {
    Place {
        volumes: Volumes::single("/db"),
        subdir: "p".into(),
        identity: [7; 16],
    }
}

/// As a database opens it, but with segments of the log so small that they are dropped all the
/// time.
fn open(env: &Arc<SimEnv>) -> Result<WidePartition> {
    let shared = Shared::new(env.clone(), 8 << 20, None);
    if !Store::<crate::machine::WideRows>::exists(&shared, &place())? {
        WidePartition::create(&shared, &place())?;
    }
    open_at(env, shared, place(), 0)
}

/// Opens the partition of this number at a place.
fn open_at(
    env: &Arc<SimEnv>,
    shared: Arc<Shared>,
    place: Place,
    number: u32,
) -> Result<WidePartition> {
    let mut options = StoreOptions::default();
    options.log.block_bytes = 64;
    options.log.segment_bytes = 600;
    WidePartition::open(
        shared,
        place,
        number,
        options,
        (&schema(), None),
        env.gate(),
    )
}

fn key(text: &str) -> Key {
    Key::parse(text).unwrap()
}

#[derive(Debug, Clone)]
enum Step {
    Write(&'static str, Kind, Vec<Small>),
    Flush,
    Compact,
    Reopen,
    /// Half an hour passes.
    Wait,
    /// A pass of moves between tiers.
    Tier,
    /// A pass over the cells that have expired.
    Expire,
    /// A column is to be in another group.
    MoveTo(&'static str, &'static str),
    /// A step of the moves of columns: of some cells, or of all.
    MoveSome,
    MoveAll,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Put,
    Upsert,
    Delete,
}

/// A change, small enough to be drawn.
#[derive(Debug, Clone)]
enum Small {
    Hot(i64),
    Add(i64),
    Cold(u8),
    Image(u8),
    Append(u8),
    RemoveCold,
    Link(&'static str, u8),
    RemoveLink(&'static str),
    RemoveLinks(&'static str, Option<&'static str>),
    Count(&'static str, i64),
    MaxCount(&'static str, i64),
    Undeclared(&'static str, u8),
    /// Adds to a cell of a column with a time to live of 45 minutes.
    Seen(i64),
    /// These expire after a number of minutes.
    LinkFor(&'static str, u8, i64),
    CountFor(&'static str, i64, i64),
}

const MEMBERS: [&str; 4] = ["a", "b", "http://c/", ""];

impl Small {
    fn name(&self) -> (&'static str, &'static str) {
        match self {
            Small::Hot(_) | Small::Add(_) => ("hot", ""),
            Small::Cold(_) | Small::Append(_) | Small::RemoveCold => ("cold", ""),
            Small::Image(_) => ("image", ""),
            Small::Seen(_) => ("seen", ""),
            Small::Link(member, _) | Small::LinkFor(member, ..) | Small::RemoveLink(member) => {
                ("links", member)
            }
            Small::RemoveLinks(from, _) => ("links", from),
            Small::Count(member, _) | Small::CountFor(member, ..) | Small::MaxCount(member, _) => {
                ("counts", member)
            }
            Small::Undeclared(name, _) => ("_rest", name),
        }
    }

    fn change(&self) -> Change {
        let (column, member) = self.name();
        let text = |fill: &u8| char::from(b'a' + fill % 26).to_string().repeat(30);
        match self {
            Small::Hot(number) => Change::set(column, Cell::Int(*number)),
            Small::Add(step) => Change::merge(column, Operand::Add(*step)),
            Small::Cold(fill) => Change::set(column, Cell::String(text(fill))),
            Small::Image(fill) => Change::set(column, Cell::Bytes(vec![*fill; 50])),
            Small::Append(fill) => Change::merge(column, Operand::Append(Cell::String(text(fill)))),
            Small::RemoveCold => Change::remove(column),
            Small::Link(_, fill) => Change::set(column, Cell::String(text(fill))).of_member(member),
            Small::RemoveLink(_) => Change::remove(column).of_member(member),
            Small::RemoveLinks(from, to) => {
                let to = to.map(str::to_string);
                Change::remove_members(column, Some(from.to_string()), to)
            }
            Small::Count(_, step) => Change::merge(column, Operand::Add(*step)).of_member(member),
            Small::MaxCount(_, number) => {
                Change::merge(column, Operand::Max(Cell::Int(*number))).of_member(member)
            }
            Small::Undeclared(_, fill) => {
                Change::set(column, Cell::Json(fill.to_string())).of_member(member)
            }
            Small::Seen(step) => Change::merge(column, Operand::Add(*step)),
            Small::LinkFor(_, fill, minutes) => {
                let change = Change::set(column, Cell::String(text(fill))).of_member(member);
                change.expiring(after_minutes(*minutes))
            }
            Small::CountFor(_, step, minutes) => {
                let change = Change::merge(column, Operand::Add(*step)).of_member(member);
                change.expiring(after_minutes(*minutes))
            }
        }
    }

    /// What the change makes of a row.
    fn apply(&self, row: &mut TimedRow, now: i64) {
        let (column, member) = self.name();
        let at = (column.to_string(), member.to_string());
        row.retain(|_, (_, expires)| !has_passed(*expires, now));
        let (before, expired) = row.get(&at).cloned().unzip();
        let minutes = |minutes: i64| Some(now + minutes * 60_000_000);
        let expires = match (self, expired) {
            (Small::LinkFor(_, _, after) | Small::CountFor(_, _, after), _) => minutes(*after),
            (Small::Seen(_), None) => minutes(45),
            (
                Small::Seen(_)
                | Small::Add(_)
                | Small::Append(_)
                | Small::Count(..)
                | Small::MaxCount(..),
                Some(expires),
            ) => expires,
            _ => None,
        };
        let int = |cell: &Option<Cell>| match cell {
            Some(Cell::Int(number)) => Some(*number),
            _ => None,
        };
        let text = |fill: &u8| char::from(b'a' + fill % 26).to_string().repeat(30);
        let after = match self {
            Small::Hot(number) => Cell::Int(*number),
            Small::Add(step)
            | Small::Seen(step)
            | Small::Count(_, step)
            | Small::CountFor(_, step, _) => {
                Cell::Int(int(&before).unwrap_or(0).wrapping_add(*step))
            }
            Small::MaxCount(_, number) => {
                Cell::Int(int(&before).map_or(*number, |before| before.max(*number)))
            }
            Small::Cold(fill) | Small::Link(_, fill) | Small::LinkFor(_, fill, _) => {
                Cell::String(text(fill))
            }
            Small::Append(fill) => match before {
                Some(Cell::String(before)) => Cell::String(before + &text(fill)),
                _ => Cell::String(text(fill)),
            },
            Small::Image(fill) => Cell::Bytes(vec![*fill; 50]),
            Small::Undeclared(_, fill) => Cell::Json(fill.to_string()),
            Small::RemoveCold | Small::RemoveLink(_) => {
                row.remove(&at);
                return;
            }
            Small::RemoveLinks(from, to) => {
                row.retain(|(name, member), _| {
                    let inside =
                        member.as_str() >= *from && to.is_none_or(|to| member.as_str() < to);
                    name != "links" || !inside
                });
                return;
            }
        };
        row.insert(at, (after, expires));
    }
}

fn after_minutes(minutes: i64) -> CellExpiry {
    CellExpiry::After(Duration::from_secs(60 * minutes as u64))
}

/// Each cell once, as a write requires.
fn distinct(changes: &[Small]) -> Vec<Small> {
    let mut names = Vec::new();
    let mut kept = changes.to_vec();
    kept.retain(|change| {
        let is_new = !names.contains(&change.name());
        names.push(change.name());
        is_new
    });
    kept
}

fn write_of(name: &str, kind: Kind, changes: &[Small]) -> RowWrite {
    let write = match kind {
        Kind::Put => RowWrite::put(key(name)),
        Kind::Upsert => RowWrite::upsert(key(name)),
        Kind::Delete => return RowWrite::delete(key(name)),
    };
    write.with_all(changes.iter().map(Small::change))
}

fn apply(model: &mut Timed, name: &str, kind: Kind, changes: &[Small], now: i64) {
    if kind == Kind::Delete {
        model.remove(name);
        return;
    }
    let row = model.entry(name.to_string()).or_default();
    if kind == Kind::Put {
        row.clear();
    }
    changes.iter().for_each(|change| change.apply(row, now));
}

/// All rows, read column by column, member by member and as whole documents, which agree.
fn contents(partition: &WidePartition) -> Result<Model> {
    contents_of(partition, &schema())
}

/// As [`contents`], by a schema in which columns are to be in other groups.
fn contents_of(partition: &WidePartition, schema: &Arc<Schema>) -> Result<Model> {
    let view = partition.view(schema)?;
    let mut model = Model::new();
    for name in NAMES {
        let Some(found) = view.get(&key(name), "_id", None)? else {
            assert_eq!(view.cell(&key(name), "hot", None)?, None);
            assert_eq!(view.members(&key(name), "links", None, None)?.count(), 0);
            continue;
        };
        let mut row = Row::new();
        for column in ["hot", "seen", "cold", "image"] {
            let cell = view.cell(&key(name), column, None)?;
            row.extend(cell.map(|cell| ((column.to_string(), String::new()), cell)));
        }
        for family in ["links", "counts", "_rest"] {
            for item in view.members(&key(name), family, None, None)? {
                let (member, cell) = item?;
                row.insert((family.to_string(), member), cell);
            }
        }
        assert_eq!(
            sorted(&found.document.to_json()),
            document(name, &row),
            "of {name}"
        );
        model.insert(name.to_string(), row);
    }
    assert_eq!(view.count(), model.len() as u64);
    many::agree(&view)?;
    rows_agree(&view, &model)?;
    let checked = partition.check(&mut |problem| panic!("{problem}"))?;
    assert_eq!(checked, view.count());
    scans_agree(&view, &model)?;
    Ok(model)
}

/// The document of a row, its fields sorted by name.
fn document(name: &str, row: &Row) -> String {
    let mut fields = vec![format!("\"_id\":{:?}", name)];
    let json = |cell: &Cell| {
        let mut out = Vec::new();
        cell.write_json(&mut out);
        String::from_utf8(out).unwrap()
    };
    let of = |column: &str| -> Vec<String> {
        let cells = row.iter().filter(|((name, _), _)| name == column);
        let cells = cells.map(|((_, member), cell)| format!("{member:?}:{}", json(cell)));
        cells.collect()
    };
    fields.extend(of("_rest"));
    for column in ["hot", "seen", "cold", "image"] {
        let cell = row.get(&(column.to_string(), String::new()));
        fields.extend(cell.map(|cell| format!("{column:?}:{}", json(cell))));
    }
    for family in ["links", "counts"] {
        let members = of(family);
        if !members.is_empty() {
            fields.push(format!("{family:?}:{{{}}}", members.join(",")));
        }
    }
    sorted(&format!("{{{}}}", fields.join(",")))
}

/// A document with its fields in one order: it has them in that of the groups. None is there twice.
fn sorted(json: &str) -> String {
    let document = Document::from_json(json.as_bytes()).unwrap();
    let mut fields: Vec<_> = document.fields().collect();
    fields.sort_by_key(|(name, _)| name.to_string());
    let fields = fields.into_iter().map(|(name, value)| {
        let mut json = Vec::new();
        value.write_json(&mut json);
        format!("{name:?}:{}", String::from_utf8(json).unwrap())
    });
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

/// A scan of rows gives what gets do, of all columns and of some.
fn rows_agree(view: &WideView, model: &Model) -> Result<()> {
    let mut found = BTreeMap::new();
    for row in view.rows("_id", None)? {
        let (_, row) = row?;
        found.insert(row.key.to_string(), sorted(&row.document.to_json()));
    }
    let rows = model.iter();
    let expected: BTreeMap<_, _> = rows
        .map(|(name, row)| (name.clone(), document(name, row)))
        .collect();
    assert_eq!(found, expected);
    for row in view.rows("_id", Some(&["hot", "counts", "undeclared"]))? {
        let (_, row) = row?;
        let mut read = model[&row.key.to_string()].clone();
        read.retain(|(column, _), _| ["hot", "counts", "_rest"].contains(&column.as_str()));
        let expected = document(&row.key.to_string(), &read);
        assert_eq!(sorted(&row.document.to_json()), expected);
        assert!(row.version <= view.position());
    }
    Ok(())
}

fn scans_agree(view: &WideView, model: &Model) -> Result<()> {
    let mut found = BTreeMap::new();
    for batch in view.scan_columns(&["image", "hot"])? {
        let batch = batch?;
        for (at, key) in batch.keys.iter().enumerate() {
            let row = (batch.columns[0][at].clone(), batch.columns[1][at].clone());
            found.insert(key.to_string(), row);
        }
    }
    let cell = |row: &Row, column: &str| row.get(&(column.to_string(), String::new())).cloned();
    let rows = model.iter();
    let expected = rows.map(|(name, row)| (name.clone(), (cell(row, "image"), cell(row, "hot"))));
    let expected = expected.filter(|(_, (image, hot))| image.is_some() || hot.is_some());
    assert_eq!(found, expected.collect());
    Ok(())
}

const NAMES: [&str; 3] = ["x", "y", "z"];

fn any_small() -> impl Strategy<Value = Small> {
    let member = || prop::sample::select(&MEMBERS[..]);
    let minutes = || prop::sample::select(vec![15, 45, 75]);
    prop_oneof![
        any::<i64>().prop_map(Small::Hot),
        any::<i64>().prop_map(Small::Add),
        any::<u8>().prop_map(Small::Cold),
        any::<u8>().prop_map(Small::Image),
        any::<u8>().prop_map(Small::Append),
        Just(Small::RemoveCold),
        (member(), any::<u8>()).prop_map(|(member, fill)| Small::Link(member, fill)),
        member().prop_map(Small::RemoveLink),
        (member(), proptest::option::of(member()))
            .prop_map(|(from, to)| Small::RemoveLinks(from, to)),
        (member(), any::<i64>()).prop_map(|(member, step)| Small::Count(member, step)),
        (member(), any::<i64>()).prop_map(|(member, number)| Small::MaxCount(member, number)),
        (member(), any::<u8>()).prop_map(|(name, fill)| Small::Undeclared(name, fill)),
        any::<i64>().prop_map(Small::Seen),
        (member(), any::<u8>(), minutes())
            .prop_map(|(member, fill, after)| Small::LinkFor(member, fill, after)),
        (member(), any::<i64>(), minutes())
            .prop_map(|(member, step, after)| Small::CountFor(member, step, after)),
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    let kind = prop_oneof![
        2 => Just(Kind::Put), 5 => Just(Kind::Upsert), 1 => Just(Kind::Delete)
    ];
    prop_oneof![
        12 => (prop::sample::select(&NAMES[..]), kind, vec(any_small(), 0..5))
            .prop_map(|(name, kind, changes)| Step::Write(name, kind, distinct(&changes))),
        2 => Just(Step::Flush),
        1 => Just(Step::Compact),
        1 => Just(Step::Reopen),
        3 => Just(Step::Wait),
        4 => Just(Step::Tier),
        3 => Just(Step::Expire),
        2 => (
            prop::sample::select(vec!["hot", "cold", "links", "counts", "seen"]),
            prop::sample::select(vec!["default", "cold", "links"]),
        )
            .prop_map(|(column, group)| Step::MoveTo(column, group)),
        6 => Just(Step::MoveSome),
        1 => Just(Step::MoveAll),
    ]
}

/// What a history that ended early may have left: the model after each write, from the last that is
/// durable.
struct Left {
    states: Vec<Timed>,
    durable: usize,
}

impl Left {
    /// What is seen of the last state.
    fn last(&self, env: &SimEnv) -> Model {
        seen(self.states.last().unwrap(), env.now_micros())
    }

    /// Whether what is found is one of the states.
    fn has(&self, env: &SimEnv, found: &Model) -> bool {
        let mut states = self.states.iter().skip(self.durable);
        states.any(|state| seen(state, env.now_micros()) == *found)
    }
}

/// Does the steps until one fails.
fn run(env: &Arc<SimEnv>, steps: &[Step], durability: Durability) -> Left {
    let mut left = Left {
        states: vec![Timed::new()],
        durable: 0,
    };
    let _ = run_steps(env, steps, durability, &mut left);
    left
}

fn run_steps(
    env: &Arc<SimEnv>,
    steps: &[Step],
    durability: Durability,
    left: &mut Left,
) -> Result<()> {
    let mut partition = open(env)?;
    let mut schema = schema();
    for step in steps {
        match step {
            Step::Reopen => {
                partition.close()?;
                partition = open(env)?;
            }
            step => do_step(env, &partition, &mut schema, step, durability, left)?,
        }
        if matches!(step, Step::Flush | Step::Compact | Step::Reopen) {
            left.durable = left.states.len() - 1;
        }
        env.run_until_idle();
    }
    Ok(())
}

/// Does a step that needs no other opening.
fn do_step(
    env: &Arc<SimEnv>,
    partition: &WidePartition,
    schema: &mut Arc<Schema>,
    step: &Step,
    durability: Durability,
    left: &mut Left,
) -> Result<()> {
    match step {
        Step::Write(name, kind, changes) => {
            let mut model = left.states.last().cloned().unwrap_or_default();
            apply(&mut model, name, *kind, changes, env.now_micros());
            left.states.push(model.clone());
            let write = write_of(name, *kind, changes);
            partition.write(schema, &write, Triggers::none(), durability)?;
            if durability == Durability::Sync {
                left.durable = left.states.len() - 1;
            }
        }
        Step::Flush => return partition.flush(),
        Step::Compact => return partition.compact(),
        Step::Reopen => return Ok(()),
        Step::Wait => {
            env.advance(Duration::from_secs(1800));
            return Ok(());
        }
        Step::Tier => drop(tiers::pass_of(partition, schema, durability)?),
        Step::Expire => drop(expiry::pass(partition, durability)?),
        Step::MoveTo(column, group) => {
            let moved = (**schema).clone().with_moved(column, group)?;
            moved.check_follows(schema)?;
            *schema = Arc::new(moved);
            return Ok(());
        }
        Step::MoveSome => drop(partition.column_step_of(schema, durability, 1)?),
        Step::MoveAll => drop(columns::move_all(partition, schema, durability)?),
    }
    assert_eq!(contents_of(partition, schema)?, left.last(env));
    Ok(())
}

/// Every kind of write of rows with cells in all groups, flushed and not.
fn history() -> Vec<Step> {
    let mut steps = Vec::new();
    for round in 0..3u8 {
        let whole = vec![
            Small::Hot(1),
            Small::Cold(round),
            Small::Link("a", round),
            Small::Link("b", round),
            Small::Undeclared("more", round),
        ];
        steps.push(Step::Write("x", Kind::Put, whole.clone()));
        steps.push(Step::Write("y", Kind::Upsert, whole));
        let patch = vec![
            Small::Add(5),
            Small::Append(round),
            Small::Count("a", 1),
            Small::RemoveLinks("a", Some("b")),
        ];
        steps.push(Step::Write("x", Kind::Upsert, patch));
        steps.push(Step::Flush);
        steps.push(Step::Write("y", Kind::Delete, Vec::new()));
        let other = vec![Small::Image(round), Small::MaxCount("b", 4)];
        steps.push(Step::Write("x", Kind::Put, other));
        steps.push([Step::Compact, Step::Reopen, Step::Flush][usize::from(round)].clone());
    }
    steps
}

fn crash_at_every_step(history: &[Step]) {
    for durability in [Durability::Sync, Durability::None] {
        let whole = SimEnv::new(1);
        let left = run(&whole, history, durability);
        assert_eq!(left.durable + 1, left.states.len());
        for step in 0..whole.operations() {
            let env = SimEnv::new(1);
            env.crash_at(step);
            let left = run(&env, history, durability);
            let env = env.after_crash(step);
            let found = contents(&open(&env).unwrap());
            let found = found.unwrap_or_else(|error| panic!("crash at step {step}: {error}"));
            assert!(left.has(&env, &found), "crash at step {step}: {found:?}");
        }
    }
}

#[test]
fn a_crash_at_any_step_leaves_whole_writes_in_all_groups() {
    crash_at_every_step(&history());
}

#[test]
fn the_crash_test_finds_groups_that_are_written_apart() {
    assert_each_is_found(Bug::OF_WIDE, || crash_at_every_step(&history()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn any_operations_agree_with_the_model(steps in vec(any_step(), 1..40)) {
        let env = SimEnv::new(1);
        let left = run(&env, &steps, Durability::Sync);
        let writes = steps.iter().filter(|step| matches!(step, Step::Write(..))).count();
        prop_assert_eq!(left.states.len(), writes + 1);
        let found = contents(&open(&env).unwrap()).unwrap();
        prop_assert_eq!(found, left.last(&env));
    }

    #[test]
    fn a_crash_in_any_operations_leaves_a_prefix_of_them(
        steps in vec(any_step(), 1..40), at in 0u64..600, seed: u64,
    ) {
        let env = SimEnv::new(1);
        env.crash_at(at);
        let left = run(&env, &steps, Durability::Sync);
        let env = env.after_crash(seed);
        let found = contents(&open(&env).unwrap()).unwrap();
        prop_assert!(left.has(&env, &found));
    }
}

#[test]
fn conditions_and_versions_are_those_of_documents() {
    let partition = open(&SimEnv::new(1)).unwrap();
    let write =
        |write: RowWrite| partition.write(&schema(), &write, Triggers::none(), Durability::Sync);
    let put = || RowWrite::put(key("a")).with(Change::set("hot", Cell::Int(1)));
    let first = write(put().condition(Condition::IfAbsent)).unwrap();
    let again = write(put().condition(Condition::IfAbsent)).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Conflict);
    let second = write(put().condition(Condition::IfVersion(first.version))).unwrap();
    assert!(second.version > first.version);
    let stale = write(RowWrite::delete(key("a")).condition(Condition::IfVersion(first.version)));
    assert_eq!(stale.unwrap_err().kind(), ErrorKind::Conflict);
    let none = write(RowWrite::patch(key("b")).with(Change::set("hot", Cell::Int(1))));
    assert_eq!(none.unwrap_err().kind(), ErrorKind::NotFound);
    let gone = write(RowWrite::delete(key("b"))).unwrap();
    assert_eq!(
        (gone.effect, gone.version),
        (crate::Effect::Unchanged, Position(0))
    );
}

#[test]
fn what_a_schema_does_not_allow_is_refused_and_changes_nothing() {
    let partition = open(&SimEnv::new(1)).unwrap();
    let long = "m".repeat(1 << 20);
    let text = |text: &str| Cell::String(text.into());
    let refused = [
        Change::set("absent", Cell::Int(1)),
        Change::set("hot", text("1")),
        Change::set("links", text("no member")),
        Change::set("hot", Cell::Int(1)).of_member("a"),
        Change::set("links", text("x")).of_member(long.clone()),
        Change::remove_members("links", None, Some(long)),
        Change::remove_members("hot", None, None),
        Change::merge("cold", Operand::Add(1)),
        Change::merge("hot", Operand::Append(text("x"))),
        Change::set("_rest", Cell::Json("{".into())).of_member("a"),
        Change::set("image", Cell::Bytes(vec![0; crate::CELL_BYTES_MAX])),
    ];
    for change in refused {
        let shown = format!("{change:.60?}");
        let write = RowWrite::upsert(key("a"))
            .with(Change::set("cold", text("x")))
            .with(change);
        let error = partition
            .write(&schema(), &write, Triggers::none(), Durability::Sync)
            .unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Invalid | ErrorKind::TooLarge),
            "{shown}: {error}"
        );
    }
    assert_eq!(contents(&partition).unwrap(), Model::new());
    let twice = RowWrite::put(key("a"))
        .with(Change::set("hot", Cell::Int(1)))
        .with(Change::merge("hot", Operand::Add(1)));
    let error = partition
        .write(&schema(), &twice, Triggers::none(), Durability::Sync)
        .unwrap_err();
    assert!(error.to_string().contains("twice"), "{error}");
}

#[test]
fn a_cell_does_not_outgrow_its_limit_by_appending() {
    let partition = open(&SimEnv::new(1)).unwrap();
    let append = || {
        let half = Cell::String("h".repeat(crate::CELL_BYTES_MAX / 2));
        let change = Change::merge("cold", Operand::Append(half));
        partition.write(
            &schema(),
            &RowWrite::upsert(key("a")).with(change),
            Triggers::none(),
            Durability::Sync,
        )
    };
    append().unwrap();
    assert_eq!(append().unwrap_err().kind(), ErrorKind::TooLarge);
    let view = partition.view(&schema()).unwrap();
    let cell = view.cell(&key("a"), "cold", None).unwrap().unwrap();
    assert_eq!(cell.bytes(), crate::CELL_BYTES_MAX / 2 + 1);
}

#[test]
fn a_dropped_column_is_not_shown_and_its_name_can_be_given_again() {
    let partition = open(&SimEnv::new(1)).unwrap();
    let old = schema();
    let json = br#"{"_id":"a","hot":1,"cold":"c","links":{"l":"x"},"more":[1]}"#;
    let document = Document::from_json(json).unwrap();
    let changes = old.changes_of(&key("a"), "_id", &document, false).unwrap();
    let write = RowWrite::put(key("a")).with_all(changes);
    partition
        .write(&old, &write, Triggers::none(), Durability::Sync)
        .unwrap();
    let shown = |schema: Schema| {
        let view = partition.view(&Arc::new(schema)).unwrap();
        let found = view.get(&key("a"), "_id", None).unwrap().unwrap();
        found.document.to_json()
    };
    let schema = (*old).clone();
    assert_eq!(
        shown(schema.clone()),
        r#"{"_id":"a","more":[1],"hot":1,"cold":"c","links":{"l":"x"}}"#
    );
    let schema = schema.with_renamed("hot", "warm").unwrap();
    let schema = schema.with_wider("warm", ColumnType::Float).unwrap();
    let schema = schema.without_column("cold").unwrap();
    let schema = schema.with_column("cold", ColumnType::Int, "cold").unwrap();
    let schema = schema
        .with_column("more", ColumnType::Json, "default")
        .unwrap();
    let stored = Schema::from_json(schema.to_json().as_bytes()).unwrap();
    assert_eq!(stored, schema);
    assert_eq!(shown(stored), r#"{"_id":"a","warm":1,"links":{"l":"x"}}"#);
}

#[test]
fn a_flush_drops_no_record_that_a_follower_needs() {
    let env = SimEnv::new(4);
    let partition = open(&env).unwrap();
    let write = |number: i64| {
        let write = RowWrite::put(key("x")).with(Change::set("hot", Cell::Int(number)));
        let written = partition.write(&schema(), &write, Triggers::none(), Durability::Sync);
        written.unwrap().version
    };
    let store = partition.any_store();
    let seen = write(1);
    let hold = store.hold_log(seen);
    write(2);
    partition.flush().unwrap();
    write(3);
    partition.flush().unwrap();
    let shipped = |seen| store.ship(seen, 1 << 20).unwrap();
    let Shipped::Records { records, .. } = shipped(seen) else {
        panic!("the records are held");
    };
    assert_eq!(records.len(), 2);
    assert!(store.fingerprint(seen).unwrap().is_some());
    hold.advance(Position(3));
    write(4);
    partition.flush().unwrap();
    assert_eq!(shipped(seen), Shipped::Gap);
    drop(hold);
    write(5);
    partition.flush().unwrap();
    assert_eq!(shipped(Position(3)), Shipped::Gap);
}
