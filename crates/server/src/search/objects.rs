//! `exists` of an object: the documents that have a value in one of its fields.
//!
//! An engine's filter knows values and their paths, and no objects. So the filter is about all
//! fields below the path, which are looked up as of the views that are searched.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use quiredb::View;
use quiredb::query::{Filter, Path};

use super::execute::failed;
use crate::http::failure::{Failure, Outcome};

/// Fields of one object that a filter may be about.
const FIELDS_MAX: usize = 1_000;

/// Has each `exists` of a filter find the objects at its path too.
///
/// # Errors
/// 400 for an object of more than [`FIELDS_MAX`] fields; those of reading the fields.
pub(crate) fn find_objects(
    filter: &mut Filter,
    views: &[View],
    stop: &(dyn Fn() -> bool + Sync),
) -> Outcome<()> {
    let mut prefixes = Vec::new();
    add_prefixes(filter, &mut prefixes);
    if prefixes.is_empty() {
        return Ok(());
    }
    let mut names = BTreeSet::new();
    let mut go_on = |_| match stop() {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    for view in views {
        match view.paths_below(&prefixes, &mut go_on) {
            Ok(found) => names.extend(found),
            Err(error) => return Err(failed(error)),
        }
    }
    expand(filter, &names)
}

/// Adds how the paths of fields begin that are in an object which `filter` wants to exist.
/// Recursion is as deep as the filter, which parsing bounds; so it is in [`expand`].
fn add_prefixes(filter: &Filter, to: &mut Vec<String>) {
    match filter {
        Filter::Exists(path) => to.push(prefix(path)),
        Filter::And(filters) | Filter::Or(filters) => {
            filters.iter().for_each(|one| add_prefixes(one, to));
        }
        Filter::Not(one) => add_prefixes(one, to),
        _ => {}
    }
}

/// How the paths of an object's fields begin.
fn prefix(path: &Path) -> String {
    format!("{}.", path.as_str())
}

fn expand(filter: &mut Filter, names: &BTreeSet<String>) -> Outcome<()> {
    match filter {
        Filter::And(filters) | Filter::Or(filters) => {
            filters.iter_mut().try_for_each(|one| expand(one, names))
        }
        Filter::Not(one) => expand(one, names),
        Filter::Exists(path) => {
            let below = below(path, names);
            if below.len() > FIELDS_MAX {
                return Err(Failure::illegal_argument(format!(
                    "[exists] of [{}] would be about more than {FIELDS_MAX} fields: name one of \
                     them",
                    path.as_str()
                )));
            }
            if !below.is_empty() {
                let own = Filter::Exists(path.clone());
                *filter = below.into_iter().fold(own, Filter::or);
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// A filter for each field of the object at a path.
fn below(path: &Path, names: &BTreeSet<String>) -> Vec<Filter> {
    let prefix = prefix(path);
    let below = names.range(prefix.clone()..);
    let below = below.take_while(|name| name.starts_with(&prefix));
    below.map(|name| Filter::Exists(Path::new(name))).collect()
}
