//! The table as a topic: chunks of its rows where they belong in the stream of changes.

use crate::fault::Fault;
use crate::options::MysqlOptions;
use crate::place::{Place, Snapshot, position};
use crate::server;
use crate::snapshot::{Chunk, ChunkRows, chunk};
use crate::stream::{Step, Stream};
use crate::table::{Table, charsets};
use mysql_async::Conn;
use quire_env::Env;
use quire_ship::{Change, Cursor, Error, OnLostPosition, Result, Topic};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::time::timeout;

/// How long a read waits for the next event before it looks whether that was all.
const PAUSE: Duration = Duration::from_millis(10);

/// A stream that is silent for longer than this is dead: heartbeats come more often.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// A reader of a table.
pub(crate) struct TableTopic {
    reader: Reader,
    runtime: Runtime,
}

struct Reader {
    env: Arc<dyn Env>,
    options: MysqlOptions,
    place: Place,
    /// The position of the last change that was given.
    given: u64,
    connected: Option<Connected>,
    chunk: Option<Chunk>,
    chunk_rows: ChunkRows,
}

struct Connected {
    conn: Conn,
    stream: Stream,
    table: Table,
}

impl TableTopic {
    /// Connects, and checks that the server, the table and the place are of use.
    pub(crate) fn open(
        env: &Arc<dyn Env>,
        options: &MysqlOptions,
        place: Option<&Value>,
        runtime: Runtime,
    ) -> Result<TableTopic> {
        let place: Option<Place> = place
            .map(|place| serde_json::from_value(place.clone()))
            .transpose()
            .map_err(|error| Error::Source(format!("the stored place can't be read: {error}")))?;
        let reader = runtime.block_on(async {
            let mut conn = options.connect().await?;
            let server_id = server::check(&mut conn).await?;
            Table::read(&mut conn, options).await?;
            let place = match place {
                Some(place) => place,
                None => begin(&mut conn, server_id, 0, None).await?,
            };
            Ok::<_, Fault>(Reader {
                env: Arc::clone(env),
                options: options.clone(),
                place,
                given: 0,
                connected: None,
                chunk: None,
                chunk_rows: ChunkRows::new(),
            })
        })?;
        Ok(TableTopic { reader, runtime })
    }
}

/// The place from which all rows are read.
async fn begin(
    conn: &mut Conn,
    server_id: u32,
    epoch: u64,
    lost: Option<String>,
) -> Result<Place, Fault> {
    let at = server::end(conn).await?;
    Ok(Place {
        server_id,
        epoch,
        gtid: server::gtid(conn, &at).await?,
        at,
        snapshot: Snapshot::Begun,
        lost,
    })
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
}

impl Reader {
    async fn read(&mut self, bytes_max: usize, wait: Duration) -> Result<Vec<Change>, Fault> {
        let mut changes = Vec::new();
        let end = self.fill(&mut changes, bytes_max, wait).await;
        match end {
            Ok(()) => Ok(changes),
            // What was read stays read; the next attempt meets the same error.
            Err(_) if !changes.is_empty() => {
                self.connected = None;
                Ok(changes)
            }
            Err(Fault::Lost(why)) if self.options.on_lost_position == OnLostPosition::Snapshot => {
                self.connected = None;
                self.chunk = None;
                let mut conn = self.options.connect().await?;
                let server_id = server::check(&mut conn).await?;
                let epoch = self.place.epoch + 1;
                self.place = begin(&mut conn, server_id, epoch, Some(why)).await?;
                Err(Fault::Away("all rows are read anew".to_owned()))
            }
            Err(fault) => {
                self.connected = None;
                Err(fault)
            }
        }
    }

    async fn connect(&mut self) -> Result<Connected, Fault> {
        let mut conn = self.options.connect().await?;
        let server_id = server::check(&mut conn).await?;
        let table = Table::read(&mut conn, &self.options).await?;
        if let Snapshot::After(parts) = &self.place.snapshot
            && parts.len() != table.key.len()
        {
            return Err(Fault::Stop(
                "the primary key has other columns than when the rows began to be read: empty \
                 the sinks, remove their positions and run again"
                    .to_owned(),
            ));
        }
        if server_id != self.place.server_id {
            // Its offsets are others: positions begin above all of the server before it.
            self.place.server_id = server_id;
            self.place.epoch += 1;
        }
        let known = (charsets(&mut conn).await?, table.json());
        let mut random = [0; 4];
        self.env.random(&mut random);
        let random = u32::from_le_bytes(random);
        let binlog = self.options.connect().await?;
        let stream = Stream::open(binlog, &self.options, &self.place, known, random).await?;
        Ok(Connected {
            conn,
            stream,
            table,
        })
    }

    /// Appends changes until there are enough, or no more within the wait.
    async fn fill(
        &mut self,
        changes: &mut Vec<Change>,
        bytes_max: usize,
        wait: Duration,
    ) -> Result<(), Fault> {
        let mut connected = match self.connected.take() {
            Some(connected) => connected,
            None => self.connect().await?,
        };
        let (mut bytes, mut waited) = (0, Duration::ZERO);
        let mut silence = Duration::ZERO;
        while bytes < bytes_max {
            if self.snapshot_step(&mut connected).await? {
                bytes += self.give_chunk(changes);
                continue;
            }
            let step = match timeout(PAUSE, connected.stream.next()).await {
                Ok(step) => step?,
                Err(_) if self.place.snapshot != Snapshot::Done => {
                    // A heartbeat says when the stream is at the chunk's position.
                    silence = silent(silence)?;
                    continue;
                }
                Err(_) if !changes.is_empty() => break,
                Err(_) => {
                    silence = silent(silence)?;
                    waited += PAUSE;
                    if waited >= wait && self.is_at_end(&mut connected).await? {
                        break;
                    }
                    continue;
                }
            };
            silence = Duration::ZERO;
            match step {
                Step::Nothing => {}
                Step::Rows(rows) => {
                    for row in rows {
                        let position = position(self.place.epoch, &row.at);
                        if position <= self.given {
                            continue;
                        }
                        self.given = position;
                        let change = change(position, row.time_micros, row.key, row.document);
                        bytes += change.bytes();
                        changes.push(change);
                    }
                }
                Step::Ended { is_defined } => {
                    self.place.at = connected.stream.at.clone();
                    self.place.gtid = connected.stream.gtid();
                    if is_defined {
                        connected.table = Table::read(&mut connected.conn, &self.options).await?;
                        connected.stream.redefine(connected.table.json());
                    }
                }
            }
        }
        self.connected = Some(connected);
        Ok(())
    }

    /// Reads a chunk if there is none, and says whether it has its place here.
    async fn snapshot_step(&mut self, connected: &mut Connected) -> Result<bool, Fault> {
        let Connected {
            conn,
            stream,
            table,
        } = connected;
        if self.place.snapshot == Snapshot::Done || !stream.is_between() {
            return Ok(false);
        }
        let chunk = match self.chunk.take() {
            Some(chunk) => chunk,
            None => {
                let progress = &self.place.snapshot;
                chunk(conn, &self.options, table, progress, &mut self.chunk_rows).await?
            }
        };
        let (at, now) = (chunk.at.order(), stream.at.order());
        // The server may send what its readers can't see yet: then the rows are read once more.
        if at >= now {
            self.chunk = Some(chunk);
        }
        Ok(at == now)
    }

    fn give_chunk(&mut self, changes: &mut Vec<Change>) -> usize {
        let Some(chunk) = self.chunk.take() else {
            return 0;
        };
        let position = position(self.place.epoch, &chunk.at);
        let now = self.env.now_micros();
        let mut bytes = 0;
        for (key, document) in chunk.rows {
            let change = change(position, now, key, Some(document));
            bytes += change.bytes();
            changes.push(change);
        }
        self.given = self.given.max(position);
        self.place.snapshot = chunk.after;
        bytes
    }

    async fn is_at_end(&self, connected: &mut Connected) -> Result<bool, Fault> {
        let end = server::end(&mut connected.conn).await?;
        Ok(connected.stream.is_between() && connected.stream.at.order() >= end.order())
    }
}

fn silent(silence: Duration) -> Result<Duration, Fault> {
    match silence < SILENCE_MAX {
        true => Ok(silence + PAUSE),
        false => Err(Fault::Away("the stream is silent".to_owned())),
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
