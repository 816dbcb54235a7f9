//! Documents made of scalars: names and values become an encoded object.

use crate::encoder::{DuplicateName, Encoder, Output};
use crate::error::{Error, excerpt};
use crate::float::Number;
use crate::limits::DOCUMENT_BYTES_MAX;
use crate::ordered::OrderedValue;

/// A whole encoded document with these fields, in this order.
pub(crate) fn encode<'a>(
    fields: impl IntoIterator<Item = (&'a str, OrderedValue<'a>)>,
) -> Result<Vec<u8>, Error> {
    let mut encoder = Encoder::with_capacity(512);
    let object = encoder.begin();
    // The text is longer than its strings, and shorter than a document with a few numbers more.
    let mut text_bytes = 0usize;
    for (name, value) in fields {
        encoder.name(name.as_bytes());
        let string_bytes = match value {
            OrderedValue::String(ref text) => text.len(),
            _ => 0,
        };
        encode_value(&value, &mut encoder)?;
        encoder.end_item(object);
        text_bytes = text_bytes
            .saturating_add(name.len())
            .saturating_add(string_bytes);
        if text_bytes > DOCUMENT_BYTES_MAX {
            return Err(Error::TooLarge {
                bytes: text_bytes,
                bytes_max: DOCUMENT_BYTES_MAX,
            });
        }
    }
    let duplicate = |DuplicateName(name)| Error::DuplicateField {
        name: excerpt(&name),
        offset: 0,
    };
    encoder.end_object(object).map_err(duplicate)?;
    Ok(encoder.finish())
}

fn encode_value(value: &OrderedValue<'_>, encoder: &mut Encoder) -> Result<(), Error> {
    let refused = |what| Err(Error::InvalidJson { offset: 0, what });
    match value {
        OrderedValue::Null => encoder.null(),
        OrderedValue::Bool(value) => encoder.bool(*value),
        OrderedValue::Int(value) => encoder.number(Number::Int(*value)),
        OrderedValue::UInt(value) => match i64::try_from(*value) {
            Ok(value) => encoder.number(Number::Int(value)),
            Err(_) => encoder.number(Number::UInt(*value)),
        },
        OrderedValue::Float(value) => match Number::parse(value.to_string().as_bytes()) {
            Ok(number @ Number::Float(_)) => encoder.number(number),
            _ => return refused("a float that is whole, or no number"),
        },
        OrderedValue::String(text) => encoder.string(text.as_bytes()),
        OrderedValue::Bytes(_) | OrderedValue::Timestamp(_) => {
            return refused("a value that JSON has no form of");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Document;

    #[test]
    fn a_document_of_scalars_is_the_one_that_its_text_makes() {
        let many = (0..20).map(|place| format!("field {place}"));
        let many: Vec<_> = many.collect();
        let values = [
            OrderedValue::Null,
            OrderedValue::Bool(true),
            OrderedValue::Int(-7),
            OrderedValue::Int(i64::MAX),
            OrderedValue::UInt(u64::MAX),
            OrderedValue::Float(-0.125),
            OrderedValue::Float(1e-7),
            OrderedValue::String("a \"quoted\" ü".into()),
            OrderedValue::String("".into()),
        ];
        for count in [0, 3, 9, 20] {
            let fields = many.iter().take(count).map(String::as_str);
            let fields = fields.zip(values.iter().cloned().cycle());
            let document = Document::from_scalars(fields).unwrap();
            let again = Document::from_json(document.to_json().as_bytes()).unwrap();
            assert_eq!((document.len(), &again), (count, &document));
            assert_eq!(Document::from_bytes(document.bytes()).unwrap(), document);
        }
    }

    #[test]
    fn what_json_can_not_say_and_a_name_twice_are_refused() {
        for value in [
            OrderedValue::Float(f64::NAN),
            OrderedValue::Float(f64::INFINITY),
            OrderedValue::Float(2.0),
            OrderedValue::Timestamp(7),
            OrderedValue::Bytes(vec![1].into()),
        ] {
            assert!(Document::from_scalars([("a", value)]).is_err());
        }
        let twice = ["a", "b", "a"].map(|name| (name, OrderedValue::Null));
        let error = Document::from_scalars(twice).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::DuplicateField);
    }
}
