//! Settings of a collection as a server takes them.

use quiredb::CollectionSettings;
use serde_json::{Map, Value};

/// Those of a new collection. The number of partitions is the server's choice, if none is given.
pub(crate) fn of_new(settings: &CollectionSettings, partitions: Option<u32>) -> Map<String, Value> {
    let mut map = as_map(settings);
    if partitions.is_none() {
        map.remove("partitions");
    }
    map
}

/// Those that are not as they were; null is the default.
pub(crate) fn changed(
    before: &CollectionSettings,
    after: &CollectionSettings,
) -> Map<String, Value> {
    let (before, after) = (as_map(before), as_map(after));
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    let gone = gone.map(|name| (name.clone(), Value::Null));
    let other = |(name, value): &(&String, &Value)| before.get(*name) != Some(*value);
    let other = after.iter().filter(other);
    let other = other.map(|(name, value)| (name.clone(), value.clone()));
    other.chain(gone).collect()
}

/// Those that are not the default, and the most important ones.
fn as_map(settings: &CollectionSettings) -> Map<String, Value> {
    // The settings' own text is an object.
    serde_json::from_str(&settings.to_json()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_changed_back_to_the_default_is_sent_as_null() {
        let before = CollectionSettings {
            retention_secs: 60,
            dictionary_bytes: 4096,
            ..CollectionSettings::default()
        };
        let after = CollectionSettings {
            dictionary_bytes: 8192,
            ..CollectionSettings::default()
        };
        let expected = json!({"dictionary_bytes": 8192, "retention_secs": null});
        assert_eq!(Value::Object(changed(&before, &after)), expected);
        assert_eq!(changed(&after, &after), Map::new());
    }

    #[test]
    fn the_server_chooses_the_partitions_unless_they_are_given() {
        let settings = CollectionSettings::default();
        assert!(!of_new(&settings, None).contains_key("partitions"));
        assert!(of_new(&settings, Some(2)).contains_key("partitions"));
    }
}
