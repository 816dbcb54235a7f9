//! [`Flat`]: which fields the values of a flat document are, one whose values are all scalars.
//!
//! The path of each field would have to be looked up in each document. But the documents of a table
//! have the same names in the same order, so the fields of the last one are tried first.

use crate::FieldSpec;
use quire_model::{ObjectRef, ValueRef};
use smallvec::SmallVec;
use std::collections::HashMap;

/// The values of a flat document in its order, and which field each is, by its index among those
/// that are frozen; none if it is not frozen.
pub(crate) type FlatValues<'d> = SmallVec<[(Option<u32>, ValueRef<'d>); 32]>;

/// Finds the fields of flat documents.
#[derive(Debug)]
pub(crate) struct Flat {
    paths: Vec<Box<str>>,
    by_path: HashMap<Box<str>, u32>,
    /// The fields of the last document, in its order.
    last: Vec<Option<u32>>,
}

impl Flat {
    pub(crate) fn new(fields: &[FieldSpec]) -> Flat {
        let paths: Vec<Box<str>> = fields
            .iter()
            .map(|field| field.path.as_str().into())
            .collect();
        Flat {
            by_path: paths.iter().cloned().zip(0..).collect(),
            paths,
            last: Vec::new(),
        }
    }

    /// The values of a document; `None` if one is no scalar.
    ///
    /// A scalar is at the path that its name is, dots included, and at no other one.
    pub(crate) fn values<'d>(&mut self, document: ObjectRef<'d>) -> Option<FlatValues<'d>> {
        let mut values = FlatValues::new();
        for (name, value) in document.fields() {
            if matches!(value, ValueRef::Array(_) | ValueRef::Object(_)) {
                return None;
            }
            let place = values.len();
            let expected = self.last.get(place).copied().flatten();
            let path = expected.and_then(|field| self.paths.get(field as usize));
            let field = match path {
                Some(path) if **path == *name => expected,
                _ => {
                    let field = self.by_path.get(name).copied();
                    self.last.truncate(place);
                    self.last.push(field);
                    field
                }
            };
            values.push((field, value));
        }
        Some(values)
    }
}
