//! [`ClusterSettings`]: settings that hold until the server stops.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

/// The setting without which collections are dropped by name alone.
pub(super) const BY_NAME: &str = "action.destructive_requires_name";

/// Settings that hold until the server stops.
#[derive(Debug, Default)]
pub(crate) struct ClusterSettings {
    /// Collections may be dropped by patterns.
    drops_by_pattern: AtomicBool,
    /// The setting that says so was given.
    is_given: AtomicBool,
}

impl ClusterSettings {
    /// Whether collections may be dropped by patterns. Not unless it is set.
    pub(crate) fn drops_by_pattern(&self) -> bool {
        self.drops_by_pattern.load(Ordering::Relaxed)
    }

    pub(super) fn set(&self, requires_name: Option<bool>) {
        let drops = requires_name == Some(false);
        self.drops_by_pattern.store(drops, Ordering::Relaxed);
        let is_given = requires_name.is_some();
        self.is_given.store(is_given, Ordering::Relaxed);
    }

    pub(super) fn show(&self, is_flat: bool) -> Value {
        if !self.is_given.load(Ordering::Relaxed) {
            return json!({});
        }
        let value = (!self.drops_by_pattern()).to_string();
        match is_flat {
            true => json!({ BY_NAME: value }),
            false => json!({"action": {"destructive_requires_name": value}}),
        }
    }
}
