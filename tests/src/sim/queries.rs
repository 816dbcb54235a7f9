//! Queries of histories: of each kind a few, about the fields that documents of histories have.

use super::model::State;
use quire_query::testing::naive;
use quire_query::{Aggregate, Options, Query, field, find, find_all};
use quiredb::{Document, Key, Result, View};
use std::collections::BTreeSet;

/// Queries of one comparison: others have their turn at other positions.
const AT_ONCE: usize = 2;

/// Checks that a view answers queries as its documents do.
///
/// # Errors
/// If it can't be read. What was read before the error is right.
pub(crate) fn check_queries(view: &View, expected: &State) -> Result<()> {
    let documents: Vec<_> = expected
        .iter()
        .map(|(key, (_, text))| with_key(key, &Document::from_json(text.as_bytes()).unwrap()))
        .collect();
    let middle = documents.get(documents.len() / 2);
    let turn: u64 = view.positions().iter().map(|position| position.0).sum();
    let queries = queries(middle);
    let first = turn as usize % queries.len();
    for query in queries.iter().cycle().skip(first).take(AT_ONCE) {
        let right = naive::answer(&[&documents], query);
        let answer = view.query(&query.clone().prepare()?, &Options::default())?;
        assert_eq!(answer.count, right.count, "{query:?}");
        assert_eq!(answer.aggregates, right.aggregates, "{query:?}");
        let found = view.documents(&answer.hits)?;
        assert_eq!(found.len(), right.hits.len(), "{query:?}");
        let keys: BTreeSet<&Key> = found.iter().map(|found| &found.key).collect();
        let all: Vec<&Key> = expected.keys().collect();
        let wanted = right.hits.iter().map(|hit| all[hit.doc as usize]);
        assert_eq!(keys, wanted.collect(), "{query:?}");
    }
    Ok(())
}

/// A document as queries see it: the field `_id` is its key, an integer if the key is one.
pub fn with_key(key: &Key, document: &Document) -> Document {
    let text = key.to_string();
    let integer = text.parse::<i64>().ok();
    let id = match integer.filter(|integer| integer.to_string() == text) {
        Some(integer) => serde_json::json!({ "_id": integer }),
        None => serde_json::json!({ "_id": text }),
    };
    let id = Document::from_json(id.to_string().as_bytes()).unwrap();
    document.merge_patch(&id).unwrap()
}

/// Queries whose hits do not depend on the order of documents that are alike.
fn queries(middle: Option<&Document>) -> Vec<Query> {
    let text = |name| {
        let value = middle.and_then(|one| quire_query::Value::from_document(one.get(name)?));
        value.unwrap_or(quire_query::Value::null())
    };
    let newest = || field("n").descending();
    vec![
        find(field("n").eq(text("n"))).with_count(),
        find(field("n").lte(text("n")).or(field("tags").eq(1))).with_count(),
        find(
            field("tags")
                .is_in(["t", "new"])
                .and(!field("size.seen.at").exists()),
        ),
        find(
            field("text")
                .eq(text("text"))
                .or(field("_id").eq(text("_id"))),
        )
        .with_count(),
        find(field("text").starts_with("a").or(field("f1").eq("new"))),
        find_all().order_by(newest()).limit(3).with_count(),
        find(field("size.bytes").gte(100))
            .limit(0)
            .aggregate("count", Aggregate::count())
            .aggregate("sum", Aggregate::sum("size.half"))
            .aggregate("terms", Aggregate::terms("tags", 2))
            .aggregate(
                "ids",
                Aggregate::distinct("_id").among(field("f0").exists()),
            ),
    ]
}
