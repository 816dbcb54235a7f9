//! [`Tested`]: a predicate that no shard answers alone. Shards find the values that may fulfil it;
//! each is then tested.

use crate::slice::Slice;
use crate::{Bounds, Cast, Filter, Leaf, Path, Pattern, TermRange, Test};
use quire_index::term;
use quire_model::ordered::OrderedValue;
use quire_model::{ObjectRef, ValueRef};
use std::fmt;
use std::ops::ControlFlow;

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
    Pattern(Pattern),
    /// A string that lies in the range once it is cast. The bounds are as they were given.
    Cast {
        cast: Cast,
        range: TermRange,
        bounds: Bounds,
    },
    /// A value of this slice; null is of none.
    Slice(Slice),
    /// What shards find.
    Base,
}

impl Tested {
    /// Strings that a pattern matches.
    pub(crate) fn of_pattern(path: Path, pattern: Pattern) -> Tested {
        let range = TermRange::of_prefix(&pattern.beginning());
        Tested::new(path, Test::Range(range), ValueTest::Pattern(pattern))
    }

    /// Those of `strings` that lie in `range` once they are cast; `bounds` were made to it.
    pub(crate) fn of_cast(
        path: Path,
        cast: Cast,
        strings: TermRange,
        range: TermRange,
        bounds: Bounds,
    ) -> Tested {
        let test = ValueTest::Cast {
            cast,
            range,
            bounds,
        };
        Tested::new(path, Test::Range(strings), test)
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
        match self.needs_documents() {
            true => READ_NANOS,
            false => VALUE_NANOS,
        }
    }

    /// Whether the value of this term passes, wherever in an array it is.
    pub(crate) fn accepts_term(&self, term: &[u8]) -> bool {
        match &self.test {
            ValueTest::Slice(slice) => term != term::NULL && slice.contains(term),
            ValueTest::Base => self.base.test.accepts(term),
            test => match term::decode(term) {
                Some(OrderedValue::String(text)) => test.accepts_text(&text),
                _ => false,
            },
        }
    }

    /// Whether a document matches; the document itself is read, and `scratch` is a buffer for a
    /// term.
    pub(crate) fn accepts(&self, document: ObjectRef<'_>, scratch: &mut Vec<u8>) -> bool {
        let mut accepts = |value: ValueRef<'_>| match (&self.test, value) {
            (ValueTest::Slice(_) | ValueTest::Base, value) => {
                scratch.clear();
                term::encode(value, scratch) && self.accepts_term(scratch)
            }
            (test, ValueRef::String(text)) => test.accepts_text(text),
            _ => false,
        };
        let path = self.element.as_ref().unwrap_or(&self.base.path);
        let found = path.visit(document, &mut |value| match accepts(value) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        });
        found.is_break()
    }
}

impl ValueTest {
    fn accepts_text(&self, text: &str) -> bool {
        match self {
            ValueTest::Pattern(pattern) => pattern.matches(text),
            ValueTest::Cast { cast, range, .. } => {
                let value = cast.read(text);
                value.is_some_and(|value| range.contains(value.term()))
            }
            // They are about values of all types, by their terms.
            ValueTest::Slice(_) | ValueTest::Base => false,
        }
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
            ValueTest::Pattern(pattern) => Filter::Like(path, pattern),
            ValueTest::Cast { cast, bounds, .. } => Filter::Cast(cast, path, bounds.0, bounds.1),
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
    use crate::Value;

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
