//! `percentiles`, `percentile_ranks` and `median_absolute_deviation`.

use quiredb::query::{Facet, FacetKind, Metric, Quantiles};
use serde_json::Value as Json;

use super::body::Body;
use super::kind::{Kind, PercentilesShape};
use crate::http::failure::Outcome;
use crate::search::filter::{known, object};

const PERCENTS: [f64; 7] = [1.0, 5.0, 25.0, 50.0, 75.0, 95.0, 99.0];

/// Decimal digits of `hdr` by default, as in OpenSearch.
const DIGITS: u8 = 3;
const DIGITS_MAX: u64 = 5;

const COMMON: [&str; 5] = ["field", "missing", "keyed", "tdigest", "hdr"];

pub(super) fn percentiles(body: &Json) -> Outcome<(Kind, Facet)> {
    let body = Body::of("percentiles", body, &[&COMMON[..], &["percents"]].concat())?;
    let percents = match body.members.get("percents") {
        None => PERCENTS.to_vec(),
        Some(percents) => {
            let is_percent = |percent: &f64| (0.0..=100.0).contains(percent);
            let percents = numbers(percents).filter(|all| all.iter().all(is_percent));
            percents
                .ok_or_else(|| body.refused("[percents] must be a list of numbers from 0 to 100"))?
        }
    };
    let quantiles = quantiles(&body)?;
    let name = match quantiles {
        Quantiles::Interpolated => "tdigest_percentiles",
        Quantiles::Digits(_) => "hdr_percentiles",
    };
    let metric = Metric::Percentiles(body.field()?, percents.clone(), quantiles);
    finish(&body, name, percents, metric)
}

pub(super) fn percents_below(body: &Json) -> Outcome<(Kind, Facet)> {
    let body = Body::of(
        "percentile_ranks",
        body,
        &[&COMMON[..], &["values"]].concat(),
    )?;
    let values = body.get("values").and_then(numbers);
    let values = values.ok_or_else(|| body.refused("it needs [values], a list of numbers"))?;
    let quantiles = quantiles(&body)?;
    let name = match quantiles {
        Quantiles::Interpolated => "tdigest_percentile_ranks",
        Quantiles::Digits(_) => "hdr_percentile_ranks",
    };
    let metric = Metric::PercentsBelow(body.field()?, values.clone(), quantiles);
    finish(&body, name, values, metric)
}

/// The median of how far values are from their median. It is exact, so `compression` changes
/// nothing.
pub(super) fn median_deviation(name: &str, body: &Json) -> Outcome<(Kind, Facet)> {
    let kind = "median_absolute_deviation";
    let body = Body::of(kind, body, &["field", "missing", "compression"])?;
    if let Some(compression) = body.number("compression")?
        && compression <= 0.0
    {
        return Err(body.refused(&format!(
            "[compression] must be greater than 0. Found [{compression:?}] in [{name}]"
        )));
    }
    let (metric, missing) = (Metric::MedianDeviation(body.field()?), body.missing()?);
    Ok((
        Kind::Metric(kind),
        FacetKind::Metric {
            metric,
            missing,
            cast: None,
        }
        .into(),
    ))
}

fn finish(
    body: &Body<'_>,
    name: &'static str,
    numbers: Vec<f64>,
    metric: Metric,
) -> Outcome<(Kind, Facet)> {
    let shape = PercentilesShape {
        name,
        numbers,
        keyed: body.get("keyed").is_none() || body.flag("keyed")?,
    };
    let missing = body.missing()?;
    let facet = FacetKind::Metric {
        metric,
        missing,
        cast: None,
    };
    Ok((Kind::Percentiles(shape), facet.into()))
}

/// A list of finite numbers, one at least.
fn numbers(list: &Json) -> Option<Vec<f64>> {
    let list = list.as_array().filter(|list| !list.is_empty())?;
    let number = |number: &Json| number.as_f64().filter(|number| number.is_finite());
    list.iter().map(number).collect()
}

/// `tdigest` or `hdr`. What is kept of few values is exact, whatever `compression` is.
fn quantiles(body: &Body<'_>) -> Outcome<Quantiles> {
    if let Some(digest) = body.get("tdigest") {
        let members = object(digest, "tdigest")?;
        known(members, "tdigest", &["compression", "execution_hint"])?;
        let compression = members.get("compression").map(Json::as_f64);
        match compression {
            None => {}
            Some(Some(compression)) if compression >= 0.0 => {}
            Some(Some(compression)) => {
                return Err(body.refused(&format!(
                    "[compression] must be greater than or equal to 0. Found [{compression:?}]"
                )));
            }
            Some(None) => return Err(body.refused("[compression] must be a number")),
        }
    }
    let Some(hdr) = body.get("hdr") else {
        return Ok(Quantiles::Interpolated);
    };
    if body.get("tdigest").is_some() {
        return Err(body.refused("only one of [tdigest] and [hdr] can be given"));
    }
    let (members, name) = (object(hdr, "hdr")?, "number_of_significant_value_digits");
    known(members, "hdr", &[name])?;
    match members.get(name).map(Json::as_u64) {
        None => Ok(Quantiles::Digits(DIGITS)),
        Some(Some(digits @ 0..=DIGITS_MAX)) => Ok(Quantiles::Digits(digits as u8)),
        Some(_) => Err(body.refused("[numberOfSignificantValueDigits] must be between 0 and 5")),
    }
}
