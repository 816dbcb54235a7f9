//! What servers keep of a collection for their clients. The database stores it and gives it no
//! meaning: servers do.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The most bytes that the settings take as JSON.
const BYTES_MAX: usize = 64 << 10;

/// What servers keep of a collection for their clients.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ApiSettings {
    /// Whether servers refuse to read and write the documents. The engine does both all the same.
    #[serde(skip_serializing_if = "is_default")]
    pub closed: bool,
    /// Settings of the served API by their dotted names, as clients gave them; at most 64 KiB.
    #[serde(skip_serializing_if = "is_default")]
    pub settings: BTreeMap<String, serde_json::Value>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl ApiSettings {
    /// Checks that the settings are in their bound.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub(crate) fn check(&self) -> Result<(), String> {
        let bytes = serde_json::json!(self.settings).to_string().len();
        match bytes > BYTES_MAX {
            true => Err(format!("api takes {bytes} bytes; it may take {BYTES_MAX}")),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CollectionSettings;

    #[test]
    fn settings_have_a_bound() {
        let mut settings = CollectionSettings::default();
        let value = "x".repeat(BYTES_MAX - 20);
        settings.api.settings.insert("index.a".into(), value.into());
        settings.check().unwrap();
        let value = "x".repeat(BYTES_MAX);
        settings.api.settings.insert("index.b".into(), value.into());
        let error = settings.check().unwrap_err();
        assert!(error.to_string().contains("api takes"), "{error}");
    }
}
