//! The leader's side of following: what comes after what a follower has, as it becomes durable.

use super::wire::{Frame, Head, Records};
use crate::catalog::Catalog;
use crate::{Collection, Database, Error, Result};
use quire_collection::Partition;
use quire_model::Position;
use quire_store::Shipped;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Record bytes of one message, about.
const FRAME_BYTES: usize = 1 << 20;

/// Bytes of messages made at a time, about.
const PIECE_BYTES: usize = 4 << 20;

/// After a small piece the next one is made so much later: what is written meanwhile goes out
/// together.
const PAUSE: Duration = Duration::from_millis(2);
const SMALL_BYTES: usize = 64 << 10;

/// A follower waits so long at most for a sync of what was acknowledged before it was durable.
const SYNC_AFTER: Duration = Duration::from_millis(50);

/// The version of what a follower says.
pub(super) const HELLO_VERSION: u32 = 1;

/// What a follower says when it connects.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) version: u32,
    pub(super) catalog: Catalog,
    pub(super) cursors: Vec<Cursor>,
}

/// How far a follower's partition is.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Cursor {
    pub(super) collection: u32,
    pub(super) partition: u32,
    /// Position of its last record.
    pub(super) seen: u64,
    /// Positions and checksums of some of its records, the newest first.
    pub(super) records: Vec<(u64, u64)>,
}

/// What a follower is to be told when it connects.
enum Verdict {
    Follows,
    StartOver(String),
    Diverged(String),
}

/// What a follower is sent: messages without end, as records become durable.
#[derive(Debug)]
pub struct LeaderStream {
    database: Database,
    /// As the follower knows it.
    catalog: Option<Catalog>,
    partitions: BTreeMap<(u32, u32), Following>,
    /// How far the follower was when it came.
    seen: BTreeMap<(u32, u32), Position>,
    /// The partition whose turn it is.
    turn: usize,
    last_bytes: usize,
    /// A message that ends the stream.
    ending: Option<Frame>,
    ended: bool,
}

/// A partition that is followed.
#[derive(Debug)]
struct Following {
    partition: Partition,
    seen: Position,
    /// Since when it has held records that were not durable, and how far it was durable then.
    unsynced: Option<(Duration, Position)>,
}

impl Database {
    /// Begins to serve a follower; `hello` is what [`Replica::hello`](super::Replica::hello) gave
    /// there. If it can't follow, the stream says why, and ends.
    ///
    /// # Errors
    /// `Invalid` if these are no such bytes; `Corrupt` for damage in a log; `Closed`; those of the
    /// machine.
    pub fn serve_follower(&self, hello: &[u8]) -> Result<LeaderStream> {
        let invalid = |error: &dyn std::fmt::Display| {
            Error::Invalid(format!("this is not what a follower says: {error}"))
        };
        let hello: Hello = serde_json::from_slice(hello).map_err(|error| invalid(&error))?;
        if hello.version != HELLO_VERSION {
            return Err(invalid(&format_args!("version {}", hello.version)));
        }
        let mut stream = LeaderStream {
            database: self.clone(),
            catalog: None,
            partitions: BTreeMap::new(),
            seen: BTreeMap::new(),
            turn: 0,
            last_bytes: 0,
            ending: None,
            ended: false,
        };
        match self.judge(&hello)? {
            Verdict::Follows => {}
            Verdict::StartOver(why) => stream.ending = Some(Frame::StartOver(why)),
            Verdict::Diverged(why) => stream.ending = Some(Frame::Diverged(why)),
        }
        for cursor in &hello.cursors {
            let id = (cursor.collection, cursor.partition);
            stream.seen.insert(id, Position(cursor.seen));
        }
        Ok(stream)
    }

    /// Compares a follower with this database.
    fn judge(&self, hello: &Hello) -> Result<Verdict> {
        let (ours, theirs) = (self.catalog()?, &hello.catalog);
        if theirs.database != ours.database {
            return Ok(Verdict::Diverged(format!(
                "it is a copy of database {}, and this is {}",
                theirs.database, ours.database
            )));
        }
        if theirs.next_collection > ours.next_collection {
            return Ok(Verdict::Diverged(
                "it has had collections that this database never had".into(),
            ));
        }
        for entry in &theirs.collections {
            let same_id = ours.collections.iter().find(|other| other.id == entry.id);
            if let Some(other) = same_id
                && (other.name != entry.name
                    || other.settings.partitions != entry.settings.partitions)
            {
                return Ok(Verdict::Diverged(format!(
                    "its collection {:?} is {:?} here",
                    entry.name, other.name
                )));
            }
        }
        let mut verdict = Verdict::Follows;
        for cursor in &hello.cursors {
            let Some(entry) = ours.collections.iter().find(|e| e.id == cursor.collection) else {
                continue;
            };
            let collection = self.collection(&entry.name)?;
            let partition = collection.partitions().get(cursor.partition as usize);
            let judged = match partition {
                Some(partition) => judge(&entry.name, partition, cursor)?,
                None => Verdict::Diverged(format!("{:?} has fewer partitions here", entry.name)),
            };
            match judged {
                Verdict::Follows => {}
                Verdict::Diverged(_) => return Ok(judged),
                Verdict::StartOver(_) => verdict = judged,
            }
        }
        Ok(verdict)
    }
}

/// Compares what a follower says of a partition with the partition.
fn judge(name: &str, partition: &Partition, cursor: &Cursor) -> Result<Verdict> {
    let at = |position: Position| {
        format!(
            "partition {} of {name:?}, position {position}",
            partition.number()
        )
    };
    let (seen, last) = (Position(cursor.seen), partition.extent().last);
    if seen > last {
        return Ok(Verdict::Diverged(format!(
            "it has records that this database does not have: {} and before, while the last here is {last}",
            at(seen)
        )));
    }
    let mut is_newest_known = seen == Position(0);
    for (position, theirs) in &cursor.records {
        let position = Position(*position);
        if position > seen || position == Position(0) {
            return Err(Error::Invalid(
                "a follower that knows more than it has".into(),
            ));
        }
        match partition.fingerprint(position)? {
            Some(ours) if ours != *theirs => {
                return Ok(Verdict::Diverged(format!(
                    "it has another record than this database: {}",
                    at(position)
                )));
            }
            Some(_) => is_newest_known |= position == seen,
            None => {}
        }
    }
    if is_newest_known {
        return Ok(Verdict::Follows);
    }
    // Whether what came after it is what came after it here can't be told.
    Ok(Verdict::StartOver(format!(
        "the log no longer has the follower's last record: {}",
        at(seen)
    )))
}

impl LeaderStream {
    /// The next messages, encoded: at the latest after `patience`, since a follower is told now and
    /// then how far its leader is. None at the end.
    ///
    /// # Errors
    /// `Corrupt` for damage in a log; `Closed`; those of the machine.
    pub fn next(&mut self, patience: Duration) -> Result<Option<Vec<u8>>> {
        let mut out = Vec::new();
        if self.ended {
            return Ok(None);
        }
        let env = self.database.env().clone();
        if (1..SMALL_BYTES).contains(&self.last_bytes) {
            env.sleep(PAUSE);
        }
        let deadline = env.monotonic().saturating_add(patience);
        while self.ending.is_none() {
            let clock = env.monotonic();
            let catalog = self.database.catalog()?;
            if self.catalog.as_ref() != Some(&catalog) {
                self.follow_catalog(catalog)?;
                let catalog = self.catalog.as_ref().map(Catalog::encode);
                Frame::Catalog(catalog.unwrap_or_default().into()).encode(&mut out);
            }
            let heads = self.ship(clock, &mut out)?;
            if !out.is_empty() || clock >= deadline {
                self.last_bytes = out.len();
                Frame::Heads(micros(clock), heads).encode(&mut out);
                break;
            }
            self.wait(deadline.saturating_sub(clock).min(SYNC_AFTER));
        }
        if let Some(ending) = self.ending.take() {
            ending.encode(&mut out);
            self.ended = true;
        }
        Ok(Some(out))
    }

    /// Follows the partitions of this catalog.
    fn follow_catalog(&mut self, catalog: Catalog) -> Result<()> {
        let mut partitions = BTreeMap::new();
        for entry in &catalog.collections {
            let collection: Collection = match self.database.collection(&entry.name) {
                // Dropped since: the next catalog says so.
                Err(Error::NoCollection { .. }) => continue,
                opened => opened?,
            };
            for partition in collection.partitions() {
                let id = (entry.id, partition.number());
                let following = self.partitions.remove(&id).unwrap_or_else(|| Following {
                    partition: partition.clone(),
                    seen: self.seen.get(&id).copied().unwrap_or(Position(0)),
                    unsynced: None,
                });
                partitions.insert(id, following);
            }
        }
        self.partitions = partitions;
        self.catalog = Some(catalog);
        Ok(())
    }

    /// Appends what is durable and not yet sent. Returns how far the partitions were when it began.
    fn ship(&mut self, clock: Duration, out: &mut Vec<u8>) -> Result<Vec<Head>> {
        let mut heads = Vec::new();
        for ((collection, number), following) in &mut self.partitions {
            let reach = following.partition.extent();
            following.sync_if_due(clock)?;
            heads.push(Head {
                collection: *collection,
                partition: *number,
                last: reach.last,
            });
        }
        // Each begins in its turn, so that none waits for ever behind one that is written faster
        // than it can be sent.
        let mut turns: Vec<_> = self.partitions.iter_mut().collect();
        self.turn = (self.turn + 1) % turns.len().max(1);
        turns.rotate_left(self.turn);
        for ((collection, number), following) in turns {
            if out.len() >= PIECE_BYTES {
                break;
            }
            match following.partition.ship(following.seen, FRAME_BYTES) {
                Ok(Shipped::Nothing) => {}
                Ok(Shipped::Gap) => {
                    self.ending = Some(Frame::StartOver(format!(
                        "the log of partition {number} no longer has all records after position {}",
                        following.seen
                    )));
                    break;
                }
                Ok(Shipped::Records { records, whole }) => {
                    let first = following.seen.next();
                    following.seen = Position(following.seen.0 + records.len() as u64);
                    let records = Records {
                        clock_micros: micros(clock),
                        collection: *collection,
                        partition: *number,
                        first,
                        whole,
                        records,
                    };
                    Frame::Records(records).encode(out);
                }
                // The collection was dropped: the next catalog says so.
                Err(error)
                    if error.kind()
                        == quire_collection::ErrorKind::Store(quire_store::ErrorKind::Closed) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(heads)
    }

    /// Waits until there is something to send.
    fn wait(&self, timeout: Duration) {
        let is_news = |following: &Following| following.partition.extent().durable > following.seen;
        let is_changed = |catalog| self.database.catalog_is_still(catalog) == Some(false);
        self.database.changed().wait_until(
            &mut || {
                self.partitions.values().any(is_news)
                    || self.catalog.as_ref().is_some_and(is_changed)
            },
            timeout,
        );
    }
}

impl Following {
    /// Makes durable what has waited for it long enough: its writer asked for less, but the
    /// follower gets it only then.
    fn sync_if_due(&mut self, now: Duration) -> Result<()> {
        let reach = self.partition.extent();
        if reach.durable >= reach.last {
            self.unsynced = None;
            return Ok(());
        }
        match self.unsynced {
            Some((since, durable)) if durable == reach.durable => {
                if now.saturating_sub(since) >= SYNC_AFTER {
                    self.partition.sync_log()?;
                    self.unsynced = None;
                }
            }
            _ => self.unsynced = Some((now, reach.durable)),
        }
        Ok(())
    }
}

fn micros(clock: Duration) -> u64 {
    u64::try_from(clock.as_micros()).unwrap_or(u64::MAX)
}
