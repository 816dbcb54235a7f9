//! Filters and measures of seeds.

use super::seeded::Seeded;
use crate::{Cast, Expression, Filter, Function, Measure, Order, OrderedAs, Path, Pattern, Value};
use quire_model::ordered::Direction;
use std::ops::Bound;

/// Bounds of dates: some are one moment.
const DATES: [&str; 6] = [
    "2025-12-31T23:59:59.999Z",
    "2026",
    "2026-01-31T23:00:00",
    "2026-02-01",
    "2026-02-02T23:00:00.250Z",
    "0000-01-01",
];

/// Bounds of addresses: some are one address.
const ADDRESSES: [&str; 5] = ["::", "10.0.0.7", "0:0::ffff:10.0.0.7", "10.0.1.0", "ffff::"];

/// Bounds of texts: some are those of numbers.
const TEXTS: [&str; 5] = ["", "1", "10", "audi", "true"];

pub(super) fn filter(words: &mut Seeded, depth: u64) -> Filter {
    let parts = |words: &mut Seeded| -> Vec<Filter> {
        (0..words.below(4))
            .map(|_| filter(words, depth + 1))
            .collect()
    };
    match words.below(if depth < 3 { 20 } else { 12 }) {
        0 => Filter::Exists(words.tested_path()),
        1 | 2 => {
            let (path, count) = (words.tested_path(), words.below(6));
            Filter::In(path, (0..count).map(|_| words.value()).collect())
        }
        3..=5 => range(words),
        6 => {
            let path = words.tested_path();
            Filter::Prefix(
                path,
                words
                    .pick(&["", "a", "a%", "a_", "ab", "\u{0}", "\u{fc}", "z!"])
                    .to_string(),
            )
        }
        7 if words.one_in(4) => Filter::All,
        7 if words.one_in(2) => {
            let path = words.tested_path();
            let pattern = words.pick(&[
                "%a%",
                "_",
                "a_",
                "%b",
                "_b%",
                "%!%%",
                "a",
                "A%",
                "%\u{dc}_%",
            ]);
            // No pattern ends with the letter that escapes.
            let pattern = match words.below(3) {
                0 => Pattern::regexp(words.pick(&[
                    ".*a.*",
                    "a|b.",
                    "[a-f]+",
                    "a.*",
                    "",
                    "@b@",
                    r"\d+.*",
                    "a%?",
                    "(\u{fc}|a)*",
                ])),
                1 => {
                    let text = words.pick(&["a", "ab", "ba", "", "audi", "\u{fc}a", "10"]);
                    let (edits, prefix) = (words.below(3), words.below(3));
                    Pattern::fuzzy(text, edits as u32, prefix as u32)
                }
                _ => Pattern::like(pattern, Some('!')),
            };
            let pattern = pattern
                .unwrap_or_else(|error| unreachable!("a pattern that was written down: {error}"));
            match words.one_in(2) {
                true => Filter::Like(path, pattern.ignoring_case()),
                false => Filter::Like(path, pattern),
            }
        }
        8 if words.one_in(3) => match range(words) {
            // Strings that hold no number are among the bounds of ranges.
            Filter::Range(path, lower, upper) => {
                Filter::Cast(Cast::Number, path, numeral(lower), numeral(upper))
            }
            other => other,
        },
        8 if words.one_in(2) => {
            let (cast, bounds): (_, &[&str]) = match words.below(3) {
                0 => (Cast::Date, &DATES),
                1 => (Cast::Address, &ADDRESSES),
                _ => (Cast::Text, &TEXTS),
            };
            let path = words.tested_path();
            let mut bound = || match words.below(3) {
                0 => Bound::Included(Value::from(words.pick(bounds))),
                1 => Bound::Excluded(Value::from(words.pick(bounds))),
                _ => Bound::Unbounded,
            };
            Filter::Cast(cast, path, bound(), bound())
        }
        9 if words.one_in(4) => Filter::Slice {
            path: words.tested_path(),
            number: u32::from(words.one_in(2)),
            max: 2,
        },
        7..=11 => Filter::Eq(words.tested_path(), words.value()),
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

/// The bound, if it is a number.
fn numeral(bound: Bound<Value>) -> Bound<Value> {
    match bound {
        Bound::Included(value) if value.as_f64().is_some() => Bound::Included(value),
        Bound::Excluded(value) if value.as_f64().is_some() => Bound::Excluded(value),
        _ => Bound::Unbounded,
    }
}

fn range(words: &mut Seeded) -> Filter {
    let path = words.tested_path();
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

/// One of the first `kinds` measures.
pub(super) fn measure(words: &mut Seeded, kinds: u64) -> Measure {
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

/// One of the first `kinds` measures, or a function of arithmetic.
pub(super) fn measure_or_function(words: &mut Seeded, kinds: u64) -> Measure {
    let function = match words.below(24) {
        0 => Function::Min,
        1 => Function::Max,
        2 => Function::Sum,
        3 => Function::Avg,
        _ => return measure(words, kinds),
    };
    Measure::Of(function, operation(words, 2))
}

/// Arithmetic with a field in it.
fn operation(words: &mut Seeded, depth: u64) -> Expression {
    let one = Expression::Field(words.path());
    let other = match words.below(4) {
        0 => Expression::number(words.below(5)),
        1 => Expression::number(0.25),
        2 if depth > 0 => operation(words, depth - 1),
        _ => Expression::Field(words.path()),
    };
    match words.below(4) {
        0 => one + other,
        1 => one - other,
        2 => other * one,
        _ => other / one,
    }
}

/// An order by a field: mostly of its values as they are.
pub(super) fn order(words: &mut Seeded, path: Path) -> Order {
    let direction = match words.one_in(2) {
        true => Direction::Ascending,
        false => Direction::Descending,
    };
    let by = match (words.one_in(8), cast(words)) {
        (true, _) => OrderedAs::NotNull,
        (false, Some(cast)) => OrderedAs::Cast(cast),
        (false, None) => OrderedAs::Value,
    };
    let missing_first = by != OrderedAs::Value && words.one_in(2);
    Order {
        path,
        direction,
        by,
        missing_first,
        missing: None,
    }
}

/// Mostly none.
pub(super) fn cast(words: &mut Seeded) -> Option<Cast> {
    match words.below(12) {
        0 => Some(Cast::Number),
        1 => Some(Cast::Text),
        2 => Some(Cast::Boolean),
        _ => None,
    }
}
