//! Lists of names and patterns in a request.

/// A name or a pattern in a list of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Named<'n> {
    /// What it matches.
    Of(&'n str),
    /// All that was matched before, without what it matches.
    Without(&'n str),
}

/// The names and patterns of a list: behind a pattern, `-NAME` takes out what it matches.
pub(crate) fn named<'n>(list: impl Iterator<Item = &'n str>) -> impl Iterator<Item = Named<'n>> {
    let mut is_behind_pattern = false;
    list.map(move |name| match name.strip_prefix('-') {
        Some(without) if is_behind_pattern => Named::Without(without),
        _ => {
            is_behind_pattern |= name == "_all" || name.contains('*');
            Named::Of(name)
        }
    })
}

/// Those of the names between commas that add to a list.
pub(crate) fn added(list: &str) -> impl Iterator<Item = &str> {
    named(list.split(',')).filter_map(|one| match one {
        Named::Of(name) => Some(name),
        Named::Without(_) => None,
    })
}
