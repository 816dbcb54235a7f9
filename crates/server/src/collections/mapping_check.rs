//! Whether documents that are there already contradict the types that a mapping gives their fields.
//!
//! A document contradicts a type if it would be refused when it is written. Whatever is found is
//! checked so, by the rules of the fields that are new, before it counts. Where to look:
//!
//! 1. A query finds values that the type can't have: numbers beyond its range, texts that are no
//!    number, no date or no address, values where objects should be, fields below values.
//! 2. Each of the field's different values is checked, if there are few.
//! 3. Else the first documents with the field are read.
//!
//! All of it ends after a time, and what was not looked at then is accepted.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::time::Duration;

use quiredb::query::{Buckets, Cast, Facet, Faceted, Filter, Path, Source, Value, find};
use quiredb::{
    Collection, CollectionFields, Document, FieldKind, FieldStats, FieldType, Found, Key, Mapping,
    View, Violation, Within, Write,
};
use serde_json::{Map, Value as Json, json};
use tokio::time::Instant;

use super::mapping::type_name;
use super::selection::Searched;
use crate::http::failure::{Failure, Outcome};
use crate::search::execute::{failed, options};

/// How long looking for a contradiction may take.
const TIME_MAX: Duration = Duration::from_secs(5);

/// Different values of a field that are all checked.
const VALUES_MAX: u64 = 50_000;

/// Documents that are read of a field with more values.
const DOCUMENTS_MAX: u64 = 10_000;

/// Documents that are read of those that a query finds. One of the first contradicts the type,
/// unless the query is about more than the type refuses.
const SUSPECTS_MAX: u64 = 100;

/// Fields below another one that are looked for.
const BELOW_MAX: usize = 100;

/// Documents that are read at a time, and their bytes; a longer one is read alone.
const GROUP: usize = 16;
const GROUP_BYTES: u64 = 1 << 20;

/// Refuses types that values in the documents of a collection contradict. `merged` is the mapping
/// that it is to have, `fields` are those of its documents.
///
/// # Errors
/// 400 with the field, a value and the document that has it; those of reading documents.
pub(super) fn check(
    collection: &Collection,
    fields: &CollectionFields,
    merged: &Mapping,
    stop: &(dyn Fn() -> bool + Sync),
) -> Outcome<()> {
    let (mut rules, mut paths) = (Map::new(), BTreeMap::new());
    let now = of_each(&collection.settings().mapping.to_json());
    narrow(&merged.to_json(), "", &now, &mut rules, &mut paths);
    let rules = Mapping::parse(&rules).map_err(|error| Failure::mapping(&error))?;
    let begun = Instant::now();
    let is_over = move || begun.elapsed() >= TIME_MAX;
    let check = Check {
        views: [Searched::Plain(collection.clone()).view()?],
        rules,
        stop,
        is_over: &is_over,
    };
    for (path, rule) in paths {
        let field = OfField::of(path, &rule, merged, fields);
        let Some((key, violation)) = check.first(&field)? else {
            continue;
        };
        return Err(refusal(&field, &key, &violation));
    }
    Ok(())
}

/// Why a type can't be given to a field, in the words of OpenSearch and then in ours.
fn refusal(field: &OfField<'_>, key: &Key, violation: &Violation) -> Failure {
    let (path, kind) = (&field.path, field.kind.map_or("object", FieldKind::name));
    let now = field.own.and_then(|own| type_name(&own.types));
    let now = now.unwrap_or("object");
    let found = match violation {
        Violation::WrongType { preview, why, .. } => format!("has [{preview}]: {why}"),
        other => format!("contradicts it: {other}"),
    };
    Failure::illegal_argument(format!(
        "mapper [{path}] cannot be changed from type [{now}] to [{kind}]: the document with id \
         '{key}' {found}"
    ))
}

/// What is said of each field of a mapping, by path, without the fields below it.
fn of_each(mapping: &Json) -> BTreeMap<String, Map<String, Json>> {
    let (mut rules, mut paths) = (Map::new(), BTreeMap::new());
    narrow(mapping, "", &BTreeMap::new(), &mut rules, &mut paths);
    paths
}

/// Puts the properties of an object that `now` has not into `rules`, and the objects that they are
/// in; the new ones into `paths`. Recursion is as deep as the mapping.
fn narrow(
    object: &Json,
    prefix: &str,
    now: &BTreeMap<String, Map<String, Json>>,
    rules: &mut Map<String, Json>,
    paths: &mut BTreeMap<String, Map<String, Json>>,
) {
    let mut properties = Map::new();
    let given = object.get("properties").and_then(Json::as_object);
    for (name, rule) in given.into_iter().flatten() {
        let path = format!("{prefix}{name}");
        let mut own = rule.as_object().cloned().unwrap_or_default();
        own.remove("properties");
        // It is about fields that are not named, of documents that are written later.
        own.remove("dynamic");
        let is_object = own.get("type").is_none_or(|kind| kind == "object");
        if is_object {
            own.remove("type");
        }
        let is_new = now.get(&path) != Some(&own);
        if is_new {
            paths.insert(path.clone(), own.clone());
        }
        narrow(rule, &format!("{path}."), now, &mut own, paths);
        if is_new || own.contains_key("properties") {
            if is_object {
                own.insert("type".to_owned(), "object".into());
            }
            properties.insert(name.clone(), Json::Object(own));
        }
    }
    if !properties.is_empty() {
        rules.insert("properties".to_owned(), properties.into());
    }
}

/// A field with a new type, and what is known of its values.
struct OfField<'a> {
    path: String,
    /// None of an object.
    kind: Option<FieldKind>,
    coerces: bool,
    /// How dates are read, if otherwise than usual.
    cast: Option<Cast>,
    /// The figures of its own values.
    own: Option<&'a FieldStats>,
    /// The fields below it.
    below: Vec<&'a str>,
    /// Whether there are fields without figures.
    is_unknown: bool,
}

impl<'a> OfField<'a> {
    fn of(
        path: String,
        rule: &Map<String, Json>,
        merged: &Mapping,
        fields: &'a CollectionFields,
    ) -> OfField<'a> {
        let prefix = format!("{path}.");
        let below = fields.fields.iter().map(|field| field.path.as_str());
        let below = below.filter(|below| below.starts_with(&prefix));
        let is_off = |value: &Json| *value == false || *value == "false";
        let kind = rule.get("type").and_then(Json::as_str);
        let kind = kind.and_then(FieldKind::named);
        let formats = merged.own_date_formats(&path).cloned();
        let cast = match (kind, formats) {
            (_, Some(formats)) => Some(Cast::DateAs(formats)),
            (Some(FieldKind::Date), None) => Some(Cast::Date),
            (Some(FieldKind::DateNanos), None) => Some(Cast::Nanos),
            (Some(FieldKind::Ip), None) => Some(Cast::Address),
            (Some(FieldKind::Boolean), None) => Some(Cast::Boolean),
            (Some(kind), None) if kind.is_number() => Some(Cast::Number),
            _ => None,
        };
        OfField {
            kind,
            coerces: !rule.get("coerce").is_some_and(is_off),
            cast,
            own: fields.fields.iter().find(|field| field.path == path),
            below: below.take(BELOW_MAX).collect(),
            is_unknown: fields.omitted > 0,
            path,
        }
    }

    fn path(&self) -> Path {
        Path::new(&self.path)
    }

    /// Whether documents have values of it itself.
    fn has_values(&self) -> bool {
        let is_value = |kind: &FieldType| *kind != FieldType::Null;
        let own = self.own.is_some_and(|own| own.types.iter().any(is_value));
        own || self.is_unknown
    }

    /// Filters of documents that contradict its type, or might.
    fn suspects(&self) -> Vec<Filter> {
        let path = self.path();
        let mut suspects = Vec::new();
        let has_objects = matches!(self.kind, None | Some(FieldKind::FlatObject));
        if !has_objects && !self.below.is_empty() {
            let below = self
                .below
                .iter()
                .map(|below| Filter::Exists((*below).into()));
            suspects.push(Filter::Or(below.collect()));
        }
        if !self.has_values() {
            return suspects;
        }
        if has_objects {
            suspects.push(Filter::Exists(path));
            return suspects;
        }
        if let Some(cast) = &self.cast {
            let is_cast = Filter::Cast(cast.clone(), path.clone(), Unbounded, Unbounded);
            suspects.push(Filter::Exists(path.clone()).and(!is_cast));
        }
        if self.kind == Some(FieldKind::DateNanos) {
            let before = Excluded(Value::from(0_i64));
            suspects.push(Filter::Cast(Cast::Nanos, path.clone(), Unbounded, before));
        }
        if let Some((least, most)) = self.kind.and_then(FieldKind::bounds) {
            let beyond = [
                (Unbounded, Excluded(least.clone())),
                (Excluded(most.clone()), Unbounded),
            ];
            for (from, to) in beyond {
                let cast = |cast| Filter::Cast(cast, path.clone(), from.clone(), to.clone());
                suspects.push(cast(Cast::Number));
            }
        }
        if self.kind.is_some_and(FieldKind::is_number) && !self.coerces {
            let first = Included(Value::from(""));
            suspects.push(Filter::Range(path.clone(), first, Unbounded));
        }
        suspects
    }

    /// Whether each value that the type refuses is found by [`suspects`](OfField::suspects) alone,
    /// whatever the document has beside it.
    fn is_decided(&self) -> bool {
        match self.kind {
            None => true,
            Some(FieldKind::FlatObject) => true,
            Some(kind) => kind.is_text() || !self.has_values(),
        }
    }

    /// The number of its different values, if they are few.
    fn has_few_values(&self) -> bool {
        // A place may be a list of two numbers, which are no values of it.
        let is_place = self.kind == Some(FieldKind::GeoPoint);
        !is_place && self.own.is_some_and(|own| own.values <= VALUES_MAX)
    }
}

struct Check<'a> {
    views: [View; 1],
    /// The rules of the new fields alone.
    rules: Mapping,
    /// Whether the caller no longer waits.
    stop: &'a (dyn Fn() -> bool + Sync),
    /// Whether the time for looking is over.
    is_over: &'a (dyn Fn() -> bool + Sync),
}

impl Check<'_> {
    /// The first document that is found to contradict the type of a field; none if there is none,
    /// or the time is over.
    fn first(&self, field: &OfField<'_>) -> Outcome<Option<(Key, Violation)>> {
        // An object is a place too.
        let most = match field.kind {
            Some(FieldKind::GeoPoint) => DOCUMENTS_MAX,
            _ => SUSPECTS_MAX,
        };
        for suspects in field.suspects() {
            if let Some(found) = self.first_of(suspects, most)? {
                return Ok(Some(found));
            }
        }
        if field.is_decided() || (self.is_over)() {
            return Ok(None);
        }
        if field.has_few_values()
            && let Some(values) = self.values(field)?
        {
            for value in values {
                if self.is_refused(&field.path, &value) {
                    let has_it = Filter::Eq(field.path(), value);
                    if let Some(found) = self.first_of(has_it, SUSPECTS_MAX)? {
                        return Ok(Some(found));
                    }
                }
            }
            return Ok(None);
        }
        self.first_of(Filter::Exists(field.path()), DOCUMENTS_MAX)
    }

    /// The first of some documents that contradicts the rules.
    fn first_of(&self, filter: Filter, limit: u64) -> Outcome<Option<(Key, Violation)>> {
        let query = find(filter).limit(limit);
        let Some(answer) = self.answer(query)? else {
            return Ok(None);
        };
        for hits in answer.hits.chunks(GROUP) {
            let group = View::documents_within(&self.views, hits, GROUP_BYTES).map_err(failed)?;
            for (hit, found) in hits.iter().zip(group) {
                if (self.stop)() || (self.is_over)() {
                    return Ok(None);
                }
                let found = match found {
                    Within::Found(found) => Some(found),
                    Within::Longer(_) => {
                        let alone = View::documents_of(&self.views, &[*hit]);
                        alone.map_err(failed)?.pop()
                    }
                    Within::Absent => None,
                };
                let violated = found.and_then(|Found { key, document, .. }| {
                    let write = Write::put(key.clone(), document);
                    self.rules.check(&write).err().map(|wrong| (key, wrong))
                });
                if violated.is_some() {
                    return Ok(violated);
                }
            }
        }
        Ok(None)
    }

    /// Whether a value would be refused in a document.
    fn is_refused(&self, path: &str, value: &Value) -> bool {
        let mut text = format!("{{{}:", json!(path)).into_bytes();
        value.write_json(&mut text);
        text.push(b'}');
        let (document, key) = (Document::from_json(&text), Key::parse("0"));
        match (document, key) {
            (Ok(document), Ok(key)) => self.rules.check(&Write::put(key, document)).is_err(),
            _ => false,
        }
    }

    /// The different values of a field; none if they can't be had.
    fn values(&self, field: &OfField<'_>) -> Outcome<Option<Vec<Value>>> {
        let mut buckets = Buckets::by([Source::values(field.path())]);
        buckets.limit = Some(2 * VALUES_MAX);
        let query = find(Filter::Exists(field.path())).limit(0);
        let Some(answer) = self.answer(query.facet("values", Facet::buckets(buckets)))? else {
            return Ok(None);
        };
        let found = answer
            .facets
            .into_iter()
            .find_map(|(_, found)| match found {
                Faceted::Buckets {
                    buckets, others: 0, ..
                } => Some(buckets),
                _ => None,
            });
        Ok(found.map(|buckets| buckets.into_iter().flat_map(|one| one.key).collect()))
    }

    /// What a query finds; none if it took too long or too much memory.
    fn answer(&self, query: quiredb::query::Query) -> Outcome<Option<quiredb::query::Answer>> {
        let stop = || (self.stop)() || (self.is_over)();
        let query = query.prepare().map_err(|error| failed(error.into()))?;
        match View::query_all(&self.views, &query, &options(&stop)) {
            Ok(answer) => Ok(Some(answer)),
            Err(quiredb::Error::Query(quiredb::query::Error::TooLarge { .. })) => Ok(None),
            Err(_) if (self.is_over)() && !(self.stop)() => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_new_fields_are_checked_in_the_objects_that_they_are_in() {
        let now = json!({"dynamic": "strict", "properties": {
            "a": {"type": "long"},
            "o": {"dynamic": "strict", "properties": {"x": {"type": "keyword"}}},
            "off": {"type": "object", "enabled": false},
        }});
        let merged = json!({"dynamic": "strict", "properties": {
            "a": {"type": "long"},
            "b": {"type": "date"},
            "o": {"dynamic": "strict", "properties": {
                "x": {"type": "keyword"}, "y": {"type": "ip"}}},
            "off": {"type": "object", "enabled": false},
            "p": {"properties": {"z": {"type": "byte"}}},
        }});
        let (mut rules, mut paths) = (Map::new(), BTreeMap::new());
        narrow(&merged, "", &of_each(&now), &mut rules, &mut paths);
        let paths: Vec<String> = paths.into_keys().collect();
        assert_eq!(paths, ["b", "o.y", "p", "p.z"]);
        let expected = json!({"properties": {
            "b": {"type": "date"},
            "o": {"type": "object", "properties": {"y": {"type": "ip"}}},
            "p": {"type": "object", "properties": {"z": {"type": "byte"}}},
        }});
        assert_eq!(Json::Object(rules), expected);
    }
}
