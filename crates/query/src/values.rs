//! [`values`]: the values that a document has at a path.

use crate::meter::Meter;
use crate::{Path, Result, Value};
use quire_index::term;
use quire_model::ObjectRef;
use smallvec::SmallVec;
use std::ops::ControlFlow;

/// The values that a document has at a path, ascending, each once.
pub(crate) type Values = SmallVec<[Value; 2]>;

/// The first different values of a document are not counted.
const UNCOUNTED: usize = 1024;

/// Bytes that one of many values takes: in the list, in the terms of a column, and as an ordinal.
const VALUE_BYTES: usize = 3 * size_of::<Value>();

/// What the bytes of values are for.
const PURPOSE: &str = "values of one document";

/// The values that a document has at a path; `scratch` is a buffer for a term.
pub(crate) fn values(path: &Path, root: ObjectRef<'_>, scratch: &mut Vec<u8>) -> Values {
    gather(path, root, scratch, &mut |_| ControlFlow::Continue(()))
}

/// As [`values`], where many are within the memory of a query. The bytes that it takes of that are
/// added to `taken`: to be given back once the values are counted.
///
/// # Errors
/// `TooLarge` if they are more than it may hold.
pub(crate) fn metered_values(
    path: &Path,
    root: ObjectRef<'_>,
    scratch: &mut Vec<u8>,
    meter: &mut Meter,
    taken: &mut usize,
) -> Result<Values> {
    let mut refused = Ok(());
    let values = gather(path, root, scratch, &mut |bytes| {
        refused = meter.take(bytes, PURPOSE);
        *taken += bytes;
        match refused {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    });
    refused.map(|()| values)
}

/// The values, equal ones removed on the way: the list has at most twice as many as are different.
/// If these are many, `grow` is called with the bytes that more of them take.
fn gather(
    path: &Path,
    root: ObjectRef<'_>,
    scratch: &mut Vec<u8>,
    grow: &mut dyn FnMut(usize) -> ControlFlow<()>,
) -> Values {
    let (mut values, mut counted) = (Values::new(), UNCOUNTED);
    let mut count = |values: &mut Values, counted: &mut usize| {
        settle(values);
        let more = values.len().saturating_sub(*counted);
        *counted += more;
        match more {
            0 => ControlFlow::Continue(()),
            more => grow(more * VALUE_BYTES),
        }
    };
    let _ = path.visit(root, &mut |value| {
        scratch.clear();
        if term::encode(value, scratch) {
            values.push(Value::of_term(scratch));
        }
        match values.len() < 2 * counted {
            true => ControlFlow::Continue(()),
            false => count(&mut values, &mut counted),
        }
    });
    let _ = count(&mut values, &mut counted);
    values
}

fn settle(values: &mut Values) {
    values.sort_unstable();
    values.dedup();
}

/// Whether a document has a value at a path.
pub(crate) fn has_value(path: &Path, root: ObjectRef<'_>) -> bool {
    path.visit(root, &mut |_| ControlFlow::Break(())).is_break()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quire_model::Document;

    fn document(values: impl Iterator<Item = usize>) -> Document {
        let values: Vec<String> = values.map(|value| value.to_string()).collect();
        let json = format!("{{\"n\":[{}]}}", values.join(","));
        Document::from_json(json.as_bytes()).unwrap()
    }

    fn found(document: &Document, bytes_max: usize) -> (Result<usize>, usize) {
        let (mut meter, mut taken) = (Meter::new(bytes_max), 0);
        let path = Path::from("n");
        let values = metered_values(
            &path,
            document.root(),
            &mut Vec::new(),
            &mut meter,
            &mut taken,
        );
        let found = values.map(|values| {
            assert!(values.is_sorted_by(|a, b| a < b));
            values.len()
        });
        (found, taken)
    }

    #[test]
    fn many_different_values_of_a_document_are_counted_and_refused_past_the_bound() {
        let count = 50_000;
        // Each comes twice, far apart.
        let many = document((0..2 * count).map(|n| n % count));
        let (values, taken) = found(&many, 16 << 20);
        assert_eq!(values.unwrap(), count);
        assert_eq!(taken, (count - UNCOUNTED) * VALUE_BYTES);
        let (values, _) = found(&many, 1 << 20);
        let error = values.unwrap_err();
        assert!(error.to_string().contains("one document"), "{error}");
    }

    #[test]
    fn equal_values_of_a_document_take_no_memory() {
        let equal = document((0..1_000_000).map(|n| n % 400));
        let (values, taken) = found(&equal, 0);
        assert_eq!((values.unwrap(), taken), (400, 0));
    }
}
