//! The check of a document that is written.

use quire_collection::{Action, Write};
use quire_model::{Key, ObjectRef, ValueRef};

use super::field::shown;
use super::violation::Violation;
use super::{Dynamic, FieldRule, Mapping, ObjectRule, ValueRule, dates};

/// The longest value that an error shows, in characters.
const SHOWN_MAX: usize = 64;

impl Mapping {
    /// Checks a write. What a patch does not name is as it was, and was checked before.
    ///
    /// # Errors
    /// The first contradiction that is found.
    pub fn check(&self, write: &Write) -> Result<(), Violation> {
        let (Some(rules), Action::Put(document) | Action::Patch(document)) =
            (&self.0, &write.action)
        else {
            return Ok(());
        };
        let mut check = Check {
            key: &write.key,
            path: String::new(),
        };
        check.object(&rules.root, Dynamic::True, document.root())
    }
}

/// One check of one document. Recursion is as deep as the document, which has a bound.
struct Check<'a> {
    key: &'a Key,
    /// The path of the object that is being checked, with a dot after it; empty at the root.
    path: String,
}

impl Check<'_> {
    fn object(
        &mut self,
        rule: &ObjectRule,
        inherited: Dynamic,
        object: ObjectRef<'_>,
    ) -> Result<(), Violation> {
        if rule.is_disabled {
            return Ok(());
        }
        let dynamic = rule.dynamic.unwrap_or(inherited);
        for (name, value) in object.fields() {
            self.field(rule, dynamic, name, value)?;
        }
        Ok(())
    }

    /// A field of an object; its name may be a path.
    fn field(
        &mut self,
        rule: &ObjectRule,
        dynamic: Dynamic,
        name: &str,
        value: ValueRef<'_>,
    ) -> Result<(), Violation> {
        let (first, rest) = match name.split_once('.') {
            Some((first, rest)) => (first, Some(rest)),
            None => (name, None),
        };
        let Some(found) = rule.properties.get(first) else {
            // The key is no field.
            let is_key = self.path.is_empty() && name == quire_collection::ID;
            return match dynamic {
                Dynamic::Strict if !is_key => Err(Violation::Unnamed {
                    name: first.to_owned(),
                    within: self.path.trim_end_matches('.').to_owned(),
                }),
                _ => Ok(()),
            };
        };
        let before = self.path.len();
        self.path.push_str(first);
        let checked = match (found, rest) {
            (FieldRule::Object(object), Some(rest)) => {
                self.path.push('.');
                let dynamic = object.dynamic.unwrap_or(dynamic);
                match object.is_disabled {
                    true => Ok(()),
                    false => self.field(object, dynamic, rest, value),
                }
            }
            (FieldRule::Object(object), None) => self.objects(object, dynamic, value),
            // A path below a field with values is a field of its own.
            (FieldRule::Value(_), Some(_)) => Ok(()),
            (FieldRule::Value(rule), None) => self.values(rule, value),
        };
        if checked.is_ok() {
            self.path.truncate(before);
        }
        checked
    }

    /// An object, or an array of objects.
    fn objects(
        &mut self,
        rule: &ObjectRule,
        dynamic: Dynamic,
        value: ValueRef<'_>,
    ) -> Result<(), Violation> {
        match value {
            _ if rule.is_disabled => Ok(()),
            ValueRef::Null => Ok(()),
            ValueRef::Array(array) => {
                let mut items = array.iter();
                items.try_for_each(|item| self.objects(rule, dynamic, item))
            }
            ValueRef::Object(object) => {
                let before = self.path.len();
                self.path.push('.');
                self.object(rule, dynamic, object)?;
                self.path.truncate(before);
                Ok(())
            }
            _ => Err(Violation::NoObject {
                path: self.path.clone(),
            }),
        }
    }

    /// A value, or an array of values.
    fn values(&self, rule: &ValueRule, value: ValueRef<'_>) -> Result<(), Violation> {
        if let ValueRef::Array(array) = value {
            let mut items = array.iter();
            return items.try_for_each(|item| self.values(rule, item));
        }
        let why = match value {
            ValueRef::Null => None,
            value if rule.own_formats().is_some() => {
                let formats = rule.own_formats();
                formats.and_then(|formats| dates::refuses(formats, value))
            }
            value => rule.kind.refuses(value, rule.coerces()),
        };
        match why {
            None => Ok(()),
            Some(why) => Err(Violation::WrongType {
                path: self.path.clone(),
                kind: rule.kind.name(),
                key: self.key.to_string(),
                preview: preview(value),
                why,
            }),
        }
    }
}

/// The beginning of a value.
fn preview(value: ValueRef<'_>) -> String {
    let text = shown(value);
    let mut preview: String = text.chars().take(SHOWN_MAX).collect();
    if preview.len() < text.len() {
        preview.push_str("...");
    }
    preview
}
