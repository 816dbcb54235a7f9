//! [`Aggregation`]: one of a request, read and checked.

use jiff::tz::TimeZone;
use quiredb::FieldKind;
use quiredb::query::{Cast, DateFormat, Facet, FacetKind, Order, Rounding};
use serde_json::{Map, Value as Json};
use std::net::Ipv6Addr;

use super::moving::Moving;
use crate::documents::source::Source;

/// Queries of which one aggregation makes buckets.
pub(super) const QUERIES_MAX: usize = 1024;

/// An aggregation of a request.
#[derive(Debug)]
pub(crate) struct Aggregation {
    pub(crate) name: String,
    pub(super) kind: Kind,
    /// What is computed; none of a pipeline, which is about what others say.
    pub(crate) facet: Option<Facet>,
    /// In the order in which they are computed.
    pub(super) inner: Vec<Aggregation>,
    /// Returned as it is.
    pub(super) meta: Option<Map<String, Json>>,
    /// How the dates of its field are shown, if it measures some.
    pub(super) shown: DateFormat,
}

impl Aggregation {
    /// Whether it measures dates, by their moment.
    pub(super) fn is_of_dates(&self) -> bool {
        let kind = self.facet.as_ref().map(|facet| &facet.kind);
        matches!(
            kind,
            Some(FacetKind::Metric {
                cast: Some(Cast::Date | Cast::DateAs(_)),
                ..
            })
        )
    }
}

/// What kind of an aggregation, and how its answer is written.
#[derive(Debug)]
pub(super) enum Kind {
    Terms(TermsShape),
    /// `multi_terms`: how each part of the key is written, if it is a date.
    MultiTerms(Vec<Option<DateShape>>),
    Histogram(Histogram),
    DateHistogram(DateHistogram),
    Range(Ranges<f64>),
    DateRange(Ranges<f64>, DateShape),
    IpRange(Ranges<Ipv6Addr>),
    /// One bucket: `filter` or `missing`.
    Single(&'static str),
    Filters(Option<Vec<String>>),
    /// `adjacency_matrix`: the names of its buckets. Empty ones are not shown.
    Adjacency(Vec<String>),
    Composite(Vec<CompositeSource>),
    Hits(HitsShape),
    /// One of one number.
    Metric(&'static str),
    Stats,
    /// The number of deviations of its bounds.
    ExtendedStats(f64),
    Percentiles(PercentilesShape),
    Pipeline(Pipeline),
}

/// How `terms` and `rare_terms` are written.
#[derive(Debug, Default)]
pub(super) struct TermsShape {
    /// Those of more documents are not shown: of `rare_terms`.
    pub(super) documents_max: Option<u64>,
    /// The values of documents that do not match have a bucket too.
    pub(super) has_empty: bool,
    /// The type of the values: that of the mapping, or else the one that the request names.
    pub(super) field: Option<FieldKind>,
    /// How dates are written, if the values are.
    pub(super) dates: Option<DateShape>,
}

/// How percentiles and the percents below numbers are written.
#[derive(Debug)]
pub(super) struct PercentilesShape {
    /// The type of the answer.
    pub(super) name: &'static str,
    /// The percents, or the numbers.
    pub(super) numbers: Vec<f64>,
    pub(super) keyed: bool,
}

#[derive(Debug)]
pub(super) struct Histogram {
    pub(super) interval: f64,
    pub(super) offset: f64,
    pub(super) bounds: Option<(f64, f64)>,
    pub(super) hard: HardBounds<f64>,
    pub(super) shape: HistogramShape,
}

#[derive(Debug)]
pub(super) struct DateHistogram {
    pub(super) rounding: Rounding,
    pub(super) bounds: Option<(i64, i64)>,
    pub(super) hard: HardBounds<i64>,
    pub(super) dates: DateShape,
    pub(super) shape: HistogramShape,
}

/// The bounds that the buckets of a histogram are between.
#[derive(Debug, Clone, Copy)]
pub(super) struct HardBounds<T> {
    pub(super) min: Option<T>,
    pub(super) max: Option<T>,
}

/// Which buckets of a histogram are shown.
#[derive(Debug)]
pub(super) struct HistogramShape {
    /// Empty ones are shown if it is 0.
    pub(super) documents_min: u64,
    pub(super) keyed: bool,
    pub(super) order: Option<BucketsOrder>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BucketsOrder {
    KeyDescending,
    CountAscending,
    CountDescending,
}

/// How dates are shown.
#[derive(Debug)]
pub(super) struct DateShape {
    pub(super) format: DateFormat,
    pub(super) zone: TimeZone,
}

impl DateShape {
    /// ISO 8601 in UTC.
    pub(super) fn utc() -> DateShape {
        DateShape::of(DateFormat::ISO)
    }

    /// A format, in UTC.
    pub(super) fn of(format: DateFormat) -> DateShape {
        DateShape {
            format,
            zone: TimeZone::UTC,
        }
    }
}

/// Ranges whose ends are numbers, or addresses of IPv6; those of IPv4 are the ones that stand for
/// them.
#[derive(Debug)]
pub(super) struct Ranges<End> {
    /// In the order in which they are shown.
    pub(super) ranges: Vec<Range<End>>,
    pub(super) keyed: bool,
}

#[derive(Debug)]
pub(super) struct Range<End> {
    pub(super) key: String,
    pub(super) from: Option<End>,
    pub(super) to: Option<End>,
}

impl<End> Ranges<End> {
    /// The key of the range at a place.
    pub(super) fn key(&self, at: usize) -> String {
        let range = self.ranges.get(at);
        range.map_or_else(String::new, |range| range.key.clone())
    }
}

/// A part of the key of a composite.
#[derive(Debug)]
pub(super) struct CompositeSource {
    pub(super) name: String,
    /// Dates are text then, and else milliseconds.
    pub(super) dates: Option<DateShape>,
}

#[derive(Debug)]
pub(super) struct HitsShape {
    pub(super) orders: Vec<Order>,
    pub(super) source: Source,
    pub(super) with_version: bool,
    pub(super) with_seq_no: bool,
}

/// An aggregation of what others say.
#[derive(Debug)]
pub(super) struct Pipeline {
    pub(super) what: PipelineKind,
    /// The names that lead to a number: of a bucket beside it, or of the buckets of one beside it.
    pub(super) path: Vec<String>,
    pub(super) gaps: Gaps,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum PipelineKind {
    /// In each bucket.
    CumulativeSum,
    Derivative,
    MovingFunction(Moving),
    BucketSort {
        by: Vec<(Vec<String>, bool)>,
        from: usize,
        size: Option<usize>,
    },
    /// Beside the buckets.
    Avg,
    Max,
    Min,
    Sum,
    Stats,
}

/// What a bucket without a number is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gaps {
    Skipped,
    Zeros,
}

impl Pipeline {
    /// The names of the aggregations beside it that it is about.
    pub(super) fn needs(&self) -> Vec<&str> {
        let of_path = self.path.first();
        let of_sort = match &self.what {
            PipelineKind::BucketSort { by, .. } => by.as_slice(),
            _ => &[],
        };
        let of_sort = of_sort.iter().filter_map(|(path, _)| path.first());
        let paths = of_path.into_iter().chain(of_sort).map(String::as_str);
        paths
            .filter(|path| !matches!(*path, "_count" | "_key"))
            .collect()
    }
}

impl PipelineKind {
    /// Its name in a request.
    pub(super) fn name(&self) -> &'static str {
        match self {
            PipelineKind::CumulativeSum => "cumulative_sum",
            PipelineKind::Derivative => "derivative",
            PipelineKind::MovingFunction(_) => "moving_fn",
            PipelineKind::BucketSort { .. } => "bucket_sort",
            PipelineKind::Avg => "avg_bucket",
            PipelineKind::Max => "max_bucket",
            PipelineKind::Min => "min_bucket",
            PipelineKind::Sum => "sum_bucket",
            PipelineKind::Stats => "stats_bucket",
        }
    }

    /// Whether it is about the buckets that it stands in.
    pub(super) fn is_within(&self) -> bool {
        matches!(
            self,
            PipelineKind::CumulativeSum
                | PipelineKind::Derivative
                | PipelineKind::MovingFunction(_)
                | PipelineKind::BucketSort { .. }
        )
    }
}

impl Aggregation {
    /// The facets of aggregations that have one, by name.
    pub(crate) fn facets(all: &[Aggregation]) -> Vec<(String, Facet)> {
        let facets = all.iter().filter_map(|one| {
            let facet = one.facet.clone()?;
            Some((one.name.clone(), facet))
        });
        facets.collect()
    }
}
