//! The parts that schemas are made of.

use serde_json::{Value, json};

/// Schemas by name.
pub(super) type Group = Vec<(&'static str, Value)>;

pub(super) fn text() -> Value {
    json!({"type": "string"})
}

/// A whole number.
pub(super) fn number() -> Value {
    json!({"type": "integer", "format": "int64"})
}

/// A number that may have a fraction.
pub(super) fn real() -> Value {
    json!({"type": "number", "format": "double"})
}

pub(super) fn switch() -> Value {
    json!({"type": "boolean"})
}

/// An object of any members.
pub(super) fn any() -> Value {
    json!({"type": "object", "additionalProperties": true})
}

pub(super) fn list(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

/// An object whose members have names that callers chose.
pub(super) fn map(items: Value) -> Value {
    json!({"type": "object", "additionalProperties": items})
}

/// A text, or a list of texts.
pub(super) fn one_or_more() -> Value {
    json!({"oneOf": [text(), list(text())]})
}

/// A schema that has a name.
pub(super) fn named(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// What a schema says, or null. The schema has a type: one that is referred to has none.
pub(super) fn nullable(mut schema: Value) -> Value {
    debug_assert!(
        schema["type"].is_string(),
        "null is allowed beside a type: {schema}"
    );
    schema["nullable"] = true.into();
    schema
}

/// An object with these members. Others may be there too.
pub(super) fn members(properties: Value) -> Value {
    json!({"type": "object", "properties": properties, "additionalProperties": true})
}

/// The members of two objects.
pub(super) fn both(mut first: Value, second: Value) -> Value {
    if let (Value::Object(all), Value::Object(more)) = (&mut first, second) {
        all.extend(more);
    }
    first
}

/// An object with these members, as a schema of its own.
pub(super) fn object(properties: Value, example: Value) -> Value {
    with_example(members(properties), example)
}

pub(super) fn with_example(mut schema: Value, example: Value) -> Value {
    schema["example"] = example;
    schema
}
