//! Cases from seeds: few fields and few values, so that queries find something; and values that are
//! easily confused.

use super::case::Case;
use super::generate_facets::facet;
use super::generate_parts::{filter, measure_or_function, order};
use super::seeded::Seeded;
use crate::{Aggregate, Comparison, Grouping, Measure, Query, find};
use quire_model::Document;

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

fn query(words: &mut Seeded) -> Query {
    let mut query = find(filter(words, 0));
    for _ in 0..words.below(4) {
        let path = words.path();
        query.order.push(order(words, path));
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
                false => measure_or_function(words, 10),
            };
            let filter = words.one_in(3).then(|| filter(words, 1));
            let aggregate = Aggregate { what, filter };
            query.aggregates.push((aggregate.to_string(), aggregate));
        }
    }
    if words.one_in(2) {
        for place in 0..1 + words.below(3) {
            query.facets.push((format!("f{place}"), facet(words, 0)));
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
            what: measure_or_function(words, 8),
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
