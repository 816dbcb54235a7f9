//! Queries: filters, orders and aggregates, and what the answers are made of.
//!
//! ```
//! use quiredb::query::{Aggregate, Filter, field, find};
//! use quiredb::{Database, Document};
//! # let dir = tempfile::tempdir()?;
//! # let database = Database::open(dir.path())?;
//!
//! let cars = database.collection_or_create("cars", Default::default)?;
//! for json in [r#"{"_id":1,"mark":"audi","price":12}"#, r#"{"_id":2,"mark":"fiat","price":7}"#] {
//!     cars.put(&Document::from_json(json.as_bytes())?)?;
//! }
//! let cheap = find(field("price").lt(10)).aggregate("marks", Aggregate::terms("mark", 5));
//! let page = cars.query(cheap)?;
//! assert_eq!(page.documents[0].document.to_json(), r#"{"_id":2,"mark":"fiat","price":7}"#);
//!
//! let audis = Filter::parse("mark = 'audi' AND price > 10")?;
//! assert_eq!(cars.query(find(audis).with_count())?.count, Some(1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use quire_query::{
    Access, AccessCost, Aggregate, Aggregated, Answer, Bounds, Bucket, BucketKey, BucketOrder,
    BucketOrderBy, Buckets, CalendarUnit, Cast, Clock, Comparison, DEPTH_MAX, DateFormat,
    DateFormats, DateGrain, Error, ErrorKind, Explain, Facet, FacetKind, Faceted, Field, Filter,
    GROUP_FIELDS_MAX, Group, GroupOrder, Grouping, Having, Hit, IN_VALUES_MAX, KnownEnd, Measure,
    Metric, Missing, Options, Order, OrderedAs, PREDICATES_MAX, Path, Pattern, PatternKind,
    Prepared, Quantiles, Query, Result, Rounding, Source, Statistic, Stats, Stop, TextFilter,
    Trace, UnknownFields, Value, field, find, find_all, write_fields,
};
