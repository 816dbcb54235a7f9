//! Facets: documents in buckets, those of each bucket in buckets again, and what is measured of
//! each.
//!
//! All facets of a query are computed in one pass over its documents: [`FacetPlan`] has the tree,
//! its fields and its filters; [`FacetState`] grows by segments of columns, or by documents; and
//! what it gives is a [`Faceted`] for each [`Facet`].

mod buckets;
mod column;
mod deviation;
mod documents;
mod facet;
mod faceted;
mod finish;
mod hdr;
mod join;
mod keys;
mod metric;
mod plan;
mod rounding;
mod state;
mod statistic;
mod text_filter;
mod weighted;

pub(crate) use documents::Documents;
pub use facet::{
    BucketKey, BucketOrder, BucketOrderBy, Buckets, Facet, FacetKind, Missing, Source,
};
pub use faceted::{Bucket, Faceted, Stats};
#[cfg(any(test, feature = "testing"))]
pub(crate) use finish::{compare_numbers, number_at};
#[cfg(any(test, feature = "testing"))]
pub(crate) use keys::{interval_start, is_within};
#[cfg(any(test, feature = "testing"))]
pub(crate) use metric::MetricState;
pub use metric::{Metric, Quantiles};
pub(crate) use plan::FacetPlan;
pub use rounding::{CalendarUnit, Rounding};
pub(crate) use state::{FacetState, Segment};
pub use statistic::Statistic;
pub use text_filter::TextFilter;
