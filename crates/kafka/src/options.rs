//! What the file of a pipe says of a topic: as its source, and as a sink.

use crate::brokers::Brokers;
use quire_ship::{Error, OnLostPosition, Result, SinkConfig, SourceConfig};
use rskafka::client::partition::Compression;
use std::time::Duration;

const TIMEOUT_S: u64 = 60;

/// How records may be compressed, by name; the first is the default.
const COMPRESSIONS: [(&str, Compression); 5] = [
    ("zstd", Compression::Zstd),
    ("lz4", Compression::Lz4),
    ("snappy", Compression::Snappy),
    ("gzip", Compression::Gzip),
    ("none", Compression::NoCompression),
];

/// A topic to read.
#[derive(Debug, Clone)]
pub struct KafkaOptions {
    pub(crate) brokers: Brokers,
    /// The field of a document with its key; none if that is the key of the record.
    pub(crate) key_field: Option<String>,
    pub(crate) on_lost_position: OnLostPosition,
}

impl KafkaOptions {
    /// Reads the options.
    ///
    /// # Errors
    /// If something is missing or wrong: a sentence that says what.
    pub fn new(config: &SourceConfig) -> Result<KafkaOptions> {
        let wrong = |why: String| Error::Config(format!("[source]: {why}"));
        let timeout = Duration::from_secs(config.timeout_s.unwrap_or(TIMEOUT_S));
        let access = [
            config.user.is_some(),
            config.password_file.is_some(),
            config.token_file.is_some(),
            config.ca.is_some(),
        ];
        Ok(KafkaOptions {
            brokers: brokers(&config.url, &config.topic, timeout, access).map_err(wrong)?,
            key_field: config.key_field.clone(),
            on_lost_position: config.on_lost_position()?,
        })
    }
}

/// A topic to write.
#[derive(Debug, Clone)]
pub struct KafkaSinkOptions {
    pub(crate) brokers: Brokers,
    pub(crate) compression: Compression,
    pub(crate) concurrency_max: usize,
}

impl KafkaSinkOptions {
    /// Reads the options.
    ///
    /// # Errors
    /// If something is missing or wrong: a sentence that says what.
    pub fn new(config: &SinkConfig) -> Result<KafkaSinkOptions> {
        let wrong = |why: String| Error::Config(format!("sink {:?}: {why}", config.name));
        let access = [
            config.user.is_some(),
            config.password_file.is_some(),
            config.token_file.is_some(),
            config.ca.is_some(),
        ];
        let compression = match config.compression.as_deref() {
            None => Some(&COMPRESSIONS[0]),
            Some(wanted) => COMPRESSIONS.iter().find(|(name, _)| *name == wanted),
        };
        let Some((_, compression)) = compression else {
            let names = COMPRESSIONS.map(|(name, _)| name).join(", ");
            return Err(wrong(format!("compression must be one of {names}")));
        };
        let brokers = brokers(&config.url, &config.topic, config.timeout(), access);
        Ok(KafkaSinkOptions {
            brokers: brokers.map_err(wrong)?,
            compression: *compression,
            concurrency_max: config.concurrency_max(),
        })
    }
}

/// The brokers of a topic. `access` says which keys of access are set.
fn brokers(
    url: &Option<String>,
    topic: &Option<String>,
    timeout: Duration,
    access: [bool; 4],
) -> Result<Brokers, String> {
    if access.contains(&true) {
        return Err(
            "kafka has no user, password_file, token_file and ca yet: brokers are called without \
             TLS and without authentication"
                .to_owned(),
        );
    }
    let (url, topic) = (url.as_deref(), topic.as_deref());
    Brokers::parse(url.unwrap_or_default(), topic.unwrap_or_default(), timeout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_yet_and_what_is_not_known_is_refused() {
        let source = SourceConfig {
            url: Some("kafka://a:1".to_owned()),
            user: Some("u".to_owned()),
            ..SourceConfig::default()
        };
        let error = KafkaOptions::new(&source).unwrap_err().to_string();
        assert!(error.contains("[source]: kafka has no user"), "{error}");
        let sink = SinkConfig {
            name: "s".to_owned(),
            url: Some("kafka://a:1".to_owned()),
            ..SinkConfig::default()
        };
        let options = KafkaSinkOptions::new(&sink).unwrap();
        assert_eq!(options.compression, Compression::Zstd);
        let sink = SinkConfig {
            compression: Some("brotli".to_owned()),
            ..sink
        };
        let error = KafkaSinkOptions::new(&sink).unwrap_err().to_string();
        assert!(error.contains("zstd, lz4, snappy, gzip, none"), "{error}");
    }
}
