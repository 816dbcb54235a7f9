//! [`values`]: the values that a document has at a path.

use crate::{Path, Value};
use quire_index::term;
use quire_model::ObjectRef;
use smallvec::SmallVec;
use std::ops::ControlFlow;

/// The values that a document has at a path, ascending, each once.
pub(crate) type Values = SmallVec<[Value; 2]>;

/// The values that a document has at a path; `scratch` is a buffer for a term.
pub(crate) fn values(path: &Path, root: ObjectRef<'_>, scratch: &mut Vec<u8>) -> Values {
    let mut values = Values::new();
    let _ = path.visit(root, &mut |value| {
        scratch.clear();
        if term::encode(value, scratch) {
            values.push(Value::of_term(scratch));
        }
        ControlFlow::Continue(())
    });
    values.sort_unstable();
    values.dedup();
    values
}

/// Whether a document has a value at a path.
pub(crate) fn has_value(path: &Path, root: ObjectRef<'_>) -> bool {
    path.visit(root, &mut |_| ControlFlow::Break(())).is_break()
}
