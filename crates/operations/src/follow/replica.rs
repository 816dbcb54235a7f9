//! The follower's side of following: takes what the leader sends, and knows how far behind it is.

use super::cursor::Cursor;
use super::hello::{HELLO_VERSION, Hello};
use super::wire::{Frame, Head, Records};
use quire_database::catalog::Catalog;
use quire_database::{Database, Error, Result, engine};
use quire_store::{AnyStore, Durability};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// What the leader sends is synced so much later: a crash takes what can be had again.
const SYNC_AFTER: Duration = Duration::from_millis(500);

/// With this many records missing it does nothing but catch up...
const FAR_BEHIND: u64 = 20_000;
/// ...until it misses fewer than this.
const NEARLY_LEVEL: u64 = 2_000;

/// Messages about how far the leader was, kept until the follower is as far.
const HEADS_MAX: usize = 256;

/// A database that follows another.
#[derive(Debug)]
pub struct Replica {
    database: Database,
    /// The stores of the partitions, by collection's id: each is opened once.
    collections: BTreeMap<u32, Vec<Arc<dyn AnyStore>>>,
    /// When the request went to the leader, by the clock here, and the leader's clock when it began
    /// to answer, which was later.
    clocks: Option<(Duration, u64)>,
    /// How far the leader was, and when, by the clock here: the states that this is not at yet, the
    /// oldest first.
    ahead: VecDeque<(Duration, Vec<Head>)>,
    newest: Vec<Head>,
    /// When it was last known to hold all that the leader had.
    level: Option<Duration>,
    /// It is far behind: compaction of logs is put off.
    far_behind: bool,
}

/// What became of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    /// These many records were taken, the last of them so long after it was durable at the leader.
    Records(u64, Duration),
    /// Something else was taken.
    Other,
    /// It needs a new copy, and why.
    StartOver(String),
}

/// How far a follower is behind its leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lag {
    /// Records that the leader has and this does not, as far as the leader reported.
    pub records: u64,
    /// How long ago it was last known to hold all that the leader had; `None` if it never was.
    pub time: Option<Duration>,
}

impl Replica {
    /// A follower that is this database.
    pub fn new(database: Database) -> Replica {
        Replica {
            database,
            collections: BTreeMap::new(),
            clocks: None,
            ahead: VecDeque::new(),
            newest: Vec::new(),
            level: None,
            far_behind: false,
        }
    }

    /// The database.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// What to say to the leader: whose copy this is, how far it is, and some of its records to
    /// compare. The caller drops what was received before and not applied.
    ///
    /// # Errors
    /// `Corrupt` for damage; `Closed`; those of the machine.
    pub fn hello(&mut self) -> Result<Vec<u8>> {
        let catalog = self.open_collections()?;
        let mut cursors = Vec::new();
        for (id, stores) in &self.collections {
            for (number, store) in (0..).zip(stores) {
                cursors.push(Cursor::of(*id, number, &**store)?);
            }
        }
        let env = self.database.env();
        self.clocks = Some((env.monotonic(), 0));
        self.ahead.clear();
        let hello = Hello {
            version: HELLO_VERSION,
            catalog,
            cursors,
        };
        Ok(serde_json::json!(hello).to_string().into_bytes())
    }

    /// Does what a message of the leader says.
    ///
    /// # Errors
    /// `Diverged` if the leader says so; `Leader` if the message makes no sense here, and nothing
    /// was changed; `Full`, `Closed` and those of the machine.
    pub fn apply(&mut self, frame: Frame) -> Result<Applied> {
        match frame {
            Frame::Catalog(bytes) => self.take_catalog(&bytes).map(|()| Applied::Other),
            Frame::Records(records) => self.take_records(&records),
            Frame::Heads(clock, heads) => {
                let then = self.here(clock);
                self.newest.clone_from(&heads);
                if self.ahead.len() == HEADS_MAX {
                    self.ahead.pop_back();
                }
                self.ahead.push_back((then, heads));
                self.look();
                match self.missing(&self.newest) {
                    0..NEARLY_LEVEL => self.put_off(false),
                    FAR_BEHIND.. => self.put_off(true),
                    _ => {}
                }
                Ok(Applied::Other)
            }
            Frame::StartOver(why) => Ok(Applied::StartOver(why)),
            Frame::Diverged(why) => Err(Error::Diverged(why)),
            Frame::Data(_) | Frame::End { .. } => Err(unexpected("bytes of a file")),
        }
    }

    fn take_catalog(&mut self, bytes: &[u8]) -> Result<()> {
        let catalog = Catalog::decode(bytes).map_err(|what| unexpected(&what))?;
        if catalog.database != engine::id(&self.database)? {
            return Err(unexpected("another database"));
        }
        engine::take_collections_of(&self.database, &catalog)?;
        self.open_collections()?;
        Ok(())
    }

    fn take_records(&mut self, records: &Records) -> Result<Applied> {
        let (id, number) = (records.collection, records.partition);
        let store = self.store(id, number);
        let store = store.ok_or_else(|| unexpected("records of no partition"))?;
        let next = store.extent().last.next();
        if records.first != next {
            return Err(unexpected(&format!(
                "records from position {} on where {next} comes next",
                records.first
            )));
        }
        let durability = Durability::Async(SYNC_AFTER);
        store.ingest(records.first, &records.records, records.whole, durability)?;
        let sent = self.here(records.clock_micros);
        let delay = self.database.env().monotonic().saturating_sub(sent);
        self.look();
        Ok(Applied::Records(records.records.len() as u64, delay))
    }

    /// Opens all collections: by their ids they are found then.
    fn open_collections(&mut self) -> Result<Catalog> {
        let catalog = engine::catalog(&self.database)?;
        self.collections.clear();
        for entry in &catalog.collections {
            let stores = engine::stores(&self.database, entry)?;
            self.collections.insert(entry.id, stores);
        }
        Ok(catalog)
    }

    fn store(&self, collection: u32, number: u32) -> Option<&dyn AnyStore> {
        let stores = self.collections.get(&collection)?;
        stores.get(number as usize).map(|store| &**store)
    }

    /// The leader is gone: until it is there again there is time for other work.
    pub fn disconnected(&mut self) {
        self.put_off(false);
    }

    /// Puts the compaction of logs off, or begins it again.
    fn put_off(&mut self, put_off: bool) {
        if self.far_behind != put_off {
            self.far_behind = put_off;
            let stores = self.collections.values().flatten();
            stores.for_each(|store| store.hold_log_compaction(put_off));
        }
    }

    /// A moment of the leader's clock by the clock here; earlier than it was rather than later.
    /// Neither clock ever jumps.
    fn here(&mut self, micros: u64) -> Duration {
        let now = self.database.env().monotonic();
        let Some((requested, began)) = &mut self.clocks else {
            return now;
        };
        if *began == 0 {
            *began = micros;
        }
        let since = Duration::from_micros(micros.saturating_sub(*began));
        requested.saturating_add(since).min(now)
    }

    /// Updates since when this holds all that the leader had.
    fn look(&mut self) {
        while let Some((then, heads)) = self.ahead.front() {
            if self.missing(heads) > 0 {
                break;
            }
            self.level = self.level.max(Some(*then));
            self.ahead.pop_front();
        }
    }

    /// How many records are missing to the state of the leader that `heads` is.
    fn missing(&self, heads: &[Head]) -> u64 {
        let missing = |head: &Head| {
            // A collection that the leader had then, and that is not here, has been dropped since:
            // the catalog comes before the heads of its collections.
            let store = self.store(head.collection, head.partition)?;
            Some(head.last.0.saturating_sub(store.position().0))
        };
        heads.iter().filter_map(missing).sum()
    }

    /// How far it is behind.
    pub fn lag(&self) -> Lag {
        let now = self.database.env().monotonic();
        Lag {
            records: self.missing(&self.newest),
            time: self.level.map(|level| now.saturating_sub(level)),
        }
    }
}

fn unexpected(what: &str) -> Error {
    Error::Leader(format!("what the leader sends can't be used: {what}"))
}
