//! One partition's store: what it is made of, and opening it.

use crate::log_compaction::superseded_bytes_max;
use crate::manifest::{self, Manifest, TreeFiles};
use crate::publish::Publisher;
use crate::sealing::Sealing;
use crate::shared::{Flushable, Shared};
use crate::space::Space;
use crate::{Error, ErrorKind, LogSettings, Machine, Place, Result, StoreOptions, StoreStats};
use quire_env::{Gate, JobClass};
use quire_log::Log;
use quire_lsm::{TableFiles, Tree, TreeContext};
use quire_model::Position;
use quire_seeded::{Bug, seeded};
use quire_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use quire_sync::{Mutex, RwLock};
use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

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
    /// Shared by the steps of compactions that trees pick themselves; held alone by whoever wants
    /// none of them beside.
    pub(crate) compacting: RwLock<()>,
    /// Held by the one compaction of the log that runs.
    pub(crate) compacting_log: Mutex<()>,
    /// The last record that did not say what it superseded: nothing can be counted before the
    /// trees' files have it.
    pub(crate) uncounted_until: AtomicU64,
    /// Segments that compaction found damaged, by base.
    pub(crate) unreadable: Mutex<BTreeSet<Position>>,
    pub(crate) flush_due: AtomicBool,
    pub(crate) compaction_due: AtomicBool,
    /// Set when a compaction failed, until it is to be tried again.
    pub(crate) compaction_failed: AtomicBool,
    /// Set while the log is not to be compacted in the background.
    pub(crate) log_compaction_held: AtomicBool,
    /// When the next timed sync of the log is due; none if none is.
    pub(crate) sync_due: Mutex<Option<Duration>>,
    pub(crate) write_back_due: AtomicBool,
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
    /// The last record that the machine and the trees hold: while the log is replayed, not the
    /// log's last.
    pub(crate) applied: Position,
    /// Record bytes since the memtables were last frozen.
    pub(crate) unflushed_bytes: u64,
    /// Record bytes since the log was last to be written back.
    pub(crate) unwritten_bytes: u64,
    /// Record bytes superseded since then: they can be reclaimed only once the memtables are
    /// flushed.
    pub(crate) superseded_bytes: u64,
    /// At so many the memtables are flushed.
    pub(crate) superseded_bytes_max: u64,
    /// What the records up to `applied` have superseded.
    pub(crate) space: Space,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) records: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) stalls: AtomicU64,
    pub(crate) stall_micros: AtomicU64,
    pub(crate) stall_micros_max: AtomicU64,
    pub(crate) flushes: AtomicU64,
    pub(crate) compactions: AtomicU64,
    pub(crate) segments_compacted: AtomicU64,
    pub(crate) segments_miscounted: AtomicU64,
    pub(crate) log_bytes_reclaimed: AtomicU64,
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

    /// Whether a store was made at this place: it has a manifest, or a log, which is made after the
    /// manifest.
    ///
    /// # Errors
    /// Those of the machine.
    pub fn exists(shared: &Shared, place: &Place) -> Result<bool> {
        let env = shared.env();
        Ok(env.exists(&manifest::path(&place.dir()))? || env.exists(&place.log_dir())?)
    }

    /// Opens a store: its manifest, then every record of the log after the position where its trees
    /// agree.
    ///
    /// `changed` is notified whenever something new is visible.
    ///
    /// # Errors
    /// Damage to the manifest, the log or a table's index is an error that names the file; nothing
    /// is changed then.
    pub fn open(
        shared: Arc<Shared>,
        place: Place,
        options: StoreOptions,
        changed: Arc<dyn Gate>,
    ) -> Result<Store<M>> {
        let env = Arc::clone(shared.env());
        let dir = place.dir();
        let mut manifest = Manifest::read(&*env, &dir)?;
        // One whose writer could not sync its name must not give way to the one before it: files
        // that only that one names are removed below.
        if !seeded(Bug::FoundManifestBelieved) {
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
        let (log, _recovery) = Log::open_after(
            Arc::clone(&env),
            &place.log_dir(),
            quire_log::LogIdentity(place.identity),
            Arc::clone(shared.cache()),
            options.log.clone(),
            match M::LOG_IS_KEPT {
                true => Position(0),
                false => manifest.applied,
            },
        )?;
        if log.last() < manifest.synced && !seeded(Bug::ShortLogAccepted) {
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
            compacting: RwLock::new(()),
            compacting_log: Mutex::new(()),
            uncounted_until: AtomicU64::new(0),
            unreadable: Mutex::new(BTreeSet::new()),
            flush_due: AtomicBool::new(false),
            compaction_due: AtomicBool::new(false),
            compaction_failed: AtomicBool::new(false),
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
    /// Does `work` in the background, unless the store was dropped by then: a job keeps none alive.
    pub(crate) fn background(
        &self,
        class: JobClass,
        after: Duration,
        work: impl FnOnce(&Inner<M>) + Send + 'static,
    ) {
        let me = self.me.clone();
        let job = move || {
            if let Some(inner) = me.upgrade() {
                work(&inner);
            }
        };
        let env = self.shared.env();
        env.schedule(class, after, Box::new(job));
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

    pub(crate) fn memtable_bytes(&self) -> u64 {
        self.trees.iter().map(Tree::memtable_bytes).sum()
    }

    /// Applies what the log holds after the manifest's position.
    fn replay(&self) -> Result<()> {
        let applied = self.manifest.lock().applied;
        let from = match seeded(Bug::RecordAppliedTwice) {
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
                    // A full disk can be read all the same. Whoever wrote this had no more memory,
                    // but for a last batch.
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
