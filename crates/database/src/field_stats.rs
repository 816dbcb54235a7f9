//! Figures about the fields of a collection's documents.

pub use quire_collection::FieldType;
use serde::{Deserialize, Serialize};

/// The fields of a collection's documents.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct CollectionFields {
    /// How many documents there are.
    pub documents: u64,
    /// Whether the search index gave the figures, of each partition. Else all documents were read.
    pub from_index: bool,
    /// The fields, by path.
    pub fields: Vec<FieldStats>,
    /// Values that are left out, because there are more than 10,000 fields.
    pub omitted: u64,
}

/// Figures about a field.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct FieldStats {
    /// Its dotted path, as in a query.
    pub path: String,
    /// The types of its values.
    pub types: Vec<FieldType>,
    /// Documents with a value of it, null included.
    pub documents: u64,
    /// Whether some document has several values of it.
    pub several: bool,
    /// Different values.
    pub values: u64,
    /// Whether `values` is an estimate.
    pub estimated: bool,
    /// One or two values as JSON; long strings are cut short.
    pub examples: Vec<String>,
    /// Bytes of the index that it takes, about; 0 if the index did not give the figures.
    pub index_bytes: u64,
}
