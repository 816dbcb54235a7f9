//! What the file of a pipe says of a topic: as its source, and as a sink.

use crate::brokers::Brokers;
use quire_env::Env;
use quire_ship::{Error, OnLostPosition, Result, SinkConfig, SourceConfig};
use rskafka::client::partition::Compression;
use rskafka::client::{Credentials, SaslConfig};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const TIMEOUT_S: u64 = 60;

/// The longest file of a password or of certificates.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// How a user is authenticated; the first is the default.
const MECHANISMS: [&str; 3] = ["scram-sha-512", "scram-sha-256", "plain"];

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
    pub fn new(env: &dyn Env, config: &SourceConfig) -> Result<KafkaOptions> {
        let wrong = |why: String| Error::Config(format!("[source]: {why}"));
        let timeout = Duration::from_secs(config.timeout_s.unwrap_or(TIMEOUT_S));
        let given = Given {
            url: &config.url,
            topic: &config.topic,
            sasl: &config.sasl,
            user: &config.user,
            password_file: &config.password_file,
            ca: &config.ca,
            has_token: config.token_file.is_some(),
        };
        Ok(KafkaOptions {
            brokers: given.brokers(env, timeout).map_err(wrong)?,
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
    pub fn new(env: &dyn Env, config: &SinkConfig) -> Result<KafkaSinkOptions> {
        let wrong = |why: String| Error::Config(format!("sink {:?}: {why}", config.name));
        let given = Given {
            url: &config.url,
            topic: &config.topic,
            sasl: &config.sasl,
            user: &config.user,
            password_file: &config.password_file,
            ca: &config.ca,
            has_token: config.token_file.is_some(),
        };
        let compression = match config.compression.as_deref() {
            None => Some(&COMPRESSIONS[0]),
            Some(wanted) => COMPRESSIONS.iter().find(|(name, _)| *name == wanted),
        };
        let Some((_, compression)) = compression else {
            let names = COMPRESSIONS.map(|(name, _)| name).join(", ");
            return Err(wrong(format!("compression must be one of {names}")));
        };
        let brokers = given.brokers(env, config.timeout());
        Ok(KafkaSinkOptions {
            brokers: brokers.map_err(wrong)?,
            compression: *compression,
            concurrency_max: config.concurrency_max(),
        })
    }
}

/// What a file says of brokers.
struct Given<'c> {
    url: &'c Option<String>,
    topic: &'c Option<String>,
    sasl: &'c Option<String>,
    user: &'c Option<String>,
    password_file: &'c Option<PathBuf>,
    ca: &'c Option<PathBuf>,
    has_token: bool,
}

impl Given<'_> {
    fn brokers(&self, env: &dyn Env, timeout: Duration) -> Result<Brokers, String> {
        if self.has_token {
            return Err("kafka has no token_file; give user and password_file".to_owned());
        }
        let (url, topic) = (self.url.as_deref(), self.topic.as_deref());
        let brokers = Brokers::parse(url.unwrap_or_default(), topic.unwrap_or_default(), timeout)?;
        let trust = |ca: &PathBuf| trusting(env, ca);
        let tls = self.ca.as_ref().map(trust).transpose()?;
        Ok(brokers.with_tls(tls).with_sasl(self.sasl(env)?))
    }

    /// Who calls.
    fn sasl(&self, env: &dyn Env) -> Result<Option<SaslConfig>, String> {
        let (user, file) = match (self.user, self.password_file, self.sasl) {
            (None, None, None) => return Ok(None),
            (Some(user), Some(file), _) => (user, file),
            _ => return Err("user and password_file, and sasl, need each other".to_owned()),
        };
        let bytes = env.read(file, FILE_BYTES_MAX);
        let bytes = bytes.map_err(|error| error.to_string())?;
        let path = file.display();
        let password = String::from_utf8(bytes).map_err(|_| format!("{path} is not text"))?;
        let credentials = Credentials::new(user.clone(), password.trim().to_owned());
        match self.sasl.as_deref().unwrap_or(MECHANISMS[0]) {
            "scram-sha-512" => Ok(Some(SaslConfig::ScramSha512(credentials))),
            "scram-sha-256" => Ok(Some(SaslConfig::ScramSha256(credentials))),
            "plain" => Ok(Some(SaslConfig::Plain(credentials))),
            _ => Err(format!("sasl must be one of {}", MECHANISMS.join(", "))),
        }
    }
}

/// TLS with brokers whose certificates are signed by one of a file.
fn trusting(env: &dyn Env, ca: &Path) -> Result<Arc<ClientConfig>, String> {
    let path = ca.display();
    let pem = env.read(ca, FILE_BYTES_MAX);
    let pem = pem.map_err(|error| error.to_string())?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| format!("{path}: {error}"))?;
        let added = roots.add(certificate);
        added.map_err(|error| format!("{path}: {error}"))?;
    }
    if roots.is_empty() {
        return Err(format!("{path} has no certificate (PEM)"));
    }
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(ring);
    let config = config.with_safe_default_protocol_versions();
    let config = config.map_err(|error| error.to_string())?;
    let config = config.with_root_certificates(roots);
    Ok(Arc::new(config.with_no_client_auth()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quire_env::OsEnv;

    #[test]
    fn what_kafka_does_not_have_is_refused() {
        let env = OsEnv::new().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let empty = folder.path().join("empty.pem");
        env.replace(&empty, b"no certificate\n").unwrap();
        let source = || SourceConfig {
            url: Some("kafka://a:1".to_owned()),
            ..SourceConfig::default()
        };
        let with = |user: Option<&str>, sasl: Option<&str>| SourceConfig {
            user: user.map(str::to_owned),
            sasl: sasl.map(str::to_owned),
            ..source()
        };
        let token = SourceConfig {
            token_file: Some(PathBuf::from("token")),
            ..source()
        };
        let trusts_none = SourceConfig {
            ca: Some(empty),
            ..source()
        };
        for (config, part) in [
            (token, "[source]: kafka has no token_file"),
            (trusts_none, "empty.pem has no certificate (PEM)"),
            (with(Some("u"), None), "need each other"),
            (with(None, Some("plain")), "need each other"),
        ] {
            let error = KafkaOptions::new(&*env, &config).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        let sink = SinkConfig {
            name: "s".to_owned(),
            url: Some("kafka://a:1".to_owned()),
            ..SinkConfig::default()
        };
        let options = KafkaSinkOptions::new(&*env, &sink).unwrap();
        assert_eq!(options.compression, Compression::Zstd);
        let sink = SinkConfig {
            compression: Some("brotli".to_owned()),
            ..sink
        };
        let error = KafkaSinkOptions::new(&*env, &sink).unwrap_err().to_string();
        assert!(error.contains("zstd, lz4, snappy, gzip, none"), "{error}");
    }

    #[test]
    fn a_password_is_read_and_never_shown() {
        let env = OsEnv::new().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        env.replace(&file, b"hush\n").unwrap();
        for (sasl, is_known) in [(None, true), (Some("plain"), true), (Some("digest"), false)] {
            let source = SourceConfig {
                url: Some("kafka://a:1".to_owned()),
                user: Some("u".to_owned()),
                password_file: Some(file.clone()),
                sasl: sasl.map(str::to_owned),
                ..SourceConfig::default()
            };
            match KafkaOptions::new(&*env, &source) {
                Ok(options) => {
                    let shown = format!("{options:?}");
                    assert!(is_known && !shown.contains("hush"), "{shown}");
                }
                Err(error) => assert!(!is_known && error.to_string().contains("scram-sha-256")),
            }
        }
    }
}
