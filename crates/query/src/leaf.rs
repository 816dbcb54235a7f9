//! [`Leaf`]: a predicate on one path, which a shard can answer.
//!
//! # Invariants
//! 1. A shard compares [terms](quire_index::term) alone, bytewise: types, prefixes and open ends
//!    are bounds like others.
//! 2. An `In` has at least two values, sorted, each once. A range has a lower bound below its upper
//!    one.

use crate::{Path, TermBounds, TermRange, Value};
use quire_index::term;
use quire_model::ObjectRef;
use std::fmt;
use std::ops::{Bound, ControlFlow};

/// A predicate on one path: it holds for a document if the test does for any of its values there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Leaf {
    /// The field.
    pub path: Path,
    /// The test that one of its values passes.
    pub test: Test,
}

/// A test of one value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Test {
    /// It equals this one.
    Eq(Value),
    /// It equals one of these, which are two or more, sorted, each once.
    In(Vec<Value>),
    /// It lies between two bounds.
    Range(TermRange),
    /// It is not null.
    Exists,
}

/// A lower bound of all terms but null.
const AFTER_NULL: &[u8] = &[0x02];

impl Leaf {
    /// Whether it holds for a document, which is read for it; `scratch` is a buffer for a term.
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
    /// Whether the value of this term passes.
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

    /// Bounds of all terms that can pass; for a range and `Exists` all terms between them do.
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
            Test::Range(range) => range.bounds(),
            Test::Exists => (Bound::Included(AFTER_NULL), Bound::Unbounded),
        }
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

/// Whether the value is a NaN, which no query may have.
pub(crate) fn is_nan(value: &Value) -> bool {
    value.term().is_empty()
}
