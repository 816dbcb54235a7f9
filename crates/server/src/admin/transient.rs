//! [`ClusterSettings`]: settings that hold until the server stops.

use parking_lot::RwLock;
use serde_json::{Map, Value};

/// The setting without which collections are dropped by name alone.
pub(super) const BY_NAME: &str = "action.destructive_requires_name";

/// The setting of the most buckets of an answer.
pub(super) const BUCKETS: &str = "search.max_buckets";

/// Settings that hold until the server stops.
#[derive(Debug, Default)]
pub(crate) struct ClusterSettings(RwLock<Given>);

/// What was given; none is the default.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Given {
    /// Whether collections are dropped by name alone.
    pub(super) requires_name: Option<bool>,
    /// The most buckets of an answer.
    pub(super) buckets_max: Option<u64>,
}

impl ClusterSettings {
    /// Whether collections may be dropped by patterns. Not unless it is set.
    pub(crate) fn drops_by_pattern(&self) -> bool {
        self.0.read().requires_name == Some(false)
    }

    pub(super) fn given(&self) -> Given {
        *self.0.read()
    }

    pub(super) fn set(&self, given: Given) {
        *self.0.write() = given;
    }
}

impl Given {
    /// The settings that were given; where `defaults` is true, the others.
    pub(super) fn show(&self, defaults: bool, is_flat: bool) -> Value {
        let texts = [
            (BY_NAME, self.requires_name.map(|on| on.to_string()), "true"),
            (
                BUCKETS,
                self.buckets_max.map(|most| most.to_string()),
                "65535",
            ),
        ];
        let mut shown = Map::new();
        for (name, given, default) in texts {
            let text = match (given, defaults) {
                (Some(given), false) => given,
                (None, true) => default.to_owned(),
                _ => continue,
            };
            match name.split_once('.') {
                Some((group, name)) if !is_flat => {
                    let group = shown.entry(group).or_insert_with(|| Map::new().into());
                    if let Some(group) = group.as_object_mut() {
                        group.insert(name.to_owned(), text.into());
                    }
                }
                _ => drop(shown.insert(name.to_owned(), text.into())),
            }
        }
        Value::Object(shown)
    }
}
