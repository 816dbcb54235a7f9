//! The binlog from a place on, as changed rows of the tables that are followed.

use crate::ddl::{Effect, effect};
use crate::fault::OrFault;
use crate::options::{MysqlOptions, TableName};
use crate::place::{Gtids, Offset, Place};
use crate::table::Layout;
use futures_util::StreamExt;
use mysql_async::binlog::events::{BinlogEventHeader, Event, EventData, RowsEventData};
use mysql_async::binlog::value::BinlogValue;
use mysql_async::prelude::Queryable;
use mysql_async::{BinlogStream, BinlogStreamRequest, Conn, Value};
use quire_ship::Fault;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Numbers of events that the library knows, and of MariaDB's own.
const QUERY: u8 = 2;
const ROTATE: u8 = 4;
const FORMAT_DESCRIPTION: u8 = 15;
const XID: u8 = 16;
const ROWS: [u8; 6] = [23, 24, 25, 30, 31, 32];
const XA_PREPARE: u8 = 38;
const MARIADB_GTID: u8 = 162;
const COMPRESSED: std::ops::RangeInclusive<u8> = 165..=171;

/// The flag of a transaction that is one statement.
const STANDALONE: u8 = 1;

/// How often a server with nothing to say says where it is, in nanoseconds.
const HEARTBEAT_NS: u64 = 200_000_000;

/// A checksum at the end of an event.
const CHECKSUM_BYTES: usize = 4;

/// Servers tell replicas apart by their ids: one at random of the upper half.
const REPLICA_ID_MIN: u32 = 1 << 31;

/// The values of a row before and after a change.
pub(crate) type Images = (Option<Vec<Value>>, Option<Vec<Value>>);

/// The rows of a table that a change has.
#[derive(Debug)]
pub(crate) struct Rows {
    /// The number of the table in the options.
    pub(crate) table: usize,
    pub(crate) layout: Arc<Layout>,
    /// Where the event begins.
    pub(crate) start: Offset,
    pub(crate) time_micros: i64,
    pub(crate) images: Vec<Images>,
}

/// What an event was.
#[derive(Debug)]
pub(crate) enum Step {
    Nothing,
    Rows(Rows),
    /// The end of a transaction; whether a table may have other columns after it.
    Ended {
        is_defined: bool,
    },
}

/// A reader of the binlog.
pub(crate) struct Stream {
    stream: BinlogStream,
    tables: Vec<TableName>,
    charsets: HashMap<u16, String>,
    /// The columns with JSON of each table.
    json: Vec<HashSet<String>>,
    /// The end of the last event.
    pub(crate) at: Offset,
    gtids: Gtids,
    /// The transaction that is read.
    open: Option<Open>,
    layouts: HashMap<u64, Option<(usize, Arc<Layout>)>>,
    /// The library learns of checksums from an event that comes after the first name of a file, so
    /// that name has the bytes of one at its end.
    first_checksum_bytes: usize,
}

#[derive(Debug, Default)]
struct Open {
    gtid: (u32, u32, u64),
    is_standalone: bool,
    is_defined: bool,
    has_rows: bool,
}

impl Stream {
    /// Requests the binlog after a place. A place that is gone is reported by the first read.
    pub(crate) async fn open(
        mut conn: Conn,
        options: &MysqlOptions,
        place: &Place,
        (charsets, json): (HashMap<u16, String>, Vec<HashSet<String>>),
        random: u32,
    ) -> Result<Stream, Fault> {
        // Capability 4: the server sends transactions' ids as they are.
        conn.query_drop(format!(
            "SET @mariadb_slave_capability = 4, @slave_connect_state = '{}', \
             @slave_gtid_strict_mode = 0, @slave_gtid_ignore_duplicates = 0, \
             @master_heartbeat_period = {HEARTBEAT_NS}",
            Gtids::parse(&place.gtid)
        ))
        .await
        .or_fault()?;
        let checksum: Option<String> = conn
            .query_first("SELECT @@GLOBAL.binlog_checksum")
            .await
            .or_fault()?;
        let request = BinlogStreamRequest::new(random | REPLICA_ID_MIN);
        let stream = conn.get_binlog_stream(request).await.or_fault()?;
        Ok(Stream {
            stream,
            tables: options.tables.clone(),
            charsets,
            json,
            at: Offset {
                file: String::new(),
                offset: 0,
            },
            gtids: Gtids::parse(&place.gtid),
            open: None,
            layouts: HashMap::new(),
            first_checksum_bytes: match checksum.as_deref() {
                Some("NONE") => 0,
                _ => CHECKSUM_BYTES,
            },
        })
    }

    /// Whether it is between transactions.
    pub(crate) fn is_between(&self) -> bool {
        self.open.is_none()
    }

    /// The last transactions that ended.
    pub(crate) fn gtid(&self) -> String {
        self.gtids.to_string()
    }

    /// The columns may be others from here on.
    pub(crate) fn redefine(&mut self, json: Vec<HashSet<String>>) {
        self.json = json;
        self.layouts.clear();
    }

    /// Reads an event. May be dropped while it waits.
    pub(crate) async fn next(&mut self) -> Result<Step, Fault> {
        match self.stream.next().await {
            Some(event) => self.take(&event.or_fault()?),
            None => Err(Fault::Away("the server ended the stream".to_owned())),
        }
    }

    fn take(&mut self, event: &Event) -> Result<Step, Fault> {
        let header = event.header();
        let code = header.event_type_raw();
        if code == ROTATE {
            if let Some(EventData::RotateEvent(to)) = event.read_data().map_err(unreadable)? {
                let name = to.name_raw();
                let end = name.len().saturating_sub(self.first_checksum_bytes);
                self.at = Offset {
                    file: String::from_utf8_lossy(&name[..end]).into_owned(),
                    offset: to.position(),
                };
            }
            self.layouts.clear();
            return Ok(Step::Nothing);
        }
        self.advance(header);
        match code {
            FORMAT_DESCRIPTION => {
                self.layouts.clear();
                self.first_checksum_bytes = 0;
            }
            MARIADB_GTID => self.open = Some(opened(header.server_id(), event.data())?),
            QUERY => return self.statement(event),
            XID => return Ok(self.end()),
            XA_PREPARE if self.open.as_ref().is_some_and(|open| open.has_rows) => {
                return Err(self.stop("an XA transaction changed the table; they are not read"));
            }
            XA_PREPARE => return Ok(self.end()),
            code if COMPRESSED.contains(&code) => {
                return Err(self.stop(
                    "the event is compressed: SET GLOBAL log_bin_compress = 0; then empty the \
                     sinks, remove their positions and run again",
                ));
            }
            code if ROWS.contains(&code) => {
                if let Some(EventData::RowsEvent(rows)) = event.read_data().map_err(unreadable)? {
                    return self.rows(header, &rows);
                }
            }
            _ => {}
        }
        Ok(Step::Nothing)
    }

    /// Moves to the end of an event. Headers have 32 bits of it, files may be longer.
    fn advance(&mut self, header: BinlogEventHeader) {
        let low = u64::from(header.log_pos());
        if low == 0 {
            return;
        }
        let upper = self.at.offset & !u64::from(u32::MAX);
        let wraps = upper + low < self.at.offset && self.at.offset - (upper + low) > 1 << 31;
        let end = upper + low + (u64::from(wraps) << 32);
        self.at.offset = self.at.offset.max(end);
    }

    fn end(&mut self) -> Step {
        let Some(open) = self.open.take() else {
            return Step::Nothing;
        };
        self.gtids.advance(open.gtid);
        Step::Ended {
            is_defined: open.is_defined,
        }
    }

    fn statement(&mut self, event: &Event) -> Result<Step, Fault> {
        let Some(EventData::QueryEvent(query)) = event.read_data().map_err(unreadable)? else {
            return Ok(Step::Nothing);
        };
        let (text, schema) = (query.query(), query.schema());
        if ["COMMIT", "ROLLBACK"].contains(&text.trim()) {
            return Ok(self.end());
        }
        for table in &self.tables {
            match effect(&text, &schema, &table.database, &table.name) {
                Effect::None => {}
                Effect::Defined => {
                    if let Some(open) = &mut self.open {
                        open.is_defined = true;
                    }
                }
                Effect::Emptied(how) => {
                    return Err(self.stop_at(
                        table,
                        &format!(
                            "the table was {how}, which removes rows without a change of each. \
                             Empty the sinks, remove their positions and run again, or build the \
                             indexes anew (`quire reindex`)"
                        ),
                    ));
                }
                Effect::Statement => {
                    return Err(self.stop_at(
                        table,
                        "a statement changed the table, and the binlog does not have the rows: \
                         let no session set binlog_format to another than ROW. Empty the sinks, \
                         remove their positions and run again",
                    ));
                }
            }
        }
        match self.open.as_ref().is_some_and(|open| open.is_standalone) {
            true => Ok(self.end()),
            false => Ok(Step::Nothing),
        }
    }

    fn rows(&mut self, header: BinlogEventHeader, rows: &RowsEventData<'_>) -> Result<Step, Fault> {
        let id = rows.table_id();
        let Some(map) = self.stream.get_tme(id) else {
            return Err(self.stop("rows of an unknown table"));
        };
        if !self.layouts.contains_key(&id) {
            let is_this = |table: &TableName| {
                map.database_name() == table.database && map.table_name() == table.name
            };
            let table = self.tables.iter().position(is_this);
            let layout = table.map(|table| {
                let layout = Layout::of(map, &self.charsets, &self.json[table]);
                layout
                    .map(|layout| (table, Arc::new(layout)))
                    .map_err(|why| self.stop_at(&self.tables[table], &why))
            });
            let layout = layout.transpose()?;
            self.layouts.insert(id, layout);
        }
        let Some(Some((table, layout))) = self.layouts.get(&id) else {
            return Ok(Step::Nothing);
        };
        let (table, layout) = (*table, Arc::clone(layout));
        if let Some(open) = &mut self.open {
            open.has_rows = true;
        }
        let mut images = Vec::new();
        for row in rows.rows(map) {
            let (before, after) = row.map_err(unreadable)?;
            let values = |row: Option<mysql_async::binlog::row::BinlogRow>| {
                let values = row.map(|row| values(&layout, row)).transpose();
                values.map_err(|why| self.stop_at(&self.tables[table], &why))
            };
            images.push((values(before)?, values(after)?));
        }
        let event_bytes = u64::from(header.event_size());
        Ok(Step::Rows(Rows {
            table,
            layout,
            start: Offset {
                file: self.at.file.clone(),
                offset: self.at.offset.saturating_sub(event_bytes),
            },
            time_micros: i64::from(header.timestamp()) * 1_000_000,
            images,
        }))
    }

    fn stop(&self, why: &str) -> Fault {
        self.stop_at(&self.tables[0], why)
    }

    /// What a reader says that can't go on here because of a table.
    pub(crate) fn stop_at(&self, table: &TableName, why: &str) -> Fault {
        let Offset { file, offset } = &self.at;
        Fault::Stop(format!("{table} at {file}:{offset}: {why}"))
    }
}

/// The row's values as a query gives them.
fn values(layout: &Layout, row: mysql_async::binlog::row::BinlogRow) -> Result<Vec<Value>, String> {
    if row.len() != layout.columns.len() {
        return Err("a change has not all columns: set binlog_row_image to FULL".to_owned());
    }
    let values = row.unwrap().into_iter().enumerate();
    let values = values.map(|(index, value)| match value {
        BinlogValue::Value(value) => Ok(layout.value(index, value)),
        _ => Err(format!("column {}: JSON of MySQL", layout.columns[index].0)),
    });
    values.collect()
}

fn unreadable(error: std::io::Error) -> Fault {
    Fault::Stop(format!("an event of the binlog can't be read: {error}"))
}

/// Reads MariaDB's event of a transaction's id: number (8 bytes), domain (4), flags (1).
fn opened(server: u32, data: &[u8]) -> Result<Open, Fault> {
    let (Some(number), Some(domain), Some(flags)) =
        (data.first_chunk(), data.get(8..12), data.get(12))
    else {
        return Err(Fault::Stop("a transaction's id is cut".to_owned()));
    };
    let domain = domain.iter().rev();
    let domain = domain.fold(0, |number, byte| (number << 8) | u32::from(*byte));
    Ok(Open {
        gtid: (domain, server, u64::from_le_bytes(*number)),
        is_standalone: flags & STANDALONE != 0,
        ..Open::default()
    })
}
