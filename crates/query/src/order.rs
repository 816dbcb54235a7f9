//! [`Order`]: by which field hits are ordered.

use crate::{Path, Value};
use quire_index::term;
use quire_model::ordered::Direction;
use quire_model::{Document, ObjectRef};
use std::ops::ControlFlow;

/// By which field hits are ordered: ascending by the smallest of a document's values, descending by
/// the largest. Documents without a value come last either way. Null is a value, the smallest.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    /// The field.
    pub path: Path,
    /// Which way.
    pub direction: Direction,
}

impl Order {
    /// The value that a document is ordered by.
    #[must_use]
    pub fn value_of(&self, document: &Document) -> Option<Value> {
        self.value_in(document.root(), &mut Vec::new())
    }

    /// The same; `scratch` is a buffer for a term.
    pub(crate) fn value_in(&self, root: ObjectRef<'_>, scratch: &mut Vec<u8>) -> Option<Value> {
        let mut best: Option<Value> = None;
        let _ = self.path.visit(root, &mut |value| {
            scratch.clear();
            let is_better = term::encode(value, scratch)
                && best.as_ref().is_none_or(|best| match self.direction {
                    Direction::Ascending => scratch.as_slice() < best.term(),
                    Direction::Descending => scratch.as_slice() > best.term(),
                });
            if is_better {
                best = Some(Value::of_term(scratch));
            }
            ControlFlow::Continue(())
        });
        best
    }
}
