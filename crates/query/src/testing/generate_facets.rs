//! Facets of seeds, nested in each other.

use super::generate_parts::{cast, filter, measure, order};
use super::seeded::Seeded;
use crate::{
    BucketKey, BucketOrder, BucketOrderBy, Buckets, CalendarUnit, Cast, Facet, FacetKind, Metric,
    Missing, Quantiles, Rounding, Source, Statistic, TextFilter,
};
use quire_model::ordered::Direction;

/// Facets are nested less deep than this.
const DEPTH_MAX: u64 = 3;

/// A facet, which is nested `depth` deep.
pub(super) fn facet(words: &mut Seeded, depth: u64) -> Facet {
    let is_inner = depth > 0;
    let mut facet = match words.below(if depth < DEPTH_MAX { 10 } else { 4 }) {
        0 if is_inner => FacetKind::Hits {
            order: (0..words.below(3))
                .map(|_| {
                    let path = words.path();
                    order(words, path)
                })
                .collect(),
            skip: words.below(2),
            limit: words.below(4),
        }
        .into(),
        0..=3 => FacetKind::Metric {
            metric: metric(words),
            missing: words
                .one_in(4)
                .then(|| words.value())
                .filter(|v| *v != crate::Value::null()),
            cast: facet_cast(words),
        }
        .into(),
        4 => Facet::from(FacetKind::Filters(
            (0..1 + words.below(2)).map(|_| filter(words, 1)).collect(),
        )),
        _ => Facet::buckets(buckets(words)),
    };
    if matches!(facet.kind, FacetKind::Filters(_) | FacetKind::Buckets(_)) {
        for place in 0..words.below(3) {
            facet = facet.with(format!("f{place}"), self::facet(words, depth + 1));
        }
    }
    let names: Vec<_> = facet.inner.iter().map(|(name, _)| name.clone()).collect();
    if let (FacetKind::Buckets(buckets), Some(name), true) =
        (&mut facet.kind, names.first(), words.one_in(2))
    {
        let statistic = match words.below(3) {
            0 => Statistic::Avg,
            1 => Statistic::Count,
            _ => Statistic::Value,
        };
        let path = vec![name.clone()];
        let by = BucketOrderBy::Inner { path, statistic };
        let direction = direction(words);
        buckets.order.insert(0, BucketOrder { by, direction });
    }
    facet
}

fn direction(words: &mut Seeded) -> Direction {
    match words.one_in(2) {
        true => Direction::Ascending,
        false => Direction::Descending,
    }
}

fn metric(words: &mut Seeded) -> Metric {
    let quantiles = Quantiles::Interpolated;
    match words.below(9) {
        0 => Metric::Values(words.path()),
        1 | 2 => Metric::Stats(words.path()),
        3 => Metric::Percentiles(words.path(), vec![0.0, 50.0, 99.0], quantiles),
        4 => Metric::PercentsBelow(words.path(), vec![-1.0, 3.0], quantiles),
        5 => Metric::MedianDeviation(words.path()),
        _ => Metric::Measure(measure(words, 8)),
    }
}

fn buckets(words: &mut Seeded) -> Buckets {
    let sources = if words.one_in(4) { 2 } else { 1 };
    let mut buckets = Buckets::by((0..sources).map(|_| source(words)).collect::<Vec<_>>());
    for _ in 0..words.below(2) {
        let by = match words.one_in(2) {
            true => BucketOrderBy::Count,
            false => BucketOrderBy::Key,
        };
        let direction = direction(words);
        buckets.order.push(BucketOrder { by, direction });
    }
    buckets.limit = words.one_in(2).then(|| words.below(5));
    buckets.documents_min = words.below(3);
    if words.one_in(4) {
        buckets.after = Some((0..sources).map(|_| words.value()).collect());
    }
    buckets
}

fn source(words: &mut Seeded) -> Source {
    let key = match words.below(8) {
        0 => BucketKey::Interval {
            width: words
                .pick(&["1", "0.5", "10", "3.7"])
                .parse()
                .unwrap_or(1.0),
            offset: words.pick(&["0", "0.25", "-3"]).parse().unwrap_or(0.0),
        },
        1 | 2 => BucketKey::Date(rounding(words)),
        3 => BucketKey::DateRanges(vec![
            (None, Some(1_769_900_000_000)),
            (Some(10), Some(1_769_990_400_000)),
            (Some(0), None),
        ]),
        _ => BucketKey::Value(text_filter(words)),
    };
    Source {
        missing: match words.below(4) {
            0 => Missing::Null,
            1 => Missing::As(words.value()),
            _ => Missing::LeftOut,
        },
        direction: direction(words),
        cast: facet_cast(words),
        ..Source::new(words.path(), key)
    }
}

fn text_filter(words: &mut Seeded) -> TextFilter {
    let only = TextFilter::default();
    match words.below(6) {
        0 => only.including((0..4).map(|_| words.value())),
        1 => only.excluding((0..4).map(|_| words.value())),
        2 => only.including_pattern("a.*").unwrap_or_default(),
        _ => only,
    }
}

fn rounding(words: &mut Seeded) -> Rounding {
    let zone = words.pick(&["UTC", "+03:00", "Europe/Berlin"]);
    let rounding = match words.below(4) {
        0 => Rounding::calendar(CalendarUnit::Day, zone),
        1 => Rounding::calendar(CalendarUnit::Month, zone),
        2 => Rounding::calendar(CalendarUnit::Hour, zone),
        _ => Rounding::fixed(90_000_000, zone),
    };
    let rounding = rounding.or_else(|| Rounding::fixed(1, "UTC"));
    rounding.map_or_else(
        || unreachable!("UTC is a zone"),
        |rounding| rounding.later_by(0),
    )
}

/// Facets are no part of a query's text, so they may have a cast that has none.
fn facet_cast(words: &mut Seeded) -> Option<Cast> {
    match words.one_in(12) {
        true => Some(Cast::Flag),
        false => cast(words),
    }
}
