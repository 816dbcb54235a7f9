//! `weighted_avg`.

use quiredb::query::{Facet, FacetKind, Metric};
use serde_json::Value as Json;

use super::body::Body;
use super::kind::Kind;
use crate::http::failure::Outcome;

pub(super) fn weighted_avg(body: &Json) -> Outcome<(Kind, Facet)> {
    let body = Body::of("weighted_avg", body, &["value", "weight"])?;
    let part = |name: &'static str| {
        let part = body.get(name);
        let part = part.ok_or_else(|| body.refused(&format!("it needs a [{name}]")))?;
        Body::of(name, part, &["field", "missing"])
    };
    let (value, weight) = (part("value")?, part("weight")?);
    let metric = Metric::WeightedAvg {
        path: value.field()?,
        weight: weight.field()?,
        weight_missing: weight.missing()?,
    };
    let missing = value.missing()?;
    let facet = FacetKind::Metric {
        metric,
        missing,
        cast: None,
    };
    Ok((Kind::Metric("weighted_avg"), facet.into()))
}
