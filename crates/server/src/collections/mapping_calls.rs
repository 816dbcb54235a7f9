//! `_mapping` and `_field_caps`: the fields of collections and their types.

use std::collections::{BTreeMap, BTreeSet};

use quiredb::query::{Filter, Query};
use quiredb::{CollectionFields, Mapping, View};
use serde_json::{Map, Value, json};

use super::api_settings::Use;
use super::coerce::Mappings;
use super::selection::{Searched, Selection};
use super::settings_calls::change_to;
use super::states::States;
use super::{mapping, mapping_check, settings};
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::http::fields::glob;
use crate::search::derived::{derive_types, is_dates};
use crate::search::execute::{failed, options};
use crate::search::filter::{WholeTexts, known};
use crate::search::limit::limit_to;
use crate::search::objects::find_objects;
use crate::search::request::{parse, query_of};
use crate::wide::schema;

/// `GET /{collection}/_mapping`: with `quire` also what is known of each field beside its type.
pub(crate) async fn get(call: Call<Engine>) -> Outcome<Answer> {
    let is_detailed = call.params.flag("quire")?.unwrap_or(false);
    let selection = Selection::about(&call, States::OPEN)?;
    let work = move |engine: &Engine, stop: &(dyn Fn() -> bool + Sync)| {
        let mut all = Map::new();
        for collection in selection.all(engine)? {
            let fields = match is_detailed {
                true => collection.fields(stop)?,
                false => mapped_fields(&collection, stop)?,
            };
            let described = described_fields(&collection, &fields, stop)?;
            let mut shown = json!({"mappings": described});
            if is_detailed {
                shown["quire"] = mapping::details(&fields);
            }
            all.insert(collection.name().to_owned(), shown);
        }
        Ok(Answer::ok(&Value::Object(all)))
    };
    call.state.search(work).await?
}

/// `GET /_mapping/field/{name}`, `/{collection}/_mapping/field/{name}`
pub(crate) async fn get_fields(call: Call<Engine>) -> Outcome<Answer> {
    let why = "what a mapping does not say is not shown";
    call.params.only("include_defaults", &["", "false"], why)?;
    let patterns = patterns(call.path_param("name").unwrap_or("*"));
    let selection = Selection::about(&call, States::OPEN)?;
    let work = move |engine: &Engine, stop: &(dyn Fn() -> bool + Sync)| {
        let mut all = Map::new();
        for collection in selection.all(engine)? {
            let mut shown = Map::new();
            for (path, rule) in leaves(&collection, stop)? {
                if rule.get("type").is_none() || !matches(&patterns, &path) {
                    continue;
                }
                let name = path.rsplit('.').next().unwrap_or_default().to_owned();
                let rule = Map::from_iter([(name, rule)]);
                shown.insert(path.clone(), json!({"full_name": path, "mapping": rule}));
            }
            all.insert(collection.name().to_owned(), json!({"mappings": shown}));
        }
        Ok(Answer::ok(&Value::Object(all)))
    };
    call.state.search(work).await?
}

/// `PUT|POST /{collection}/_mapping`: adds fields, and options of fields.
pub(crate) async fn put(call: Call<Engine>) -> Outcome<Answer> {
    let engine = call.state.clone();
    call.params.flag("write_index_only")?;
    let selection = Selection::for_use(&call, Use::Change, States::OPEN)?;
    let body = call.take_small_body().await?;
    let added = parse(&body.bytes)?;
    if added.contains_key("_doc") {
        let what = "Types cannot be provided in put mapping requests";
        return Err(Failure::illegal_argument(what));
    }
    let added = Mapping::parse(&added).map_err(|error| Failure::mapping(&error))?;
    let work = move |engine: &Engine, stop: &(dyn Fn() -> bool + Sync)| {
        let collections = selection.plain(engine)?;
        // Nothing is changed unless all can be.
        for collection in &collections {
            let changed = settings::with_mapping((*collection.settings()).clone(), &added)?;
            let fields = Searched::Plain(collection.clone()).fields(stop)?;
            mapping_check::check(collection, &fields, &changed.mapping, stop)?;
        }
        for collection in &collections {
            change_to(engine, collection, |now| {
                settings::with_mapping(now.clone(), &added)
            })?;
        }
        Ok(Answer::ok(&json!({"acknowledged": true})))
    };
    engine.search(work).await?
}

/// `GET|POST /_field_caps`, `/{collection}/_field_caps`
pub(crate) async fn capabilities(call: Call<Engine>) -> Outcome<Answer> {
    let shows_unmapped = call.params.flag("include_unmapped")?.unwrap_or(false);
    let named = call.params.text("fields").map(patterns);
    let (engine, selection) = (call.state.clone(), Selection::of(&call)?);
    let now = engine.now_millis();
    let body = call.take_small_body().await?;
    let body = parse(&body.bytes)?;
    known(&body, "_field_caps", &["fields", "index_filter"])?;
    let wanted = match body.get("index_filter") {
        None | Some(Value::Null) => None,
        Some(query) => {
            let query = Map::from_iter([("query".to_owned(), query.clone())]);
            Some(query_of(&query, now)?)
        }
    };
    let in_body = match body.get("fields") {
        Some(Value::String(names)) => Some(patterns(names)),
        Some(Value::Array(names)) => {
            let names = names.iter().filter_map(Value::as_str);
            Some(names.map(str::to_owned).collect())
        }
        _ => None,
    };
    let Some(named) = named.or(in_body) else {
        return Err(Failure::illegal_argument(
            "specified fields can't be null or empty",
        ));
    };
    let work = move |engine: &Engine, stop: &(dyn Fn() -> bool + Sync)| {
        let mut collections = selection.all(engine)?;
        if let Some((query, texts)) = wanted {
            let mut kept = Vec::new();
            for collection in collections {
                if has_match(engine, &collection, (query.clone(), &texts), stop)? {
                    kept.push(collection);
                }
            }
            collections = kept;
        }
        let mut types: BTreeMap<String, BTreeMap<String, OfType>> = BTreeMap::new();
        for collection in &collections {
            for (path, rule) in leaves(collection, stop)? {
                if matches(&named, &path) {
                    let kind = rule.get("type").and_then(Value::as_str);
                    let of_field = types.entry(path).or_default();
                    let of_type = of_field.entry(kind.unwrap_or("object").to_owned());
                    of_type.or_default().add(collection.name(), &rule);
                }
            }
        }
        let names: Vec<&str> = collections.iter().map(Searched::name).collect();
        let fields = types.into_iter();
        let fields = fields.map(|(path, mut kinds)| {
            if shows_unmapped {
                let has = |name: &&str| {
                    kinds
                        .values()
                        .any(|of| of.names.iter().any(|it| it == name))
                };
                let missing = names.iter().copied().filter(|name| !has(name));
                let names: Vec<String> = missing.map(str::to_owned).collect();
                if !names.is_empty() {
                    let meta = Meta::default();
                    kinds.insert("unmapped".into(), OfType { names, meta });
                }
            }
            (path, described(kinds))
        });
        let fields: Map<String, Value> = fields.collect();
        Ok(Answer::ok(&json!({"indices": names, "fields": fields})))
    };
    engine.search(work).await?
}

/// Whether a document of a collection matches a query.
fn has_match(
    engine: &Engine,
    collection: &Searched,
    (mut query, texts): (Query, &WholeTexts),
    stop: &(dyn Fn() -> bool + Sync),
) -> Outcome<bool> {
    let searched = std::slice::from_ref(collection);
    let mappings = Mappings::of_searched(engine, searched);
    limit_to(&mut query, texts, Filter::All, &mappings)?;
    let views = [collection.view()?];
    derive_types(&mut query, &mappings, &views, stop)?;
    find_objects(&mut query, &views, stop)?;
    let any = query
        .limit(1)
        .prepare()
        .map_err(|error| failed(error.into()))?;
    let found = View::query_all(&views, &any, &options(stop)).map_err(failed)?;
    Ok(!found.hits.is_empty())
}

/// What mappings say of a field for those who read it: values by name.
type Meta = BTreeMap<String, BTreeSet<String>>;

/// The collections in which a field has a type.
#[derive(Default)]
struct OfType {
    names: Vec<String>,
    meta: Meta,
}

impl OfType {
    /// Adds a collection, whose mapping says `rule` of the field.
    fn add(&mut self, name: &str, rule: &Value) {
        self.names.push(name.to_owned());
        let meta = rule.get("meta").and_then(Value::as_object);
        for (name, value) in meta.into_iter().flatten() {
            if let Some(value) = value.as_str() {
                let values = self.meta.entry(name.clone()).or_default();
                values.insert(value.to_owned());
            }
        }
    }
}

/// The types of a field, each with what it can do. Where there are several, each names the
/// collections that have it.
fn described(kinds: BTreeMap<String, OfType>) -> Value {
    let is_one = kinds.len() == 1;
    let kinds = kinds.into_iter().map(|(kind, of)| {
        let no_values = ["binary", "flat_object", "object", "unmapped"];
        let has_values = !no_values.contains(&kind.as_str());
        let mut shown = json!({
            "type": kind,
            "searchable": has_values,
            "aggregatable": has_values && kind != "text",
        });
        if !is_one {
            shown["indices"] = of.names.into();
        }
        if !of.meta.is_empty() {
            shown["meta"] = json!(of.meta);
        }
        (kind, shown)
    });
    Value::Object(kinds.collect())
}

/// The fields of a collection, each with what its mapping says of it.
fn leaves(
    collection: &Searched,
    stop: &(dyn Fn() -> bool + Sync),
) -> Outcome<BTreeMap<String, Value>> {
    let fields = mapped_fields(collection, stop)?;
    Ok(mapping::leaves(&described_fields(
        collection, &fields, stop,
    )?))
}

/// The fields that a mapping is made of: none of a wide collection, where it is the schema.
fn mapped_fields(
    collection: &Searched,
    stop: &(dyn Fn() -> bool + Sync),
) -> Outcome<CollectionFields> {
    match collection {
        Searched::Wide(_) => Ok(CollectionFields::default()),
        other => other.fields(stop),
    }
}

/// The mapping of a collection with these fields; of a wide one that of its schema.
fn described_fields(
    collection: &Searched,
    fields: &CollectionFields,
    stop: &(dyn Fn() -> bool + Sync),
) -> Outcome<Value> {
    if let Searched::Wide(wide) = collection {
        return Ok(schema::mapping(wide));
    }
    let (mapping, view) = (collection.mapping(), collection.view()?);
    let mut dates = BTreeSet::new();
    for path in mapping::maybe_dates(fields, &mapping) {
        if is_dates(&view, path, stop)? {
            dates.insert(path.to_owned());
        }
    }
    Ok(mapping::describe(fields, &mapping, &dates))
}

fn patterns(text: &str) -> Vec<String> {
    text.split(',').map(str::to_owned).collect()
}

fn matches(patterns: &[String], path: &str) -> bool {
    let mut patterns = patterns.iter();
    patterns.any(|pattern| pattern == "_all" || glob(pattern.as_bytes(), path.as_bytes()))
}
