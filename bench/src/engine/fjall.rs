//! fjall: one keyspace of key and text, with its defaults but for the sizes of cache and memtable.

use super::{Engine, Reader};
use crate::Result;
use crate::corpus::{Batch, key_of};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::path::Path;

/// A database with one keyspace.
pub(crate) struct Fjall {
    database: Database,
    documents: Keyspace,
}

impl Engine for Fjall {
    type Reader<'a> = FjallReader<'a>;

    fn open(dir: &Path, memory_bytes: u64) -> Result<Fjall> {
        let database = Database::builder(dir).cache_size(memory_bytes / 2).open()?;
        let options = || KeyspaceCreateOptions::default().max_memtable_size(memory_bytes / 4);
        let documents = database.keyspace("documents", options)?;
        Ok(Fjall {
            database,
            documents,
        })
    }

    fn write(&self, batch: &Batch, durable: bool) -> Result<()> {
        let mode = durable.then_some(PersistMode::SyncData);
        let mut writes = self.database.batch().durability(mode);
        for text in batch.documents() {
            writes.insert(&self.documents, key_of(text)?, text);
        }
        Ok(writes.commit()?)
    }

    fn reader(&self, _readers: u64) -> Result<FjallReader<'_>> {
        Ok(FjallReader(&self.documents))
    }

    fn sync(&self) -> Result<()> {
        Ok(self.database.persist(PersistMode::SyncAll)?)
    }

    fn close(self) -> Result<()> {
        drop(self.documents);
        drop(self.database);
        Ok(())
    }
}

/// Reads the keyspace, which threads share.
pub(crate) struct FjallReader<'a>(&'a Keyspace);

impl Reader for FjallReader<'_> {
    fn get(&mut self, key: &str, found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let Some(text) = self.0.get(key)? else {
            return Ok(false);
        };
        found(&text);
        Ok(true)
    }
}
