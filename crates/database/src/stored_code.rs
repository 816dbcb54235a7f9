//! Code in the catalog: coprocessors by name and version, and triggers of collections, made ready
//! to run.

use crate::catalog::{Catalog, Entry, StoredCoprocessor, StoredModule};
use crate::{Error, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use quire_coprocessor::{Code, Limits, Trigger, TriggerOptions};
use quire_model::Document;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A version of a coprocessor, to run.
pub(crate) fn code_of(
    stored: &BTreeMap<String, StoredCoprocessor>,
    name: &str,
    version: u32,
) -> Result<Code> {
    let module = stored.get(name).and_then(|one| one.versions.get(&version));
    let module = module.ok_or_else(|| Error::NoCoprocessor {
        name: format!("{name}/{version}"),
        existing: existing(stored),
    })?;
    Ok(Code::wasm(&format!("{name}/{version}"), &decode(module)?)?)
}

/// Name and version that `name` or `name/version` means.
pub(crate) fn find<'s>(
    stored: &'s BTreeMap<String, StoredCoprocessor>,
    wanted: &str,
) -> Result<(&'s str, u32)> {
    let (name, version) = match wanted.split_once('/') {
        Some((name, version)) => (name, Some(version.parse::<u32>().ok())),
        None => (wanted, None),
    };
    let found = stored.get_key_value(name).and_then(|(name, one)| {
        let version = match version {
            None => one.versions.last_key_value().map(|(version, _)| *version),
            Some(version) => version.filter(|version| one.versions.contains_key(version)),
        };
        Some((name.as_str(), version?))
    });
    found.ok_or_else(|| Error::NoCoprocessor {
        name: wanted.to_string(),
        existing: existing(stored),
    })
}

fn existing(stored: &BTreeMap<String, StoredCoprocessor>) -> String {
    let all = stored.iter().flat_map(|(name, one)| {
        let versions = one.versions.keys();
        versions.map(move |version| format!("{name}/{version}"))
    });
    let all: Vec<_> = all.take(20).collect();
    match all.is_empty() {
        true => "it has none".to_string(),
        false => format!("it has: {}", all.join(", ")),
    }
}

pub(crate) fn decode(module: &StoredModule) -> Result<Vec<u8>> {
    let decoded = STANDARD.decode(module.wasm.0.as_bytes());
    decoded.map_err(|error| Error::Invalid(format!("a module in the catalog: {error}")))
}

/// The triggers of a collection, ready to run.
///
/// # Errors
/// `Invalid` if one can't run here.
pub(crate) fn triggers_of(catalog: &Catalog, entry: &Entry) -> Result<Vec<Arc<Trigger>>> {
    let stored = entry.triggers.iter();
    let triggers = stored.map(|(name, stored)| {
        let code = code_of(&catalog.coprocessors, name, stored.version)?;
        let argument = stored.argument.as_ref();
        let argument = argument.map(|json| Document::from_json(json.to_string().as_bytes()));
        let options = TriggerOptions {
            columns: stored.columns.clone(),
            argument: argument.transpose()?,
            limits: Limits {
                fuel: stored.fuel,
                memory_bytes: stored.memory_bytes,
                output_bytes: stored.output_bytes,
            },
        };
        Ok(Arc::new(Trigger::new(&code, options)?))
    });
    triggers.collect()
}
