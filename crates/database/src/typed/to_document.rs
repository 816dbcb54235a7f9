//! Making documents from values: a serde serializer that writes JSON text, which is then encoded in
//! one pass.

use super::path::{FieldPath, Wrong};
use quire_model::{Document, ValueRef};
use serde::ser::{
    Error as _, Impossible, Serialize, SerializeMap, SerializeSeq, SerializeStruct,
    SerializeStructVariant, SerializeTuple, SerializeTupleStruct, SerializeTupleVariant,
    Serializer,
};
use std::fmt::{Debug, Display};

/// The document that a value of a Rust type makes: a struct, or a map whose keys are text or
/// integers.
///
/// # Errors
/// `Invalid` if it makes no object, or has a number that no document can hold (NaN, an infinity, an
/// integer outside `i64::MIN..=u64::MAX`): the error names the field. `TooLarge`.
pub fn to_document<T: Serialize + ?Sized>(value: &T) -> crate::Result<Document> {
    let mut json = Vec::new();
    value.serialize(Writer {
        out: &mut json,
        path: &FieldPath::Root,
    })?;
    Ok(Document::from_json(&json)?)
}

/// Where a value is written, and which field it is of.
struct Writer<'o, 'p> {
    out: &'o mut Vec<u8>,
    path: &'p FieldPath<'p>,
}

impl<'o, 'p> Writer<'o, 'p> {
    fn display(self, value: impl Display) -> Result<(), Wrong> {
        self.out.extend_from_slice(value.to_string().as_bytes());
        Ok(())
    }

    /// A float in as few digits as tell it from others.
    fn float(self, value: impl Debug, is_finite: bool) -> Result<(), Wrong> {
        match is_finite {
            true => self.display(format_args!("{value:?}")),
            false => {
                let what = format_args!("{value:?} has no place in a document; use null");
                Err(Wrong::custom(what).at(self.path))
            }
        }
    }

    fn integer(self, value: i128) -> Result<(), Wrong> {
        match i128::from(i64::MIN) <= value && value <= i128::from(u64::MAX) {
            true => self.display(value),
            false => Err(out_of_range(value).at(self.path)),
        }
    }

    fn string(self, text: &str) -> Result<(), Wrong> {
        ValueRef::String(text).write_json(self.out);
        Ok(())
    }

    fn begin(self, open: &'static str, close: &'static str) -> Items<'o, 'p> {
        self.out.extend_from_slice(open.as_bytes());
        Items {
            out: self.out,
            path: self.path,
            count: 0,
            name: String::new(),
            close,
        }
    }

    /// `{"variant":`, whose content comes next, in brackets or braces of its own.
    fn begin_variant(
        self,
        variant: &'static str,
        open: &'static str,
        close: &'static str,
    ) -> Items<'o, 'p> {
        self.out.push(b'{');
        ValueRef::String(variant).write_json(self.out);
        self.out.push(b':');
        self.begin(open, close)
    }
}

fn out_of_range(value: impl Display) -> Wrong {
    Wrong::custom(format_args!(
        "{value} is outside the integers of a document, {} to {}",
        i64::MIN,
        u64::MAX
    ))
}

/// Writes integers of several types.
macro_rules! integers {
    ($($method:ident $type:ty)*) => {$(
        fn $method(self, value: $type) -> Result<(), Wrong> {
            self.display(value)
        }
    )*};
}

impl<'o, 'p> Serializer for Writer<'o, 'p> {
    type Ok = ();
    type Error = Wrong;
    type SerializeSeq = Items<'o, 'p>;
    type SerializeTuple = Items<'o, 'p>;
    type SerializeTupleStruct = Items<'o, 'p>;
    type SerializeTupleVariant = Items<'o, 'p>;
    type SerializeMap = Items<'o, 'p>;
    type SerializeStruct = Items<'o, 'p>;
    type SerializeStructVariant = Items<'o, 'p>;

    integers! {
        serialize_bool bool serialize_i8 i8 serialize_i16 i16 serialize_i32 i32 serialize_i64 i64
        serialize_u8 u8 serialize_u16 u16 serialize_u32 u32 serialize_u64 u64
    }

    fn serialize_i128(self, value: i128) -> Result<(), Wrong> {
        self.integer(value)
    }

    fn serialize_u128(self, value: u128) -> Result<(), Wrong> {
        match i128::try_from(value) {
            Ok(value) => self.integer(value),
            Err(_) => Err(out_of_range(value).at(self.path)),
        }
    }

    fn serialize_f32(self, value: f32) -> Result<(), Wrong> {
        self.float(value, value.is_finite())
    }

    fn serialize_f64(self, value: f64) -> Result<(), Wrong> {
        self.float(value, value.is_finite())
    }

    fn serialize_char(self, value: char) -> Result<(), Wrong> {
        self.string(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, text: &str) -> Result<(), Wrong> {
        self.string(text)
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<(), Wrong> {
        self.collect_seq(bytes)
    }

    fn serialize_none(self) -> Result<(), Wrong> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Wrong> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Wrong> {
        self.display("null")
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<(), Wrong> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Result<(), Wrong> {
        self.string(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        value: &T,
    ) -> Result<(), Wrong> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Wrong> {
        let mut object = self.begin("{", "}");
        object.field(variant, value)?;
        object.finish()
    }

    fn serialize_seq(self, _len: Option<usize>) -> Result<Items<'o, 'p>, Wrong> {
        Ok(self.begin("[", "]"))
    }

    fn serialize_tuple(self, _len: usize) -> Result<Items<'o, 'p>, Wrong> {
        Ok(self.begin("[", "]"))
    }

    fn serialize_tuple_struct(
        self,
        _name: &'static str,
        _len: usize,
    ) -> Result<Items<'o, 'p>, Wrong> {
        Ok(self.begin("[", "]"))
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Items<'o, 'p>, Wrong> {
        Ok(self.begin_variant(variant, "[", "]}"))
    }

    fn serialize_map(self, _len: Option<usize>) -> Result<Items<'o, 'p>, Wrong> {
        Ok(self.begin("{", "}"))
    }

    fn serialize_struct(self, _name: &'static str, _len: usize) -> Result<Items<'o, 'p>, Wrong> {
        Ok(self.begin("{", "}"))
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Items<'o, 'p>, Wrong> {
        Ok(self.begin_variant(variant, "{", "}}"))
    }
}

/// The items of an array or the fields of an object that is being written.
struct Items<'o, 'p> {
    out: &'o mut Vec<u8>,
    path: &'p FieldPath<'p>,
    count: usize,
    /// Of a map: the key whose value comes next.
    name: String,
    close: &'static str,
}

impl Items<'_, '_> {
    fn comma(&mut self) {
        if self.count > 0 {
            self.out.push(b',');
        }
        self.count += 1;
    }

    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Wrong> {
        let path = &FieldPath::Index(self.path, self.count);
        self.comma();
        let out = &mut *self.out;
        let written = value.serialize(Writer { out, path });
        written.map_err(|wrong| wrong.at(path))
    }

    fn field<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<(), Wrong> {
        let path = &FieldPath::Field(self.path, name);
        self.comma();
        ValueRef::String(name).write_json(self.out);
        self.out.push(b':');
        let out = &mut *self.out;
        let written = value.serialize(Writer { out, path });
        written.map_err(|wrong| wrong.at(path))
    }

    fn finish(self) -> Result<(), Wrong> {
        self.out.extend_from_slice(self.close.as_bytes());
        Ok(())
    }
}

impl SerializeSeq for Items<'_, '_> {
    type Ok = ();
    type Error = Wrong;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Wrong> {
        self.item(value)
    }

    fn end(self) -> Result<(), Wrong> {
        self.finish()
    }
}

impl SerializeTuple for Items<'_, '_> {
    type Ok = ();
    type Error = Wrong;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Wrong> {
        self.item(value)
    }

    fn end(self) -> Result<(), Wrong> {
        self.finish()
    }
}

impl SerializeTupleStruct for Items<'_, '_> {
    type Ok = ();
    type Error = Wrong;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Wrong> {
        self.item(value)
    }

    fn end(self) -> Result<(), Wrong> {
        self.finish()
    }
}

impl SerializeTupleVariant for Items<'_, '_> {
    type Ok = ();
    type Error = Wrong;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Wrong> {
        self.item(value)
    }

    fn end(self) -> Result<(), Wrong> {
        self.finish()
    }
}

impl SerializeMap for Items<'_, '_> {
    type Ok = ();
    type Error = Wrong;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Wrong> {
        let name = key.serialize(NameWriter);
        self.name = name.map_err(|wrong| wrong.at(self.path))?;
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Wrong> {
        let name = std::mem::take(&mut self.name);
        self.field(&name, value)
    }

    fn end(self) -> Result<(), Wrong> {
        self.finish()
    }
}

impl SerializeStruct for Items<'_, '_> {
    type Ok = ();
    type Error = Wrong;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), Wrong> {
        self.field(name, value)
    }

    fn end(self) -> Result<(), Wrong> {
        self.finish()
    }
}

impl SerializeStructVariant for Items<'_, '_> {
    type Ok = ();
    type Error = Wrong;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), Wrong> {
        self.field(name, value)
    }

    fn end(self) -> Result<(), Wrong> {
        self.finish()
    }
}

/// Makes the name of a field from the key of a map.
struct NameWriter;

/// Keys that are text when they are displayed.
macro_rules! names {
    ($($method:ident $type:ty)*) => {$(
        fn $method(self, value: $type) -> Result<String, Wrong> {
            Ok(value.to_string())
        }
    )*};
}

/// Keys that are refused.
macro_rules! no_names {
    ($($method:ident ($($argument:ty),*) -> $done:ty;)*) => {$(
        fn $method(self, $(_: $argument),*) -> Result<$done, Wrong> {
            Err(no_name())
        }
    )*};
}

fn no_name() -> Wrong {
    Wrong::custom("the keys of a map must be text or integers")
}

type Refused = Impossible<String, Wrong>;

impl Serializer for NameWriter {
    type Ok = String;
    type Error = Wrong;
    type SerializeSeq = Refused;
    type SerializeTuple = Refused;
    type SerializeTupleStruct = Refused;
    type SerializeTupleVariant = Refused;
    type SerializeMap = Refused;
    type SerializeStruct = Refused;
    type SerializeStructVariant = Refused;

    names! {
        serialize_i8 i8 serialize_i16 i16 serialize_i32 i32 serialize_i64 i64 serialize_i128 i128
        serialize_u8 u8 serialize_u16 u16 serialize_u32 u32 serialize_u64 u64 serialize_u128 u128
        serialize_char char serialize_str &str
    }

    no_names! {
        serialize_bool(bool) -> String;
        serialize_f32(f32) -> String;
        serialize_f64(f64) -> String;
        serialize_bytes(&[u8]) -> String;
        serialize_none() -> String;
        serialize_unit() -> String;
        serialize_unit_struct(&'static str) -> String;
        serialize_seq(Option<usize>) -> Refused;
        serialize_tuple(usize) -> Refused;
        serialize_tuple_struct(&'static str, usize) -> Refused;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> Refused;
        serialize_map(Option<usize>) -> Refused;
        serialize_struct(&'static str, usize) -> Refused;
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> Refused;
    }

    fn serialize_some<T: Serialize + ?Sized>(self, _value: &T) -> Result<String, Wrong> {
        Err(no_name())
    }

    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Result<String, Wrong> {
        Ok(variant.to_string())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        value: &T,
    ) -> Result<String, Wrong> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        _value: &T,
    ) -> Result<String, Wrong> {
        Err(no_name())
    }
}
