//! One partition's store: what it is made of.

use crate::deriver::Deriver;
use crate::log_holds::{LogHold, LogHolds};
use crate::manifest::Manifest;
use crate::publish::Publisher;
use crate::segment_age::Sealing;
use crate::shared::Shared;
use crate::space::Space;
use crate::trees::RebuiltTrees;
use crate::trees::Trees;
use crate::{Error, LogSettings, Machine, Result, StoreOptions, StoreStats, TreeId};
use quire_env::{Gate, JobClass, Volume};
use quire_log::Log;
use quire_lsm::{TableFiles, TreeContext};
use quire_model::Position;
use quire_sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
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
    /// Records that are needed though no opening replays them.
    pub(crate) log_holds: Arc<LogHolds>,
    /// The hold on all of the log that it was opened with, until the owner takes it.
    pub(crate) opening_hold: Mutex<Option<LogHold>>,
    pub(crate) trees: Trees,
    /// What trees are opened with.
    pub(crate) context: TreeContext,
    pub(crate) writer: Mutex<Writer<M>>,
    pub(crate) publisher: Publisher<M::Summary>,
    /// Told whenever something new is visible.
    pub(crate) changed: Arc<dyn Gate>,
    pub(crate) manifest: Mutex<Manifest>,
    /// Held by the one flush that runs.
    pub(crate) flushing: Mutex<()>,
    /// Shared by the steps of compactions that trees pick themselves; held alone by what must have
    /// none of them beside it. Taken before `flushing`.
    pub(crate) compacting: RwLock<()>,
    /// Held by the one compaction of the log that runs.
    pub(crate) compacting_log: Mutex<()>,
    /// The last record that did not say what it superseded: nothing can be counted before the
    /// trees' files have it.
    pub(crate) uncounted_until: AtomicU64,
    /// Segments that compaction found damaged, by base.
    pub(crate) unreadable: Mutex<BTreeSet<Position>>,
    /// The derived trees. Taken after `flushing`, and before `writer` and `manifest`.
    pub(crate) deriving: Mutex<Deriver>,
    /// The position that derived trees are at, for readers.
    pub(crate) derived: AtomicU64,
    pub(crate) derive_due: AtomicBool,
    /// Set while a try to build derived trees that failed is to be repeated.
    pub(crate) derive_retry_due: AtomicBool,
    /// Set while derived trees are to follow what was published, a moment from now.
    pub(crate) follow_due: AtomicBool,
    /// How often derived trees followed changes since a view was last made of one.
    pub(crate) follows_unread: AtomicU32,
    /// The tree that is being built, and the cursor that it is at.
    pub(crate) building: Mutex<Option<(TreeId, Vec<u8>)>>,
    /// Why the job that builds derived trees last failed, if it has not succeeded since.
    pub(crate) derive_error: Mutex<Option<String>>,
    /// The derived trees that were found damaged since the store was opened.
    pub(crate) rebuilt: Mutex<RebuiltTrees>,
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
    /// Set while a job is to look for dead space.
    pub(crate) dead_look_due: AtomicBool,
    pub(crate) closed: AtomicBool,
    /// Set when what is on disk is unknown: nothing is acknowledged any more.
    pub(crate) read_only: AtomicBool,
    /// The volume, if one is lost that a table lies on: then it is read-only.
    pub(crate) lost: Option<Volume>,
    pub(crate) counters: Counters,
    pub(crate) background_error: Mutex<Option<String>>,
}

/// What only the writer accesses.
#[derive(Debug)]
pub(crate) struct Writer<M> {
    pub(crate) machine: M,
    /// The last record that the machine and the trees hold: while the log is replayed, not the
    /// log's last.
    pub(crate) applied: Position,
    /// Record bytes since the memtables were last frozen.
    pub(crate) unflushed_bytes: u64,
    /// Record bytes since derived trees were last to be brought up to date.
    pub(crate) underived_bytes: u64,
    /// Record bytes since the log was last to be written back.
    pub(crate) unwritten_bytes: u64,
    /// Record bytes superseded since then: they can be reclaimed only once the memtables are
    /// flushed.
    pub(crate) superseded_bytes: u64,
    /// At this number of them the memtables are flushed.
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
    pub(crate) derived_records: AtomicU64,
    pub(crate) derive_micros: AtomicU64,
}

impl<M: Machine> Store<M> {
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

    /// The hold on all of the log, if the store was opened [with it](StoreOptions::log_held): the
    /// caller has it from now on.
    pub fn take_opening_hold(&self) -> Option<LogHold> {
        self.inner.opening_hold.lock().take()
    }

    /// The first record that the log has, or will have.
    pub fn log_first(&self) -> Position {
        self.inner.log.first()
    }

    /// The first records of the segments of the log, in order. All but the last are sealed.
    pub fn log_segments(&self) -> Vec<Position> {
        let segments = self.inner.log.segments();
        segments.iter().map(|segment| segment.base).collect()
    }

    /// Drops the segments of the log that neither an opening nor anybody else needs, as a flush
    /// does, where the log is not kept anyway. Returns how many bytes they had.
    ///
    /// # Errors
    /// `Closed`; `Io`.
    pub fn drop_obsolete_log(&self) -> Result<u64> {
        self.inner.check_open()?;
        match M::LOG_IS_KEPT {
            true => Ok(0),
            false => self.inner.drop_obsolete_log(),
        }
    }

    /// Figures.
    pub fn stats(&self) -> StoreStats {
        let inner = &*self.inner;
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (log_dead_bytes, segments_uncounted) = inner.log_dead_bytes();
        let applied = inner.manifest.lock().applied;
        let flush_error = inner.background_error.lock().clone();
        let lost = inner
            .lost
            .as_ref()
            .map(|volume| volume.missing().to_string());
        let background_error = flush_error
            .or_else(|| inner.derive_error.lock().clone())
            .or(lost)
            .or_else(|| inner.files().trouble());
        StoreStats {
            position: self.position(),
            applied,
            log: inner.log.stats(),
            trees: self.trees(),
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
            derived_records: load(&inner.counters.derived_records),
            derive_micros: load(&inner.counters.derive_micros),
            derive_error: inner.derive_error.lock().clone(),
            background_error,
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
        self.check_volumes()?;
        if self.read_only.load(Ordering::Acquire) {
            return Err(Error::ReadOnly {
                path: self.dir.clone(),
            });
        }
        Ok(())
    }

    /// Fails if a table lies on a volume that is lost.
    pub(crate) fn check_volumes(&self) -> Result<()> {
        match &self.lost {
            Some(volume) => Err(volume.missing().into()),
            None => Ok(()),
        }
    }

    pub(crate) fn memtable_bytes(&self) -> u64 {
        let bytes = self.trees.iter().map(|slot| slot.tree.memtable_bytes());
        bytes.sum()
    }

    pub(crate) fn files(&self) -> &TableFiles {
        &self.context.files
    }
}
