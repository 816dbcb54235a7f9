//! The aggregations that make buckets.

use quiredb::query::{Facet, FacetKind, Filter, field};
use serde_json::Value as Json;

use super::adjacency::adjacency_matrix;
use super::body::{Body, Reading};
use super::composite::composite;
use super::histograms::{date_histogram, histogram};
use super::ip_ranges::ip_range;
use super::kind::{Aggregation, Kind, QUERIES_MAX};
use super::ranges::{date_range, range};
use super::terms::{multi_terms, rare_terms, terms};
use crate::http::failure::Outcome;

/// Buckets; none if the kind is another. `inner` are the aggregations in it.
pub(super) fn bucket_kind(
    kind: &str,
    body: &Json,
    inner: &[Aggregation],
    reading: &Reading<'_>,
) -> Outcome<Option<(Kind, Facet)>> {
    Ok(Some(match kind {
        "terms" => terms(body, inner)?,
        "rare_terms" => rare_terms(body)?,
        "multi_terms" => multi_terms(body, inner)?,
        "adjacency_matrix" => adjacency_matrix(body, reading)?,
        "histogram" => histogram(body)?,
        "date_histogram" => date_histogram(body, reading)?,
        "range" => range(body)?,
        "date_range" => date_range(body, reading)?,
        "ip_range" => ip_range(body)?,
        "composite" => composite(body, reading)?,
        "filters" => filters(body, reading)?,
        "filter" => {
            let filters = FacetKind::Filters(vec![reading.filter(body)?]);
            (Kind::Single("filter"), filters.into())
        }
        "missing" => {
            let body = Body::of(kind, body, &["field", "missing"])?;
            let has_value = match body.missing()? {
                // Then each document has one.
                Some(_) => Filter::All,
                None => field(body.field()?.as_str()).exists(),
            };
            let filters = FacetKind::Filters(vec![!has_value]);
            (Kind::Single("missing"), filters.into())
        }
        _ => return Ok(None),
    }))
}

fn filters(body: &Json, reading: &Reading<'_>) -> Outcome<(Kind, Facet)> {
    let body = Body::of(
        "filters",
        body,
        &["filters", "other_bucket", "other_bucket_key", "keyed"],
    )?;
    let refused = || body.refused("it needs [filters], a list or an object of queries");
    let (mut names, mut filters) = (None, Vec::new());
    let given = body.get("filters");
    match given.ok_or_else(|| body.refused("[filters] cannot be empty"))? {
        Json::Array(all) => {
            for query in all {
                filters.push(reading.filter(query)?);
            }
        }
        Json::Object(all) => {
            names = Some(all.keys().cloned().collect::<Vec<_>>());
            for query in all.values() {
                filters.push(reading.filter(query)?);
            }
        }
        _ => return Err(refused()),
    }
    if filters.is_empty() {
        return Err(body.refused("[filters] cannot be empty"));
    }
    if filters.len() > QUERIES_MAX {
        return Err(body.refused(&format!("there must be 1 to {QUERIES_MAX} filters")));
    }
    let other = body.text("other_bucket_key")?;
    if other.is_some() || body.flag("other_bucket")? {
        filters.push(!Filter::Or(filters.clone()));
        if let Some(names) = &mut names {
            names.push(other.unwrap_or("_other_").to_owned());
        }
    }
    Ok((Kind::Filters(names), FacetKind::Filters(filters).into()))
}
