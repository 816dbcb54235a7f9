//! Settings: of a database each time it is opened, of a collection once, when it is made.

use crate::{Error, Result};
use quire_store::Durability;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The least memory that a database can work in.
const MEMORY_BYTES_MIN: u64 = 16 << 20;

/// The most partitions that a collection can have.
const PARTITIONS_MAX: u32 = 1024;

/// Settings of an open database; nothing of them is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Make the database if the directory is absent or empty. Default true.
    pub create_if_missing: bool,
    /// What memtables, caches and buffers may hold, in bytes. More holds more of the data in memory; what the process
    /// takes beyond it is code, stacks and the requests under way. Default 256 MiB, at least 16 MiB.
    pub memory_bytes: u64,
    /// Record bytes of a partition after which its memtables are flushed even if they are small, so that opening
    /// after a crash replays a bounded part of the log. Default 256 MiB.
    pub replay_bytes_max: u64,
    /// Size of a log segment in bytes. Default 256 MiB.
    pub segment_bytes: u64,
    /// Every byte of every file is read and checked in the background once in this time, evenly spread, so that bytes that
    /// rot are found early; off if `None`. A shorter time takes more of the disk. Default 7 days.
    pub scrub_period: Option<Duration>,
    /// How much of the log's sealed segments is to be live documents, in percent: as long as less is, segments are compacted
    /// in the background. At 70 they take up to 1.43 times what is live in them. More saves disk; less copies less.
    /// Default 70, at most 99; 0 leaves the log as it is, but for [`Collection::compact`](crate::Collection::compact).
    pub log_live_percent: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            create_if_missing: true,
            memory_bytes: 256 << 20,
            replay_bytes_max: 256 << 20,
            segment_bytes: 256 << 20,
            scrub_period: Some(Duration::from_secs(7 * 24 * 3600)),
            log_live_percent: 70,
        }
    }
}

impl Options {
    pub(crate) fn check(&self) -> Result<()> {
        if self.memory_bytes < MEMORY_BYTES_MIN {
            let what = format!(
                "memory_bytes is {}; a database needs at least {MEMORY_BYTES_MIN}",
                self.memory_bytes
            );
            return Err(Error::Invalid(what));
        }
        if self
            .scrub_period
            .is_some_and(|period| period < Duration::from_secs(1))
        {
            let what = "scrub_period must be at least a second".to_string();
            return Err(Error::Invalid(what));
        }
        if self.log_live_percent > 99 {
            let what = format!(
                "log_live_percent is {}; it must be 0 to 99",
                self.log_live_percent
            );
            return Err(Error::Invalid(what));
        }
        Ok(())
    }
}

/// Settings of a collection, stored with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CollectionSettings {
    /// Number of partitions, 1 to 1,024: each is written by one thread at a time and synced on its own. Fixed when the
    /// collection is made. Default: the machine's cores.
    pub partitions: u32,
    /// The field that holds a document's key where none is given beside it. Default `_id`.
    pub key_field: String,
    /// Of writes that do not say. Default `sync`.
    #[serde(with = "durability_text")]
    pub durability: Durability,
}

impl Default for CollectionSettings {
    fn default() -> CollectionSettings {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        CollectionSettings {
            partitions: u32::try_from(cores)
                .unwrap_or(PARTITIONS_MAX)
                .min(PARTITIONS_MAX),
            key_field: "_id".to_string(),
            durability: Durability::Sync,
        }
    }
}

impl CollectionSettings {
    /// From a JSON object such as `{"partitions":4,"key_field":"sku","durability":"async(100)"}`; what is absent takes
    /// its default.
    ///
    /// # Errors
    /// `Invalid` for malformed JSON, an unknown setting (named) or a value out of range.
    pub fn from_json(json: &[u8]) -> Result<CollectionSettings> {
        // Derived decoders take an array for a struct too; nobody means that.
        if json.trim_ascii_start().first() != Some(&b'{') {
            return Err(Error::Invalid(
                "collection settings: expected a JSON object".into(),
            ));
        }
        let settings: CollectionSettings = serde_json::from_slice(json)
            .map_err(|error| Error::Invalid(format!("collection settings: {error}")))?;
        settings.check()?;
        Ok(settings)
    }

    /// As a JSON object.
    pub fn to_json(&self) -> String {
        serde_json::json!(self).to_string()
    }

    pub(crate) fn check(&self) -> Result<()> {
        if self.partitions == 0 || self.partitions > PARTITIONS_MAX {
            let what = format!(
                "partitions is {}; it must be 1 to {PARTITIONS_MAX}",
                self.partitions
            );
            return Err(Error::Invalid(what));
        }
        if self.key_field.is_empty() || self.key_field.len() > 1024 {
            return Err(Error::Invalid(
                "key_field must be 1 to 1,024 bytes long".into(),
            ));
        }
        Ok(())
    }
}

/// Checks the name of a collection: 1 to 128 of `a-z 0-9 _ - .`, the first a letter or a digit.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let allowed =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.".contains(&byte);
    let first = name
        .bytes()
        .next()
        .is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    if first && name.len() <= 128 && name.bytes().all(allowed) {
        return Ok(());
    }
    Err(Error::Invalid(format!(
        "collection name {name:?}: use 1 to 128 of a-z, 0-9, '_', '-' and '.', beginning with a letter or a digit"
    )))
}

mod durability_text {
    use quire_store::Durability;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        durability: &Durability,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(durability)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Durability, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_round_trip_and_defaults_fill_in() {
        let settings =
            CollectionSettings::from_json(br#"{"partitions":3,"durability":"async(250)"}"#)
                .unwrap();
        assert_eq!(
            (settings.partitions, settings.key_field.as_str()),
            (3, "_id")
        );
        assert_eq!(
            CollectionSettings::from_json(settings.to_json().as_bytes()).unwrap(),
            settings
        );
    }

    #[test]
    fn what_is_unknown_or_out_of_range_is_refused_by_name() {
        for (json, name) in [
            (r#"{"partitons":3}"#, "partitons"),
            (r#"{"partitions":0}"#, "partitions"),
            (r#"{"partitions":1025}"#, "partitions"),
            (r#"{"key_field":""}"#, "key_field"),
            (r#"{"durability":"fast"}"#, "fast"),
            ("[]", "settings"),
        ] {
            let error = CollectionSettings::from_json(json.as_bytes()).unwrap_err();
            assert!(error.to_string().contains(name), "{json}: {error}");
            assert_eq!(error.kind(), crate::ErrorKind::Invalid);
        }
    }

    #[test]
    fn names_are_checked() {
        for name in ["a", "0", "jobs-2026.11_x", &"x".repeat(128)] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in [
            "",
            "_all",
            "-a",
            ".",
            "..",
            "A",
            "a/b",
            "a b",
            "é",
            &"x".repeat(129),
        ] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
