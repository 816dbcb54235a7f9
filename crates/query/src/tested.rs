//! [`Tested`]: a predicate that no shard answers alone. Shards find the values that may fulfil it;
//! each is then tested.

use crate::pattern::Matcher;
use crate::slice::Slice;
use crate::{Bounds, Cast, Filter, Leaf, Path, Pattern, Result, TermRange, Test, Value};
use quire_index::term;
use quire_model::ordered::OrderedValue;
use quire_model::{ObjectRef, ValueRef};
use std::collections::BTreeSet;
use std::fmt;
use std::ops::{Bound, ControlFlow};

/// What it costs about to test a document's value.
const VALUE_NANOS: u64 = 50;

/// What it costs about to read a document and test it.
const READ_NANOS: u64 = 1_000;

/// A predicate on values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tested {
    /// What shards find.
    pub(crate) base: Leaf,
    /// What tests it.
    test: ValueTest,
    /// The element of an array that it is about, if it is not about all values at the path.
    element: Option<Path>,
}

#[derive(Debug, Clone, PartialEq)]
enum ValueTest {
    /// A string that the pattern matches.
    Pattern(Matcher),
    /// A value that lies in the range once it is cast. The bounds are as they were given.
    Cast {
        cast: Cast,
        range: TermRange,
        bounds: Bounds,
    },
    /// A value that is one of these once it is cast.
    CastIn { cast: Cast, values: BTreeSet<Value> },
    /// A value of this slice; null is of none.
    Slice(Slice),
    /// What shards find.
    Base,
}

impl Tested {
    /// Strings that a pattern matches.
    ///
    /// # Errors
    /// `Invalid` if it is a regular expression that would be too large.
    pub(crate) fn of_pattern(path: Path, pattern: Pattern) -> Result<Tested> {
        let range = TermRange::of_prefix(&pattern.beginning());
        let matcher = ValueTest::Pattern(pattern.matcher()?);
        Ok(Tested::new(path, Test::Range(range), matcher))
    }

    /// Those of `values` that lie in `range` once they are cast; `bounds` were made to it.
    pub(crate) fn of_cast(
        path: Path,
        cast: Cast,
        values: TermRange,
        range: TermRange,
        bounds: Bounds,
    ) -> Tested {
        let test = ValueTest::Cast {
            cast,
            range,
            bounds,
        };
        Tested::new(path, Test::Range(values), test)
    }

    /// Those of `values` that equal `value` once they are cast.
    pub(crate) fn of_cast_value(path: Path, cast: Cast, values: TermRange, value: Value) -> Tested {
        let test = ValueTest::CastIn {
            cast,
            values: BTreeSet::from([value]),
        };
        Tested::new(path, Test::Range(values), test)
    }

    /// Whether it is about single values once they are cast.
    pub(crate) fn is_of_cast_values(&self) -> bool {
        matches!(self.test, ValueTest::CastIn { .. })
    }

    /// Whether another differs by nothing but the values that are looked for.
    pub(crate) fn is_joinable(&self, other: &Tested) -> bool {
        let casts = match (&self.test, &other.test) {
            (ValueTest::CastIn { cast: one, .. }, ValueTest::CastIn { cast: other, .. }) => {
                one == other
            }
            _ => false,
        };
        casts && self.base == other.base && self.element == other.element
    }

    /// Looks for the values of another too, which [is joinable](Tested::is_joinable).
    pub(crate) fn join(&mut self, other: Tested) {
        if let (ValueTest::CastIn { values, .. }, ValueTest::CastIn { values: more, .. }) =
            (&mut self.test, other.test)
        {
            values.extend(more);
        }
    }

    /// Values of a slice.
    pub(crate) fn of_slice(path: Path, number: u32, max: u32) -> Tested {
        let slice = Slice { number, of: max };
        Tested::new(path, Test::Exists, ValueTest::Slice(slice))
    }

    /// An element of an array that passes a test.
    pub(crate) fn of_element(path: Path, test: Test) -> Tested {
        Tested::new(path, test, ValueTest::Base)
    }

    fn new(path: Path, base: Test, test: ValueTest) -> Tested {
        let base = Leaf {
            path: path.of_all_elements(),
            test: base,
        };
        let element = path.has_elements().then_some(path);
        Tested {
            base,
            test,
            element,
        }
    }

    /// Whether documents are tested, as values alone don't tell which element of an array they are.
    pub(crate) fn needs_documents(&self) -> bool {
        self.element.is_some()
    }

    /// What it costs about to test a document, in nanoseconds.
    pub(crate) fn nanos(&self) -> u64 {
        match &self.test {
            _ if self.needs_documents() => READ_NANOS,
            ValueTest::Pattern(matcher) => matcher.nanos(),
            _ => VALUE_NANOS,
        }
    }

    /// Whether the value of this term passes, wherever in an array it is.
    pub(crate) fn accepts_term(&self, term: &[u8]) -> bool {
        match &self.test {
            ValueTest::Slice(slice) => term != term::NULL && slice.contains(term),
            ValueTest::Base => self.base.test.accepts(term),
            ValueTest::Pattern(matcher) => match term::decode(term) {
                Some(OrderedValue::String(text)) => matcher.matches(&text),
                _ => false,
            },
            ValueTest::Cast { cast, range, .. } => {
                let is_among = self.base.test.accepts(term);
                let value = cast.of_term(term).filter(|_| is_among);
                value.is_some_and(|value| range.contains(value.term()))
            }
            ValueTest::CastIn { cast, values } => {
                let is_among = self.base.test.accepts(term);
                let value = cast.of_term(term).filter(|_| is_among);
                value.is_some_and(|value| values.contains(&value))
            }
        }
    }

    /// Whether a document matches; the document itself is read, and `scratch` is a buffer for a
    /// term.
    pub(crate) fn accepts(&self, document: ObjectRef<'_>, scratch: &mut Vec<u8>) -> bool {
        let mut accepts = |value: ValueRef<'_>| match (&self.test, value) {
            (ValueTest::Pattern(matcher), ValueRef::String(text)) => matcher.matches(text),
            (ValueTest::Pattern(_), _) => false,
            (_, value) => {
                scratch.clear();
                term::encode(value, scratch) && self.accepts_term(scratch)
            }
        };
        let path = self.element.as_ref().unwrap_or(&self.base.path);
        let found = path.visit(document, &mut |value| match accepts(value) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        });
        found.is_break()
    }
}

/// As the text of a filter.
impl fmt::Display for Tested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.element.as_ref().unwrap_or(&self.base.path).clone();
        let filter = match self.test.clone() {
            ValueTest::Base => {
                let test = self.base.test.clone();
                return Leaf { path, test }.fmt(f);
            }
            ValueTest::Pattern(matcher) => Filter::Like(path, matcher.pattern().clone()),
            ValueTest::Cast { cast, bounds, .. } => Filter::Cast(cast, path, bounds.0, bounds.1),
            ValueTest::CastIn { cast, values } => {
                let values = values.into_iter().map(|value| {
                    let bound = Bound::Included(value);
                    Filter::Cast(cast.clone(), path.clone(), bound.clone(), bound)
                });
                Filter::Or(values.collect())
            }
            ValueTest::Slice(Slice { number, of }) => Filter::Slice {
                path,
                number,
                max: of,
            },
        };
        filter.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_belongs_to_one_slice_and_slices_are_about_equally_large() {
        const SLICES: u32 = 7;
        let slices: Vec<Tested> = (0..SLICES)
            .map(|number| Tested::of_slice("a".into(), number, SLICES))
            .collect();
        let numbers = (0..3_500).map(Value::from);
        let texts = (0..3_500).map(|number| Value::from(format!("k{number}")));
        for values in [numbers.collect::<Vec<_>>(), texts.collect()] {
            let mut sizes = [0; SLICES as usize];
            for value in values {
                let of = slices.iter().enumerate();
                let of = of.filter(|(_, slice)| slice.accepts_term(value.term()));
                let of: Vec<usize> = of.map(|(number, _)| number).collect();
                assert_eq!(of.len(), 1, "{value}");
                sizes[of[0]] += 1;
            }
            assert!(
                sizes.iter().all(|size| (400..600).contains(size)),
                "{sizes:?}"
            );
        }
        assert!(slices.iter().all(|slice| !slice.accepts_term(term::NULL)));
    }
}
