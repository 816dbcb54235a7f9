//! The settings of a collection: given when it is created, stored in the catalog, some of them
//! changed later.

use crate::api_settings::ApiSettings;
use crate::codec::Codec;
use crate::{Error, Mapping, Result, one_key};
use quire_collection::{IndexedFields, RetentionRule, Write};
use quire_model::{Document, Key};
use quire_store::{Durability, LogSettings};
use quire_wide::Schema;
use serde::{Deserialize, Deserializer, Serialize};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

/// The sizes that blocks of the log may have, before compression.
const BLOCK_BYTES: RangeInclusive<u32> = 1 << 10..=16 << 20;

const BLOCK_BYTES_DEFAULT: u32 = 16 << 10;

/// The sizes that a dictionary may have.
const DICTIONARY_BYTES: RangeInclusive<u32> = 1 << 10..=1 << 20;

/// The least that a partition's documents may be bounded to.
const RETENTION_BYTES_MIN: u64 = 64 << 10;

/// The longest path of a field that is named.
const INDEX_PATH_BYTES_MAX: usize = 1024;

/// The most partitions that a collection can have.
const PARTITIONS_MAX: u32 = 1024;

/// A partition that takes less is not split.
const SPLIT_BYTES_MIN: u64 = 1 << 20;

/// Settings of a collection, stored with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CollectionSettings {
    /// Number of partitions, 1 to 1,024: each is written by one thread at a time and synced on its
    /// own. A split makes more of them. Default: the machine's cores.
    pub partitions: u32,
    /// A server splits each partition in two once one of them takes more than this many bytes of
    /// disk for its documents, at least 1 MiB; 0 for never, the default. May change.
    #[serde(skip_serializing_if = "is_default")]
    pub split_bytes: u64,
    /// A server splits each partition in two once one of them takes more than this many writes a
    /// second over half a minute, while there are no more than the machine has cores; 0 for never,
    /// the default. May change.
    #[serde(skip_serializing_if = "is_default")]
    pub split_rate: u64,
    /// The field that holds a document's key where none is given beside it. Default `_id`.
    pub key_field: String,
    /// Of writes that do not say. Default `sync`.
    #[serde(with = "text")]
    pub durability: Durability,
    /// How documents are compressed on disk. May change; what is on disk stays as it is until
    /// compaction rewrites it. Default `lz4`.
    #[serde(with = "text", skip_serializing_if = "is_default")]
    pub codec: Codec,
    /// Bytes of documents that are compressed and read together, 1 KiB to 16 MiB. Larger blocks
    /// take less disk, and make reading a single document dearer. May change, as the codec. Default
    /// 16 KiB.
    #[serde(skip_serializing_if = "is_default_block")]
    pub block_bytes: u32,
    /// With `zstd`: the most bytes of a dictionary trained on the documents, 1 KiB to 1 MiB; 0 for
    /// none. Makes small documents that are alike much smaller. May change, as the codec. Default
    /// 0.
    #[serde(skip_serializing_if = "is_default")]
    pub dictionary_bytes: u32,
    /// Seconds after which the log's newest segment is sealed even if it is small; 0 for never, the
    /// default: a collection that is seldom written to would get many small files. Worth setting
    /// where segments are copied or compacted by the day.
    #[serde(skip_serializing_if = "is_default")]
    pub segment_age_secs: u64,
    /// Documents that were not written for longer than this many seconds are deleted, in the
    /// background, while the collection is open; 0 for never, the default. May change.
    #[serde(skip_serializing_if = "is_default")]
    pub retention_secs: u64,
    /// While the documents take more bytes than this, before compression, those that were not
    /// written for longest are deleted, in the background: each partition has an equal share. At
    /// least 64 KiB a partition; 0 for no bound, the default. May change.
    #[serde(skip_serializing_if = "is_default")]
    pub retention_bytes: u64,
    /// For how many seconds a wide collection keeps its changes at least, for those who
    /// [tail](crate::WideCollection::tail) them; 0 for no tail at all, the default. They take room
    /// on the first volume. A plain collection keeps its log anyway. May change.
    #[serde(skip_serializing_if = "is_default")]
    pub log_retention_secs: u64,
    /// Which fields have a search index, which answers queries about them without reading every
    /// document. Default: all. May change: the index is built in the background.
    #[serde(with = "crate::indexed_fields")]
    pub index: IndexedFields,
    /// The columns of a wide collection; none of a plain one, the default. Set by what creates and
    /// alters wide collections.
    #[serde(skip_serializing_if = "is_default")]
    pub wide: Option<Schema>,
    /// Explicit types of fields, which documents must agree with. Fields may be added. Default:
    /// none, so that every document is accepted.
    #[serde(skip_serializing_if = "is_default")]
    pub mapping: Mapping,
    /// What servers keep for their clients. May change. Default: nothing.
    #[serde(skip_serializing_if = "is_default")]
    pub api: ApiSettings,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn is_default_block(bytes: &u32) -> bool {
    *bytes == BLOCK_BYTES_DEFAULT
}

impl Default for CollectionSettings {
    fn default() -> CollectionSettings {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        CollectionSettings {
            partitions: u32::try_from(cores)
                .unwrap_or(PARTITIONS_MAX)
                .min(PARTITIONS_MAX),
            split_bytes: 0,
            split_rate: 0,
            key_field: "_id".to_string(),
            durability: Durability::Sync,
            codec: Codec::default(),
            block_bytes: BLOCK_BYTES_DEFAULT,
            dictionary_bytes: 0,
            segment_age_secs: 0,
            retention_secs: 0,
            retention_bytes: 0,
            log_retention_secs: 0,
            index: IndexedFields::all(),
            wide: None,
            mapping: Mapping::default(),
            api: ApiSettings::default(),
        }
    }
}

/// Settings that a catalog has stored. The catalog of an older version says nothing about the index
/// of a collection that has none.
pub(crate) fn deserialize_stored<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<CollectionSettings, D::Error> {
    let mut stored = serde_json::Map::deserialize(deserializer)?;
    stored.entry("index").or_insert_with(|| "none".into());
    serde_json::from_value(stored.into()).map_err(serde::de::Error::custom)
}

impl CollectionSettings {
    /// From a JSON object such as `{"partitions":4,"key_field":"sku","durability":"async(100)"}`;
    /// what is absent takes its default.
    ///
    /// # Errors
    /// `Invalid` for malformed JSON, an unknown setting (named) or a value out of range.
    pub fn from_json(json: &[u8]) -> Result<CollectionSettings> {
        // Derived decoders take an array for a struct too.
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

    /// The key that a document carries in the key field.
    ///
    /// # Errors
    /// `Invalid` if it has none, or one that can't be a key.
    pub fn key_of(&self, document: &Document) -> Result<Key> {
        let field = &self.key_field;
        match document.get(field) {
            Some(value) => Ok(Key::from_value(value)?),
            None => Err(Error::Invalid(format!(
                "the document has no field {field:?} to take its key from"
            ))),
        }
    }

    /// Refuses a write whose document, or patch, names another key than the write's, as every write
    /// does.
    ///
    /// # Errors
    /// `Invalid` if the key field, or `_id`, is there and is another key.
    pub fn check_key(&self, write: &Write) -> Result<()> {
        one_key::check(&self.key_field, write)
    }

    /// Refuses a write that breaks a rule of the collection: its document, or patch, names another
    /// key than the write's, or contradicts the mapping.
    ///
    /// # Errors
    /// `Invalid`.
    pub(crate) fn check_write(&self, write: &Write) -> Result<()> {
        self.check_key(write)?;
        let checked = self.mapping.check(write);
        checked.map_err(|violation| Error::Mapping(Arc::new(violation)))
    }

    /// As a JSON object.
    pub fn to_json(&self) -> String {
        serde_json::json!(self).to_string()
    }

    /// Checks that each setting is in its range.
    ///
    /// # Errors
    /// `Invalid`: the setting is named.
    pub fn check(&self) -> Result<()> {
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
        self.codec.check().map_err(Error::Invalid)?;
        if !BLOCK_BYTES.contains(&self.block_bytes) {
            let (least, most) = (BLOCK_BYTES.start(), BLOCK_BYTES.end());
            let what = format!(
                "block_bytes is {}; it must be {least} to {most}",
                self.block_bytes
            );
            return Err(Error::Invalid(what));
        }
        if self.dictionary_bytes != 0 && !DICTIONARY_BYTES.contains(&self.dictionary_bytes) {
            let (least, most) = (DICTIONARY_BYTES.start(), DICTIONARY_BYTES.end());
            let what = format!(
                "dictionary_bytes is {}; it must be 0, or {least} to {most}",
                self.dictionary_bytes
            );
            return Err(Error::Invalid(what));
        }
        if self.dictionary_bytes != 0 && !matches!(self.codec, Codec::Zstd(_)) {
            let what = format!("dictionary_bytes is for zstd; the codec is {}", self.codec);
            return Err(Error::Invalid(what));
        }
        let least = RETENTION_BYTES_MIN * u64::from(self.partitions);
        if self.retention_bytes != 0 && self.retention_bytes < least {
            let what = format!(
                "retention_bytes is {}; it must be 0, or at least {least}: \
                 {RETENTION_BYTES_MIN} a partition",
                self.retention_bytes
            );
            return Err(Error::Invalid(what));
        }
        if self.split_bytes != 0 && self.split_bytes < SPLIT_BYTES_MIN {
            let what = format!(
                "split_bytes is {}; it must be 0, or at least {SPLIT_BYTES_MIN}",
                self.split_bytes
            );
            return Err(Error::Invalid(what));
        }
        self.api.check().map_err(Error::Invalid)?;
        self.check_wide()?;
        let mut exceptions = self.index.exceptions();
        let is_bad = |(path, _): &(&str, bool)| {
            path.is_empty() || path.len() > INDEX_PATH_BYTES_MAX || *path == "default"
        };
        if let Some((path, _)) = exceptions.find(is_bad) {
            let shown: String = path.chars().take(64).collect();
            let what = format!("index: {shown:?} cannot be named as a field");
            return Err(Error::Invalid(what));
        }
        Ok(())
    }

    /// Refuses what a wide collection does not have.
    fn check_wide(&self) -> Result<()> {
        let Some(schema) = &self.wide else {
            return match self.log_retention_secs {
                0 => Ok(()),
                _ => Err(Error::Invalid(
                    "log_retention_secs is of wide collections: a plain one keeps its log".into(),
                )),
            };
        };
        let wrong = match () {
            () if !self.mapping.is_empty() => "has columns: it can't have a mapping",
            () if (self.retention_secs, self.retention_bytes) != (0, 0) => "has no retention",
            () if schema.column(&self.key_field).is_some() => {
                "has its key beside the columns: no column has the name of key_field"
            }
            () => return Ok(schema.check_index(&self.index)?),
        };
        Err(Error::Invalid(format!("a wide collection {wrong}")))
    }

    /// What each partition is to delete.
    pub(crate) fn retention(&self) -> RetentionRule {
        let (age, bytes) = (self.retention_secs, self.retention_bytes);
        RetentionRule {
            age: (age > 0).then(|| Duration::from_secs(age)),
            bytes: (bytes > 0).then(|| bytes / u64::from(self.partitions.max(1))),
            expired: false,
        }
    }

    /// For how long a partition of a wide collection keeps its log for those who tail it.
    pub(crate) fn log_retention(&self) -> Option<Duration> {
        let secs = self.log_retention_secs;
        (secs > 0).then(|| Duration::from_secs(secs))
    }

    /// Those of a partition's log. It is dropped by segments, so these are to be younger than its
    /// retention.
    pub(crate) fn log(&self) -> LogSettings {
        let quarter = self.log_retention_secs.div_ceil(4);
        let ages = [self.segment_age_secs, quarter].into_iter();
        let age = ages.filter(|age| *age > 0).min();
        LogSettings {
            block_bytes: self.block_bytes as usize,
            codec: self.codec.of_log(self.dictionary_bytes),
            segment_age: age.map(Duration::from_secs),
        }
    }

    /// Refuses to become `next` where that differs in what is fixed.
    pub(crate) fn check_change(&self, next: &CollectionSettings) -> Result<()> {
        next.check()?;
        let fixed = match () {
            () if self.partitions != next.partitions => "partitions",
            () if self.key_field != next.key_field => "key_field",
            () if self.wide != next.wide => "the schema, but by `alter` of a wide collection,",
            () => {
                // Fields are added, and keep their types.
                let merged = self.mapping.merged(&next.mapping);
                let merged = merged.map_err(|error| Error::Invalid(error.to_string()))?;
                return match merged == next.mapping {
                    true => Ok(()),
                    false => Err(Error::Invalid(
                        "fields of a mapping can't be removed".into(),
                    )),
                };
            }
        };
        let what = match fixed {
            "partitions" => {
                "partitions is fixed here: `quire split` makes more of them".to_string()
            }
            fixed => format!("{fixed} is fixed when a collection is made"),
        };
        Err(Error::Invalid(what))
    }
}

/// Checks the name of a collection: 1 to 128 of `a-z 0-9 _ - .`, the first a letter or a digit.
///
/// # Errors
/// `Invalid`.
pub fn check_name(name: &str) -> Result<()> {
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
        "collection name {name:?}: use 1 to 128 of a-z, 0-9, '_', '-' and '.', beginning with \
         a letter or a digit"
    )))
}

mod text {
    use serde::{Deserialize, Deserializer, Serializer};
    use std::fmt::Display;
    use std::str::FromStr;

    pub(super) fn serialize<T: Display, S: Serializer>(
        value: &T,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(super) fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<T, D::Error> {
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
        let packed = CollectionSettings {
            codec: "zstd(7)".parse().unwrap(),
            block_bytes: 1 << 16,
            dictionary_bytes: 1 << 15,
            segment_age_secs: 86_400,
            retention_secs: 30 * 86_400,
            retention_bytes: 100 << 30,
            ..settings.clone()
        };
        let indexed = CollectionSettings {
            index: IndexedFields::all().with("abstract", false),
            ..settings.clone()
        };
        let json = indexed.to_json();
        assert!(
            json.contains(r#""index":{"abstract":"none","default":"all"}"#),
            "{json}"
        );
        assert!(settings.to_json().contains(r#""index":"all""#));
        let none = CollectionSettings {
            index: IndexedFields::none(),
            ..settings.clone()
        };
        assert!(none.to_json().contains(r#""index":"none""#));
        let served = CollectionSettings {
            api: ApiSettings {
                closed: true,
                settings: [("index.hidden".into(), "true".into())].into(),
            },
            ..settings.clone()
        };
        assert!(!settings.to_json().contains("api"));
        for settings in [settings, packed, indexed, none, served] {
            assert_eq!(
                CollectionSettings::from_json(settings.to_json().as_bytes()).unwrap(),
                settings
            );
        }
    }

    #[test]
    fn what_is_unknown_or_out_of_range_is_refused_by_name() {
        for (json, name) in [
            (r#"{"partitons":3}"#, "partitons"),
            (r#"{"partitions":0}"#, "partitions"),
            (r#"{"partitions":1025}"#, "partitions"),
            (r#"{"split_bytes":1048575}"#, "split_bytes"),
            (r#"{"key_field":""}"#, "key_field"),
            (r#"{"durability":"fast"}"#, "fast"),
            (r#"{"codec":"lzma"}"#, "lzma"),
            (r#"{"codec":"zstd(20)"}"#, "zstd"),
            (r#"{"block_bytes":1000}"#, "block_bytes"),
            (r#"{"dictionary_bytes":65536}"#, "dictionary_bytes"),
            (
                r#"{"codec":"zstd","dictionary_bytes":5}"#,
                "dictionary_bytes",
            ),
            (
                r#"{"partitions":2,"retention_bytes":131071}"#,
                "retention_bytes",
            ),
            (r#"{"retention_secs":-1}"#, "-1"),
            (r#"{"index":"some"}"#, "index"),
            (r#"{"index":{"a":1}}"#, "index"),
            (r#"{"index":{"":"all"}}"#, "index"),
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
