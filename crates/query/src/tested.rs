//! [`Tested`]: a predicate that no shard answers alone. Shards find the values that may fulfil it;
//! each is then tested.

use crate::mix::hash;
use crate::{Bounds, Filter, Leaf, Path, Pattern, TermRange, Test, Value};
use quire_index::term;
use quire_model::ordered::OrderedValue;
use quire_model::{ObjectRef, ValueRef};
use std::fmt;
use std::ops::ControlFlow;

/// A predicate on values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tested {
    /// What shards find.
    pub(crate) base: Leaf,
    /// What tests it.
    test: ValueTest,
}

#[derive(Debug, Clone, PartialEq)]
enum ValueTest {
    /// A string that the pattern matches.
    Pattern(Pattern),
    /// A string that is a number between both bounds.
    Number { range: TermRange, bounds: Bounds },
    /// A value whose hash is of this slice.
    Slice { number: u32, max: u32 },
}

impl Tested {
    /// Strings that a pattern matches.
    pub(crate) fn of_pattern(path: Path, pattern: Pattern) -> Tested {
        let range = TermRange::of_prefix(&pattern.beginning());
        let base = Leaf {
            path,
            test: Test::Range(range),
        };
        let test = ValueTest::Pattern(pattern);
        Tested { base, test }
    }

    /// Strings that are a number in `range`, which `bounds` were made to.
    pub(crate) fn of_number(path: Path, range: TermRange, bounds: Bounds) -> Tested {
        let base = Leaf {
            path,
            test: Test::Range(TermRange::of_prefix("")),
        };
        let test = ValueTest::Number { range, bounds };
        Tested { base, test }
    }

    /// Values of a slice.
    pub(crate) fn of_slice(path: Path, number: u32, max: u32) -> Tested {
        let base = Leaf {
            path,
            test: Test::Exists,
        };
        let test = ValueTest::Slice { number, max };
        Tested { base, test }
    }

    /// Whether the value of this term passes.
    pub(crate) fn accepts_term(&self, term: &[u8]) -> bool {
        match &self.test {
            ValueTest::Slice { number, max } => is_in_slice(term, *number, *max),
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
            (ValueTest::Slice { number, max }, value) => {
                scratch.clear();
                term::encode(value, scratch) && is_in_slice(scratch, *number, *max)
            }
            (test, ValueRef::String(text)) => test.accepts_text(text),
            _ => false,
        };
        let found = self
            .base
            .path
            .visit(document, &mut |value| match accepts(value) {
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
            ValueTest::Number { range, .. } => {
                Value::from_numeral(text).is_some_and(|number| range.contains(number.term()))
            }
            // It is about values of all types, by their terms.
            ValueTest::Slice { .. } => false,
        }
    }
}

/// Whether the value of a term belongs to a slice; null belongs to none.
fn is_in_slice(term: &[u8], number: u32, max: u32) -> bool {
    term != term::NULL && hash(term) % u64::from(max) == u64::from(number)
}

/// As the text of a filter.
impl fmt::Display for Tested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.base.path.clone();
        let filter = match self.test.clone() {
            ValueTest::Pattern(pattern) => Filter::Like(path, pattern),
            ValueTest::Number { bounds, .. } => Filter::Number(path, bounds.0, bounds.1),
            ValueTest::Slice { number, max } => Filter::Slice { path, number, max },
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
