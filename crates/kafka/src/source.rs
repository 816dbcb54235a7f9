//! The seam to `ship`.

use crate::options::KafkaOptions;
use crate::topic::KafkaTopic;
use quire_ship::{Error, Result, Source, Topic};
use serde_json::Value;
use tokio::runtime::Runtime;

/// A topic of Kafka.
#[derive(Debug)]
pub struct KafkaSource {
    options: KafkaOptions,
}

impl KafkaSource {
    /// The topic that the options name. Does not call the brokers yet.
    pub fn new(options: KafkaOptions) -> KafkaSource {
        KafkaSource { options }
    }
}

impl Source for KafkaSource {
    fn identity(&self) -> String {
        // Brokers come and go.
        format!("kafka topic {}", self.options.brokers.topic)
    }

    fn grows(&self) -> bool {
        true
    }

    fn count(&self) -> Result<Option<u64>> {
        runtime()?.block_on(self.options.brokers.partition_count())?;
        // Of the keys in it nothing is known.
        Ok(None)
    }

    fn has_dense_positions(&self) -> bool {
        false
    }

    fn open(&self, place: Option<&Value>) -> Result<Box<dyn Topic>> {
        let topic = KafkaTopic::open(&self.options, place, runtime()?)?;
        Ok(Box::new(topic))
    }
}

/// What drives connections, on the threads that wait for them.
pub(crate) fn runtime() -> Result<Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.map_err(Error::Thread)
}
