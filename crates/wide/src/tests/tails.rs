//! Tails: what they give is what was written, whatever else is done to the partition, and also
//! after a crash and a split.

use super::*;
use crate::{CellEvent, RowAction, RowChange};

const HOUR: Duration = Duration::from_secs(3600);

/// Far longer than any history takes.
const LONG: Duration = Duration::from_secs(3600 * 1000);

fn options_tailed() -> StoreOptions {
    let mut options = StoreOptions {
        log_held: true,
        ..StoreOptions::default()
    };
    options.log.block_bytes = 64;
    options.log.segment_bytes = 600;
    options
}

/// Opens a partition that is tailed, and makes it if there is none.
pub(super) fn open_tailed(env: &Arc<SimEnv>, place: Place, number: u32) -> Result<WidePartition> {
    let shared = Shared::new(env.clone(), 8 << 20, None);
    if number == 0 && !Store::<crate::machine::WideRows>::exists(&shared, &place)? {
        WidePartition::create(&shared, &place)?;
    }
    let (options, changed) = (options_tailed(), env.gate());
    let partition =
        WidePartition::open(shared, place, number, options, (&schema(), None), changed)?;
    partition.set_log_retention(Some(LONG));
    Ok(partition)
}

pub(super) fn tail(partition: &WidePartition, seen: Position) -> Result<Vec<RowChange>> {
    partition.tail(&schema(), "_id", seen)?.collect()
}

/// What the changes make of rows.
pub(super) fn follow(rows: &mut Timed, changes: &[RowChange]) {
    let at = |column: &str, member: Option<&String>| {
        let is_declared = schema().column(column).is_some();
        match is_declared {
            true => (column.to_string(), member.cloned().unwrap_or_default()),
            false => ("_rest".to_string(), column.to_string()),
        }
    };
    let set = |row: &mut TimedRow, cell: &crate::RowCell| {
        let at = at(&cell.column, cell.member.as_ref());
        row.insert(at, (cell.cell.clone(), cell.expires_micros));
    };
    for change in changes {
        let name = change.key.to_string();
        match &change.action {
            RowAction::Delete => drop(rows.remove(&name)),
            RowAction::Put(cells) => {
                let mut row = TimedRow::new();
                cells.iter().for_each(|cell| set(&mut row, cell));
                rows.insert(name, row);
            }
            RowAction::Patch(events) => {
                let row = rows.get_mut(&name).expect("a patch is of a row");
                for event in events {
                    match event {
                        CellEvent::Set(cell) => set(row, cell),
                        CellEvent::Removed { column, member } => {
                            row.remove(&at(column, member.as_ref()));
                        }
                        CellEvent::MembersRemoved { column, from, to } => {
                            row.retain(|(name, member), _| {
                                let is_from = from.as_ref().is_none_or(|from| member >= from);
                                let is_to = to.as_ref().is_none_or(|to| member < to);
                                name != column || !is_from || !is_to
                            });
                        }
                        CellEvent::Merged {
                            column,
                            member,
                            operand,
                        } => {
                            let at = at(column, member.as_ref());
                            let (cell, expires) = row.remove(&at).unzip();
                            let merged = operand.apply(cell);
                            row.insert(at, (merged, expires.flatten()));
                        }
                    }
                }
            }
        }
    }
}

/// The rows that a tail of everything gives, as they are seen now.
fn followed(env: &SimEnv, partition: &WidePartition) -> Model {
    let mut rows = Timed::new();
    follow(&mut rows, &tail(partition, Position(0)).unwrap());
    seen(&rows, env.now_micros())
}

/// Does the steps until one fails.
fn run_tailed(env: &Arc<SimEnv>, steps: &[Step], left: &mut Left) -> Result<WidePartition> {
    let mut partition = open_tailed(env, place(), 0)?;
    let mut schema = schema();
    for step in steps {
        match step {
            Step::Reopen => {
                partition.close()?;
                partition = open_tailed(env, place(), 0)?;
            }
            step => do_step(env, &partition, &mut schema, step, Durability::Sync, left)?,
        }
        env.run_until_idle();
        partition.drop_old_log()?;
    }
    Ok(partition)
}

fn nothing() -> Left {
    Left {
        states: vec![Timed::new()],
        durable: 0,
    }
}

/// A tail at any position gives the changes after it, and all of them make the rows.
fn tails_agree(steps: &[Step]) {
    let env = SimEnv::new(1);
    let mut left = nothing();
    let partition = run_tailed(&env, steps, &mut left).unwrap();
    assert_eq!(followed(&env, &partition), left.last(&env));
    let all = tail(&partition, Position(0)).unwrap();
    for seen in 1..=partition.position().0 {
        let rest = all.iter().filter(|change| change.version.0 > seen);
        let rest: Vec<_> = rest.cloned().collect();
        assert_eq!(
            tail(&partition, Position(seen)).unwrap(),
            rest,
            "after {seen}"
        );
    }
    for change in &all {
        let mut line = Vec::new();
        change.write_json("_id", &mut line);
        let line = std::str::from_utf8(&line).unwrap();
        Document::from_json(line.as_bytes()).unwrap_or_else(|error| panic!("{line}: {error}"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_tail_of_any_operations_makes_their_rows(steps in vec(any_step(), 1..40)) {
        tails_agree(&steps);
    }

    #[test]
    fn a_tail_goes_on_in_the_partitions_of_a_split(
        before in vec(any_step(), 0..25),
        meanwhile in vec(any_step(), 0..12),
    ) {
        split_tailed(&before, &meanwhile);
    }
}

#[test]
fn a_tail_of_every_kind_of_write_makes_their_rows() {
    tails_agree(&history());
}

#[test]
fn a_crash_at_any_step_loses_no_change_that_was_acknowledged() {
    let history = history();
    let whole = SimEnv::new(1);
    run_tailed(&whole, &history, &mut nothing()).unwrap();
    for step in 0..whole.operations() {
        let env = SimEnv::new(1);
        env.crash_at(step);
        let mut left = nothing();
        let _ = run_tailed(&env, &history, &mut left);
        let env = env.after_crash(step);
        let partition = open_tailed(&env, place(), 0).unwrap();
        let found = contents(&partition).unwrap();
        assert!(left.has(&env, &found), "crash at step {step}: {found:?}");
        assert_eq!(
            followed(&env, &partition),
            found,
            "tail after a crash at step {step}"
        );
    }
}

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

/// The changes of the new partitions after a position are those of the old one.
fn split_tailed(before: &[Step], meanwhile: &[Step]) {
    let env = SimEnv::new(1);
    let mut left = nothing();
    let old = run_tailed(&env, before, &mut left).unwrap();
    // Moves of columns go on by the schema that they began by.
    let moves = before.iter().filter_map(|step| match step {
        Step::MoveTo(column, group) => Some((*column, *group)),
        _ => None,
    });
    let mut moved = schema();
    for (column, group) in moves {
        moved = Arc::new((*moved).clone().with_moved(column, group).unwrap());
    }
    // The new partitions exist once they are dealt, so they are only opened.
    let open = |number: usize| {
        let shared = Shared::new(env.clone(), 8 << 20, None);
        let place = new_place(number as u32);
        let options = options_tailed();
        WidePartition::open(
            shared,
            place,
            number as u32,
            options,
            (&schema(), None),
            env.gate(),
        )
    };
    let was_empty = old.position() == Position(0);
    let places = [new_place(0), new_place(1)];
    let dealt = old.deal(&moved, &places, &owner, &open, &|_| true);
    let dealt = dealt.unwrap().unwrap();
    for step in meanwhile {
        if !matches!(step, Step::Reopen) {
            do_step(&env, &old, &mut moved, step, Durability::Sync, &mut left).unwrap();
        }
        env.run_until_idle();
    }
    for (number, one) in dealt.partitions.iter().enumerate() {
        let owns = |key: &Key| owner(key) == number;
        while one.follow(&old, &owns).unwrap() > 0 {}
        one.sync().unwrap();
        one.flush().unwrap();
        one.close().unwrap();
        let one = open(number).unwrap();
        for seen in 0..=old.position().0 {
            let seen = Position(seen);
            let mut expected = tail(&old, seen).unwrap();
            expected.retain(|change| owns(&change.key));
            for change in &mut expected {
                change.partition = number as u32;
            }
            assert_eq!(tail(&one, seen).unwrap(), expected, "{number} after {seen}");
        }
        // The rows that were copied are not in the log: a follower takes a copy first.
        let all = one.any_store().ship(Position(0), 1 << 20).unwrap();
        assert!(was_empty || all == Shipped::Gap, "{number}");
    }
}

#[test]
fn the_log_is_kept_for_its_time_and_no_longer() {
    let env = SimEnv::new(3);
    let open = || {
        let mut options = options_tailed();
        options.log.segment_bytes = 64;
        let shared = Shared::new(env.clone(), 8 << 20, None);
        let partition =
            WidePartition::open(shared, place(), 0, options, (&schema(), None), env.gate())
                .unwrap();
        partition.set_log_retention(Some(HOUR));
        partition
    };
    let shared = Shared::new(env.clone(), 8 << 20, None);
    WidePartition::create(&shared, &place()).unwrap();
    let partition = open();
    let write = |partition: &WidePartition, number: i64| {
        let write = RowWrite::upsert(key("x")).with(Change::set("hot", Cell::Int(number)));
        let written = partition.write(&schema(), &write, Triggers::none(), Durability::Sync);
        written.unwrap().version
    };
    let first = write(&partition, 1);
    env.advance(HOUR / 2);
    let second = write(&partition, 2);
    partition.flush().unwrap();
    partition.drop_old_log().unwrap();
    assert_eq!(tail(&partition, Position(0)).unwrap().len(), 2);

    // Also over a restart.
    partition.close().unwrap();
    let partition = open();
    partition.flush().unwrap();
    partition.drop_old_log().unwrap();
    assert_eq!(tail(&partition, first).unwrap().len(), 1);

    env.advance(HOUR / 2 + Duration::from_secs(1));
    let third = write(&partition, 3);
    let fourth = write(&partition, 4);
    partition.flush().unwrap();
    partition.drop_old_log().unwrap();
    let versions = |seen| -> Vec<Position> {
        let changes = tail(&partition, seen).unwrap();
        changes.iter().map(|change| change.version).collect()
    };
    assert_eq!(versions(Position(0)), [second, third, fourth]);
    assert_eq!(versions(first), [second, third, fourth]);

    env.advance(HOUR * 2);
    write(&partition, 5);
    partition.flush().unwrap();
    assert!(partition.drop_old_log().unwrap() > 0);
    let gone = tail(&partition, first).unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::Gone);
    assert!(gone.to_string().contains("log_retention_secs"), "{gone}");
    assert_eq!(tail(&partition, Position(0)).unwrap().len(), 1);
    assert_eq!(contents(&partition).unwrap().len(), 1);
}

#[test]
fn changes_from_before_the_log_was_kept_are_gone_and_not_passed_over() {
    let env = SimEnv::new(5);
    let partition = open(&env).unwrap();
    let write = |number: i64| {
        let write = RowWrite::upsert(key("x")).with(Change::set("hot", Cell::Int(number)));
        let written = partition.write(&schema(), &write, Triggers::none(), Durability::Sync);
        written.unwrap().version
    };
    let first = write(1);
    write(2);
    partition.set_log_retention(Some(HOUR));
    let third = write(3);
    let all = tail(&partition, Position(0)).unwrap();
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].version, third);
    assert_eq!(tail(&partition, first).unwrap_err().kind(), ErrorKind::Gone);

    partition.set_log_retention(None);
    let fourth = write(4);
    partition.set_log_retention(Some(HOUR));
    write(5);
    let tailed: Vec<_> = partition
        .tail(&schema(), "_id", just_before(third))
        .unwrap()
        .collect();
    assert_eq!(tailed.len(), 2);
    let error = tailed[1].as_ref().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Gone);
    let shown = format!("from position {} on", fourth.next());
    assert!(
        error.to_string().replace('\n', " ").contains(&shown),
        "{error}"
    );
    assert_eq!(tail(&partition, fourth).unwrap().len(), 1);
}

/// The position before one.
fn just_before(position: Position) -> Position {
    Position(position.0 - 1)
}

#[test]
fn a_change_is_told_as_a_line_of_json() {
    let env = SimEnv::new(6);
    let partition = open_tailed(&env, place(), 0).unwrap();
    let write = |write: RowWrite| {
        let written = partition.write(&schema(), &write, Triggers::none(), Durability::Sync);
        written.unwrap().version
    };
    let text = |text: &str| Cell::String(text.into());
    write(
        RowWrite::put(key("a"))
            .with(Change::set("hot", Cell::Int(7)))
            .with(Change::set("image", Cell::Bytes(vec![1, 2])))
            .with(Change::set("links", text("one")).of_member("http://a/"))
            .with(
                Change::set("links", text("two"))
                    .of_member("http://b/")
                    .expiring(CellExpiry::At(i64::MAX)),
            )
            .with(Change::set("_rest", Cell::Json("[1]".into())).of_member("more")),
    );
    let got = partition.view(&schema()).unwrap();
    let got = got.get(&key("a"), "_id", None).unwrap().unwrap();
    write(
        RowWrite::patch(key("a"))
            .with(Change::set("cold", text("\"c\"")))
            .with(Change::remove("image"))
            .with(Change::merge("hot", Operand::Add(2)))
            .with(Change::remove("links").of_member("http://a/"))
            .with(Change::remove("_rest").of_member("more"))
            .with(Change::remove_members(
                "links",
                Some("b".into()),
                Some("k".into()),
            )),
    );
    write(RowWrite::delete(key("a")));
    let changes = tail(&partition, Position(0)).unwrap();
    let line = |change: &RowChange| {
        let mut line = Vec::new();
        change.write_json("_id", &mut line);
        String::from_utf8(line).unwrap()
    };
    let lines: Vec<String> = changes.iter().map(line).collect();
    let head = |position: usize| {
        let time = changes[position - 2].time_micros;
        format!(r#"{{"partition":0,"position":{position},"time_micros":{time},"key":"a","#)
    };
    assert_eq!(
        lines,
        [
            format!(
                "{}\"document\":{},\"expiring\":[{{\"column\":\"links\",\"member\":\"http://b/\",\
                 \"expires_micros\":{}}}]}}",
                head(2),
                got.document.to_json(),
                i64::MAX
            ),
            format!(
                "{}{}",
                head(3),
                concat!(
                    r#""patch":[{"column":"cold","value":"\"c\""},"#,
                    r#"{"column":"image","removed":true},"#,
                    r#"{"column":"hot","add":2},"#,
                    r#"{"column":"links","member":"http://a/","removed":true},"#,
                    r#"{"column":"more","removed":true},"#,
                    r#"{"column":"links","from":"b","to":"k","removed":true}]}"#
                )
            ),
            format!("{}\"deleted\":true}}", head(4)),
        ]
    );
}
