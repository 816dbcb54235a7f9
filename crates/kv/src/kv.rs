//! Kv: the face of keys and values.

use crate::directory::{self, LOCK_NAME};
use crate::lease::Leases;
use crate::pairs::{PAIRS, Pairs};
use crate::record::{Change, Changes, Record, VALUE_BYTES_MAX, check_length, ends, micros, timed};
use crate::{
    Batch, BulkLoad, Durability, Error, Iter, KvOptions, KvStats, Merger, Result, SmallBytes, View,
};
use quire_env::{Env, OsEnv};
use quire_log::RECORD_BYTES_MAX;
use quire_lsm::{DEADLINE_BYTES, Load, Op, RangeTombstones, TreeSnapshot, wall_clock_micros};
use quire_model::Position;
use quire_store::{Shared, Store, StoreOptions, Transaction};
use std::collections::HashMap;
use std::ops::RangeBounds;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Keys and values in a directory. Cheap to clone; any number of threads. One process has it open
/// at a time.
///
/// Writes are done one after the other; reads wait for nothing.
#[derive(Debug, Clone)]
pub struct Kv {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    store: Store<Pairs>,
    durability: Durability,
    merger: Option<Arc<dyn Merger>>,
    leases: Arc<Leases>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // There is nobody to tell: what is acknowledged under `sync` is safe whatever the close
        // meets.
        let _ = self.close();
    }
}

impl Inner {
    fn close(&self) -> Result<()> {
        let closed = self.store.close();
        self.shared.unlock();
        Ok(closed?)
    }
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
        options.check()?;
        directory::prepare(&*env, path, options.create_if_missing)?;
        let lock = env.lock(&path.join(LOCK_NAME))?;
        let place = directory::place(&*env, path)?;
        let changed = env.gate();
        let leases = Leases::new(Arc::clone(&env), options.view_age_max);
        let shared = Shared::with_memtables(
            env,
            options.memory_bytes,
            options.memtables_bytes(),
            Some(lock),
        );
        if !Store::<Pairs>::exists(&shared, &place)? {
            Store::<Pairs>::create(&shared, &place)?;
        }
        let store = Store::open(Arc::clone(&shared), place, of_store, changed)?;
        Ok(Kv {
            inner: Arc::new(Inner {
                shared,
                store,
                durability: options.durability,
                merger: options.merger,
                leases,
            }),
        })
    }

    /// Sets `key` to `value`.
    ///
    /// Slows down, or waits, when writes come faster than the disk takes them.
    ///
    /// # Errors
    /// Nothing was written: of kind `Invalid` for an empty key, `TooLarge`, `Full`, `Closed`. If
    /// the log could not be synced, of kind `ReadOnly` or `Io`: whether the write survives is
    /// unknown until it is opened again.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_with(key, value, self.inner.durability)
    }

    /// As [`put`](Kv::put), as durable as is said here.
    ///
    /// # Errors
    /// As of [`put`](Kv::put).
    pub fn put_with(&self, key: &[u8], value: &[u8], durability: Durability) -> Result<()> {
        self.change(Change::new(key, Op::Put(value))?, durability)
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
    pub fn put_for(&self, key: &[u8], value: &[u8], time: Duration) -> Result<()> {
        self.put_for_with(key, value, time, self.inner.durability)
    }

    /// As [`put_for`](Kv::put_for), as durable as is said here.
    ///
    /// # Errors
    /// As of [`put`](Kv::put).
    pub fn put_for_with(
        &self,
        key: &[u8],
        value: &[u8],
        time: Duration,
        durability: Durability,
    ) -> Result<()> {
        check_length("value", VALUE_BYTES_MAX, value.len())?;
        let timed = timed(self.now().saturating_add(micros(time)), value);
        self.change(Change::new(key, Op::PutUntil(&timed))?, durability)
    }

    fn now(&self) -> u64 {
        wall_clock_micros(&**self.inner.shared.env())
    }

    /// Removes `key`, if it is there.
    ///
    /// # Errors
    /// As of [`put`](Kv::put).
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        self.delete_with(key, self.inner.durability)
    }

    /// As [`delete`](Kv::delete), as durable as is said here.
    ///
    /// # Errors
    /// As of [`put`](Kv::put).
    pub fn delete_with(&self, key: &[u8], durability: Durability) -> Result<()> {
        self.change(Change::new(key, Op::Delete)?, durability)
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
    /// stock.delete_range(..&b"2026"[..])?;
    /// assert_eq!(stock.iter(..)?.count(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As of [`put`](Kv::put); of kind `TooLarge` also for an end of the range that is longer than
    /// a key.
    pub fn delete_range<'k>(&self, range: impl RangeBounds<&'k [u8]>) -> Result<()> {
        self.delete_range_with(range, self.inner.durability)
    }

    /// As [`delete_range`](Kv::delete_range), as durable as is said here.
    ///
    /// # Errors
    /// As of [`delete_range`](Kv::delete_range).
    pub fn delete_range_with<'k>(
        &self,
        range: impl RangeBounds<&'k [u8]>,
        durability: Durability,
    ) -> Result<()> {
        match ends(&range)? {
            Some((from, to)) => self.change(Change::new(&from, Op::DeleteRange(&to))?, durability),
            None => Ok(()),
        }
    }

    /// Changes the value of `key` by an operand of the merger. The merger is tried on the newest
    /// value, so that what it refuses is not written: this reads the key.
    ///
    /// # Errors
    /// As of [`put`](Kv::put); of kind `Invalid` also if there is no merger, or it refuses.
    pub fn merge(&self, key: &[u8], operand: &[u8]) -> Result<()> {
        let mut batch = Batch::new();
        batch.merge(key, operand)?;
        self.write(&batch)
    }

    /// Does the changes of a batch, in their order: all or none.
    ///
    /// # Errors
    /// As of [`merge`](Kv::merge).
    pub fn write(&self, batch: &Batch) -> Result<()> {
        self.write_with(batch, self.inner.durability)
    }

    /// As [`write`](Kv::write), as durable as is said here.
    ///
    /// # Errors
    /// As of [`merge`](Kv::merge).
    pub fn write_with(&self, batch: &Batch, durability: Durability) -> Result<()> {
        let store = &self.inner.store;
        let position = match () {
            () if batch.is_empty() => return Ok(()),
            () if batch.merges() => self.write_merges(batch)?,
            () => store.append_unsynced(&[&batch.record(|| self.now())])?,
        };
        Ok(store.acknowledge(position, durability)?)
    }

    fn change(&self, change: Change<'_>, durability: Durability) -> Result<()> {
        let mut record = Record::new();
        record.reserve(change.encoded_bytes_max());
        change.encode(&mut record);
        let store = &self.inner.store;
        let position = store.append_unsynced(&[&record])?;
        Ok(store.acknowledge(position, durability)?)
    }

    fn write_merges(&self, batch: &Batch) -> Result<Position> {
        let Some(merger) = &self.inner.merger else {
            let what = "a merge, and no merger was given at the opening";
            return Err(Error::Invalid(what.into()));
        };
        let ((), position) = self.inner.store.write_unsynced(|transaction| {
            let now = self.now();
            let record = with_merges(&**merger, &batch.record(|| now), transaction, now)?;
            transaction.append(record);
            Ok::<_, Error>(())
        })?;
        Ok(position)
    }

    /// The value of `key`. A long one shares memory with the block it is from: copy it to keep it
    /// for long.
    ///
    /// # Errors
    /// Damage on disk, by file and offset; what the machine or the merger says.
    pub fn get(&self, key: &[u8]) -> Result<Option<SmallBytes>> {
        Ok(self.inner.store.point_view_at(PAIRS)?.get(key)?)
    }

    /// What `look` makes of the value of `key`, `None` if it has none. It looks where the value
    /// lies, if that is memory that can be looked at, so it costs less than to take a copy; writes
    /// do not wait for it.
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
    pub fn visit<T>(&self, key: &[u8], look: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        Ok(self.inner.store.point_view_at(PAIRS)?.visit(key, look)?)
    }

    /// The values of many keys, in their order, all as of one moment.
    ///
    /// # Errors
    /// As of [`get`](Kv::get).
    pub fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<SmallBytes>>> {
        Ok(self.inner.store.point_view_at(PAIRS)?.get_many(keys)?)
    }

    /// All as it is now, to keep for a while.
    ///
    /// # Errors
    /// Of kind `Closed`.
    pub fn view(&self) -> Result<View> {
        Ok(View::new(&self.inner.leases, self.tree()?))
    }

    fn tree(&self) -> Result<TreeSnapshot> {
        Ok(self.inner.store.view_of_trees()?.swap_remove(PAIRS))
    }

    /// The pairs of a range of keys as of now, in their order: [`View::iter`].
    ///
    /// # Errors
    /// As of [`get`](Kv::get).
    pub fn iter<'k>(&self, range: impl RangeBounds<&'k [u8]>) -> Result<Iter> {
        Iter::ascending(&self.inner.leases, &self.tree()?, &range)
    }

    /// The pairs of [`iter`](Kv::iter), last first.
    ///
    /// # Errors
    /// As of [`get`](Kv::get).
    pub fn iter_rev<'k>(&self, range: impl RangeBounds<&'k [u8]>) -> Result<Iter> {
        Iter::descending(&self.inner.leases, &self.tree()?, &range)
    }

    /// Begins to load many pairs past log and memtables: see [`BulkLoad`].
    ///
    /// # Errors
    /// Of kind `Closed` or `ReadOnly`.
    pub fn bulk_load(&self) -> Result<BulkLoad> {
        let lock = self.inner.shared.lock();
        let load = self.inner.store.load(PAIRS)?;
        Ok(BulkLoad::new(self.clone(), load, lock))
    }

    pub(crate) fn finish_load(&self, load: Load) -> Result<()> {
        Ok(self.inner.store.finish_load(PAIRS, load)?)
    }

    /// Makes everything written so far durable.
    ///
    /// # Errors
    /// As of [`put`](Kv::put).
    pub fn sync(&self) -> Result<()> {
        Ok(self.inner.store.sync()?)
    }

    /// Writes memtables out as table files. Everything written so far is durable then, and an
    /// opening replays none of it.
    ///
    /// # Errors
    /// As of [`put`](Kv::put).
    pub fn flush(&self) -> Result<()> {
        Ok(self.inner.store.flush()?)
    }

    /// Flushes, and waits until all compactions that are worth it are done.
    ///
    /// # Errors
    /// As of [`put`](Kv::put).
    pub fn settle(&self) -> Result<()> {
        Ok(self.inner.store.settle()?)
    }

    /// Flushes, and merges all files into one sorted run. Long: it reads and writes everything.
    ///
    /// # Errors
    /// As of [`put`](Kv::put).
    pub fn compact(&self) -> Result<()> {
        Ok(self.inner.store.compact()?)
    }

    /// Figures.
    pub fn stats(&self) -> KvStats {
        let shared = &self.inner.shared;
        let store = self.inner.store.stats();
        let (views, view_age) = self.inner.leases.ages();
        let tree = store.trees.first().map(|(_, tree)| *tree);
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
        self.inner.close()
    }
}

/// What a key has: a value and its deadline, if it has one.
type Newest = Option<(SmallBytes, Option<u64>)>;

/// Tries the changes of a record on the newest values. Returns the record with the value of each
/// merge over one that has a deadline in place of the operand: with that deadline, or without if it
/// has passed, since the operand is over nothing then.
fn with_merges(
    merger: &dyn Merger,
    record: &[u8],
    transaction: &Transaction<'_, Pairs>,
    now: u64,
) -> Result<Vec<u8>> {
    let mut newest: HashMap<&[u8], Newest> = HashMap::new();
    // Of keys that no change named since.
    let mut deleted = RangeTombstones::default();
    let mut out = Vec::with_capacity(record.len());
    for change in Changes::of(record) {
        let change = change.map_err(Error::Invalid)?;
        let key = change.key;
        let value: Newest = match change.op {
            Op::Put(value) => Some((value.to_vec().into(), None)),
            Op::PutUntil(timed) => timed
                .split_first_chunk::<DEADLINE_BYTES>()
                .map(|(until, value)| (value.to_vec().into(), Some(u64::from_le_bytes(*until)))),
            Op::Delete => None,
            Op::DeleteRange(to) => {
                let mut range = RangeTombstones::default();
                range.add(key, to, 0);
                newest.retain(|key, _| range.mark(key).is_none());
                deleted.add(key, to, 0);
                change.encode(&mut out);
                continue;
            }
            Op::Merge(operand) => {
                let before = match newest.remove(key) {
                    Some(before) => before,
                    None if deleted.mark(key).is_some() => None,
                    None => transaction.get_with_deadline(PAIRS, key)?,
                };
                // The value it is over, and if that has a deadline, the one that the merged value
                // gets.
                let (base, timed_over) = match before {
                    Some((_, Some(until))) if until <= now => (None, Some(None)),
                    Some((value, until)) => (Some(value), until.map(Some)),
                    None => (None, None),
                };
                let merged = try_merge(merger, key, base.as_deref(), operand)?;
                match timed_over {
                    None => change.encode(&mut out),
                    Some(None) => Change::new(key, Op::Put(&merged))?.encode(&mut out),
                    Some(Some(until)) => {
                        let timed = timed(until, &merged);
                        Change::new(key, Op::PutUntil(&timed))?.encode(&mut out);
                    }
                }
                check_length("batch", RECORD_BYTES_MAX, out.len())?;
                newest.insert(key, Some((merged, timed_over.flatten())));
                continue;
            }
        };
        newest.insert(key, value);
        change.encode(&mut out);
    }
    Ok(out)
}

fn try_merge(
    merger: &dyn Merger,
    key: &[u8],
    before: Option<&[u8]>,
    operand: &[u8],
) -> Result<SmallBytes> {
    let mut merged = Vec::new();
    let refused = |reason| Error::Merge {
        merger: merger.name().to_string(),
        key: String::from_utf8_lossy(key).chars().take(100).collect(),
        reason,
    };
    let applied = merger.apply(key, before, operand, &mut merged);
    applied.map_err(|error| refused(error.to_string()))?;
    match merged.len() <= VALUE_BYTES_MAX {
        true => Ok(merged.into()),
        false => Err(refused(format!("{} bytes would come of it", merged.len()))),
    }
}
