//! The text of a mapping, as OpenSearch writes it.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::error::MappingError;
use super::field::FieldKind;
use super::merge::merge_objects;
use super::{Dynamic, FieldRule, ObjectRule, Rules, ValueRule, dates};

/// The most nested objects that a mapping names.
const DEPTH_MAX: usize = 20;

fn wrong<T>(what: impl Into<String>) -> Result<T, MappingError> {
    Err(MappingError(what.into()))
}

/// Members of a mapping that change nothing here, and are kept as they are.
const KEPT: [&str; 5] = [
    "_meta",
    "date_detection",
    "dynamic_date_formats",
    "dynamic_templates",
    "numeric_detection",
];

/// Options of every type that change no answer here.
const OPTIONS: [&str; 7] = [
    "boost",
    "doc_values",
    "eager_global_ordinals",
    "index",
    "meta",
    "store",
    "fields",
];

/// The analyzers that OpenSearch has by itself. No text is analyzed here: what a query can only
/// answer by analyzing is refused, so they are kept and shown.
const ANALYZERS: [&str; 9] = [
    "default",
    "english",
    "fingerprint",
    "keyword",
    "pattern",
    "simple",
    "standard",
    "stop",
    "whitespace",
];

/// Types of OpenSearch that are known and refused, and why.
const REFUSED: [(&str, &str); 5] = [
    (
        "nested",
        "objects of an array are not told apart; use [object]",
    ),
    ("geo_shape", "there are no geographic queries; use [object]"),
    ("alias", "a field has one name"),
    ("join", "documents have no parents"),
    ("knn_vector", "there is no search by vectors"),
];

impl Rules {
    pub(super) fn parse(mapping: &Map<String, Value>) -> Result<Rules, MappingError> {
        let mut others = Map::new();
        let mut object = Map::new();
        for (name, value) in mapping {
            match name.as_str() {
                "properties" | "dynamic" => drop(object.insert(name.clone(), value.clone())),
                "_source" if is_plain_source(value) => {}
                "_routing" if value.get("required").is_none_or(|it| *it == false) => {}
                "_source" => return wrong("[_source] can't be disabled: documents are whole"),
                "_routing" => {
                    return wrong("[_routing] can't be required: the id alone routes a document");
                }
                kept if KEPT.contains(&kept) => drop(others.insert(name.clone(), value.clone())),
                _ => {
                    let shown = shown(value);
                    return wrong(format!(
                        "Root mapping definition has unsupported parameters:  [{name} : {shown}]"
                    ));
                }
            }
        }
        let root = object_rule("", &object, 0)?;
        Ok(Rules { root, others })
    }
}

fn is_plain_source(value: &Value) -> bool {
    let members = value.as_object();
    members.is_some_and(|members| {
        let mut members = members.iter();
        members.all(|(name, value)| name == "enabled" && *value == true)
    })
}

fn object_rule(
    at: &str,
    object: &Map<String, Value>,
    depth: usize,
) -> Result<ObjectRule, MappingError> {
    if depth > DEPTH_MAX {
        return wrong(format!(
            "Limit of mapping depth [{DEPTH_MAX}] has been exceeded"
        ));
    }
    let mut rule = ObjectRule::default();
    for (name, value) in object {
        match (name.as_str(), value) {
            ("type", _) => {}
            ("dynamic", value) => rule.dynamic = Some(dynamic(value)?),
            ("enabled", value) => rule.is_disabled = !flag("enabled", value)?,
            ("properties", Value::Object(properties)) => {
                rule.properties = self::properties(at, properties, depth)?;
            }
            ("properties", _) => return wrong("Expected map for [properties]"),
            (name, value) => {
                let shown = shown(value);
                return wrong(format!(
                    "Mapping definition for [{at}] has unsupported parameters:  [{name} : {shown}]"
                ));
            }
        }
    }
    Ok(rule)
}

fn properties(
    at: &str,
    properties: &Map<String, Value>,
    depth: usize,
) -> Result<BTreeMap<String, FieldRule>, MappingError> {
    let mut rules = BTreeMap::new();
    for (name, value) in properties {
        if name.split('.').any(str::is_empty) {
            return wrong(format!("field name [{name}] has an empty part"));
        }
        let Value::Object(value) = value else {
            return wrong(format!(
                "Expected map for property [{name}] on field [{at}]"
            ));
        };
        let path = match at {
            "" => name.clone(),
            at => format!("{at}.{name}"),
        };
        let rule = field_rule(&path, name.rsplit('.').next().unwrap_or(name), value, depth)?;
        // `a.b` is `b` in the object `a`.
        let mut names: Vec<&str> = name.split('.').collect();
        let last = names.pop().unwrap_or_default();
        let mut one = BTreeMap::from([(last.to_owned(), rule)]);
        for name in names.into_iter().rev() {
            let object = ObjectRule {
                properties: one,
                ..ObjectRule::default()
            };
            one = BTreeMap::from([(name.to_owned(), FieldRule::Object(object))]);
        }
        merge_objects(&mut rules, one, "").map_err(MappingError)?;
    }
    Ok(rules)
}

fn field_rule(
    path: &str,
    name: &str,
    field: &Map<String, Value>,
    depth: usize,
) -> Result<FieldRule, MappingError> {
    let is_object = field.contains_key("properties") || field.contains_key("enabled");
    let type_name = match field.get("type") {
        None if is_object || field.contains_key("dynamic") => "object",
        None => return wrong(format!("No type specified for field [{name}]")),
        Some(Value::String(type_name)) => type_name,
        Some(_) => return wrong(format!("the type of field [{name}] must be a string")),
    };
    if type_name == "object" {
        return Ok(FieldRule::Object(object_rule(path, field, depth + 1)?));
    }
    if let Some((_, why)) = REFUSED.iter().find(|(refused, _)| *refused == type_name) {
        return wrong(format!(
            "type [{type_name}] of field [{name}] is not supported: {why}"
        ));
    }
    let Some(kind) = FieldKind::named(type_name) else {
        return wrong(format!(
            "No handler for type [{type_name}] declared on field [{name}]"
        ));
    };
    let mut options = Map::new();
    for (option, value) in field.iter().filter(|(option, _)| *option != "type") {
        check_option(kind, name, option, value)?;
        if option == "fields" {
            check_formats(name, field)?;
        }
        options.insert(option.clone(), value.clone());
    }
    if kind == FieldKind::ScaledFloat && !options.contains_key("scaling_factor") {
        return wrong(format!(
            "Field [scaling_factor] is required on field [{name}]"
        ));
    }
    let format = options.get("format");
    let formats = format.map(|format| dates::formats(kind, name, format));
    let formats = formats.transpose()?;
    let mut said = formats.iter();
    Ok(FieldRule::Value(ValueRule {
        has_own_formats: said.any(|formats| !dates::is_usual(formats.as_str())),
        formats,
        kind,
        options,
    }))
}

fn check_option(
    kind: FieldKind,
    name: &str,
    option: &str,
    value: &Value,
) -> Result<(), MappingError> {
    let is_known = match option {
        "index" | "doc_values" | "store" | "eager_global_ordinals" => {
            flag(option, value)?;
            true
        }
        "fields" => return sub_fields(kind, name, value),
        "boost" if value.as_f64() != Some(1.0) => return wrong("[boost] must be 1"),
        option if OPTIONS.contains(&option) => true,
        "ignore_above" => kind.is_text() && value.as_u64().is_some(),
        "norms" | "index_options" | "split_queries_on_whitespace" => kind.is_text(),
        "analyzer" | "search_analyzer" | "search_quote_analyzer" if kind.is_analyzed() => {
            let analyzer = value.as_str().unwrap_or_default();
            if !ANALYZERS.contains(&analyzer) {
                return wrong(format!(
                    "analyzer [{analyzer}] has not been configured in mappings"
                ));
            }
            true
        }
        "similarity" => matches!(value.as_str(), Some("BM25" | "boolean")),
        // No query here is about single words, so what is kept of them changes no answer.
        "term_vector"
        | "index_phrases"
        | "index_prefixes"
        | "fielddata"
        | "fielddata_frequency_filter"
        | "position_increment_gap" => kind.is_analyzed(),
        "scaling_factor" => {
            kind == FieldKind::ScaledFloat && value.as_f64().is_some_and(|factor| factor > 0.0)
        }
        "coerce" if kind.is_number() => {
            flag(option, value)?;
            true
        }
        "ignore_malformed" if *value == true || *value == "true" => {
            return wrong(format!(
                "[ignore_malformed] of field [{name}] must be false: a document is stored as it \
                 is, or refused"
            ));
        }
        "ignore_malformed" => {
            kind.is_number()
                || kind.is_date()
                || matches!(kind, FieldKind::Ip | FieldKind::GeoPoint)
        }
        "ignore_z_value" => kind == FieldKind::GeoPoint,
        "format" if kind.is_date() => return dates::formats(kind, name, value).map(drop),
        _ => false,
    };
    match is_known {
        true => Ok(()),
        false if kind == FieldKind::FlatObject => wrong(format!(
            "Mapping definition for [{name}] has unsupported parameters:  [{option} : {}]",
            shown(value)
        )),
        false => {
            let kind = kind.name();
            wrong(format!(
                "unknown parameter [{option}] on mapper [{name}] of type [{kind}]"
            ))
        }
    }
}

/// `fields`: other names of the field, each with a type that all values of the field are of.
fn sub_fields(kind: FieldKind, name: &str, fields: &Value) -> Result<(), MappingError> {
    let Some(fields) = fields.as_object() else {
        return wrong(format!(
            "Expected map for property [fields] on field [{name}]"
        ));
    };
    for (sub_field, value) in fields {
        let options = value.as_object().into_iter().flatten();
        let type_name = value.get("type").and_then(Value::as_str);
        let own = type_name.and_then(FieldKind::named);
        let Some(own) = own.filter(|own| *own == kind || own.is_text() && kind.is_text()) else {
            let (kind, own) = (kind.name(), type_name.unwrap_or("none"));
            return wrong(format!(
                "[fields] of [{name}], of type [{kind}], can't have [{sub_field}] of type [{own}]: \
                 a document has one value for all of them, so they are of one type (text and \
                 keyword are one)"
            ));
        };
        for (option, value) in options.filter(|(option, _)| *option != "type") {
            check_option(own, sub_field, option, value)?;
        }
    }
    Ok(())
}

/// Refuses `fields` that read dates by other formats than the field.
fn check_formats(name: &str, field: &Map<String, Value>) -> Result<(), MappingError> {
    let sub_fields = field.get("fields").and_then(Value::as_object);
    let mut sub_fields = sub_fields.into_iter().flatten();
    sub_fields.try_for_each(|(sub_field, own)| {
        let own = (sub_field.as_str(), own.get("format"));
        dates::check_sub_field((name, field.get("format")), own)
    })
}

fn dynamic(value: &Value) -> Result<Dynamic, MappingError> {
    match value {
        Value::Bool(true) => Ok(Dynamic::True),
        Value::Bool(false) => Ok(Dynamic::False),
        Value::String(text) if text == "true" => Ok(Dynamic::True),
        Value::String(text) if text == "false" => Ok(Dynamic::False),
        Value::String(text) if text == "strict" => Ok(Dynamic::Strict),
        other => {
            let shown = shown(other);
            wrong(format!(
                "Could not convert [dynamic.dynamic] to boolean: [{shown}]"
            ))
        }
    }
}

fn flag(name: &str, value: &Value) -> Result<bool, MappingError> {
    match value {
        Value::Bool(flag) => Ok(*flag),
        Value::String(text) if text == "true" => Ok(true),
        Value::String(text) if text == "false" => Ok(false),
        other => {
            let shown = shown(other);
            wrong(format!(
                "Failed to parse value [{shown}] of [{name}] as only [true] or [false] are allowed."
            ))
        }
    }
}

/// A value as OpenSearch shows it: text without quotes.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
