//! Repair of wide collections: rows come out of the whole table files, group by group, and of the
//! log; what may lack cells is reported.

use quiredb::operations::{RepairEvent, RepairReport, repair, verify};
use quiredb::query::{field, find};
use quiredb::wide::{Cell, Change, ColumnType, Operand, RowWrite, Schema};
use quiredb::{
    CollectionSettings, Database, DatabaseBuilder, DatabaseOptions, Document, Env, IndexedFields,
    Key, SimEnv, Volumes,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Rows by key, each by column.
type Rows = BTreeMap<Key, serde_json::Map<String, serde_json::Value>>;

const GROUPS: [(&str, &[&str]); 3] = [
    ("meta", &["title", "hits"]),
    ("content", &["html"]),
    ("links", &["links"]),
];

fn old() -> Volumes {
    Volumes::single("/old")
}

fn new() -> Volumes {
    Volumes::single("/new")
}

fn schema() -> Schema {
    let schema = Schema::new().with_column("title", ColumnType::String, "meta");
    schema
        .and_then(|schema| schema.with_column("hits", ColumnType::Int, "meta"))
        .and_then(|schema| schema.with_column("html", ColumnType::String, "content"))
        .and_then(|schema| schema.with_family("links", ColumnType::Int, "links"))
        .unwrap()
}

/// The rows of the wide collection below a directory.
fn rows(env: &Arc<SimEnv>, volumes: &Volumes) -> Rows {
    let database = DatabaseBuilder::on(volumes)
        .env(env.clone())
        .open()
        .unwrap();
    let pages = database.wide_collection("pages").unwrap();
    let row = |found: quiredb::Result<quiredb::Found>| {
        let found = found.unwrap();
        let json = serde_json::from_str(&found.document.to_json()).unwrap();
        (found.key, json)
    };
    let rows = pages.rows().unwrap().map(row).collect();
    drop(pages);
    database.close().unwrap();
    rows
}

/// A closed database with a wide collection: several flushes, rows that were put twice, patched and
/// deleted, members of a family, and records after the last flush. Also all cells that ever were.
fn database() -> (Arc<SimEnv>, Rows, BTreeSet<String>) {
    let env = SimEnv::new(5);
    let options = DatabaseOptions {
        segment_bytes: 2 << 10,
        ..DatabaseOptions::default()
    };
    let database = DatabaseBuilder::on(&old())
        .env(env.clone())
        .options(options)
        .open()
        .unwrap();
    let settings = CollectionSettings {
        partitions: 2,
        ..CollectionSettings::default()
    };
    let pages = database
        .create_wide_collection("pages", schema(), settings)
        .unwrap();
    let mut cells = BTreeSet::new();
    for number in 0..60_i64 {
        let key = Key::from(number % 17);
        match number % 6 {
            5 => drop(pages.delete(&key).unwrap()),
            3 | 4 => {
                let write = RowWrite::upsert(key.clone())
                    .with(Change::merge("hits", Operand::Add(1)))
                    .with(Change::set("links", Cell::Int(number)).of_member("later"));
                pages.write(&write).unwrap();
            }
            _ => {
                let texts = format!(r#""title":"t{number}","html":"h{number}""#);
                let json = format!(r#"{{{texts},"hits":0,"links":{{"a":{number}}}}}"#);
                let row = Document::from_json(json.as_bytes()).unwrap();
                pages.put(&key, &row).unwrap();
            }
        }
        if let Some(found) = pages.get(&key).unwrap() {
            let json = serde_json::from_str(&found.document.to_json()).unwrap();
            cells.extend(cells_of(&key, &json));
        }
        if number % 20 == 15 {
            pages.flush().unwrap();
        }
    }
    drop(pages);
    database.close().unwrap();
    drop(database);
    let rows = rows(&env, &old());
    (env, rows, cells)
}

/// Each cell of a row, in words.
fn cells_of(key: &Key, row: &serde_json::Map<String, serde_json::Value>) -> Vec<String> {
    let mut cells = Vec::new();
    for (column, value) in row {
        match value.as_object() {
            Some(members) => cells.extend(
                members
                    .iter()
                    .map(|(member, value)| format!("{key} {column} {member} {value}")),
            ),
            None => cells.push(format!("{key} {column} {value}")),
        }
    }
    cells
}

fn repaired(env: &Arc<SimEnv>) -> quiredb::Result<(RepairReport, Vec<RepairEvent>)> {
    let mut events = Vec::new();
    let report = repair(env.clone(), old(), new(), &mut |event| {
        if !matches!(event, RepairEvent::Progress { .. }) {
            events.push(event);
        }
    })?;
    Ok((report, events))
}

fn remove_new(env: &Arc<SimEnv>) {
    env.remove_dir_all(Path::new("/new")).unwrap();
    env.sync_dir(Path::new("/")).unwrap();
}

/// The rows that a repair says may lack something, and of which trees.
fn torn(events: &[RepairEvent]) -> BTreeMap<String, Vec<String>> {
    let torn = events.iter().filter_map(|event| match event {
        RepairEvent::Torn { key, trees, .. } => Some((key.clone(), trees.clone())),
        _ => None,
    });
    torn.collect()
}

fn tables(env: &Arc<SimEnv>) -> Vec<PathBuf> {
    let files = env.files().into_iter();
    files
        .filter(|path| path.starts_with("/old") && path.parent().unwrap().ends_with("tables"))
        .collect()
}

#[test]
fn an_undamaged_wide_collection_comes_out_equal() {
    let (env, expected, _) = database();
    let (report, events) = repaired(&env).unwrap();
    assert!(report.is_whole(), "{events:?}");
    assert_eq!(report.documents, expected.len() as u64);
    assert_eq!(rows(&env, &new()), expected);
    let report = verify(env, new(), &Default::default(), &mut |_, _| {}).unwrap();
    assert!(report.damage.is_empty(), "{:?}", report.damage);
}

#[test]
fn a_lost_table_file_costs_its_tree_alone_and_each_row_that_it_may_concern_is_named() {
    let (_, _, ever) = database();
    let mut kinds = BTreeSet::new();
    for at in 0..tables(&database().0).len() {
        let (env, expected, _) = database();
        let path = &tables(&env)[at];
        let mut bytes = env.read_all(path).unwrap().to_vec();
        bytes[10] ^= 4;
        env.replace(path, &bytes).unwrap();
        let (report, events) = repaired(&env).unwrap();
        assert_eq!((report.damages, report.tables_lost), (1, 1), "{events:?}");
        let (found, torn) = (rows(&env, &new()), torn(&events));
        let trees: BTreeSet<_> = torn.values().flatten().cloned().collect();
        for (key, row) in &found {
            for cell in cells_of(key, row) {
                assert!(
                    ever.contains(&cell) || torn.contains_key(&key.to_string()),
                    "{cell}"
                );
            }
        }
        for (key, row) in &expected {
            let lost = torn.get(&key.to_string()).cloned().unwrap_or_default();
            let is_core = lost.iter().any(|tree| tree == "rows" || tree == "names");
            let Some(found) = found.get(key) else {
                panic!("{}: row {key} is gone", path.display());
            };
            for (group, columns) in GROUPS {
                if is_core || lost.iter().any(|tree| tree == group) {
                    continue;
                }
                for column in columns {
                    assert_eq!(
                        found.get(*column),
                        row.get(*column),
                        "{key} {column} {lost:?}"
                    );
                }
            }
        }
        kinds.extend(trees);
    }
    let groups = ["content", "links", "meta", "names", "rows"].map(String::from);
    assert_eq!(kinds, BTreeSet::from(groups));
}

#[test]
fn no_flipped_byte_of_a_wide_collection_makes_up_a_cell() {
    let (_, _, ever) = database();
    let files = || {
        let files = database().0.files().into_iter();
        let files = files.filter(|path| path.starts_with("/old/c00000001"));
        files.collect::<Vec<_>>()
    };
    for path in files() {
        let (env, _, _) = database();
        let bytes = env.read_all(&path).unwrap().to_vec();
        for at in (0..bytes.len()).step_by(97) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            env.replace(&path, &damaged).unwrap();
            let what = format!("{} at {at}", path.display());
            let (report, events) = repaired(&env).unwrap_or_else(|error| panic!("{what}: {error}"));
            let (found, torn) = (rows(&env, &new()), torn(&events));
            for (key, row) in &found {
                let is_torn = torn.contains_key(&key.to_string());
                let is_unsure = is_torn || !report.is_whole();
                for cell in cells_of(key, row) {
                    assert!(ever.contains(&cell) || is_unsure, "{what}: {cell}");
                }
            }
            remove_new(&env);
        }
    }
}

#[test]
fn a_repair_that_stops_at_any_step_begins_anew() {
    let steps = {
        let (env, _, _) = database();
        let before = env.operations();
        repaired(&env).unwrap();
        env.operations() - before
    };
    for step in (0..steps).step_by(5) {
        let (env, expected, _) = database();
        env.crash_at(env.operations() + step);
        let _ = repaired(&env);
        let env = env.after_crash(step);
        let (report, events) = repaired(&env).unwrap();
        assert!(report.is_whole(), "{events:?}");
        assert_eq!(rows(&env, &new()), expected, "crash at {step}");
    }
}

#[test]
fn damage_to_an_index_of_rows_costs_no_row_and_no_answer() {
    let (env, expected, _) = database();
    let open = |env: &Arc<SimEnv>| {
        let database = DatabaseBuilder::on(&old()).env(env.clone()).open();
        database.unwrap()
    };
    let settled = |env: &Arc<SimEnv>| {
        for _ in 0..100 {
            env.run_due();
            env.advance(std::time::Duration::from_millis(50));
        }
    };
    let answers = |database: &Database| {
        let pages = database.wide_collection("pages").unwrap();
        for hits in 0..4_i64 {
            let has = |row: &&serde_json::Map<_, _>| row.get("hits") == Some(&hits.into());
            let wanted = expected.values().filter(has).count() as u64;
            let page = pages.query(find(field("hits").eq(hits)).with_count());
            assert_eq!(page.unwrap().count, Some(wanted), "hits {hits}");
        }
        let stats = pages.stats().unwrap();
        stats.index.is_some_and(|index| index.complete)
    };
    let indexed = open(&env);
    let all = IndexedFields::all();
    let pages = indexed.set_wide_index("pages", all).unwrap();
    settled(&env);
    pages.flush().unwrap();
    assert!(answers(&indexed));
    drop(pages);
    indexed.close().unwrap();
    drop(indexed);

    let mut of_index = 0;
    for path in tables(&env) {
        let whole = env.read_all(&path).unwrap().to_vec();
        for at in [16, whole.len() / 2, whole.len() - 9] {
            let env = env.after_crash(1);
            let mut damaged = whole.clone();
            damaged[at] ^= 4;
            env.replace(&path, &damaged).unwrap();
            let report = verify(env.clone(), old(), &Default::default(), &mut |_, _| {}).unwrap();
            let lost = report.damage.iter().map(|damage| damage.lost.as_str());
            if !lost
                .clone()
                .any(|lost| lost.contains("builds the tree anew"))
            {
                continue;
            }
            of_index += 1;
            let (_, events) = repaired(&env).unwrap();
            assert!(torn(&events).is_empty(), "{events:?}");
            assert_eq!(rows(&env, &new()), expected);

            let database = open(&env);
            answers(&database);
            settled(&env);
            assert!(answers(&database), "{} at {at}", path.display());
            database.close().unwrap();
        }
    }
    assert!(of_index >= 6, "{of_index} cases of damage to the index");
}
