//! Names of fields on the command line: as in a condition, in double quotes where they are unusual.

use crate::error::{Error, Result};
use quiredb::query::Path;

/// The fields of a list, `mark, at.city, "odd, name"`. A text without quotes that is no such list,
/// as `odd name`, is taken as plain names between commas.
///
/// # Errors
/// A quote has no end, or the like.
pub(crate) fn parse_fields(text: &str) -> Result<Vec<Path>> {
    match Path::parse_list(text) {
        Ok(paths) => Ok(paths),
        Err(_) if !text.contains('"') => {
            Ok(text.split(',').map(str::trim).map(Path::new).collect())
        }
        Err(error) => Err(Error::Usage(format!("{text}: {error}"))),
    }
}

/// The fields of some lists.
///
/// # Errors
/// As [`parse_fields`].
pub(crate) fn fields_of(lists: &[String]) -> Result<Vec<Path>> {
    let lists = lists.iter().map(|list| parse_fields(list));
    Ok(lists.collect::<Result<Vec<_>>>()?.concat())
}
