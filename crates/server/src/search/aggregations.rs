//! `aggs` of a search: the aggregations, and their answers in OpenSearch's shape.
//!
//! [`parse`] makes [facets](quiredb::query::Facet) of them; unknown kinds and options are refused
//! by name before anything is executed. [`complete`] adds to what the facets say the empty buckets
//! and the aggregations of other aggregations (pipelines), and [`write`] writes it.

mod adjacency;
mod body;
mod bucket_kinds;
mod complete;
mod composite;
mod empty;
mod filled;
mod histograms;
mod ip_ranges;
mod key_text;
mod kind;
mod mapped;
mod metric_kinds;
mod moving;
mod parse;
mod paths;
mod percentiles;
mod pipeline;
mod pipeline_kinds;
mod ranges;
mod said;
mod terms;
mod type_names;
mod weighted;
mod write;

pub(crate) use body::Reading;
pub(crate) use complete::complete;
pub(crate) use empty::add_empty;
pub(crate) use kind::Aggregation;
pub(crate) use mapped::adapt;
pub(crate) use metric_kinds::name_of;
pub(crate) use parse::{KINDS, aggregations};
pub(crate) use write::{Answers, write};
