//! Types of fields that no mapping gives one, by the values that the documents have.
//!
//! A range about such a field compares values as what they are, if the field has values of one
//! kind: numbers by number, texts that are dates by time, other texts by their letters. Where a
//! bound is of another kind than the values, it is converted, or the query is refused: what it
//! would find is not what was meant. Texts that are dates are sorted by time too.
//!
//! The kind is that of the least and the greatest value of the field, which an index finds at
//! once. They are looked up as of the views that are searched.

mod facets;

use std::collections::BTreeMap;
use std::ops::Bound::{self, Excluded, Included, Unbounded};

use quiredb::query::{Cast, Filter, KnownEnd, Order, OrderedAs, Path, Query, Value, field, find};
use quiredb::{Found, ID, View};

use super::dates::is_date_math;
use super::execute::{failed, options};
use super::filter::{INDEX, unsupported};
use crate::collections::coerce::Mappings;
use crate::collections::coerce::dates::between;
use crate::http::failure::{Failure, Outcome};
use crate::objects::filters_of;

/// From this number on, 1973, a number may be the milliseconds of a date.
const MILLIS_MIN: f64 = 1e11;

/// What the values of a field are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Values {
    Numbers,
    /// Texts of dates.
    Dates,
    /// Texts of numbers.
    Numerals,
    /// Texts of any kind.
    Texts,
    Booleans,
    /// Numbers or booleans, and texts of dates.
    NumbersAndDates,
    /// Numbers or booleans, and texts.
    NumbersAndTexts,
}

/// Has the filters of a query, those of its facets too, compare the values of fields without a type
/// by what the documents have, and its facets measure them so.
///
/// # Errors
/// 400 for a bound that can't be compared with the values of its field, and for a measure of
/// texts; those of looking them up.
pub(crate) fn derive_types(
    query: &mut Query,
    mappings: &Mappings,
    views: &[View],
    stop: &(dyn Fn() -> bool + Sync),
) -> Outcome<()> {
    let mut derive = Derive {
        mappings,
        views,
        stop,
        known: BTreeMap::new(),
    };
    for order in &mut query.order {
        derive.order(order)?;
    }
    for (_, facet) in &mut query.facets {
        derive.facet(facet)?;
    }
    let mut filters = filters_of(query).into_iter();
    filters.try_for_each(|filter| derive.filter(filter))
}

/// Whether all values of a field of a view are texts of dates, as far as the least and the greatest
/// tell.
///
/// # Errors
/// Those of looking them up.
pub(crate) fn is_dates(view: &View, path: &str, stop: &(dyn Fn() -> bool + Sync)) -> Outcome<bool> {
    let views = std::slice::from_ref(view);
    Ok(values_of(views, &Path::new(path), stop)? == Some(Values::Dates))
}

struct Derive<'a> {
    mappings: &'a Mappings,
    views: &'a [View],
    stop: &'a (dyn Fn() -> bool + Sync),
    known: BTreeMap<String, Option<Values>>,
}

impl Derive<'_> {
    /// Recursion is as deep as the filter, which parsing bounds.
    fn filter(&mut self, filter: &mut Filter) -> Outcome<()> {
        let derived = match &*filter {
            Filter::And(_) | Filter::Or(_) => None,
            Filter::Not(_) => None,
            Filter::Range(_, Unbounded, Unbounded) => None,
            Filter::Range(path, lower, upper) => self.range(path, lower, upper)?,
            Filter::Cast(Cast::Date, path, lower, upper) => match self.values(path)? {
                Some(Values::Dates) => {
                    Some(between(path.clone(), lower, upper, self.mappings.now())?)
                }
                _ => None,
            },
            Filter::In(path, values) if values.iter().any(may_be_date) => {
                self.any_of(path, values)?
            }
            _ => None,
        };
        if let Some(derived) = derived {
            *filter = derived;
            return Ok(());
        }
        match filter {
            Filter::And(filters) | Filter::Or(filters) => {
                filters.iter_mut().try_for_each(|one| self.filter(one))
            }
            Filter::Not(one) => self.filter(one),
            _ => Ok(()),
        }
    }

    /// Orders texts that are dates by time.
    fn order(&mut self, order: &mut Order) -> Outcome<()> {
        let is_plain = order.by == OrderedAs::NotNull;
        if !is_plain || self.values(&order.path)? != Some(Values::Dates) {
            return Ok(());
        }
        let missing = order.missing.as_ref();
        let millis = missing.map(Value::as_date_millis);
        match millis {
            None => {}
            Some(Some(millis)) => order.missing = Some(Value::from(millis)),
            // It is no date, and in an order with texts alone.
            Some(None) => return Ok(()),
        }
        order.by = OrderedAs::Cast(Cast::Date);
        Ok(())
    }

    /// The values of a field without a type; none if it has one, or no values.
    fn values(&mut self, path: &Path) -> Outcome<Option<Values>> {
        if matches!(path.as_str(), ID | INDEX) || self.mappings.kind(path).is_some() {
            return Ok(None);
        }
        if let Some(known) = self.known.get(path.as_str()) {
            return Ok(*known);
        }
        let values = values_of(self.views, path, self.stop)?;
        self.known.insert(path.as_str().to_owned(), values);
        Ok(values)
    }

    /// A range in the way that fits the values; none if it does as it is.
    fn range(
        &mut self,
        path: &Path,
        lower: &Bound<Value>,
        upper: &Bound<Value>,
    ) -> Outcome<Option<Filter>> {
        let bounds = [lower, upper].map(value_of);
        let bounds = || bounds.into_iter().flatten();
        let math = bounds().find(|bound| is_math(bound));
        let Some(values) = self.values(path)? else {
            return match math {
                Some(math) if self.mappings.kind(path).is_none() => Err(no_date_math(math)),
                _ => Ok(None),
            };
        };
        let cast = |cast, lower: &Bound<Value>, upper: &Bound<Value>| {
            Filter::Cast(cast, path.clone(), lower.clone(), upper.clone())
        };
        let has_numbers = bounds().any(|bound| bound.as_f64().is_some());
        Ok(match values {
            Values::Dates | Values::NumbersAndDates => {
                let now = self.mappings.now();
                Some(between(path.clone(), lower, upper, now)?)
            }
            _ if math.is_some() => return Err(no_date_math(math.unwrap_or(&Value::from("now")))),
            Values::Numbers => {
                let (lower, upper) = (as_number(path, lower)?, as_number(path, upper)?);
                Some(Filter::Range(path.clone(), lower, upper))
            }
            Values::Numerals | Values::NumbersAndTexts if has_numbers => {
                let (lower, upper) = (as_number(path, lower)?, as_number(path, upper)?);
                Some(cast(Cast::Number, &lower, &upper))
            }
            Values::Texts if has_numbers => return Err(no_number(path, bounds())),
            Values::Numerals | Values::Texts | Values::Booleans => None,
            Values::NumbersAndTexts => Some(cast(Cast::Text, lower, upper)),
        })
    }

    /// Any of some values, those that are dates by time; none if the values are no dates.
    fn any_of(&mut self, path: &Path, values: &[Value]) -> Outcome<Option<Filter>> {
        if self.values(path)? != Some(Values::Dates) {
            return Ok(None);
        }
        let (dates, others): (Vec<&Value>, Vec<&Value>) =
            values.iter().partition(|value| may_be_date(value));
        let mut any = vec![Filter::In(
            path.clone(),
            others.into_iter().cloned().collect(),
        )];
        for date in dates {
            let bound = Included(date.clone());
            any.push(between(path.clone(), &bound, &bound, self.mappings.now())?);
        }
        Ok(Some(Filter::Or(any)))
    }
}

/// What the values of a field are; none if it has no values.
fn values_of(
    views: &[View],
    path: &Path,
    stop: &(dyn Fn() -> bool + Sync),
) -> Outcome<Option<Values>> {
    let [least, most] = match View::known_ends(views, path).map_err(failed)? {
        [KnownEnd::NoValue, _] | [_, KnownEnd::NoValue] => return Ok(None),
        [KnownEnd::Value(least), KnownEnd::Value(most)] => [least, most],
        _ => {
            let least = end(views, field(path.as_str()).ascending(), stop)?;
            let most = end(views, field(path.as_str()).descending(), stop)?;
            match [least, most] {
                [Some(least), Some(most)] => [least, most],
                _ => return Ok(None),
            }
        }
    };
    let is_numeral = |value: &Value| {
        let text = value.as_str();
        text.is_some_and(|text| Value::from_numeral(&text).is_some())
    };
    let is_number = |value: &Value| value.as_f64().is_some();
    Ok(Some(match (least.as_str(), most.as_str()) {
        (Some(_), _) if is_date(&least) && is_date(&most) => Values::Dates,
        (Some(_), _) if is_numeral(&least) && is_numeral(&most) => Values::Numerals,
        (Some(_), _) => Values::Texts,
        (None, Some(_)) if is_date(&most) => Values::NumbersAndDates,
        (None, Some(_)) => Values::NumbersAndTexts,
        (None, None) if is_number(&most) => Values::Numbers,
        (None, None) => Values::Booleans,
    }))
}

/// The first value in an order.
fn end(views: &[View], order: Order, stop: &(dyn Fn() -> bool + Sync)) -> Outcome<Option<Value>> {
    let order = order.nulls_last();
    let first = find(Filter::Exists(order.path.clone())).limit(1);
    let first = first.order_by(order.clone()).prepare();
    let first = first.map_err(|error| failed(error.into()))?;
    let answer = match View::query_all(views, &first, &options(stop)) {
        // Its columns are declared, and have one type each.
        Err(quiredb::Error::IsWide { .. }) => return Ok(None),
        answer => answer.map_err(failed)?,
    };
    let found = View::documents_of(views, &answer.hits).map_err(failed)?;
    let first = found.first();
    Ok(first.and_then(|Found { document, .. }| order.value_of(document)))
}

/// Whether a value is text of a date, and not of a number.
fn is_date(value: &Value) -> bool {
    let text = value.as_str();
    text.is_some_and(|text| text.len() > 4 && Value::from_numeral(&text).is_none())
        && value.as_date_millis().is_some()
}

/// Whether a value may be meant as a date.
fn may_be_date(value: &Value) -> bool {
    is_date(value) || value.as_f64().is_some_and(|number| number >= MILLIS_MIN)
}

fn value_of(bound: &Bound<Value>) -> Option<&Value> {
    match bound {
        Included(value) | Excluded(value) => Some(value),
        Unbounded => None,
    }
}

fn is_math(value: &Value) -> bool {
    value.as_str().is_some_and(|text| is_date_math(&text))
}

/// A bound as a number.
fn as_number(path: &Path, bound: &Bound<Value>) -> Outcome<Bound<Value>> {
    let number = |value: &Value| match value.as_str() {
        None => Ok(value.clone()),
        Some(text) => Value::from_numeral(&text).ok_or_else(|| {
            unsupported(format!(
                "failed to create query: For input string: \"{text}\": the documents have numbers \
                 in [{}]; where these are milliseconds, give it the type [date] in the mapping",
                path.as_str()
            ))
        }),
    };
    Ok(match bound {
        Included(value) => Included(number(value)?),
        Excluded(value) => Excluded(number(value)?),
        Unbounded => Unbounded,
    })
}

fn no_number<'v>(path: &Path, mut bounds: impl Iterator<Item = &'v Value>) -> Failure {
    let number = bounds.find(|bound| bound.as_f64().is_some());
    let number = number.map(Value::to_string).unwrap_or_default();
    unsupported(format!(
        "[range] of [{path}] has the number [{number}], and the documents have texts there that \
         are neither all dates nor all numbers: compare with a text, or give the field a type in \
         the mapping",
        path = path.as_str(),
    ))
}

/// Values are compared as they are, so a text such as `now-1d` would be compared by its letters.
fn no_date_math(math: &Value) -> Failure {
    let text = math.as_str().map_or_else(|| math.to_string(), Into::into);
    unsupported(format!(
        "date math is not supported for a field whose values are no dates, and which has not the \
         type date in the mapping: [{text}] must be written out"
    ))
}
