//! Which fields of a collection are indexed.

use std::collections::BTreeMap;

/// Which fields are indexed: all or none, the default, with exceptions. An exception holds for the
/// field and for what is nested below it; of several, the longest path decides.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IndexedFields {
    default: bool,
    exceptions: BTreeMap<String, bool>,
}

impl IndexedFields {
    /// Every field.
    #[must_use]
    pub fn all() -> IndexedFields {
        IndexedFields {
            default: true,
            exceptions: BTreeMap::new(),
        }
    }

    /// No field.
    #[must_use]
    pub fn none() -> IndexedFields {
        IndexedFields {
            default: false,
            exceptions: BTreeMap::new(),
        }
    }

    /// The same with an exception: whether the field `path`, dotted, is indexed.
    #[must_use]
    pub fn with(mut self, path: &str, indexed: bool) -> IndexedFields {
        self.exceptions.insert(path.into(), indexed);
        self
    }

    /// Whether fields without an exception are indexed.
    #[must_use]
    pub fn by_default(&self) -> bool {
        self.default
    }

    /// The exceptions: paths, ascending, and whether the field is indexed.
    pub fn exceptions(&self) -> impl Iterator<Item = (&str, bool)> {
        let exceptions = self.exceptions.iter();
        exceptions.map(|(path, indexed)| (path.as_str(), *indexed))
    }

    /// Whether no field is indexed.
    #[must_use]
    pub fn is_none(&self) -> bool {
        !self.default && self.exceptions.values().all(|indexed| !indexed)
    }

    /// Whether every field is indexed.
    #[must_use]
    pub fn includes_all(&self) -> bool {
        self.default && self.exceptions.values().all(|indexed| *indexed)
    }

    /// Whether the field `path`, or one that is nested below it, is indexed.
    #[must_use]
    pub fn includes_part_of(&self, path: &str) -> bool {
        let is_below = |other: &str| {
            let rest = other.strip_prefix(path);
            rest.is_some_and(|rest| rest.starts_with('.'))
        };
        let mut exceptions = self.exceptions();
        self.includes(path) || exceptions.any(|(other, indexed)| indexed && is_below(other))
    }

    /// Whether the field `path`, dotted, is indexed.
    #[must_use]
    pub fn includes(&self, path: &str) -> bool {
        if self.exceptions.is_empty() {
            return self.default;
        }
        let mut prefix = path;
        loop {
            if let Some(indexed) = self.exceptions.get(prefix) {
                return *indexed;
            }
            match prefix.rsplit_once('.') {
                Some((above, _)) => prefix = above,
                None => return self.default,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_path_with_an_exception_decides() {
        let fields = IndexedFields::all()
            .with("body", false)
            .with("body.title", true)
            .with("tags", false);
        let indexed = |path| fields.includes(path);
        assert!(indexed("price") && indexed("body.title") && indexed("body.title.short"));
        assert!(!indexed("body") && !indexed("body.text") && !indexed("tags.name"));
        assert!(indexed("bodywork"));
        assert!(fields.includes_part_of("body") && !fields.includes_part_of("tags"));
        assert!(IndexedFields::none().is_none() && !IndexedFields::none().includes("a"));
        assert!(!IndexedFields::none().with("a", true).is_none());
    }
}
