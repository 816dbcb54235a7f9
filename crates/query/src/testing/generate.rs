//! Cases from seeds: few fields and few values, so that queries find something; and values that are
//! easily confused.

use super::case::Case;
use crate::{Aggregate, Comparison, Filter, Grouping, Measure, Order, Path, Query, Value, find};
use quire_model::Document;
use quire_model::ordered::Direction;
use std::ops::Bound;

/// The fields that queries know: those of documents, and one that none has.
pub const PATHS: [&str; 10] = [
    "mark",
    "price",
    "sold",
    "tags",
    "at.city",
    "at.geo.lat",
    "offers.price",
    "offers.by",
    "odd name",
    "nowhere",
];

/// Values as they stand in JSON. Some are equal and written in different ways.
const VALUES: [&str; 32] = [
    "null",
    "true",
    "false",
    "0",
    "-0.0",
    "1",
    "1.0",
    "-1",
    "2",
    "2.5",
    "1e0",
    "10",
    "9.99",
    "100",
    "-7.25",
    "1e300",
    "9007199254740993",
    "9007199254740992.0",
    "18446744073709551615",
    "\"\"",
    "\"a\"",
    "\"ab\"",
    "\"abc\"",
    "\"b\"",
    "\"A\"",
    "\"a%b\"",
    "\"a_b\"",
    "\"it's\"",
    "\"\\u0000\"",
    "\"\u{fc}\"",
    "\"\u{10ffff}\"",
    "\"10\"",
];

/// Words that decide their own numbers (Vigna's splitmix64).
struct Seeded(u64);

impl Seeded {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        let place = self.below(from.len() as u64) as usize;
        from.get(place).copied().unwrap_or_default()
    }

    fn path(&mut self) -> Path {
        Path::new(self.pick(&PATHS))
    }

    fn json(&mut self) -> &'static str {
        self.pick(&VALUES)
    }

    fn value(&mut self) -> Value {
        let json = format!("{{\"v\":{}}}", self.json());
        let document = Document::from_json(json.as_bytes());
        let value = document
            .as_ref()
            .ok()
            .and_then(|document| document.get("v"));
        value
            .and_then(Value::from_document)
            .unwrap_or(Value::null())
    }
}

impl Case {
    /// The case of a seed: some 40 documents and 12 queries.
    #[must_use]
    pub fn from_seed(seed: u64) -> Case {
        let mut words = Seeded(seed);
        let documents = words.below(80);
        let queries = 4 + words.below(16);
        Case {
            documents: (0..documents)
                .filter_map(|id| Document::from_json(document(id, &mut words).as_bytes()).ok())
                .collect(),
            queries: (0..queries).map(|_| query(&mut words)).collect(),
        }
    }
}

/// A scalar, an array, at times in another.
fn value(words: &mut Seeded) -> String {
    match words.below(8) {
        0 => {
            let items: Vec<_> = (0..words.below(4)).map(|_| words.json()).collect();
            format!("[{}]", items.join(","))
        }
        1 => format!("[{},[{}]]", words.json(), words.json()),
        _ => words.json().to_string(),
    }
}

fn document(id: u64, words: &mut Seeded) -> String {
    let mut fields = vec![format!("\"_id\":{id}")];
    for name in ["mark", "price", "sold", "tags", "odd name"] {
        if !words.one_in(4) {
            fields.push(format!("\"{name}\":{}", value(words)));
        }
    }
    if words.one_in(2) {
        let (city, lat) = (value(words), value(words));
        fields.push(format!(
            "\"at\":{{\"city\":{city},\"geo\":{{\"lat\":{lat}}}}}"
        ));
    }
    if words.one_in(2) {
        let offers: Vec<_> = (0..words.below(3))
            .map(|_| format!("{{\"price\":{},\"by\":{}}}", value(words), words.json()))
            .collect();
        fields.push(format!("\"offers\":[{}]", offers.join(",")));
    }
    format!("{{{}}}", fields.join(","))
}

fn filter(words: &mut Seeded, depth: u64) -> Filter {
    let parts = |words: &mut Seeded| -> Vec<Filter> {
        (0..words.below(4))
            .map(|_| filter(words, depth + 1))
            .collect()
    };
    match words.below(if depth < 3 { 20 } else { 12 }) {
        0 => Filter::Exists(words.path()),
        1 | 2 => {
            let (path, count) = (words.path(), words.below(6));
            Filter::In(path, (0..count).map(|_| words.value()).collect())
        }
        3..=5 => range(words),
        6 => {
            let path = words.path();
            Filter::Prefix(
                path,
                words
                    .pick(&["", "a", "a%", "a_", "ab", "\u{0}", "\u{fc}", "z!"])
                    .to_string(),
            )
        }
        7 if words.one_in(4) => Filter::All,
        7..=11 => Filter::Eq(words.path(), words.value()),
        12 => !filter(words, depth + 1),
        13 => {
            // Two ranges of one field.
            let (one, mut other) = (range(words), range(words));
            if let (Filter::Range(path, ..), Filter::Range(same, ..)) = (&one, &mut other) {
                *same = path.clone();
            }
            one.and(other)
        }
        14..=16 => Filter::Or(parts(words)),
        _ => Filter::And(parts(words)),
    }
}

fn range(words: &mut Seeded) -> Filter {
    let path = words.path();
    let bound = |words: &mut Seeded| match words.below(3) {
        0 => Bound::Included(words.value()),
        1 => Bound::Excluded(words.value()),
        _ => Bound::Unbounded,
    };
    let (lower, upper) = (bound(words), bound(words));
    // Bounds of two types are an error.
    let is_mixed = match (lower.as_ref(), upper.as_ref()) {
        (
            Bound::Included(lower) | Bound::Excluded(lower),
            Bound::Included(upper) | Bound::Excluded(upper),
        ) => {
            std::mem::discriminant(&lower.as_f64()) != std::mem::discriminant(&upper.as_f64())
                || lower.as_str().is_some() != upper.as_str().is_some()
                || (*lower == Value::null()) != (*upper == Value::null())
        }
        _ => false,
    };
    Filter::Range(path, lower, if is_mixed { Bound::Unbounded } else { upper })
}

fn query(words: &mut Seeded) -> Query {
    let mut query = find(filter(words, 0));
    for _ in 0..words.below(4) {
        let path = words.path();
        let direction = match words.one_in(2) {
            true => Direction::Ascending,
            false => Direction::Descending,
        };
        query.order.push(Order { path, direction });
    }
    if words.one_in(2) {
        query.skip = words.below(12);
    }
    if !words.one_in(4) {
        query.limit = Some(words.below(10));
    }
    query.count = words.one_in(2);
    if words.one_in(2) {
        for _ in 0..words.below(4) {
            let what = match words.one_in(4) {
                true => Measure::Group(Box::new(grouping(words))),
                false => measure(words, 10),
            };
            let filter = words.one_in(3).then(|| filter(words, 1));
            let aggregate = Aggregate { what, filter };
            query.aggregates.push((aggregate.to_string(), aggregate));
        }
    }
    query
}

fn grouping(words: &mut Seeded) -> Grouping {
    let by = (0..1 + words.below(3)).map(|_| words.path());
    let mut grouping = Grouping::by(by.collect::<Vec<_>>());
    for place in 0..words.below(4) {
        let filter = words.one_in(4).then(|| filter(words, 1));
        let measure = Aggregate {
            what: measure(words, 8),
            filter,
        };
        grouping = grouping.measure(format!("m{place}"), measure);
    }
    let names: Vec<_> = grouping
        .measures
        .iter()
        .map(|(name, _)| name.clone())
        .collect();
    for name in &names {
        if words.one_in(5) {
            let comparison = match words.below(6) {
                0 => Comparison::Less,
                1 => Comparison::LessOrEqual,
                2 => Comparison::Equal,
                3 => Comparison::NotEqual,
                4 => Comparison::GreaterOrEqual,
                _ => Comparison::Greater,
            };
            grouping = grouping.having(name, comparison, words.value());
        }
    }
    let paths = grouping
        .by
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>();
    for name in names.into_iter().chain(paths) {
        if words.one_in(3) {
            grouping = match words.one_in(2) {
                true => grouping.ascending(name),
                false => grouping.descending(name),
            };
        }
    }
    if words.one_in(3) {
        grouping = grouping.limit(words.below(5));
    }
    grouping
}

/// One of the first `kinds` measures.
fn measure(words: &mut Seeded, kinds: u64) -> Measure {
    let path = words.path();
    match words.below(kinds) {
        0 => Measure::Count,
        1 => Measure::Min(path),
        2 => Measure::Max(path),
        3 => Measure::Sum(path),
        4 => Measure::Avg(path),
        5 => Measure::Distinct(path),
        6 => Measure::ApproximateDistinct(path),
        7 => {
            let percent = words.pick(&["0", "50", "99.9", "100"]).parse();
            let percent = percent.unwrap_or(50.0);
            Measure::Percentile { path, percent }
        }
        8 => Measure::Terms {
            path,
            limit: words.below(6),
        },
        _ => {
            let interval = words
                .pick(&["1", "0.5", "10", "3.7"])
                .parse()
                .unwrap_or(1.0);
            Measure::Histogram { path, interval }
        }
    }
}
