//! Fields that a query names and no document has, and what was perhaps meant.

use quiredb::View;
use quiredb::operations::FrozenView;
use quiredb::query::{Hit, Options, Path, Prepared, UnknownFields, field, find};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// Documents that are read for the names of their fields, where no index has them.
const READ_MAX: u64 = 10_000;

/// Hits that are read for the names of their fields.
const HITS_READ_MAX: usize = 16;

/// Names that are alike by this much or more, of 1, are suggested.
const ALIKE_MIN: f64 = 0.75;

/// Why each field that a query with these hits names, and no document of a collection has, is
/// unknown.
///
/// # Errors
/// Of the queries that look for documents.
pub fn of_view(
    view: &View,
    query: &Prepared,
    hits: &[Hit],
    key_field: &str,
    options: &Options<'_>,
) -> quiredb::Result<Vec<String>> {
    if let Some(files) = view.frozen() {
        return of_frozen(files, query, hits);
    }
    if view.count() == 0 {
        return Ok(Vec::new());
    }
    let mut paths = used(query);
    paths.extend(query.fields().unwrap_or_default());
    paths.retain(|path| path.as_str() != key_field && path.as_str() != quiredb::ID);
    paths.sort_by_key(|path| path.as_str());
    paths.dedup();
    let quiet = Options {
        clock: None,
        unknown_fields: UnknownFields::MatchNothing,
        ..*options
    };
    let mut unknown = Vec::new();
    for path in paths {
        let one = find(field(path.as_str()).exists()).limit(1).prepare()?;
        if view.query(&one, &quiet)?.hits.is_empty() {
            unknown.push(path);
        }
    }
    if unknown.is_empty() {
        return Ok(Vec::new());
    }
    let names = names(view, hits)?;
    let names = || names.iter().map(String::as_str);
    // The whole of an object can be printed.
    let is_printed = |path: &Path| query.fields().is_some_and(|fields| fields.contains(path));
    let whys = unknown.into_iter().filter_map(|path| {
        match names().any(|name| is_below(name, path.as_str())) && is_printed(path) {
            true => None,
            false => Some(why(path.as_str(), names(), "")),
        }
    });
    Ok(whys.collect())
}

/// As [`of_view`], of frozen files. What is printed is looked for in the documents too: they may
/// have fields that were not frozen.
///
/// # Errors
/// Of damage.
pub fn of_frozen(
    frozen: &FrozenView,
    query: &Prepared,
    hits: &[Hit],
) -> quiredb::Result<Vec<String>> {
    if frozen.count() == 0 {
        return Ok(Vec::new());
    }
    let files = frozen.files();
    let mut documents_of: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, documents) in files.iter().flat_map(|file| file.fields()) {
        *documents_of.entry(name).or_default() += u64::from(documents);
    }
    let names = || documents_of.keys().copied();
    let used = used(query);
    let mut paths = used.clone();
    paths.extend(query.fields().unwrap_or_default());
    paths.retain(|path| path.as_str() != quiredb::ID);
    paths.sort_by_key(|path| path.as_str());
    paths.dedup();
    let mut whys = Vec::new();
    for path in paths {
        let (name, is_used) = (path.as_str(), used.contains(&path));
        match documents_of.get(name) {
            Some(0) => whys.push(format!("no document has a value in the field {name:?}")),
            Some(_) => {}
            None if names().any(|one| is_below(one, name)) => {
                if is_used {
                    whys.push(why(name, names(), ""));
                }
            }
            None => match frozen.has_field(path, hits)? {
                Some(true) if is_used => whys.push(format!(
                    "the field {name:?} was not frozen: it has no values here"
                )),
                Some(true) => {}
                Some(false) => whys.push(why(name, names(), "")),
                None => whys.push(why(name, names(), ", or it was not frozen")),
            },
        }
    }
    Ok(whys)
}

/// The paths that a query is about, but for those that it prints.
fn used(query: &Prepared) -> Vec<&Path> {
    let mut paths: Vec<&Path> = Vec::new();
    query.each_use(&mut |path, _| paths.push(path));
    paths
}

/// Why a field is unknown: it is an object, or no document has it, `or` what else may be, with the
/// name that is most like it.
fn why<'n>(path: &str, names: impl Iterator<Item = &'n str> + Clone, or: &str) -> String {
    if let Some(name) = names.clone().find(|name| is_below(name, path)) {
        return format!("{path:?} is an object; name a field in it, as {name:?}");
    }
    match nearest(path, names) {
        Some(name) => {
            format!("no document has the field {path:?}{or}; did you mean {name:?}?")
        }
        None => format!("no document has the field {path:?}{or}"),
    }
}

/// Whether a field is one of the object at a path.
pub(crate) fn is_below(name: &str, path: &str) -> bool {
    let rest = name.strip_prefix(path);
    rest.is_some_and(|rest| rest.starts_with('.'))
}

/// The name that is most like a path, if one is alike: by its letters, or by its last part.
pub(crate) fn nearest<'n>(path: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let lower = path.to_lowercase();
    let likeness = |name: &str| {
        let name = name.to_lowercase();
        let last = name.rsplit('.').next().unwrap_or_default();
        match last == lower {
            true => 1.0,
            false => strsim::normalized_damerau_levenshtein(&name, &lower),
        }
    };
    let scored = names.map(|name| (likeness(name), name));
    let best = scored.max_by(|(one, _), (other, _)| one.total_cmp(other))?;
    (best.0 >= ALIKE_MIN).then_some(best.1)
}

/// The fields of the documents: all if an index has them, else those of all documents if they are
/// not many, else those of the first hits. Of a wide collection always these: columns may be of any
/// size, and members of families are among them.
fn names(view: &View, hits: &[Hit]) -> quiredb::Result<Vec<String>> {
    if view.is_wide() {
        return names_of_hits(view, hits);
    }
    let found = view.fields(&mut |read| match read < READ_MAX {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break(()),
    });
    match found {
        Ok(found) => Ok(found.fields.into_iter().map(|field| field.path).collect()),
        Err(quiredb::Error::Query(quiredb::query::Error::Stopped)) => names_of_hits(view, hits),
        Err(error) => Err(error),
    }
}

fn names_of_hits(view: &View, hits: &[Hit]) -> quiredb::Result<Vec<String>> {
    let mut names = BTreeSet::new();
    let hits = hits.get(..HITS_READ_MAX).unwrap_or(hits);
    for found in view.documents(hits)? {
        Path::each_in(found.document.root(), &mut |path| {
            names.insert(path.to_owned());
        });
    }
    Ok(names.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_that_is_most_like_it_is_suggested() {
        let names = ["title", "year", "at.city", "customer_id", "x"];
        for (path, expected) in [
            ("titel", Some("title")),
            ("Year", Some("year")),
            ("city", Some("at.city")),
            ("at.ctiy", Some("at.city")),
            ("customerid", Some("customer_id")),
            ("y", None),
            ("price", None),
        ] {
            assert_eq!(nearest(path, names.into_iter()), expected, "{path}");
        }
    }
}
