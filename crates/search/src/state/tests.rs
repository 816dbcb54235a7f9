//! Changes between any two positions are those of the log, whatever was queried before.

use super::*;
use crate::Change;
use crate::followed_columns::{FollowedColumn, FollowedColumns};
use crate::number_column::First;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use quire_env::Budget;
use quire_index::{DocSet, term};
use quire_model::ordered::Direction;
use quire_model::{Document, ValueRef};
use quire_query::{Column, End, NO_ORDINAL, Path, TermRange, Test};
use std::collections::BTreeSet;
use std::ops::{Bound, Range};

/// Docids are below this.
const DOCS: u32 = 40;

/// A record: the document, and its number; none if it is deleted.
type Logged = (u32, Option<u8>);

#[derive(Debug, Clone)]
enum Step {
    Write(Vec<Logged>),
    /// As `Write`, by a writer that makes ready what changes; it may do so late, or never.
    WriteReady(Vec<Logged>, Made),
    /// The index moves on by part of what it is behind.
    Follow(u8),
    /// A query of a view that is older by some records, and saw the index some records behind.
    Query {
        older: u8,
        behind: u8,
        with_keys: bool,
    },
}

/// When a writer makes ready what changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Made {
    /// Before any view has it, and the views before are queried meanwhile.
    Early,
    /// After a query, which had to read it.
    Late,
}

fn any_step() -> impl Strategy<Value = Step> {
    let record = (
        0..DOCS,
        prop_oneof![1 => Just(None), 4 => (0u8..6).prop_map(Some)],
    );
    let made = prop_oneof![4 => Just(Made::Early), 1 => Just(Made::Late)];
    let few = prop_oneof![3 => Just(0u8), 1 => 0u8..30];
    prop_oneof![
        2 => proptest::collection::vec(record.clone(), 0..30).prop_map(Step::Write),
        3 => (proptest::collection::vec(record, 1..30), made).prop_map(
            |(records, made)| Step::WriteReady(records, made)
        ),
        1 => any::<u8>().prop_map(Step::Follow),
        4 => (few.clone(), few, proptest::bool::weighted(0.1)).prop_map(
            |(older, behind, with_keys)| Step::Query { older, behind, with_keys }
        ),
    ]
}

fn form(with_keys: bool) -> Form {
    Form {
        with_keys,
        ..Form::default()
    }
}

fn document(number: u8) -> Document {
    // Two values, one, or none; of the other field a number, null, or none.
    let text = match number {
        0 => "{}".to_string(),
        1 => r#"{"n":[1,3],"m":null}"#.to_string(),
        2 => r#"{"n":2,"m":4.5}"#.to_string(),
        other => format!(r#"{{"n":{other},"m":{other}}}"#),
    };
    Document::from_json(text.as_bytes()).unwrap()
}

fn number_range(from: i64, to: i64) -> Test {
    let bound = |number| {
        let mut bytes = Vec::new();
        assert!(term::encode(ValueRef::Int(number), &mut bytes));
        Bound::Included(bytes.into())
    };
    Test::Range(TermRange {
        lower: bound(from),
        upper: bound(to),
    })
}

/// The newest records of documents between two positions; a position is a place in the log plus 1.
fn newest(log: &[Logged], after: usize, to: usize) -> BTreeMap<u32, Change> {
    let records = log.iter().enumerate().take(to).skip(after);
    let change = |place: usize, number: &Option<u8>| {
        Change::new(Position(place as u64 + 1), number.map(document))
    };
    records
        .map(|(place, (doc, number))| (*doc, change(place, number)))
        .collect()
}

/// What queries find, and how many positions of the index they say that they saw.
struct Queries {
    state: SearchState,
    built: Position,
}

impl Queries {
    /// What is past takes up to an eighth of some bytes.
    fn new(changes_bytes: u64) -> Queries {
        Queries {
            state: SearchState::new(Budget::new(1 << 20), Budget::new(changes_bytes)),
            built: Position(0),
        }
    }

    /// The columns of two fields are those that all documents have, one of which has several.
    fn check_columns(&mut self, all: &BTreeMap<u32, Change>, changed: &Changed, to: Position) {
        self.built = self.built.next();
        let at = (to, self.built);
        for path in ["m", "n"].map(Path::new) {
            drop(terms_of(&self.state.terms, (&path, all), changed, at));
            if let Some(right) = terms_of(&self.state.numbers, (&path, all), changed, at) {
                self.check_first(&path, &right, changed, to);
            }
        }
    }

    /// The first documents of an order are those by the terms of all documents.
    fn check_first(&self, path: &Path, terms: &[Vec<u8>], changed: &Changed, to: Position) {
        let there = (0..).zip(terms).filter(|(_, term)| !term.is_empty());
        let mut ordered: Vec<(&[u8], u32)> = there.map(|(doc, term)| (&**term, doc)).collect();
        ordered.sort_unstable();
        for direction in [Direction::Ascending, Direction::Descending] {
            let found = self
                .state
                .numbers
                .with_column(path, (changed, to), |column| column.first(direction, 2));
            let last = ordered.get(1).or(ordered.last()).map(|(term, _)| *term);
            let is_first = |(term, _): &&(&[u8], u32)| match direction {
                Direction::Ascending => Some(*term) <= last,
                Direction::Descending => Some(*term) >= last,
            };
            let right: BTreeSet<u32> = ordered.iter().filter(is_first).map(|one| one.1).collect();
            assert_eq!(found, Some(First::Docs(right.into_iter().collect())));
            ordered.reverse();
        }
        let Test::Range(range) = number_range(2, 4) else {
            unreachable!("a range");
        };
        let numbers = &self.state.numbers;
        let sampled =
            numbers.with_column(path, (changed, to), |column| column.sampled(&range, DOCS));
        let inside = ordered.iter().filter(|(term, _)| range.contains(term));
        // So few documents are all in the sample.
        let sampled = sampled.map(|sampled| (sampled.found, sampled.docs));
        assert_eq!(sampled, Some((inside.count() as u64, DOCS.into())));
    }
}

/// The terms of all documents as a column has them, if it is kept: they are checked.
fn terms_of<C: FollowedColumn + Column>(
    followed: &FollowedColumns<C>,
    (path, all): (&Path, &BTreeMap<u32, Change>),
    changed: &Changed,
    (to, built): (Position, Position),
) -> Option<Vec<Vec<u8>>> {
    let read = || {
        let mut column = C::default();
        for (doc, change) in all {
            let document = change.document.as_ref();
            column.set_document(*doc, path, document).ok()?;
        }
        Some(column)
    };
    let found = match followed.column(path, changed, to) {
        Some(found) => found,
        None => {
            let read = || Ok::<_, crate::Error>(read());
            let found = followed.column_if_due(path, (to, built), DOCS, read);
            found.unwrap()?
        }
    };
    let docs: Vec<u32> = (0..DOCS).collect();
    let terms = |column: &C| {
        let mut ordinals = Vec::new();
        column.ends(&docs, End::Smallest, &mut ordinals).unwrap();
        let terms = ordinals.into_iter().map(|ordinal| {
            let mut term = Vec::new();
            if ordinal != NO_ORDINAL {
                column.term(ordinal, &mut term).unwrap();
            }
            term
        });
        terms.collect::<Vec<_>>()
    };
    let right = terms(&read().expect("one value for each document"));
    assert_eq!(terms(&found), right);
    Some(right)
}

fn check(queries: &mut Queries, log: &[Logged], (after, to): (usize, usize), with_keys: bool) {
    let position = |place: usize| Position(place as u64);
    let found = queries
        .state
        .changes(position(after), position(to), form(with_keys), |known| {
            assert_eq!(known.after(), position(after));
            Ok(Some(newest(log, known.to.0 as usize, to)))
        });
    let changed = found.unwrap().unwrap();
    for doc in newest(log, after, to).keys() {
        assert!(changed.docs().contains(*doc), "a change is missed");
    }
    // Documents that did not change may be there too, as they are.
    let all = newest(log, 0, to);
    let is_there = |(doc, _): &(&u32, &Change)| changed.docs().contains(**doc);
    let expected: BTreeMap<&u32, &Change> = all.iter().filter(is_there).collect();
    assert_eq!(expected.len(), changed.len());
    for (doc, change) in &expected {
        let found = changed.change(**doc).unwrap();
        assert_eq!(
            (found.position, &found.document),
            (change.position, &change.document)
        );
    }
    let docs_where = |is: &dyn Fn(&Document) -> bool| -> DocSet {
        let matching = expected
            .iter()
            .filter(|(_, one)| one.document.as_ref().is_some_and(is));
        matching.map(|(doc, _)| **doc).collect()
    };
    assert_eq!(changed.there(), docs_where(&|_| true));
    assert_eq!(changed.documents().count() as u64, changed.there().len());
    let (path, mut scratch) = (Path::new("n"), Vec::new());
    for test in [number_range(2, 3), number_range(3, 9), Test::Exists] {
        let leaf = quire_query::Leaf {
            path: path.clone(),
            test,
        };
        let mut right = DocSet::empty();
        for (doc, change) in &all {
            let document = change.document.as_ref();
            if document.is_some_and(|one| leaf.accepts(one.root(), &mut scratch)) {
                right.insert(*doc);
            }
        }
        let of_changed = &right & changed.docs();
        assert_eq!(changed.matching(&path, &leaf.test), of_changed);
        let leaves = &queries.state.followed;
        match leaves.docs(&leaf, &changed, position(to)) {
            Some(known) => assert_eq!(*known.docs, right),
            None => leaves.follow(&leaf, Arc::new(right), position(to), false),
        }
    }
    queries.check_columns(&all, &changed, position(to));
    let live = changed.layers().iter().map(|layer| layer.live().len());
    assert_eq!(
        live.sum::<u64>(),
        changed.len() as u64,
        "each is live in one layer"
    );
}

/// Executes steps; what is past takes up to an eighth of some bytes.
fn execute(steps: &[Step], changes_bytes: u64) {
    let mut queries = Queries::new(changes_bytes);
    let (mut log, mut built): (Vec<Logged>, usize) = (Vec::new(), 0);
    for step in steps {
        match step {
            Step::Write(records) => log.extend(records),
            Step::WriteReady(records, made) => {
                let first = log.len();
                log.extend(records);
                let (before, after) = match made {
                    Made::Early => (None, Some(first)),
                    Made::Late => (Some(log.len()), None),
                };
                if let Some(to) = before {
                    check(&mut queries, &log, (built, to), false);
                }
                let positions = (Position(first as u64 + 1), Position(log.len() as u64));
                let changes = newest(&log, first, log.len());
                queries.state.make_ready(positions, changes);
                if let Some(to) = after {
                    check(&mut queries, &log, (built, to), false);
                }
            }
            Step::Follow(part) => built += (log.len() - built) * usize::from(*part) / 255,
            Step::Query {
                older,
                behind,
                with_keys,
            } => {
                let to = log.len().saturating_sub((*older).into());
                let after = built.saturating_sub((*behind).into()).min(to);
                check(&mut queries, &log, (after, to), *with_keys);
            }
        }
    }
}

fn any_bytes() -> impl Strategy<Value = u64> {
    prop_oneof![Just(8_000), Just(128_000), Just(1 << 20)]
}

proptest! {
    #[test]
    fn changes_are_those_of_the_log_and_what_follows_them_is_true(
        steps in proptest::collection::vec(any_step(), 0..80),
        changes_bytes in any_bytes(),
    ) {
        execute(&steps, changes_bytes);
    }
}

#[test]
fn seeded_bugs_of_what_follows_changes_are_found() {
    quire_seeded::assert_each_is_found(Bug::OF_FOLLOWED, || {
        let mut runner = TestRunner::deterministic();
        for _ in 0..200 {
            let steps = proptest::collection::vec(any_step(), 0..80);
            let steps = steps.new_tree(&mut runner).unwrap().current();
            for changes_bytes in [64_000, 1 << 20] {
                execute(&steps, changes_bytes);
            }
        }
    });
}

#[test]
fn what_changed_before_an_older_view_and_is_not_kept_is_not_taken_as_known() {
    let query = |older| Step::Query {
        older,
        behind: 0,
        with_keys: false,
    };
    // A set of position 7 is not brought up to 24 by the changes after 8 alone.
    let mut log = vec![(0, None); 25];
    log[7] = (1, Some(1));
    execute(
        &[
            Step::Write(log),
            query(0),
            query(18),
            Step::Follow(82),
            query(1),
        ],
        8_000,
    );
}

#[test]
fn a_query_of_a_new_position_shares_the_layers_of_the_one_before() {
    let state = SearchState::new(Budget::new(0), Budget::new(1 << 20));
    let log: Vec<Logged> = (0..1000).map(|place| (place % 900, Some(2))).collect();
    let find = |to: usize| {
        let log = &log;
        move |known: &CachedChanges| Ok(Some(newest(log, known.to.0 as usize, to)))
    };
    let (after, old, new) = (Position(0), Position(800), Position(803));
    let before = state
        .changes(after, old, form(false), find(800))
        .unwrap()
        .unwrap();
    let column = before.layers()[0].column(&Path::new("n"));
    let now = state
        .changes(after, new, form(false), find(803))
        .unwrap()
        .unwrap();
    assert_eq!((before.len(), now.len(), now.layers().len()), (800, 803, 2));
    assert!(now.layers()[0].column(&Path::new("n")).is_same(&column));
}

#[test]
fn a_query_after_a_write_that_was_made_ready_reads_no_record() {
    let state = SearchState::new(Budget::new(1 << 20), Budget::new(1 << 20));
    let log: Vec<Logged> = (0..100).map(|place| (place % 40, Some(3))).collect();
    let changes = |to: usize, may_read: bool| {
        let found = state.changes(Position(0), Position(to as u64), form(false), |known| {
            assert!(may_read, "{to} was made ready");
            Ok(Some(newest(&log, known.to.0 as usize, to)))
        });
        found.unwrap().unwrap()
    };
    let make_ready = |first: usize, last: usize| {
        let positions = (Position(first as u64 + 1), Position(last as u64));
        state.make_ready(positions, newest(&log, first, last));
    };
    let field = Path::new("n");
    make_ready(0, 20);
    let before = changes(20, true);
    drop(before.layers()[0].column(&field));
    make_ready(20, 40);
    assert_eq!(changes(20, false).len(), 20, "the write is not seen yet");
    make_ready(40, 50);
    assert_eq!(changes(50, false).len(), 40);
    // No query came since the last one was made ready, and then one did.
    changes(50, false);
    for to in [60, 70, 80, 90] {
        make_ready(to - 10, to);
        assert_eq!(changes(to, false).len(), 40);
    }
    make_ready(90, 95);
    make_ready(95, 100);
    assert_eq!(changes(95, false).len(), 40);
    changes(100, true);
}

#[test]
fn a_writer_keeps_up_a_column_that_no_query_needs_for_a_while() {
    let state = SearchState::new(Budget::new(1 << 20), Budget::new(16_000));
    let (field, log) = (Path::new("n"), vec![(7, Some(3)); 2_000]);
    let changes = |to: usize| {
        let (after, at) = (Position(to as u64 - 1), Position(to as u64));
        let found = state.changes(after, at, form(false), |known| {
            Ok(Some(newest(&log, known.to.0 as usize, to)))
        });
        found.unwrap().unwrap()
    };
    let is_known = |to: usize| {
        let changed = changes(to);
        let column = state.numbers.column(&field, &changed, Position(to as u64));
        column.is_some()
    };
    for built in 1..=2 {
        let at = (Position(1), Position(built));
        let read = || Ok::<_, crate::Error>(Some(Default::default()));
        let column = state.numbers.column_if_due(&field, at, DOCS, read).unwrap();
        assert_eq!(column.is_some(), built == 2);
    }
    drop(changes(1));
    for first in (1..451).step_by(9) {
        let (positions, to) = ((first + 1, first + 9), first + 9);
        let positions = (Position(positions.0 as u64), Position(positions.1 as u64));
        state.make_ready(positions, newest(&log, first, to));
        drop(changes(to));
    }
    assert!(is_known(451));
    for to in (451..2_000).step_by(9) {
        drop(changes(to));
    }
    assert!(!is_known(2_000), "it is forgotten what changed since");
}

#[test]
fn what_is_past_leaves_half_of_the_budget_to_other_partitions() {
    let budget = Budget::new(1 << 20);
    let log: Vec<Logged> = (0..5_000).map(|place| (place % 40, Some(3))).collect();
    let follow = |state: &SearchState, records: Range<usize>| {
        for to in records.step_by(40) {
            let (after, at) = (Position(to as u64 - 40), Position(to as u64));
            let found = state.changes(after, at, form(false), |known| {
                Ok(Some(newest(&log, known.to.0 as usize, to)))
            });
            drop(found.unwrap().unwrap());
        }
        let cached = state.changed.lock();
        cached.as_ref().map(|(known, _)| known.changed.past_bytes())
    };
    let states: Vec<_> = (0..4)
        .map(|_| SearchState::new(Budget::new(0), Arc::clone(&budget)))
        .collect();
    let past: Vec<_> = states
        .iter()
        .filter_map(|state| follow(state, 40..4_000))
        .collect();
    assert_eq!(past.len(), 4, "each keeps what changed");
    assert!(past[0] > 100_000, "{past:?}");
    let charged = 2 * past.iter().sum::<usize>() as u64;
    assert!(charged <= budget.limit() / 2, "{past:?}");
    let full = budget.charge(budget.limit() - budget.used());
    assert!(follow(&states[0], 4_000..5_000).is_none_or(|past| past == 0));
    drop(full);
}

#[test]
fn many_small_values_of_a_changed_document_count_with_what_its_columns_take() {
    let bytes = |json: String| {
        let document = Document::from_json(json.as_bytes()).unwrap();
        let length = document.as_bytes().len();
        (Change::new(Position(1), Some(document)).bytes(), length)
    };
    let (many, length) = bytes(format!("{{\"n\":[7{}]}}", ",7".repeat(100_000)));
    assert!(2 * many >= length + 100_000 * 80, "{many}");
    let (one, length) = bytes(format!("{{\"n\":\"{}\"}}", "7".repeat(100_000)));
    assert!(one < length + 100, "{one}");
}
