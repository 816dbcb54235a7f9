//! Terms lookup: a `terms` query whose values are those that another document has,
//! `{"terms": {FIELD: {"index": COLLECTION, "id": ID, "path": PATH}}}`.
//!
//! The values take the place of the lookup before the query is translated.

use std::ops::ControlFlow;

use quiredb::ValueRef;
use quiredb::query::Path;
use serde_json::{Map, Value as Json};

use super::filter::{known, object, text, unsupported};
use crate::access::named::check_own_item;
use crate::access::role::Action;
use crate::audit::AuditedGrant;
use crate::documents::lookup::{counted, get_frozen, get_held_now};
use crate::documents::parse::parse_key;
use crate::engine::Engine;
use crate::http::buffers::Buffers;
use crate::http::failure::Outcome;

/// The most values of all lookups of a query, as in OpenSearch.
const VALUES_MAX: usize = 65_536;

/// The most bytes of these values.
const VALUES_BYTES_MAX: usize = 1 << 20;

/// Clauses of a `bool` query.
const CLAUSES: [&str; 4] = ["must", "filter", "should", "must_not"];

/// Whether the query of a search looks up values.
pub(crate) fn has_lookup(body: &mut Map<String, Json>) -> bool {
    !lookups(body).is_empty()
}

/// Puts values in the place of the lookups of a search's query. A document or a field that is not
/// there has none.
///
/// # Errors
/// 400 for a bad lookup or too many values, 403 for a collection that `grant` does not allow to be
/// read, 404 if there is no such collection, 429 if there is no memory for a large document.
pub(crate) fn look_up(
    body: &mut Map<String, Json>,
    engine: &Engine,
    buffers: &Buffers,
    grant: &AuditedGrant,
) -> Outcome<()> {
    let (mut count, mut bytes) = (0, 0);
    for lookup in lookups(body) {
        let names = object(lookup, "terms")?;
        known(names, "terms", &["index", "id", "path", "routing"])?;
        let needed = |name: &str| {
            let needs = format!("[terms] that looks values up needs [{name}], a text");
            text(names.get(name), &needs).map(str::to_owned)
        };
        let (index, id, path) = (needed("index")?, needed("id")?, needed("path")?);
        check_own_item(grant, Action::Read, engine, &index)?;
        let key = parse_key(&id)?;
        let (found, _held) = match engine.frozen(&index) {
            Some(frozen) => (get_frozen(&frozen, &key)?, None),
            None => {
                let collection = engine.collection(&index)?;
                let get = || get_held_now(&collection, buffers, &key);
                counted(collection.usage(), get)?.unzip()
            }
        };
        let mut values = Vec::new();
        let mut add = |value: ValueRef<'_>| {
            if value == ValueRef::Null {
                return ControlFlow::Continue(());
            }
            count += 1;
            bytes += value.json_bytes();
            if count > VALUES_MAX || bytes > VALUES_BYTES_MAX {
                return ControlFlow::Break(());
            }
            let mut json = Vec::new();
            value.write_json(&mut json);
            values.extend(serde_json::from_slice::<Json>(&json));
            ControlFlow::Continue(())
        };
        if let Some(found) = &found
            && Path::new(&path)
                .visit(found.document.root(), &mut add)
                .is_break()
        {
            return Err(unsupported(format!(
                "[terms] looks up too many values: {VALUES_MAX} of {VALUES_BYTES_MAX} bytes in \
                 all are the most of a query"
            )));
        }
        *lookup = Json::Array(values);
    }
    Ok(())
}

/// The lookups of a search's query.
fn lookups(body: &mut Map<String, Json>) -> Vec<&mut Json> {
    let mut found = Vec::new();
    if let Some(query) = body.get_mut("query") {
        find(query, &mut found);
    }
    found
}

/// Finds the lookups of a query. Recursion is as deep as the JSON is nested, which the parser
/// bounds.
fn find<'q>(query: &'q mut Json, found: &mut Vec<&'q mut Json>) {
    for (name, body) in query.as_object_mut().into_iter().flatten() {
        let parts = body.as_object_mut().into_iter().flatten();
        match name.as_str() {
            "terms" => found.extend(
                parts
                    .map(|(_, value)| value)
                    .filter(|value| value.is_object()),
            ),
            "bool" => {
                for (_, clause) in parts.filter(|(name, _)| CLAUSES.contains(&name.as_str())) {
                    match clause {
                        Json::Array(queries) => {
                            queries.iter_mut().for_each(|query| find(query, found));
                        }
                        query => find(query, found),
                    }
                }
            }
            "constant_score" => {
                let filters = parts.filter(|(name, _)| *name == "filter");
                filters.for_each(|(_, filter)| find(filter, found));
            }
            _ => {}
        }
    }
}
