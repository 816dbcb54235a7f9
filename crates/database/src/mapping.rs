//! [`Mapping`]: explicit types of fields, which every document that is written must agree with.
//!
//! A collection needs no mapping. Where one is given, it is written as OpenSearch writes it:
//! `{"dynamic":"strict","properties":{"born":{"type":"date"}}}`.
//!
//! # Invariants
//! 1. A write is refused if a value of its document contradicts the type of its field. What is
//!    stored is what was sent: no value is converted.
//! 2. The type of a field never changes; fields are only added.
//! 3. A type, an option or a member that is not known is refused by name.

mod check;
mod dates;
mod error;
mod field;
mod merge;
mod parse;
mod point;
mod violation;

use std::collections::BTreeMap;
use std::sync::Arc;

use quire_query::DateFormats;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

pub use error::MappingError;
pub use field::FieldKind;
pub use violation::Violation;

/// Explicit types of fields. The default has none, and accepts every document. Cheap to clone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mapping(Option<Arc<Rules>>);

/// What a mapping says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Rules {
    root: ObjectRule,
    /// Members of the mapping that change nothing here, as they were given.
    others: Map<String, Value>,
}

/// What is said of an object, or of the document itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct ObjectRule {
    /// What becomes of a field that is not named; none if the object around it says that.
    dynamic: Option<Dynamic>,
    /// Nothing below an object that is not enabled is checked.
    is_disabled: bool,
    /// By name, without dots.
    properties: BTreeMap<String, FieldRule>,
}

/// What is said of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
enum FieldRule {
    Object(ObjectRule),
    Value(ValueRule),
}

/// What is said of a field with values.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ValueRule {
    kind: FieldKind,
    /// Options beside the type, as they were given.
    options: Map<String, Value>,
    /// How dates are written, if it is said.
    formats: Option<DateFormats>,
    /// Whether these say other than text of ISO 8601 and milliseconds since 1970.
    has_own_formats: bool,
}

/// What becomes of a field that a mapping does not name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dynamic {
    /// It is accepted.
    True,
    /// It is accepted. (OpenSearch does not index it; here queries find it.)
    False,
    /// The document is refused.
    Strict,
}

impl Dynamic {
    fn name(self) -> &'static str {
        match self {
            Dynamic::True => "true",
            Dynamic::False => "false",
            Dynamic::Strict => "strict",
        }
    }
}

impl Mapping {
    /// Reads a mapping as OpenSearch writes it. An empty object is no mapping.
    ///
    /// # Errors
    /// What is wrong, in the words of OpenSearch where it has some.
    pub fn parse(mapping: &Map<String, Value>) -> Result<Mapping, MappingError> {
        let rules = Rules::parse(mapping)?;
        Ok(Mapping(
            (rules != Rules::default()).then(|| Arc::new(rules)),
        ))
    }

    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// As OpenSearch writes it; fields are sorted by name.
    pub fn to_json(&self) -> Value {
        let Some(rules) = &self.0 else {
            return Value::Object(Map::new());
        };
        let mut shown = rules.others.clone();
        rules.root.show(&mut shown);
        Value::Object(shown)
    }

    /// The type of a field, or of one of the `fields` of it; none if it is an object, or not named.
    pub fn kind(&self, path: &str) -> Option<FieldKind> {
        match self.0.as_ref()?.root.find(path) {
            Some(FieldRule::Value(rule)) => Some(rule.kind),
            Some(FieldRule::Object(_)) => None,
            None => self.sub_field(path).map(|(_, kind)| kind),
        }
    }

    /// The field that a path is another name of, and the type by which it is searched there: `x`
    /// for `x.raw`, if `raw` is among the `fields` of `x`.
    pub fn sub_field<'p>(&self, path: &'p str) -> Option<(&'p str, FieldKind)> {
        let (field, name) = path.rsplit_once('.')?;
        match self.0.as_ref()?.root.find(field)? {
            FieldRule::Value(rule) => {
                let shown = rule.options.get("fields")?.get(name)?;
                let kind = shown.get("type").and_then(Value::as_str)?;
                Some((field, FieldKind::named(kind)?))
            }
            FieldRule::Object(_) => None,
        }
    }

    /// The formats that a mapping gives the dates of a field.
    pub fn date_formats(&self, path: &str) -> Option<&DateFormats> {
        self.value_rule(path)?.formats.as_ref()
    }

    /// As [`date_formats`](Mapping::date_formats), if they say other than text of ISO 8601 and
    /// milliseconds since 1970 UTC: values are then read by them alone.
    pub fn own_date_formats(&self, path: &str) -> Option<&DateFormats> {
        self.value_rule(path)?.own_formats()
    }

    /// Whether any field has such formats.
    pub fn has_date_formats(&self) -> bool {
        let mut fields = self.fields().into_iter();
        fields.any(|(_, kind, shown)| kind.is_date() && shown.get("format").is_some())
    }

    /// What is said of a field with values, or of that which a path is another name of.
    fn value_rule(&self, path: &str) -> Option<&ValueRule> {
        let root = &self.0.as_ref()?.root;
        let rule = root.find(path).or_else(|| {
            let (field, _) = self.sub_field(path)?;
            root.find(field)
        });
        match rule? {
            FieldRule::Value(rule) => Some(rule),
            FieldRule::Object(_) => None,
        }
    }

    /// Each field with a type: its path, its type and what is said of it, in the order of paths.
    pub fn fields(&self) -> Vec<(String, FieldKind, Value)> {
        let mut fields = Vec::new();
        if let Some(rules) = &self.0 {
            rules.root.collect("", &mut fields);
        }
        fields
    }

    /// The fields that are not to be indexed.
    pub fn unindexed(&self) -> Vec<String> {
        let is_unindexed = |shown: &Value| shown.get("index") == Some(&Value::Bool(false));
        let fields = self.fields().into_iter();
        fields
            .filter(|(_, _, shown)| is_unindexed(shown))
            .map(|(path, ..)| path)
            .collect()
    }
}

impl ObjectRule {
    /// What is said of the field at a path.
    fn find(&self, path: &str) -> Option<&FieldRule> {
        match path.split_once('.') {
            None => self.properties.get(path),
            Some((name, rest)) => match self.properties.get(name)? {
                FieldRule::Object(object) => object.find(rest),
                FieldRule::Value(_) => None,
            },
        }
    }

    fn show(&self, shown: &mut Map<String, Value>) {
        if let Some(dynamic) = self.dynamic {
            shown.insert("dynamic".into(), dynamic.name().into());
        }
        if self.is_disabled {
            shown.insert("enabled".into(), false.into());
        }
        if !self.properties.is_empty() {
            let properties = self.properties.iter();
            let properties = properties.map(|(name, rule)| (name.clone(), rule.to_json()));
            shown.insert("properties".into(), Value::Object(properties.collect()));
        }
    }

    fn collect(&self, prefix: &str, fields: &mut Vec<(String, FieldKind, Value)>) {
        for (name, rule) in &self.properties {
            let path = format!("{prefix}{name}");
            match rule {
                FieldRule::Object(object) => object.collect(&format!("{path}."), fields),
                FieldRule::Value(value) => fields.push((path, value.kind, rule.to_json())),
            }
        }
    }
}

impl ValueRule {
    /// The formats that dates are read by, if these say other than ISO 8601 and milliseconds.
    fn own_formats(&self) -> Option<&DateFormats> {
        self.formats.as_ref().filter(|_| self.has_own_formats)
    }

    /// Whether text that is a number counts as one, as it does unless the mapping says otherwise.
    fn coerces(&self) -> bool {
        let coerce = self.options.get("coerce");
        coerce.is_none_or(|coerce| *coerce != false && *coerce != "false")
    }
}

impl FieldRule {
    fn to_json(&self) -> Value {
        let mut shown = Map::new();
        match self {
            FieldRule::Object(object) => {
                object.show(&mut shown);
                if !shown.contains_key("properties") {
                    shown.insert("type".into(), "object".into());
                }
            }
            FieldRule::Value(value) => {
                shown.insert("type".into(), value.kind.name().into());
                let options = value.options.iter();
                shown.extend(options.map(|(name, value)| (name.clone(), value.clone())));
            }
        }
        Value::Object(shown)
    }
}

impl Serialize for Mapping {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_json().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Mapping {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Mapping, D::Error> {
        let mapping = Map::deserialize(deserializer)?;
        Mapping::parse(&mapping).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
