//! Templates: what collections are made with whose names match a pattern.
//!
//! Index templates (`_index_template`) are composed of component templates (`_component_template`);
//! of those that match a name the one with the highest priority is applied. Where none matches, all
//! legacy templates (`_template`) that match are, in their order.
//!
//! The database keeps a template as it is shown, under `index/NAME`, `component/NAME` and
//! `legacy/NAME`.

use std::collections::BTreeMap;

use quiredb::Templates;
use serde_json::{Map, Value, json};

use super::aliases::{describe, options};
use super::api_settings::as_text;
use super::flat_settings::{flat, nest};
use crate::http::failure::{Failure, Outcome};
use crate::http::fields::glob;
use crate::search::filter::known;

type Object = Map<String, Value>;

/// A kind of template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Component,
    Index,
    Legacy,
}

impl Kind {
    /// The name under which the database keeps a template.
    pub(super) fn key(self, name: &str) -> String {
        format!("{}{name}", self.prefix())
    }

    pub(super) fn prefix(self) -> &'static str {
        match self {
            Kind::Component => "component/",
            Kind::Index => "index/",
            Kind::Legacy => "legacy/",
        }
    }

    /// The name in messages.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Component => "component template",
            Kind::Index | Kind::Legacy => "index template",
        }
    }

    fn members(self) -> &'static [&'static str] {
        match self {
            Kind::Component => &["template", "version", "_meta"],
            Kind::Index => &[
                "index_patterns",
                "template",
                "composed_of",
                "priority",
                "version",
                "_meta",
            ],
            Kind::Legacy => &[
                "order",
                "version",
                "index_patterns",
                "settings",
                "mappings",
                "aliases",
            ],
        }
    }
}

/// What a template says of the collections that are made from it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Composed {
    /// Dotted names, which begin with `index.`.
    pub(crate) settings: BTreeMap<String, Value>,
    pub(crate) mappings: Object,
    pub(crate) aliases: Object,
}

impl Composed {
    /// Adds what a template says, which counts more.
    pub(crate) fn add(&mut self, settings: Object, mappings: &Object, aliases: &Object) {
        let named = flat(settings).into_iter();
        let named = named.map(|(name, value)| (in_full(&name), value));
        self.settings.extend(named);
        merge_mapping(&mut self.mappings, mappings);
        let aliases = aliases.iter();
        self.aliases
            .extend(aliases.map(|(name, value)| (name.clone(), value.clone())));
    }

    fn add_template(&mut self, template: &Value) {
        let member = |name: &str| match template.get(name) {
            Some(Value::Object(member)) => member.clone(),
            _ => Object::new(),
        };
        self.add(member("settings"), &member("mappings"), &member("aliases"));
    }

    /// As the answer to a simulation.
    pub(super) fn show(&self) -> Value {
        let mut nested = Object::new();
        for (name, value) in &self.settings {
            nest(&mut nested, name, as_text(value));
        }
        json!({"settings": nested, "mappings": self.mappings, "aliases": self.aliases})
    }

    /// Writes aliases as they are shown.
    ///
    /// # Errors
    /// 400 for what no alias can be.
    fn describe_aliases(&mut self) -> Outcome<()> {
        for alias in self.aliases.values_mut() {
            *alias = describe(&options(alias)?);
        }
        Ok(())
    }
}

/// A setting's name, as OpenSearch shows it.
fn in_full(name: &str) -> String {
    match name.starts_with("index.") {
        true => name.to_owned(),
        false => format!("index.{name}"),
    }
}

/// Fields are merged by name; all else replaces.
fn merge_mapping(into: &mut Object, from: &Object) {
    for (name, value) in from {
        match (into.get_mut(name), value) {
            (Some(Value::Object(known)), Value::Object(more)) if name == "properties" => {
                merge_properties(known, more);
            }
            _ => drop(into.insert(name.clone(), value.clone())),
        }
    }
}

fn merge_properties(into: &mut Object, from: &Object) {
    for (name, value) in from {
        match (into.get_mut(name), value) {
            (Some(Value::Object(known)), Value::Object(more))
                if known.contains_key("properties") && more.contains_key("properties") =>
            {
                merge_mapping(known, more);
            }
            _ => drop(into.insert(name.clone(), value.clone())),
        }
    }
}

/// A template that was sent, as it is kept, and what it says.
///
/// # Errors
/// 400 for what is not known.
pub(super) fn checked(kind: Kind, mut body: Object) -> Outcome<(Value, Composed)> {
    known(&body, kind.name(), kind.members())?;
    if kind != Kind::Component {
        let patterns = match body.get("index_patterns") {
            Some(Value::String(one)) => vec![Value::from(one.as_str())],
            Some(Value::Array(patterns)) if !patterns.is_empty() => patterns.clone(),
            _ if kind == Kind::Legacy => {
                return Err(Failure::validation("index patterns are missing"));
            }
            _ => return Err(Failure::illegal_argument("Required [index_patterns]")),
        };
        if !patterns.iter().all(Value::is_string) {
            return Err(Failure::illegal_argument(
                "[index_patterns] must be a list of names and patterns",
            ));
        }
        body.insert("index_patterns".into(), patterns.into());
    }
    for number in ["priority", "order", "version"] {
        if body.get(number).is_some_and(|value| !value.is_i64()) {
            return Err(Failure::illegal_argument(format!(
                "[{number}] must be a number"
            )));
        }
    }
    let template = match kind {
        Kind::Legacy => Some(Value::Object(body.clone())),
        _ => body.get("template").cloned(),
    };
    let template = template.unwrap_or_else(|| json!({}));
    let Some(members) = template.as_object() else {
        return Err(Failure::illegal_argument("[template] must be an object"));
    };
    if kind != Kind::Legacy {
        known(members, "template", &["settings", "mappings", "aliases"])?;
    } else {
        body.entry("order").or_insert_with(|| 0.into());
    }
    let mut composed = Composed::default();
    composed.add_template(&template);
    composed.describe_aliases()?;
    let shown = composed.show();
    let keep = match kind {
        Kind::Legacy => &mut body,
        _ => match body.entry("template").or_insert_with(|| json!({})) {
            Value::Object(template) => template,
            _ => return Ok((Value::Object(body), composed)),
        },
    };
    for member in ["settings", "mappings", "aliases"] {
        if keep.contains_key(member) || kind == Kind::Legacy {
            keep.insert(member.into(), shown[member].clone());
        }
    }
    Ok((Value::Object(body), composed))
}

/// The strings of a list.
pub(super) fn texts<'t>(template: &'t Value, member: &str) -> Vec<&'t str> {
    let list = template.get(member).and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

fn number(template: &Value, member: &str) -> i64 {
    let number = template.get(member).and_then(Value::as_i64);
    number.unwrap_or_default()
}

/// The priority of an index template.
pub(super) fn priority(template: &Value) -> i64 {
    number(template, "priority")
}

/// The templates of a kind, by name.
pub(super) fn of_kind(
    templates: &Templates,
    kind: Kind,
) -> impl Iterator<Item = (&str, &Value)> + '_ {
    let all = templates.iter();
    all.filter_map(move |(key, template)| Some((key.strip_prefix(kind.prefix())?, template)))
}

/// The templates of a kind that match a name.
pub(super) fn matching<'t>(
    templates: &'t Templates,
    kind: Kind,
    name: &str,
) -> Vec<(&'t str, &'t Value)> {
    let matches = |template: &Value| {
        let patterns = texts(template, "index_patterns").into_iter();
        let mut matched = patterns.map(|pattern| glob(pattern.as_bytes(), name.as_bytes()));
        matched.any(|it| it)
    };
    let all = of_kind(templates, kind);
    all.filter(|(_, template)| matches(template)).collect()
}

/// What an index template says together with those that it is composed of.
pub(super) fn composed(templates: &Templates, template: &Value) -> Composed {
    let mut composed = Composed::default();
    for name in texts(template, "composed_of") {
        if let Some(component) = templates.get(&Kind::Component.key(name)) {
            composed.add_template(component.get("template").unwrap_or(&Value::Null));
        }
    }
    composed.add_template(template.get("template").unwrap_or(&Value::Null));
    composed
}

/// The index template of a collection of this name.
pub(super) fn chosen<'t>(templates: &'t Templates, name: &str) -> Option<(&'t str, &'t Value)> {
    let matching = matching(templates, Kind::Index, name).into_iter();
    matching.max_by_key(|(_, template)| priority(template))
}

/// What templates say of a new collection of this name.
pub(crate) fn applied(templates: &Templates, name: &str) -> Composed {
    if let Some((_, template)) = chosen(templates, name) {
        return composed(templates, template);
    }
    let mut legacy = matching(templates, Kind::Legacy, name);
    legacy.sort_by_key(|(_, template)| number(template, "order"));
    let mut composed = Composed::default();
    for (_, template) in legacy {
        composed.add_template(template);
    }
    composed
}
