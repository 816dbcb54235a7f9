//! Entries: what the search index says of a document, as keys without a cluster.

use super::IndexedFields;
use super::key;
use quire_index::term;
use quire_model::Document;
use quire_query::Path;
use std::collections::HashMap;

/// The field that is a document's key, as text, where the document has no such field.
const ID: &str = "_id";

/// The entries of a document, ascending, each once: of all its values, and those that say that it
/// is there, that a field has a value, and that one has several.
///
/// `id` is the document's key as text.
pub(crate) fn entries(document: &Document, id: &str, fields: &IndexedFields) -> Vec<Vec<u8>> {
    let mut of_field: HashMap<String, Vec<Vec<u8>>> = HashMap::new();
    Path::each_value_in(document.root(), &mut |path, value| {
        let mut bytes = Vec::new();
        if fields.includes(path) && term::encode(value, &mut bytes) {
            match of_field.get_mut(path) {
                Some(terms) => terms.push(bytes),
                None => drop(of_field.insert(path.into(), vec![bytes])),
            }
        }
    });
    if fields.includes(ID) && document.get(ID).is_none() {
        let mut bytes = Vec::new();
        let is_term = term::encode(quire_model::ValueRef::String(id), &mut bytes);
        debug_assert!(is_term, "a string has a term");
        of_field.insert(ID.into(), vec![bytes]);
    }
    let mut entries = Vec::new();
    let mut everything = key::field("");
    key::push_present(&mut everything);
    entries.push(everything);
    for (path, mut terms) in of_field {
        terms.sort_unstable();
        terms.dedup();
        let field = key::field(&path);
        let mut push = |push: &dyn Fn(&mut Vec<u8>)| {
            let mut entry = Vec::with_capacity(field.len() + 32);
            entry.extend_from_slice(&field);
            push(&mut entry);
            entries.push(entry);
        };
        if terms.iter().any(|term| term != term::NULL) {
            push(&key::push_present);
        }
        if terms.len() > 1 {
            push(&key::push_several);
        }
        for term in &terms {
            push(&|entry| key::push_term(entry, term));
        }
    }
    entries.sort_unstable();
    // Two long values may have one hash.
    entries.dedup();
    entries
}
