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
    if !is_about_existence(filter) {
        return Ok(());
    }
    let mut names = BTreeSet::new();
    let mut go_on = |_| match stop() {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    for view in views {
        match view.fields(&mut go_on) {
            Ok(found) => names.extend(found.fields.into_iter().map(|field| field.path)),
            // Its columns are declared, and no objects.
            Err(quiredb::Error::IsWide { .. }) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    expand(filter, &names)
}

/// Recursion is as deep as the filter, which parsing bounds; so it is in [`expand`].
fn is_about_existence(filter: &Filter) -> bool {
    match filter {
        Filter::Exists(_) => true,
        Filter::And(filters) | Filter::Or(filters) => filters.iter().any(is_about_existence),
        Filter::Not(one) => is_about_existence(one),
        _ => false,
    }
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
    let prefix = format!("{}.", path.as_str());
    let below = names.range(prefix.clone()..);
    let below = below.take_while(|name| name.starts_with(&prefix));
    below.map(|name| Filter::Exists(Path::new(name))).collect()
}
