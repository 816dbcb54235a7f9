//! `fields` and `docvalue_fields`: values of fields beside each hit, each read by the type that the
//! mapping gives its field. Dates are shown in the format that is wanted, or as ISO 8601 in UTC.
//!
//! The values of `fields` are in the order of the document. Those of `docvalue_fields` are sorted,
//! texts each once, as in OpenSearch; where both name a field, it is one of `fields`.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use quiredb::query::{Cast, DateFormat, Path, Value};
use quiredb::{Document, ID, ValueRef};
use serde_json::{Map, Value as Json, json};

use super::filter::{check_own_field, known, text, unsupported, whole_text};
use crate::collections::coerce::{Mappings, text_of};
use crate::http::failure::Outcome;
use crate::http::fields::glob;

/// The most entries: every field of a hit is compared with each of them.
const ENTRIES_MAX: usize = 256;

/// Which values are shown beside a hit.
#[derive(Debug, Default)]
pub(crate) struct ShownFields {
    entries: Vec<Entry>,
    /// How many are of `docvalue_fields`: the first ones.
    value_fields: usize,
    mappings: Mappings,
}

/// A field, or a pattern of fields.
#[derive(Debug)]
struct Entry {
    /// As it was given.
    name: String,
    /// The field as documents have it, if it is no pattern.
    field: Option<Path>,
    format: Option<DateFormat>,
}

impl ShownFields {
    /// Reads both members of a body.
    ///
    /// # Errors
    /// 400 for what is no field, and a format that is not known.
    pub(crate) fn of(body: &Map<String, Json>) -> Outcome<ShownFields> {
        let mut shown = ShownFields::default();
        for member in ["docvalue_fields", "fields"] {
            let list = match body.get(member) {
                None | Some(Json::Null) => continue,
                Some(Json::Array(list)) => list,
                Some(_) => return Err(unsupported(format!("[{member}] must be a list"))),
            };
            for one in list {
                shown.entries.push(entry(one, member)?);
            }
            if member == "docvalue_fields" {
                shown.value_fields = list.len();
            }
        }
        if shown.entries.len() > ENTRIES_MAX {
            let what = format!("[fields] has more than {ENTRIES_MAX} entries; use fewer, with *");
            return Err(unsupported(what));
        }
        Ok(shown)
    }

    /// Shows a field too.
    pub(crate) fn add(&mut self, name: &str) {
        self.entries.push(Entry {
            name: name.to_owned(),
            field: Some(Path::new(name)),
            format: None,
        });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Reads values by these mappings from now on.
    ///
    /// # Errors
    /// 400 for more fields than a collection allows, and a format of a field whose values are no
    /// dates.
    pub(crate) fn adapt(&mut self, mappings: &Mappings) -> Outcome<()> {
        mappings.limits().check_value_fields(self.value_fields)?;
        for Entry {
            name,
            field,
            format,
        } in &mut self.entries
        {
            let Some(field) = field else {
                continue;
            };
            if let (Some(kind), Some(_)) = (mappings.kind(field), &format)
                && !kind.is_date()
            {
                let kind = kind.name();
                return Err(unsupported(format!(
                    "Field [{name}] of type [{kind}] doesn't support formats: they are of dates"
                )));
            }
            mappings.rename(field);
        }
        self.mappings = mappings.clone();
        Ok(())
    }

    /// Appends `,"fields":{…}` if the document has one of the fields.
    pub(crate) fn write(&self, document: &Document, out: &mut Vec<u8>) {
        // Those of `docvalue_fields`, and of `fields`.
        let mut all: [BTreeMap<String, Vec<(Value, Json)>>; 2] = Default::default();
        Path::each_value_in(document.root(), &mut |path, value| {
            if path == ID || matches!(value, ValueRef::Null) {
                return;
            }
            for (at, entry) in self.entries.iter().enumerate() {
                let name = match &entry.field {
                    Some(field)
                        if field.as_str() == path || whole_text(field.as_str()) == Some(path) =>
                    {
                        entry.name.as_str()
                    }
                    None if glob(entry.name.as_bytes(), path.as_bytes()) => path,
                    _ => continue,
                };
                if let Some(value) = self.value(path, value, entry.format.as_ref()) {
                    let shown = &mut all[usize::from(at >= self.value_fields)];
                    shown.entry(name.to_owned()).or_default().push(value);
                }
            }
        });
        let [mut shown, of_fields] = all;
        for values in shown.values_mut() {
            values.sort_by(|(a, _), (b, _)| a.cmp(b));
            values.dedup_by(|(a, _), (b, _)| a == b && a.as_str().is_some());
        }
        shown.extend(of_fields);
        let shown = shown.into_iter().map(|(name, values)| {
            let values = values.into_iter().map(|(_, shown)| shown);
            (name, Json::Array(values.collect()))
        });
        let shown: Map<String, Json> = shown.collect();
        if !shown.is_empty() {
            out.extend_from_slice(b",\"fields\":");
            out.extend_from_slice(json!(shown).to_string().as_bytes());
        }
    }

    /// What a value is by the type of its field: what it is ordered by, and what is shown of it.
    fn value(
        &self,
        path: &str,
        value: ValueRef<'_>,
        format: Option<&DateFormat>,
    ) -> Option<(Value, Json)> {
        let own = Value::from_document(value)?;
        let path = Path::new(path);
        let cast = self.mappings.cast(&path);
        if let (Some(Cast::Nanos), Some(nanos)) = (&cast, own.as_date_nanos()) {
            let shown = format.cloned();
            let shown = shown.unwrap_or_else(|| self.mappings.shown_format(&path));
            let written = shown.write_nanos(nanos, &TimeZone::UTC);
            return Some((Value::from(nanos), written.into()));
        }
        let millis = match &cast {
            Some(Cast::DateAs(formats)) => formats.millis_of(&own),
            _ => own.as_date_millis(),
        };
        let is_date = matches!(cast, Some(Cast::Date | Cast::DateAs(_)));
        if let Some(millis) = millis.filter(|_| is_date || format.is_some()) {
            let shown = format.cloned();
            let shown = shown.unwrap_or_else(|| self.mappings.shown_format(&path));
            let written = shown.write(millis, &TimeZone::UTC);
            return Some((Value::from(millis), written.into()));
        }
        let said = own.as_str().map(|text| text.into_owned());
        let read = match (cast, said) {
            (Some(Cast::Number | Cast::Half), Some(text)) => Value::from_numeral(&text)?,
            (Some(Cast::Boolean), Some(text)) => Value::from(text.parse::<bool>().ok()?),
            (Some(Cast::Text), None) => text_of(&own),
            _ => own,
        };
        let mut out = Vec::new();
        read.write_json(&mut out);
        let shown = serde_json::from_slice(&out).ok()?;
        Some((read, shown))
    }
}

/// `"FIELD"` or `{"field": "FIELD", "format": "…"}`.
fn entry(one: &Json, member: &str) -> Outcome<Entry> {
    let (name, format) = match one {
        Json::String(name) => (name.as_str(), None),
        Json::Object(one) => {
            known(one, member, &["field", "format"])?;
            let needs = format!("[{member}] needs a [field]");
            let format = one.get("format").filter(|format| !format.is_null());
            let format = format.map(|format| text(Some(format), "[format] must be a string"));
            (text(one.get("field"), &needs)?, format.transpose()?)
        }
        _ => return Err(unsupported(format!("[{member}] must have names of fields"))),
    };
    check_own_field(name)?;
    let format = format.filter(|format| *format != "use_field_mapping");
    let format = format.map(DateFormat::parse).transpose();
    let format = format.map_err(|part| {
        unsupported(format!(
            "[format] of [{name}] has [{part}], which is not supported"
        ))
    })?;
    Ok(Entry {
        name: name.to_owned(),
        field: (!name.contains('*')).then(|| Path::new(name)),
        format,
    })
}
