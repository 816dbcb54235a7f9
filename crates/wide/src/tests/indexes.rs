//! Search indexes of rows: an answer by the index is that of reading every row, however far the
//! index is behind, wherever cells lie, and wherever the machine crashed.

use super::*;
use crate::WideIndex;
use quire_model::DocId;
use quire_query::{Filter, Options, Query, field, find, find_all};
use quire_search::{IndexSettings, IndexedFields, IndexedView, with_key};
use std::collections::BTreeSet;

fn index(generation: u32, fields: IndexedFields) -> WideIndex {
    WideIndex {
        settings: IndexSettings { generation, fields },
        key_field: "_id".into(),
    }
}

fn open_indexed(
    env: &Arc<SimEnv>,
    schema: &Arc<Schema>,
    index: Option<&WideIndex>,
) -> Result<WidePartition> {
    let shared = Shared::new(env.clone(), 8 << 20, None);
    if !Store::<crate::machine::WideRows>::exists(&shared, &place())? {
        WidePartition::create(&shared, &place())?;
    }
    let mut options = StoreOptions::default();
    options.log.block_bytes = 64;
    options.log.segment_bytes = 600;
    let of_rows = (&**schema, index);
    let partition = WidePartition::open(shared, place(), 0, options, of_rows, env.gate())?;
    partition.set_index(schema, index)?;
    Ok(partition)
}

fn filters() -> Vec<Filter> {
    let text = |letter: &str| letter.repeat(30);
    vec![
        field("hot").gte(0),
        field("hot").exists(),
        field("cold").eq(text("a")),
        field("cold").starts_with("b"),
        field("image").exists(),
        field("seen").lt(0),
        field("a").gte(100),
        field("b").exists().and(field("hot").lt(0)),
        field("_id").eq("x"),
        field("_id").is_in(["y", "z"]).and(field("image").exists()),
    ]
}

fn queries() -> Vec<Query> {
    let filtered = filters().into_iter().map(find);
    let ordered = [
        find_all().order_by(field("hot").descending()),
        find(field("hot").exists()).order_by(field("cold").ascending()),
    ];
    filtered.chain(ordered).collect()
}

/// Compares answers by the index with what reading every row gives; false if the index is not
/// complete, or does not have the fields.
fn answers_agree(partition: &WidePartition, schema: &Arc<Schema>) -> bool {
    compare_answers(partition, schema).unwrap()
}

fn compare_answers(partition: &WidePartition, schema: &Arc<Schema>) -> Result<bool> {
    let view = partition.indexed_view(schema)?;
    let indexed: &dyn IndexedView = &view;
    if indexed.indexes().fields().next().is_none() {
        return Ok(false);
    }
    let mut rows = BTreeMap::new();
    let see = &mut |docid, document: &Document, key: &Key| {
        rows.insert(docid, with_key(document.clone(), key).unwrap());
    };
    indexed.each_document(see)?;
    rows_hold(&view, &rows)?;
    let mut are_answered = true;
    for query in queries() {
        let query = query.with_count().limit(100).prepare().unwrap();
        let Some(shard) = indexed.search(&query, None)? else {
            are_answered = false;
            continue;
        };
        let answer = query.answer(&[&*shard], &Options::default());
        let answer = match answer {
            // Of a machine that has crashed.
            Err(error) if !matches!(error, quire_query::Error::Shard(_)) => panic!("{error}"),
            Err(_) => return Ok(false),
            Ok(answer) => answer,
        };
        let accepted = rows.iter().filter(|(_, document)| query.accepts(document));
        let expected: BTreeSet<u32> = accepted.map(|(docid, _)| docid.0).collect();
        let found: BTreeSet<u32> = answer.hits.iter().map(|hit| hit.doc).collect();
        assert_eq!(found, expected, "{query:?}");
        assert_eq!(answer.count, Some(expected.len() as u64));
    }
    let wrong = indexed.check_search()?;
    assert!(wrong.is_empty(), "{wrong:?}");
    Ok(are_answered)
}

/// The rows that an index is made of are those of the view, without families. They may have cells
/// that have expired and were not removed yet.
fn rows_hold(view: &WideView, indexed: &BTreeMap<DocId, Document>) -> Result<()> {
    let rows = view
        .rows("_id", None)?
        .map(|item| item.map(|(docid, row)| (docid, row.document)));
    let rows = rows.collect::<Result<BTreeMap<DocId, Document>>>()?;
    assert_eq!(
        rows.keys().collect::<Vec<_>>(),
        indexed.keys().collect::<Vec<_>>()
    );
    for (docid, row) in &rows {
        let fields = row.fields().filter(|(name, _)| {
            let is_family = view
                .schema()
                .column(name)
                .is_some_and(|column| column.family);
            let mut of_indexes = view.indexes.fields();
            !is_family && of_indexes.any(|fields| fields.includes(name))
        });
        for (name, value) in fields {
            assert_eq!(indexed[docid].get(name), Some(value), "{docid}: {name}");
        }
        for (name, _) in indexed[docid].fields() {
            assert!(row.get(name).is_some() || name == "seen", "{docid}: {name}");
        }
    }
    Ok(())
}

/// Runs what is to be done within a second. After a crash, jobs try again and again.
fn settle(env: &SimEnv) {
    for _ in 0..50 {
        env.run_due();
        env.advance(Duration::from_millis(20));
    }
}

/// Does the steps until one fails. The index is level after some of them, and behind after others.
fn run_indexed(
    env: &Arc<SimEnv>,
    steps: &[(Step, bool)],
    durability: Durability,
    left: &mut Left,
) -> Result<()> {
    let all = index(0, IndexedFields::all());
    let mut schema = schema();
    let mut partition = open_indexed(env, &schema, Some(&all))?;
    for (step, is_level) in steps {
        match step {
            Step::Reopen => {
                partition.close()?;
                partition = open_indexed(env, &schema, Some(&all))?;
                left.durable = left.states.len() - 1;
            }
            step => do_step(env, &partition, &mut schema, step, durability, left)?,
        }
        if matches!(step, Step::Flush | Step::Compact) {
            left.durable = left.states.len() - 1;
        }
        // As a database does it when a schema changes.
        partition.set_index(&schema, Some(&all))?;
        if *is_level {
            settle(env);
        }
        compare_answers(&partition, &schema)?;
    }
    settle(env);
    assert!(
        compare_answers(&partition, &schema)?,
        "the index is complete"
    );
    partition.close()
}

fn nothing() -> Left {
    Left {
        states: vec![Timed::new()],
        durable: 0,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn answers_by_the_index_are_those_of_reading_every_row(
        steps in vec((any_step(), any::<bool>()), 0..30),
    ) {
        run_indexed(&SimEnv::new(1), &steps, Durability::Sync, &mut nothing()).unwrap();
    }

    /// An index of other fields, and then of none, is made while rows change.
    #[test]
    fn an_index_is_replaced_and_dropped_while_rows_change(
        steps in vec((any_step(), 0u8..12, any::<bool>()), 0..30),
    ) {
        let env = SimEnv::new(1);
        let (mut schema, mut left) = (schema(), nothing());
        let (mut generation, mut now) = (0, None);
        let mut partition = open_indexed(&env, &schema, None).unwrap();
        for (step, change, is_level) in steps {
            if change < 4 && generation < 14 {
                generation += 1;
                now = match change {
                    0 => None,
                    1 => Some(index(generation, IndexedFields::all())),
                    2 => Some(index(generation, IndexedFields::none().with("hot", true))),
                    _ => Some(index(generation, IndexedFields::all().with("cold", false))),
                };
            }
            match step {
                Step::Reopen => {
                    partition.close().unwrap();
                    partition = open_indexed(&env, &schema, now.as_ref()).unwrap();
                }
                step => do_step(
                    &env,
                    &partition,
                    &mut schema,
                    &step,
                    Durability::Sync,
                    &mut left
                ).unwrap(),
            }
            partition.set_index(&schema, now.as_ref()).unwrap();
            if is_level {
                env.run_until_idle();
            }
            answers_agree(&partition, &schema);
        }
        env.run_until_idle();
        // A view that finds a newer one complete is the last that has the one before.
        partition.indexed_view(&schema).unwrap();
        let is_whole = |index: &WideIndex| index.settings.fields.includes_all();
        let answered = answers_agree(&partition, &schema);
        prop_assert_eq!(answered, now.as_ref().is_some_and(is_whole));
        partition.close().unwrap();
    }
}

/// Rows in all groups that change, move and expire, level and not.
fn indexed_history() -> Vec<(Step, bool)> {
    let level = |step: Step| (step, true);
    let mut steps: Vec<_> = history()
        .into_iter()
        .enumerate()
        .map(|(at, step)| (step, at % 2 == 0))
        .collect();
    steps.extend([
        level(Step::Write(
            "y",
            Kind::Put,
            vec![Small::Seen(-3), Small::Hot(-1), Small::Cold(1)],
        )),
        level(Step::MoveTo("hot", "links")),
        (Step::MoveSome, false),
        (Step::Write("x", Kind::Upsert, vec![Small::Hot(-7)]), false),
        level(Step::MoveAll),
        (Step::Wait, false),
        (Step::Wait, false),
        level(Step::Expire),
        level(Step::Write("y", Kind::Upsert, vec![Small::Hot(5)])),
        (Step::Reopen, false),
        (Step::Tier, false),
        level(Step::Write("x", Kind::Delete, Vec::new())),
    ]);
    steps
}

#[test]
fn after_a_crash_at_any_step_the_index_says_what_rows_are_there() {
    let whole = SimEnv::new(1);
    let history = indexed_history();
    run_indexed(&whole, &history, Durability::None, &mut nothing()).unwrap();
    for step in (0..whole.operations()).step_by(2) {
        let env = SimEnv::new(1);
        env.crash_at(step);
        let mut left = nothing();
        let _ = run_indexed(&env, &history, Durability::None, &mut left);
        let env = env.after_crash(step);
        let index = index(0, IndexedFields::all());
        let partition = open_indexed(&env, &schema(), Some(&index)).unwrap();
        answers_agree(&partition, &schema());
        let found = contents(&partition).unwrap();
        assert!(left.has(&env, &found), "crash at step {step}: {found:?}");
        settle(&env);
        assert!(answers_agree(&partition, &schema()), "crash at step {step}");
    }
}

#[test]
fn the_tests_of_indexes_find_seeded_bugs() {
    assert_each_is_found(Bug::OF_ROW_INDEXES, || {
        run_indexed(
            &SimEnv::new(1),
            &indexed_history(),
            Durability::Sync,
            &mut nothing(),
        )
        .unwrap();
    });
}

#[test]
fn a_new_column_is_not_looked_for_in_an_index_that_is_being_replaced() {
    let env = SimEnv::new(1);
    let old = Arc::new((*schema()).clone().keep_undeclared(false));
    let partition = open_indexed(&env, &old, Some(&index(0, IndexedFields::all()))).unwrap();
    let write = |schema: &Arc<Schema>, write: RowWrite| {
        let sync = Durability::Sync;
        partition
            .write(schema, &write, Triggers::none(), sync)
            .unwrap();
    };
    write(&old, write_of("x", Kind::Put, &[Small::Hot(7)]));
    settle(&env);
    assert!(compare_answers(&partition, &old).unwrap());
    let second = index(1, IndexedFields::all().with("image", false));
    partition.set_index(&old, Some(&second)).unwrap();
    let grown = (*old).clone().with_column("a", ColumnType::Int, "cold");
    let grown = Arc::new(grown.unwrap());
    partition.set_index(&grown, Some(&second)).unwrap();
    let changes = Change::set("a", Cell::Int(200));
    write(&grown, RowWrite::upsert(key("x")).with(changes));
    for _ in 0..30 {
        compare_answers(&partition, &grown).unwrap();
        env.run_due();
        env.advance(Duration::from_millis(20));
    }
    settle(&env);
    let view = partition.indexed_view(&grown).unwrap();
    let indexed: &dyn IndexedView = &view;
    let query = find(field("a").gte(100)).with_count().prepare().unwrap();
    let shard = indexed.search(&query, None).unwrap().unwrap();
    let answer = query.answer(&[&*shard], &Options::default()).unwrap();
    assert_eq!(answer.count, Some(1));
}

#[test]
fn a_column_that_rows_had_before_the_index_knew_it_is_found() {
    let env = SimEnv::new(1);
    let old = Arc::new((*schema()).clone().keep_undeclared(false));
    let all = index(0, IndexedFields::all());
    let partition = open_indexed(&env, &old, Some(&all)).unwrap();
    let write = |schema: &Arc<Schema>, write: RowWrite| {
        let sync = Durability::Sync;
        partition
            .write(schema, &write, Triggers::none(), sync)
            .unwrap();
    };
    write(&old, write_of("x", Kind::Put, &[Small::Hot(7)]));
    settle(&env);
    assert!(compare_answers(&partition, &old).unwrap());
    // As the records of a split or a leader come, before their schema does.
    let grown = (*old).clone().with_column("a", ColumnType::Int, "cold");
    let grown = Arc::new(grown.unwrap());
    let set = |number| Change::set("a", Cell::Int(number));
    write(&grown, RowWrite::upsert(key("x")).with(set(200)));
    write(&grown, RowWrite::upsert(key("y")).with(set(300)));
    assert!(compare_answers(&partition, &old).unwrap());
    settle(&env);
    assert!(compare_answers(&partition, &old).unwrap());
    partition.set_index(&grown, Some(&all)).unwrap();
    // It is built anew, once.
    assert!(!compare_answers(&partition, &grown).unwrap());
    settle(&env);
    assert!(compare_answers(&partition, &grown).unwrap());
    write(&grown, RowWrite::upsert(key("z")).with(set(400)));
    assert!(compare_answers(&partition, &grown).unwrap());
    settle(&env);
    assert!(compare_answers(&partition, &grown).unwrap());
}

#[test]
fn a_row_that_is_too_large_to_be_indexed_is_named_and_the_index_is_whole_without_it() {
    let env = SimEnv::new(1);
    let shared = Shared::new(env.clone(), 128 << 20, None);
    WidePartition::create(&shared, &place()).unwrap();
    let (schema, all) = (schema(), index(0, IndexedFields::all()));
    let partition = WidePartition::open(
        shared,
        place(),
        0,
        StoreOptions::default(),
        (&*schema, Some(&all)),
        env.gate(),
    );
    let partition = partition.unwrap();
    let put = |name: &str, cells: &[(&str, usize)]| {
        let set = |(column, bytes): &(&str, usize)| match *column {
            "image" => Change::set(*column, Cell::Bytes(vec![7; *bytes])),
            column => Change::set(column, Cell::String("x".repeat(*bytes))),
        };
        let write = RowWrite::put(key(name)).with_all(cells.iter().map(set));
        partition
            .write(&schema, &write, Triggers::none(), Durability::Sync)
            .unwrap();
    };
    put("x", &[("cold", 10), ("image", 10)]);
    put("y", &[("cold", 9 << 20), ("image", 8 << 20)]);
    partition.set_index(&schema, Some(&all)).unwrap();
    settle(&env);
    let figures = partition.index_figures(&partition.stats()).unwrap();
    let error = figures.error.unwrap_or_default();
    assert!(!figures.complete && error.contains("document y"), "{error}");
    assert!(!compare_exists(&partition, &schema));

    partition
        .write(
            &schema,
            &RowWrite::delete(key("y")),
            Triggers::none(),
            Durability::Sync,
        )
        .unwrap();
    env.advance(Duration::from_secs(30));
    settle(&env);
    let figures = partition.index_figures(&partition.stats()).unwrap();
    assert!(figures.complete && figures.error.is_none(), "{figures:?}");
    assert!(compare_exists(&partition, &schema));
    // A row that grows too large afterwards is found all the same, by reading rows.
    put("z", &[("cold", 9 << 20), ("image", 8 << 20)]);
    settle(&env);
    assert!(!compare_exists(&partition, &schema));
    put("z", &[("cold", 9)]);
    env.advance(Duration::from_secs(30));
    settle(&env);
    assert!(compare_exists(&partition, &schema));
}

/// Whether the index answers which rows have an image; it is right then.
fn compare_exists(partition: &WidePartition, schema: &Arc<Schema>) -> bool {
    let view = partition.indexed_view(schema).unwrap();
    let indexed: &dyn IndexedView = &view;
    let query = find(field("image").exists()).with_count().prepare();
    let query = query.unwrap();
    let Some(shard) = indexed.search(&query, None).unwrap() else {
        return false;
    };
    let answer = query.answer(&[&*shard], &Options::default()).unwrap();
    assert_eq!(answer.count, Some(1));
    true
}

#[test]
fn a_new_column_is_in_the_index_from_its_first_cell_on_whatever_its_group() {
    let env = SimEnv::new(1);
    let old = Arc::new((*schema()).clone().keep_undeclared(false));
    let all = index(0, IndexedFields::all());
    let partition = open_indexed(&env, &old, Some(&all)).unwrap();
    let write = |schema: &Arc<Schema>, write: RowWrite| {
        let sync = Durability::Sync;
        partition
            .write(schema, &write, Triggers::none(), sync)
            .unwrap();
    };
    write(&old, write_of("x", Kind::Put, &[Small::Hot(7)]));
    settle(&env);
    assert!(compare_answers(&partition, &old).unwrap());
    let grown = (*old)
        .clone()
        .with_group(crate::Group::new("new"))
        .and_then(|schema| schema.with_column("a", ColumnType::Int, "new"));
    let grown = Arc::new(grown.unwrap());
    partition.set_index(&grown, Some(&all)).unwrap();
    // It goes on with the same index.
    assert!(compare_answers(&partition, &old).unwrap());
    for (name, number) in [("x", 100), ("y", 200), ("z", 3)] {
        write(
            &grown,
            RowWrite::upsert(key(name)).with(Change::set("a", Cell::Int(number))),
        );
        assert!(compare_answers(&partition, &grown).unwrap());
        settle(&env);
        assert!(compare_answers(&partition, &grown).unwrap());
    }
    write(&grown, RowWrite::upsert(key("y")).with(Change::remove("a")));
    settle(&env);
    assert!(compare_answers(&partition, &grown).unwrap());
}

#[test]
fn a_column_under_another_name_is_not_looked_for_in_the_index_before() {
    let env = SimEnv::new(1);
    let (old, first) = (schema(), index(0, IndexedFields::all()));
    let partition = open_indexed(&env, &old, Some(&first)).unwrap();
    let changes = [Small::Hot(7), Small::Cold(0)];
    let write = write_of("x", Kind::Put, &changes);
    let sync = Durability::Sync;
    partition
        .write(&old, &write, Triggers::none(), sync)
        .unwrap();
    settle(&env);
    assert!(answers_agree(&partition, &old));

    let renamed = (*old).clone().with_renamed("hot", "warm").unwrap();
    let renamed = renamed.with_renamed("cold", "hot").unwrap();
    assert!(!renamed.adds_to(&old));
    let (new, second) = (Arc::new(renamed), index(1, IndexedFields::all()));
    let view_before = partition.indexed_view(&old).unwrap();
    partition.set_index(&new, Some(&second)).unwrap();
    let is_indexed = |view: &WideView| view.indexes.fields().next().is_some();
    assert!(is_indexed(&view_before));
    assert!(!is_indexed(&partition.indexed_view(&old).unwrap()));
    // The one before says what the fields are no more, and the new one is not complete.
    assert!(!answers_agree(&partition, &new));
    settle(&env);
    assert!(answers_agree(&partition, &new));
    assert!(!is_indexed(&partition.indexed_view(&old).unwrap()));
}
