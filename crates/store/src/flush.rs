//! Flush, compaction and close: what moves memtables to table files and keeps the runs few.
//!
//! Order is everything here. A flush (1) freezes the memtables of all trees at one position, under
//! the writer's lock; (2) makes the log durable up to it; (3) writes and syncs the tables; (4)
//! replaces the manifest; (5) lets readers see the files and drops the memtables. A crash between
//! any two steps loses nothing: before (4) the old manifest and the log still give everything, and
//! the new files are orphans. Where the log is a write-ahead log and no more, (6) the segments that
//! hold nothing after the position are dropped; if it is rotate_unsynced too, (2) is left out, as the tables
//! have it all.

use crate::log_compaction::superseded_bytes_max;
use crate::manifest;
use crate::shared::Flushable;
use crate::space::Space;
use crate::store::{Inner, Store, Writer};
use crate::{Error, ErrorKind, Machine, Result};
use quire_env::JobClass;
use quire_lsm::{Compaction, Superseded, Tree, TreeEdit};
use quire_model::Position;
use quire_seeded::{Bug, seeded};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long after a failed flush the next is tried.
const RETRY: Duration = Duration::from_secs(1);

/// How long is waited, twice as long each time, for whoever holds what was superseded.
const LET_GO_WAIT_MIN: Duration = Duration::from_micros(100);
const LET_GO_WAIT_MAX: Duration = Duration::from_millis(10);

/// On close, a log tail longer than this is flushed, so that the next open need not replay it.
const CLOSE_FLUSH_BYTES: u64 = 4 << 20;

/// A flush's position and the machine's state there.
pub(crate) struct Cut {
    position: Position,
    state: Vec<u8>,
    space: Space,
}

impl<M: Machine> Store<M> {
    /// Writes all memtables out as table files. Everything written before the call is durable when
    /// it returns.
    ///
    /// # Errors
    /// `Full` or `Io` as the disk says; the memtables stay, and the flush is tried again later.
    pub fn flush(&self) -> Result<()> {
        self.inner.check_open()?;
        self.inner.flush()?;
        match M::LOG_IS_KEPT {
            true => Ok(()),
            false => self.inner.drop_whole_log(),
        }
    }

    /// Merges every tree into one run, and removes from the log all records that are not needed.
    /// Long: reads and writes all table files, and all segments of which anything can be reclaimed.
    ///
    /// # Errors
    /// As of [`flush`](Store::flush).
    pub fn compact(&self) -> Result<()> {
        self.inner.check_open()?;
        self.inner.seal_log()?;
        self.flush()?;
        self.inner.compact_trees_whole()?;
        if !M::LOG_IS_KEPT {
            return Ok(());
        }
        let _one = self.inner.compacting_log.lock();
        self.inner.check_open()?;
        self.inner.compact_log_whole()
    }

    /// Writes all memtables out and does the compactions that the policy asks for, until it asks
    /// for none: what is on disk then is what will be there as long as nothing is written.
    ///
    /// # Errors
    /// As of [`flush`](Store::flush).
    pub fn settle(&self) -> Result<()> {
        self.flush()?;
        let alone = self.inner.compacting.write();
        while self.inner.compact_next()? {}
        drop(alone);
        // What was flushed meanwhile.
        self.inner.schedule_compaction();
        Ok(())
    }

    /// Syncs and closes. Later calls fail with [`Error::Closed`]. A store that is dropped without
    /// it loses nothing that was acknowledged under `sync`.
    ///
    /// # Errors
    /// As of [`flush`](Store::flush). `Full` only if an earlier process left records that it may
    /// have failed to sync, and there is still no room to make them durable: they stay as they are.
    /// What else is not written out is replayed from the log.
    pub fn close(&self) -> Result<()> {
        let inner = &*self.inner;
        if inner.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        inner.shared.freed.notify();
        inner.changed.notify();
        let unflushed = inner.writer.lock().unflushed_bytes;
        let flushed = if unflushed > CLOSE_FLUSH_BYTES {
            inner.flush()
        } else {
            Ok(())
        };
        // What is under way ends first (a compaction sees the flag and stops): nothing is written
        // after the close.
        let _compacting = inner.compacting.write();
        let _compacting_log = inner.compacting_log.lock();
        let _flushing = inner.flushing.lock();
        if !seeded(Bug::CloseWithoutSync) {
            inner.log.close()?;
        }
        inner.note_end();
        match flushed {
            // All is durable in the log: what had no room would only have made the next opening
            // faster.
            Err(error) if error.kind() == ErrorKind::Full => {
                tracing::warn!(partition = %inner.dir.display(), %error, "no room to write memtables out at the close");
                Ok(())
            }
            flushed => flushed,
        }
    }
}

impl<M: Machine> Inner<M> {
    pub(crate) fn flush(&self) -> Result<()> {
        let result = self.flush_steps();
        match &result {
            Ok(()) => *self.background_error.lock() = None,
            Err(error) => *self.background_error.lock() = Some(error.to_string()),
        }
        self.shared.flush_ended();
        result
    }

    fn flush_steps(&self) -> Result<()> {
        let _one = self.flushing.lock();
        if self.read_only.load(Ordering::Acquire) {
            return Err(Error::ReadOnly {
                path: self.dir.clone(),
            });
        }
        let cut = self.freeze(&mut self.writer.lock());
        self.flush_cut(cut)
    }

    /// Flushes what was frozen. Called with the lock of the one flush.
    pub(crate) fn flush_cut(&self, cut: Cut) -> Result<()> {
        let rotate_unsynced = self.options.log.rotate_unsynced && !M::LOG_IS_KEPT;
        if !rotate_unsynced && !seeded(Bug::FlushAheadOfLog) {
            self.log.sync_aside(cut.position)?;
        }
        self.publish(cut.position);
        let mut edits = Vec::new();
        for (index, tree) in self.trees.iter().enumerate() {
            match tree.flush() {
                Ok(Some(edit)) => edits.push((index, edit)),
                Ok(None) => {}
                Err(error) => {
                    self.abandon(edits);
                    return Err(error.into());
                }
            }
        }
        if edits.is_empty() && self.manifest.lock().applied == cut.position {
            return Ok(());
        }
        self.commit(edits, Some(cut))?;
        self.counters.flushes.fetch_add(1, Ordering::Relaxed);
        self.schedule_compaction();
        if M::LOG_IS_KEPT {
            return Ok(());
        }
        self.drop_obsolete_log()
    }

    /// Drops all of the log that no opening will replay, the newest segment too.
    fn drop_whole_log(&self) -> Result<()> {
        self.log.rotate()?;
        self.drop_obsolete_log()
    }

    /// Drops the segments of the log that no opening will replay.
    fn drop_obsolete_log(&self) -> Result<()> {
        let applied = self.manifest.lock().applied;
        let freed = self.log.drop_before(applied.next())?;
        let counter = &self.counters.log_bytes_reclaimed;
        counter.fetch_add(freed, Ordering::Relaxed);
        Ok(())
    }

    /// Freezes all memtables. Called with the lock of the one flush.
    pub(crate) fn freeze(&self, writer: &mut Writer<M>) -> Cut {
        for tree in &self.trees {
            tree.freeze();
        }
        writer.unflushed_bytes = 0;
        writer.superseded_bytes = 0;
        let (applied, segments) = (writer.applied, self.log.segments());
        let space = writer.space.cut(&segments, applied);
        writer.superseded_bytes_max = superseded_bytes_max(&self.options, &space, &segments);
        Cut {
            position: match seeded(Bug::FlushNamesLogEnd) {
                true => self.log.last(),
                false => writer.applied,
            },
            state: writer.machine.encode(),
            space,
        }
    }

    /// Notes in the manifest where the closed log ends, so that a later cut is noticed. All is
    /// durable already: a disk without room for the note loses nothing else.
    fn note_end(&self) {
        if self.manifest.lock().synced < self.log.durable()
            && let Err(error) = self.commit(Vec::new(), None)
        {
            tracing::warn!(partition = %self.dir.display(), %error, "the end of the log could not be noted");
        }
    }

    fn abandon(&self, edits: Vec<(usize, TreeEdit)>) {
        for (index, edit) in edits {
            self.trees[index].abandon(edit);
        }
    }

    /// Writes the manifest that holds `edits`, then lets readers see them.
    pub(crate) fn commit(&self, edits: Vec<(usize, TreeEdit)>, cut: Option<Cut>) -> Result<()> {
        let mut manifest = self.manifest.lock();
        let mut next = manifest.clone();
        next.sequence += 1;
        next.synced = self.log.durable();
        next.next_file = self.files.next_number();
        for (index, edit) in &edits {
            let tree = &self.trees[*index];
            if let Some(files) = next
                .trees
                .iter_mut()
                .find(|files| files.id == tree.spec().id)
            {
                files.runs = tree.preview(edit);
            }
        }
        if let Some(cut) = cut {
            next.applied = cut.position;
            if seeded(Bug::AppliedOneTooFar) {
                next.applied = cut.position.next();
            }
            if !seeded(Bug::StateNotReplaced) {
                next.state = cut.state;
            }
            next.space = cut.space;
        } else if seeded(Bug::DeadBytesOfNow) {
            next.space = self.writer.lock().space.clone();
        }
        let path = manifest::path(&self.dir);
        if let Err(error) = self.shared.env().replace(&path, &next.encode()) {
            // The new manifest may be in place although its name is not durable. Only if the old
            // one still stands is it safe to take the new files away.
            match manifest::Manifest::read(&**self.shared.env(), &self.dir) {
                Ok(standing)
                    if standing.sequence == manifest.sequence
                        || seeded(Bug::DoubtfulManifestGivenUp) =>
                {
                    self.abandon(edits);
                }
                _ => self.read_only.store(true, Ordering::Release),
            }
            return Err(error.into());
        }
        *manifest = next;
        let superseded = edits
            .into_iter()
            .map(|(index, edit)| self.trees[index].install(edit))
            .collect();
        drop(manifest);
        self.let_go(superseded);
        Ok(())
    }

    /// Waits, but not for long, until nobody in the middle of a write or a look-up holds these, and
    /// lets go of them here: it would be that write which frees a whole memtable and the room of
    /// files. What a snapshot holds goes with the snapshot.
    fn let_go(&self, mut superseded: Vec<Superseded>) {
        let mut wait = LET_GO_WAIT_MIN;
        while wait < LET_GO_WAIT_MAX {
            superseded = superseded
                .into_iter()
                .filter_map(Superseded::try_drop)
                .collect();
            if superseded.is_empty() {
                return;
            }
            self.shared.env().sleep(wait);
            wait *= 2;
        }
    }

    /// Does a step of a compaction, unless the store is closed meanwhile. Returns whether it was
    /// done.
    fn compact(&self, index: usize, compaction: Compaction) -> Result<bool> {
        let stop = || self.closed.load(Ordering::Acquire);
        let Some(edit) = self.trees[index].compact(compaction, &stop)? else {
            return Ok(false);
        };
        if stop() {
            self.trees[index].abandon(edit);
            return Ok(false);
        }
        let ended = u64::from(!edit.is_unfinished());
        self.commit(vec![(index, edit)], None)?;
        self.counters
            .compactions
            .fetch_add(ended, Ordering::Relaxed);
        Ok(true)
    }

    fn compact_trees_whole(&self) -> Result<()> {
        let alone = self.compacting.write();
        self.check_open()?;
        for (index, tree) in self.trees.iter().enumerate() {
            self.finish_compactions(index)?;
            if let Some(compaction) = tree.full_compaction() {
                self.compact(index, compaction)?;
                self.finish_compactions(index)?;
            }
        }
        drop(alone);
        // What was flushed meanwhile.
        self.schedule_compaction();
        Ok(())
    }

    /// Goes on with the compactions of a tree that were begun.
    fn finish_compactions(&self, index: usize) -> Result<()> {
        while let Some(compaction) = self.trees[index].unfinished_compaction() {
            if !self.compact(index, compaction)? {
                break;
            }
        }
        Ok(())
    }

    fn may_compact(&self) -> bool {
        !self.closed.load(Ordering::Acquire) && !self.read_only.load(Ordering::Acquire)
    }

    /// A step of a compaction that a tree's policy asks for.
    fn pick_compaction(&self) -> Option<(usize, Compaction)> {
        if !self.may_compact() {
            return None;
        }
        let picked = |(index, tree): (usize, &Tree)| Some((index, tree.pick_compaction()?));
        self.trees.iter().enumerate().find_map(picked)
    }

    /// Does the first step of a compaction that a tree's policy asks for, or else the log's.
    /// Returns whether there was one.
    fn compact_next(&self) -> Result<bool> {
        match self.pick_compaction() {
            Some((index, compaction)) => self.compact(index, compaction),
            None => {
                let _one = self.compacting_log.lock();
                self.compact_log()
            }
        }
    }

    /// Compacts what is next of the log, if anything. Returns whether there was something. Called
    /// with the lock on those of the log.
    fn compact_log(&self) -> Result<bool> {
        match M::LOG_IS_KEPT && self.may_compact() {
            true => self.compact_log_next(),
            false => Ok(false),
        }
    }

    /// Starts a flush in the background, unless one is due already.
    pub(crate) fn schedule_flush(&self, after: Duration) {
        if self.flush_due.swap(true, Ordering::AcqRel) {
            return;
        }
        let (me, shared) = (self.me.clone(), Arc::downgrade(&self.shared));
        let job = move || {
            let Some(inner) = me.upgrade() else {
                // A job keeps nothing alive: the machine that it waits in would never end.
                return shared.upgrade().map_or((), |shared| shared.flush_ended());
            };
            let result = if inner.closed.load(Ordering::Acquire) {
                Ok(())
            } else {
                inner.flush()
            };
            inner.flush_due.store(false, Ordering::Release);
            inner.shared.flush_ended();
            if let Err(error) = result {
                tracing::error!(partition = %inner.dir.display(), %error, "memtables could not be flushed");
                if !inner.read_only.load(Ordering::Acquire) {
                    inner.schedule_flush(RETRY);
                }
            }
        };
        self.shared
            .env()
            .schedule(JobClass::Flush, after, Box::new(job));
    }

    /// Starts compactions in the background, also after one that failed.
    pub(crate) fn schedule_compaction(&self) {
        self.compaction_failed.store(false, Ordering::Release);
        self.schedule_next_compaction();
    }

    /// Has a thread look for a compaction to do, unless one is to already.
    fn schedule_next_compaction(&self) {
        if self.compaction_due.swap(true, Ordering::AcqRel) {
            return;
        }
        self.background(JobClass::Compaction, Duration::ZERO, |inner| {
            inner.compaction_due.store(false, Ordering::Release);
            if inner.compaction_failed.load(Ordering::Acquire) {
                return;
            }
            match inner.compact_in_background() {
                // A step at a time, so that partitions take turns.
                Ok(true) => inner.schedule_next_compaction(),
                Ok(false) => {}
                Err(error) => {
                    // Nothing is lost: the inputs stand. The next flush tries again.
                    inner.compaction_failed.store(true, Ordering::Release);
                    tracing::error!(partition = %inner.dir.display(), %error, "a compaction failed");
                }
            }
        });
    }

    /// As [`compact_next`](Self::compact_next), but leaves to others what they are at, and has
    /// another thread do what can be done beside.
    fn compact_in_background(&self) -> Result<bool> {
        let Some(compacting) = self.compacting.try_read() else {
            return Ok(false);
        };
        if let Some((index, compaction)) = self.pick_compaction() {
            self.schedule_next_compaction();
            return self.compact(index, compaction);
        }
        drop(compacting);
        match self.compacting_log.try_lock() {
            Some(_one) => self.compact_log(),
            None => Ok(false),
        }
    }
}

impl<M: Machine> Flushable for Inner<M> {
    fn flushable_bytes(&self) -> u64 {
        if self.flush_due.load(Ordering::Acquire) || self.closed.load(Ordering::Acquire) {
            return 0;
        }
        self.trees
            .iter()
            .map(|tree| tree.memtable_bytes() + tree.frozen_bytes())
            .sum()
    }

    fn start_flush(&self) {
        self.schedule_flush(Duration::ZERO);
    }
}
