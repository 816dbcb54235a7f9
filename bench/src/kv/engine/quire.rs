//! Quire's keys and values. A write reaches the log's buffer in memory before it returns, and the system soon after.

use super::{Engine, Reader, Row, Sizes, Writer};
use crate::Result;
use crate::kv::stream::{Key, Value};
use quiredb::Durability;
use quiredb::kv::{Codec, Kv, KvOptions};
use std::ops::ControlFlow;
use std::path::Path;

/// A directory of keys and values.
pub(crate) struct Quire(Kv);

impl Engine for Quire {
    fn open(dir: &Path, sizes: Option<Sizes>) -> Result<Quire> {
        let mut options = KvOptions {
            durability: Durability::None,
            ..KvOptions::default()
        };
        if let Some(sizes) = sizes {
            // Four memtables are set apart; seven twelfths of the rest are for the cache, one is for pages of filters.
            options.memory_bytes = 4 * sizes.memtable_bytes + sizes.cache_bytes / 7 * 12;
            options.memtable_bytes = Some(sizes.memtable_bytes);
            options.codec = Codec::None;
            options.filter_bits_per_key = 10;
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
        let visited = self.0.iter(..)?.visit(|key, value| match row(key, value) {
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

/// What threads share.
struct QuireReader<'a>(&'a Kv);

impl Reader for QuireReader<'_> {
    fn get(&mut self, key: &Key, found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.0.get(key)?;
        if let Some(value) = &value {
            found(value);
        }
        Ok(value.is_some())
    }
}

impl Writer for QuireReader<'_> {
    fn put(&mut self, key: &Key, value: &Value) -> Result<()> {
        Ok(self.0.put(key, value)?)
    }
}
