//! Quire, in this process, through its public Rust interface.

use super::{Engine, Reader};
use crate::Result;
use crate::corpus::{Batch, KEY_FIELD};
use quiredb::{
    Collection, CollectionSettings, Database, Document, Durability, IndexedFields, Key, Write,
};
use std::path::Path;

/// A database with one collection.
pub(crate) struct Quire {
    database: Database,
    documents: Collection,
}

impl Engine for Quire {
    type Reader<'a> = QuireReader<'a>;

    fn open(dir: &Path, memory_bytes: u64) -> Result<Quire> {
        let database = Database::builder(dir).memory(memory_bytes).open()?;
        let settings = || CollectionSettings {
            key_field: KEY_FIELD.into(),
            index: IndexedFields::none(),
            ..CollectionSettings::default()
        };
        let documents = database.collection_or_create("documents", settings)?;
        Ok(Quire {
            database,
            documents,
        })
    }

    fn write(&self, batch: &Batch, durable: bool) -> Result<()> {
        let mut writes = Vec::with_capacity(batch.len());
        for text in batch.documents() {
            let document = Document::from_json(text.as_bytes())?;
            writes.push(Write::put(self.documents.key_of(&document)?, document));
        }
        let durability = if durable {
            Durability::Sync
        } else {
            Durability::None
        };
        for result in self
            .documents
            .batch()
            .writes(writes)
            .durability(durability)
            .write()
        {
            result?;
        }
        Ok(())
    }

    fn reader(&self, _readers: u64) -> Result<QuireReader<'_>> {
        Ok(QuireReader {
            documents: &self.documents,
            json: Vec::new(),
        })
    }

    fn sync(&self) -> Result<()> {
        Ok(self.documents.sync()?)
    }

    fn close(self) -> Result<()> {
        Ok(self.database.close()?)
    }
}

/// Gets documents and writes them out as JSON.
pub(crate) struct QuireReader<'a> {
    documents: &'a Collection,
    json: Vec<u8>,
}

impl Reader for QuireReader<'_> {
    fn get(&mut self, key: &str, found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let Some(document) = self.documents.get(&Key::parse(key)?)? else {
            return Ok(false);
        };
        self.json.clear();
        document.document.write_json(&mut self.json);
        found(&self.json);
        Ok(true)
    }
}
