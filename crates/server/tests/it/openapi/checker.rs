//! Whether JSON is what a schema says, and which named members of schemas were seen.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// The schemas of a description, and the members that values had.
pub(super) struct Checker {
    schemas: Map<String, Value>,
    seen: BTreeSet<String>,
}

impl Checker {
    pub(super) fn new(description: &Value) -> Checker {
        Checker {
            schemas: description["components"]["schemas"]
                .as_object()
                .unwrap()
                .clone(),
            seen: BTreeSet::new(),
        }
    }

    pub(super) fn schemas(&self) -> &Map<String, Value> {
        &self.schemas
    }

    /// What is wrong with a value of a schema, each with the place: nothing if the schema is true.
    pub(super) fn check(&mut self, schema: &Value, value: &Value) -> Vec<String> {
        let mut found = Found::default();
        self.compare(schema, value, "", &mut found);
        self.seen.extend(found.seen);
        found.wrong
    }

    /// The named members that no value had, as `Schema.member.member`.
    pub(super) fn unseen(&self) -> Vec<String> {
        let mut all = Vec::new();
        for (name, schema) in &self.schemas {
            named_members(schema, name, &mut all);
        }
        all.retain(|member| !self.seen.contains(member));
        all
    }

    fn compare(&self, schema: &Value, value: &Value, place: &str, found: &mut Found) {
        if let Some(reference) = schema["$ref"].as_str() {
            let name = reference.strip_prefix("#/components/schemas/").unwrap();
            let schema = self.schemas.get(name).unwrap_or(&Value::Null);
            assert!(schema.is_object(), "{place}: there is no schema {name}");
            return self.compare(schema, value, name, found);
        }
        if let Some(choices) = schema["oneOf"].as_array() {
            return self.compare_choices(choices, value, place, found);
        }
        if value.is_null() && schema["nullable"] == true {
            return;
        }
        let kind = schema["type"].as_str().unwrap_or("any");
        let is_right = match kind {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "any" => true,
            other => panic!("{place}: the type {other} is not known"),
        };
        if !is_right {
            found.wrong.push(format!("{place}: {value} is no {kind}"));
            return;
        }
        if let Some(allowed) = schema["enum"].as_array()
            && !allowed.contains(value)
        {
            found.wrong.push(format!("{place}: {value} is not allowed"));
        }
        for item in value.as_array().into_iter().flatten() {
            self.compare(&schema["items"], item, place, found);
        }
        for (name, member) in value.as_object().into_iter().flatten() {
            let place = format!("{place}.{name}");
            match (&schema["properties"][name], &schema["additionalProperties"]) {
                (Value::Null, Value::Bool(false)) => {
                    found
                        .wrong
                        .push(format!("{place}: the member is not known"));
                }
                (Value::Null, Value::Null | Value::Bool(true)) => {}
                (Value::Null, others) => {
                    let place = place.rsplit_once('.').unwrap().0;
                    self.compare(others, member, place, found);
                }
                (own, _) => {
                    self.compare(own, member, &place, found);
                    found.seen.insert(place);
                }
            }
        }
        for name in schema["required"].as_array().into_iter().flatten() {
            if value[name.as_str().unwrap()].is_null() {
                found.wrong.push(format!("{place}.{name}: it is required"));
            }
        }
    }

    fn compare_choices(&self, choices: &[Value], value: &Value, place: &str, found: &mut Found) {
        let tried = choices.iter().map(|choice| {
            let mut found = Found::default();
            self.compare(choice, value, place, &mut found);
            found
        });
        match tried.into_iter().find(|found| found.wrong.is_empty()) {
            Some(right) => found.seen.extend(right.seen),
            None => found
                .wrong
                .push(format!("{place}: {value} is none of these")),
        }
    }
}

#[derive(Default)]
struct Found {
    wrong: Vec<String>,
    seen: BTreeSet<String>,
}

/// All members that a schema names.
fn named_members(schema: &Value, place: &str, to: &mut Vec<String>) {
    for (name, member) in schema["properties"].as_object().into_iter().flatten() {
        let place = format!("{place}.{name}");
        named_members(member, &place, to);
        to.push(place);
    }
    let choices = schema["oneOf"].as_array().into_iter().flatten();
    for part in [&schema["items"], &schema["additionalProperties"]]
        .into_iter()
        .chain(choices)
    {
        if part.is_object() {
            named_members(part, place, to);
        }
    }
}
