//! redb: a B+-tree in a file, without a log. Many writes share a transaction that is not durable.
//! One transaction in [`DURABLE_EVERY`] is durable: otherwise freed pages could not be used again.

use super::{Engine, Reader, Row, Sizes, Writer};
use crate::Result;
use crate::kv::stream::{Key, Value};
use redb::{
    Database, Durability, ReadOnlyTable, ReadableDatabase, ReadableTable, Table, TableDefinition,
};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

const ROWS: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("rows");

/// One transaction in this many is durable.
const DURABLE_EVERY: u64 = 100;

/// A database with one table.
pub(crate) struct Redb {
    database: Database,
    transactions: AtomicU64,
}

impl Engine for Redb {
    fn open(dir: &Path, sizes: Option<Sizes>) -> Result<Redb> {
        let mut builder = Database::builder();
        if let Some(sizes) = sizes {
            // Its one cache holds the dirty pages too.
            builder.set_cache_size(usize::try_from(sizes.cache_bytes + sizes.memtable_bytes)?);
        }
        Ok(Redb {
            database: builder.create(dir.join("rows.redb"))?,
            transactions: AtomicU64::new(0),
        })
    }

    fn write(&self, work: &mut dyn FnMut(&mut dyn Writer) -> Result<()>) -> Result<()> {
        let mut transaction = self.database.begin_write()?;
        let number = self.transactions.fetch_add(1, Ordering::Relaxed) + 1;
        if !number.is_multiple_of(DURABLE_EVERY) {
            transaction.set_durability(Durability::None)?;
        }
        work(&mut transaction.open_table(ROWS)?)?;
        Ok(transaction.commit()?)
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>> {
        Ok(Box::new(self.table()?))
    }

    fn scan(&self, row: Row<'_>) -> Result<()> {
        for found in self.table()?.iter()? {
            let (key, value) = found?;
            row(key.value(), value.value())?;
        }
        Ok(())
    }

    /// An empty transaction that is durable makes those before it so.
    fn settle(&self) -> Result<()> {
        Ok(self.database.begin_write()?.commit()?)
    }

    fn close(self) -> Result<()> {
        Ok(())
    }
}

impl Redb {
    fn table(&self) -> Result<ReadOnlyTable<&'static [u8], &'static [u8]>> {
        Ok(self.database.begin_read()?.open_table(ROWS)?)
    }
}

impl Reader for ReadOnlyTable<&'static [u8], &'static [u8]> {
    fn get(&mut self, key: &Key, found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(hand(ReadableTable::get(self, key.as_slice())?, found))
    }
}

impl Reader for Table<'_, &'static [u8], &'static [u8]> {
    fn get(&mut self, key: &Key, found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(hand(ReadableTable::get(self, key.as_slice())?, found))
    }
}

fn hand(value: Option<redb::AccessGuard<'_, &'static [u8]>>, found: &mut dyn FnMut(&[u8])) -> bool {
    if let Some(value) = &value {
        found(value.value());
    }
    value.is_some()
}

impl Writer for Table<'_, &'static [u8], &'static [u8]> {
    fn put(&mut self, key: &Key, value: &Value) -> Result<()> {
        self.insert(key.as_slice(), value.as_slice())?;
        Ok(())
    }
}
