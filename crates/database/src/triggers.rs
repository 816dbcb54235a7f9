//! Triggers of collections: coprocessors that run with each write, in the catalog.

use crate::catalog::{Entry, StoredTrigger};
use crate::stored_code::{code_of, find};
use crate::{Database, Error, Result};
use quire_coprocessor::{Kind, TriggerOptions};
use quire_model::Document;
use serde::Serialize;

/// A trigger of a collection, as it is listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TriggerInfo {
    /// The name of the coprocessor.
    pub coprocessor: String,
    /// Its version, and how it is called.
    #[serde(flatten)]
    pub options: StoredTrigger,
}

impl Database {
    /// Makes a coprocessor, `name` or `name/version`, a trigger of a collection: it runs with each
    /// write from now on, in the place of another version of it. Durable when it returns.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` if the module is no trigger or does not start, or a column is named
    /// that there is not.
    pub fn attach_trigger(
        &self,
        collection: &str,
        coprocessor: &str,
        options: &TriggerOptions,
    ) -> Result<TriggerInfo> {
        self.replace_triggers(collection, |entry, coprocessors| {
            let (name, version) = find(coprocessors, coprocessor)?;
            check_columns(entry, options)?;
            let code = code_of(coprocessors, name, version)?;
            code.check_kind(Kind::Trigger)?;
            let stored = StoredTrigger {
                version,
                columns: options.columns.clone(),
                argument: options.argument.as_ref().map(json_of).transpose()?,
                fuel: options.limits.fuel,
                memory_bytes: options.limits.memory_bytes,
                output_bytes: options.limits.output_bytes,
            };
            entry.triggers.insert(name.to_string(), stored.clone());
            Ok(info(name, stored))
        })
    }

    /// The triggers of a collection in the order in which they run: that of their names.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn triggers(&self, collection: &str) -> Result<Vec<TriggerInfo>> {
        let entry = self.catalog_entry(collection)?;
        let triggers = entry.triggers.into_iter();
        Ok(triggers.map(|(name, stored)| info(&name, stored)).collect())
    }

    /// Ends that a coprocessor is a trigger of a collection. What it has written stays.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn detach_trigger(&self, collection: &str, coprocessor: &str) -> Result<()> {
        self.replace_triggers(collection, |entry, _| {
            let removed = entry.triggers.remove(coprocessor);
            removed.map(drop).ok_or_else(|| Error::NoCoprocessor {
                name: coprocessor.to_string(),
                existing: match entry.triggers.is_empty() {
                    true => format!("collection {:?} has no triggers", entry.name),
                    false => {
                        let names: Vec<_> = entry.triggers.keys().map(String::as_str).collect();
                        format!("triggers of {:?}: {}", entry.name, names.join(", "))
                    }
                },
            })
        })
    }
}

fn info(name: &str, options: StoredTrigger) -> TriggerInfo {
    TriggerInfo {
        coprocessor: name.to_string(),
        options,
    }
}

fn json_of(document: &Document) -> Result<serde_json::Value> {
    let json = serde_json::from_str(&document.to_json());
    json.map_err(|error| Error::Invalid(format!("the argument of a trigger: {error}")))
}

/// Refuses columns that a collection does not have.
fn check_columns(entry: &Entry, options: &TriggerOptions) -> Result<()> {
    let Some(columns) = &options.columns else {
        return Ok(());
    };
    let Some(schema) = &entry.settings.wide else {
        let what = "columns are named of wide collections alone, and this is a plain one";
        return Err(Error::Invalid(what.into()));
    };
    let mut unknown = columns.iter().filter(|name| schema.column(name).is_none());
    match unknown.next() {
        Some(name) if !schema.keeps_undeclared() => {
            Err(Error::Invalid(format!("there is no column {name:?}")))
        }
        _ => Ok(()),
    }
}
