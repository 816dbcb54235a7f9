//! Settings of an index and of a cluster by their whole names, and which ones a reindex changes.

use crate::bulk_sink::Server;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Values by whole name, such as `index.refresh_interval`. Null is the default.
pub(crate) type Flat = BTreeMap<String, Value>;

/// What Quire calls the shards.
pub(crate) const PARTITIONS: &str = "quire.partitions";
pub(crate) const REPLICAS: &str = "index.number_of_replicas";
pub(crate) const SHARDS: &str = "index.number_of_shards";
pub(crate) const BLOCKS_WRITE: &str = "index.blocks.write";
pub(crate) const AUTO_EXPAND: &str = "index.auto_expand_replicas";
const SEGMENTS_PER_TIER: &str = "index.merge.policy.segments_per_tier";
pub(crate) const RECOVERIES: &str = "cluster.routing.allocation.node_concurrent_recoveries";
pub(crate) const RECOVERY_BYTES: &str = "indices.recovery.max_bytes_per_sec";
const RECOVERY_CHUNKS: &str = "indices.recovery.max_concurrent_file_chunks";

/// Segments of about one size in a shard while it is filled; servers merge ten.
const SEGMENTS: &str = "30";

/// Parts of files that a copy is sent at once: the most that all versions allow.
const CHUNKS: u32 = 5;

/// What an index says of itself that no new index may be given.
const OWN: [&str; 5] = [
    PARTITIONS,
    "index.uuid",
    "index.creation_date",
    "index.creation_date_string",
    "index.provided_name",
];
const OWN_BELOW: [&str; 5] = [
    "index.version.",
    "index.blocks.",
    "index.resize.",
    "index.shrink.",
    "index.routing.allocation.initial_recovery.",
];

/// Settings that are nested, flat or both, by their whole names.
pub(crate) fn flatten(settings: &Value) -> Flat {
    let mut flat = Flat::new();
    add(String::new(), settings, &mut flat);
    flat
}

fn add(name: String, value: &Value, flat: &mut Flat) {
    match value.as_object() {
        None if name.is_empty() => {}
        None => drop(flat.insert(name, value.clone())),
        Some(members) => {
            for (member, value) in members {
                let dot = if name.is_empty() { "" } else { "." };
                add(format!("{name}{dot}{member}"), value, flat);
            }
        }
    }
}

/// Settings of an index, whether they were written with `index.` before them or without.
pub(crate) fn of_index(settings: &Value) -> Flat {
    let with_prefix = |(name, value): (String, Value)| {
        let is_whole = name.starts_with("index.") || name.starts_with("quire.");
        match is_whole {
            true => (name, value),
            false => (format!("index.{name}"), value),
        }
    };
    flatten(settings).into_iter().map(with_prefix).collect()
}

/// Whether a new index may have it from another one.
pub(crate) fn is_copied(name: &str) -> bool {
    !OWN.contains(&name) && !OWN_BELOW.iter().any(|below| name.starts_with(below))
}

/// Whether two values are one setting: servers give back numbers as text.
pub(crate) fn is_same(one: &Value, other: &Value) -> bool {
    text(one) == text(other)
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// What an index has while it is filled: no copies, no refresh, a log that is not synced for each
/// bulk, and more segments of a size before they are merged, as all are merged afterwards.
///
/// A node that dies then loses what is not durable, which shows in the terms of its primary shards:
/// see [`Record::Fill`](super::record::Record::Fill).
pub(crate) fn tuned(server: &Server, wanted: &Flat) -> Flat {
    if server.flavor == "quire" {
        return Flat::new();
    }
    let mut tuned = Flat::from([
        (REPLICAS.to_owned(), json!("0")),
        ("index.refresh_interval".to_owned(), json!("-1")),
        ("index.translog.durability".to_owned(), json!("async")),
        (
            "index.translog.flush_threshold_size".to_owned(),
            json!("2gb"),
        ),
        (SEGMENTS_PER_TIER.to_owned(), json!(SEGMENTS)),
    ]);
    // The cluster would set the replicas by itself.
    let expands = |value: &&Value| !is_same(value, &json!("false")) && !value.is_null();
    if wanted.get(AUTO_EXPAND).filter(expands).is_some() {
        tuned.insert(AUTO_EXPAND.to_owned(), json!("false"));
    }
    tuned
}

/// What a cluster has while replicas are made: each node receives more at once. `effective` has
/// what holds now, defaults too; what is as high already is left alone.
pub(crate) fn raised(server: &Server, effective: &Flat, recoveries: u32, bytes: &str) -> Flat {
    let mut raised = Flat::new();
    if server.flavor == "quire" {
        return raised;
    }
    let now = |name: &str| effective.get(name).map(text).unwrap_or_default();
    if now(RECOVERIES)
        .parse()
        .is_ok_and(|now: u32| now < recoveries)
        || now(RECOVERIES).is_empty()
    {
        raised.insert(RECOVERIES.to_owned(), json!(recoveries.to_string()));
    }
    // Older versions have no such setting, and refuse it.
    if now(RECOVERY_CHUNKS)
        .parse()
        .is_ok_and(|now: u32| now < CHUNKS)
    {
        raised.insert(RECOVERY_CHUNKS.to_owned(), json!(CHUNKS.to_string()));
    }
    let is_lower = match (bytes_of(&now(RECOVERY_BYTES)), bytes_of(bytes)) {
        // No bound.
        (Some(0), _) => false,
        (Some(now), Some(wanted)) => now < wanted,
        _ => !now(RECOVERY_BYTES).starts_with('-'),
    };
    if is_lower {
        raised.insert(RECOVERY_BYTES.to_owned(), json!(bytes));
    }
    raised
}

/// The bytes of a size such as `40mb`; none if it is no size.
fn bytes_of(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let digits = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let unit: f64 = match unit {
        "" | "b" => 1.0,
        "k" | "kb" => 1024.0,
        "m" | "mb" => 1024.0 * 1024.0,
        "g" | "gb" => 1024.0 * 1024.0 * 1024.0,
        "t" | "tb" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    let number: f64 = number.parse().ok()?;
    Some((number * unit) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(flavor: &'static str) -> Server {
        Server {
            flavor,
            major: 7,
            version: "7.17.29".to_owned(),
        }
    }

    #[test]
    fn settings_have_one_name_however_they_are_written() {
        let nested = json!({"index": {"refresh_interval": "5s", "analysis": {"a": {"b": [1]}}}});
        let flat = json!({"refresh_interval": "5s", "index.analysis.a.b": [1]});
        assert_eq!(of_index(&nested), of_index(&flat));
        assert!(is_copied("index.analysis.a.b") && !is_copied("index.version.created"));
        assert!(is_same(&json!(1), &json!("1")) && !is_same(&Value::Null, &json!("")));
    }

    #[test]
    fn what_is_as_high_already_is_not_raised() {
        let raised = |recoveries: &str, bytes: &str| {
            let now = Flat::from([
                (RECOVERIES.to_owned(), json!(recoveries)),
                (RECOVERY_BYTES.to_owned(), json!(bytes)),
                (RECOVERY_CHUNKS.to_owned(), json!("5")),
            ]);
            let raised = raised(&server("opensearch"), &now, 8, "500mb");
            raised.into_keys().collect::<Vec<_>>()
        };
        assert_eq!(raised("2", "40mb"), [RECOVERIES, RECOVERY_BYTES]);
        assert_eq!(raised("8", "40mb"), [RECOVERY_BYTES]);
        assert!(raised("50", "2gb").is_empty() && raised("50", "-1").is_empty());
        assert!(raised("50", "0b").is_empty());
    }

    #[test]
    fn a_setting_that_a_version_does_not_have_is_not_raised() {
        let raised = |now: &[(&str, &str)]| {
            let now = now
                .iter()
                .map(|(name, value)| ((*name).to_owned(), json!(value)));
            raised(&server("elasticsearch"), &now.collect(), 8, "500mb")
        };
        assert!(!raised(&[]).contains_key(RECOVERY_CHUNKS));
        assert_eq!(raised(&[(RECOVERY_CHUNKS, "2")])[RECOVERY_CHUNKS], "5");
    }

    #[test]
    fn replicas_that_the_cluster_sets_by_itself_are_held_at_none_too() {
        let wanted = Flat::from([(AUTO_EXPAND.to_owned(), json!("0-1"))]);
        assert_eq!(
            tuned(&server("elasticsearch"), &wanted)[AUTO_EXPAND],
            "false"
        );
        assert!(tuned(&server("quire"), &wanted).is_empty());
    }
}
