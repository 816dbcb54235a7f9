//! [`Order`]: by which field hits are ordered.

use crate::{Cast, Path, Value};
use quire_index::term;
use quire_model::ordered::Direction;
use quire_model::{Document, ObjectRef};
use std::ops::{ControlFlow, Range};

/// The first byte of all terms but null is at least this.
const AFTER_NULL: u8 = 0x02;

/// By which field hits are ordered: ascending by the smallest of a document's values, descending by
/// the largest.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    /// The field.
    pub path: Path,
    /// Which way.
    pub direction: Direction,
    /// As what values are compared.
    pub by: OrderedAs,
    /// Whether documents without a value come first. By default they come last, either way.
    pub missing_first: bool,
    /// The value that documents without one are ordered by, if they do not come first or last; it
    /// is what values are compared as.
    pub missing: Option<Value>,
}

/// As what the values of an order are compared.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum OrderedAs {
    /// As they are: null < booleans < numbers < strings.
    #[default]
    Value,
    /// As they are, but null is no value.
    NotNull,
    /// As what they say. Those that say nothing of this kind are no values.
    Cast(Cast),
}

impl OrderedAs {
    /// What a value is compared as; none if it is no value here.
    pub(crate) fn of(&self, value: Value) -> Option<Value> {
        match self {
            OrderedAs::Value => Some(value),
            OrderedAs::NotNull => (value.term() != term::NULL).then_some(value),
            OrderedAs::Cast(cast) => cast.of(&value.get()),
        }
    }

    /// The first bytes of the terms that are compared as they are; none if any may change.
    pub(crate) fn kept(&self) -> Option<Range<u8>> {
        match self {
            OrderedAs::Value => Some(0..u8::MAX),
            OrderedAs::NotNull => Some(AFTER_NULL..u8::MAX),
            // Equal dates may then come in the order of their parts of a millisecond.
            OrderedAs::Cast(Cast::Date) => Cast::Number.kept(),
            OrderedAs::Cast(cast) => cast.kept(),
        }
    }
}

impl Order {
    /// With values compared as what they say.
    #[must_use]
    pub fn cast(mut self, cast: Cast) -> Order {
        self.by = OrderedAs::Cast(cast);
        self
    }

    /// With null as no value: documents with it alone come last too.
    #[must_use]
    pub fn nulls_last(mut self) -> Order {
        if self.by == OrderedAs::Value {
            self.by = OrderedAs::NotNull;
        }
        self
    }

    /// With documents first that have no value, or null alone.
    #[must_use]
    pub fn nulls_first(self) -> Order {
        Order {
            missing_first: true,
            ..self.nulls_last()
        }
    }

    /// With documents that have no value ordered by this one.
    #[must_use]
    pub fn missing_as(self, value: impl Into<Value>) -> Order {
        Order {
            missing: Some(value.into()),
            ..self.nulls_last()
        }
    }

    /// The value that a document is ordered by.
    #[must_use]
    pub fn value_of(&self, document: &Document) -> Option<Value> {
        let own = self.value_in(document.root(), &mut Vec::new());
        own.or_else(|| self.missing.clone())
    }

    /// The same; `scratch` is a buffer for a term.
    pub(crate) fn value_in(&self, root: ObjectRef<'_>, scratch: &mut Vec<u8>) -> Option<Value> {
        // One value is kept at a time: an array may have very many.
        let mut best: Option<Value> = None;
        let _ = self.path.visit(root, &mut |value| {
            scratch.clear();
            let is_scalar = term::encode(value, scratch);
            let value = is_scalar.then(|| Value::of_term(scratch));
            if let Some(value) = value.and_then(|value| self.by.of(value)) {
                let is_better = best.as_ref().is_none_or(|best| match self.direction {
                    Direction::Ascending => value < *best,
                    Direction::Descending => value > *best,
                });
                if is_better {
                    best = Some(value);
                }
            }
            ControlFlow::Continue(())
        });
        best
    }

    /// The value that a document with these, which ascend, is ordered by.
    pub(crate) fn best_of(&self, values: impl DoubleEndedIterator<Item = Value>) -> Option<Value> {
        let mut compared = values.filter_map(|value| self.by.of(value));
        match (&self.by, self.direction) {
            (OrderedAs::Cast(_), Direction::Ascending) => compared.min(),
            (OrderedAs::Cast(_), Direction::Descending) => compared.max(),
            (_, Direction::Ascending) => compared.next(),
            (_, Direction::Descending) => compared.next_back(),
        }
    }

    /// Whether documents are in this order by the terms of their values, those without one last,
    /// whatever the values are.
    pub(crate) fn is_by_all_terms(&self) -> bool {
        !self.missing_first && self.by == OrderedAs::Value
    }

    /// Whether a better first value of a shard never makes its documents come later, whatever the
    /// shard's values are.
    pub(crate) fn is_by_terms(&self) -> bool {
        !self.missing_first && self.missing.is_none() && !matches!(self.by, OrderedAs::Cast(_))
    }
}
