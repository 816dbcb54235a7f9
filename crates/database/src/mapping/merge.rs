//! A mapping that is added to another one.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::error::MappingError;
use super::{FieldRule, Mapping, ObjectRule, dates};

impl Mapping {
    /// This mapping with what another one adds.
    ///
    /// # Errors
    /// If a field is in both with different types.
    pub fn merged(&self, added: &Mapping) -> Result<Mapping, MappingError> {
        let (mut rules, added) = match (&self.0, &added.0) {
            (_, None) => return Ok(self.clone()),
            (None, Some(_)) => return Ok(added.clone()),
            (Some(rules), Some(added)) => (Arc::unwrap_or_clone(Arc::clone(rules)), added),
        };
        let others = added.others.iter();
        let others = others.map(|(name, value)| (name.clone(), value.clone()));
        rules.others.extend(others);
        merge_object(&mut rules.root, added.root.clone(), "").map_err(MappingError)?;
        Ok(Mapping(Some(Arc::new(rules))))
    }
}

fn merge_object(into: &mut ObjectRule, added: ObjectRule, at: &str) -> Result<(), String> {
    into.dynamic = added.dynamic.or(into.dynamic);
    if into.is_disabled != added.is_disabled && !at.is_empty() && !into.properties.is_empty() {
        let at = at.trim_end_matches('.');
        return Err(format!(
            "the [enabled] parameter can't be updated for the object mapping [{at}]"
        ));
    }
    into.is_disabled |= added.is_disabled;
    merge_objects(&mut into.properties, added.properties, at)
}

/// Adds fields to those of an object. `at` is its path, with a dot after it.
pub(super) fn merge_objects(
    into: &mut BTreeMap<String, FieldRule>,
    added: BTreeMap<String, FieldRule>,
    at: &str,
) -> Result<(), String> {
    for (name, rule) in added {
        let path = format!("{at}{name}");
        match (into.get_mut(&name), rule) {
            (None, rule) => drop(into.insert(name, rule)),
            (Some(FieldRule::Object(into)), FieldRule::Object(added)) => {
                merge_object(into, added, &format!("{path}."))?;
            }
            (Some(FieldRule::Value(into)), FieldRule::Value(added)) => {
                if into.kind != added.kind {
                    return Err(format!(
                        "mapper [{path}] cannot be changed from type [{}] to [{}]",
                        into.kind.name(),
                        added.kind.name()
                    ));
                }
                let (now, wanted) = (into.formats.as_ref(), added.formats.as_ref());
                if let Some(why) = dates::changed(&path, now, wanted) {
                    return Err(why);
                }
                *into = added;
            }
            (Some(FieldRule::Object(_)), FieldRule::Value(_)) => {
                return Err(format!(
                    "can't merge a non object mapping [{path}] with an object mapping"
                ));
            }
            (Some(FieldRule::Value(into)), FieldRule::Object(_)) => {
                return Err(format!(
                    "mapper [{path}] cannot be changed from type [{}] to [ObjectMapper]",
                    into.kind.name()
                ));
            }
        }
    }
    Ok(())
}
