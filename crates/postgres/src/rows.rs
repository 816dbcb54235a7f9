//! Rows of the table, as a snapshot of the server sees them: chunks of all, and single ones.

use crate::fault::state;
use crate::options::PostgresOptions;
use crate::place::{Snapshot, parse_lsn};
use crate::row;
use crate::session::{Session, field};
use crate::table::{Table, key_in_sql};
use crate::visible::Visible;
use crate::wire::Row;
use quire_ship::Fault;
use std::collections::{BTreeMap, HashMap};

/// About the bytes of a chunk, and bounds of its rows.
pub(crate) const CHUNK_BYTES: usize = 2 << 20;
const ROWS_FIRST: usize = 500;
const ROWS_MAX: usize = 20_000;

/// Rows of more bytes are not kept of a chunk: the next one begins with them.
const BYTES_MAX: usize = 8 * CHUNK_BYTES;

/// Bytes of the log before a record that begins a page, and a segment.
const PAGE_HEADER_BYTES: u64 = 24;
const SEGMENT_HEADER_BYTES: u64 = 40;

/// Rows, and which transactions they are after.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) visible: Visible,
    /// The stream has given all of those transactions when it is here.
    pub(crate) at: u64,
    /// Documents by their keys.
    pub(crate) rows: BTreeMap<String, Box<str>>,
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

/// A transaction that reads, with the table's definition and its snapshot.
struct Reading {
    table: Table,
    visible: Visible,
    at: u64,
}

/// Begins one. The table's definition can't change before it ends.
async fn begin(session: &mut Session, options: &PostgresOptions) -> Result<Reading, Fault> {
    session
        .query(&format!(
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; LOCK TABLE {} IN ACCESS SHARE MODE",
            options.quoted_table()
        ))
        .await
        .map_err(|fault| match fault {
            Fault::Stop(why) if state(&why) == "42P01" => Fault::Stop(gone(options)),
            fault => fault,
        })?;
    let table = Table::read(session, options).await?;
    // The snapshot is older than the end of the log, so the log has all that it sees.
    let rows = session
        .query(
            "SELECT pg_current_snapshot(), pg_current_wal_insert_lsn(), \
             current_setting('wal_block_size'), pg_size_bytes(current_setting('wal_segment_size'))",
        )
        .await?;
    let row = rows.first().cloned().unwrap_or_default();
    let number = |index| field(&row, index).parse().unwrap_or(u64::MAX);
    let visible = Visible::parse(field(&row, 0));
    let at = parse_lsn(field(&row, 1)).map(|at| end_of_record(at, number(2), number(3)));
    match (visible, at) {
        (Some(visible), Some(at)) => Ok(Reading { table, visible, at }),
        _ => Err(Fault::Stop(format!("snapshot {row:?} can't be read"))),
    }
}

/// Where the last record ends, of where the next one begins: before the header of its page.
fn end_of_record(next: u64, page: u64, segment: u64) -> u64 {
    for (unit, header) in [(segment, SEGMENT_HEADER_BYTES), (page, PAGE_HEADER_BYTES)] {
        if next.checked_rem(unit) == Some(header) {
            return next - header;
        }
    }
    next
}

/// That the table is not there.
pub(crate) fn gone(options: &PostgresOptions) -> String {
    format!(
        "table {}.{} was dropped or renamed. Name a table that is there in [source], empty the \
         sinks, remove their positions and run again",
        options.schema, options.table
    )
}

/// Reads the next chunk. None if its snapshot does not see all of the transactions in `unseen` yet,
/// which the stream has given; those that it sees are taken out.
pub(crate) async fn chunk(
    session: &mut Session,
    options: &PostgresOptions,
    progress: &Snapshot,
    unseen: &mut Vec<u32>,
    size: &mut ChunkRows,
) -> Result<Option<Chunk>, Fault> {
    let Reading { table, visible, at } = begin(session, options).await?;
    unseen.retain(|xid| !visible.sees(*xid));
    if !unseen.is_empty() {
        session.query("COMMIT").await?;
        return Ok(None);
    }
    let key = table.quoted_key();
    let bound = match progress {
        Snapshot::After(parts) => {
            check_key(parts, &table)?;
            format!(" WHERE ({key}) > {}", key_in_sql(parts))
        }
        Snapshot::Begun | Snapshot::Done => String::new(),
    };
    let limit = size.0;
    let query = format!(
        "SELECT {} FROM {}{bound} ORDER BY {key} LIMIT {limit}",
        table.quoted_columns().join(", "),
        table.from(options)
    );
    let (rows, is_cut) = session.query_first(&query, BYTES_MAX).await?;
    session.query("COMMIT").await?;
    let after = match rows.last() {
        Some(last) if is_cut || rows.len() == limit => {
            let parts = table.key.iter().map(|at| field(last, *at).to_owned());
            Snapshot::After(parts.collect())
        }
        _ => Snapshot::Done,
    };
    let (count, mut bytes) = (rows.len(), 0);
    let mut documents = BTreeMap::new();
    for row in rows {
        let (key, document) = of_row(&table, &row);
        bytes += document.len();
        documents.insert(key, document);
    }
    size.learn(count, bytes);
    Ok(Some(Chunk {
        visible,
        at,
        rows: documents,
        after,
    }))
}

/// Refuses a table whose primary key is another than that by which rows were read.
pub(crate) fn check_key(parts: &[String], table: &Table) -> Result<(), Fault> {
    match parts.len() == table.key.len() {
        true => Ok(()),
        false => Err(Fault::Stop(
            "the primary key has other columns than when the rows began to be read: empty the \
             sinks, remove their positions and run again"
                .to_owned(),
        )),
    }
}

/// The documents of these keys as they are now, by key. None if the snapshot does not see all of
/// these transactions yet.
pub(crate) async fn look_up(
    session: &mut Session,
    options: &PostgresOptions,
    keys: &[Vec<String>],
    xids: &[u32],
) -> Result<Option<HashMap<String, Box<str>>>, Fault> {
    let Reading { table, visible, .. } = begin(session, options).await?;
    if !xids.iter().all(|xid| visible.sees(*xid)) {
        session.query("COMMIT").await?;
        return Ok(None);
    }
    for parts in keys {
        check_key(parts, &table)?;
    }
    let keys: Vec<String> = keys.iter().map(|parts| key_in_sql(parts)).collect();
    let rows = session
        .query(&format!(
            "SELECT {} FROM {} WHERE ({}) IN ({})",
            table.quoted_columns().join(", "),
            table.from(options),
            table.quoted_key(),
            keys.join(", ")
        ))
        .await?;
    session.query("COMMIT").await?;
    Ok(Some(rows.iter().map(|row| of_row(&table, row)).collect()))
}

fn of_row(table: &Table, row: &Row) -> (String, Box<str>) {
    let values: Vec<Option<&str>> = row.iter().map(Option::as_deref).collect();
    let parts = table.key.iter();
    let parts = parts.map(|at| (&table.columns[*at].1, field(row, *at)));
    (row::key(parts), row::document(&table.columns, &values))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_begins_a_page_is_after_its_header() {
        let (page, segment) = (8192, 16 << 20);
        assert_eq!(end_of_record(3 * page + 24, page, segment), 3 * page);
        assert_eq!(end_of_record(2 * segment + 40, page, segment), 2 * segment);
        assert_eq!(end_of_record(3 * page + 40, page, segment), 3 * page + 40);
        assert_eq!(end_of_record(3 * page, page, segment), 3 * page);
    }
}
