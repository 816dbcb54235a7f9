//! Filters, orders and aggregates over shards of documents. No storage, no I/O.
//!
//! - [`Query`]: a filter, an order, a page and aggregates, written with [`find`] and [`field`];
//!   [`Filter::parse`] reads the WHERE grammar of SQL.
//! - [`Facet`]: documents in buckets, those in buckets again, and measures of each bucket.
//! - [`Shard`]: documents with indexes. A shard answers predicates on one field ([`Leaf`]); and,
//!   or, not, orders, pages and aggregates are computed here.
//! - [`Shards`]: many shards that are queried together, some of which can be skipped.
//! - [`WithConstant`]: a shard with one more field, which has the same value in all its documents.
//! - [`Scan`]: the same answers from documents that have no index.
//! - [`ModelShard`]: a shard in memory without any index, which others are tested against.
//!
//! ```
//! use quire_model::Document;
//! use quire_query::{Filter, ModelShard, Options, field, find};
//!
//! let cars = [r#"{"mark":"audi","price":9000}"#, r#"{"mark":"fiat","price":[500,700]}"#];
//! let cars = cars.iter().map(|car| Document::from_json(car.as_bytes()));
//! let cars = cars.collect::<Result<Vec<_>, _>>()?;
//! let shard = ModelShard::from_iter(cars);
//!
//! let cheap = find(field("price").lt(1_000)).order_by(field("price").ascending());
//! let cheap = cheap.limit(10).with_count();
//! let answer = cheap.prepare()?.answer(&[&shard], &Options::default())?;
//! assert_eq!((answer.count, answer.hits[0].doc), (Some(1), 1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What values are
//! A document's values at a [`Path`] are the scalars found there, through objects and arrays. They
//! are a set: a value that is there twice counts once. They are compared as
//! [terms](quire_index::term): 42 and 42.0 are equal, and null < booleans < numbers < strings. Null
//! is a value, which [`Filter::Exists`] and aggregates ignore.

mod access;
mod aggregate;
mod aggregate_state;
mod aggregated;
mod answer;
mod approximate_distinct;
mod batches;
mod cast;
mod column;
mod computed;
mod constant;
mod dates;
mod element;
mod error;
mod evaluate;
mod exact_sum;
mod execute;
mod explain;
mod expression;
mod facets;
mod filter;
mod first;
mod formula;
mod group_columns;
mod groups;
mod having;
mod hit;
mod known_end;
mod leaf;
mod measure;
mod meter;
mod mix;
mod model;
mod number_sum;
mod options;
mod order;
mod order_in_shard;
mod ordinal_counter;
mod page;
mod passes;
mod passing;
mod path;
mod pattern;
mod percentile;
mod plan;
mod prepared;
mod projection;
mod query;
mod run;
mod run_all;
mod scan;
mod shard;
mod shards;
mod shuffle;
mod slice;
mod sort;
mod term_range;
mod terms;
mod tested;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod text;
mod threshold;
mod timer;
mod top;
mod tree;
mod value;
mod values;
mod workers;

pub use access::{Access, AccessCost};
pub use aggregated::{Aggregated, Group};
pub use answer::Answer;
pub use batches::Batches;
pub use cast::Cast;
pub use column::{Column, End, NO_ORDINAL, Ordinals};
pub use constant::{Constant, WithConstant};
pub use dates::{DateFormat, DateFormats, DateGrain};
pub use error::{Error, ErrorKind, Result};
pub use explain::{Explain, Trace};
pub use expression::{Expression, Function, Operator};
pub use facets::{
    Bucket, BucketKey, BucketOrder, BucketOrderBy, Buckets, CalendarUnit, Facet, FacetKind,
    Faceted, Metric, Missing, Quantiles, Rounding, Source, Statistic, Stats, TextFilter,
};
pub use filter::{Field, Filter, field};
pub use having::{Comparison, GroupOrder, Having};
pub use hit::Hit;
pub use known_end::KnownEnd;
pub use leaf::{Leaf, Test};
pub use measure::{Aggregate, GROUP_FIELDS_MAX, Grouping, Measure};
pub use model::ModelShard;
pub use options::{Clock, Options, Stop, UnknownFields};
pub use order::{Order, OrderedAs};
pub use path::Path;
pub use pattern::{Pattern, PatternKind};
pub use plan::PlanCost;
pub use prepared::{Prepared, Use};
pub use projection::write_fields;
pub use query::{Query, find, find_all};
pub use scan::Scan;
pub use shard::{
    AccessCosts, Cost, Estimate, FieldInfo, Found, Segment, Shard, TermPair, WantedFirst,
};
pub use shards::{Execute, Merged, Places, Shards};
pub use term_range::{TermBounds, TermRange, ordinals_between};
pub use tree::{DEPTH_MAX, IN_VALUES_MAX, PREDICATES_MAX};
pub use value::{Bounds, Value};
pub use workers::{RunAll, Workers};
