//! What the file of a pipe says of the source.

use crate::fault::Fault;
use quire_ship::{Error, OnLostPosition, Result, SourceConfig};
use rskafka::BackoffConfig;
use rskafka::client::{Client, ClientBuilder};
use std::time::Duration;

const TIMEOUT_S: u64 = 60;

/// The longest answer of a broker: a batch of records is whole.
const ANSWER_BYTES_MAX: usize = 128 << 20;

/// Which topic, of which brokers.
#[derive(Debug, Clone)]
pub struct KafkaOptions {
    pub(crate) brokers: Vec<String>,
    pub(crate) topic: String,
    /// The field of a document with its key; none if that is the key of the record.
    pub(crate) key_field: Option<String>,
    pub(crate) on_lost_position: OnLostPosition,
    timeout: Duration,
}

impl KafkaOptions {
    /// Reads the options.
    ///
    /// # Errors
    /// If something is missing or wrong: a sentence that says what.
    pub fn new(config: &SourceConfig) -> Result<KafkaOptions> {
        let wrong = |why: &str| Error::Config(format!("[source]: {why}"));
        let url = config.url.as_deref().unwrap_or_default();
        let addresses = url.strip_prefix("kafka://").unwrap_or_default();
        let brokers: Vec<String> = addresses.split(',').map(str::to_owned).collect();
        let is_address = |address: &String| {
            let parts = address.rsplit_once(':');
            parts.is_some_and(|(host, port)| {
                !host.is_empty() && !host.contains(['/', '@']) && port.parse::<u16>().is_ok()
            })
        };
        if !brokers.iter().all(is_address) {
            return Err(wrong(
                "url must be kafka://HOST:PORT, or several HOST:PORT between commas",
            ));
        }
        if config.user.is_some() || config.password_file.is_some() || config.ca.is_some() {
            return Err(wrong(
                "type kafka has no user, password_file and ca yet: brokers are called without TLS \
                 and without authentication",
            ));
        }
        let on_lost_position = config.on_lost_position()?;
        Ok(KafkaOptions {
            brokers,
            topic: config.topic.clone().unwrap_or_default(),
            key_field: config.key_field.clone(),
            on_lost_position,
            timeout: Duration::from_secs(config.timeout_s.unwrap_or(TIMEOUT_S)),
        })
    }

    /// A client of the brokers.
    pub(crate) async fn connect(&self) -> Result<Client, Fault> {
        let backoff = BackoffConfig {
            deadline: Some(self.timeout),
            ..BackoffConfig::default()
        };
        let client = ClientBuilder::new(self.brokers.clone())
            .client_id("quire")
            .max_message_size(ANSWER_BYTES_MAX)
            .backoff_config(backoff);
        self.within(client.build()).await
    }

    /// What a call to the brokers gives, if that does not take too long.
    pub(crate) async fn within<T>(
        &self,
        call: impl Future<Output = Result<T, rskafka::client::error::Error>>,
    ) -> Result<T, Fault> {
        match tokio::time::timeout(self.timeout, call).await {
            Ok(done) => Ok(done?),
            Err(_) => Err(Fault::Away(format!("{self} does not answer"))),
        }
    }

    /// The numbers of the topic's partitions.
    pub(crate) async fn partitions(&self, client: &Client) -> Result<Vec<i32>, Fault> {
        let topics = self.within(client.list_topics()).await?;
        let topic = topics.into_iter().find(|topic| topic.name == self.topic);
        let topic =
            topic.ok_or_else(|| Fault::Stop(format!("{self} has no topic {:?}", self.topic)))?;
        Ok(topic.partitions.into_iter().collect())
    }
}

/// The brokers' addresses.
impl std::fmt::Display for KafkaOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "kafka://{}", self.brokers.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(url: &str) -> SourceConfig {
        SourceConfig {
            url: Some(url.to_owned()),
            topic: Some("cars".to_owned()),
            ..SourceConfig::default()
        }
    }

    #[test]
    fn addresses_are_checked_and_what_is_not_there_yet_is_refused() {
        let options = KafkaOptions::new(&config("kafka://a:9092,[::1]:9093")).unwrap();
        assert_eq!(options.brokers, ["a:9092", "[::1]:9093"]);
        assert_eq!(options.to_string(), "kafka://a:9092,[::1]:9093");
        for url in [
            "kafka://",
            "kafka://a",
            "kafka://a:b",
            "http://a:1",
            "kafka://a:1,",
            "a:1",
        ] {
            let error = KafkaOptions::new(&config(url)).unwrap_err().to_string();
            assert!(error.contains("kafka://HOST:PORT"), "{url}: {error}");
        }
        let user = SourceConfig {
            user: Some("u".to_owned()),
            ..config("kafka://a:1")
        };
        assert!(KafkaOptions::new(&user).is_err());
    }
}
