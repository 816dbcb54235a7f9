//! [`Leaf`]: a predicate on one path, as a shard is asked it.
//!
//! # Invariants
//! 1. All that a shard compares are [terms](quire_index::term), bytewise: types, prefixes and open
//!    ends are bounds like others.
//! 2. An `In` has at least two values, sorted, each once. A range has a lower bound below its upper
//!    one.

use crate::value::write_string;
use crate::{Error, Path, Result, Value};
use quire_index::term;
use quire_model::ObjectRef;
use std::cmp::Ordering;
use std::fmt;
use std::ops::{Bound, ControlFlow};

/// A predicate on one path: it holds for a document if the test does for any of its values there.
#[derive(Debug, Clone, PartialEq)]
pub struct Leaf {
    /// The field.
    pub path: Path,
    /// What one of its values fulfils.
    pub test: Test,
}

/// What a value is to fulfil.
#[derive(Debug, Clone, PartialEq)]
pub enum Test {
    /// To equal this one.
    Eq(Value),
    /// To equal one of these, which are two or more, sorted, each once.
    In(Vec<Value>),
    /// To lie between two bounds.
    Range(TermRange),
    /// Not to be null.
    Exists,
}

/// Terms between two bounds, bytewise. The bounds are fronts of terms and need not be terms.
#[derive(Debug, Clone, PartialEq)]
pub struct TermRange {
    /// The lower bound.
    pub lower: Bound<Box<[u8]>>,
    /// The upper bound.
    pub upper: Bound<Box<[u8]>>,
}

/// Two bounds, borrowed.
pub type TermBounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// The front that all terms but null are from.
const AFTER_NULL: &[u8] = &[0x02];

impl Leaf {
    /// Whether it holds for a document, found by looking at it; `scratch` is room for a term.
    #[must_use]
    pub fn accepts(&self, document: ObjectRef<'_>, scratch: &mut Vec<u8>) -> bool {
        let found = self.path.visit(document, &mut |value| {
            scratch.clear();
            let accepted = term::encode(value, scratch) && self.test.accepts(scratch);
            match accepted {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        found.is_break()
    }
}

impl Test {
    /// Whether the value of this term fulfils it.
    #[must_use]
    pub fn accepts(&self, term: &[u8]) -> bool {
        match self {
            Test::Eq(value) => value.term() == term,
            Test::In(values) => values
                .binary_search_by(|value| value.term().cmp(term))
                .is_ok(),
            Test::Range(range) => range.contains(term),
            Test::Exists => term != term::NULL,
        }
    }

    /// Bounds of all terms that can fulfil it; for a range and `Exists` all terms between them do.
    #[must_use]
    pub fn bounds(&self) -> TermBounds<'_> {
        match self {
            Test::Eq(value) => (Bound::Included(value.term()), Bound::Included(value.term())),
            Test::In(values) => (
                values
                    .first()
                    .map_or(Bound::Unbounded, |value| Bound::Included(value.term())),
                values
                    .last()
                    .map_or(Bound::Unbounded, |value| Bound::Included(value.term())),
            ),
            Test::Range(range) => (
                range.lower.as_ref().map(AsRef::as_ref),
                range.upper.as_ref().map(AsRef::as_ref),
            ),
            Test::Exists => (Bound::Included(AFTER_NULL), Bound::Unbounded),
        }
    }
}

impl TermRange {
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

    /// The strings that begin with `prefix`.
    pub(crate) fn of_prefix(prefix: &str) -> TermRange {
        let value = Value::from(prefix);
        let term = value.term();
        // A term of a string ends with two bytes of its own.
        let front = term.get(..term.len().saturating_sub(2)).unwrap_or(term);
        let mut after = front.to_vec();
        while after.last() == Some(&0xff) {
            after.pop();
        }
        if let Some(last) = after.last_mut() {
            *last += 1;
        }
        TermRange {
            lower: Bound::Included(front.into()),
            upper: Bound::Excluded(after.into()),
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

    /// The prefix that it was made of, if it was.
    fn prefix(&self) -> Option<Value> {
        let (Bound::Included(lower), Bound::Excluded(upper)) = (&self.lower, &self.upper) else {
            return None;
        };
        let whole = [lower.as_ref(), &[0, 1]].concat();
        let is_prefix = Value::from_term(lower).is_none() && Value::from_term(upper).is_none();
        is_prefix.then(|| Value::from_term(&whole)).flatten()
    }
}

/// As the text of a filter, with long lists cut short.
impl fmt::Display for Leaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const VALUES_SHOWN: usize = 4;
        let path = &self.path;
        match &self.test {
            Test::Eq(value) => write!(f, "{path} = {value}"),
            Test::In(values) => {
                write!(f, "{path} IN (")?;
                for (index, value) in values.iter().take(VALUES_SHOWN).enumerate() {
                    write!(f, "{}{value}", if index > 0 { ", " } else { "" })?;
                }
                match values.len().saturating_sub(VALUES_SHOWN) {
                    0 => f.write_str(")"),
                    more => write!(f, ", and {more} more)"),
                }
            }
            Test::Range(range) => write!(f, "{path} {range}"),
            Test::Exists => write!(f, "{path} IS NOT NULL"),
        }
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

/// Whether the value is none that a query may have.
pub(crate) fn is_nan(value: &Value) -> bool {
    value.term().is_empty()
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
