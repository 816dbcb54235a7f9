//! Aliases: other names of collections, each of one or several.
//!
//! # Invariants
//! 1. No collection has the name of an alias.
//! 2. An alias has at most one collection that is declared to take its writes.
//! 3. A list of changes is made as a whole or not at all: one catalog has all of them.

use crate::settings::check_name;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Aliases by name: each with its collections, by name, and what it says of each.
pub type Aliases = BTreeMap<String, BTreeMap<String, Alias>>;

/// The most aliases that one collection can have.
const ALIASES_MAX: usize = 1000;

/// The longest filter, as JSON, in bytes.
const FILTER_BYTES_MAX: usize = 64 << 10;

/// The longest routing, in bytes.
const ROUTING_BYTES_MAX: usize = 512;

/// What an alias says of one of its collections.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Alias {
    /// A query that searches through the alias are limited to. It is kept as it was given; the
    /// server reads it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<serde_json::Value>,
    /// Whether writes to the alias go to this collection. Where nothing is said, they do if it is
    /// the alias's only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_write_index: Option<bool>,
    /// The routing that clients gave for writes. It is kept for them: a document's key alone says
    /// which partition it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index_routing: Option<String>,
    /// The routing that clients gave for searches, kept likewise: all partitions are searched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search_routing: Option<String>,
    /// Whether patterns leave the alias out, where a request does not say otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_hidden: Option<bool>,
}

/// One change of aliases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AliasChange {
    /// The alias is of this collection too; what it said of the collection before is replaced.
    Add {
        /// The collection.
        collection: String,
        /// The alias.
        alias: String,
        /// What it says of the collection.
        options: Alias,
    },
    /// The alias is no longer of this collection.
    Remove {
        /// The collection.
        collection: String,
        /// The alias.
        alias: String,
    },
    /// The collection is dropped, so that an alias can take its name in the same step.
    Drop {
        /// The collection.
        collection: String,
    },
}

/// The collections of an alias, by name, each with what the alias says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved(pub BTreeMap<String, Alias>);

impl Resolved {
    /// The collection that writes to the alias go to.
    ///
    /// # Errors
    /// `Invalid` if the alias has several collections and none is declared to take its writes.
    pub fn write_target(&self, name: &str) -> Result<&str> {
        let declared = |(_, alias): &(&String, &Alias)| alias.is_write_index == Some(true);
        let only = self.0.iter().next().filter(|(_, alias)| {
            let is_refused = alias.is_write_index == Some(false);
            self.0.len() == 1 && !is_refused
        });
        let found = self.0.iter().find(declared).or(only);
        found.map(|(target, _)| target.as_str()).ok_or_else(|| {
            Error::Invalid(format!(
                "no write index is defined for alias [{name}]. The write index may be explicitly \
                 disabled using is_write_index=false or the alias points to multiple indices \
                 without one being designated as a write index"
            ))
        })
    }

    /// The collection that one document is read from.
    ///
    /// # Errors
    /// `Invalid` if the alias has several.
    pub fn only(&self, name: &str) -> Result<&str> {
        let names: Vec<&str> = self.0.keys().map(String::as_str).collect();
        match names[..] {
            [only] => Ok(only),
            _ => Err(Error::Invalid(format!(
                "alias [{name}] has more than one index associated with it [{}], can't execute \
                 a single index op",
                names.join(", ")
            ))),
        }
    }

    /// As [`only`](Resolved::only), where nothing applies the filter of an alias.
    ///
    /// # Errors
    /// As there; `Invalid` if it has a filter.
    pub(crate) fn only_unfiltered(&self, name: &str) -> Result<&str> {
        let collection = self.only(name)?;
        match self.0.values().any(|alias| alias.filter.is_some()) {
            true => Err(Error::Invalid(format!(
                "alias {name:?} has a filter, which only searches over HTTP apply: name the \
                 collection {collection:?} instead"
            ))),
            false => Ok(collection),
        }
    }
}

/// Checks the rules that the aliases of a database keep: names of collections, with the aliases of
/// each.
///
/// # Errors
/// What is wrong, in words.
pub(crate) fn check_aliases(
    collections: &[(&str, &BTreeMap<String, Alias>)],
) -> std::result::Result<(), String> {
    let names: BTreeSet<&str> = collections.iter().map(|(name, _)| *name).collect();
    let mut written = BTreeSet::new();
    for (collection, aliases) in collections {
        if aliases.len() > ALIASES_MAX {
            return Err(format!(
                "collection [{collection}] would have more than {ALIASES_MAX} aliases"
            ));
        }
        for (name, alias) in *aliases {
            check_name(name).map_err(|error| format!("alias: {error}"))?;
            if names.contains(&**name) {
                return Err(format!(
                    "an index or data stream exists with the same name as the alias [{name}]"
                ));
            }
            if alias.is_write_index == Some(true) && !written.insert(name) {
                return Err(format!(
                    "alias [{name}] has more than one write index: only one collection can be \
                     declared with is_write_index"
                ));
            }
            let routings = [&alias.index_routing, &alias.search_routing];
            let mut routings = routings.into_iter().flatten();
            if routings.any(|routing| routing.len() > ROUTING_BYTES_MAX) {
                return Err(format!(
                    "a routing of alias [{name}] is longer than {ROUTING_BYTES_MAX} bytes"
                ));
            }
            let filter = alias.filter.as_ref().map(ToString::to_string);
            if filter.is_some_and(|filter| filter.len() > FILTER_BYTES_MAX) {
                return Err(format!(
                    "the filter of alias [{name}] is longer than {FILTER_BYTES_MAX} bytes"
                ));
            }
        }
    }
    Ok(())
}
