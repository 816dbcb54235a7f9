//! `exists` of an object, as of the views that are searched.

use std::collections::BTreeSet;

use quiredb::View;
use quiredb::query::Query;

use super::execute::failed;
use crate::http::failure::Outcome;
use crate::objects::{self, names_of_view};

/// Has each `exists` of the filters of a query find the objects at its path too.
///
/// # Errors
/// 400 for an object of very many fields; those of reading the fields.
pub(crate) fn find_objects(
    query: &mut Query,
    views: &[View],
    stop: &(dyn Fn() -> bool + Sync),
) -> Outcome<()> {
    let mut names_of = |prefixes: &[String]| {
        let mut names = BTreeSet::new();
        for view in views {
            names.extend(names_of_view(view, prefixes, stop)?);
        }
        Ok(names)
    };
    objects::find_objects(query, &mut names_of).map_err(failed)
}
