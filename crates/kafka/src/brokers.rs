//! The brokers of a topic, and how they are called.

use crate::fault::Fault;
use rskafka::BackoffConfig;
use rskafka::client::error::Error as KafkaError;
use rskafka::client::partition::{PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder, SaslConfig};
use rustls::ClientConfig;
use std::sync::Arc;
use std::time::Duration;

/// The longest answer of a broker: a batch of records is whole.
const ANSWER_BYTES_MAX: usize = 128 << 20;

/// How long the client itself calls again before it says that a broker is away. The lane then
/// waits, says what it waits for, and calls again.
const RETRY_MAX: Duration = Duration::from_secs(5);

/// A topic, and brokers that know of it.
#[derive(Clone)]
pub(crate) struct Brokers {
    addresses: Vec<String>,
    pub(crate) topic: String,
    timeout: Duration,
    /// TLS, with what is trusted; none calls without it.
    tls: Option<Arc<ClientConfig>>,
    /// Who calls.
    sasl: Option<SaslConfig>,
}

/// Never shows the credentials.
impl std::fmt::Debug for Brokers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (addresses, topic) = (&self.addresses, &self.topic);
        let mut shown = f.debug_struct("Brokers");
        shown.field("addresses", addresses).field("topic", topic);
        shown.finish_non_exhaustive()
    }
}

impl Brokers {
    /// Reads `kafka://HOST:PORT,HOST:PORT`.
    ///
    /// # Errors
    /// If it is none: a part of a sentence that says so.
    pub(crate) fn parse(url: &str, topic: &str, timeout: Duration) -> Result<Brokers, String> {
        let addresses = url.strip_prefix("kafka://").unwrap_or_default();
        let addresses: Vec<String> = addresses.split(',').map(str::to_owned).collect();
        let is_address = |address: &String| {
            let parts = address.rsplit_once(':');
            parts.is_some_and(|(host, port)| {
                !host.is_empty() && !host.contains(['/', '@']) && port.parse::<u16>().is_ok()
            })
        };
        if !addresses.iter().all(is_address) {
            return Err(
                "url must be kafka://HOST:PORT, or several HOST:PORT between commas".to_owned(),
            );
        }
        Ok(Brokers {
            addresses,
            topic: topic.to_owned(),
            timeout,
            tls: None,
            sasl: None,
        })
    }

    /// The same, called over TLS.
    pub(crate) fn with_tls(self, tls: Option<Arc<ClientConfig>>) -> Brokers {
        Brokers { tls, ..self }
    }

    /// The same, called as somebody.
    pub(crate) fn with_sasl(self, sasl: Option<SaslConfig>) -> Brokers {
        Brokers { sasl, ..self }
    }

    /// A client of the brokers.
    async fn connect(&self) -> Result<Client, Fault> {
        let backoff = BackoffConfig {
            max_backoff: Duration::from_secs(1),
            deadline: Some(RETRY_MAX.min(self.timeout)),
            ..BackoffConfig::default()
        };
        let mut client = ClientBuilder::new(self.addresses.clone())
            .client_id("quire")
            .max_message_size(ANSWER_BYTES_MAX)
            .backoff_config(backoff);
        if let Some(tls) = &self.tls {
            client = client.tls_config(Arc::clone(tls));
        }
        if let Some(sasl) = &self.sasl {
            client = client.sasl_config(sasl.clone());
        }
        self.within(client.build()).await
    }

    /// What a call to the brokers gives, if that does not take too long.
    pub(crate) async fn within<T>(
        &self,
        call: impl Future<Output = Result<T, KafkaError>>,
    ) -> Result<T, Fault> {
        match tokio::time::timeout(self.timeout, call).await {
            Ok(done) => Ok(done?),
            Err(_) => Err(Fault::Away(format!("{self} does not answer"))),
        }
    }

    /// How many partitions the topic has.
    pub(crate) async fn partition_count(&self) -> Result<usize, Fault> {
        let client = self.connect().await?;
        self.numbers(&client).await.map(|numbers| numbers.len())
    }

    /// Clients of all partitions, in their order.
    pub(crate) async fn partitions(&self) -> Result<Vec<PartitionClient>, Fault> {
        let client = self.connect().await?;
        let mut partitions = Vec::new();
        for (expected, number) in (0..).zip(self.numbers(&client).await?) {
            let topic = &self.topic;
            if number != expected {
                return Err(Fault::Away(format!(
                    "topic {topic} lacks partition {expected}"
                )));
            }
            let partition = client.partition_client(topic, number, UnknownTopicHandling::Retry);
            partitions.push(self.within(partition).await?);
        }
        Ok(partitions)
    }

    /// The numbers of the topic's partitions.
    async fn numbers(&self, client: &Client) -> Result<Vec<i32>, Fault> {
        let topics = self.within(client.list_topics()).await?;
        let topic = topics.into_iter().find(|topic| topic.name == self.topic);
        let topic =
            topic.ok_or_else(|| Fault::Stop(format!("{self} has no topic {:?}", self.topic)))?;
        Ok(topic.partitions.into_iter().collect())
    }
}

/// The brokers' addresses.
impl std::fmt::Display for Brokers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "kafka://{}", self.addresses.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_checked() {
        let parse = |url| Brokers::parse(url, "cars", Duration::from_secs(1));
        let brokers = parse("kafka://a:9092,[::1]:9093").unwrap();
        assert_eq!(brokers.addresses, ["a:9092", "[::1]:9093"]);
        assert_eq!(brokers.to_string(), "kafka://a:9092,[::1]:9093");
        for url in [
            "kafka://",
            "kafka://a",
            "kafka://a:b",
            "http://a:1",
            "kafka://a:1,",
            "a:1",
        ] {
            let error = parse(url).unwrap_err();
            assert!(error.contains("kafka://HOST:PORT"), "{url}: {error}");
        }
    }
}
