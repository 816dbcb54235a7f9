//! [`Fields`]: which fields the documents of a partition have, and what their values are like.
//!
//! The search index gives them where it is complete and has all fields: its postings are visited
//! field by field, and of a field with very many only the first. Else every document is read.

mod distinct;

use super::key::term_hash;
use distinct::DistinctValues;
use quire_index::term;
use quire_model::ordered::OrderedValue;
use quire_model::{Document, ValueRef};
use quire_query::Path;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Fields that figures are kept of. Of more, those that are met first are kept.
const FIELDS_MAX: usize = 10_000;

/// Examples of a field's values, and the most characters of one.
const EXAMPLES: usize = 2;
const EXAMPLE_CHARS_MAX: usize = 60;

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FieldType {
    /// Null.
    Null,
    /// A truth value.
    Boolean,
    /// A number without a fraction, however it is written.
    Integer,
    /// A number with a fraction, or beyond the range of integers.
    Float,
    /// A string.
    String,
}

impl FieldType {
    /// Its name, as in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            FieldType::Null => "null",
            FieldType::Boolean => "boolean",
            FieldType::Integer => "integer",
            FieldType::Float => "float",
            FieldType::String => "string",
        }
    }
}

/// What the values of one field are like.
#[derive(Debug, Clone, Default)]
pub struct FieldFigures {
    /// Documents with a value of the field, null included.
    pub documents: u64,
    /// The types of its values.
    pub types: BTreeSet<FieldType>,
    /// Whether some document has several values of it.
    pub has_several: bool,
    /// Some values as JSON, long ones cut short.
    pub examples: Vec<String>,
    /// Bytes of the index that it takes, about; before compression.
    pub index_bytes: u64,
    values: DistinctValues,
    /// Pairs of a value and a document that were looked at, and about all that there are; both 0
    /// where all were looked at.
    looked_at: (u64, u64),
    /// Some of its values may have gone since the index's position.
    is_behind: bool,
}

/// The fields of documents.
#[derive(Debug, Clone, Default)]
pub struct Fields {
    /// By dotted path.
    pub by_path: BTreeMap<String, FieldFigures>,
    /// Values that are left out because there are too many fields.
    pub omitted: u64,
    /// Whether the search index gave them.
    pub from_index: bool,
}

impl FieldFigures {
    /// How many different values there are, and whether that is exact.
    #[must_use]
    pub fn cardinality(&self) -> (u64, bool) {
        let (count, (some, all)) = (self.values.count(), self.looked_at);
        if some == 0 {
            return (count, self.values.is_exact() && !self.is_behind);
        }
        let scaled = (count as f64 * all as f64 / some as f64).round() as u64;
        (scaled.clamp(count, all.max(count)), false)
    }

    /// Adds a value.
    pub(crate) fn add(&mut self, term: &[u8]) {
        self.values.add(term_hash(term));
        let Some(value) = term::decode(term) else {
            return;
        };
        self.types.insert(match &value {
            OrderedValue::Null => FieldType::Null,
            OrderedValue::Bool(_) => FieldType::Boolean,
            OrderedValue::Int(_) | OrderedValue::UInt(_) => FieldType::Integer,
            OrderedValue::Float(_) => FieldType::Float,
            _ => FieldType::String,
        });
        if self.examples.len() < EXAMPLES && !matches!(value, OrderedValue::Null) {
            self.add_example(json(&value));
        }
    }

    /// Adds a long string of which only a hash is known.
    pub(crate) fn add_long(&mut self, hash: u64) {
        self.values.add(hash);
        self.types.insert(FieldType::String);
    }

    /// Only the first values were looked at.
    pub(crate) fn set_looked_at(&mut self, some: u64, all: u64) {
        self.looked_at = (some, all.max(some));
    }

    pub(crate) fn set_behind(&mut self) {
        self.is_behind = true;
    }

    fn add_example(&mut self, example: String) {
        if self.examples.len() < EXAMPLES && !self.examples.contains(&example) {
            self.examples.push(example);
        }
    }

    fn merge(&mut self, other: FieldFigures) {
        let pairs = |figures: &FieldFigures| match figures.looked_at {
            (0, _) => (figures.documents, figures.documents),
            some => some,
        };
        if self.looked_at.0 > 0 || other.looked_at.0 > 0 {
            let ((some, all), (more, rest)) = (pairs(self), pairs(&other));
            self.looked_at = (some + more, all + rest);
        }
        self.documents += other.documents;
        self.types.extend(other.types);
        self.has_several |= other.has_several;
        self.index_bytes += other.index_bytes;
        self.values.merge(&other.values);
        self.is_behind |= other.is_behind;
        for example in other.examples {
            self.add_example(example);
        }
    }
}

impl Fields {
    /// Adds those of other documents.
    pub fn merge(&mut self, other: Fields) {
        self.omitted += other.omitted;
        self.from_index &= other.from_index;
        for (path, figures) in other.by_path {
            if let Some(own) = self.field(&path) {
                own.merge(figures);
            }
        }
    }

    /// The figures of a field; `None` if there are too many fields.
    pub(crate) fn field(&mut self, path: &str) -> Option<&mut FieldFigures> {
        if !self.by_path.contains_key(path) {
            if self.by_path.len() >= FIELDS_MAX {
                self.omitted += 1;
                return None;
            }
            let path = path.to_string();
            self.by_path.insert(path, FieldFigures::default());
        }
        self.by_path.get_mut(path)
    }

    /// Adds a document.
    pub fn add(&mut self, document: &Document) {
        let (mut counts, mut term) = (BTreeMap::new(), Vec::new());
        Path::each_value_in(document.root(), &mut |path: &str, value: ValueRef<'_>| {
            term.clear();
            if let Some(figures) = self.field(path)
                && term::encode(value, &mut term)
            {
                figures.add(&term);
                *counts.entry(path.to_string()).or_insert(0) += 1;
            }
        });
        for (path, count) in counts {
            if let Some(figures) = self.by_path.get_mut(&path) {
                figures.documents += 1;
                figures.has_several |= count > 1;
            }
        }
    }
}

/// A value as JSON, cut short.
fn json(value: &OrderedValue<'_>) -> String {
    match value {
        OrderedValue::Bool(value) => value.to_string(),
        OrderedValue::Int(value) => value.to_string(),
        OrderedValue::UInt(value) => value.to_string(),
        OrderedValue::Float(value) => value.to_string(),
        OrderedValue::String(text) => {
            let mut shown: String = text.chars().take(EXAMPLE_CHARS_MAX).collect();
            if shown.len() < text.len() {
                shown.push('…');
            }
            let mut json = Vec::new();
            ValueRef::String(&shown).write_json(&mut json);
            String::from_utf8_lossy(&json).into_owned()
        }
        _ => "null".to_string(),
    }
}
