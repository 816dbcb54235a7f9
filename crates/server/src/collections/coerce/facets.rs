//! Values of aggregations, converted to the types of mappings.

use quiredb::FieldKind;
use quiredb::query::{
    BucketKey, Buckets, Cast, Facet, FacetKind, Measure, Metric, Source, TextFilter, Value,
};

use super::{Mappings, any_form, number, text_of};
use crate::http::failure::Outcome;
use crate::search::filter::unsupported;

impl Mappings {
    /// Converts the values of the filters of a facet, but not of those in it, and reads the values
    /// of its fields by their types.
    ///
    /// # Errors
    /// As [`convert_query`](Mappings::convert_query).
    pub(crate) fn convert_facet(&self, facet: &mut Facet) -> Outcome<()> {
        match &mut facet.kind {
            FacetKind::Filters(filters) => {
                let all = std::mem::take(filters).into_iter();
                *filters = all.map(|one| self.convert(one)).collect::<Outcome<_>>()?;
            }
            FacetKind::Buckets(buckets) => self.convert_buckets(buckets)?,
            FacetKind::Hits { order, .. } => self.convert_orders(order)?,
            FacetKind::Metric { metric, cast, .. } => {
                if let Some(path) = metric.path() {
                    self.check_formats(path)?;
                }
                let kind = metric.path().and_then(|path| self.cast(path));
                let is_extreme =
                    matches!(metric, Metric::Measure(Measure::Min(_) | Measure::Max(_)));
                *cast = match kind {
                    Some(Cast::Address) => None,
                    // A moment of an answer is milliseconds.
                    Some(Cast::Nanos) if is_extreme => Some(Cast::Date),
                    Some(Cast::Boolean) if is_of_numbers(metric) && !is_extreme => Some(Cast::Flag),
                    kind => kind,
                };
            }
        }
        facet.each_path_mut(&mut |path| {
            self.rename(path);
            Ok(())
        })
    }

    fn convert_buckets(&self, buckets: &mut Buckets) -> Outcome<()> {
        for (place, source) in buckets.by.iter_mut().enumerate() {
            self.check_searchable(&source.path)?;
            // Keys of dates are moments already; addresses are texts in buckets.
            let is_plain = matches!(source.key, BucketKey::Value(_) | BucketKey::Interval { .. });
            let cast = self.cast(&source.path);
            source.cast = cast.filter(|cast| match cast {
                Cast::Number | Cast::Half | Cast::Text | Cast::Boolean => is_plain,
                Cast::DateAs(_) => true,
                _ => false,
            });
            if matches!(
                (&source.cast, &source.key),
                (Some(Cast::Boolean), BucketKey::Interval { .. })
            ) {
                source.cast = Some(Cast::Flag);
            }
            if let (Some(Cast::DateAs(_)), BucketKey::Value(wanted)) = (&source.cast, &source.key)
                && *wanted != TextFilter::default()
            {
                return Err(unsupported(format!(
                    "[include] and [exclude] are not supported for [{}], whose dates have a \
                     format of their own",
                    source.path
                )));
            }
            self.convert_wanted(source)?;
            let after = buckets
                .after
                .as_mut()
                .and_then(|after| after.get_mut(place));
            if let (Some(after), BucketKey::Value(_), Some(kind)) =
                (after, &source.key, self.kind(&source.path))
            {
                *after = key_of(kind, after)?;
            }
        }
        Ok(())
    }

    /// Converts the values that are included and excluded to the form of the keys: any form that
    /// documents may have, without a type.
    fn convert_wanted(&self, source: &mut Source) -> Outcome<()> {
        let kind = self.kind(&source.path);
        if let BucketKey::Value(wanted) = &mut source.key {
            let converted = std::mem::take(wanted).with_values(|value| match kind {
                Some(kind) => key_of(kind, value).map(|key| vec![key]),
                None => Ok(any_form(value.clone())),
            });
            *wanted = converted?;
        }
        Ok(())
    }
}

/// The key that a value stands for where it has this type: null is one too.
fn key_of(kind: FieldKind, value: &Value) -> Outcome<Value> {
    let text = value.as_str();
    match text.as_deref() {
        Some(text) if kind.is_number() => number(kind, text),
        Some("true") if kind == FieldKind::Boolean => Ok(Value::from(true)),
        Some("false") if kind == FieldKind::Boolean => Ok(Value::from(false)),
        None if kind.is_text() && *value != Value::null() => Ok(text_of(value)),
        _ => Ok(value.clone()),
    }
}

/// Whether a metric is about numbers alone: the least and the greatest value may be others.
pub(crate) fn is_of_numbers(metric: &Metric) -> bool {
    !matches!(
        metric,
        Metric::Values(_)
            | Metric::Measure(
                Measure::Count | Measure::Distinct(_) | Measure::ApproximateDistinct(_)
            )
    )
}
