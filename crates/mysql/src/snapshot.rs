//! Chunks of a table's rows, each a consistent read at a known position of the binlog.

use crate::fault::OrFault;
use crate::fields::Fields;
use crate::options::{MysqlOptions, quoted};
use crate::place::{Offset, Snapshot};
use crate::row;
use crate::table::Table;
use crate::value;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Value};
use quire_ship::Fault;

/// About the bytes of a chunk, and bounds of its rows.
const CHUNK_BYTES: usize = 2 << 20;
const ROWS_FIRST: usize = 500;
const ROWS_MAX: usize = 20_000;

/// Documents of more bytes are not kept of a chunk: the next one begins with them.
const BYTES_MAX: usize = 8 * CHUNK_BYTES;

/// Documents, and a position of the binlog up to which they show all changes.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) at: Offset,
    /// Keys and documents; none where the row is gone.
    pub(crate) documents: Vec<(String, Option<Box<str>>)>,
    /// When the first change that they show was committed; none for rows that are read first.
    pub(crate) time_micros: Option<i64>,
    pub(crate) done: Done,
}

/// What a chunk completes.
#[derive(Debug)]
pub(crate) enum Done {
    /// The rows up to a key.
    Rows(Snapshot),
    /// The marks of the documents.
    Marked,
}

/// How many rows are read at once: as many as [`CHUNK_BYTES`] had of late.
#[derive(Debug)]
pub(crate) struct ChunkRows(usize);

impl ChunkRows {
    pub(crate) fn new() -> ChunkRows {
        ChunkRows(ROWS_FIRST)
    }

    pub(crate) fn get(&self) -> usize {
        self.0
    }

    pub(crate) fn learn(&mut self, rows: usize, bytes: usize, rows_max: usize) {
        if let Some(fitting) = (rows * CHUNK_BYTES).checked_div(bytes) {
            // A few rows of much data must not follow many of little.
            self.0 = fitting.clamp(1, (self.0 * 2).min(rows_max));
        }
    }

    /// Too much was read; false if it was one row.
    pub(crate) fn shrink(&mut self) -> bool {
        let could = self.0 > 1;
        self.0 = (self.0 / 2).max(1);
        could
    }
}

/// Begins a consistent read, and says up to where in the binlog it shows all changes; it may show
/// later ones too.
///
/// The server has one place for the position of a snapshot, which each `SHOW STATUS` of any
/// connection writes before it reads. Within the snapshot, the answer may therefore be the
/// position of another connection, which is later. Before the snapshot begins, every answer is a
/// position whose changes readers can see already.
///
/// # Errors
/// Of the server, and if it keeps no binlog.
pub(crate) async fn begin(conn: &mut Conn) -> Result<Offset, Fault> {
    let at = loop {
        let (one, other) = (visible(conn).await?, visible(conn).await?);
        // The file's name may be of another connection than the offset. That matters only where
        // a file begins: then the offset of the file before it is the greater one.
        if one.file == other.file {
            break if one.offset < other.offset {
                one
            } else {
                other
            };
        }
    };
    conn.query_drop("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        .await
        .or_fault()?;
    Ok(at)
}

/// A position up to which readers see all changes.
async fn visible(conn: &mut Conn) -> Result<Offset, Fault> {
    let status: Vec<(String, String)> = conn
        .query("SHOW STATUS WHERE variable_name LIKE 'binlog_snapshot_%'")
        .await
        .or_fault()?;
    let status = |name: &str| {
        let mut found = status.iter().filter(|row| row.0.eq_ignore_ascii_case(name));
        found.next().map(|row| row.1.clone()).unwrap_or_default()
    };
    let file = status("binlog_snapshot_file");
    let offset = status("binlog_snapshot_position").parse();
    match offset {
        Ok(offset) if !file.is_empty() => Ok(Offset { file, offset }),
        _ => Err(Fault::Stop("the server has no binlog_snapshot_file".into())),
    }
}

/// Reads the next chunk of one table.
pub(crate) async fn chunk(
    conn: &mut Conn,
    options: &MysqlOptions,
    table: &Table,
    progress: &Snapshot,
    size: &mut ChunkRows,
) -> Result<Chunk, Fault> {
    let at = begin(conn).await?;
    let limit = size.get();
    let fields = Fields::of(&options.fields, &table.columns);
    let mut after = Snapshot::Done;
    let (mut documents, mut bytes) = (Vec::new(), 0);
    let query = query(options, table, progress, limit);
    let mut rows = conn.exec_iter(query, ()).await.or_fault()?;
    // All are read from the connection, and as many are kept as memory allows.
    while let Some(row) = rows.next().await.or_fault()? {
        if bytes > BYTES_MAX {
            continue;
        }
        let values: Vec<Value> = row.unwrap();
        let mut document = String::new();
        fields.write(&values, &mut document);
        bytes += document.len();
        if documents.len() + 1 == limit || bytes > BYTES_MAX {
            after = Snapshot::After(parts(table, &values));
        }
        let key = row::key(&table.columns, &table.key, &values);
        documents.push((key, Some(document.into())));
    }
    drop(rows);
    conn.query_drop("COMMIT").await.or_fault()?;
    size.learn(documents.len(), bytes, ROWS_MAX);
    Ok(Chunk {
        at,
        documents,
        time_micros: None,
        done: Done::Rows(after),
    })
}

/// The values of a row's primary key as SQL.
pub(crate) fn parts(table: &Table, values: &[Value]) -> Vec<String> {
    let parts = table.key.iter();
    let parts = parts.map(|at| value::sql(table.columns[*at].1, &values[*at]));
    parts.map(Option::unwrap_or_default).collect()
}

fn query(options: &MysqlOptions, table: &Table, progress: &Snapshot, limit: usize) -> String {
    let names: Vec<String> = table.columns.iter().map(|(name, _)| quoted(name)).collect();
    let key: Vec<String> = table.key.iter().map(|at| names[*at].clone()).collect();
    let bound = match progress {
        Snapshot::After(parts) => format!(" WHERE {}", after(&key, parts)),
        Snapshot::Begun | Snapshot::Done => String::new(),
    };
    format!(
        "SELECT {} FROM {} FORCE INDEX (PRIMARY){bound} ORDER BY {} LIMIT {limit}",
        names.join(", "),
        options.tables[0].quoted(),
        key.join(", ")
    )
}

/// The condition for rows after a key, in its order: (a > x) OR (a = x AND b > y) and so on, which,
/// other than (a, b) > (x, y), is found by the index.
pub(crate) fn after(key: &[String], parts: &[String]) -> String {
    let terms = (0..key.len().min(parts.len())).map(|last| {
        let equal = key.iter().zip(parts).take(last);
        let equal: String = equal
            .map(|(name, part)| format!("{name} = {part} AND "))
            .collect();
        format!("({equal}{} > {})", key[last], parts[last])
    });
    terms.collect::<Vec<_>>().join(" OR ")
}
