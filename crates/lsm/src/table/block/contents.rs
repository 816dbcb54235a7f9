//! A block in memory, as the cache and values that are parts of it hold it.

use super::layout::Layout;
use crate::TableDamage;
use bytes::Bytes;
use quire_env::Cached;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// A block's contents, checked as far as its table of restarts, or whole.
#[derive(Debug)]
pub(crate) struct Block {
    pub(super) bytes: Bytes,
    pub(super) layout: Layout,
    used: AtomicBool,
}

impl Block {
    /// A block of these contents.
    ///
    /// # Errors
    /// [`TableDamage`] if they are not as long as they say, or have no entry.
    pub(crate) fn parse(bytes: Bytes) -> Result<Block, TableDamage> {
        Ok(Block {
            layout: Layout::parse(&bytes)?,
            bytes,
            used: AtomicBool::new(false),
        })
    }

    /// Says that it was used, to the cache that holds it.
    pub(crate) fn set_used(&self) {
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }

    /// A range of its bytes; `range` is one that an entry gave.
    #[inline]
    pub(crate) fn slice(&self, range: Range<usize>) -> &[u8] {
        self.bytes.get(range).unwrap_or_default()
    }
}

impl Cached for Block {
    fn bytes(&self) -> u64 {
        (self.bytes.len() + size_of::<Block>()) as u64
    }

    fn take_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }
}
