//! The marks and their look-ups against a model: tables in memory, their log of changes, and a
//! reader that is killed now and then. Whatever it does, the documents end as a join makes them.

use super::*;
use crate::dirty::{Dirty, Keys, Related};
use crate::place::Offset;
use proptest::collection::vec;
use proptest::prelude::*;
use quire_env::SimEnv;
use serde_json::json;
use std::collections::BTreeMap;

const COLUMNS: [&[&str]; 3] = [
    &["id", "user_id", "code", "title", "secret"],
    &["id", "name", "seen"],
    &["id", "track_id", "code", "n", "note"],
];

type Row = Vec<Option<i64>>;

/// The rows of each table by id.
type Tables = [BTreeMap<i64, Row>; 3];

/// The documents by key.
type Documents = BTreeMap<String, String>;

fn options() -> MysqlOptions {
    let config = json!({
        "type": "mysql", "url": "mysql://db", "table": "app.tracks",
        "document": {"drop": ["secret"]},
        "join": [
            {"field": "user", "table": "app.users", "kind": "one", "on": {"user_id": "id"},
             "columns": ["name"]},
            {"field": "likes", "table": "app.likes", "kind": "many", "on": {"id": "track_id"},
             "columns": ["n"]},
            {"field": "count", "table": "app.likes", "kind": "count",
             "on": {"code": "code", "user_id": "track_id"}},
            {"field": "sum", "table": "app.likes", "kind": "sum", "sum": "n",
             "on": {"code": "code"}},
            {"field": "title_of", "table": "app.tracks", "kind": "many", "on": {"code": "id"},
             "columns": ["title"]},
        ],
    });
    let config = serde_json::from_value(config).unwrap();
    MysqlOptions::new(&*SimEnv::new(1), &config).unwrap()
}

/// The places of columns of a table.
fn places<'n>(table: usize, names: impl Iterator<Item = &'n String>) -> Vec<usize> {
    let place = |name: &String| COLUMNS[table].iter().position(|column| column == name);
    names.map(|name| place(name).unwrap()).collect()
}

/// Some values of a row; none if one of them is null.
fn some(row: &Row, places: &[usize]) -> Option<Vec<i64>> {
    places.iter().map(|at| row[*at]).collect()
}

/// What a join gives.
fn documents(options: &MysqlOptions, tables: &Tables) -> Documents {
    let documents = tables[0].values().map(|row| {
        let mut document = format!("{:?}", &row[..4]);
        for join in &options.joins {
            let own = some(row, &places(0, join.config.on.keys()));
            let other = places(join.table, join.config.on.values());
            let rows = tables[join.table].values();
            let rows = rows.filter(|row| own.is_some() && some(row, &other) == own);
            let field = match (join.config.kind, join.config.columns.as_deref()) {
                (JoinKind::Count, _) => format!("{}", rows.count()),
                (JoinKind::Sum, _) => format!("{}", rows.filter_map(|row| row[3]).sum::<i64>()),
                (_, columns) => {
                    let shown = places(join.table, columns.unwrap().iter());
                    let rows = rows.map(|row| row[shown[0]]);
                    format!("{:?}", rows.collect::<Vec<_>>())
                }
            };
            document.push_str(&field);
        }
        (row[0].unwrap().to_string(), document)
    });
    documents.collect()
}

/// A change of the log: of a table, a row before and after.
type Logged = (usize, Option<Row>, Option<Row>);

fn values(row: &Option<Row>) -> Option<Vec<Value>> {
    let value = |value: &Option<i64>| value.map_or(Value::NULL, Value::Int);
    row.as_ref().map(|row| row.iter().map(value).collect())
}

fn marks_of(options: &MysqlOptions, (table, before, after): &Logged) -> Vec<Mark> {
    let columns = COLUMNS[*table].iter();
    let columns: Vec<_> = columns
        .map(|name| ((*name).to_owned(), Kind::Number))
        .collect();
    let images = (values(before), values(after));
    let changed = Changed {
        columns: &columns,
        key: &[0],
        before: images.0.as_deref(),
        after: images.1.as_deref(),
    };
    marks(options, *table, &changed).unwrap()
}

/// What happens to a row: a new id and other values, or it goes.
type Op = (usize, i64, i64, Row, bool);

fn any_op() -> impl Strategy<Value = Op> {
    let value = prop_oneof![1 => Just(None), 4 => (0..5_i64).prop_map(Some)];
    (
        0..3_usize,
        0..6_i64,
        0..6_i64,
        vec(value, 4),
        prop::bool::weighted(0.25),
    )
}

/// Applies an op; gives the change, if there is one.
fn apply(tables: &mut Tables, (table, id, to, row, goes): &Op) -> Option<Logged> {
    let rows = &mut tables[*table];
    let before = rows.get(id).cloned();
    let is_there = before.is_some();
    let to = if is_there && rows.contains_key(to) {
        id
    } else {
        to
    };
    let id = if is_there { id } else { to };
    let before = rows.get(id).cloned();
    let after = (!goes).then(|| {
        let values = row.iter().take(COLUMNS[*table].len() - 1);
        let mut row = vec![Some(*to)];
        row.extend(values.copied());
        row
    });
    if before == after {
        return None;
    }
    rows.remove(id);
    if let Some(row) = &after {
        rows.insert(*to, row.clone());
    }
    Some((*table, before, after))
}

/// What a reader does.
#[derive(Debug, Clone)]
enum Action {
    /// Reads changes.
    Read(usize),
    /// Looks a few marks up, in tables that are this many changes ahead of it.
    Look { count: usize, ahead: usize },
    /// Begins again where all was given.
    Kill,
}

fn any_action() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => (1..4_usize).prop_map(Action::Read),
        6 => (1..4_usize, 0..4_usize).prop_map(|(count, ahead)| Action::Look { count, ahead }),
        1 => Just(Action::Kill),
    ]
}

struct Reader<'a> {
    options: &'a MysqlOptions,
    log: &'a [Logged],
    states: &'a [Tables],
    /// Changes that were read, and those that the last look-up saw.
    read: usize,
    seen: usize,
    dirty: Dirty,
    sink: Documents,
}

fn between(at: usize) -> (Offset, String) {
    let file = "binlog.000001".to_owned();
    let offset = at as u64;
    (Offset { file, offset }, String::new())
}

impl Reader<'_> {
    fn act(&mut self, action: &Action) {
        match action {
            Action::Read(count) => {
                for change in self.log.iter().skip(self.read).take(*count) {
                    self.read += 1;
                    for mark in marks_of(self.options, change) {
                        self.dirty.add(mark, 0);
                    }
                }
            }
            Action::Look { count, ahead } => self.look(*count, *ahead),
            Action::Kill => {
                let ended = between(self.read);
                if let Some((at, _)) = self.dirty.settled(&ended) {
                    self.read = at.offset as usize;
                    self.dirty = Dirty::new(between(self.read));
                }
            }
        }
    }

    /// Finds the documents of a few marks, or looks up a few documents.
    fn look(&mut self, count: usize, ahead: usize) {
        // Tables do not go back.
        self.seen = self.seen.max((self.read + ahead).min(self.log.len()));
        let state = &self.states[self.seen];
        self.dirty.turn(&between(self.read));
        if let Some(related) = self.dirty.related(count) {
            let (keys, rest) = self.find(&related, state, count);
            self.dirty.found(&related, keys, rest);
            return;
        }
        let documents = documents(self.options, state);
        for (key, _) in self.dirty.keys(count).unwrap_or_default().0 {
            self.dirty.given(&key);
            match documents.get(&key) {
                Some(document) => self.sink.insert(key, document.clone()),
                None => self.sink.remove(&key),
            };
        }
    }

    /// The keys of related documents: of one mark a few at once.
    fn find(&self, related: &Related, state: &Tables, count: usize) -> (Keys, Option<Vec<String>>) {
        let own = places(0, self.options.joins[related.join].config.on.keys());
        let is_related = |row: &&Row| {
            let found = some(row, &own);
            let found = found.map(|found| found.iter().map(i64::to_string).collect());
            found.is_some_and(|found| related.values.contains(&found))
        };
        let after = related.after.as_ref();
        let after: i64 = after.map_or(-1, |parts| parts[0].parse().unwrap());
        let rows = state[0].values().filter(is_related);
        let ids = rows.map(|row| row[0].unwrap()).filter(|id| *id > after);
        let ids: Vec<String> = ids.map(|id| id.to_string()).collect();
        let count = if related.values.len() == 1 {
            count
        } else {
            ids.len()
        };
        let keys = ids.iter().take(count);
        let keys: Keys = keys.map(|id| (id.clone(), vec![id.clone()])).collect();
        let rest = keys.last().filter(|_| keys.len() < ids.len());
        let rest = rest.map(|(_, parts)| parts.clone());
        (keys, rest)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn documents_end_as_a_join_makes_them(
        ops in vec(any_op(), 1..60),
        actions in vec(any_action(), 0..80),
    ) {
        let options = options();
        let mut tables = Tables::default();
        let (mut log, mut states) = (Vec::new(), vec![tables.clone()]);
        for op in &ops {
            if let Some(change) = apply(&mut tables, op) {
                log.push(change);
                states.push(tables.clone());
            }
        }
        let mut reader = Reader {
            options: &options,
            log: &log,
            states: &states,
            read: 0,
            seen: 0,
            dirty: Dirty::new(between(0)),
            sink: Documents::new(),
        };
        for action in &actions {
            reader.act(action);
        }
        reader.act(&Action::Read(log.len()));
        while !reader.dirty.is_clean() {
            reader.look(2, 0);
        }
        prop_assert_eq!(reader.sink, documents(&options, &tables));
    }
}

#[test]
fn a_change_of_columns_that_no_document_has_marks_nothing() {
    let options = options();
    let row = |values: &[i64]| Some(values.iter().copied().map(Some).collect::<Row>());
    for (change, marked) in [
        ((0, row(&[1, 2, 3, 4, 5]), row(&[1, 2, 3, 4, 6])), 0),
        ((1, row(&[1, 2, 3]), row(&[1, 2, 4])), 0),
        ((2, row(&[1, 2, 3, 4, 5]), row(&[1, 2, 3, 4, 6])), 0),
        // A parent in many documents has one mark.
        ((1, row(&[1, 2, 3]), row(&[1, 3, 3])), 1),
        // Its number is in the array and in the sum, and not in the count.
        ((2, row(&[1, 2, 3, 4, 5]), row(&[1, 2, 3, 5, 5])), 2),
        // It moves from one document to another, in the array and in the count.
        ((2, row(&[1, 2, 3, 4, 5]), row(&[1, 3, 3, 4, 5])), 4),
    ] {
        assert_eq!(marks_of(&options, &change).len(), marked, "{change:?}");
    }
    let null = (2, None, Some(vec![Some(1), None, None, Some(4), None]));
    assert_eq!(marks_of(&options, &null), []);
}
