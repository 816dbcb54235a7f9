//! [`Tested`]: a predicate on strings that no shard answers alone. Shards find the strings that may
//! fulfil it; each is then tested.

use crate::{Bounds, Filter, Leaf, Path, Pattern, TermRange, Test, Value};
use quire_index::term;
use quire_model::ordered::OrderedValue;
use quire_model::{ObjectRef, ValueRef};
use std::fmt;
use std::ops::ControlFlow;

/// A predicate on strings.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tested {
    /// What shards find.
    pub(crate) base: Leaf,
    /// What tests it.
    test: StringTest,
}

#[derive(Debug, Clone, PartialEq)]
enum StringTest {
    Pattern(Pattern),
    /// The number that the string is lies between both bounds.
    Number {
        range: TermRange,
        bounds: Bounds,
    },
}

impl Tested {
    /// Strings that a pattern matches.
    pub(crate) fn of_pattern(path: Path, pattern: Pattern) -> Tested {
        let range = TermRange::of_prefix(&pattern.beginning());
        let test = StringTest::Pattern(pattern);
        Tested::new(path, range, test)
    }

    /// Strings that are a number in `range`, which `bounds` were made to.
    pub(crate) fn of_number(path: Path, range: TermRange, bounds: Bounds) -> Tested {
        let test = StringTest::Number { range, bounds };
        Tested::new(path, TermRange::of_prefix(""), test)
    }

    fn new(path: Path, range: TermRange, test: StringTest) -> Tested {
        let base = Leaf {
            path,
            test: Test::Range(range),
        };
        Tested { base, test }
    }

    /// Whether the value of this term passes.
    pub(crate) fn accepts_term(&self, term: &[u8]) -> bool {
        match term::decode(term) {
            Some(OrderedValue::String(text)) => self.test.accepts(&text),
            _ => false,
        }
    }

    /// Whether a document matches; the document itself is read.
    pub(crate) fn accepts(&self, document: ObjectRef<'_>) -> bool {
        let found = self.base.path.visit(document, &mut |value| match value {
            ValueRef::String(text) if self.test.accepts(text) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        });
        found.is_break()
    }
}

impl StringTest {
    fn accepts(&self, text: &str) -> bool {
        match self {
            StringTest::Pattern(pattern) => pattern.matches(text),
            StringTest::Number { range, .. } => {
                Value::from_numeral(text).is_some_and(|number| range.contains(number.term()))
            }
        }
    }
}

/// As the text of a filter.
impl fmt::Display for Tested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.base.path.clone();
        match self.test.clone() {
            StringTest::Pattern(pattern) => Filter::Like(path, pattern).fmt(f),
            StringTest::Number { bounds, .. } => Filter::Number(path, bounds.0, bounds.1).fmt(f),
        }
    }
}
