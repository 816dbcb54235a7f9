//! Reading values from documents: a serde deserializer over the document's encoding, in place.

use super::path::{FieldPath, Wrong};
use quire_model::{Document, Fields, Items, ValueRef};
use serde::de::value::StrDeserializer;
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, EnumAccess, Error as _, IntoDeserializer,
    MapAccess, SeqAccess, Unexpected, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

/// A document as a value of a Rust type. No text is made in between; strings are borrowed from the
/// document where the type allows it.
///
/// # Errors
/// `Invalid` if the document is no such value: the error names the field.
pub fn from_document<'de, T: Deserialize<'de>>(document: &'de Document) -> crate::Result<T> {
    let reader = Reader {
        value: ValueRef::Object(document.root()),
        path: &FieldPath::Root,
    };
    Ok(T::deserialize(reader)?)
}

/// One value of a document, and where it is.
#[derive(Clone, Copy)]
struct Reader<'de, 'p> {
    value: ValueRef<'de>,
    path: &'p FieldPath<'p>,
}

impl<'de> Reader<'de, '_> {
    fn visit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        let visited = match self.value {
            ValueRef::Null => visitor.visit_unit(),
            ValueRef::Bool(value) => visitor.visit_bool(value),
            ValueRef::Int(value) => visitor.visit_i64(value),
            ValueRef::UInt(value) => visitor.visit_u64(value),
            ValueRef::Float(value) => visitor.visit_f64(value.value()),
            ValueRef::String(text) => visitor.visit_borrowed_str(text),
            ValueRef::Array(array) => self.visit_items(array.iter(), visitor),
            ValueRef::Object(object) => visitor.visit_map(ReadFields {
                fields: object.fields(),
                pending: None,
                path: self.path,
            }),
            _ => Err(Wrong::custom("a value of a newer kind")),
        };
        visited.map_err(|wrong| wrong.at(self.path))
    }

    fn visit_items<V: Visitor<'de>>(
        self,
        items: Items<'de>,
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        let mut items = ReadItems {
            items,
            index: 0,
            path: self.path,
        };
        let value = visitor.visit_seq(&mut items)?;
        match items.items.next() {
            None => Ok(value),
            Some(_) => Err(Wrong::custom(format_args!(
                "the array has more than {} items",
                items.index
            ))),
        }
    }

    fn wrong(self, expected: &str) -> Wrong {
        let found = Unexpected::Other(self.value.type_name());
        Wrong::invalid_type(found, &expected).at(self.path)
    }
}

impl<'de> Deserializer<'de> for Reader<'de, '_> {
    type Error = Wrong;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.visit(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self.value {
            ValueRef::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
        .map_err(|wrong| wrong.at(self.path))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        let visited = visitor.visit_newtype_struct(self);
        visited.map_err(|wrong| wrong.at(self.path))
    }

    /// `"Variant"`, or `{"Variant": content}`, as in JSON.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        let (name, content) = match self.value {
            ValueRef::String(name) => (name, None),
            ValueRef::Object(object) => {
                let mut fields = object.fields();
                match (fields.next(), fields.next()) {
                    (Some((name, content)), None) => (name, Some(content)),
                    _ => return Err(self.wrong("an object with one field, the variant")),
                }
            }
            _ => return Err(self.wrong("a string or an object: a variant")),
        };
        let variant = ReadVariant {
            name,
            content,
            path: self.path,
        };
        let visited = visitor.visit_enum(variant);
        visited.map_err(|wrong| wrong.at(self.path))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

struct ReadItems<'de, 'p> {
    items: Items<'de>,
    index: usize,
    path: &'p FieldPath<'p>,
}

impl<'de> SeqAccess<'de> for ReadItems<'de, '_> {
    type Error = Wrong;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Wrong> {
        let Some(value) = self.items.next() else {
            return Ok(None);
        };
        let path = &FieldPath::Index(self.path, self.index);
        self.index += 1;
        seed.deserialize(Reader { value, path }).map(Some)
    }
}

struct ReadFields<'de, 'p> {
    fields: Fields<'de>,
    /// The field whose name was read, and its value not yet.
    pending: Option<(&'de str, ValueRef<'de>)>,
    path: &'p FieldPath<'p>,
}

impl<'de> MapAccess<'de> for ReadFields<'de, '_> {
    type Error = Wrong;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Wrong> {
        let Some((name, value)) = self.fields.next() else {
            return Ok(None);
        };
        self.pending = Some((name, value));
        let read = seed.deserialize(ReadName(name));
        read.map(Some)
            .map_err(|wrong| wrong.at(&FieldPath::Field(self.path, name)))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Wrong> {
        let Some((name, value)) = self.pending.take() else {
            return Err(Wrong::custom("a value was read before its name"));
        };
        let path = &FieldPath::Field(self.path, name);
        seed.deserialize(Reader { value, path })
    }
}

/// The name of a field, as the key of a map: text, or an integer for a map with such keys.
struct ReadName<'de>(&'de str);

impl<'de> ReadName<'de> {
    fn integer<T: std::str::FromStr>(&self) -> Result<T, Wrong> {
        let wrong = |_| Wrong::invalid_type(Unexpected::Str(self.0), &"an integer");
        self.0.parse().map_err(wrong)
    }
}

/// Reads a name as an integer of a given type.
macro_rules! name_as_integer {
    ($($method:ident $visit:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
            visitor.$visit(self.integer()?)
        }
    )*};
}

impl<'de> Deserializer<'de> for ReadName<'de> {
    type Error = Wrong;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_borrowed_str(self.0)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        let name: StrDeserializer<'de, Wrong> = self.0.into_deserializer();
        visitor.visit_enum(name)
    }

    name_as_integer! {
        deserialize_i8 visit_i8 deserialize_i16 visit_i16
        deserialize_i32 visit_i32 deserialize_i64 visit_i64
        deserialize_u8 visit_u8 deserialize_u16 visit_u16
        deserialize_u32 visit_u32 deserialize_u64 visit_u64
    }

    forward_to_deserialize_any! {
        bool i128 u128 f32 f64 char str string bytes byte_buf option unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

struct ReadVariant<'de, 'p> {
    name: &'de str,
    content: Option<ValueRef<'de>>,
    path: &'p FieldPath<'p>,
}

impl<'de, 'p> EnumAccess<'de> for ReadVariant<'de, 'p> {
    type Error = Wrong;
    type Variant = ReadContent<'de, 'p>;

    fn variant_seed<S: DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<(S::Value, ReadContent<'de, 'p>), Wrong> {
        let variant = seed.deserialize(ReadName(self.name))?;
        let content = ReadContent {
            name: self.name,
            content: self.content,
            path: self.path,
        };
        Ok((variant, content))
    }
}

/// The content of a variant; none where only its name was given.
struct ReadContent<'de, 'p> {
    name: &'de str,
    content: Option<ValueRef<'de>>,
    path: &'p FieldPath<'p>,
}

impl<'de> ReadContent<'de, '_> {
    fn read<R>(self, read: impl FnOnce(Reader<'de, '_>) -> Result<R, Wrong>) -> Result<R, Wrong> {
        match self.content {
            Some(value) => read(Reader {
                value,
                path: &FieldPath::Field(self.path, self.name),
            }),
            None => Err(Wrong::invalid_type(
                Unexpected::UnitVariant,
                &"a variant with content",
            )),
        }
    }
}

impl<'de> VariantAccess<'de> for ReadContent<'de, '_> {
    type Error = Wrong;

    fn unit_variant(self) -> Result<(), Wrong> {
        match self.content {
            None | Some(ValueRef::Null) => Ok(()),
            Some(_) => self.read(|reader| Err(reader.wrong("a variant without content"))),
        }
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Wrong> {
        self.read(|reader| seed.deserialize(reader))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _len: usize, visitor: V) -> Result<V::Value, Wrong> {
        self.read(|reader| reader.visit(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        self.read(|reader| reader.visit(visitor))
    }
}
