//! The operations text of a seed: documents, queries, and what happens one after the other.
//!
//! Values are few, so that queries find something, and easily confused: of mixed types in each
//! field, equal and written differently, longer than an index keeps them, text that reads like
//! numbers.

use quire_query::testing::{Case, PATHS};
use quire_query::{Aggregate, Filter, Path, Query, Value, field, find};
use quire_tests::sim::with_key;
use quiredb::{Document, IndexedFields, Key};

/// Keys of documents.
const KEYS: u64 = 30;

/// Numbers from a seed (Vigna's splitmix64).
#[derive(Debug, Clone)]
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end.max(1)
    }

    fn one_of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len() as u64) as usize]
    }
}

/// One thing that happens.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Put(Key, Document),
    Patch(Key, Document),
    Delete(Key),
    Flush,
    Compact,
    RunDue,
    /// This number of milliseconds pass, with what is due in them.
    Pass(u64),
    /// Background work ends.
    Settle,
    Reopen,
    Crash(u64),
    /// The machine stops this number of I/O steps later.
    CrashIn(u64),
    /// Other fields are indexed.
    Index(IndexedFields),
    HoldView,
    /// Log, trees and index are compared.
    Verify,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Text {
    pub(crate) seed: u64,
    pub(crate) partitions: u32,
    pub(crate) index: IndexedFields,
    steps: Vec<Step>,
    case: Case,
    queries: Vec<Query>,
}

impl Text {
    pub(crate) fn of_seed(seed: u64) -> Text {
        let case = Case::from_seed(seed);
        let mut numbers = Numbers(seed ^ 0x5eed);
        let (partitions, index) = (1 + numbers.below(3) as u32, fields(&mut numbers));
        let crashes = numbers.below(3) == 0;
        let steps = (0..60)
            .map(|_| step(&case, &mut numbers, crashes))
            .collect();
        let queries = (0..60).map(|_| query(&case, &mut numbers)).collect();
        Text {
            seed,
            partitions,
            index,
            steps,
            case,
            queries,
        }
    }

    pub(crate) fn steps(&self) -> usize {
        self.steps.len()
    }

    pub(crate) fn step(&self, at: usize) -> &Step {
        &self.steps[at]
    }

    /// The queries after a step.
    pub(crate) fn queries(&self, at: usize) -> impl Iterator<Item = &Query> {
        let of_case = self.case.queries.get(at % (self.case.queries.len() * 2));
        of_case.into_iter().chain(self.queries.get(at))
    }

    pub(crate) fn all_queries(&self) -> impl Iterator<Item = &Query> {
        self.case.queries.iter().chain(&self.queries[..20])
    }
}

/// Which fields are indexed: mostly all.
fn fields(numbers: &mut Numbers) -> IndexedFields {
    let path = numbers.one_of(&PATHS);
    match numbers.below(8) {
        0 => IndexedFields::none(),
        1 => IndexedFields::none().with(path, true),
        2 => IndexedFields::all().with(path, false),
        3 => IndexedFields::all().with("at", false).with("at.geo", true),
        _ => IndexedFields::all(),
    }
}

fn step(case: &Case, numbers: &mut Numbers, crashes: bool) -> Step {
    let key = key(numbers);
    match numbers.below(24) {
        0..8 => {
            let document = document(case, numbers);
            // Some documents have their key.
            let document = match numbers.below(6) {
                0 => with_key(&key, &document),
                _ => document,
            };
            Step::Put(key, document)
        }
        8..11 => Step::Patch(key, document(case, numbers)),
        11 => Step::Delete(key),
        12 => Step::Flush,
        13 => Step::Compact,
        14 | 15 => Step::RunDue,
        16 => Step::Pass(1 + numbers.below(60)),
        17 => Step::Settle,
        18 => Step::Reopen,
        19 if crashes && numbers.below(2) == 0 => Step::Crash(numbers.below(1_000)),
        20 if crashes => Step::CrashIn(numbers.below(60)),
        21 => Step::Index(fields(numbers)),
        22 => Step::HoldView,
        23 if numbers.below(3) == 0 => Step::Verify,
        _ => Step::RunDue,
    }
}

/// Numbers, and names of which some have the greatest length.
fn key(numbers: &mut Numbers) -> Key {
    let number = numbers.below(KEYS);
    match number % 5 {
        0 => Key::parse(&format!("k{number}")).unwrap(),
        1 => Key::parse(&format!("{number}{}", "é".repeat(511))).unwrap(),
        _ => Key::from(number as i64),
    }
}

/// One of the case's documents, or one of stranger values.
fn document(case: &Case, numbers: &mut Numbers) -> Document {
    let known = case
        .documents
        .get(numbers.below(case.documents.len() as u64) as usize);
    let document = match (known, numbers.below(3)) {
        (Some(known), 0) => known.clone(),
        (Some(known), 1) => known.merge_patch(&strange(numbers)).unwrap(),
        _ => strange(numbers),
    };
    document.merge_patch(&parse(r#"{"_id":null}"#)).unwrap()
}

fn parse(json: &str) -> Document {
    Document::from_json(json.as_bytes()).unwrap()
}

/// Values as JSON: long ones differ where an index does not keep them any more.
fn value(numbers: &mut Numbers) -> String {
    let long = |bytes: usize, end: &str| format!("\"{}{end}\"", "x".repeat(bytes));
    match numbers.below(14) {
        0 => long(252 + numbers.below(6) as usize, ""),
        1 => long(300, numbers.one_of(&["", "a", "b"])),
        2 => long(5_000, numbers.one_of(&["", "a"])),
        3 => format!(
            "\"{}\"",
            numbers.one_of(&["NaN", "nan", "Infinity", "-0", "null", "true"])
        ),
        4 => numbers
            .one_of(&[
                "9223372036854775807",
                "-9223372036854775808",
                "1e308",
                "-1e308",
                "5e-324",
            ])
            .to_string(),
        5 => format!(
            "\"{}\"",
            numbers.one_of(&["", "\u{1f980}", "\u{e9}", "e\u{301}", "\\u0000"])
        ),
        6 => format!("[{},{}]", value(numbers), value(numbers)),
        7 => format!("{{\"a\":{},\"\":{}}}", value(numbers), value(numbers)),
        8 => "[]".to_string(),
        9 => "{}".to_string(),
        10 => format!("[[{}],null]", value(numbers)),
        11 => "null".to_string(),
        _ => numbers
            .one_of(&["0", "-0.0", "1", "true", "\"a\"", "\"1\"", "0.1"])
            .to_string(),
    }
}

/// Fields of strange values.
const STRANGE: [&str; 5] = ["mark", "price", "tags", "nested", "odd name"];

fn strange(numbers: &mut Numbers) -> Document {
    let mut fields = Vec::new();
    for name in STRANGE {
        if numbers.below(2) == 0 {
            fields.push(format!("\"{name}\":{}", value(numbers)));
        }
    }
    parse(&format!("{{{}}}", fields.join(",")))
}

/// A value that a document may have.
fn wanted(numbers: &mut Numbers) -> Value {
    loop {
        let document = parse(&format!("{{\"v\":{}}}", value(numbers)));
        let found = document.get("v").and_then(Value::from_document);
        if let Some(found) = found {
            return found;
        }
    }
}

fn path(numbers: &mut Numbers) -> &'static str {
    numbers.one_of(&[
        "mark",
        "price",
        "tags",
        "nested",
        "nested.a",
        "nested.a.a",
        "odd name",
        "_id",
    ])
}

fn filter(numbers: &mut Numbers, depth: u64) -> Filter {
    let one = field(path(numbers));
    match numbers.below(if depth < 2 { 13 } else { 9 }) {
        0 | 1 => one.eq(wanted(numbers)),
        2 => one.is_in(
            (0..numbers.below(4))
                .map(|_| wanted(numbers))
                .collect::<Vec<_>>(),
        ),
        3 => one.starts_with("x".repeat(numbers.below(310) as usize)),
        4 => one.exists(),
        5 => one.gt(wanted(numbers)),
        6 => one.lte(wanted(numbers)),
        7 => one.between("", "x".repeat(numbers.below(310) as usize)),
        8 => one.eq(numbers.below(KEYS).to_string()),
        9 => !filter(numbers, depth + 1),
        10 => filter(numbers, depth + 1).and(filter(numbers, depth + 1)),
        _ => filter(numbers, depth + 1).or(filter(numbers, depth + 1)),
    }
}

fn query(case: &Case, numbers: &mut Numbers) -> Query {
    if numbers.below(3) == 0 {
        return case.queries[numbers.below(case.queries.len() as u64) as usize].clone();
    }
    let mut query = find(filter(numbers, 0));
    for _ in 0..numbers.below(3) {
        let order = field(path(numbers));
        query = query.order_by(match numbers.below(2) {
            0 => order.ascending(),
            _ => order.descending(),
        });
    }
    if numbers.below(2) == 0 {
        query = query.skip(numbers.below(5)).limit(numbers.below(9));
    }
    if numbers.below(2) == 0 {
        query = query.with_count();
    }
    for number in 0..numbers.below(3) {
        let path = Path::new(path(numbers));
        let mut aggregate = match numbers.below(6) {
            0 => Aggregate::count(),
            1 => Aggregate::min(path),
            2 => Aggregate::max(path),
            3 => Aggregate::distinct(path),
            4 => Aggregate::sum(path),
            _ => Aggregate::terms(path, 3),
        };
        if numbers.below(3) == 0 {
            aggregate = aggregate.among(filter(numbers, 1));
        }
        query = query.aggregate(number.to_string(), aggregate);
    }
    query
}
