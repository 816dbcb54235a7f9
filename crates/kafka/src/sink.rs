//! A topic of Kafka as a sink: each change is a record with the document's key, a deletion one
//! without a value.
//!
//! # Invariants
//! 1. A change is done when all replicas in sync have its record. What is sent again is there
//!    twice, so of each key the last record counts, as log compaction has it.
//! 2. A key is always in one partition: the one that Kafka's own clients choose. A topic that has
//!    other partitions than before is refused.
//! 3. Changes of a key are not under way twice, and what is sent again over the same connection
//!    comes after what was sent before it: brokers handle the requests of a connection in order.

use crate::fault::Fault;
use crate::options::KafkaSinkOptions;
use crate::partitioner::partition;
use crate::source::runtime;
use futures_util::future::join_all;
use quire_env::Env;
use quire_ship::{Change, Failure, Result, Sink, Verdict};
use rskafka::chrono::DateTime;
use rskafka::client::partition::PartitionClient;
use rskafka::record::Record;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, OnceLock};
use tokio::runtime::Runtime;

/// The bytes of a batch of records before compression. Brokers take 1 MiB by default.
const BATCH_BYTES: usize = 900 << 10;

/// A topic of Kafka.
pub struct KafkaSink {
    env: Arc<dyn Env>,
    options: KafkaSinkOptions,
    /// Threads that send run it by turns.
    runtime: Runtime,
    /// Known when the brokers have answered.
    partitions: OnceLock<Vec<PartitionClient>>,
}

/// What became of changes of one partition, each with its number in the bulk. After a fault the
/// later ones have no verdict.
type Settled = (Vec<(usize, Verdict)>, Option<Fault>);

impl KafkaSink {
    /// The topic that the options name. Does not call the brokers yet.
    ///
    /// # Errors
    /// If the system has no means to wait for sockets.
    pub fn new(env: Arc<dyn Env>, options: KafkaSinkOptions) -> Result<KafkaSink> {
        Ok(KafkaSink {
            env,
            options,
            runtime: runtime()?,
            partitions: OnceLock::new(),
        })
    }

    /// The topic in words, if it is there.
    ///
    /// # Errors
    /// If the brokers do not answer, or have no such topic.
    pub fn describe(&self) -> Result<String, Failure> {
        let brokers = &self.options.brokers;
        let count = self.runtime.block_on(brokers.partition_count())?;
        Ok(format!(
            "{brokers}, topic {}, partitions: {count}",
            brokers.topic
        ))
    }

    fn record(&self, change: &Change, now_micros: i64) -> Record {
        // Brokers refuse times far in the future, and retention goes by them.
        let micros = match change.time_micros {
            0 => now_micros,
            at => at.min(now_micros),
        };
        Record {
            key: Some(change.key.as_bytes().to_vec()),
            value: change
                .document
                .as_ref()
                .map(|text| text.as_bytes().to_vec()),
            headers: BTreeMap::new(),
            timestamp: DateTime::from_timestamp_micros(micros).unwrap_or_default(),
        }
    }

    /// Sends changes of a partition, in batches. A batch that is too large is halved.
    async fn send_part(
        &self,
        client: &PartitionClient,
        bulk: &[&Change],
        numbers: &[usize],
    ) -> Settled {
        let now = self.env.now_micros();
        let (brokers, compression) = (&self.options.brokers, self.options.compression);
        let mut batches = batches(bulk, numbers);
        let mut settled = Vec::with_capacity(numbers.len());
        while let Some(batch) = batches.pop_front() {
            let records = batch.iter().map(|number| self.record(bulk[*number], now));
            let produce = client.produce(records.collect(), compression);
            match (brokers.within(produce).await, batch) {
                (Ok(_), _) => settled.extend(batch.iter().map(|number| (*number, Verdict::Done))),
                (Err(Fault::TooLarge(why)), [one]) => settled.push((*one, Verdict::Refused(why))),
                (Err(Fault::TooLarge(_)), _) => {
                    let (first, second) = batch.split_at(batch.len() / 2);
                    batches.push_front(second);
                    batches.push_front(first);
                }
                (Err(fault), _) => return (settled, Some(fault)),
            }
        }
        (settled, None)
    }
}

/// Cuts changes of a bulk, given by their numbers, into batches.
fn batches<'n>(bulk: &[&Change], numbers: &'n [usize]) -> VecDeque<&'n [usize]> {
    let (mut batches, mut start, mut bytes) = (VecDeque::new(), 0, 0);
    for (at, number) in numbers.iter().enumerate() {
        let next = bulk[*number].bytes();
        if bytes + next > BATCH_BYTES && at > start {
            batches.push_back(&numbers[start..at]);
            (start, bytes) = (at, 0);
        }
        bytes += next;
    }
    batches.push_back(&numbers[start..]);
    batches
}

/// The verdicts of a bulk from those of its partitions.
fn combine(count: usize, parts: Vec<Settled>) -> Result<Vec<Verdict>, Failure> {
    let (mut verdicts, mut fault) = (vec![None; count], None);
    let mut is_any_settled = false;
    for (settled, failed) in parts {
        for (number, verdict) in settled {
            verdicts[number] = Some(verdict);
            is_any_settled = true;
        }
        fault = fault.or(failed);
    }
    let why = match fault {
        Some(Fault::Away(why)) if is_any_settled => why,
        Some(fault) => return Err(fault.into()),
        None => String::new(),
    };
    let again = || Verdict::Again(why.clone());
    let verdicts = verdicts.into_iter();
    Ok(verdicts.map(|known| known.unwrap_or_else(again)).collect())
}

impl Sink for KafkaSink {
    fn send(&self, bulk: &[&Change]) -> Result<Vec<Verdict>, Failure> {
        let clients = self.partitions.get();
        let clients = clients.ok_or_else(|| Failure::NoAnswer("it was not begun".to_owned()))?;
        let mut numbers = vec![Vec::new(); clients.len()];
        for (number, change) in bulk.iter().enumerate() {
            numbers[partition(&change.key, clients.len())].push(number);
        }
        let parts = clients.iter().zip(&numbers);
        let parts = parts.filter(|(_, numbers)| !numbers.is_empty());
        let sends = parts.map(|(client, numbers)| self.send_part(client, bulk, numbers));
        let settled = self.runtime.block_on(join_all(sends));
        combine(bulk.len(), settled)
    }

    fn concurrency_max(&self) -> usize {
        self.options.concurrency_max
    }

    fn begin(&self, mark: Option<&Value>) -> Result<(), Failure> {
        let brokers = &self.options.brokers;
        let clients = self.runtime.block_on(brokers.partitions())?;
        let known = mark.and_then(|mark| mark["partitions"].as_u64());
        if let Some(known) = known
            && known != clients.len() as u64
        {
            return Err(Failure::Final(format!(
                "topic {} has {} partitions and had {known}: earlier records of a key are in \
                 another one than later ones would be. Write to a new topic, from the beginning",
                brokers.topic,
                clients.len(),
            )));
        }
        // Connections of an earlier begin are as good.
        let _ = self.partitions.set(clients);
        Ok(())
    }

    /// How many partitions the topic has. It is the same after each bulk.
    fn mark(&self) -> Option<Value> {
        let partitions = self.partitions.get()?.len();
        Some(json!({ "partitions": partitions }))
    }
}

impl fmt::Debug for KafkaSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaSink")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_bounded_and_hold_each_change_once() {
        let change = |bytes: usize| Change {
            partition: 0,
            position: 1,
            time_micros: 0,
            key: "k".into(),
            document: Some("x".repeat(bytes).into()),
        };
        let changes: Vec<Change> = [10, 2 << 20, 500 << 10, 500 << 10, 7].map(change).into();
        let bulk: Vec<&Change> = changes.iter().collect();
        let cut = batches(&bulk, &[0, 1, 2, 3, 4]);
        assert_eq!(cut, [&[0][..], &[1], &[2], &[3, 4]]);
    }

    #[test]
    fn changes_after_a_fault_are_sent_again_and_all_if_none_was_settled() {
        let away = || Some(Fault::Away("gone".to_owned()));
        let again = Verdict::Again("gone".to_owned());
        let parts = vec![(vec![(2, Verdict::Done)], away()), (vec![], None)];
        assert_eq!(
            combine(3, parts),
            Ok(vec![again.clone(), again, Verdict::Done])
        );
        let none = combine(2, vec![(vec![], away())]);
        assert_eq!(none, Err(Failure::NoAnswer("gone".to_owned())));
        let parts = vec![(vec![(0, Verdict::Done)], Some(Fault::Stop("no".to_owned())))];
        assert_eq!(combine(2, parts), Err(Failure::Final("no".to_owned())));
    }
}
