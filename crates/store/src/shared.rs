//! What all partitions of a process share: the machine, the block cache and the memory for
//! memtables.

use crate::relief::Relief;
use quire_env::{BlockCache, Budget, Charge, Env, FileLock, Gate};
use quire_lsm::FilterPager;
use quire_sync::Mutex;
use quire_sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of work in progress that there is room for, whatever the memory: handling one document of
/// the largest size takes three times its bytes.
const WORK_BYTES_MIN: u64 = 48 << 20;

/// The longest that background work waits for room, and how often it looks for it.
const ROOM_WAIT_MAX: Duration = Duration::from_secs(10);
const ROOM_EVERY: Duration = Duration::from_millis(5);

/// What all partitions of a process share. One memory budget is divided here: a quarter for
/// memtables, seven sixteenths for the block cache, a sixteenth for filter pages, a sixteenth for
/// what queries share of what they read of indexes, an eighth for documents that indexes are
/// behind, and a sixteenth, beside 48 MiB, for what requests and background work hold for a moment.
#[derive(Debug)]
pub struct Shared {
    env: Arc<dyn Env>,
    /// The wall clock, in microseconds since 1970 UTC, and the monotonic one, when this was made.
    opened: (i64, Duration),
    cache: Arc<BlockCache>,
    filters: Arc<FilterPager>,
    memtables: Arc<Budget>,
    index_reads: Arc<Budget>,
    index_changes: Arc<Budget>,
    work: Arc<Budget>,
    memory_bytes: u64,
    /// Told whenever a flush has freed memory or failed to.
    pub(crate) freed: Arc<dyn Gate>,
    /// Sees to it that memtables are flushed when these are short of memory.
    pub(crate) relief: Relief,
    /// Bytes that writers have added to full memtables since a flush ended.
    past_limit: AtomicU64,
    /// Held as long as any store, or a background job of one, may still write.
    lock: Mutex<Option<Arc<dyn FileLock>>>,
}

impl Shared {
    /// Divides `memory_bytes` among the parts. The lock on the files, if there is one, is held
    /// until [`unlock`](Shared::unlock), or until the last store and the last background job of one
    /// are gone.
    pub fn new(
        env: Arc<dyn Env>,
        memory_bytes: u64,
        lock: Option<Box<dyn FileLock>>,
    ) -> Arc<Shared> {
        Shared::with_memtables(env, memory_bytes, memory_bytes / 4, lock)
    }

    /// As [`new`](Shared::new), with `memtable_bytes` of the bytes for memtables; two thirds of the
    /// others are for the block cache and filter pages.
    pub fn with_memtables(
        env: Arc<dyn Env>,
        memory_bytes: u64,
        memtable_bytes: u64,
        lock: Option<Box<dyn FileLock>>,
    ) -> Arc<Shared> {
        let eighth = memory_bytes.saturating_sub(memtable_bytes) / 12;
        let memtables = Budget::new(memtable_bytes);
        Arc::new(Shared {
            cache: BlockCache::new(eighth * 7),
            filters: FilterPager::new(Arc::clone(&env), eighth),
            relief: Relief::new(Arc::clone(&env), Arc::clone(&memtables)),
            memtables,
            index_reads: Budget::new(memory_bytes / 16),
            index_changes: Budget::new(memory_bytes / 8),
            work: Budget::new(WORK_BYTES_MIN + memory_bytes / 16),
            memory_bytes,
            freed: env.gate(),
            opened: (env.now_micros(), env.monotonic()),
            env,
            past_limit: AtomicU64::new(0),
            lock: Mutex::new(lock.map(Arc::from)),
        })
    }

    /// Gives up the lock: every store is closed. It stays locked for those who hold it still.
    pub fn unlock(&self) {
        *self.lock.lock() = None;
    }

    /// The lock, for who makes files that are to be his even after the close.
    pub fn lock(&self) -> Option<Arc<dyn FileLock>> {
        self.lock.lock().clone()
    }

    /// Fails if another process may hold the lock by now, because what is locked was removed or
    /// replaced. Called before each manifest and each catalog.
    ///
    /// # Errors
    /// Of kind `Locked`.
    pub fn check_lock(&self) -> quire_env::Result<()> {
        match self.lock() {
            Some(lock) => lock.check(),
            None => Ok(()),
        }
    }

    /// The machine.
    pub fn env(&self) -> &Arc<dyn Env> {
        &self.env
    }

    /// Microseconds since 1970 UTC by the wall clock as it was at the beginning, and the time that
    /// has passed since: this never jumps, however often the wall clock is set.
    pub fn steady_micros(&self) -> i64 {
        let (wall, monotonic) = self.opened;
        let passed = self.env.monotonic().saturating_sub(monotonic).as_micros();
        wall.saturating_add(i64::try_from(passed).unwrap_or(i64::MAX))
    }

    /// The block cache.
    pub fn cache(&self) -> &Arc<BlockCache> {
        &self.cache
    }

    /// What keeps filter pages in memory.
    pub fn filters(&self) -> &Arc<FilterPager> {
        &self.filters
    }

    /// What memtables draw from.
    pub fn memtables(&self) -> &Arc<Budget> {
        &self.memtables
    }

    /// What queries may keep of what they read of indexes, to share it.
    pub fn index_reads(&self) -> &Arc<Budget> {
        &self.index_reads
    }

    /// What queries may keep of the documents that indexes are behind.
    pub fn index_changes(&self) -> &Arc<Budget> {
        &self.index_changes
    }

    /// What requests and background work draw from while they hold documents.
    pub fn work(&self) -> &Arc<Budget> {
        &self.work
    }

    /// Room for background work with large records, which holds none before. It waits while
    /// requests have the room, and new large ones wait for it; after 10 s it takes it past the
    /// limit, as one that has the room may wait for what the work makes.
    pub(crate) fn room_for_work(&self, bytes: u64) -> Charge {
        let _claim = self.work.claim();
        let end = self.env.monotonic() + ROOM_WAIT_MAX;
        loop {
            if let Some(room) = self.work.try_charge(bytes.min(self.work.limit())) {
                return room;
            }
            if self.env.monotonic() >= end {
                return self.work.charge(bytes.min(self.work.limit()));
            }
            self.env.sleep(ROOM_EVERY);
        }
    }

    /// The whole budget in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    /// Whether memtables hold no more than they may, or a writer may write to them all the same.
    ///
    /// A flush waits for derived trees, and these may wait for room that writers hold. Such a
    /// writer would wait for itself, so it goes on: past the limit, by a quarter of it at most.
    pub(crate) fn admits(&self) -> bool {
        self.memtables.used() < self.memtables.limit()
            || self.work.is_claimed()
                && self.past_limit.load(Ordering::Relaxed) < self.memtables.limit() / 4
    }

    /// A writer has added `bytes` to memtables.
    pub(crate) fn note_added(&self, bytes: u64) {
        if self.memtables.used() > self.memtables.limit() {
            self.past_limit.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// A flush has ended, well or not.
    pub(crate) fn flush_ended(&self) {
        self.past_limit.store(0, Ordering::Relaxed);
        self.relief.look_again();
        self.freed.notify();
    }
}
