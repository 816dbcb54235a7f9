//! The table as a topic: chunks of its rows where they belong in the stream of changes.
//!
//! Documents of one table are in the stream as they are. Joined documents are looked up: a change
//! marks what it concerns, and a chunk has documents as they were when it was read. It is given
//! when the stream is at its position, up to which it shows all changes. It may show changes that
//! were committed in the moment between its position and its snapshot, and when there are too many
//! marks for memory, it is given long before the stream is there. The stream then has these changes
//! still before it, and they mark their documents once more. So a document shows all changes up to
//! its position, and each change is followed by the documents that it concerns: the last one given
//! of a key is the newest.

use crate::dirty::{Between, Dirty};
use crate::lookup::{self, DOCUMENTS_MAX, Wanted};
use crate::mark::{Changed, marks};
use crate::options::MysqlOptions;
use crate::place::{Place, Snapshot, position};
use crate::snapshot::{Chunk, ChunkRows, Done, chunk};
use crate::stream::{Rows, Step, Stream};
use crate::table::{Table, charsets, read_all};
use crate::{direct, relation, server};
use mysql_async::Conn;
use quire_env::Env;
use quire_ship::{Change, Cursor, Error, Fault, OnLostPosition, Result, Topic};
use serde_json::Value;
use std::collections::HashSet;
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
    /// The last end of a transaction that was read.
    ended: Between,
    /// What must be looked up of joined documents; none if documents have one table.
    dirty: Option<Dirty>,
    /// The last chunk was of marks: rows that were not read yet are next.
    is_turn_of_rows: bool,
}

struct Connected {
    conn: Conn,
    stream: Stream,
    tables: Vec<Table>,
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
            let begun = async {
                let server_id = server::check(&mut conn).await?;
                defined(&mut conn, options).await?;
                match place {
                    Some(place) => Ok(place),
                    None => begin(&mut conn, server_id, 0, None).await,
                }
            };
            let place = options.within(begun).await?;
            Ok::<_, Fault>(Reader {
                env: Arc::clone(env),
                options: options.clone(),
                ended: (place.at.clone(), place.gtid.clone()),
                place,
                given: 0,
                connected: None,
                chunk: None,
                chunk_rows: ChunkRows::new(),
                dirty: None,
                is_turn_of_rows: false,
            })
        })?;
        Ok(TableTopic { reader, runtime })
    }
}

/// The definitions of the tables, of which the documents can be made.
async fn defined(conn: &mut Conn, options: &MysqlOptions) -> Result<Vec<Table>, Fault> {
    let tables = read_all(conn, options).await?;
    relation::check(options, &tables).map_err(Fault::Stop)?;
    Ok(tables)
}

/// The columns with JSON of each table, which the binlog has as text.
fn json(tables: &[Table]) -> Vec<HashSet<String>> {
    tables.iter().map(Table::json).collect()
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
                let mut conn = self.options.connect().await?;
                let server_id = server::check(&mut conn).await?;
                let epoch = self.place.next_epoch()?;
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
        let tables = defined(&mut conn, &self.options).await?;
        if let Snapshot::After(parts) = &self.place.snapshot
            && parts.len() != tables[0].key.len()
        {
            return Err(Fault::Stop(
                "the primary key has other columns than when the rows began to be read: empty \
                 the sinks, remove their positions and run again"
                    .to_owned(),
            ));
        }
        let gtid = server::gtid_at(&mut conn, &self.place.at).await?;
        if server_id != self.place.server_id || !self.place.is_of(gtid.as_deref()) {
            // Its offsets are others: positions begin above all of the server before it.
            self.place.epoch = self.place.next_epoch()?;
            self.place.server_id = server_id;
        }
        // What was marked is read again, from the place on.
        self.chunk = None;
        self.ended = (self.place.at.clone(), self.place.gtid.clone());
        let is_joined = !self.options.joins.is_empty();
        self.dirty = is_joined.then(|| Dirty::new(self.ended.clone()));
        let known = (charsets(&mut conn).await?, json(&tables));
        let mut random = [0; 4];
        self.env.random(&mut random);
        let random = u32::from_le_bytes(random);
        let binlog = self.options.connect().await?;
        let stream = Stream::open(binlog, &self.options, &self.place, known, random).await?;
        Ok(Connected {
            conn,
            stream,
            tables,
        })
    }

    /// Appends changes until there are enough, or no more within the wait.
    async fn fill(
        &mut self,
        changes: &mut Vec<Change>,
        bytes_max: usize,
        wait: Duration,
    ) -> Result<(), Fault> {
        let options = self.options.clone();
        let mut connected = match self.connected.take() {
            Some(connected) => connected,
            None => options.within(self.connect()).await?,
        };
        let (mut bytes, mut waited) = (0, Duration::ZERO);
        let mut silence = Duration::ZERO;
        while bytes < bytes_max {
            if options.within(self.chunk_step(&mut connected)).await? {
                bytes += self.give_chunk(&connected, changes);
                if self.dirty.is_some() && !changes.is_empty() {
                    // A step is much work, and the next may have to wait for the stream.
                    break;
                }
                continue;
            }
            let step = match timeout(PAUSE, connected.stream.next()).await {
                Ok(step) => step?,
                Err(_) if self.chunk.is_some() || self.is_behind() => {
                    // A heartbeat says when the stream is at the chunk's position.
                    silence = silent(silence)?;
                    continue;
                }
                Err(_) if !changes.is_empty() => break,
                Err(_) => {
                    silence = silent(silence)?;
                    waited += PAUSE;
                    if waited >= wait && options.within(self.is_at_end(&mut connected)).await? {
                        break;
                    }
                    continue;
                }
            };
            silence = Duration::ZERO;
            match step {
                Step::Nothing => {}
                Step::Rows(rows) if self.dirty.is_some() => self.mark(&connected.stream, &rows)?,
                Step::Rows(rows) => bytes += self.give(&rows, changes),
                Step::Ended { is_defined } => {
                    self.ended = (connected.stream.at.clone(), connected.stream.gtid());
                    self.settle();
                    if is_defined {
                        let tables = defined(&mut connected.conn, &self.options);
                        connected.tables = options.within(tables).await?;
                        connected.stream.redefine(json(&connected.tables));
                        // It may have been read with the former columns.
                        self.chunk = None;
                    }
                }
            }
        }
        self.connected = Some(connected);
        Ok(())
    }

    /// Whether there is something to read beside the stream.
    fn is_behind(&self) -> bool {
        let is_clean = self.dirty.as_ref().is_none_or(Dirty::is_clean);
        self.place.snapshot != Snapshot::Done || !is_clean
    }

    /// Marks what changed rows concern.
    fn mark(&mut self, stream: &Stream, rows: &Rows) -> Result<(), Fault> {
        let Some(dirty) = &mut self.dirty else {
            return Ok(());
        };
        for images in &rows.images {
            let changed = Changed::new(&rows.layout, images);
            let marks = marks(&self.options, rows.table, &changed);
            let table = &self.options.tables[rows.table];
            for mark in marks.map_err(|why| stream.stop_at(table, &why))? {
                dirty.add(mark, rows.time_micros);
            }
        }
        Ok(())
    }

    /// Gives changed rows as documents.
    fn give(&mut self, rows: &Rows, changes: &mut Vec<Change>) -> usize {
        let mut bytes = 0;
        for row in direct::changes(rows, &self.options.fields) {
            let position = position(self.place.epoch, &row.at);
            if position <= self.given {
                continue;
            }
            self.given = position;
            let change = change(position, rows.time_micros, row.key, row.document);
            bytes += change.bytes();
            changes.push(change);
        }
        bytes
    }

    /// Moves the place to where all changes before it were given.
    fn settle(&mut self) {
        let settled = match &self.dirty {
            Some(dirty) => dirty.settled(&self.ended),
            None => Some(&self.ended),
        };
        if let Some((at, gtid)) = settled {
            self.place.at.clone_from(at);
            self.place.gtid.clone_from(gtid);
        }
    }

    /// Reads a chunk if there is none, and says whether it has its place here.
    async fn chunk_step(&mut self, connected: &mut Connected) -> Result<bool, Fault> {
        loop {
            let is_full = self.dirty.as_ref().is_some_and(Dirty::is_full);
            if !connected.stream.is_between() && !is_full {
                return Ok(false);
            }
            if !is_full && position(self.place.epoch, &connected.stream.at) < self.given {
                // Sinks have later changes already, which the stream does not give again.
                return Ok(false);
            }
            let chunk = match self.chunk.take() {
                Some(chunk) => chunk,
                None => match self.next_chunk(connected, is_full).await? {
                    Some(chunk) => chunk,
                    None => {
                        // Marks may have had no documents.
                        self.settle();
                        return Ok(false);
                    }
                },
            };
            let (at, now) = (chunk.at.order(), connected.stream.at.order());
            if at < now {
                // The server may send what its readers can't see yet: it is read once more.
                if !is_full {
                    return Ok(false);
                }
                tokio::time::sleep(PAUSE).await;
            } else if at == now {
                self.chunk = Some(chunk);
                return Ok(true);
            } else if !is_full {
                self.chunk = Some(chunk);
                return Ok(false);
            } else {
                // It may be after a change of columns that the stream did not come to yet.
                let tables = read_all(&mut connected.conn, &self.options).await?;
                if tables == connected.tables {
                    self.chunk = Some(chunk);
                    return Ok(true);
                }
                connected.tables = tables;
            }
        }
    }

    /// Reads what is next: marked documents and rows by turns.
    async fn next_chunk(
        &mut self,
        connected: &mut Connected,
        is_full: bool,
    ) -> Result<Option<Chunk>, Fault> {
        let Connected {
            conn,
            stream,
            tables,
        } = connected;
        let (options, size) = (&self.options, &mut self.chunk_rows);
        let progress = &self.place.snapshot;
        let has_rows = *progress != Snapshot::Done;
        let Some(dirty) = &mut self.dirty else {
            return match has_rows {
                true => chunk(conn, options, &tables[0], progress, size)
                    .await
                    .map(Some),
                false => Ok(None),
            };
        };
        let is_turn_of_rows = has_rows && self.is_turn_of_rows && !is_full;
        let mut marked = None;
        if !is_turn_of_rows {
            dirty.turn(&self.ended);
            while let Some(related) = dirty.related(DOCUMENTS_MAX) {
                let found = lookup::find(conn, options, &tables[0], related).await?;
                if found.at.order() < stream.at.order() {
                    // Readers can't see yet what the server sent.
                    return Ok(None);
                }
                dirty.found(&found.related, found.keys, found.rest);
            }
            marked = dirty.keys(DOCUMENTS_MAX);
        }
        let wanted = match marked {
            Some((keys, time_micros)) => Wanted::Marked(keys, time_micros),
            None if has_rows => Wanted::Rows(progress.clone()),
            None => return Ok(None),
        };
        lookup::chunk(conn, options, tables, wanted, size)
            .await
            .map(Some)
    }

    fn give_chunk(&mut self, connected: &Connected, changes: &mut Vec<Change>) -> usize {
        let Some(chunk) = self.chunk.take() else {
            return 0;
        };
        let position = position(self.place.epoch, &connected.stream.at);
        let time_micros = chunk.time_micros.unwrap_or_else(|| self.env.now_micros());
        let mut bytes = 0;
        for (key, document) in chunk.documents {
            if let Some(dirty) = &mut self.dirty {
                dirty.given(&key);
            }
            let change = change(position, time_micros, key, document);
            bytes += change.bytes();
            changes.push(change);
        }
        self.given = self.given.max(position);
        self.is_turn_of_rows = matches!(chunk.done, Done::Marked);
        if let Done::Rows(after) = chunk.done {
            self.place.snapshot = after;
        }
        self.settle();
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
