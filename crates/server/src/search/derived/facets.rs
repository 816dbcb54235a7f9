//! Aggregations of fields that no mapping gives a type, by the values that the documents have.
//!
//! Booleans are measured as 1 and 0, and texts of numbers as numbers. Measures of other texts are
//! refused, as those of a field with such a type are: they would be of nothing.

use quiredb::query::{BucketKey, Cast, Facet, FacetKind, Measure, Metric, Missing, Path, Value};

use super::{Derive, Values};
use crate::collections::coerce::facets::is_of_numbers;
use crate::collections::coerce::number_or_boolean;
use crate::http::failure::{Failure, Outcome};
use crate::search::aggregations::name_of;

impl Derive<'_> {
    /// Recursion is as deep as the aggregations of a request, which parsing bounds.
    pub(super) fn facet(&mut self, facet: &mut Facet) -> Outcome<()> {
        match &mut facet.kind {
            FacetKind::Metric {
                metric,
                missing,
                cast: cast @ None,
            } if is_of_numbers(metric) => {
                if let Some(path) = metric.path().cloned() {
                    *cast = self.measured(&path, metric)?;
                    if let Some(value) = missing {
                        self.meant(&path, value)?;
                    }
                }
            }
            FacetKind::Buckets(buckets) => {
                for (place, source) in buckets.by.iter_mut().enumerate() {
                    if source.cast.is_some() {
                        continue;
                    }
                    let path = source.path.clone();
                    match &source.key {
                        BucketKey::Interval { .. } => {
                            source.cast = self.numbers(&path, "histogram")?;
                        }
                        BucketKey::Value(_) => {
                            if let Missing::As(value) = &mut source.missing {
                                self.meant(&path, value)?;
                            }
                            let after = buckets.after.as_mut();
                            if let Some(value) = after.and_then(|after| after.get_mut(place)) {
                                self.meant(&path, value)?;
                            }
                        }
                        BucketKey::Date(_) | BucketKey::DateRanges(_) => {}
                    }
                }
            }
            FacetKind::Metric { .. } | FacetKind::Filters(_) | FacetKind::Hits { .. } => {}
        }
        let mut inner = facet.inner.iter_mut();
        inner.try_for_each(|(_, facet)| self.facet(facet))
    }

    /// As what a metric measures the values of a field.
    fn measured(&mut self, path: &Path, metric: &Metric) -> Outcome<Option<Cast>> {
        // The least and the greatest may be of any kind.
        if let Metric::Measure(Measure::Min(_) | Measure::Max(_)) = metric {
            let is_of_numerals = self.values(path)? == Some(Values::Numerals);
            return Ok(is_of_numerals.then_some(Cast::Number));
        }
        self.numbers(path, name_of(metric))
    }

    /// As what values are numbers for an aggregation of this name.
    ///
    /// # Errors
    /// 400 for texts that are no numbers.
    fn numbers(&mut self, path: &Path, name: &str) -> Outcome<Option<Cast>> {
        let what = match self.values(path)? {
            Some(Values::Booleans) => return Ok(Some(Cast::Flag)),
            Some(Values::Numerals) => return Ok(Some(Cast::Number)),
            Some(Values::Dates) => "dates",
            Some(Values::Texts) => "texts",
            Some(Values::Numbers | Values::NumbersAndDates | Values::NumbersAndTexts) | None => {
                return Ok(None);
            }
        };
        Err(Failure::illegal_argument(format!(
            "Field [{path}] is not supported for aggregation [{name}]: the documents have {what} \
             there, and no numbers"
        )))
    }

    /// A text that is a number or a boolean stands for it where the documents have these.
    fn meant(&mut self, path: &Path, value: &mut Value) -> Outcome<()> {
        let meant = value.as_str().and_then(|text| number_or_boolean(&text));
        if let Some(meant) = meant
            && matches!(self.values(path)?, Some(Values::Numbers | Values::Booleans))
        {
            *value = meant;
        }
        Ok(())
    }
}
