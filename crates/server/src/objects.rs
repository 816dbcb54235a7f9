//! `exists` of an object: the documents that have a value in one of its fields.
//!
//! An engine's filter knows values and their paths, and no objects. So the filter is about all
//! fields below the path.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use quiredb::query::{Facet, FacetKind, Filter, Path, Query};
use quiredb::{Error, Result, View};

/// Fields of one object that a filter may be about.
const FIELDS_MAX: usize = 1_000;

/// The filters of a query: its own, and those of its aggregates and facets.
pub(crate) fn filters_of(query: &mut Query) -> Vec<&mut Filter> {
    let mut filters = vec![&mut query.filter];
    let aggregates = query.aggregates.iter_mut();
    filters.extend(aggregates.filter_map(|(_, one)| one.filter.as_mut()));
    for (_, facet) in &mut query.facets {
        add_filters(facet, &mut filters);
    }
    filters
}

/// Recursion is as deep as the aggregations of a request, which parsing bounds.
fn add_filters<'q>(facet: &'q mut Facet, to: &mut Vec<&'q mut Filter>) {
    if let FacetKind::Filters(filters) = &mut facet.kind {
        to.extend(filters);
    }
    for (_, inner) in &mut facet.inner {
        add_filters(inner, to);
    }
}

/// Has each `exists` of the filters of a query find the objects at its path too. `names_of` gives
/// the paths with one of some prefixes that documents have values at; it is called if there is any.
///
/// # Errors
/// `Invalid` for an object of very many fields; as `names_of`.
pub fn find_objects(
    query: &mut Query,
    names_of: &mut dyn FnMut(&[String]) -> Result<BTreeSet<String>>,
) -> Result<()> {
    let (mut paths, mut filters) = (Vec::new(), filters_of(query));
    for filter in &filters {
        add_paths(filter, &mut paths);
    }
    if paths.is_empty() {
        return Ok(());
    }
    let names = names_of(&paths)?;
    let mut filters = filters.iter_mut();
    filters.try_for_each(|filter| expand(filter, &names))
}

/// The paths with one of some prefixes that the documents of a view have values at.
///
/// # Errors
/// Of damage; `Stopped` once `stop` is true.
pub fn names_of_view(
    view: &View,
    prefixes: &[String],
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<BTreeSet<String>> {
    let mut go_on = |_| match stop() {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    view.paths_below(prefixes, &mut go_on)
}

/// Adds the paths which `filter` wants to exist. Recursion is as deep as the filter, which parsing
/// bounds; so it is in [`expand`].
fn add_paths(filter: &Filter, to: &mut Vec<String>) {
    match filter {
        Filter::Exists(path) => to.push(path.as_str().to_owned()),
        Filter::And(filters) | Filter::Or(filters) => {
            filters.iter().for_each(|one| add_paths(one, to));
        }
        Filter::Not(one) => add_paths(one, to),
        _ => {}
    }
}

fn expand(filter: &mut Filter, names: &BTreeSet<String>) -> Result<()> {
    match filter {
        Filter::And(filters) | Filter::Or(filters) => {
            filters.iter_mut().try_for_each(|one| expand(one, names))
        }
        Filter::Not(one) => expand(one, names),
        Filter::Exists(path) => {
            let mut below = below(path, names);
            if below.len() > FIELDS_MAX {
                return Err(Error::Invalid(format!(
                    "[exists] of [{}] would be about more than {FIELDS_MAX} fields: name one of \
                     them",
                    path.as_str()
                )));
            }
            if below.is_empty() {
                return Ok(());
            }
            if names.contains(path.as_str()) {
                below.push(Filter::Exists(path.clone()));
            }
            *filter = Filter::Or(below);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// A filter for each field of the object at a path.
fn below(path: &Path, names: &BTreeSet<String>) -> Vec<Filter> {
    let prefix = format!("{}.", path.as_str());
    let below = names.range(prefix.clone()..);
    let below = below.take_while(|name| name.starts_with(&prefix));
    below.map(|name| Filter::Exists(Path::new(name))).collect()
}
