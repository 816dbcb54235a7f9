//! A reader of the topic: all partitions, by turns.

use crate::fault::Fault;
use crate::options::KafkaOptions;
use crate::record::{change, offset_after, position};
use quire_ship::{Change, Cursor, Error, OnLostPosition, Result, Topic};
use rskafka::client::partition::{OffsetAt, PartitionClient};
use serde_json::{Value, json};
use std::ops::Range;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::time::sleep;

/// How long a reader that is at the end of all partitions waits before it looks again.
const PAUSE: Duration = Duration::from_millis(10);

/// The least that is read of a partition at once, in bytes.
const FETCH_BYTES_MIN: usize = 64 << 10;

/// How long a reader is idle, or how often it reads, before it looks whether partitions were added.
const LOOK_AFTER_IDLE: Duration = Duration::from_secs(30);
const LOOK_AFTER_READS: u32 = 256;

/// A reader of a topic.
pub(crate) struct KafkaTopic {
    reader: Reader,
    runtime: Runtime,
}

struct Reader {
    options: KafkaOptions,
    /// How many partitions the topic had when it was first read.
    partitions: usize,
    /// Where each partition began then; empty if that is not known.
    begins: Vec<i64>,
    /// Since it last looked whether there are other partitions.
    idle: Duration,
    reads: u32,
    /// Empty while there is no connection.
    parts: Vec<Part>,
    /// The partition that is read next.
    turn: usize,
}

/// A partition.
struct Part {
    client: PartitionClient,
    /// The offset of the next record.
    next: i64,
    /// Where it ended when it was last read.
    end: i64,
}

impl KafkaTopic {
    /// Connects, and checks that the topic has as many partitions as before.
    pub(crate) fn open(
        options: &KafkaOptions,
        place: Option<&Value>,
        runtime: Runtime,
    ) -> Result<KafkaTopic> {
        let known = place.and_then(|place| place["partitions"].as_u64());
        let (partitions, begins) = match known {
            Some(known) => {
                runtime.block_on(options.brokers.partition_count())?;
                let begins = place.and_then(|place| place["begins"].as_array());
                let begins = begins.into_iter().flatten().filter_map(Value::as_i64);
                (
                    usize::try_from(known).unwrap_or(usize::MAX),
                    begins.collect(),
                )
            }
            None => {
                let begins = runtime.block_on(begins(options))?;
                (begins.len(), begins)
            }
        };
        let reader = Reader {
            options: options.clone(),
            partitions,
            begins,
            idle: Duration::ZERO,
            reads: 0,
            parts: Vec::new(),
            turn: 0,
        };
        Ok(KafkaTopic { reader, runtime })
    }
}

impl Topic for KafkaTopic {
    fn read(&mut self, cursor: &Cursor, bytes_max: usize, wait: Duration) -> Result<Vec<Change>> {
        let reader = &mut self.reader;
        let read = self.runtime.block_on(reader.read(cursor, bytes_max, wait));
        read.map_err(|fault| {
            reader.parts.clear();
            match (fault, reader.options.on_lost_position) {
                // The next attempt begins where the topic does.
                (Fault::Lost(why), OnLostPosition::Snapshot) => Error::SourceAway(why),
                (fault, _) => Error::from(fault),
            }
        })
    }

    fn place(&self) -> Option<Value> {
        let Reader {
            partitions, begins, ..
        } = &self.reader;
        Some(json!({ "partitions": partitions, "begins": begins }))
    }

    fn end(&self) -> Option<Cursor> {
        // The position of a record is its offset and 1, and the end is the offset after the last.
        let ends = self.reader.parts.iter().map(|part| part.end.unsigned_abs());
        Some(Cursor::new(ends.collect()))
    }
}

impl Reader {
    async fn read(
        &mut self,
        cursor: &Cursor,
        bytes_max: usize,
        wait: Duration,
    ) -> Result<Vec<Change>, Fault> {
        if self.parts.is_empty() {
            self.parts = self.connect(cursor).await?;
        }
        let (mut changes, mut waited) = (Vec::new(), Duration::ZERO);
        loop {
            self.read_each(&mut changes, bytes_max).await?;
            if !changes.is_empty() || waited >= wait {
                self.idle += waited;
                self.reads += 1;
                self.look().await?;
                return Ok(changes);
            }
            sleep(PAUSE).await;
            waited += PAUSE;
        }
    }

    /// Looks now and then whether partitions were added, which no one reads.
    async fn look(&mut self) -> Result<(), Fault> {
        if self.idle < LOOK_AFTER_IDLE && self.reads < LOOK_AFTER_READS {
            return Ok(());
        }
        (self.idle, self.reads) = (Duration::ZERO, 0);
        let brokers = &self.options.brokers;
        same_partitions(
            &brokers.topic,
            brokers.partition_count().await?,
            self.partitions,
        )
    }

    /// Appends changes of all partitions, by turns, until there are enough.
    async fn read_each(
        &mut self,
        changes: &mut Vec<Change>,
        bytes_max: usize,
    ) -> Result<(), Fault> {
        let mut bytes = 0;
        for _ in 0..self.parts.len() {
            let number = self.turn;
            self.turn = (number + 1) % self.parts.len();
            let Some(part) = self.parts.get_mut(number) else {
                continue;
            };
            let wanted = bytes_max.saturating_sub(bytes).max(FETCH_BYTES_MIN);
            let wanted = 1..i32::try_from(wanted).unwrap_or(i32::MAX);
            let fetch = part.client.fetch_records(part.next, wanted, 0);
            let (records, end) = self.options.brokers.within(fetch).await?;
            part.end = end;
            for record in records {
                let offset = record.offset;
                let key_field = self.options.key_field.as_deref();
                let change = change(number as u32, record, key_field).map_err(|why| {
                    let topic = &self.options.brokers.topic;
                    Fault::Stop(format!(
                        "record {offset} of partition {number} of topic {topic}: {why}"
                    ))
                })?;
                part.next = offset_after(change.position);
                bytes += change.bytes();
                changes.push(change);
            }
            if bytes >= bytes_max {
                break;
            }
        }
        Ok(())
    }

    /// Clients of all partitions, each where the cursor is.
    async fn connect(&self, cursor: &Cursor) -> Result<Vec<Part>, Fault> {
        let brokers = &self.options.brokers;
        let (topic, clients) = (&brokers.topic, brokers.partitions().await?);
        same_partitions(topic, clients.len(), self.partitions)?;
        let mut parts = Vec::with_capacity(clients.len());
        for (number, client) in (0..).zip(clients) {
            let begin = client.get_offset(OffsetAt::Earliest);
            let begin = brokers.within(begin).await?;
            let end = brokers.within(client.get_offset(OffsetAt::Latest)).await?;
            let read = cursor.position(number);
            let began = self.begins.get(number as usize).copied();
            let policy = self.options.on_lost_position;
            let next = next(read, began, begin..end, policy).map_err(|fault| match fault {
                Fault::Lost(why) => Fault::Lost(format!("partition {number} {why}")),
                Fault::Stop(why) => {
                    Fault::Stop(format!("partition {number} of topic {topic} {why}"))
                }
                away => away,
            })?;
            parts.push(Part { client, next, end });
        }
        Ok(parts)
    }
}

/// Where each partition begins.
async fn begins(options: &KafkaOptions) -> Result<Vec<i64>, Fault> {
    let brokers = &options.brokers;
    let mut begins = Vec::new();
    for client in brokers.partitions().await? {
        let begin = client.get_offset(OffsetAt::Earliest);
        begins.push(brokers.within(begin).await?);
    }
    Ok(begins)
}

/// Refuses a topic with more partitions than it had.
fn same_partitions(topic: &str, there: usize, known: usize) -> Result<(), Fault> {
    match there == known {
        true => Ok(()),
        false => Err(Fault::Stop(format!(
            "topic {topic} has {there} partitions and had {known}: records of a key may be in \
             another one now, where their positions are others. Empty the sinks, remove their \
             positions and run again"
        ))),
    }
}

/// The offset of the next record of a partition that was read up to a position, and that began at
/// `began` when the topic was first read.
fn next(
    read: u64,
    began: Option<i64>,
    there: Range<i64>,
    policy: OnLostPosition,
) -> Result<i64, Fault> {
    let wanted = match read {
        // What is gone before it was first read is not missed.
        0 => began.unwrap_or(there.start),
        read => offset_after(read),
    };
    if read > position(there.end) - 1 {
        return Err(Fault::Stop(format!(
            "ends at offset {}, before the stored position {read}: it was made anew. Empty \
             the sinks, remove their positions and run again",
            there.end
        )));
    }
    if wanted < there.start && policy == OnLostPosition::Stop {
        let start = there.start;
        return Err(Fault::Lost(format!(
            "begins at offset {start}, not at {wanted}"
        )));
    }
    Ok(wanted.max(there.start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_that_went_before_the_first_one_was_read_are_missed_too() {
        let (stop, anew) = (OnLostPosition::Stop, OnLostPosition::Snapshot);
        // Read up to offset 6.
        assert!(matches!(next(7, Some(0), 3..9, stop), Ok(7)));
        assert!(matches!(next(7, Some(0), 8..9, stop), Err(Fault::Lost(_))));
        assert!(matches!(next(7, Some(0), 8..9, anew), Ok(8)));
        assert!(matches!(next(7, Some(0), 0..6, anew), Err(Fault::Stop(_))));
        // Nothing was read of it.
        assert!(matches!(next(0, Some(3), 3..9, stop), Ok(3)));
        assert!(matches!(next(0, Some(3), 5..9, stop), Err(Fault::Lost(_))));
        assert!(matches!(next(0, Some(3), 5..9, anew), Ok(5)));
        // A place that was stored without the beginnings.
        assert!(matches!(next(0, None, 5..9, stop), Ok(5)));
    }
}
