//! What the file of a pipe says of documents: their fields, and rows of other tables in them.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Which columns of a table, or fields of a document, are fields, and how.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FieldsConfig {
    /// The columns that are fields; all by default.
    pub columns: Option<Vec<String>>,
    /// Columns that are left out.
    #[serde(default)]
    pub drop: Vec<String>,
    /// The field of a column, where it is not the column's name.
    #[serde(default)]
    pub rename: BTreeMap<String, String>,
    /// The type of a column's value: `text`, `number`, `boolean` or `json`.
    #[serde(default)]
    pub cast: BTreeMap<String, Cast>,
    /// Fields that are text made of others: `{first} {last}`.
    #[serde(default)]
    pub set: BTreeMap<String, String>,
    /// What keys are made of: `{_key}` is the source's key, and other names are fields.
    pub key: Option<String>,
    /// A file with a WebAssembly module that documents go through before all of this.
    pub module: Option<PathBuf>,
}

impl FieldsConfig {
    /// Whether a column or a field stays.
    pub fn takes(&self, name: &str) -> bool {
        let has = |names: &[String]| names.iter().any(|known| known == name);
        self.columns.as_ref().is_none_or(|names| has(names)) && !has(&self.drop)
    }
}

/// What a value becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cast {
    /// Text.
    Text,
    /// A number, if the text is one.
    Number,
    /// Whether a number is not 0.
    Boolean,
    /// The value that a text has as JSON, if it is JSON.
    Json,
}

/// Rows of another table that are a field of the document.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JoinConfig {
    /// The field of the document.
    pub field: String,
    /// The table: `DATABASE.TABLE`.
    pub table: String,
    /// What the field holds.
    pub kind: JoinKind,
    /// Pairs of columns that are equal: of the document's table, and of this one.
    pub on: BTreeMap<String, String>,
    /// Of `many`: the columns that order the array, each with `-` before it to descend; the primary
    /// key comes last.
    #[serde(default)]
    pub order: Vec<String>,
    /// Of `sum`: the column.
    pub sum: Option<String>,
    /// As in [`FieldsConfig`].
    pub columns: Option<Vec<String>>,
    /// As in [`FieldsConfig`].
    #[serde(default)]
    pub drop: Vec<String>,
    /// As in [`FieldsConfig`].
    #[serde(default)]
    pub rename: BTreeMap<String, String>,
    /// As in [`FieldsConfig`].
    #[serde(default)]
    pub cast: BTreeMap<String, Cast>,
}

/// What the field of a join holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JoinKind {
    /// The one row, as an object; null if there is none.
    One,
    /// The rows, as an array of objects.
    Many,
    /// How many rows there are.
    Count,
    /// The sum of a column.
    Sum,
}

impl JoinConfig {
    /// Which columns of the table are fields of its objects.
    pub fn fields(&self) -> FieldsConfig {
        FieldsConfig {
            columns: self.columns.clone(),
            drop: self.drop.clone(),
            rename: self.rename.clone(),
            cast: self.cast.clone(),
            ..FieldsConfig::default()
        }
    }

    /// Checks what can be said without the tables.
    pub(crate) fn check(&self) -> Result<(), String> {
        let is_sum = self.kind == JoinKind::Sum;
        if self.on.is_empty() {
            return Err("on needs a pair of columns: { COLUMN = \"COLUMN OF THE TABLE\" }".into());
        }
        if is_sum != self.sum.is_some() {
            return Err("kind \"sum\" needs sum, a column; no other kind has it".into());
        }
        if self.kind != JoinKind::Many && !self.order.is_empty() {
            return Err("only kind \"many\" has order".into());
        }
        let has_fields = matches!(self.kind, JoinKind::One | JoinKind::Many);
        if !has_fields && self.fields() != FieldsConfig::default() {
            return Err("kinds \"count\" and \"sum\" have no columns, drop, rename or cast".into());
        }
        Ok(())
    }
}
