//! Quire's keys and values. A write is in the log's buffer in memory before it returns, and goes to
//! the operating system soon after.

use super::{Engine, Reader, Row, Sizes, Writer};
use crate::Result;
use crate::kv::stream::{Key, Value};
use quiredb::Durability;
use quiredb::kv::{BulkLoad, Codec, Kv, KvOptions};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Mutex;

/// A directory of keys and values.
pub(crate) struct Quire(Kv);

impl Engine for Quire {
    fn open(dir: &Path, sizes: Option<Sizes>) -> Result<Quire> {
        let mut options = KvOptions {
            durability: Durability::None,
            ..KvOptions::default()
        };
        if let Some(sizes) = sizes {
            // Four memtables are set apart; seven twelfths of the rest are for the cache, one is
            // for pages of filters.
            options.memory_bytes = 4 * sizes.memtable_bytes + sizes.cache_bytes / 7 * 12;
            options.memtable_bytes = Some(sizes.memtable_bytes);
            options.codec = Codec::None;
            // 10 bits a key.
            options.filter_false_positives = 0.01;
        }
        Ok(Quire(Kv::open(dir, options)?))
    }

    fn write(&self, work: &mut dyn FnMut(&mut dyn Writer) -> Result<()>) -> Result<()> {
        work(&mut QuireReader(&self.0))
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>> {
        Ok(Box::new(QuireReader(&self.0)))
    }

    fn scan(&self, row: Row<'_>) -> Result<()> {
        let visited = self
            .0
            .range(..)?
            .visit(|key, value| match row(key, value) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => ControlFlow::Break(error),
            })?;
        match visited {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(error) => Err(error),
        }
    }

    fn settle(&self) -> Result<()> {
        Ok(self.0.settle()?)
    }

    fn close(self) -> Result<()> {
        Ok(self.0.close()?)
    }
}

/// The same, but that what is written before it settles is one bulk load.
pub(crate) struct QuireLoad {
    quire: Quire,
    load: Mutex<Option<BulkLoad>>,
}

impl Engine for QuireLoad {
    fn open(dir: &Path, sizes: Option<Sizes>) -> Result<QuireLoad> {
        let quire = Quire::open(dir, sizes)?;
        let load = Mutex::new(Some(quire.0.bulk_load()?));
        Ok(QuireLoad { quire, load })
    }

    fn write(&self, work: &mut dyn FnMut(&mut dyn Writer) -> Result<()>) -> Result<()> {
        match &mut *self.load.lock().map_err(|_| "a thread panicked")? {
            Some(load) => work(&mut Loading(load)),
            None => self.quire.write(work),
        }
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>> {
        self.quire.reader()
    }

    fn scan(&self, row: Row<'_>) -> Result<()> {
        self.quire.scan(row)
    }

    fn settle(&self) -> Result<()> {
        let load = self.load.lock().map_err(|_| "a thread panicked")?.take();
        load.map_or(Ok(()), BulkLoad::finish)?;
        self.quire.settle()
    }

    fn close(self) -> Result<()> {
        drop(self.load);
        self.quire.close()
    }
}

/// A load takes pairs and shows none.
struct Loading<'a>(&'a mut BulkLoad);

impl Reader for Loading<'_> {
    fn get(&mut self, _: &Key, _: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(false)
    }
}

impl Writer for Loading<'_> {
    fn put(&mut self, key: &Key, value: &Value) -> Result<()> {
        Ok(self.0.put(key, value)?)
    }
}

/// What threads share.
struct QuireReader<'a>(&'a Kv);

impl Reader for QuireReader<'_> {
    fn get(&mut self, key: &Key, found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(self.0.visit(key, found)?.is_some())
    }
}

impl Writer for QuireReader<'_> {
    fn put(&mut self, key: &Key, value: &Value) -> Result<()> {
        Ok(self.0.put(key, value)?)
    }
}
