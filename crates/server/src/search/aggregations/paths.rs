//! Paths that name a number of what aggregations say.

use quiredb::query::{BucketOrderBy, Statistic};

use super::kind::{Aggregation, Kind};
use crate::http::failure::Outcome;
use crate::search::filter::unsupported;

/// What buckets are ordered by, of a path such as `one>two.max`.
///
/// # Errors
/// 400 if it names nothing.
pub(super) fn order_by(inner: &[Aggregation], path: &str) -> Outcome<BucketOrderBy> {
    match path {
        "_count" => return Ok(BucketOrderBy::Count),
        "_key" | "_term" => return Ok(BucketOrderBy::Key),
        _ => {}
    }
    let refused = || unsupported(format!("[order]: [{path}] names no number of a bucket"));
    let (mut names, mut level) = (Vec::new(), inner);
    let mut rest = path;
    while let Some((name, after)) = rest.split_once('>') {
        let one = level
            .iter()
            .find(|one| one.name == name)
            .ok_or_else(refused)?;
        if !matches!(one.kind, Kind::Single(_)) {
            return Err(refused());
        }
        names.push(name.to_owned());
        (level, rest) = (&one.inner, after);
    }
    let (name, part) = number_of(level, rest);
    let one = level
        .iter()
        .find(|one| one.name == name)
        .ok_or_else(refused)?;
    let statistic = statistic(one, part).ok_or_else(refused)?;
    names.push(name.to_owned());
    Ok(BucketOrderBy::Inner {
        path: names,
        statistic,
    })
}

/// The name of an aggregation, and of the number of it, in `name`, `name.number` or `name[number]`.
pub(super) fn number_of<'a>(level: &[Aggregation], text: &'a str) -> (&'a str, &'a str) {
    if level.iter().any(|one| one.name == text) {
        return (text, "");
    }
    if let Some((name, rest)) = text.split_once('[') {
        return (name, rest.strip_suffix(']').unwrap_or(rest));
    }
    // A percent may have a dot.
    let dots = text.match_indices('.').map(|(at, _)| at);
    let mut splits = dots.filter_map(|at| Some((text.get(..at)?, text.get(at + 1..)?)));
    let found = splits.find(|(name, _)| level.iter().any(|one| one.name == *name));
    found.unwrap_or((text, ""))
}

/// One number of what an aggregation says.
pub(super) fn statistic(one: &Aggregation, part: &str) -> Option<Statistic> {
    match (&one.kind, part) {
        (Kind::Metric(_), "" | "value") => Some(Statistic::Value),
        (Kind::Single(_), "" | "_count" | "doc_count") => Some(Statistic::Count),
        (Kind::Stats | Kind::ExtendedStats(_), "count") => Some(Statistic::Count),
        (Kind::Stats | Kind::ExtendedStats(_), "min") => Some(Statistic::Min),
        (Kind::Stats | Kind::ExtendedStats(_), "max") => Some(Statistic::Max),
        (Kind::Stats | Kind::ExtendedStats(_), "sum") => Some(Statistic::Sum),
        (Kind::Stats | Kind::ExtendedStats(_), "avg") => Some(Statistic::Avg),
        (Kind::ExtendedStats(_), "sum_of_squares") => Some(Statistic::SumOfSquares),
        (Kind::ExtendedStats(_), "variance" | "variance_population") => Some(Statistic::Variance),
        (Kind::ExtendedStats(_), "std_deviation" | "std_deviation_population") => {
            Some(Statistic::Deviation)
        }
        (Kind::Percentiles(shape), part) => {
            let percent: f64 = part.parse().ok()?;
            let place = shape.numbers.iter().position(|other| *other == percent)?;
            Some(Statistic::Percentile(place))
        }
        _ => None,
    }
}
