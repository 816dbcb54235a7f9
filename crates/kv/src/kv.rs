//! Kv: the face of keys and values.

use crate::opening::Opening;
use crate::pairs::PAIRS;
use crate::range::{KeyRange, Prefix};
use crate::{
    Batch, BulkLoad, Iter, KvOptions, KvStats, Result, SmallBytes, View, WriteOptions, Writer,
};
use quire_env::{Env, OsEnv};
use quire_store::StoreOptions;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Keys and values in a directory. Cheap to clone; any number of threads. One process has it open
/// at a time.
///
/// Writes are done one after the other; reads wait for nothing.
#[derive(Debug, Clone)]
pub struct Kv {
    opening: Arc<Opening>,
}

impl Kv {
    /// Opens the keys and values in a directory; makes it if it is absent or empty, unless the
    /// options say otherwise.
    ///
    /// # Errors
    /// Of kind `Locked` if another process has it open; `Invalid` if the directory holds something
    /// else, or an option makes no sense; `Corrupt` for damage, by file and offset; `Full` or `Io`.
    pub fn open(path: impl AsRef<Path>, options: KvOptions) -> Result<Kv> {
        Kv::open_on(OsEnv::new()?, path, options)
    }

    /// As [`open`](Kv::open), on a real or a simulated machine.
    ///
    /// # Errors
    /// As of [`open`](Kv::open).
    pub fn open_on(env: Arc<dyn Env>, path: impl AsRef<Path>, options: KvOptions) -> Result<Kv> {
        let of_store = options.of_store();
        Kv::open_store(env, path.as_ref(), options, of_store)
    }

    /// As [`open_on`](Kv::open_on), with the options of the store below given.
    pub(crate) fn open_store(
        env: Arc<dyn Env>,
        path: &Path,
        options: KvOptions,
        of_store: StoreOptions,
    ) -> Result<Kv> {
        let opening = Opening::open(env, path, options, of_store)?;
        Ok(Kv {
            opening: Arc::new(opening),
        })
    }

    /// Writes with other options than those of the opening, each a call of its own.
    ///
    /// ```
    /// use quire_kv::{Durability, Kv, KvOptions, WriteOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("stock");
    ///
    /// let stock = Kv::open(&path, KvOptions::default())?;
    /// let unsynced = stock.with(WriteOptions::new().durability(Durability::None));
    /// unsynced.put("apple", "12")?;
    /// unsynced.delete("pear")?;
    /// stock.sync()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with(&self, options: WriteOptions) -> Writer<'_> {
        Writer::new(&self.opening, options)
    }

    fn writer(&self) -> Writer<'_> {
        self.with(WriteOptions::default())
    }

    /// Sets `key` to `value`.
    ///
    /// Slows down, or waits, when writes come faster than the disk takes them.
    ///
    /// # Errors
    /// Nothing was written: of kind `Invalid` for an empty key, `TooLarge`, `Full`, `Closed`. If
    /// the log could not be synced, of kind `ReadOnly` or `Io`: whether the write survives is
    /// unknown until it is opened again.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.writer().put(key, value)
    }

    /// Sets `key` to `value` for a time by the wall clock, which begins now. From then on the key
    /// is as if it had been deleted, and its room on disk is free once it is merged. Put again,
    /// with or without a time, it has that value; a merge keeps the time.
    ///
    /// ```
    /// # use quire_kv::{Kv, KvOptions};
    /// # use std::time::Duration;
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("sessions");
    /// let sessions = Kv::open(&path, KvOptions::default())?;
    /// sessions.put_for(b"anna", b"token", Duration::from_secs(3600))?;
    /// assert!(sessions.get(b"anna")?.is_some());
    /// sessions.put_for(b"anna", b"token", Duration::ZERO)?;
    /// assert!(sessions.get(b"anna")?.is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As of [`put`](Kv::put).
    pub fn put_for(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        time: Duration,
    ) -> Result<()> {
        self.writer().put_for(key, value, time)
    }

    /// Removes `key`, if it is there.
    ///
    /// # Errors
    /// As of [`put`](Kv::put).
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.writer().delete(key)
    }

    /// Removes the keys of a range, however many there are: it takes as long as one `delete`. Their
    /// room on disk is free once they are merged with it. A range without keys, also one that ends
    /// before it begins, is none.
    ///
    /// ```
    /// # use quire_kv::{Kv, KvOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("stock");
    /// let stock = Kv::open(&path, KvOptions::default())?;
    /// for key in [b"2025/1", b"2025/2", b"2026/1"] {
    ///     stock.put(key, b"sold")?;
    /// }
    /// stock.delete_range(.."2026")?;
    /// assert_eq!(stock.range(..)?.count(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As of [`put`](Kv::put); of kind `TooLarge` also for an end of the range that is longer than
    /// a key.
    pub fn delete_range(&self, range: impl KeyRange) -> Result<()> {
        self.writer().delete_range(range)
    }

    /// Changes the value of `key` by an operand of the merger. The merger is tried on the newest
    /// value, so that what it refuses is not written: this reads the key.
    ///
    /// # Errors
    /// As of [`put`](Kv::put); of kind `Invalid` also if there is no merger, or it refuses.
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.writer().merge(key, operand)
    }

    /// Does the changes of a batch, in their order: all or none.
    ///
    /// # Errors
    /// As of [`merge`](Kv::merge).
    pub fn write(&self, batch: &Batch) -> Result<()> {
        self.writer().write(batch)
    }

    /// The value of `key`. A long one shares memory with the block it is from: copy it to keep it
    /// for long.
    ///
    /// # Errors
    /// Damage on disk, by file and offset; what the machine or the merger says.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<SmallBytes>> {
        Ok(self.opening.store.point_view_at(PAIRS)?.get(key.as_ref())?)
    }

    /// What `look` makes of the value of `key`; `None` if it has none. `look` is shown the value
    /// where it lies, if it lies in memory: that costs less than a copy. Writes do not wait for it.
    ///
    /// ```
    /// use quire_kv::{Kv, KvOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("stock");
    ///
    /// let stock = Kv::open(&path, KvOptions::default())?;
    /// stock.put(b"apple", b"12")?;
    /// assert_eq!(stock.visit(b"apple", |value| value.len())?, Some(2));
    /// assert_eq!(stock.visit(b"pear", |value| value.len())?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As of [`get`](Kv::get).
    pub fn visit<T>(
        &self,
        key: impl AsRef<[u8]>,
        look: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>> {
        let view = self.opening.store.point_view_at(PAIRS)?;
        Ok(view.visit(key.as_ref(), look)?)
    }

    /// The values of many keys, in their order, all as of one moment.
    ///
    /// # Errors
    /// As of [`get`](Kv::get).
    pub fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<SmallBytes>>> {
        Ok(self.opening.store.point_view_at(PAIRS)?.get_many(keys)?)
    }

    /// All as it is now, to keep for a while.
    ///
    /// # Errors
    /// Of kind `Closed`.
    pub fn view(&self) -> Result<View> {
        Ok(View::new(&self.opening.leases, self.opening.tree()?))
    }

    /// The pairs of a range of keys as of now, in their order. A range is of strings or of bytes;
    /// `..` is all. The iterator shows one consistent state, however long it is kept.
    ///
    /// ```
    /// use quire_kv::{Kv, KvOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("stock");
    ///
    /// let stock = Kv::open(&path, KvOptions::default())?;
    /// for fruit in ["apple", "banana", "pear"] {
    ///     stock.put(fruit, "1")?;
    /// }
    /// assert_eq!(stock.range("a".."c")?.count(), 2);
    /// assert_eq!(stock.range(b"b"..)?.count(), 2);
    /// let last = stock.range_rev(..)?.next().transpose()?;
    /// assert_eq!(last.as_ref().map(|(key, _)| &key[..]), Some(&b"pear"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As of [`get`](Kv::get).
    pub fn range(&self, range: impl KeyRange) -> Result<Iter> {
        Iter::ascending(&self.opening.leases, &self.opening.tree()?, &range)
    }

    /// The pairs of [`range`](Kv::range), last first.
    ///
    /// # Errors
    /// As of [`get`](Kv::get).
    pub fn range_rev(&self, range: impl KeyRange) -> Result<Iter> {
        Iter::descending(&self.opening.leases, &self.opening.tree()?, &range)
    }

    /// The pairs whose keys begin with `prefix`, as of now, in their order.
    ///
    /// ```
    /// use quire_kv::{Kv, KvOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("users");
    ///
    /// let users = Kv::open(&path, KvOptions::default())?;
    /// users.put("user:anna", "1")?;
    /// users.put("user:ben", "2")?;
    /// users.put("visit:1", "anna")?;
    /// assert_eq!(users.prefix("user:")?.count(), 2);
    /// let last = users.prefix_rev("user:")?.next().transpose()?;
    /// assert_eq!(last.as_ref().map(|(key, _)| &key[..]), Some(&b"user:ben"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As of [`get`](Kv::get).
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Iter> {
        self.range(Prefix::new(prefix.as_ref()))
    }

    /// The pairs of [`prefix`](Kv::prefix), last first.
    ///
    /// # Errors
    /// As of [`get`](Kv::get).
    pub fn prefix_rev(&self, prefix: impl AsRef<[u8]>) -> Result<Iter> {
        self.range_rev(Prefix::new(prefix.as_ref()))
    }

    /// Begins to load many pairs past log and memtables: see [`BulkLoad`].
    ///
    /// # Errors
    /// Of kind `Closed` or `ReadOnly`.
    pub fn bulk_load(&self) -> Result<BulkLoad> {
        let lock = self.opening.shared.lock();
        let load = self.opening.store.load(PAIRS)?;
        Ok(BulkLoad::new(Arc::clone(&self.opening), load, lock))
    }

    /// Makes everything written so far durable.
    ///
    /// # Errors
    /// As of [`put`](Kv::put).
    pub fn sync(&self) -> Result<()> {
        Ok(self.opening.store.sync()?)
    }

    /// Writes memtables out as table files. Everything written so far is durable then, and an
    /// opening replays none of it.
    ///
    /// # Errors
    /// As of [`put`](Kv::put).
    pub fn flush(&self) -> Result<()> {
        Ok(self.opening.store.flush()?)
    }

    /// Flushes, and waits until all compactions that are worth it are done.
    ///
    /// # Errors
    /// As of [`put`](Kv::put).
    pub fn settle(&self) -> Result<()> {
        Ok(self.opening.store.settle()?)
    }

    /// Flushes, and merges all files into one sorted run. Long: it reads and writes everything.
    ///
    /// # Errors
    /// As of [`put`](Kv::put).
    pub fn compact(&self) -> Result<()> {
        Ok(self.opening.store.compact()?)
    }

    /// Figures.
    pub fn stats(&self) -> KvStats {
        let shared = &self.opening.shared;
        let store = self.opening.store.stats();
        let (views, view_age) = self.opening.leases.ages();
        let tree = store.trees.first().map(|tree| tree.figures);
        KvStats {
            memory_bytes: shared.memory_bytes(),
            memtable_bytes: shared.memtables().used(),
            cache_bytes: shared.cache().bytes(),
            cache_hits: shared.cache().hits(),
            cache_misses: shared.cache().misses(),
            filters: shared.filters().stats(),
            tree: tree.unwrap_or_default(),
            log: store.log,
            log_dropped_bytes: store.log_bytes_reclaimed,
            writes: store.writes,
            stalls: store.stalls,
            stall_micros: store.stall_micros,
            stall_micros_max: store.stall_micros_max,
            flushes: store.flushes,
            compactions: store.compactions,
            views,
            view_age,
            background_error: store.background_error,
        }
    }

    /// Syncs and closes; later calls fail with an error of kind `Closed`. What is dropped without
    /// it loses nothing that was acknowledged under `sync`.
    ///
    /// # Errors
    /// As of [`put`](Kv::put).
    pub fn close(&self) -> Result<()> {
        self.opening.close()
    }
}
