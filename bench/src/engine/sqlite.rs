//! SQLite: a table of key and text, in write-ahead-log mode, one transaction a batch.
//!
//! A plain rowid table with an index over the key: rows of a kilobyte are appended, and only the
//! index is written in key order. (`WITHOUT ROWID` would keep whole rows in key order, which
//! SQLite's manual advises against for large rows.)

use super::{Engine, Reader};
use crate::Result;
use crate::corpus::{Batch, key_of};
use rusqlite::{Connection, OptionalExtension};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// A database file. SQLite has one writer at a time, so there is one connection for writes.
pub(crate) struct Sqlite {
    path: PathBuf,
    cache_bytes: u64,
    writer: Mutex<Connection>,
}

impl Engine for Sqlite {
    type Reader<'a> = SqliteReader;

    fn open(dir: &Path, memory_bytes: u64) -> Result<Sqlite> {
        std::fs::create_dir_all(dir)?;
        let (path, cache_bytes) = (dir.join("documents.sqlite"), memory_bytes / 2);
        let writer = connect(&path, cache_bytes)?;
        writer.pragma_update(None, "journal_mode", "wal")?;
        writer.execute(
            "CREATE TABLE IF NOT EXISTS documents (key TEXT PRIMARY KEY, body TEXT NOT NULL)",
            (),
        )?;
        Ok(Sqlite {
            path,
            cache_bytes,
            writer: Mutex::new(writer),
        })
    }

    fn write(&self, batch: &Batch, durable: bool) -> Result<()> {
        // Keys are found, and texts checked, before the one writer is locked.
        let keys: Vec<String> = batch.documents().map(key_of).collect::<Result<_>>()?;
        let mut writer = self.writer.lock().map_err(|_| "another thread failed")?;
        // FULL syncs the write-ahead log at each commit; OFF leaves it to the system.
        writer.pragma_update(None, "synchronous", if durable { "full" } else { "off" })?;
        let transaction = writer.transaction()?;
        {
            let sql = "INSERT INTO documents (key, body) VALUES (?1, ?2) \
                       ON CONFLICT (key) DO UPDATE SET body = ?2";
            let mut insert = transaction.prepare_cached(sql)?;
            for (key, text) in keys.iter().zip(batch.documents()) {
                insert.execute((key, text))?;
            }
        }
        Ok(transaction.commit()?)
    }

    fn reader(&self, readers: u64) -> Result<SqliteReader> {
        Ok(SqliteReader(connect(
            &self.path,
            self.cache_bytes / readers,
        )?))
    }

    fn sync(&self) -> Result<()> {
        let writer = self.writer.lock().map_err(|_| "another thread failed")?;
        writer.pragma_update(None, "synchronous", "full")?;
        writer.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()))?;
        // This sync also makes durable what earlier checkpoints wrote to the same file unsynced.
        Ok(File::open(&self.path)?.sync_all()?)
    }

    fn close(self) -> Result<()> {
        let writer = self
            .writer
            .into_inner()
            .map_err(|_| "another thread failed")?;
        writer.close().map_err(|(_, error)| error.into())
    }
}

fn connect(path: &Path, cache_bytes: u64) -> Result<Connection> {
    let connection = Connection::open(path)?;
    // A negative size is in KiB.
    connection.pragma_update(None, "cache_size", -i64::try_from(cache_bytes >> 10)?)?;
    Ok(connection)
}

/// A connection of a thread's own.
pub(crate) struct SqliteReader(Connection);

impl Reader for SqliteReader {
    fn get(&mut self, key: &str, found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let mut select = self
            .0
            .prepare_cached("SELECT body FROM documents WHERE key = ?1")?;
        let row = select.query_row([key], |row| {
            found(row.get_ref(0)?.as_bytes()?);
            Ok(())
        });
        Ok(row.optional()?.is_some())
    }
}
