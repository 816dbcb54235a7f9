//! `_mapping`: the fields of documents, as OpenSearch shows a mapping.
//!
//! A field that the collection's mapping names has the type that it says. The types of others are
//! those of the values that documents have: a field with values of several types is shown as
//! `keyword`, and as `double` if all are numbers; one with fields below it is shown by these alone.
//! Texts are shown as `date` where queries compare them as dates.
//! Nulls have no type.

use quiredb::{CollectionFields, FieldStats, FieldType, Mapping};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The mapping of a collection with these fields, which has this mapping. The texts of `dates` are
/// dates.
pub(super) fn describe(
    fields: &CollectionFields,
    mapping: &Mapping,
    dates: &BTreeSet<String>,
) -> Value {
    let mut properties = Map::new();
    for field in &fields.fields {
        // It is the document's id, which is no field of a mapping.
        if field.path != "_id"
            && let Some(name) = type_name(&field.types)
        {
            let is_date = dates.contains(&field.path);
            add(
                &mut properties,
                &field.path,
                if is_date { "date" } else { name },
            );
        }
    }
    let mut shown = match mapping.to_json() {
        Value::Object(shown) => shown,
        _ => Map::new(),
    };
    if let Some(Value::Object(explicit)) = shown.remove("properties") {
        overlay(&mut properties, explicit);
    }
    if !properties.is_empty() {
        shown.insert("properties".into(), Value::Object(properties));
    }
    Value::Object(shown)
}

/// The fields without a type in the mapping whose texts may be dates, as far as examples tell.
pub(super) fn maybe_dates<'f>(
    fields: &'f CollectionFields,
    mapping: &Mapping,
) -> impl Iterator<Item = &'f str> {
    let is_date = |example: &String| {
        // Examples are JSON that was just written.
        let text = serde_json::from_str::<String>(example);
        text.is_ok_and(|text| quiredb::query::Value::from(text).as_date_millis().is_some())
    };
    let of_text = fields.fields.iter().filter(move |field| {
        let mut types = field.types.iter();
        let is_text = types.all(|one| matches!(one, FieldType::Null | FieldType::String));
        is_text && field.path != "_id" && field.examples.iter().all(is_date)
    });
    let untyped = of_text.filter(move |field| mapping.kind(&field.path).is_none());
    untyped.map(|field| field.path.as_str())
}

/// Puts explicit properties in place of derived ones, and sorts all by name.
fn overlay(derived: &mut Map<String, Value>, explicit: Map<String, Value>) {
    for (name, rule) in explicit {
        match (derived.get_mut(&name), rule) {
            (Some(Value::Object(shown)), Value::Object(mut rule))
                if rule.contains_key("properties") =>
            {
                let below = rule.remove("properties");
                shown.remove("type");
                let known = shown.entry("properties").or_insert_with(|| json!({}));
                if let (Value::Object(known), Some(Value::Object(below))) = (known, below) {
                    overlay(known, below);
                }
                shown.extend(rule);
            }
            (_, rule) => drop(derived.insert(name, rule)),
        }
    }
    derived.sort_keys();
}

/// The fields of a mapping as it is shown, each with its path: those with values, and objects.
pub(super) fn leaves(shown: &Value) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    collect(shown, "", &mut found);
    found
}

fn collect(shown: &Value, prefix: &str, found: &mut BTreeMap<String, Value>) {
    let properties = shown.get("properties").and_then(Value::as_object);
    for (name, rule) in properties.into_iter().flatten() {
        let path = format!("{prefix}{name}");
        if rule.get("properties").is_some() {
            collect(rule, &format!("{path}."), found);
        }
        let sub_fields = rule.get("fields").and_then(Value::as_object);
        for (sub_field, rule) in sub_fields.into_iter().flatten() {
            found.insert(format!("{path}.{sub_field}"), rule.clone());
        }
        found.insert(path, rule.clone());
    }
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

/// The type that a field with values of these types is shown with.
pub(super) fn type_name(types: &[FieldType]) -> Option<&'static str> {
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
