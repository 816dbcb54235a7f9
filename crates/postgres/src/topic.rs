//! The table as a topic: chunks of its rows where they belong in the stream of changes.

use crate::layout::{Layout, RowChange, What};
use crate::options::PostgresOptions;
use crate::pgoutput::Relation;
use crate::place::{Place, Snapshot, position_after, show_lsn};
use crate::rows::{self, Chunk, ChunkRows, check_key, chunk, look_up};
use crate::server;
use crate::session::Session;
use crate::slot::{self, Life};
use crate::stream::{Step, Stream, Transaction};
use crate::table::Table;
use quire_env::Env;
use quire_ship::{Change, Cursor, Fault, OnLostPosition, Result, Topic};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::time::{sleep, timeout};

/// How long a read waits for the next message before it looks whether that was all.
const PAUSE: Duration = Duration::from_millis(10);

/// How long a reader that waits for its chunk's place does not look whether the server is there.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A stream that is silent for longer than this is dead: the server looks more often whether its
/// reader is there (wal_sender_timeout).
const SILENCE_MAX: Duration = Duration::from_secs(300);

/// How long a read waits, at most, until the server's readers see what it has sent: a commit that
/// waits for standbys may take long.
const SEEN_WITHIN: Duration = Duration::from_secs(1);
const UNSEEN: &str = "the server's readers do not see a transaction yet that it has sent";

/// Rows are looked up that have large values: about the bytes of one, until that is known.
const LOOKED_UP_BYTES: usize = 64 << 10;

/// A reader of a table.
pub(crate) struct TableTopic {
    reader: Reader,
    runtime: Runtime,
}

struct Reader {
    env: Arc<dyn Env>,
    options: PostgresOptions,
    place: Place,
    /// The log up to here need not be given again; none if no place was stored.
    stored: Option<u64>,
    /// The position of the last change that was read, and of the last that was given.
    last: u64,
    given: u64,
    connected: Option<Connected>,
    chunk: Option<Chunk>,
    chunk_rows: ChunkRows,
    looked_up_bytes: usize,
}

struct Connected {
    session: Session,
    stream: Stream,
    table: Table,
}

/// What a read has found.
#[derive(Default)]
struct Found {
    changes: Vec<Change>,
    bytes: usize,
    /// Changes whose documents must be looked up: their index, key and transaction.
    open: Vec<(usize, Vec<String>, u32)>,
}

impl TableTopic {
    /// Connects, and checks that the server, the table and the place are of use.
    pub(crate) fn open(
        env: &Arc<dyn Env>,
        options: &PostgresOptions,
        place: Option<&Value>,
        runtime: Runtime,
    ) -> Result<TableTopic> {
        let place = place.map(Place::read).transpose()?;
        let mut random = [0; 8];
        env.random(&mut random);
        let reader = runtime.block_on(async {
            let mut session = Session::connect(options).await?;
            let server = server::check(&mut session).await?;
            let table = Table::read(&mut session, options).await?;
            let missing = server.missing_publication(&mut session, options, &table);
            if let Some(statement) = missing.await? {
                server::may_publish(&mut session, &table, &statement).await?;
            }
            let place = place.unwrap_or_else(|| Place {
                system: server.system,
                table: table.id,
                slot: options.slot(u64::from_le_bytes(random)),
                lost_count: 0,
                lsn: 0,
                last: 0,
                snapshot: Snapshot::Begun,
                unseen: Vec::new(),
                lost: None,
            });
            Ok::<_, Fault>(Reader {
                env: Arc::clone(env),
                options: options.clone(),
                place,
                stored: None,
                last: 0,
                given: 0,
                connected: None,
                chunk: None,
                chunk_rows: ChunkRows::new(),
                looked_up_bytes: LOOKED_UP_BYTES,
            })
        })?;
        Ok(TableTopic { reader, runtime })
    }
}

impl Topic for TableTopic {
    fn read(&mut self, cursor: &Cursor, bytes_max: usize, wait: Duration) -> Result<Vec<Change>> {
        let reader = &mut self.reader;
        // Behind the place, what the sinks had of the last run is not given again.
        reader.given = reader.given.max(cursor.position(0));
        Ok(self.runtime.block_on(reader.read(bytes_max, wait))?)
    }

    fn place(&self) -> Option<Value> {
        serde_json::to_value(&self.reader.place).ok()
    }

    fn stored(&mut self, place: &Value) {
        let Ok(place) = serde_json::from_value::<Place>(place.clone()) else {
            return;
        };
        let reader = &mut self.reader;
        // A place of a slot that was lost says nothing of the one that is read.
        if place.slot_name() == reader.place.slot_name() {
            reader.stored = Some(place.lsn);
            if let Some(connected) = &reader.connected {
                connected.stream.confirm(place.lsn);
            }
        }
    }
}

impl Reader {
    async fn read(&mut self, bytes_max: usize, wait: Duration) -> Result<Vec<Change>, Fault> {
        let (place, given) = (self.place.clone(), self.given);
        let mut found = Found::default();
        let end = match self.fill(&mut found, bytes_max, wait).await {
            Ok(mut connected) => match self.look_up(&mut connected, &mut found).await {
                Ok(()) => {
                    self.connected = Some(connected);
                    return Ok(found.changes);
                }
                Err(fault) => Err(fault),
            },
            // What was read stays read; the next attempt meets the same error.
            Err(_) if !found.changes.is_empty() && found.open.is_empty() => Ok(found.changes),
            Err(fault) => Err(fault),
        };
        (self.connected, self.chunk) = (None, None);
        if end.is_err() {
            // What is not given is read again.
            (self.place, self.given) = (place, given);
        }
        match end {
            Err(Fault::Lost(why)) if self.options.on_lost_position == OnLostPosition::Snapshot => {
                self.begin_anew(why).await
            }
            end => end,
        }
    }

    /// Has all rows read anew, from a slot of its own.
    async fn begin_anew(&mut self, why: String) -> Result<Vec<Change>, Fault> {
        let mut session = Session::connect(&self.options).await?;
        let server = server::check(&mut session).await?;
        let table = Table::read(&mut session, &self.options).await?;
        // What is not dropped is found among the server's slots, as the pages say.
        let _ = slot::release(&mut session, &self.place.slot_name()).await;
        self.place = Place {
            system: server.system,
            table: table.id,
            slot: self.place.slot.clone(),
            lost_count: self.place.lost_count + 1,
            lsn: 0,
            last: self.place.last.max(self.given),
            snapshot: Snapshot::Begun,
            unseen: Vec::new(),
            lost: Some(why),
        };
        self.stored = self.stored.map(|_| 0);
        Err(Fault::Away("all rows are read anew".to_owned()))
    }

    async fn connect(&mut self) -> Result<Connected, Fault> {
        let mut session = Session::connect(&self.options).await?;
        let server = server::check(&mut session).await?;
        let (_, table) = server::end(&mut session, &self.options).await?;
        if server.system != self.place.system {
            return Err(Fault::Lost("it is another server".to_owned()));
        }
        match table {
            None => return Err(Fault::Stop(rows::gone(&self.options))),
            Some(table) if table != self.place.table => {
                return Err(Fault::Lost("the table was made anew".to_owned()));
            }
            Some(_) => {}
        }
        let table = Table::read(&mut session, &self.options).await?;
        if let Snapshot::After(parts) = &self.place.snapshot {
            check_key(parts, &table)?;
        }
        let missing = server.missing_publication(&mut session, &self.options, &table);
        if let Some(statement) = missing.await? {
            server::publish(&mut session, &statement).await?;
        }
        let place = &mut self.place;
        let is_begun = place.lsn > 0;
        place.lsn = slot::check(&mut session, place).await?;
        let (end, _) = server::end(&mut session, &self.options).await?;
        if place.lsn > end {
            return Err(Fault::Lost(format!(
                "its log ends at {}, before the position {}",
                show_lsn(end),
                show_lsn(place.lsn)
            )));
        }
        // A reader whose place nobody stores leaves nothing at the server.
        let (life, stored) = match self.stored {
            Some(stored) => (Life::Lasting, stored),
            None => (Life::Passing, place.lsn),
        };
        let stream = Stream::open(&self.options, place, stored, life).await?;
        if !is_begun {
            place.last = position_after(place.last, place.lsn);
        }
        self.last = place.last;
        Ok(Connected {
            session,
            stream,
            table,
        })
    }

    /// Finds changes until there are enough, or no more within the wait.
    async fn fill(
        &mut self,
        found: &mut Found,
        bytes_max: usize,
        wait: Duration,
    ) -> Result<Connected, Fault> {
        let mut connected = match self.connected.take() {
            Some(connected) => connected,
            None => self.connect().await?,
        };
        let (mut waited, mut silence) = (Duration::ZERO, Duration::ZERO);
        let mut unseen = Duration::ZERO;
        while found.bytes < bytes_max {
            if self.snapshot_step(&mut connected).await? {
                self.give_chunk(found);
                continue;
            }
            match timeout(PAUSE, connected.stream.next()).await {
                Ok(step) => {
                    silence = Duration::ZERO;
                    self.take(&mut connected, step?, found).await?;
                }
                Err(_) => {
                    silence += PAUSE;
                    waited += PAUSE;
                    if silence > SILENCE_MAX {
                        return Err(Fault::Away("the stream is silent".to_owned()));
                    }
                    let is_done = self.place.snapshot == Snapshot::Done;
                    if !is_done && self.chunk.is_none() {
                        unseen += PAUSE;
                        if unseen > SEEN_WITHIN {
                            return Err(Fault::Away(UNSEEN.to_owned()));
                        }
                    }
                    if !found.changes.is_empty() && is_done {
                        break;
                    }
                    let look_after = if is_done { wait } else { LOOK_EVERY };
                    if waited >= look_after {
                        waited = Duration::ZERO;
                        if self.is_at_end(&mut connected).await? && is_done {
                            break;
                        }
                    }
                }
            }
        }
        Ok(connected)
    }

    async fn take(
        &mut self,
        connected: &mut Connected,
        step: Step,
        found: &mut Found,
    ) -> Result<(), Fault> {
        match step {
            Step::Nothing => {}
            Step::Defined(relation) => self.define(connected, &relation).await?,
            Step::Rows(rows) => {
                if let Some(transaction) = connected.stream.open {
                    for row in rows {
                        self.give_row(&transaction, row, found);
                    }
                }
            }
            Step::Heard => self.place.lsn = self.place.lsn.max(connected.stream.at),
            Step::Ended(transaction) => {
                // Where a transaction ends is a position too, which a chunk may have.
                self.last = position_after(self.last, transaction.commit_lsn);
                self.place.lsn = connected.stream.at;
                self.place.last = self.last;
                if transaction.has_rows && self.place.snapshot != Snapshot::Done {
                    self.place.unseen.push(transaction.xid);
                }
            }
        }
        Ok(())
    }

    /// Takes the columns that changes have from here on.
    async fn define(&self, connected: &mut Connected, relation: &Relation) -> Result<(), Fault> {
        let Connected {
            session,
            stream,
            table,
        } = connected;
        let ids = relation.columns.iter().map(|column| column.type_id);
        table.types.learn(session, ids.clone()).await?;
        let mut layout = Layout::of(relation, &table.types, &table.key_names());
        if layout.is_err() {
            // Columns of the key may have other names now.
            *table = Table::read(session, &self.options).await?;
            table.types.learn(session, ids).await?;
            layout = Layout::of(relation, &table.types, &table.key_names());
        }
        stream.define(layout.map_err(|why| stream.stop(&why))?);
        Ok(())
    }

    fn give_row(&mut self, transaction: &Transaction, row: RowChange, found: &mut Found) {
        let position = position_after(self.last, transaction.commit_lsn);
        self.last = position;
        if let Some(chunk) = &mut self.chunk
            && !chunk.visible.sees(transaction.xid)
        {
            chunk.rows.remove(&row.key);
        }
        if position <= self.given {
            return;
        }
        self.given = position;
        let document = match row.what {
            What::Gone => None,
            What::Is(document) => Some(document),
            What::LookUp(key) => {
                found.open.push((found.changes.len(), key, transaction.xid));
                found.bytes += self.looked_up_bytes;
                None
            }
        };
        found.push(change(position, transaction.time_micros, row.key, document));
    }

    /// Reads a chunk if there is none, and says whether it has its place here.
    async fn snapshot_step(&mut self, connected: &mut Connected) -> Result<bool, Fault> {
        let Connected {
            session, stream, ..
        } = connected;
        if self.place.snapshot == Snapshot::Done || stream.open.is_some() {
            return Ok(false);
        }
        if self.chunk.is_none() {
            let Place {
                snapshot, unseen, ..
            } = &mut self.place;
            let size = &mut self.chunk_rows;
            self.chunk = chunk(session, &self.options, snapshot, unseen, size).await?;
        }
        Ok(self
            .chunk
            .as_ref()
            .is_some_and(|chunk| stream.at >= chunk.at))
    }

    fn give_chunk(&mut self, found: &mut Found) {
        let Some(chunk) = self.chunk.take() else {
            return;
        };
        let now = self.env.now_micros();
        for (key, document) in chunk.rows {
            found.push(change(self.last, now, key, Some(document)));
        }
        self.given = self.given.max(self.last);
        self.place.snapshot = chunk.after;
        if self.place.snapshot == Snapshot::Done {
            self.place.unseen.clear();
        }
    }

    /// Reads the rows of changes that have not all values. They may be newer than their change;
    /// then the newer change comes too.
    async fn look_up(&mut self, connected: &mut Connected, found: &mut Found) -> Result<(), Fault> {
        if found.open.is_empty() {
            return Ok(());
        }
        let open = std::mem::take(&mut found.open);
        let at_once = (rows::CHUNK_BYTES / self.looked_up_bytes.max(1)).max(1);
        let mut bytes = 0;
        for open in open.chunks(at_once) {
            let keys: Vec<Vec<String>> = open.iter().map(|(_, key, _)| key.clone()).collect();
            let xids: Vec<u32> = open.iter().map(|(_, _, xid)| *xid).collect();
            let mut waited = Duration::ZERO;
            let documents = loop {
                let session = &mut connected.session;
                match look_up(session, &self.options, &keys, &xids).await? {
                    Some(documents) => break documents,
                    None if waited < SEEN_WITHIN => {
                        sleep(PAUSE).await;
                        waited += PAUSE;
                    }
                    None => return Err(Fault::Away(UNSEEN.to_owned())),
                }
            };
            // A row that is gone since was deleted, which comes too.
            for (index, ..) in open {
                let change = &mut found.changes[*index];
                change.document = documents.get(&*change.key).cloned();
                bytes += change.bytes();
            }
        }
        self.looked_up_bytes = bytes / open.len();
        Ok(())
    }

    async fn is_at_end(&self, connected: &mut Connected) -> Result<bool, Fault> {
        let (end, table) = server::end(&mut connected.session, &self.options).await?;
        let stream = &connected.stream;
        let is_at_end = stream.open.is_none() && stream.at >= end;
        match is_at_end && table != Some(self.place.table) {
            true => Err(Fault::Stop(rows::gone(&self.options))),
            false => Ok(is_at_end),
        }
    }
}

impl Found {
    fn push(&mut self, change: Change) {
        self.bytes += change.bytes();
        self.changes.push(change);
    }
}

fn change(position: u64, time_micros: i64, key: String, document: Option<Box<str>>) -> Change {
    Change {
        partition: 0,
        position,
        time_micros,
        key: key.into(),
        document,
    }
}
