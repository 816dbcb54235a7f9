//! What a document becomes on its way: fields chosen, renamed, cast and set; a key from a template.

use crate::change::Change;
use crate::document_config::{Cast, FieldsConfig};
use crate::error::{Error, Result};
use crate::object_fields::{object_fields, write_string};
use crate::template::Template;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The name of the source's key in templates.
pub(crate) const KEY: &str = "_key";

/// The field that would say another key than a template does.
const ID: &str = "_id";

/// A mapping of documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// None if the source makes the fields itself.
    fields: Option<FieldsConfig>,
    set: Vec<(String, Template)>,
    key: Option<Template>,
}

/// A field of a document: its name, and its value as JSON.
type Field<'d> = (String, Cow<'d, str>);

impl Mapping {
    /// What the file of a pipe says; none if it says nothing. With `maps_fields` the source does
    /// not choose, rename and cast fields itself.
    ///
    /// # Errors
    /// If a template is wrong: a sentence.
    pub fn new(
        config: &FieldsConfig,
        maps_fields: bool,
    ) -> std::result::Result<Option<Mapping>, String> {
        let mapping = Mapping {
            fields: Some(FieldsConfig {
                key: None,
                module: None,
                set: Default::default(),
                ..config.clone()
            })
            .filter(|fields| maps_fields && *fields != FieldsConfig::default()),
            set: config
                .set
                .iter()
                .map(|(name, text)| Ok((name.clone(), Template::parse(text)?)))
                .collect::<std::result::Result<_, String>>()?,
            key: config.key.as_deref().map(Template::parse).transpose()?,
        };
        let is_none = mapping.fields.is_none() && mapping.set.is_empty() && mapping.key.is_none();
        Ok(Some(mapping).filter(|_| !is_none))
    }

    /// Whether a key is made of more than the source's key.
    pub(crate) fn needs_document_for_key(&self) -> bool {
        let mut names = self.key.iter().flat_map(Template::names);
        names.any(|name| name != KEY)
    }

    /// Whether keys are those of the source.
    pub(crate) fn keeps_keys(&self) -> bool {
        self.key.is_none()
    }

    /// Maps a change.
    ///
    /// # Errors
    /// If a key can't be made, or two fields would have one name.
    pub(crate) fn apply(&self, change: Change) -> Result<Change> {
        let wrong = |what: &str| Error::Source(format!("the document {:?}: {what}", change.key));
        let Some(document) = &change.document else {
            let key = self.key_of(&change.key, &[]).map_err(|what| wrong(&what))?;
            return Ok(Change {
                key: key.map_or(change.key, Into::into),
                ..change
            });
        };
        let is_key_only = self.fields.is_none() && self.set.is_empty();
        if is_key_only && !self.needs_document_for_key() && !document.contains("\"_id\"") {
            let key = self.key_of(&change.key, &[]).map_err(|what| wrong(&what))?;
            return Ok(Change {
                key: key.map_or(change.key, Into::into),
                ..change
            });
        }
        let fields = object_fields(document).map_err(|_| wrong("it is no object"))?;
        let mut fields = self.fields_of(fields);
        for (name, template) in &self.set {
            let text = template.fill(|name| Ok::<_, Error>(text_of(name, &change.key, &fields)));
            let value = Cow::Owned(Value::from(text?.as_str()).to_string());
            match fields.iter_mut().find(|(known, _)| known == name) {
                Some((_, former)) => *former = value,
                None => fields.push((name.clone(), value)),
            }
        }
        let key = self.key_of(&change.key, &fields);
        let key = key.map_err(|what| wrong(&what))?;
        if key.is_some() {
            fields.retain(|(name, _)| name != ID);
        }
        let mut names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(wrong(&format!("two fields are named {:?}", pair[0])));
        }
        let document = write(&fields).map_err(|what| wrong(&what))?;
        Ok(Change {
            key: key.map_or(change.key, Into::into),
            document: Some(document),
            ..change
        })
    }

    /// The fields that stay, with their names and values.
    fn fields_of<'d>(&self, fields: Vec<(String, &'d RawValue)>) -> Vec<Field<'d>> {
        let Some(config) = &self.fields else {
            let fields = fields.into_iter();
            return fields
                .map(|(name, value)| (name, Cow::Borrowed(value.get())))
                .collect();
        };
        let fields = fields.into_iter().filter(|(name, _)| config.takes(name));
        let fields = fields.map(|(name, value)| {
            let value = match config.cast.get(&name) {
                Some(cast) => cast_of(*cast, value.get()),
                None => Cow::Borrowed(value.get()),
            };
            match config.rename.get(&name) {
                Some(other) => (other.clone(), value),
                None => (name, value),
            }
        });
        fields.collect()
    }

    /// The key by the template; none if there is no template.
    fn key_of(
        &self,
        key: &str,
        fields: &[Field<'_>],
    ) -> std::result::Result<Option<String>, String> {
        let Some(template) = &self.key else {
            return Ok(None);
        };
        let filled = template.fill(|name| match name {
            KEY => Ok(key.to_owned()),
            _ => match text_of(name, key, fields) {
                text if text.is_empty() => Err(format!(
                    "its key needs the field {name:?}, which it does not have, or not as text, \
                     number or boolean"
                )),
                text => Ok(text),
            },
        });
        filled.map(Some)
    }
}

/// The text of a field with a single value; empty if it has none.
fn text_of(name: &str, key: &str, fields: &[Field<'_>]) -> String {
    let field = fields.iter().find(|(known, _)| known == name);
    match field.map(|(_, json)| json.as_ref()) {
        None if name == KEY => key.to_owned(),
        None | Some("null") => String::new(),
        Some(json) if json.starts_with(['{', '[']) => String::new(),
        Some(json) => unquoted(json),
    }
}

/// The text of a JSON string, or the JSON of another value.
fn unquoted(json: &str) -> String {
    match json.starts_with('"') {
        true => serde_json::from_str(json).unwrap_or_default(),
        false => json.to_owned(),
    }
}

/// A value as another type; as it is, if it can't be one.
fn cast_of(cast: Cast, json: &str) -> Cow<'_, str> {
    let is_text = json.starts_with('"');
    let as_number = |text: String| {
        let is_first = |byte: u8| byte == b'-' || byte.is_ascii_digit();
        let is_number = text.bytes().next().is_some_and(is_first)
            && serde_json::from_str::<&RawValue>(&text).is_ok();
        is_number.then_some(text)
    };
    let changed = match cast {
        _ if json == "null" => None,
        Cast::Text if is_text => None,
        Cast::Text => Some(Value::from(json).to_string()),
        Cast::Number if is_text => as_number(unquoted(json)),
        Cast::Number => None,
        Cast::Boolean => match unquoted(json).as_str() {
            text @ ("true" | "false") => Some(text.to_owned()),
            text => text
                .parse::<f64>()
                .ok()
                .map(|number| (number != 0.0).to_string()),
        },
        Cast::Json if is_text => {
            let text = unquoted(json);
            let value =
                serde_json::from_str::<&RawValue>(&text).map(|value| value.get().to_owned());
            // A document is one line.
            value.ok().map(|value| value.replace(['\n', '\r'], " "))
        }
        Cast::Json => None,
    };
    changed.map_or(Cow::Borrowed(json), Cow::Owned)
}

fn write(fields: &[Field<'_>]) -> std::result::Result<Box<str>, String> {
    let mut out = Vec::new();
    let mut mark = b'{';
    for (name, value) in fields {
        out.push(mark);
        write_string(name, &mut out);
        out.push(b':');
        out.extend_from_slice(value.as_bytes());
        mark = b',';
    }
    if mark == b'{' {
        out.push(mark);
    }
    out.push(b'}');
    let text = String::from_utf8(out).map_err(|error| error.to_string())?;
    Ok(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(text: &str) -> Mapping {
        let config: FieldsConfig = toml::from_str(text).unwrap();
        Mapping::new(&config, true).unwrap().unwrap()
    }

    fn map(mapping: &Mapping, document: Option<&str>) -> Result<(String, Option<String>)> {
        let change = Change {
            partition: 0,
            position: 1,
            time_micros: 0,
            key: "7".into(),
            document: document.map(Into::into),
        };
        let mapped = mapping.apply(change)?;
        let document = mapped.document.map(|document| document.into_string());
        Ok((mapped.key.to_string(), document))
    }

    #[test]
    fn fields_are_chosen_renamed_cast_and_set_and_keys_are_made() {
        let all = mapping(
            "drop = [\"secret\"]\nrename = { title = \"na\\\"me\" }\nkey = \"{land}-{_key}\"\n\
             set = { label = \"{land}: {missing}{n}\", land = \"{land}!\" }\n[cast]\n\
             n = \"number\"\nt = \"text\"\nb = \"boolean\"\nj = \"json\"\nx = \"number\"",
        );
        let document = concat!(
            r#"{"_id":7,"secret":1,"title":"é\n","n":"1.50","t":[1, 2],"b":"0","#,
            r#""j":"{\"a\": [1]}","x":"1,5","land":"de","o":{"secret":2}}"#
        );
        let (key, mapped) = map(&all, Some(document)).unwrap();
        assert_eq!(key, "de!-7");
        assert_eq!(
            mapped.unwrap(),
            concat!(
                r#"{"na\"me":"é\n","n":1.50,"t":"[1, 2]","b":false,"j":{"a": [1]},"#,
                r#""x":"1,5","land":"de!","o":{"secret":2},"label":"de: 1.50"}"#
            )
        );
        let chosen = mapping("columns = [\"b\", \"a\"]");
        let (key, mapped) = map(&chosen, Some(r#"{"a":1,"b":null,"c":3}"#)).unwrap();
        assert_eq!((&*key, &*mapped.unwrap()), ("7", r#"{"a":1,"b":null}"#));
        assert_eq!(map(&chosen, Some("{}")).unwrap().1.unwrap(), "{}");
        assert_eq!(map(&chosen, None).unwrap(), ("7".to_owned(), None));
        assert_eq!(Mapping::new(&FieldsConfig::default(), true), Ok(None));
    }

    #[test]
    fn a_key_that_can_not_be_made_and_a_name_twice_are_errors() {
        let keyed = mapping("key = \"{land}\"");
        for document in [
            Some("{}"),
            Some(r#"{"land":null}"#),
            Some(r#"{"land":[1]}"#),
            None,
        ] {
            let error = map(&keyed, document).unwrap_err().to_string();
            assert!(
                error.contains("\"7\"") && error.contains("\"land\""),
                "{error}"
            );
        }
        let twice = mapping("rename = { a = \"b\" }");
        let error = map(&twice, Some(r#"{"a":1,"b":2}"#))
            .unwrap_err()
            .to_string();
        assert!(error.contains("two fields are named \"b\""), "{error}");
        let error = map(&twice, Some("[1]")).unwrap_err().to_string();
        assert!(error.contains("no object"), "{error}");
        let prefixed = mapping("key = \"t-{_key}\"");
        assert_eq!(map(&prefixed, None).unwrap().0, "t-7");
        let (key, document) = map(&prefixed, Some(r#"{"_id":7,"a":{"_id":1}}"#)).unwrap();
        assert_eq!((&*key, &*document.unwrap()), ("t-7", r#"{"a":{"_id":1}}"#));
    }
}
