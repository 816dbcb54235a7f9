//! [`FacetPlan`]: facets that were checked, with the fields and the filters of all of them.

use super::facet::{
    BucketKey, BucketOrderBy, Buckets, FACET_DEPTH_MAX, FACETS_MAX, Facet, FacetKind, Missing,
};
use super::hdr::DIGITS_MAX;
use super::metric::{Metric, Quantiles};
use crate::measure::Measure;
use crate::tree::{Node, TreeBuilder};
use crate::{Error, Path, Result};

/// Parts that the key of a bucket may have.
const SOURCES_MAX: usize = 16;

/// Percents of one facet.
const PERCENTS_MAX: usize = 100;

/// Hits of one bucket.
const BUCKET_HITS_MAX: u64 = 10_000;

/// Ranges of one facet by date.
const RANGES_MAX: usize = 1024;

/// The facets of a query.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct FacetPlan {
    /// Each field once.
    pub(crate) fields: Vec<Path>,
    pub(crate) filters: Vec<Node>,
    pub(crate) roots: Vec<PlanNode>,
}

/// A facet, its fields and filters by number.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PlanNode {
    pub(crate) facet: Facet,
    /// Of each source, of the metric, or of each order.
    pub(crate) fields: Vec<usize>,
    /// Of each bucket.
    pub(crate) filters: Vec<usize>,
    pub(crate) inner: Vec<PlanNode>,
}

impl FacetPlan {
    /// # Errors
    /// `Invalid` if a facet makes no sense, or there are too many.
    pub(crate) fn new(facets: &[(String, Facet)], builder: &mut TreeBuilder) -> Result<FacetPlan> {
        let mut plan = FacetPlan::default();
        let mut left = FACETS_MAX;
        let roots = facets.iter();
        let roots = roots.map(|(_, facet)| plan.node(facet, 1, &mut left, builder));
        plan.roots = roots.collect::<Result<_>>()?;
        Ok(plan)
    }

    fn node(
        &mut self,
        facet: &Facet,
        depth: usize,
        left: &mut usize,
        builder: &mut TreeBuilder,
    ) -> Result<PlanNode> {
        if depth > FACET_DEPTH_MAX {
            let what = format!("facets are nested more than {FACET_DEPTH_MAX} deep");
            return Err(Error::Invalid(what));
        }
        *left = left
            .checked_sub(1)
            .ok_or_else(|| Error::Invalid(format!("a query has more than {FACETS_MAX} facets")))?;
        check(facet)?;
        let (mut fields, mut filters) = (Vec::new(), Vec::new());
        match &facet.kind {
            FacetKind::Buckets(buckets) => {
                for source in &buckets.by {
                    fields.push(self.field(&source.path)?);
                }
            }
            FacetKind::Filters(of_buckets) => {
                for filter in of_buckets {
                    filters.push(self.filters.len());
                    self.filters.push(builder.add(filter.clone())?);
                }
            }
            FacetKind::Metric { metric, .. } => {
                for path in metric.path().into_iter().chain(metric.weight()) {
                    fields.push(self.field(path)?);
                }
            }
            FacetKind::Hits { order, .. } => {
                for order in order {
                    fields.push(self.field(&order.path)?);
                }
            }
        }
        let inner = facet.inner.iter();
        let inner = inner.map(|(_, facet)| self.node(facet, depth + 1, left, builder));
        Ok(PlanNode {
            inner: inner.collect::<Result<_>>()?,
            facet: facet.clone(),
            fields,
            filters,
        })
    }

    fn field(&mut self, path: &Path) -> Result<usize> {
        path.check()?;
        let place = self.fields.iter().position(|other| other == path);
        Ok(place.unwrap_or_else(|| {
            self.fields.push(path.clone());
            self.fields.len() - 1
        }))
    }
}

fn check(facet: &Facet) -> Result<()> {
    let refused = |what: String| Err(Error::Invalid(what));
    match &facet.kind {
        FacetKind::Buckets(buckets) => check_buckets(buckets, facet),
        FacetKind::Filters(_) => Ok(()),
        kind if !facet.inner.is_empty() => refused(format!("there are facets in {kind}")),
        FacetKind::Hits { skip, limit, .. } => match skip.saturating_add(*limit) {
            0..=BUCKET_HITS_MAX => Ok(()),
            _ => refused(format!("a bucket has more than {BUCKET_HITS_MAX} hits")),
        },
        FacetKind::Metric { metric, .. } => match metric {
            Metric::Measure(
                Measure::Terms { .. } | Measure::Histogram { .. } | Measure::Group(_),
            ) => refused("a metric of a bucket is one value".into()),
            Metric::Measure(Measure::Of(..)) => {
                refused("a metric of a bucket is about one field".into())
            }
            Metric::Measure(Measure::Percentile { percent, .. })
                if !(0.0..=100.0).contains(percent) =>
            {
                refused(format!("a percentile is {percent}, not from 0 to 100"))
            }
            Metric::Percentiles(.., Quantiles::Digits(digits))
            | Metric::PercentsBelow(.., Quantiles::Digits(digits))
                if *digits > DIGITS_MAX =>
            {
                refused(format!(
                    "numbers have {digits} digits, not 0 to {DIGITS_MAX}"
                ))
            }
            Metric::PercentsBelow(_, numbers, _) => {
                match numbers.len() <= PERCENTS_MAX && numbers.iter().all(|one| one.is_finite()) {
                    true => Ok(()),
                    false => refused(format!(
                        "percents are below up to {PERCENTS_MAX} finite numbers"
                    )),
                }
            }
            Metric::Percentiles(_, percents, _) => {
                let is_percent = |percent: &f64| (0.0..=100.0).contains(percent);
                match percents.len() <= PERCENTS_MAX && percents.iter().all(is_percent) {
                    true => Ok(()),
                    false => refused(format!(
                        "percentiles are up to {PERCENTS_MAX} numbers from 0 to 100"
                    )),
                }
            }
            _ => Ok(()),
        },
    }
}

fn check_buckets(buckets: &Buckets, facet: &Facet) -> Result<()> {
    let refused = |what: String| Err(Error::Invalid(what));
    if !(1..=SOURCES_MAX).contains(&buckets.by.len()) {
        let count = buckets.by.len();
        return refused(format!("a key has {count} parts, not 1 to {SOURCES_MAX}"));
    }
    let after = buckets.after.as_ref();
    if after.is_some_and(|after| after.len() != buckets.by.len()) {
        return refused("the key to go on after has not as many parts as buckets have".into());
    }
    for source in &buckets.by {
        match &source.key {
            BucketKey::Interval { width, offset }
                if !(width.is_finite() && *width > 0.0 && offset.is_finite()) =>
            {
                let what = format!("the interval of a histogram is {width}, not above 0");
                return refused(what);
            }
            BucketKey::DateRanges(ranges) if ranges.len() > RANGES_MAX => {
                return refused(format!("there are more than {RANGES_MAX} ranges"));
            }
            _ => {}
        }
        if matches!(&source.missing, Missing::As(value) if value.term().is_empty()) {
            return refused("the value of documents without one is not a number".into());
        }
    }
    for order in &buckets.order {
        if let BucketOrderBy::Inner { path, .. } = &order.by {
            check_inner(path, facet)?;
        }
    }
    Ok(())
}

fn check_inner(path: &[String], facet: &Facet) -> Result<()> {
    let mut at = facet;
    for (place, name) in path.iter().enumerate() {
        let is_passed = place == 0 || matches!(&at.kind, FacetKind::Filters(all) if all.len() == 1);
        let found = at.inner.iter().find(|(other, _)| other == name);
        match found {
            Some((_, facet)) if is_passed => at = facet,
            _ => {
                let what = format!("{:?} names no facet of one number", path.join(">"));
                return Err(Error::Invalid(what));
            }
        }
    }
    Ok(())
}
