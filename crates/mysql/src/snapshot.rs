//! Chunks of a table's rows, each a consistent read at a known position of the binlog.

use crate::fault::Fault;
use crate::options::{MysqlOptions, quoted};
use crate::place::{Offset, Snapshot};
use crate::row;
use crate::table::Table;
use crate::value;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Value};

/// About the bytes of a chunk, and bounds of its rows.
const CHUNK_BYTES: usize = 2 << 20;
const ROWS_FIRST: usize = 500;
const ROWS_MAX: usize = 20_000;

/// Rows, and where the binlog was when they were read.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) at: Offset,
    /// Keys and documents.
    pub(crate) rows: Vec<(String, Box<str>)>,
    /// How far the rows are read after this chunk.
    pub(crate) after: Snapshot,
}

/// How many rows are read at once: as many as [`CHUNK_BYTES`] had of late.
#[derive(Debug)]
pub(crate) struct ChunkRows(usize);

impl ChunkRows {
    pub(crate) fn new() -> ChunkRows {
        ChunkRows(ROWS_FIRST)
    }

    fn learn(&mut self, rows: usize, bytes: usize) {
        if let Some(fitting) = (rows * CHUNK_BYTES).checked_div(bytes) {
            // A few rows of much data must not follow many of little.
            self.0 = fitting.clamp(1, (self.0 * 2).min(ROWS_MAX));
        }
    }
}

/// Reads the next chunk.
pub(crate) async fn chunk(
    conn: &mut Conn,
    options: &MysqlOptions,
    table: &Table,
    progress: &Snapshot,
    size: &mut ChunkRows,
) -> Result<Chunk, Fault> {
    conn.query_drop("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        .await?;
    let status: Vec<(String, String)> = conn
        .query("SHOW STATUS WHERE variable_name LIKE 'binlog_snapshot_%'")
        .await?;
    let status = |name: &str| {
        let mut found = status.iter().filter(|row| row.0.eq_ignore_ascii_case(name));
        found.next().map(|row| row.1.clone()).unwrap_or_default()
    };
    let file = status("binlog_snapshot_file");
    let offset = status("binlog_snapshot_position").parse();
    let at = match offset {
        Ok(offset) if !file.is_empty() => Offset { file, offset },
        _ => return Err(Fault::Stop("the server has no binlog_snapshot_file".into())),
    };
    let limit = size.0;
    let rows: Vec<mysql_async::Row> = conn
        .exec(query(options, table, progress, limit), ())
        .await?;
    conn.query_drop("COMMIT").await?;
    let count = rows.len();
    let mut after = Snapshot::Done;
    let (mut found, mut bytes) = (Vec::with_capacity(count), 0);
    for (index, row) in rows.into_iter().enumerate() {
        let values: Vec<Value> = row.unwrap();
        let document = row::document(&table.columns, &values);
        bytes += document.len();
        if index + 1 == limit {
            let parts = table.key.iter();
            let parts = parts.map(|at| value::sql(table.columns[*at].1, &values[*at]));
            after = Snapshot::After(parts.map(Option::unwrap_or_default).collect());
        }
        found.push((row::key(&table.columns, &table.key, &values), document));
    }
    size.learn(count, bytes);
    Ok(Chunk {
        at,
        rows: found,
        after,
    })
}

fn query(options: &MysqlOptions, table: &Table, progress: &Snapshot, limit: usize) -> String {
    let names: Vec<String> = table.columns.iter().map(|(name, _)| quoted(name)).collect();
    let key: Vec<&str> = table.key.iter().map(|at| names[*at].as_str()).collect();
    let bound = match progress {
        // After it in the order of the key: (a > x) OR (a = x AND b > y) and so on, which, other
        // than (a, b) > (x, y), is found by the index.
        Snapshot::After(parts) => {
            let terms = (0..key.len()).map(|last| {
                let equal = key.iter().zip(parts).take(last);
                let equal = equal.map(|(name, part)| format!("{name} = {part} AND "));
                let equal: String = equal.collect();
                format!("({equal}{} > {})", key[last], parts[last])
            });
            format!(" WHERE {}", terms.collect::<Vec<_>>().join(" OR "))
        }
        Snapshot::Begun | Snapshot::Done => String::new(),
    };
    format!(
        "SELECT {} FROM {} FORCE INDEX (PRIMARY){bound} ORDER BY {} LIMIT {limit}",
        names.join(", "),
        options.quoted_table(),
        key.join(", ")
    )
}
