//! [`TermRange`]: terms between two bounds, and their ordinals in a column.

use crate::value::write_string;
use crate::{Error, Result, Value};
use quire_index::term;
use std::cmp::Ordering;
use std::fmt;
use std::ops::{Bound, Range};

/// Two bounds, borrowed.
pub type TermBounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// Terms between two bounds, bytewise. The bounds are prefixes of terms and need not be terms.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TermRange {
    /// The lower bound.
    pub lower: Bound<Box<[u8]>>,
    /// The upper bound.
    pub upper: Bound<Box<[u8]>>,
}

/// The ordinals of the terms between two bounds, of a column whose ordinals are below `end`; `of`
/// is its [`ordinal_of`](crate::Column::ordinal_of). It may end before it begins: there is none
/// then.
///
/// # Errors
/// Those of `of`.
pub fn ordinals_between<E>(
    (lower, upper): TermBounds<'_>,
    end: u64,
    of: impl Fn(&[u8]) -> std::result::Result<u64, E>,
) -> std::result::Result<Range<u64>, E> {
    // No term is a prefix of another, so there is none between these.
    let after = |term: &[u8]| of(&[term, &[0]].concat());
    let start = match lower {
        Bound::Unbounded => 0,
        Bound::Included(lower) => of(lower)?,
        Bound::Excluded(lower) => after(lower)?,
    };
    let end = match upper {
        Bound::Unbounded => end,
        Bound::Included(upper) => after(upper)?,
        Bound::Excluded(upper) => of(upper)?,
    };
    Ok(start..end)
}

impl TermRange {
    /// Its bounds.
    #[must_use]
    pub fn bounds(&self) -> TermBounds<'_> {
        (
            self.lower.as_ref().map(AsRef::as_ref),
            self.upper.as_ref().map(AsRef::as_ref),
        )
    }

    /// Whether a term lies in it.
    #[must_use]
    pub fn contains(&self, term: &[u8]) -> bool {
        let above = match &self.lower {
            Bound::Included(lower) => term >= lower.as_ref(),
            Bound::Excluded(lower) => term > lower.as_ref(),
            Bound::Unbounded => true,
        };
        above
            && match &self.upper {
                Bound::Included(upper) => term <= upper.as_ref(),
                Bound::Excluded(upper) => term < upper.as_ref(),
                Bound::Unbounded => true,
            }
    }

    /// The values between two bounds, one of them at least a value; none if there can't be any.
    ///
    /// # Errors
    /// `Invalid` if they are of different types.
    pub(crate) fn between(lower: Bound<&Value>, upper: Bound<&Value>) -> Result<Option<TermRange>> {
        let types = |bound: Bound<&Value>| match bound {
            Bound::Included(value) | Bound::Excluded(value) => Some(term::type_range(value.term())),
            Bound::Unbounded => None,
        };
        let (of_lower, of_upper) = (types(lower), types(upper));
        if let (Some(one), Some(other)) = (&of_lower, &of_upper)
            && one != other
        {
            return Err(Error::Invalid(
                "the two bounds of a range are of different types".into(),
            ));
        }
        let Some(own) = of_lower.or(of_upper) else {
            return Ok(None);
        };
        let bytes = |bound: Bound<&Value>, open: Bound<u8>| match bound {
            Bound::Unbounded => open.map(|first| Box::from([first])),
            bound => bound.map(|value| Box::from(value.term())),
        };
        let range = TermRange {
            lower: bytes(lower, Bound::Included(own.start)),
            upper: bytes(upper, Bound::Excluded(own.end)),
        };
        Ok((!range.is_empty()).then_some(range))
    }

    /// The numbers between two bounds, or all; none if there can't be any.
    ///
    /// # Errors
    /// `Invalid` if a bound is no number.
    pub(crate) fn of_numbers(
        lower: Bound<&Value>,
        upper: Bound<&Value>,
    ) -> Result<Option<TermRange>> {
        for bound in [lower, upper] {
            if let Bound::Included(value) | Bound::Excluded(value) = bound
                && value.as_f64().is_none_or(f64::is_nan)
            {
                let what = format!("a field is compared by number with {value}, which is none");
                return Err(Error::Invalid(what));
            }
        }
        let least = Value::from(f64::NEG_INFINITY);
        match (lower, upper) {
            (Bound::Unbounded, Bound::Unbounded) => {
                TermRange::between(Bound::Included(&least), Bound::Unbounded)
            }
            _ => TermRange::between(lower, upper),
        }
    }

    /// What lies in both; none if nothing can.
    pub(crate) fn and(&self, other: &TermRange) -> Option<TermRange> {
        use Bound::{Excluded, Included, Unbounded};
        let lower = match (&self.lower, &other.lower) {
            (Unbounded, lower) | (lower, Unbounded) => lower,
            (one @ (Included(a) | Excluded(a)), two @ (Included(b) | Excluded(b))) => {
                match a.cmp(b) {
                    Ordering::Greater => one,
                    Ordering::Less => two,
                    Ordering::Equal if matches!(one, Excluded(_)) => one,
                    Ordering::Equal => two,
                }
            }
        };
        let upper = match (&self.upper, &other.upper) {
            (Unbounded, upper) | (upper, Unbounded) => upper,
            (one @ (Included(a) | Excluded(a)), two @ (Included(b) | Excluded(b))) => {
                match a.cmp(b) {
                    Ordering::Less => one,
                    Ordering::Greater => two,
                    Ordering::Equal if matches!(one, Excluded(_)) => one,
                    Ordering::Equal => two,
                }
            }
        };
        let both = TermRange {
            lower: lower.clone(),
            upper: upper.clone(),
        };
        (!both.is_empty()).then_some(both)
    }

    /// False and true.
    pub(crate) fn of_booleans() -> TermRange {
        TermRange {
            lower: Bound::Included(Value::from(false).term().into()),
            upper: Bound::Included(Value::from(true).term().into()),
        }
    }

    /// All values but null and strings.
    pub(crate) fn of_booleans_and_numbers() -> TermRange {
        TermRange {
            // The first string is empty.
            upper: Bound::Excluded(Value::from("").term().into()),
            ..TermRange::of_booleans()
        }
    }

    /// All values but null.
    pub(crate) fn of_booleans_to_strings() -> TermRange {
        TermRange {
            upper: TermRange::of_prefix("").upper,
            ..TermRange::of_booleans()
        }
    }

    /// All values but null and booleans.
    pub(crate) fn of_numbers_and_strings() -> TermRange {
        TermRange {
            lower: Bound::Included(Value::from(f64::NEG_INFINITY).term().into()),
            upper: TermRange::of_prefix("").upper,
        }
    }

    /// The strings that begin with `prefix`.
    pub(crate) fn of_prefix(prefix: &str) -> TermRange {
        let value = Value::from(prefix);
        let term = value.term();
        // A term of a string ends with two bytes of its own.
        let prefix = term.get(..term.len().saturating_sub(2)).unwrap_or(term);
        let mut after = prefix.to_vec();
        while after.last() == Some(&0xff) {
            after.pop();
        }
        if let Some(last) = after.last_mut() {
            *last += 1;
        }
        TermRange {
            lower: Bound::Included(prefix.into()),
            upper: Bound::Excluded(after.into()),
        }
    }

    /// The only value in it, if it is of one.
    pub(crate) fn only(&self) -> Option<Value> {
        match (&self.lower, &self.upper) {
            (Bound::Included(lower), Bound::Included(upper)) if lower == upper => {
                Value::from_term(lower)
            }
            _ => None,
        }
    }

    fn is_empty(&self) -> bool {
        match (&self.lower, &self.upper) {
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
            (Bound::Included(lower), Bound::Included(upper)) => lower > upper,
            (
                Bound::Included(lower) | Bound::Excluded(lower),
                Bound::Included(upper) | Bound::Excluded(upper),
            ) => lower >= upper,
        }
    }

    /// The string prefix that it was made of, if it was.
    fn prefix(&self) -> Option<Value> {
        let (Bound::Included(lower), Bound::Excluded(upper)) = (&self.lower, &self.upper) else {
            return None;
        };
        let whole = [lower.as_ref(), &[0, 1]].concat();
        let is_prefix = Value::from_term(lower).is_none() && Value::from_term(upper).is_none();
        is_prefix.then(|| Value::from_term(&whole)).flatten()
    }
}

impl fmt::Display for TermRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(prefix) = self.prefix() {
            let text = prefix.as_str().unwrap_or_default();
            f.write_str("LIKE ")?;
            return write_string(&format!("{text}%"), f);
        }
        let shown = |bound: &Bound<Box<[u8]>>, including: &str, excluding: &str| {
            let (sign, term) = match bound {
                Bound::Included(term) => (including, term),
                Bound::Excluded(term) => (excluding, term),
                Bound::Unbounded => return None,
            };
            let value = Value::from_term(term)?;
            // The least of all numbers is where numbers begin.
            let is_open = value.as_f64() == Some(f64::NEG_INFINITY);
            (!is_open).then(|| format!("{sign} {value}"))
        };
        let bounds = [shown(&self.lower, ">=", ">"), shown(&self.upper, "<=", "<")];
        let bounds: Vec<_> = bounds.into_iter().flatten().collect();
        f.write_str(&bounds.join(" and "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_takes_the_strings_that_begin_so_and_nothing_else() {
        let texts = [
            "",
            "a",
            "ab",
            "ab\0",
            "ab\0\0c",
            "ab\u{1}",
            "abc",
            "ac",
            "b",
            "\u{10ffff}",
            "\0",
            "\0\u{7f}",
        ];
        for prefix in texts {
            let range = TermRange::of_prefix(prefix);
            for text in texts {
                let value = Value::from(text);
                assert_eq!(
                    range.contains(value.term()),
                    text.starts_with(prefix),
                    "{prefix:?} {text:?}"
                );
            }
            for other in [Value::from(1), Value::from(true)] {
                assert!(!range.contains(other.term()));
            }
            assert_eq!(range.prefix(), Some(Value::from(prefix)));
        }
    }

    #[test]
    fn ranges_keep_to_the_type_of_their_bounds() {
        let values = [
            Value::from(false),
            Value::from(-1),
            Value::from(1.5),
            Value::from(7),
            Value::from("7"),
        ];
        let matching = |lower, upper| {
            let range = TermRange::between(lower, upper).unwrap();
            let range = range.unwrap();
            let of = values.iter().filter(|value| range.contains(value.term()));
            (
                of.map(ToString::to_string).collect::<Vec<_>>().join(" "),
                format!("{range}"),
            )
        };
        let (one, seven) = (Value::from(1), Value::from(7));
        assert_eq!(
            matching(Bound::Excluded(&one), Bound::Unbounded),
            ("1.5 7".into(), "> 1".into())
        );
        assert_eq!(
            matching(Bound::Unbounded, Bound::Excluded(&seven)),
            ("-1 1.5".into(), "< 7".into())
        );
        assert_eq!(
            matching(Bound::Included(&one), Bound::Included(&seven)),
            ("1.5 7".into(), ">= 1 and <= 7".into())
        );
        let text = Value::from("z");
        assert_eq!(
            matching(Bound::Unbounded, Bound::Included(&text)),
            ("'7'".into(), "<= 'z'".into())
        );
        assert_eq!(
            TermRange::between(Bound::Excluded(&one), Bound::Included(&one)).unwrap(),
            None
        );
        assert!(TermRange::between(Bound::Included(&one), Bound::Included(&text)).is_err());
    }

    #[test]
    fn two_ranges_have_in_common_what_lies_in_both() {
        let values: Vec<Value> = (0..4).map(Value::from).collect();
        let mut bounds = vec![Bound::Unbounded];
        bounds.extend(values.iter().map(Bound::Included));
        bounds.extend(values.iter().map(Bound::Excluded));
        let pairs = || {
            bounds
                .iter()
                .flat_map(|lower| bounds.iter().map(move |upper| (*lower, *upper)))
        };
        let ranges: Vec<TermRange> = pairs()
            .filter_map(|(lower, upper)| TermRange::between(lower, upper).unwrap())
            .collect();
        for (one, other) in ranges
            .iter()
            .flat_map(|one| ranges.iter().map(move |other| (one, other)))
        {
            let both = one.and(other);
            for value in &values {
                let in_both = one.contains(value.term()) && other.contains(value.term());
                let found = both
                    .as_ref()
                    .is_some_and(|both| both.contains(value.term()));
                assert_eq!(found, in_both, "{value} in {one} and {other}");
            }
        }
    }
}
