//! Writing: a write is decided, appended to the log, applied to the trees, made durable and
//! published. Writers are slowed down while memory is short.

use crate::machine::apply;
use crate::relief::Flushable;
use crate::store::{Inner, Store, Writer};
use crate::{Durability, Error, Machine, Result, TreeId, admission};
use quire_env::JobClass;
use quire_model::Position;
use quire_seeded::{Bug, seeded};
use std::ops::Bound;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long a writer waits at the memory limit for a flush, while flushes make progress.
const MEMORY_WAIT_MAX: Duration = Duration::from_secs(60);

/// A writer that waits for memory looks this often: a reader that was the last to hold some frees
/// it without a notification.
const MEMORY_LOOK: Duration = Duration::from_millis(20);

/// The log is written back in the background after this number of bytes of records.
const WRITE_BACK_BYTES: u64 = 4 << 20;

/// A write being decided: the newest state to read, and the records to append.
pub struct Transaction<'a, M: Machine> {
    inner: &'a Inner<M>,
    machine: &'a M,
    first: Position,
    records: Vec<Vec<u8>>,
}

impl<M: Machine> Transaction<'_, M> {
    /// The newest value of a key in a tree, acknowledged or not: writes are decided in the order of
    /// the log.
    ///
    /// # Errors
    /// As of [`TreeReader::get`](quire_lsm::TreeReader::get).
    pub fn get(&self, tree: TreeId, key: &[u8]) -> Result<Option<quire_lsm::SmallBytes>> {
        let slot = self.inner.trees.get_applied(tree)?;
        Ok(slot.tree.reader(Position(u64::MAX)).get(key)?)
    }

    /// As [`get`](Self::get), also past its deadline, with the deadline if it has one.
    ///
    /// # Errors
    /// As of [`get`](Self::get).
    pub fn get_with_deadline(
        &self,
        tree: TreeId,
        key: &[u8],
    ) -> Result<Option<(quire_lsm::SmallBytes, Option<u64>)>> {
        let slot = self.inner.trees.get_applied(tree)?;
        let tree = slot.tree.reader(Position(u64::MAX));
        Ok(tree.get_with_deadline(key)?)
    }

    /// The newest entries of a tree between two keys, as [`get`](Self::get) finds them.
    ///
    /// # Errors
    /// As of [`TreeSnapshot::scan`](quire_lsm::TreeSnapshot::scan).
    pub fn scan(
        &self,
        tree: TreeId,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> Result<quire_lsm::Scan> {
        let slot = self.inner.trees.get_applied(tree)?;
        Ok(slot.tree.snapshot(Position(u64::MAX)).scan(from, to)?)
    }

    /// The record at a position, this write's own included.
    ///
    /// # Errors
    /// As of [`Log::read`](quire_log::Log::read).
    pub fn record(&self, position: Position) -> Result<bytes::Bytes> {
        let own = position.0.checked_sub(self.first.0);
        match own.and_then(|own| self.records.get(usize::try_from(own).ok()?)) {
            Some(record) => Ok(bytes::Bytes::copy_from_slice(record)),
            None => Ok(self.inner.log.read(position)?),
        }
    }

    /// The machine's newest state.
    pub fn machine(&self) -> &M {
        self.machine
    }

    /// The position that the next record of the write gets.
    pub fn next_position(&self) -> Position {
        Position(self.first.0 + self.records.len() as u64)
    }

    /// Adds a record to the write and returns the position it will have. All records of a write
    /// survive a crash together or not at all.
    pub fn append(&mut self, record: Vec<u8>) -> Position {
        let position = self.next_position();
        self.records.push(record);
        position
    }
}

impl<M: Machine> Store<M> {
    /// Decides a write and does it. `decide` reads the newest state and appends records; no other
    /// write comes between. If it fails, or appends nothing, nothing is written. Returns what it
    /// returned, once the records are as durable as `durability` says and visible to new views.
    ///
    /// Slows down, or waits, when memtables are written faster than they can be flushed.
    ///
    /// # Errors
    /// What `decide` returned; [`ErrorKind::Full`](crate::ErrorKind::Full) if disk or memory has no
    /// room (nothing was written); `ReadOnly` or `Io` if the log could not be synced: whether the
    /// write survives is then unknown until the store is opened again.
    pub fn write<R, E: From<Error>>(
        &self,
        durability: Durability,
        decide: impl FnOnce(&mut Transaction<'_, M>) -> std::result::Result<R, E>,
    ) -> std::result::Result<R, E> {
        let (result, position) = self.write_unsynced(decide)?;
        self.acknowledge(position, durability)?;
        Ok(result)
    }

    /// The first half of [`write`](Store::write): applied, not yet durable nor visible. The caller
    /// then calls [`acknowledge`](Store::acknowledge) with the position that this returns; so
    /// several stores can be written before the first is synced.
    ///
    /// # Errors
    /// As of [`write`](Store::write).
    pub fn write_unsynced<R, E: From<Error>>(
        &self,
        decide: impl FnOnce(&mut Transaction<'_, M>) -> std::result::Result<R, E>,
    ) -> std::result::Result<(R, Position), E> {
        let inner = &*self.inner;
        self.with_writer(|writer| {
            let mut transaction = Transaction {
                inner,
                machine: &writer.machine,
                first: inner.log.last().next(),
                records: Vec::new(),
            };
            let result = decide(&mut transaction)?;
            let mut records = transaction.records;
            let position = match records.as_mut_slice() {
                [record] if inner.log.fills_block(record.len()) => {
                    inner.append_owned(writer, std::mem::take(record))?
                }
                records => {
                    let records: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
                    inner.append(writer, &records)?
                }
            };
            Ok((result, position))
        })
    }

    /// Does what appends records, and then slows the writer down if memory for memtables is short.
    pub(crate) fn with_writer<R, E: From<Error>>(
        &self,
        write: impl FnOnce(&mut Writer<M>) -> std::result::Result<(R, Position), E>,
    ) -> std::result::Result<(R, Position), E> {
        let inner = &*self.inner;
        inner.admit()?;
        let (written, added) = {
            let mut writer = inner.writer.lock();
            inner.check_writable()?;
            let before = inner.memtable_bytes();
            let written = write(&mut writer)?;
            (written, inner.memtable_bytes().saturating_sub(before))
        };
        inner.shared.note_added(added);
        inner.slow_down(added);
        inner.shared.relief.relieve();
        Ok(written)
    }

    /// Makes everything up to `position` as durable as `durability` says, and visible.
    ///
    /// # Errors
    /// As of [`write`](Store::write).
    pub fn acknowledge(&self, position: Position, durability: Durability) -> Result<()> {
        if seeded(Bug::PublishedBeforeDurable) {
            self.inner.publish(position);
        }
        match durability {
            Durability::Sync => {
                let not_synced = |source| match source {
                    // It is not about what was just written: that would have been refused.
                    quire_log::Error::NotSecured(_) => Error::Log(source),
                    source => Error::NotSynced {
                        path: self.inner.dir.clone(),
                        source,
                    },
                };
                self.inner.log.sync(position).map_err(not_synced)?;
            }
            Durability::Async(delay) => self.inner.schedule_sync(delay),
            Durability::None => {}
        }
        self.inner.publish(position);
        Ok(())
    }

    /// Writes records that need no deciding: as [`write_unsynced`](Store::write_unsynced).
    ///
    /// # Errors
    /// As of [`write`](Store::write).
    pub fn append_unsynced(&self, records: &[&[u8]]) -> Result<Position> {
        let append = |writer: &mut _| Ok::<_, Error>(((), self.inner.append(writer, records)?));
        let ((), position) = self.with_writer(append)?;
        Ok(position)
    }

    /// Makes everything written so far durable and visible.
    ///
    /// # Errors
    /// As of [`write`](Store::write).
    pub fn sync(&self) -> Result<()> {
        self.inner.check_open()?;
        self.acknowledge(self.inner.log.last(), Durability::Sync)
    }
}

impl<M: Machine> Inner<M> {
    /// Appends a group of records and applies it. Called with the writer's lock. Returns the log's
    /// last position.
    pub(crate) fn append(&self, writer: &mut Writer<M>, records: &[&[u8]]) -> Result<Position> {
        if records.is_empty() {
            return Ok(self.log.last());
        }
        let first = self.log.append(records)?;
        self.apply_appended(writer, first, records)
    }

    /// As [`append`](Self::append), for one record, which the log takes over: it is not held twice.
    fn append_owned(&self, writer: &mut Writer<M>, record: Vec<u8>) -> Result<Position> {
        let (position, record) = self.log.append_owned(record)?;
        self.apply_appended(writer, position, &[&record])
    }

    /// Applies records that are in the log, from `first` on.
    fn apply_appended(
        &self,
        writer: &mut Writer<M>,
        first: Position,
        records: &[&[u8]],
    ) -> Result<Position> {
        self.note_for_sealing(first);
        if self.log.dictionary_is_due() {
            self.schedule_compaction();
        }
        let mut position = first;
        for record in records {
            if let Err(error) = self.apply(writer, position, record) {
                // The log holds a record that the trees do not: nothing after it may be
                // acknowledged.
                self.read_only.store(true, Ordering::Release);
                return Err(error);
            }
            position = position.next();
        }
        let last = self.log.last();
        let now = self.shared.env().monotonic();
        let summary = writer.machine.summary();
        self.publisher.applied(last, summary, Some(now));
        self.counters.writes.fetch_add(1, Ordering::Relaxed);
        self.counters
            .records
            .fetch_add(records.len() as u64, Ordering::Relaxed);
        writer.unwritten_bytes += records
            .iter()
            .map(|record| record.len() as u64)
            .sum::<u64>();
        if writer.unwritten_bytes >= WRITE_BACK_BYTES || self.log.write_back_is_due() {
            writer.unwritten_bytes = 0;
            self.schedule_write_back();
        }
        let share = self.shared.memtables().limit() / 4;
        if self.memtable_bytes() >= share
            || writer.unflushed_bytes >= self.options.replay_bytes_max
            || writer.superseded_bytes >= writer.superseded_bytes_max
        {
            self.schedule_flush(Duration::ZERO);
        }
        if self.derived_lags(writer) {
            self.schedule_derive(Duration::ZERO);
        }
        Ok(last)
    }

    /// Whether derived trees are to be brought up to date before the next flush. Called with the
    /// writer's lock.
    fn derived_lags(&self, writer: &mut Writer<M>) -> bool {
        let lag_bytes_max = self.options.derived_lag_bytes * u64::from(self.lag_factor());
        let lags = writer.underived_bytes >= lag_bytes_max;
        if lags {
            writer.underived_bytes = 0;
        }
        lags && self
            .deriving
            .try_lock()
            .is_none_or(|deriver| deriver.view.is_some())
    }

    /// Applies one record, the next.
    pub(crate) fn apply(
        &self,
        writer: &mut Writer<M>,
        position: Position,
        record: &[u8],
    ) -> Result<()> {
        let superseded = apply(
            &mut writer.machine,
            self.trees.applied(),
            position,
            record,
            &self.dir,
        )?;
        if superseded.unknown {
            let before = self.uncounted_until.swap(position.0, Ordering::AcqRel);
            let base = |position| self.log.segment_base(position).ok();
            // One of the same segment has had the same marked.
            if base(Position(before)) != base(position) {
                writer.space.lose_count(&self.log.segments(), position);
            }
        }
        for (position, bytes) in superseded.records {
            // Of what was dropped nothing is left to reclaim.
            if let Ok(base) = self.log.segment_base(position) {
                writer.space.add(base, bytes);
                writer.superseded_bytes += bytes;
                self.note_dead();
            }
        }
        writer.unflushed_bytes += record.len() as u64;
        writer.underived_bytes += record.len() as u64;
        writer.applied = position;
        Ok(())
    }

    pub(crate) fn publish(&self, position: Position) {
        let now = self.shared.env().monotonic();
        if self.publisher.publish(position, now) {
            self.changed.notify();
            if self.trees.has_derived() {
                self.schedule_follow();
            }
        }
    }

    /// Waits while memtables hold all they may, and a flush can free some.
    fn admit(&self) -> Result<()> {
        if self.shared.admits() {
            return Ok(());
        }
        let env = self.shared.env();
        let begun = env.monotonic();
        let mut failed = None;
        self.shared.relief.relieve();
        let mut is_over = || {
            self.shared.relief.relieve();
            failed = self.background_error.lock().clone();
            self.shared.admits() || failed.is_some() || self.closed.load(Ordering::Acquire)
        };
        let waited = || env.monotonic().saturating_sub(begun);
        while !self.shared.freed.wait_until(&mut is_over, MEMORY_LOOK) && waited() < MEMORY_WAIT_MAX
        {
        }
        self.count_stall(waited());
        self.check_open()?;
        if self.shared.admits() {
            return Ok(());
        }
        let held = || {
            format!("none was freed within {MEMORY_WAIT_MAX:?}: open views and scans may hold it")
        };
        Err(Error::MemoryFull {
            reason: failed.unwrap_or_else(held),
        })
    }

    /// Holds a writer that added `bytes` back, in proportion to how full the memtables are.
    fn slow_down(&self, bytes: u64) {
        let memtables = self.shared.memtables();
        // Most writes find room.
        if memtables.used() <= memtables.limit() / 2 {
            return;
        }
        let used = self.shared.relief.felt(|| self.memory().bytes);
        let delay = admission::delay(used, memtables.limit(), bytes);
        if !delay.is_zero() {
            self.shared.env().sleep(delay);
            self.count_stall(delay);
        }
    }

    fn count_stall(&self, waited: Duration) {
        let micros = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
        self.counters.stalls.fetch_add(1, Ordering::Relaxed);
        self.counters
            .stall_micros
            .fetch_add(micros, Ordering::Relaxed);
        self.counters
            .stall_micros_max
            .fetch_max(micros, Ordering::Relaxed);
    }

    /// Schedules a job that writes the log back, unless one is due already.
    fn schedule_write_back(&self) {
        if self.write_back_due.swap(true, Ordering::AcqRel) {
            return;
        }
        self.background(JobClass::Flush, Duration::ZERO, |inner| {
            inner.write_back_due.store(false, Ordering::Release);
            if inner.check_open().is_err() {
                return;
            }
            // A failure poisons the log, and the next write says so.
            if let Err(error) = inner.log.write_back() {
                tracing::error!(
                    partition = %inner.dir.display(),
                    %error,
                    "the log could not be written back"
                );
            }
        });
    }

    /// Schedules a sync of the log, `delay` from now at the latest.
    fn schedule_sync(&self, delay: Duration) {
        let due = self.shared.env().monotonic().saturating_add(delay);
        {
            let mut next = self.sync_due.lock();
            if next.is_some_and(|next| next <= due || seeded(Bug::SoonerSyncIgnored)) {
                return;
            }
            *next = Some(due);
        }
        self.background(JobClass::Flush, delay, |inner| {
            if !seeded(Bug::TimedSyncOnlyOnce) {
                *inner.sync_due.lock() = None;
            }
            if inner.check_open().is_err() {
                return;
            }
            // A failure poisons the log, and the next write says so.
            if let Err(error) = inner.log.sync_aside(inner.log.last()) {
                tracing::error!(
                    partition = %inner.dir.display(),
                    %error,
                    "the log could not be synced"
                );
            }
        });
    }
}
