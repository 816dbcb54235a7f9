//! `_mapping`: the fields of documents, as OpenSearch shows a mapping.
//!
//! There is no mapping: the types are those of the values that documents have. A field with values
//! of several types is shown as `keyword`, and as `double` if all are numbers; one with fields
//! below it is shown by these alone. Nulls have no type.

use quiredb::{CollectionFields, FieldStats, FieldType};
use serde_json::{Map, Value, json};

/// The mapping of a collection with these fields.
pub(super) fn describe(fields: &CollectionFields) -> Value {
    let mut properties = Map::new();
    for field in &fields.fields {
        // It is the document's id, which is no field of a mapping.
        if field.path != "_id"
            && let Some(name) = type_name(&field.types)
        {
            add(&mut properties, &field.path, name);
        }
    }
    json!({"properties": properties})
}

/// What the mapping does not say.
pub(super) fn details(fields: &CollectionFields) -> Value {
    let of_field = |field: &FieldStats| {
        // Examples are JSON that was just written.
        let example = |text: &String| serde_json::from_str(text).unwrap_or(Value::Null);
        json!({
            "path": field.path,
            "types": field.types,
            "documents": field.documents,
            "several": field.several,
            "values": field.values,
            "estimated": field.estimated,
            "examples": field.examples.iter().map(example).collect::<Vec<_>>(),
            "index_bytes": field.index_bytes,
        })
    };
    json!({
        "documents": fields.documents,
        "from_index": fields.from_index,
        "omitted": fields.omitted,
        "fields": fields.fields.iter().map(of_field).collect::<Vec<_>>(),
    })
}

/// Adds a field below those that its path names. Paths come in their order, so one comes before
/// those below it.
fn add(mut properties: &mut Map<String, Value>, path: &str, type_name: &str) {
    let mut names = path.split('.').peekable();
    while let Some(name) = names.next() {
        let entry = properties.entry(name.to_owned());
        if names.peek().is_none() {
            entry.or_insert_with(|| json!({"type": type_name}));
            return;
        }
        let object = entry.or_insert_with(|| json!({"properties": {}}));
        if object.get("properties").is_none() {
            *object = json!({"properties": {}});
        }
        match object.get_mut("properties").and_then(Value::as_object_mut) {
            Some(below) => properties = below,
            None => return,
        }
    }
}

fn type_name(types: &[FieldType]) -> Option<&'static str> {
    let mut types = types.iter().filter(|one| **one != FieldType::Null);
    let first = types.next()?;
    let name = |one: &FieldType| match one {
        FieldType::Boolean => "boolean",
        FieldType::Integer => "long",
        FieldType::Float => "double",
        FieldType::Null | FieldType::String => "keyword",
    };
    Some(
        types.fold(name(first), |so_far, one| match (so_far, name(one)) {
            (a, b) if a == b => a,
            ("long" | "double", "long" | "double") => "double",
            _ => "keyword",
        }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_those_of_the_values_and_paths_nest() {
        use FieldType::{Boolean, Float, Integer, Null, String};
        assert_eq!(type_name(&[Null]), None);
        assert_eq!(type_name(&[Null, Boolean]), Some("boolean"));
        assert_eq!(type_name(&[Integer, Float]), Some("double"));
        assert_eq!(type_name(&[Integer, String]), Some("keyword"));
        let mut properties = Map::new();
        for path in ["a", "a.b", "a.c.d", "e"] {
            add(&mut properties, path, "long");
        }
        let long = json!({"type": "long"});
        let below = json!({"properties": {"b": long, "c": {"properties": {"d": long}}}});
        assert_eq!(Value::Object(properties), json!({"a": below, "e": long}));
    }
}
