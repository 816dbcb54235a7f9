//! A reindex from a source whose readers begin with the rows as they are.

use crate::reindex::{NEW, Stage, quiet};
use quire_ship::{Change, Cursor, Error, ReindexEvent, Result, Source, Topic};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A table of a database. Rows that a reader begins with have the position of that moment, and of
/// rows that were deleted before it learns nothing.
#[derive(Debug, Clone, Default)]
struct Table(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    rows: BTreeMap<String, Value>,
    log: Vec<(String, Option<Value>)>,
}

struct Reader {
    table: Table,
    /// The position of the rows; none if they were not read yet.
    begin: Option<u64>,
}

impl Table {
    fn new(rows: u64) -> Table {
        let table = Table::default();
        for row in 0..rows {
            table.write(&row.to_string(), Some(json!({"n": row})));
        }
        table
    }

    fn write(&self, key: &str, row: Option<Value>) {
        let mut state = self.0.lock().unwrap();
        match row.clone() {
            Some(row) => drop(state.rows.insert(key.to_owned(), row)),
            None => drop(state.rows.remove(key)),
        }
        state.log.push((key.to_owned(), row));
    }

    fn rows(&self) -> BTreeMap<String, Value> {
        self.0.lock().unwrap().rows.clone()
    }
}

impl Source for Table {
    fn identity(&self) -> String {
        "table".to_owned()
    }

    fn grows(&self) -> bool {
        false
    }

    fn count(&self) -> Result<Option<u64>> {
        Ok(Some(self.rows().len() as u64))
    }

    fn has_dense_positions(&self) -> bool {
        false
    }

    fn open(&self, place: Option<&Value>) -> Result<Box<dyn Topic>> {
        Ok(Box::new(Reader {
            table: self.clone(),
            begin: place.and_then(|place| place["begin"].as_u64()),
        }))
    }
}

impl Topic for Reader {
    fn read(&mut self, cursor: &Cursor, _: usize, _: Duration) -> Result<Vec<Change>> {
        let state = self.table.0.lock().unwrap();
        let change = |position, key: &String, row: Option<&Value>| Change {
            partition: 0,
            position,
            time_micros: 0,
            key: key.as_str().into(),
            document: row.map(|row| row.to_string().into()),
        };
        let Some(begin) = self.begin else {
            let begin = state.log.len() as u64;
            self.begin = Some(begin);
            let rows = state.rows.iter();
            return Ok(rows
                .map(|(key, row)| change(begin, key, Some(row)))
                .collect());
        };
        let after = begin.max(cursor.position(0));
        let log = (1..).zip(&state.log).skip(after as usize);
        let changes = log.map(|(position, (key, row))| change(position, key, row.as_ref()));
        Ok(changes.collect())
    }

    fn place(&self) -> Option<Value> {
        Some(json!({ "begin": self.begin }))
    }
}

#[test] // The comparison reads them anew, at later positions than the index has as versions.
fn rows_that_are_read_anew_do_not_differ_by_their_positions() {
    let (stage, table) = (Stage::new("7.10.2", ""), Table::new(30));
    let reindex = stage.reindex();
    let observe = |event: &ReindexEvent| {
        if let ReindexEvent::Journal(said) = event
            && said.says == "The new index is green."
        {
            table.write("7", Some(json!({"n": 70})));
        }
    };
    let found = reindex.run(&table, &observe, &|| false).unwrap();
    assert_eq!((found.differences, found.compared), (Vec::new(), 30));
    assert_eq!(
        reindex.switch(&table, false, &quiet, &|| false).unwrap(),
        NEW
    );
    assert_eq!(stage.documents(NEW), table.rows());
}

/// A shard begins again with what it had, and a row is deleted before the rows are read anew.
/// The run is killed after that many steps. Returns whether it was.
fn lose_a_shard(kill: usize) -> bool {
    let (stage, table) = (Stage::new("7.10.2", ""), Table::new(40));
    {
        let mut state = stage.cluster.state();
        (state.dies_after_bulks, state.is_synced) = (Some(2), true);
    }
    let reindex = stage.reindex();
    let is_deleted = AtomicBool::new(false);
    let observe = |event: &ReindexEvent| {
        if matches!(event, ReindexEvent::Waiting { why } if why.contains("began again"))
            && !is_deleted.swap(true, Ordering::Relaxed)
        {
            table.write("3", None);
        }
    };
    let from = stage.steps();
    let stop = || stage.steps() - from >= kill;
    let was_killed = match reindex.run(&table, &observe, &stop) {
        Ok(_) => false,
        Err(Error::Stopped) => true,
        Err(error) => panic!("killed at {kill}: {error}"),
    };
    let found = reindex.run(&table, &observe, &|| false).unwrap();
    assert_eq!(found.differences, [], "killed at {kill}");
    assert_eq!(stage.documents(NEW), table.rows(), "killed at {kill}");
    assert!(is_deleted.into_inner());
    was_killed
}

#[test]
fn a_row_that_was_deleted_before_rows_are_read_anew_is_not_left_in_the_index() {
    let mut kill = 1;
    while lose_a_shard(kill) {
        kill += 1;
    }
    assert!(kill > 10, "only {kill} steps");
}
