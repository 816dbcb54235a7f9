//! Bulk load: many pairs at once, past log and memtables.

use crate::Result;
use crate::opening::Opening;
use crate::record::Change;
use quire_env::FileLock;
use quire_lsm::{Load, Op};
use std::sync::Arc;

/// Many pairs on their way into files. None is seen before [`finish`](BulkLoad::finish), then all
/// are; dropped, or ended by a crash, it leaves nothing. As long as there is one, the directory is
/// locked, even after the close.
///
/// Pairs that come in the order of their keys are written once. Others are sorted, in a memtable's
/// share of the memory and in files beside: they are written twice, or a few times if they are very
/// many, and take up to twice their room on disk meanwhile.
///
/// ```
/// use quire_kv::{Kv, KvOptions};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("stock");
///
/// let stock = Kv::open(&path, KvOptions::default())?;
/// stock.put(b"apple", b"12")?;
/// let mut load = stock.bulk_load()?;
/// load.put(b"pear", b"7")?;
/// load.put(b"apple", b"11")?;
/// assert_eq!(stock.get(b"pear")?, None);
/// load.finish()?;
/// assert_eq!(stock.get(b"pear")?.as_deref(), Some(&b"7"[..]));
/// assert_eq!(stock.get(b"apple")?.as_deref(), Some(&b"11"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct BulkLoad {
    load: Load,
    /// Dropped after the load: the next opening gives the names of the load's files to others.
    lock: Option<Arc<dyn FileLock>>,
    opening: Arc<Opening>,
}

impl BulkLoad {
    pub(crate) fn new(
        opening: Arc<Opening>,
        load: Load,
        lock: Option<Arc<dyn FileLock>>,
    ) -> BulkLoad {
        BulkLoad {
            load,
            lock,
            opening,
        }
    }

    /// Sets `key` to `value`, over what the load was given for it before.
    ///
    /// # Errors
    /// Of kind `Invalid` for an empty key, `TooLarge`: the pair is left out. `Full` or `Io`: the
    /// load is of no use then.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        Change::new(key, Op::Put(value))?;
        Ok(self.load.put(key, value)?)
    }

    /// Adds all pairs, over everything that was written before. They are durable when it returns.
    /// Writers wait for a moment, in which what they wrote last is flushed.
    ///
    /// # Errors
    /// As of [`Kv::flush`](crate::Kv::flush): nothing was added. Of kind `Invalid` after a `put`
    /// that said `Full` or `Io`.
    pub fn finish(self) -> Result<()> {
        let done = self.opening.finish_load(self.load);
        drop(self.lock);
        done
    }
}
