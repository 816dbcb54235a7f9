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

/// A reader of a topic.
pub(crate) struct KafkaTopic {
    reader: Reader,
    runtime: Runtime,
}

struct Reader {
    options: KafkaOptions,
    /// How many partitions the topic had when it was first read.
    partitions: usize,
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
        let count = runtime.block_on(options.brokers.partition_count())?;
        let partitions = match known {
            Some(known) => usize::try_from(known).unwrap_or(usize::MAX),
            None => count,
        };
        let reader = Reader {
            options: options.clone(),
            partitions,
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
        Some(json!({ "partitions": self.reader.partitions }))
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
                return Ok(changes);
            }
            sleep(PAUSE).await;
            waited += PAUSE;
        }
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
        if clients.len() != self.partitions {
            return Err(Fault::Stop(format!(
                "topic {topic} has {} partitions and had {}: records of a key may be in another \
                 one now, where their positions are others. Empty the sinks, remove their \
                 positions and run again",
                clients.len(),
                self.partitions
            )));
        }
        let mut parts = Vec::with_capacity(clients.len());
        for (number, client) in (0..).zip(clients) {
            let begin = client.get_offset(OffsetAt::Earliest);
            let begin = brokers.within(begin).await?;
            let end = brokers.within(client.get_offset(OffsetAt::Latest)).await?;
            let read = cursor.position(number);
            let next = self.place(read, begin..end).map_err(|fault| match fault {
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

    /// The offset of the next record of a partition that was read up to a position.
    fn place(&self, read: u64, there: Range<i64>) -> Result<i64, Fault> {
        let next = offset_after(read);
        if read > position(there.end) - 1 {
            return Err(Fault::Stop(format!(
                "ends at offset {}, before the stored position {read}: it was made anew. Empty \
                 the sinks, remove their positions and run again",
                there.end
            )));
        }
        if read > 0 && next < there.start && self.options.on_lost_position == OnLostPosition::Stop {
            let start = there.start;
            return Err(Fault::Lost(format!(
                "begins at offset {start}, not at {next}"
            )));
        }
        Ok(next.max(there.start))
    }
}
