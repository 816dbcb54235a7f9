//! Answers by definition.

use super::naive_facets::{compare_by, faceted};
pub use super::naive_filter::accepts;
use super::naive_filter::values;
use crate::approximate_distinct::ApproximateDistinct;
use crate::exact_sum::ExactSum;
use crate::formula::Formula;
use crate::meter::Meter;
use crate::percentile::Percentile;
use crate::{
    Aggregate, Aggregated, Answer, Expression, Function, Group, Grouping, Hit, Measure, Query,
    Value,
};
use quire_model::Document;
use quire_model::ordered::Direction;
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};

/// The right answer from documents that are split into shards, unless a limit of memory is met;
/// without an explanation.
#[must_use]
pub fn answer(shards: &[&[Document]], query: &Query) -> Answer {
    let mut matching = Vec::new();
    for (shard, documents) in (0..).zip(shards) {
        for (doc, document) in (0..).zip(*documents) {
            if accepts(&query.filter, document) {
                matching.push((Hit { shard, doc }, document));
            }
        }
    }
    let documents: Vec<_> = matching.iter().map(|(_, document)| *document).collect();
    let aggregates = query.aggregates.iter();
    let aggregates = aggregates.map(|(name, one)| (name.clone(), aggregate(one, &documents)));
    let facets = query.facets.iter();
    let facets = facets.map(|(name, facet)| (name.clone(), faceted(facet, &matching)));
    let facets = facets.collect();
    let (aggregates, count) = (aggregates.collect(), documents.len() as u64);
    // Stable: what is equal stays in the order of shards and docids.
    matching.sort_by(|(_, one), (_, other)| compare(query, one, other));
    let page = matching.into_iter().map(|(hit, _)| hit);
    let page = page.skip(usize::try_from(query.skip).unwrap_or(usize::MAX));
    let limit = query.limit.unwrap_or(u64::MAX);
    Answer {
        hits: page
            .take(usize::try_from(limit).unwrap_or(usize::MAX))
            .collect(),
        count: query.count.then_some(count),
        aggregates,
        facets,
        ..Answer::default()
    }
}

fn compare(query: &Query, one: &Document, other: &Document) -> Ordering {
    compare_by(&query.order, one, other)
}

fn aggregate(aggregate: &Aggregate, documents: &[&Document]) -> Aggregated {
    let filter = aggregate.filter.as_ref();
    let among: Vec<_> = documents
        .iter()
        .copied()
        .filter(|document| filter.is_none_or(|filter| accepts(filter, document)))
        .collect();
    if let Measure::Group(grouping) = &aggregate.what {
        return groups(grouping, &among);
    }
    if aggregate.what == Measure::Count {
        return Aggregated::Count(among.len() as u64);
    }
    // The values of each document, nulls aside.
    let of_document = |document| match (&aggregate.what, aggregate.what.path()) {
        (Measure::Of(_, expression), _) => results(expression, document),
        (_, Some(path)) => values(path, document),
        (_, None) => BTreeSet::new(),
    };
    let sets: Vec<BTreeSet<Value>> = among
        .into_iter()
        .map(|document| {
            let values = of_document(document).into_iter();
            values.filter(|value| *value != Value::null()).collect()
        })
        .collect();
    let all = || sets.iter().flatten();
    let numbers: Vec<_> = all().filter(|value| value.as_f64().is_some()).collect();
    let mut sum = ExactSum::default();
    for number in &numbers {
        sum.add(&number.get(), 1);
    }
    match &aggregate.what {
        Measure::Count | Measure::Group(_) => Aggregated::Count(documents.len() as u64),
        Measure::Min(_) | Measure::Of(Function::Min, _) => Aggregated::Value(all().min().cloned()),
        Measure::Max(_) | Measure::Of(Function::Max, _) => Aggregated::Value(all().max().cloned()),
        Measure::Sum(_) | Measure::Of(Function::Sum, _) => Aggregated::Number(Some(sum.to_f64())),
        Measure::Avg(_) | Measure::Of(Function::Avg, _) => {
            Aggregated::Number(sum.mean(numbers.len() as u64))
        }
        // The sketches have tests of their own.
        Measure::ApproximateDistinct(_) => {
            let mut sketch = ApproximateDistinct::default();
            let mut meter = Meter::new(usize::MAX);
            let added = all().try_for_each(|value| sketch.add(value.term(), &mut meter));
            assert!(added.is_ok(), "the meter has no limit");
            Aggregated::Count(sketch.count())
        }
        Measure::Percentile { percent, .. } => {
            let mut sketch = Percentile::new(*percent);
            let mut meter = Meter::new(usize::MAX);
            let mut numbers = numbers.iter().filter_map(|number| number.as_f64());
            let added = numbers.try_for_each(|number| sketch.add(number, 1, &mut meter));
            assert!(added.is_ok(), "the meter has no limit");
            Aggregated::Number(sketch.value())
        }
        Measure::Distinct(_) => Aggregated::Count(all().collect::<BTreeSet<_>>().len() as u64),
        Measure::Terms { limit, .. } => {
            let mut counts = BTreeMap::new();
            for value in all() {
                *counts.entry(value.clone()).or_insert(0) += 1;
            }
            let mut terms: Vec<_> = counts.into_iter().collect();
            terms.sort_by_key(|(value, count)| (Reverse(*count), value.clone()));
            let others = terms.split_off(terms.len().min(*limit as usize));
            let others = others.into_iter().map(|(_, count)| count).sum();
            Aggregated::Terms { terms, others }
        }
        Measure::Histogram { interval, .. } => {
            let mut counts = BTreeMap::new();
            for set in &sets {
                let numbers = set.iter().filter_map(Value::as_f64);
                let starts = numbers.map(|number| Value::from((number / interval).floor()));
                for start in starts.collect::<BTreeSet<_>>() {
                    *counts.entry(start).or_insert(0) += 1;
                }
            }
            let start = |n: Value| n.as_f64().unwrap_or(0.0) * interval;
            Aggregated::Histogram(
                counts
                    .into_iter()
                    .map(|(n, count)| (start(n), count))
                    .collect(),
            )
        }
    }
}

/// The results of an expression for a document. What operations give has tests of its own.
fn results(expression: &Expression, document: &Document) -> BTreeSet<Value> {
    let results = Formula::new(expression).of_document(
        document.root(),
        &mut Vec::new(),
        &mut Meter::new(usize::MAX),
        &mut 0,
    );
    results
        .map(|results| results.into_iter().collect())
        .unwrap_or_default()
}

fn groups(grouping: &Grouping, documents: &[&Document]) -> Aggregated {
    let mut of_groups: BTreeMap<Vec<Value>, Vec<&Document>> = BTreeMap::new();
    for document in documents {
        let mut keys = vec![Vec::new()];
        for path in &grouping.by {
            let mut values = values(path, document);
            values.remove(&Value::null());
            if values.is_empty() {
                values.insert(Value::null());
            }
            let longer = |key: &Vec<Value>, value: &Value| {
                [key.as_slice(), std::slice::from_ref(value)].concat()
            };
            keys = keys
                .iter()
                .flat_map(|key| values.iter().map(move |value| longer(key, value)))
                .collect();
        }
        for key in keys {
            of_groups.entry(key).or_default().push(document);
        }
    }
    let names: Vec<_> = grouping
        .measures
        .iter()
        .map(|(name, _)| name.clone())
        .collect();
    let value_of = |group: &Group, name: &str| {
        if let Some(place) = names.iter().position(|other| other == name) {
            return match group.measures[place].clone() {
                Aggregated::Count(count) => Some(Value::from(count)),
                Aggregated::Number(number) => number.map(Value::from),
                Aggregated::Value(value) => value,
                _ => None,
            };
        }
        let place = grouping.by.iter().position(|path| path.as_str() == name);
        place.map(|place| group.values[place].clone())
    };
    let mut groups: Vec<Group> = of_groups
        .into_iter()
        .map(|(values, documents)| Group {
            values,
            measures: grouping
                .measures
                .iter()
                .map(|(_, measure)| aggregate(measure, &documents))
                .collect(),
        })
        .filter(|group| {
            grouping.having.iter().all(|having| {
                value_of(group, &having.measure)
                    .is_some_and(|value| having.comparison.holds(&value, &having.value))
            })
        })
        .collect();
    // Stable: equal ones stay in the order of their values.
    groups.sort_by(|one, other| {
        let orders = grouping.order.iter().map(|order| {
            let (one, other) = (value_of(one, &order.name), value_of(other, &order.name));
            let missing = one.is_none().cmp(&other.is_none());
            missing.then_with(|| match order.direction {
                Direction::Ascending => one.cmp(&other),
                Direction::Descending => other.cmp(&one),
            })
        });
        orders.fold(Ordering::Equal, Ordering::then)
    });
    let all = groups.len() as u64;
    groups.truncate(grouping.limit.map_or(usize::MAX, |limit| limit as usize));
    Aggregated::Groups {
        by: grouping.by.clone(),
        names,
        groups,
        all,
    }
}
