//! [`Path`]: which field, through objects and arrays.

use crate::element::{self, Element, POSITIONS_MAX};
use crate::{Error, Result};
use quire_model::{ArrayRef, ObjectRef, ValueRef};
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Longest text of a path, in bytes.
const PATH_BYTES_MAX: usize = 1024;

/// Most names in a path.
const PATH_NAMES_MAX: usize = 64;

/// Dotted names of a field: `author.name` is field `name` of the object in field `author`.
///
/// Arrays on the way and at the end are expanded, however deep: a document's values at a path are
/// all scalars found there. They are a set: one that is there twice counts once.
///
/// A field whose name has dots in it is at the path that its name is, as if the dots were objects:
/// `{"service.name":"web"}` and `{"service":{"name":"web"}}` both have `web` at `service.name`. A
/// name that begins or ends with a dot, or has two in a row, is at no path.
///
/// A filter's path may choose an element of an array: `a[2]`, the third of `a`, is
/// `Path::new("a").element(2)`, and `a[2].b` is `Path::new("a").element(2).field("b")`. What is no
/// array there has no elements.
///
/// Any text can be made a path. A query that has one with an empty name in it, or one that is too
/// long, is an error.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path {
    names: Arc<str>,
    /// The elements that it chooses, ascending by the names before them; none in most paths.
    elements: Option<Arc<[Element]>>,
}

impl Path {
    /// The path of a text.
    #[must_use]
    pub fn new(text: &str) -> Path {
        Path {
            names: text.into(),
            elements: None,
        }
    }

    /// The element at `position`, from 0, of the array at this path.
    #[must_use]
    pub fn element(self, position: usize) -> Path {
        let after = self.names.len();
        let element = Element { after, position };
        let elements = self.elements().iter().copied().chain([element]).collect();
        Path {
            names: self.names,
            elements: Some(elements),
        }
    }

    /// The field of this name, of the object at this path.
    #[must_use]
    pub fn field(self, name: &str) -> Path {
        let Path { names, elements } = self;
        Path {
            names: format!("{names}.{name}").into(),
            elements,
        }
    }

    /// Its names, with dots between them.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.names
    }

    /// Whether it chooses elements of arrays.
    #[must_use]
    pub fn has_elements(&self) -> bool {
        self.elements.is_some()
    }

    /// The elements that it chooses, ascending by the names before them.
    pub(crate) fn elements(&self) -> &[Element] {
        self.elements.as_deref().unwrap_or_default()
    }

    /// It without elements: of all elements of arrays.
    pub(crate) fn of_all_elements(&self) -> Path {
        Path {
            names: Arc::clone(&self.names),
            elements: None,
        }
    }

    /// Calls `visit` with each scalar that `object` has at this path until it breaks: in the order
    /// of the document, but for values of one path that are written with dots and without.
    pub fn visit<'a>(
        &self,
        object: ObjectRef<'a>,
        visit: &mut dyn FnMut(ValueRef<'a>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        match &self.elements {
            None => visit_object(object, &self.names, visit),
            Some(elements) => element::visit(object, &self.names, elements, visit),
        }
    }

    /// Calls `visit` with each path that `object` has a scalar at and that a query can name, once
    /// for each scalar.
    pub fn each_in(object: ObjectRef<'_>, visit: &mut dyn FnMut(&str)) {
        Path::each_value_in(object, &mut |path, _| visit(path));
    }

    /// As [`each_in`](Path::each_in), with the scalar.
    pub fn each_value_in<'a>(object: ObjectRef<'a>, visit: &mut dyn FnMut(&str, ValueRef<'a>)) {
        each_in_object(object, 0, &mut String::new(), visit);
    }

    /// As [`each_value_in`](Path::each_value_in), of one field of a document.
    pub fn each_value_of<'a>(
        name: &str,
        value: ValueRef<'a>,
        visit: &mut dyn FnMut(&str, ValueRef<'a>),
    ) {
        each_in_field((name, value), 0, &mut String::new(), visit);
    }

    /// # Errors
    /// `Invalid` if a query can't name it, or if it chooses an element of an array.
    pub(crate) fn check(&self) -> Result<()> {
        match self.elements() {
            [] => self.check_names(),
            _ => Err(Error::Invalid(format!(
                "the path {self} chooses an element of an array, which only a filter can"
            ))),
        }
    }

    /// As [`check`](Self::check), of a filter's path, which may choose elements.
    pub(crate) fn check_in_filter(&self) -> Result<()> {
        if self.elements().len() > POSITIONS_MAX {
            let what = format!("a path has more than {POSITIONS_MAX} positions in arrays");
            return Err(Error::Invalid(what));
        }
        self.check_names()
    }

    fn check_names(&self) -> Result<()> {
        let (mut names, mut last) = (0, b'.');
        let mut has_empty_name = false;
        for byte in self.names.bytes().chain([b'.']) {
            has_empty_name |= byte == b'.' && last == b'.';
            names += usize::from(byte == b'.');
            last = byte;
        }
        let why = if has_empty_name {
            "has an empty name"
        } else if self.names.len() > PATH_BYTES_MAX {
            "is longer than 1,024 bytes"
        } else if names > PATH_NAMES_MAX {
            "has more than 64 names"
        } else {
            return Ok(());
        };
        let shown: String = self.names.chars().take(64).collect();
        Err(Error::Invalid(format!("the path {shown:?} {why}")))
    }
}

impl From<&str> for Path {
    fn from(text: &str) -> Path {
        Path::new(text)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut done = 0;
        for Element { after, position } in self.elements() {
            f.write_str(self.names.get(done..*after).unwrap_or_default())?;
            write!(f, "[{position}]")?;
            done = *after;
        }
        f.write_str(self.names.get(done..).unwrap_or_default())
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

// Recursion ends with the path and with the document, which is nested 128 deep at most.
fn visit_object<'a>(
    object: ObjectRef<'a>,
    path: &str,
    visit: &mut dyn FnMut(ValueRef<'a>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    // What comes before any dot of the path may be the name of a field, and so may the whole.
    for (dot, _) in path.match_indices('.') {
        let (name, rest) = path.split_at(dot);
        if let Some(value) = object.get(name) {
            visit_value(value, rest.get(1..), visit)?;
        }
    }
    match object.get(path) {
        Some(value) => visit_value(value, None, visit),
        None => ControlFlow::Continue(()),
    }
}

fn visit_value<'a>(
    value: ValueRef<'a>,
    rest: Option<&str>,
    visit: &mut dyn FnMut(ValueRef<'a>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    match (value, rest) {
        (ValueRef::Array(items), rest) => visit_items(items, rest, visit),
        (ValueRef::Object(object), Some(rest)) => visit_object(object, rest, visit),
        (ValueRef::Object(_), None) | (_, Some(_)) => ControlFlow::Continue(()),
        (scalar, None) => visit(scalar),
    }
}

fn visit_items<'a>(
    items: ArrayRef<'a>,
    rest: Option<&str>,
    visit: &mut dyn FnMut(ValueRef<'a>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    for item in items {
        visit_value(item, rest, visit)?;
    }
    ControlFlow::Continue(())
}

/// `path`, of `names` names, leads to the object. It is the same afterwards.
fn each_in_object<'a>(
    object: ObjectRef<'a>,
    names: usize,
    path: &mut String,
    visit: &mut dyn FnMut(&str, ValueRef<'a>),
) {
    for field in object.fields() {
        each_in_field(field, names, path, visit);
    }
}

/// The same of one field of the object.
#[inline]
fn each_in_field<'a>(
    (name, value): (&str, ValueRef<'a>),
    names: usize,
    path: &mut String,
    visit: &mut dyn FnMut(&str, ValueRef<'a>),
) {
    let is_scalar = !matches!(value, ValueRef::Array(_) | ValueRef::Object(_));
    if names == 0 && is_scalar && !name.is_empty() && !name.as_bytes().contains(&b'.') {
        // Most fields: nothing is copied of the name.
        if name.len() <= PATH_BYTES_MAX {
            visit(name, value);
        }
        return;
    }
    let Some(names_in) = names_in(name) else {
        return;
    };
    if names + names_in > PATH_NAMES_MAX {
        return;
    }
    let before = path.len();
    if names > 0 {
        path.push('.');
    }
    path.push_str(name);
    if path.len() <= PATH_BYTES_MAX {
        each_in_value(value, names + names_in, path, visit);
    }
    path.truncate(before);
}

/// How many names of a path a field's name is; none if it is at no path.
fn names_in(name: &str) -> Option<usize> {
    let (mut names, mut last) = (1, b'.');
    for byte in name.bytes() {
        if byte == b'.' {
            if last == b'.' {
                return None;
            }
            names += 1;
        }
        last = byte;
    }
    (last != b'.').then_some(names)
}

fn each_in_value<'a>(
    value: ValueRef<'a>,
    names: usize,
    path: &mut String,
    visit: &mut dyn FnMut(&str, ValueRef<'a>),
) {
    match value {
        ValueRef::Array(items) => {
            for item in items {
                each_in_value(item, names, path, visit);
            }
        }
        ValueRef::Object(object) => each_in_object(object, names, path, visit),
        scalar => visit(path, scalar),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;
    use quire_model::Document;
    use std::collections::BTreeMap;

    fn values(document: &str, path: &str) -> Vec<String> {
        let document = Document::from_json(document.as_bytes()).unwrap();
        let mut out = Vec::new();
        let _ = Path::new(path).visit(document.root(), &mut |value| {
            let mut json = Vec::new();
            value.write_json(&mut json);
            out.push(String::from_utf8(json).unwrap());
            ControlFlow::Continue(())
        });
        out
    }

    #[test]
    fn every_scalar_at_a_path_is_a_value() {
        let document = concat!(
            r#"{"a":1,"b":[2,[3,{"c":4}],{"c":[5,null]}],"#,
            r#""d":{"e":[{"f":"x"},{"f":"y"},7]},"g.h":8,"i":{}}"#,
        );
        assert_eq!(values(document, "a"), ["1"]);
        assert_eq!(values(document, "b"), ["2", "3"]);
        assert_eq!(values(document, "b.c"), ["4", "5", "null"]);
        assert_eq!(values(document, "d.e.f"), [r#""x""#, r#""y""#]);
        assert_eq!(values(document, "g.h"), ["8"]);
        for nothing in ["d", "g", "i", "a.b", "d.e.f.g", "z", ""] {
            assert!(values(document, nothing).is_empty(), "{nothing}");
        }
    }

    #[test]
    fn a_dotted_name_is_a_path() {
        let document = concat!(
            r#"{"service.name":"web","service":{"name":"api","a.b":{"c":1}},"x.y":{"z":2},"#,
            r#""x":[{"y.z":3},{"y":{"z":4}}],"x.y.z":5,".a":6,"a.":7,"a..b":8,"a":{"":{"b":9}}}"#,
        );
        assert_eq!(values(document, "service.name"), [r#""api""#, r#""web""#]);
        assert_eq!(values(document, "service.a.b.c"), ["1"]);
        assert_eq!(values(document, "x.y.z"), ["3", "4", "2", "5"]);
        let mut paths = Vec::new();
        let parsed = Document::from_json(document.as_bytes()).unwrap();
        Path::each_in(parsed.root(), &mut |path| paths.push(path.to_string()));
        let expected = ["service.name", "service.name", "service.a.b.c"];
        assert_eq!(paths, [&expected[..], &["x.y.z"; 4]].concat());
    }

    /// A JSON value of names that are easily confused.
    fn any_json() -> impl Strategy<Value = String> {
        let scalar = prop_oneof![Just("null"), Just("1"), Just("true"), Just("\"s\"")];
        let scalar = scalar.prop_map(str::to_owned);
        let name = prop_oneof![
            Just("a"),
            Just("b"),
            Just("a.b"),
            Just("b.a.b"),
            Just("a.a"),
            Just(""),
            Just("."),
            Just("a."),
            Just(".b"),
            Just("a..b"),
        ];
        scalar.prop_recursive(5, 40, 5, move |inner| {
            let object = btree_map(name.clone(), inner.clone(), 0..5).prop_map(|fields| {
                let fields = fields
                    .iter()
                    .map(|(name, value)| format!("{name:?}:{value}"));
                format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
            });
            let array = vec(inner, 0..4).prop_map(|items| format!("[{}]", items.join(",")));
            prop_oneof![3 => object, 1 => array]
        })
    }

    proptest! {
        #[test] // An index is made by one, a scan uses the other.
        fn the_values_of_a_document_by_path_are_those_that_each_path_visits(json in any_json()) {
            let json = format!("{{\"a\":{json},\"a.b\":{json}}}");
            let document = Document::from_json(json.as_bytes()).unwrap();
            let text = |value: ValueRef<'_>| {
                let mut json = Vec::new();
                value.write_json(&mut json);
                String::from_utf8(json).unwrap()
            };
            let mut by_path = BTreeMap::<String, Vec<String>>::new();
            Path::each_value_in(document.root(), &mut |path, value| {
                by_path.entry(path.to_owned()).or_default().push(text(value));
            });
            // Also at paths that the document has nothing at.
            let names = ["a", "b"];
            for (one, two) in names.iter().flat_map(|one| names.map(|two| (one, two))) {
                for path in [one.to_string(), format!("{one}.{two}"), format!("a.{one}.{two}")] {
                    by_path.entry(path).or_default();
                }
            }
            for (path, mut expected) in by_path {
                prop_assert!(Path::new(&path).check().is_ok(), "{path}");
                let mut visited = values(&json, &path);
                visited.sort();
                expected.sort();
                prop_assert_eq!(visited, expected, "at {}", path);
            }
        }
    }

    #[test]
    fn every_path_that_leads_to_a_scalar_is_found() {
        let document = concat!(
            r#"{"a":1,"b":[2,[3,{"c":4}],{"c":[5,null]}],"#,
            r#""d":{"e":[{"f":"x"},7]},"g.h":8,"":9,"i":{},"j":[]}"#,
        );
        let document = Document::from_json(document.as_bytes()).unwrap();
        let mut paths = Vec::new();
        Path::each_in(document.root(), &mut |path| paths.push(path.to_string()));
        let expected = ["a", "b", "b", "b.c", "b.c", "b.c", "d.e.f", "d.e", "g.h"];
        assert_eq!(paths, expected);
        let deep = (0..70).fold("1".to_string(), |inner, _| format!("{{\"n\":{inner}}}"));
        let long = format!("{{\"{}\":1}}", "n".repeat(PATH_BYTES_MAX + 1));
        for unnamed in [deep, long] {
            let document = Document::from_json(unnamed.as_bytes()).unwrap();
            Path::each_in(document.root(), &mut |path| panic!("{path}"));
        }
    }
}
