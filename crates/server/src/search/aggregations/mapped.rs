//! What the mappings of the collections change of aggregations: fields whose values can't be
//! measured are refused, and dates are counted by their moment, whatever they are written as.

use quiredb::FieldKind;
use quiredb::query::{BucketKey, Buckets, Facet, FacetKind, Path, Rounding, Source, Value};

use super::empty::check;
use super::kind::{Aggregation, DateShape, Kind};
use crate::collections::coerce::Mappings;
use crate::http::failure::{Failure, Outcome};

/// Adapts aggregations to mappings.
///
/// # Errors
/// 400 for a number of a field whose values are text.
pub(crate) fn adapt(all: &mut [Aggregation], mappings: &Mappings) -> Outcome<()> {
    check(all, true)?;
    adapt_all(all, mappings)
}

fn adapt_all(all: &mut [Aggregation], mappings: &Mappings) -> Outcome<()> {
    for one in all {
        adapt_all(&mut one.inner, mappings)?;
        let Some(facet) = &mut one.facet else {
            continue;
        };
        refuse_text(&one.kind, facet, mappings)?;
        mappings.convert_facet(facet)?;
        if let FacetKind::Metric { metric, .. } = &facet.kind
            && let Some(path) = metric.path()
        {
            one.shown = mappings.shown_format(path);
        }
        if let (Kind::Hits(shape), FacetKind::Hits { order, .. }) = (&mut one.kind, &facet.kind) {
            shape.orders.clone_from(order);
        }
        if let FacetKind::Buckets(buckets) = &mut facet.kind {
            adapt_buckets(&one.name, &mut one.kind, buckets, mappings)?;
        }
        facet.inner = Aggregation::facets(&one.inner);
    }
    Ok(())
}

/// A pattern is about texts.
fn refuse_pattern(name: &str, source: &Source, field: Option<FieldKind>) -> Outcome<()> {
    match (&source.key, field) {
        (BucketKey::Value(wanted), Some(field)) if wanted.has_pattern() && !field.is_text() => {
            Err(Failure::illegal_argument(format!(
                "Aggregation [{name}] cannot support regular expression style include/exclude \
                 settings as they can only be applied to string fields. Use an array of values \
                 for include/exclude clauses"
            )))
        }
        _ => Ok(()),
    }
}

/// Counts dates by their moment.
fn adapt_buckets(
    name: &str,
    kind: &mut Kind,
    buckets: &mut Buckets,
    mappings: &Mappings,
) -> Outcome<()> {
    for (place, source) in buckets.by.iter_mut().enumerate() {
        let mut field = mappings.kind(&source.path);
        if let Kind::Terms(shape) = kind {
            shape.field = field.or(shape.field);
            refuse_pattern(name, source, shape.field)?;
            field = shape.field;
        }
        if !field.is_some_and(FieldKind::is_date) {
            continue;
        }
        match kind {
            Kind::Terms(shape) => {
                shape.dates = Some(DateShape::of(mappings.shown_format(&source.path)));
            }
            Kind::MultiTerms(dates) => {
                if let Some(dates) = dates.get_mut(place) {
                    *dates = Some(DateShape::of(mappings.shown_format(&source.path)));
                }
            }
            Kind::Composite(_) => {}
            _ => continue,
        }
        let after = buckets.after.as_mut();
        if count_by_moment(source)
            && let Some(after) = after.and_then(|after| after.get_mut(place))
            && let Some(millis) = after.as_date_millis()
        {
            *after = Value::from(millis);
        }
    }
    Ok(())
}

/// Whether the keys are moments now: a source that selects values compares them as they are
/// written.
fn count_by_moment(source: &mut Source) -> bool {
    let is_all = matches!(&source.key, BucketKey::Value(wanted) if *wanted == Default::default());
    if is_all && let Some(rounding) = Rounding::fixed(1, "UTC") {
        source.key = BucketKey::Date(rounding);
        return true;
    }
    false
}

fn refuse_text(kind: &Kind, facet: &Facet, mappings: &Mappings) -> Outcome<()> {
    let name = match kind {
        Kind::Metric("value_count" | "cardinality") => return Ok(()),
        Kind::Metric(name) => name,
        Kind::Stats => "stats",
        Kind::ExtendedStats(_) => "extended_stats",
        Kind::Percentiles(_) => "percentiles",
        Kind::Histogram(_) => "histogram",
        _ => return Ok(()),
    };
    // Dates are in an order, and no numbers.
    let is_extreme = matches!(name, "min" | "max");
    let refuse = |path: &Path| match mappings.kind(path) {
        Some(field) if field.is_text() || (field.is_date() && !is_extreme) => {
            Err(Failure::illegal_argument(format!(
                "Field [{}] of type [{}] is not supported for aggregation [{name}]",
                path.as_str(),
                field.name()
            )))
        }
        _ => Ok(()),
    };
    match &facet.kind {
        FacetKind::Metric { metric, .. } => {
            let mut paths = metric.path().into_iter().chain(metric.weight());
            paths.try_for_each(refuse)
        }
        FacetKind::Buckets(buckets) => buckets.by.iter().try_for_each(|by| refuse(&by.path)),
        FacetKind::Filters(_) | FacetKind::Hits { .. } => Ok(()),
    }
}
