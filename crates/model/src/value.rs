//! Values read in place from an encoded document.

use crate::container::{self, Container};
use crate::float::{Float, Number};
use crate::json_out;
use crate::layout::split_entry;
use crate::raw::Raw;

/// One value of a document, borrowed from it. A string borrows its bytes; an array or object opens
/// in constant time.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum ValueRef<'a> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// An integer in the range of i64.
    Int(i64),
    /// An integer above `i64::MAX`.
    UInt(u64),
    /// Any other number, with its text: see [`Float::value`].
    Float(Float<'a>),
    /// A string.
    String(&'a str),
    /// An array.
    Array(ArrayRef<'a>),
    /// An object.
    Object(ObjectRef<'a>),
}

impl<'a> ValueRef<'a> {
    /// What it is, for messages: "a string", "an array".
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            ValueRef::Null => "null",
            ValueRef::Bool(_) => "a boolean",
            ValueRef::Int(_) | ValueRef::UInt(_) => "an integer",
            ValueRef::Float(_) => "a float",
            ValueRef::String(_) => "a string",
            ValueRef::Array(_) => "an array",
            ValueRef::Object(_) => "an object",
        }
    }

    /// Appends the value as compact JSON, numbers as they were written.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        json_out::write_value(&(*self).into(), out);
    }

    /// The length of the value as compact JSON, which is not made.
    #[must_use]
    pub fn json_bytes(&self) -> usize {
        json_out::text_bytes(&(*self).into())
    }

    /// The value in `bytes`, nested `depth` deep in a document.
    pub(crate) fn read(bytes: &'a [u8], depth: u8) -> ValueRef<'a> {
        // A document was valid when it was made: the fallback is for stored bytes that are not one.
        let Some(raw) = Raw::parse(bytes, depth) else {
            return ValueRef::Null;
        };
        match raw {
            Raw::Null => ValueRef::Null,
            Raw::Bool(value) => ValueRef::Bool(value),
            Raw::Number(Number::Int(value)) => ValueRef::Int(value),
            Raw::Number(Number::UInt(value)) => ValueRef::UInt(value),
            Raw::Number(Number::Float(value)) => ValueRef::Float(value),
            Raw::String(text) => ValueRef::String(utf8(text)),
            Raw::Array(array) => ValueRef::Array(ArrayRef(array)),
            Raw::Object(object) => ValueRef::Object(ObjectRef(object)),
        }
    }
}

/// Text of a valid document: checked when it was made.
pub(crate) fn utf8(text: &[u8]) -> &str {
    std::str::from_utf8(text).unwrap_or_default()
}

impl<'a> From<ValueRef<'a>> for Raw<'a> {
    fn from(value: ValueRef<'a>) -> Raw<'a> {
        match value {
            ValueRef::Null => Raw::Null,
            ValueRef::Bool(value) => Raw::Bool(value),
            ValueRef::Int(value) => Raw::Number(Number::Int(value)),
            ValueRef::UInt(value) => Raw::Number(Number::UInt(value)),
            ValueRef::Float(value) => Raw::Number(Number::Float(value)),
            ValueRef::String(value) => Raw::String(value.as_bytes()),
            ValueRef::Array(ArrayRef(value)) => Raw::Array(value),
            ValueRef::Object(ObjectRef(value)) => Raw::Object(value),
        }
    }
}

/// An array inside a document.
#[derive(Clone, Copy)]
pub struct ArrayRef<'a>(pub(crate) Container<'a>);

impl<'a> ArrayRef<'a> {
    /// Number of items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.count
    }

    /// Whether there is no item.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.count == 0
    }

    /// Item `index`, counted from 0, in constant time.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<ValueRef<'a>> {
        let item = self.0.item(index)?;
        Some(ValueRef::read(item, self.0.depth_inside()))
    }

    /// The items in order.
    #[must_use]
    pub fn iter(&self) -> Items<'a> {
        Items(self.0.items())
    }
}

/// An object inside a document, or the document itself.
#[derive(Clone, Copy)]
pub struct ObjectRef<'a>(pub(crate) Container<'a>);

impl<'a> ObjectRef<'a> {
    /// Shows each field that two objects do not have alike, with its value in this one and in the
    /// other, none where it is absent. They are compared by their encoding: what is alike is not
    /// read.
    pub fn each_difference(
        self,
        other: ObjectRef<'a>,
        see: &mut dyn FnMut(&str, [Option<ValueRef<'a>>; 2]),
    ) {
        let (own_depth, other_depth) = (self.0.depth_inside(), other.0.depth_inside());
        let mut show = |name: &[u8], [own, others]: [Option<&'a [u8]>; 2]| {
            if own != others {
                let own = own.map(|own| ValueRef::read(own, own_depth));
                let others = others.map(|others| ValueRef::read(others, other_depth));
                see(utf8(name), [own, others]);
            }
        };
        let mut same_names = 0;
        for ((name, own), (other_name, others)) in self.0.entries().zip(other.0.entries()) {
            if name != other_name {
                break;
            }
            same_names += 1;
            show(name, [Some(own), Some(others)]);
        }
        // From here on names differ: fields are looked up.
        for (name, own) in self.0.entries().skip(same_names) {
            show(name, [Some(own), other.0.find(name)]);
        }
        for (name, others) in other.0.entries().skip(same_names) {
            if self.0.find(name).is_none() {
                show(name, [None, Some(others)]);
            }
        }
    }

    /// Number of fields.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.count
    }

    /// Whether there is no field.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.count == 0
    }

    /// The field `name`, in constant time.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<ValueRef<'a>> {
        let value = self.0.find(name.as_bytes())?;
        Some(ValueRef::read(value, self.0.depth_inside()))
    }

    /// The field at a dotted path, through objects only: `a.b.c` is field `c` of field `b` of field
    /// `a`. Only [`get`](Self::get) finds a name that has a dot in it.
    #[must_use]
    pub fn get_path(&self, path: &str) -> Option<ValueRef<'a>> {
        let (parents, name) = path
            .rsplit_once('.')
            .map_or((None, path), |(parents, name)| (Some(parents), name));
        let mut object = *self;
        for parent in parents.into_iter().flat_map(|parents| parents.split('.')) {
            object = match object.get(parent)? {
                ValueRef::Object(object) => object,
                _ => return None,
            };
        }
        object.get(name)
    }

    /// The names of the fields in the order they were written.
    pub fn names(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.0.entries().map(|(name, _)| utf8(name))
    }

    /// The fields in the order they were written.
    #[must_use]
    pub fn fields(&self) -> Fields<'a> {
        Fields(self.0.items())
    }
}

// The encoding is canonical, so equal bytes are equal values.
impl PartialEq for ArrayRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.0.bytes == other.0.bytes
    }
}

impl PartialEq for ObjectRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.0.bytes == other.0.bytes
    }
}

impl std::fmt::Debug for ArrayRef<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&json_out::to_json(Raw::Array(self.0), self.0.bytes.len()))
    }
}

impl std::fmt::Debug for ObjectRef<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&json_out::to_json(Raw::Object(self.0), self.0.bytes.len()))
    }
}

impl<'a> IntoIterator for ArrayRef<'a> {
    type Item = ValueRef<'a>;
    type IntoIter = Items<'a>;

    fn into_iter(self) -> Items<'a> {
        self.iter()
    }
}

impl<'a> IntoIterator for &ArrayRef<'a> {
    type Item = ValueRef<'a>;
    type IntoIter = Items<'a>;

    fn into_iter(self) -> Items<'a> {
        self.iter()
    }
}

/// The items of an array: see [`ArrayRef::iter`].
#[derive(Clone)]
pub struct Items<'a>(container::Items<'a>);

impl<'a> Iterator for Items<'a> {
    type Item = ValueRef<'a>;

    fn next(&mut self) -> Option<ValueRef<'a>> {
        let item = self.0.next()?;
        Some(ValueRef::read(item, self.0.container.depth_inside()))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.0.left(), Some(self.0.left()))
    }
}

impl ExactSizeIterator for Items<'_> {}

/// The fields of an object, names and values: see [`ObjectRef::fields`].
#[derive(Clone)]
pub struct Fields<'a>(container::Items<'a>);

impl<'a> Iterator for Fields<'a> {
    type Item = (&'a str, ValueRef<'a>);

    fn next(&mut self) -> Option<(&'a str, ValueRef<'a>)> {
        let (name, value) = split_entry(self.0.next()?)?;
        let value = ValueRef::read(value, self.0.container.depth_inside());
        Some((utf8(name), value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.0.left(), Some(self.0.left()))
    }
}

impl ExactSizeIterator for Fields<'_> {}
