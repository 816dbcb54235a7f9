//! Text of queries.

use super::{Target, Way};
use quire_query::testing::{Case, naive};
use quire_query::{Aggregate, Filter, ModelShard, Options, Order, Shard, find};
use quiredb::Document;
use std::fmt::Display;

/// A filter, an order, an aggregate, or documents with queries; the first byte says which.
pub(super) const QUERY: Target = Target {
    name: "query",
    run: query,
    seeds,
    has_checksums: false,
    bytes_max: 64 << 20,
};

fn seeds() -> Vec<Vec<u8>> {
    let filters = [
        "a = 1 AND (b <> 'it''s' OR NOT c.\"odd name\" IS NOT NULL)",
        "a IN (1, -2.5, 'x', TRUE, NULL) AND b NOT BETWEEN 'a' AND 'b'",
        "a LIKE '50!%%' ESCAPE '!' OR b NOT LIKE 'x%' OR FALSE",
        "RANGE(a, '>=', 1e300, '<', 18446744073709551615) -- so\n/* and so */",
        "NOT ((((a >= -0.0)))) AND @timestamp < 9007199254740993",
    ];
    let others = [
        (1, "price desc, at.added ASC, \"odd name\""),
        (2, "TERMS(mark, 10) WHERE price > 0"),
        (2, "histogram(a.b, 0.5)"),
    ];
    let case = Case::from_seed(7).to_string();
    let filters = filters.iter().map(|text| (0, *text));
    let texts = filters.chain(others).chain([(3, case.as_str())]);
    texts
        .map(|(selector, text)| [&[selector], text.as_bytes()].concat())
        .collect()
}

fn query(input: &[u8]) -> Way {
    let Some((selector, text)) = input.split_first() else {
        return Way(0);
    };
    let Ok(text) = std::str::from_utf8(text) else {
        return Way(1);
    };
    let done = match selector % 4 {
        0 => Filter::parse(text).map(|filter| {
            reads_again(&filter, Filter::parse);
            answers(&filter);
            filter.to_string().len() as u64
        }),
        1 => Order::parse_list(text).map(|orders| {
            for order in &orders {
                reads_again(order, |text| Ok(Order::parse_list(text)?.remove(0)));
            }
            orders.len() as u64
        }),
        2 => Aggregate::parse(text).map(|aggregate| {
            reads_again(&aggregate, Aggregate::parse);
            1
        }),
        _ => Case::parse(text).map(|case| {
            reads_again(&case, Case::parse);
            case.queries.len() as u64
        }),
    };
    // Quoted text and text found instead of an expected token may be anything, and is not part of
    // the path.
    let done = done.map_err(|error| {
        let text = error.to_string();
        let front = text.split(['"', '\'']).next().unwrap_or_default();
        front
            .split(", found")
            .next()
            .unwrap_or_default()
            .to_string()
    });
    Way(u64::from(selector % 4)).and(Way::of_result(&done))
}

/// Written queries are read back equal.
fn reads_again<T: Display>(one: &T, parse: impl Fn(&str) -> quire_query::Result<T>) {
    let text = one.to_string();
    match parse(&text) {
        Ok(again) => assert_eq!(again.to_string(), text),
        Err(error) => panic!("{text:?} was written, and is not read: {error}"),
    }
}

/// A filter gives what its definition says.
fn answers(filter: &Filter) {
    let documents = [
        r#"{"a":1,"b":"it's","c":{"odd name":null}}"#,
        r#"{"a":[-2.5,"50%"],"b":["a","c"]}"#,
    ];
    let documents = documents.map(|json| Document::from_json(json.as_bytes()).unwrap());
    let query = find(filter.clone()).with_count();
    if let Ok(prepared) = query.clone().prepare() {
        let shard: ModelShard = documents.iter().cloned().collect();
        let shards: [&dyn Shard; 1] = [&shard];
        let answer = prepared.answer(&shards, &Options::default()).unwrap();
        assert_eq!(answer, naive::answer(&[&documents], &query));
        for (document, accepts) in documents.iter().map(|one| (one, prepared.accepts(one))) {
            assert_eq!(accepts, naive::accepts(filter, document));
        }
    }
}
