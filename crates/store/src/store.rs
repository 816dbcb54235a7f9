//! One partition's store: opening, writing and reading it.

use crate::log_compaction::superseded_bytes_max;
use crate::machine::apply;
use crate::manifest::{self, Manifest, TreeFiles};
use crate::publish::Publisher;
use crate::sealing::Sealing;
use crate::shared::{Flushable, Shared};
use crate::space::Space;
use crate::view::TREES;
use crate::{Durability, Error, ErrorKind, Glance, Machine, Result, StoreStats, View, admission};
use parking_lot::Mutex;
use quire_env::{Gate, JobClass, Volumes};
use quire_log::{Codec, Log, LogOptions};
use quire_lsm::{TableFiles, Tree, TreeContext, TreeReader, TreeSnapshot, TreeSpec};
use quire_model::Position;
use quire_planted::{Bug, planted};
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How long a writer waits at the memory limit for a flush, while flushes make progress.
const MEMORY_WAIT_MAX: Duration = Duration::from_secs(60);

/// The log is written back in the background after so many bytes of records.
const WRITE_BACK_BYTES: u64 = 4 << 20;

/// Where a store lives: a directory of this name below each volume's; the manifest and the log are on the first.
#[derive(Debug, Clone)]
pub struct Place {
    /// The volumes.
    pub volumes: Volumes,
    /// The directory below each.
    pub subdir: PathBuf,
    /// Whose it is: kept in the manifest and in every log segment, so that no file of another store is taken for its own.
    pub identity: [u8; 16],
}

impl Place {
    /// The directory of the manifest.
    pub fn dir(&self) -> PathBuf {
        self.volumes.root().join(&self.subdir)
    }

    pub(crate) fn log_dir(&self) -> PathBuf {
        self.dir().join("log")
    }

    /// The directories of its log and, on every volume, of its tables.
    pub fn dirs(&self) -> Vec<PathBuf> {
        let tables = self.volumes.iter();
        let tables = tables.map(|volume| volume.path.join(self.tables_subdir()));
        std::iter::once(self.log_dir()).chain(tables).collect()
    }

    pub(crate) fn tables_subdir(&self) -> PathBuf {
        self.subdir.join("tables")
    }
}

/// Settings of a store.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// The log's.
    pub log: LogOptions,
    /// Trees that are to be shaped otherwise than [`Machine::trees`] says, by their ids.
    pub trees: Vec<TreeSpec>,
    /// Record bytes after which memtables are flushed even if they are small, so that opening replays a bounded part
    /// of the log. More makes larger, fewer flushes; less makes opening after a crash faster. Default 256 MiB.
    pub replay_bytes_max: u64,
    /// How much of the sealed part of the log is to be live, 0 to 100 percent: as long as less of it is, segments are
    /// compacted. So at 80 it takes up to 1.25 times what is live in it. More saves disk; less copies less. Default 80.
    pub log_live_percent: u32,
    /// The newest segment of the log is sealed this long after its first record; only at its size if `None`, the default.
    pub segment_age: Option<Duration>,
}

/// Settings of a store's log that may change while it is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogSettings {
    /// As of [`LogOptions`], for segments begun from now on.
    pub block_bytes: usize,
    /// As of [`LogOptions`], for segments begun from now on.
    pub codec: Codec,
    /// As of [`StoreOptions`], from the next record on.
    pub segment_age: Option<Duration>,
}

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        StoreOptions {
            log: LogOptions::default(),
            trees: Vec::new(),
            replay_bytes_max: 256 << 20,
            log_live_percent: 80,
            segment_age: None,
        }
    }
}

/// A durable state machine. Cheap to clone; any number of threads.
pub struct Store<M: Machine> {
    pub(crate) inner: Arc<Inner<M>>,
}

impl<M: Machine> fmt::Debug for Store<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("dir", &self.inner.dir)
            .field("position", &self.position())
            .finish()
    }
}

impl<M: Machine> Clone for Store<M> {
    fn clone(&self) -> Store<M> {
        Store {
            inner: Arc::clone(&self.inner),
        }
    }
}

pub(crate) struct Inner<M: Machine> {
    /// Itself, for background jobs, which must not keep a dropped store alive.
    pub(crate) me: Weak<Inner<M>>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) dir: PathBuf,
    pub(crate) options: StoreOptions,
    pub(crate) log: Arc<Log>,
    pub(crate) trees: Vec<Tree>,
    pub(crate) files: Arc<TableFiles>,
    pub(crate) writer: Mutex<Writer<M>>,
    pub(crate) publisher: Publisher<M::Summary>,
    /// Told whenever something new is visible.
    pub(crate) changed: Arc<dyn Gate>,
    pub(crate) manifest: Mutex<Manifest>,
    /// Held by the one flush that runs.
    pub(crate) flushing: Mutex<()>,
    /// Held by the one compaction that runs.
    pub(crate) compacting: Mutex<()>,
    /// The last record that did not say what it superseded: nothing can be counted before the trees' files have it.
    pub(crate) uncounted_until: AtomicU64,
    /// Segments that compaction found damaged, by base.
    pub(crate) unreadable: Mutex<BTreeSet<Position>>,
    pub(crate) flush_due: AtomicBool,
    pub(crate) compaction_due: AtomicBool,
    /// Set while the log is not to be compacted in the background.
    pub(crate) log_compaction_held: AtomicBool,
    /// When the next timed sync of the log is due; none if none is.
    sync_due: Mutex<Option<Duration>>,
    write_back_due: AtomicBool,
    pub(crate) sealing: Mutex<Sealing>,
    pub(crate) closed: AtomicBool,
    /// Set when what is on disk is unknown: nothing is acknowledged any more.
    pub(crate) read_only: AtomicBool,
    pub(crate) counters: Counters,
    pub(crate) background_error: Mutex<Option<String>>,
}

/// What only the one who writes touches.
#[derive(Debug)]
pub(crate) struct Writer<M> {
    pub(crate) machine: M,
    /// The last record that the machine and the trees hold: while the log is replayed, not the log's last.
    pub(crate) applied: Position,
    /// Record bytes since the memtables were last frozen.
    pub(crate) unflushed_bytes: u64,
    /// Record bytes since the log was last to be written back.
    pub(crate) unwritten_bytes: u64,
    /// Record bytes superseded since then: they can be reclaimed only once the memtables are flushed.
    pub(crate) superseded_bytes: u64,
    /// At so many the memtables are flushed.
    pub(crate) superseded_bytes_max: u64,
    /// What the records up to `applied` have superseded.
    pub(crate) space: Space,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    records: AtomicU64,
    writes: AtomicU64,
    stalls: AtomicU64,
    stall_micros: AtomicU64,
    stall_micros_max: AtomicU64,
    pub(crate) flushes: AtomicU64,
    pub(crate) compactions: AtomicU64,
    pub(crate) segments_compacted: AtomicU64,
    pub(crate) segments_miscounted: AtomicU64,
    pub(crate) log_bytes_reclaimed: AtomicU64,
}

/// A write being decided: the newest state to read, and the records to append.
pub struct Transaction<'a, M: Machine> {
    inner: &'a Inner<M>,
    machine: &'a M,
    first: Position,
    records: Vec<Vec<u8>>,
}

impl<M: Machine> Transaction<'_, M> {
    /// The newest value of a key in a tree, acknowledged or not: writes are decided in the order of the log.
    ///
    /// # Errors
    /// As of [`TreeReader::get`](quire_lsm::TreeReader::get).
    pub fn get(&self, tree: usize, key: &[u8]) -> Result<Option<quire_lsm::SmallBytes>> {
        Ok(self.inner.trees[tree].reader(Position(u64::MAX)).get(key)?)
    }

    /// The record at a position, this write's own included.
    ///
    /// # Errors
    /// As of [`Log::read`].
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

    /// Adds a record to the write and returns the position it will have. All records of a write survive a crash
    /// together or not at all.
    pub fn append(&mut self, record: Vec<u8>) -> Position {
        let position = Position(self.first.0 + self.records.len() as u64);
        self.records.push(record);
        position
    }
}

impl<M: Machine> Store<M> {
    /// Makes a new, empty store; [`open`](Store::open) it then. Durable when it returns.
    ///
    /// # Errors
    /// [`Error::Exists`] if one is there.
    pub fn create(shared: &Shared, place: &Place) -> Result<()> {
        let env = shared.env();
        let dir = place.dir();
        if Store::<M>::exists(shared, place)? {
            return Err(Error::Exists { path: dir });
        }
        for volume in place.volumes.iter() {
            env.create_dir_all(&volume.path.join(place.tables_subdir()))?;
        }
        let trees = M::trees()
            .into_iter()
            .map(|spec| TreeFiles {
                id: spec.id,
                name: spec.name,
                runs: Vec::new(),
            })
            .collect();
        let manifest = Manifest {
            identity: place.identity,
            sequence: 1,
            applied: Position(0),
            synced: Position(0),
            next_file: 1,
            state: M::new().encode(),
            trees,
            space: Space::new([]),
        };
        Ok(env.replace(&manifest::path(&dir), &manifest.encode())?)
    }

    /// Whether a store was made at this place: it has a manifest, or a log, which is made after the manifest.
    ///
    /// # Errors
    /// Those of the machine.
    pub fn exists(shared: &Shared, place: &Place) -> Result<bool> {
        let env = shared.env();
        Ok(env.exists(&manifest::path(&place.dir()))? || env.exists(&place.log_dir())?)
    }

    /// Opens a store: its manifest, then every record of the log after the position where its trees agree.
    ///
    /// `changed` is notified whenever something new is visible.
    ///
    /// # Errors
    /// Damage to the manifest, the log or a table's index is an error that names the file; nothing is changed then.
    pub fn open(
        shared: Arc<Shared>,
        place: Place,
        options: StoreOptions,
        changed: Arc<dyn Gate>,
    ) -> Result<Store<M>> {
        let env = Arc::clone(shared.env());
        let dir = place.dir();
        let mut manifest = Manifest::read(&*env, &dir)?;
        // One whose writer could not sync its name must not give way to the one before it: files that only that one
        // names are removed below.
        if !planted(Bug::FoundManifestBelieved) {
            env.sync_dir(&dir)?;
        }
        if manifest.identity != place.identity {
            return Err(Error::Manifest {
                path: manifest::path(&dir),
                what: "the manifest belongs to another partition or database".into(),
                offset: 20,
            });
        }
        let machine = M::decode(&manifest.state).map_err(|what| Error::Manifest {
            path: manifest::path(&dir),
            what: format!("the state at position {}: {what}", manifest.applied),
            offset: 20,
        })?;
        place.volumes.check_subdir(&*env, &place.tables_subdir())?;
        let files = Arc::new(TableFiles::new(
            Arc::clone(&env),
            place.volumes.clone(),
            place.tables_subdir(),
            manifest.next_file,
        ));
        remove_orphans(&files, &manifest)?;
        let context = TreeContext {
            files: Arc::clone(&files),
            env: Arc::clone(&env),
            cache: Arc::clone(shared.cache()),
            filters: Arc::clone(shared.filters()),
            budget: Arc::clone(shared.memtables()),
        };
        let mut trees = Vec::new();
        for spec in M::trees() {
            let runs = manifest
                .trees
                .iter()
                .find(|tree| tree.id == spec.id)
                .map(|tree| tree.runs.clone());
            let shaped = options.trees.iter().find(|shaped| shaped.id == spec.id);
            let spec = shaped.cloned().unwrap_or(spec);
            trees.push(Tree::open(spec, context.clone(), runs.unwrap_or_default())?);
        }
        let (log, _recovery) = Log::open(
            Arc::clone(&env),
            &place.log_dir(),
            quire_log::LogIdentity(place.identity),
            Arc::clone(shared.cache()),
            options.log.clone(),
        )?;
        if log.last() < manifest.synced && !planted(Bug::ShortLogAccepted) {
            return Err(Error::LogTooShort {
                path: dir,
                last: log.last(),
                synced: manifest.synced,
            });
        }
        let segments = log.segments();
        manifest.space.open(&segments, manifest.applied);
        let sealing = Sealing::new(options.segment_age);
        let inner = Arc::new_cyclic(|me| Inner {
            me: Weak::clone(me),
            publisher: Publisher::new(manifest.applied, machine.summary()),
            writer: Mutex::new(Writer {
                machine,
                applied: manifest.applied,
                unflushed_bytes: 0,
                unwritten_bytes: 0,
                superseded_bytes: 0,
                superseded_bytes_max: superseded_bytes_max(&options, &manifest.space, &segments),
                space: manifest.space.clone(),
            }),
            manifest: Mutex::new(manifest),
            shared,
            dir,
            options,
            log: Arc::new(log),
            trees,
            files,
            changed,
            flushing: Mutex::new(()),
            compacting: Mutex::new(()),
            uncounted_until: AtomicU64::new(0),
            unreadable: Mutex::new(BTreeSet::new()),
            flush_due: AtomicBool::new(false),
            compaction_due: AtomicBool::new(false),
            log_compaction_held: AtomicBool::new(false),
            sync_due: Mutex::new(None),
            write_back_due: AtomicBool::new(false),
            sealing: Mutex::new(sealing),
            closed: AtomicBool::new(false),
            read_only: AtomicBool::new(false),
            counters: Counters::default(),
            background_error: Mutex::new(None),
        });
        inner.replay()?;
        let flushable: Weak<dyn Flushable> = inner.me.clone();
        inner.shared.register(flushable);
        inner.schedule_compaction();
        Ok(Store { inner })
    }

    /// Decides a write and does it. `decide` reads the newest state and appends records; no other write comes between.
    /// If it fails, or appends nothing, nothing is written. Returns what it returned, once the records are as
    /// durable as `durability` says and visible to new views.
    ///
    /// Slows down, or waits, when memtables are written faster than they can be flushed.
    ///
    /// # Errors
    /// What `decide` returned; [`ErrorKind::Full`] if disk or memory has no room (nothing was written);
    /// `ReadOnly` or `Io` if the log could not be synced: whether the write survives is then unknown until the store
    /// is opened again.
    pub fn write<R, E: From<Error>>(
        &self,
        durability: Durability,
        decide: impl FnOnce(&mut Transaction<'_, M>) -> std::result::Result<R, E>,
    ) -> std::result::Result<R, E> {
        let (result, position) = self.write_unsynced(decide)?;
        self.acknowledge(position, durability)?;
        Ok(result)
    }

    /// The first half of [`write`](Store::write): applied, not yet durable nor visible. Whoever calls it calls
    /// [`acknowledge`](Store::acknowledge) with the position it returns; so several stores can be written before
    /// the first is synced.
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
            let records: Vec<&[u8]> = transaction.records.iter().map(Vec::as_slice).collect();
            let position = inner.append(writer, &records)?;
            Ok((result, position))
        })
    }

    /// Does what appends records, at the pace that the memory for memtables allows.
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
        inner.slow_down(added);
        inner.shared.relieve();
        Ok(written)
    }

    /// Makes everything up to `position` as durable as asked, and visible.
    ///
    /// # Errors
    /// As of [`write`](Store::write).
    pub fn acknowledge(&self, position: Position, durability: Durability) -> Result<()> {
        if planted(Bug::PublishedBeforeDurable) {
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

    /// A consistent read of everything acknowledged so far. Waits for no write, and for whoever publishes one a moment at most.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn view(&self) -> Result<View<M::Summary>> {
        let inner = &*self.inner;
        inner.check_open()?;
        loop {
            let published = inner.publisher.current();
            // Before the trees: what compaction has taken from these segments was superseded by what is in the trees'
            // files, so that the check of these covers the log too.
            let log = inner.log.view();
            if let Some(trees) = inner.snapshots(published.position) {
                return Ok(View {
                    position: published.position,
                    summary: published.summary.clone(),
                    trees,
                    log,
                });
            }
        }
    }

    /// The trees of a [`view`](Self::view), in the order of [`Machine::trees`], without the log: no segment is held.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn view_of_trees(&self) -> Result<Vec<TreeSnapshot>> {
        let inner = &*self.inner;
        inner.check_open()?;
        loop {
            if let Some(trees) = inner.snapshots(inner.publisher.position()) {
                return Ok(trees);
            }
        }
    }

    /// A consistent read as of [`view`](Self::view), for a few lookups at once.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn glance(&self) -> Result<Glance<'_>> {
        let inner = &*self.inner;
        inner.check_open()?;
        loop {
            let position = inner.publisher.position();
            // In the order in which a view is made, and for its reasons.
            let log = inner.log.reader();
            let trees: SmallVec<[_; TREES]> = inner
                .trees
                .iter()
                .map(|tree| tree.reader(seen_at(position)))
                .collect();
            if trees.iter().all(|tree| tree.flushed() <= position) {
                return Ok(Glance {
                    position,
                    trees,
                    log,
                });
            }
        }
    }

    /// A tree of [`glance`](Self::glance) alone, by its number in [`Machine::trees`].
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn glance_at(&self, tree: usize) -> Result<TreeReader<'_>> {
        let inner = &*self.inner;
        inner.check_open()?;
        loop {
            let position = inner.publisher.position();
            let reader = inner.trees[tree].reader(seen_at(position));
            if reader.flushed() <= position {
                return Ok(reader);
            }
        }
    }

    /// The last position that views see.
    pub fn position(&self) -> Position {
        self.inner.publisher.position()
    }

    /// The records after `seen` that are visible now, in order. Those that compaction has removed are passed over: each
    /// was superseded by one that comes later.
    ///
    /// # Errors
    /// `Gone` if the log no longer holds the first of them.
    pub fn tail(
        &self,
        seen: Position,
    ) -> Result<impl Iterator<Item = Result<(Position, bytes::Bytes)>> + use<M>> {
        self.inner.check_open()?;
        // In this order: what compaction has taken was superseded by a record that is visible.
        let log = self.inner.log.view();
        let end = self.position();
        if seen.next() < log.first() && seen < end {
            // Say so at once, not at the first record read.
            log.read(seen.next())?;
        }
        let scan = log.scan(seen.next()).until(end);
        Ok(scan.map(|item| item.map_err(Error::from)))
    }

    /// Makes everything written so far durable and visible.
    ///
    /// # Errors
    /// As of [`write`](Store::write).
    pub fn sync(&self) -> Result<()> {
        self.inner.check_open()?;
        self.acknowledge(self.inner.log.last(), Durability::Sync)
    }

    /// Changes settings of the log. What is on disk stays as it is.
    ///
    /// # Errors
    /// Of kind `Log` for what [`Store::open`] would refuse.
    pub fn set_log(&self, settings: LogSettings) -> Result<()> {
        let inner = &*self.inner;
        inner.check_open()?;
        inner.log.set_blocks(settings.block_bytes, settings.codec)?;
        inner.sealing.lock().set_age(settings.segment_age);
        Ok(())
    }

    /// Figures.
    pub fn stats(&self) -> StoreStats {
        let inner = &*self.inner;
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (log_dead_bytes, segments_uncounted) = inner.log_dead_bytes();
        StoreStats {
            position: self.position(),
            applied: inner.manifest.lock().applied,
            log: inner.log.stats(),
            trees: M::trees()
                .into_iter()
                .map(|spec| spec.name)
                .zip(inner.trees.iter().map(Tree::stats))
                .collect(),
            records: load(&inner.counters.records),
            writes: load(&inner.counters.writes),
            stalls: load(&inner.counters.stalls),
            stall_micros: load(&inner.counters.stall_micros),
            stall_micros_max: load(&inner.counters.stall_micros_max),
            flushes: load(&inner.counters.flushes),
            compactions: load(&inner.counters.compactions),
            log_dead_bytes,
            segments_uncounted,
            segments_miscounted: load(&inner.counters.segments_miscounted),
            segments_compacted: load(&inner.counters.segments_compacted),
            log_bytes_reclaimed: load(&inner.counters.log_bytes_reclaimed),
            background_error: inner.background_error.lock().clone(),
            visible_delays: inner.publisher.delays.counts(),
            visible_delay_micros: inner.publisher.delays.micros(),
        }
    }
}

impl<M: Machine> Inner<M> {
    /// The trees at `position`, which was published before. A flush that was installed since may have put later records into
    /// the files: `None` then. What it flushed was published first, so a try with the next position sees it.
    fn snapshots(&self, position: Position) -> Option<Vec<TreeSnapshot>> {
        let at = seen_at(position);
        let trees: Vec<_> = self.trees.iter().map(|tree| tree.snapshot(at)).collect();
        let in_time = trees.iter().all(|tree| tree.flushed() <= position);
        in_time.then_some(trees)
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            Err(Error::Closed)
        } else {
            Ok(())
        }
    }

    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        if self.read_only.load(Ordering::Acquire) {
            return Err(Error::ReadOnly {
                path: self.dir.clone(),
            });
        }
        Ok(())
    }

    /// Appends a group of records and applies it. Called with the writer's lock. Returns the log's last position.
    pub(crate) fn append(&self, writer: &mut Writer<M>, records: &[&[u8]]) -> Result<Position> {
        if records.is_empty() {
            return Ok(self.log.last());
        }
        let first = self.log.append(records)?;
        self.note_for_sealing(first);
        if self.log.dictionary_is_due() {
            self.schedule_compaction();
        }
        let mut position = first;
        for record in records {
            if let Err(error) = self.apply(writer, position, record) {
                // The log holds a record that the trees do not: nothing after it may be acknowledged.
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
        if writer.unwritten_bytes >= WRITE_BACK_BYTES {
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
        Ok(last)
    }

    /// Applies one record, the next.
    fn apply(&self, writer: &mut Writer<M>, position: Position, record: &[u8]) -> Result<()> {
        let superseded = apply(
            &mut writer.machine,
            &self.trees,
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
            }
        }
        writer.unflushed_bytes += record.len() as u64;
        writer.applied = position;
        Ok(())
    }

    pub(crate) fn memtable_bytes(&self) -> u64 {
        self.trees.iter().map(Tree::memtable_bytes).sum()
    }

    pub(crate) fn publish(&self, position: Position) {
        let now = self.shared.env().monotonic();
        if self.publisher.publish(position, now) {
            self.changed.notify();
        }
    }

    /// Applies what the log holds after the manifest's position.
    fn replay(&self) -> Result<()> {
        let applied = self.manifest.lock().applied;
        let from = match planted(Bug::RecordAppliedTwice) {
            true => applied.max(Position(1)),
            false => applied.next(),
        };
        let memtables = self.shared.memtables();
        let mut flush_at = memtables.limit() / 4;
        let most = memtables.limit() + flush_at;
        for item in self.log.scan(from) {
            let (position, record) = item?;
            let full = {
                let mut writer = self.writer.lock();
                self.apply(&mut writer, position, &record)?;
                let summary = writer.machine.summary();
                self.publisher.applied(position, summary, None);
                self.memtable_bytes() >= flush_at
            };
            if full {
                self.publish(position);
                match self.flush() {
                    // A full disk can be read all the same. Whoever wrote this had no more memory, but for a last batch.
                    Err(error) if error.kind() == ErrorKind::Full && memtables.used() < most => {
                        flush_at = self.memtable_bytes() + memtables.limit() / 8;
                    }
                    flushed => flushed?,
                }
            }
        }
        self.publish(self.log.last());
        Ok(())
    }

    /// Waits while memtables hold all they may.
    fn admit(&self) -> Result<()> {
        let memtables = self.shared.memtables();
        if memtables.used() < memtables.limit() {
            return Ok(());
        }
        let env = self.shared.env();
        let begun = env.monotonic();
        let mut failed = None;
        self.shared.relieve();
        self.shared.freed.wait_until(
            &mut || {
                self.shared.relieve();
                failed = self.background_error.lock().clone();
                memtables.used() < memtables.limit()
                    || failed.is_some()
                    || self.closed.load(Ordering::Acquire)
            },
            MEMORY_WAIT_MAX,
        );
        self.count_stall(env.monotonic().saturating_sub(begun));
        self.check_open()?;
        if memtables.used() < memtables.limit() {
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
        let delay = admission::delay(memtables.used(), memtables.limit(), bytes);
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

    /// Has the log written back in the background, unless that is due already.
    fn schedule_write_back(&self) {
        if self.write_back_due.swap(true, Ordering::AcqRel) {
            return;
        }
        let weak = self.me.clone();
        let job = move || {
            let Some(inner) = weak.upgrade() else { return };
            inner.write_back_due.store(false, Ordering::Release);
            if inner.check_open().is_err() {
                return;
            }
            // A failure poisons the log, and the next write says so.
            if let Err(error) = inner.log.write_back() {
                tracing::error!(partition = %inner.dir.display(), %error, "the log could not be written back");
            }
        };
        let env = self.shared.env();
        env.schedule(JobClass::Flush, Duration::ZERO, Box::new(job));
    }

    /// Sees to it that the log is synced at the latest `delay` from now.
    fn schedule_sync(&self, delay: Duration) {
        let due = self.shared.env().monotonic().saturating_add(delay);
        {
            let mut next = self.sync_due.lock();
            if next.is_some_and(|next| next <= due || planted(Bug::SoonerSyncIgnored)) {
                return;
            }
            *next = Some(due);
        }
        let weak = self.me.clone();
        let job = move || {
            let Some(inner) = weak.upgrade() else { return };
            if !planted(Bug::TimedSyncOnlyOnce) {
                *inner.sync_due.lock() = None;
            }
            if inner.check_open().is_err() {
                return;
            }
            // A failure poisons the log, and the next write says so.
            if let Err(error) = inner.log.sync(inner.log.last()) {
                tracing::error!(partition = %inner.dir.display(), %error, "the log could not be synced");
            }
        };
        self.shared
            .env()
            .schedule(JobClass::Flush, delay, Box::new(job));
    }
}

/// What trees are asked for when a view is made at `position`.
fn seen_at(position: Position) -> Position {
    match planted(Bug::ViewSeesLaterWrites) {
        true => Position(u64::MAX),
        false => position,
    }
}

/// Removes table files that no manifest names: what a crash left of a flush or a compaction.
fn remove_orphans(files: &TableFiles, manifest: &Manifest) -> Result<()> {
    let named: std::collections::HashSet<_> = manifest
        .trees
        .iter()
        .flat_map(|tree| &tree.runs)
        .flat_map(|run| &run.tables)
        .map(|table| table.file)
        .collect();
    for file in files.list()? {
        if !named.contains(&file) {
            files.remove(file)?;
        }
    }
    Ok(())
}
