//! Settings as one list of dotted names, and nested.

use serde_json::{Map, Value};

/// The settings of Quire whose value may be an object. It stays whole: the names in it are those of
/// fields, with dots of their own.
const OBJECTS: [&str; 2] = ["quire.index", "quire.wide"];

fn is_whole(name: &str) -> bool {
    let short = name.strip_prefix("settings.").unwrap_or(name);
    OBJECTS.contains(&short.strip_prefix("index.").unwrap_or(short))
}

/// Nested settings as one list, with dots between the names.
pub(super) fn flat(settings: Map<String, Value>) -> Vec<(String, Value)> {
    let mut out = Vec::new();
    let mut left: Vec<(String, Value)> = settings.into_iter().collect();
    while let Some((name, value)) = left.pop() {
        match value {
            Value::Object(object) if !is_whole(&name) => {
                left.extend(
                    object
                        .into_iter()
                        .map(|(inner, value)| (format!("{name}.{inner}"), value)),
                );
            }
            value => out.push((name, value)),
        }
    }
    out
}

/// Sets the value at a dotted path. Paths that are a prefix of another keep their dots.
pub(super) fn nest(object: &mut Map<String, Value>, path: &str, value: Value) {
    if let Some((first, rest)) = path.split_once('.') {
        let below = object.entry(first.to_owned());
        if let Value::Object(below) = below.or_insert_with(|| Value::Object(Map::new())) {
            nest(below, rest, value);
            return;
        }
    }
    object.insert(path.to_owned(), value);
}
