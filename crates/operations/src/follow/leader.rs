//! The leader's side of following: what comes after what a follower has, as it becomes durable.

use super::cursor::Verdict;
use super::hello::{HELLO_VERSION, Hello};
use super::wire::{Frame, Head, Records};
use quire_database::catalog::Catalog;
use quire_database::{Database, Error, Result, engine};
use quire_model::Position;
use quire_store::{AnyStore, LogHold, Shipped};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Record bytes of one message, about.
const FRAME_BYTES: usize = 1 << 20;

/// Bytes of messages made at a time, about.
const PIECE_BYTES: usize = 4 << 20;

/// The pause after a small piece: what is written meanwhile is sent together.
const PAUSE: Duration = Duration::from_millis(2);
const SMALL_BYTES: usize = 64 << 10;

/// The longest that a follower waits for a sync of records that were acknowledged before they were
/// durable.
const SYNC_AFTER: Duration = Duration::from_millis(50);

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
    store: Arc<dyn AnyStore>,
    seen: Position,
    /// What it has not seen stays in the log.
    hold: LogHold,
    /// Since when it has held records that were not durable, and how far it was durable then.
    unsynced: Option<(Duration, Position)>,
}

/// Begins to serve a follower; `hello` is what [`Replica::hello`](super::Replica::hello) gave
/// there. If it can't follow, the stream says why, and ends.
///
/// A follower takes a copy of the leader's files first, then the records that come after it. The
/// caller carries the bytes between the two; here they are in one process:
///
/// ```
/// use quiredb::operations::{FollowerDir, Frame, Replica, copy_for_follower, serve_follower};
/// use quiredb::{Database, Document, OsEnv};
/// use std::ops::ControlFlow::Continue;
/// use std::time::Duration;
/// # let dir = tempfile::tempdir()?;
///
/// let leader = Database::open(dir.path().join("leader"))?;
/// let songs = leader.collection_or_create("songs", Default::default)?;
/// songs.put(&Document::from_json(br#"{"_id":1,"title":"Jolene"}"#)?)?;
///
/// let mut copies = FollowerDir::open(OsEnv::new()?, &dir.path().join("follower"))?;
/// let files = copy_for_follower(&leader)?;
/// let copy = copies.begin_copy(files.plan().as_bytes())?;
/// for file in copy.missing()? {
///     let mut bytes = Vec::new();
///     files.send(file, &mut |message| {
///         bytes.extend(message);
///         Continue(())
///     })?;
///     copy.receive(file, &mut &bytes[..], &|_| Continue(()))?;
/// }
/// let path = copies.finish_copy(&copy)?;
/// let mut replica = Replica::new(Database::builder(&path).retention(false).open()?);
///
/// songs.put(&Document::from_json(br#"{"_id":2,"title":"Hurt"}"#)?)?;
/// let mut stream = serve_follower(&leader, &replica.hello()?)?;
/// while replica.database().collection("songs")?.count()? < 2 {
///     let messages = stream.next(Duration::from_secs(1))?.expect("the leader goes on");
///     let mut messages = &messages[..];
///     while let Some(frame) = Frame::read(&mut messages)? {
///         replica.apply(frame)?;
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// `Invalid` if these are no such bytes; `Corrupt` for damage in a log; `Closed`; those of the
/// machine.
pub fn serve_follower(database: &Database, hello: &[u8]) -> Result<LeaderStream> {
    let invalid = |error: &dyn std::fmt::Display| {
        Error::Invalid(format!("this is not what a follower says: {error}"))
    };
    let hello: Hello = serde_json::from_slice(hello).map_err(|error| invalid(&error))?;
    if hello.version != HELLO_VERSION {
        return Err(invalid(&format_args!("version {}", hello.version)));
    }
    let mut stream = LeaderStream {
        database: database.clone(),
        catalog: None,
        partitions: BTreeMap::new(),
        seen: BTreeMap::new(),
        turn: 0,
        last_bytes: 0,
        ending: None,
        ended: false,
    };
    match judge_follower(database, &hello)? {
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
fn judge_follower(database: &Database, hello: &Hello) -> Result<Verdict> {
    let (ours, theirs) = (engine::catalog(database)?, &hello.catalog);
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
            && (other.name != entry.name || other.settings.partitions != entry.settings.partitions)
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
        let stores = engine::stores(database, entry)?;
        let judged = match stores.get(cursor.partition as usize) {
            Some(store) => cursor.judge(&entry.name, &**store)?,
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

impl LeaderStream {
    /// The next messages, encoded; none at the end. It returns after `patience` at the latest, as
    /// the leader reports regularly how far it is.
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
            let catalog = engine::catalog(&self.database)?;
            if self.catalog.as_ref() != Some(&catalog) {
                self.follow_catalog(catalog)?;
                if self.ending.is_some() {
                    break;
                }
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
            let stores = match engine::stores(&self.database, entry) {
                // Dropped since: the next catalog says so.
                Err(Error::NoCollection { .. }) => continue,
                opened => opened?,
            };
            for (number, store) in (0..).zip(stores) {
                let id = (entry.id, number);
                if let Some(following) = self.partitions.remove(&id) {
                    partitions.insert(id, following);
                    continue;
                }
                let seen = self.seen.get(&id).copied().unwrap_or(Position(0));
                let hold = store.hold_log(seen);
                // Before the follower takes a catalog that drops what it serves, as after a split.
                if store.ship(seen, 1)? == Shipped::Gap {
                    self.start_over(number, seen);
                }
                let following = Following {
                    hold,
                    store,
                    seen,
                    unsynced: None,
                };
                partitions.insert(id, following);
            }
        }
        self.partitions = partitions;
        self.catalog = Some(catalog);
        Ok(())
    }

    /// Ends the stream: the follower needs a copy.
    fn start_over(&mut self, number: u32, seen: Position) {
        self.ending = Some(Frame::StartOver(format!(
            "the log of partition {number} no longer has all records after position {seen}"
        )));
    }

    /// Appends what is durable and not yet sent. Returns how far the partitions were when it began.
    fn ship(&mut self, clock: Duration, out: &mut Vec<u8>) -> Result<Vec<Head>> {
        let mut heads = Vec::new();
        for ((collection, number), following) in &mut self.partitions {
            let extent = following.store.extent();
            following.sync_if_due(clock)?;
            heads.push(Head {
                collection: *collection,
                partition: *number,
                last: extent.last,
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
            match following.store.ship(following.seen, FRAME_BYTES) {
                Ok(Shipped::Nothing) => {}
                Ok(Shipped::Gap) => {
                    let (number, seen) = (*number, following.seen);
                    self.start_over(number, seen);
                    break;
                }
                Ok(Shipped::Records { records, whole }) => {
                    let first = following.seen.next();
                    following.seen = Position(following.seen.0 + records.len() as u64);
                    following.hold.advance(following.seen);
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
                Err(error) if error.kind() == quire_store::ErrorKind::Closed => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(heads)
    }

    /// Waits until there is something to send.
    fn wait(&self, timeout: Duration) {
        let is_news = |following: &Following| following.store.extent().durable > following.seen;
        let is_changed = |catalog| engine::catalog_is_still(&self.database, catalog) == Some(false);
        engine::changed(&self.database).wait_until(
            &mut || {
                self.partitions.values().any(is_news)
                    || self.catalog.as_ref().is_some_and(is_changed)
            },
            timeout,
        );
    }
}

impl Following {
    /// Makes durable what has waited for it long enough: its writer chose less, but the
    /// follower gets it only then.
    fn sync_if_due(&mut self, now: Duration) -> Result<()> {
        let extent = self.store.extent();
        if extent.durable >= extent.last {
            self.unsynced = None;
            return Ok(());
        }
        match self.unsynced {
            Some((since, durable)) if durable == extent.durable => {
                if now.saturating_sub(since) >= SYNC_AFTER {
                    self.store.sync_log()?;
                    self.unsynced = None;
                }
            }
            _ => self.unsynced = Some((now, extent.durable)),
        }
        Ok(())
    }
}

fn micros(clock: Duration) -> u64 {
    u64::try_from(clock.as_micros()).unwrap_or(u64::MAX)
}
