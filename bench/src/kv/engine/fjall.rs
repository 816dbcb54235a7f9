//! fjall: one keyspace. Each write goes to the operating system before it returns, and to the disk
//! when the journal is synced.

use super::{Engine, Reader, Row, Sizes, Writer};
use crate::Result;
use crate::kv::stream::{Key, Value};
use fjall::config::{BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::path::Path;

/// A database with one keyspace.
pub(crate) struct Fjall {
    database: Database,
    rows: Keyspace,
}

impl Engine for Fjall {
    fn open(dir: &Path, sizes: Option<Sizes>) -> Result<Fjall> {
        let (mut builder, mut options) = (Database::builder(dir), KeyspaceCreateOptions::default());
        if let Some(sizes) = sizes {
            let bits = BloomConstructionPolicy::BitsPerKey(10.0);
            builder = builder.cache_size(sizes.cache_bytes);
            options = options
                .max_memtable_size(sizes.memtable_bytes)
                .filter_policy(FilterPolicy::all(FilterPolicyEntry::Bloom(bits)))
                .data_block_compression_policy(CompressionPolicy::disabled());
        }
        let database = builder.open()?;
        let rows = database.keyspace("rows", || options)?;
        Ok(Fjall { database, rows })
    }

    fn write(&self, work: &mut dyn FnMut(&mut dyn Writer) -> Result<()>) -> Result<()> {
        work(&mut FjallReader(&self.rows))
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>> {
        Ok(Box::new(FjallReader(&self.rows)))
    }

    fn scan(&self, row: Row<'_>) -> Result<()> {
        for found in self.rows.iter() {
            let (key, value) = found.into_inner()?;
            row(&key, &value)?;
        }
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        self.database.persist(PersistMode::SyncAll)?;
        Ok(self.rows.rotate_memtable_and_wait()?)
    }

    fn close(self) -> Result<()> {
        Ok(())
    }
}

/// The keyspace, which threads share.
struct FjallReader<'a>(&'a Keyspace);

impl Reader for FjallReader<'_> {
    fn get(&mut self, key: &Key, found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.0.get(key)?;
        if let Some(value) = &value {
            found(value);
        }
        Ok(value.is_some())
    }
}

impl Writer for FjallReader<'_> {
    fn put(&mut self, key: &Key, value: &Value) -> Result<()> {
        Ok(self.0.insert(key, value)?)
    }
}
