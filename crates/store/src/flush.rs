//! Flush, compaction and close: what moves memtables to table files and keeps the runs few.
//!
//! Order is everything here. A flush (1) freezes the memtables of all trees at one position, under
//! the writer's lock; (2) makes the log durable up to it; (3) writes and syncs the tables; (4)
//! replaces the manifest; (5) lets readers see the files and drops the memtables. A crash between
//! any two steps loses nothing: before (4) the old manifest and the log still give everything, and
//! the new files are orphans. Where the log is a write-ahead log and no more, (6) the segments that
//! hold nothing after the position are dropped; if it rotates unsynced too, (2) is left out, as the
//! tables have it all. Derived trees follow up to the position, and are frozen there, after (2).

use crate::damaged::is_damage;
use crate::deriver::Deriver;
use crate::manifest::{self, Manifest, Progress, TreeFiles};
use crate::relief::{Flushable, Memory};
use crate::space::{Space, superseded_bytes_max};
use crate::store::{Inner, Store, Writer};
use crate::trees::{Slot, TreeUse};
use crate::{Error, ErrorKind, Machine, Result, TreeId};
use quire_env::{IoClass, IoScope, JobClass, Medium};
use quire_lsm::{Compaction, Superseded, TreeEdit};
use quire_model::Position;
use quire_seeded::{Bug, seeded};
use quire_sync::MutexGuard;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long after a failed flush the next is tried.
const RETRY: Duration = Duration::from_secs(1);

/// How long a flush waits, twice as long each time, for readers that hold what was superseded.
const RELEASE_WAIT_MIN: Duration = Duration::from_micros(100);
const RELEASE_WAIT_MAX: Duration = Duration::from_millis(10);

/// On close, a log tail longer than this is flushed, so that the next open need not replay it.
const CLOSE_FLUSH_BYTES: u64 = 4 << 20;

/// A flush's position and the machine's state there.
#[derive(Debug)]
pub(crate) struct Cut {
    position: Position,
    state: Vec<u8>,
    space: Space,
    /// How far each derived tree is.
    derived: Vec<(TreeId, Progress)>,
}

/// What a manifest says otherwise than the one before it.
#[derive(Debug, Default)]
pub(crate) struct ManifestChange {
    /// Trees have other runs.
    pub(crate) edits: Vec<(TreeId, TreeEdit)>,
    /// The trees are at another position.
    pub(crate) cut: Option<Cut>,
    /// Trees that are new.
    pub(crate) added: Vec<TreeFiles>,
    /// Trees that are no more.
    pub(crate) dropped: Vec<TreeId>,
    /// Derived trees that have nothing in them any more.
    pub(crate) emptied: Vec<TreeId>,
}

impl ManifestChange {
    pub(crate) fn edit(tree: TreeId, edit: TreeEdit) -> ManifestChange {
        ManifestChange {
            edits: vec![(tree, edit)],
            ..ManifestChange::default()
        }
    }
}

impl<M: Machine> Store<M> {
    /// Writes all memtables out as table files. Everything written before the call is durable when
    /// it returns.
    ///
    /// # Errors
    /// `Full` or `Io` as the disk says; the memtables stay, and the flush is tried again later.
    pub fn flush(&self) -> Result<()> {
        let inner = &*self.inner;
        inner.check_open()?;
        if !inner.flush()? {
            // The caller counts on it all the same.
            inner.counters.flushes.fetch_add(1, Ordering::Relaxed);
        }
        match M::LOG_IS_KEPT {
            true => Ok(()),
            false => inner.drop_whole_log(),
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

    /// Writes all memtables out and does the compactions that the policy picks, until it picks
    /// none: what is on disk then is what will be there as long as nothing is written.
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
        let flushed = if unflushed > CLOSE_FLUSH_BYTES && inner.lost.is_none() {
            inner.flush().map(drop)
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
                tracing::warn!(
                    partition = %inner.dir.display(),
                    %error,
                    "no room to write memtables out at the close"
                );
                Ok(())
            }
            flushed => flushed,
        }
    }
}

impl<M: Machine> Inner<M> {
    /// Writes all memtables out. Whether there was anything in them.
    pub(crate) fn flush(&self) -> Result<bool> {
        let ((), has_tables) = self.flush_counted(|_, _| ())?;
        Ok(has_tables)
    }

    /// As [`flush`](Inner::flush). Before another flush can begin, `then` gets the position up to
    /// which all is in files, and the machine's summary there.
    pub(crate) fn flush_then<T>(&self, then: impl FnOnce(Position, M::Summary) -> T) -> Result<T> {
        let (made, _has_tables) = self.flush_counted(then)?;
        Ok(made)
    }

    fn flush_counted<T>(&self, then: impl FnOnce(Position, M::Summary) -> T) -> Result<(T, bool)> {
        let result = self.flush_steps(then);
        match &result {
            Ok(_) => *self.background_error.lock() = None,
            Err(error) => *self.background_error.lock() = Some(error.to_string()),
        }
        self.shared.flush_ended();
        result
    }

    fn flush_steps<T>(&self, then: impl FnOnce(Position, M::Summary) -> T) -> Result<(T, bool)> {
        let _io = IoScope::enter(IoClass::Log);
        let _one = self.flushing.lock();
        // Before any table is made: it would lie among the files of another process.
        self.check_ours()?;
        self.check_volumes()?;
        if self.read_only.load(Ordering::Acquire) {
            return Err(Error::ReadOnly {
                path: self.dir.clone(),
            });
        }
        // Before the cut: derived trees must not get past it.
        let deriver = self.deriving.lock();
        let (cut, summary) = {
            let mut writer = self.writer.lock();
            (self.freeze(&mut writer), writer.machine.summary())
        };
        let position = cut.position;
        let has_tables = self.flush_cut(cut, deriver)?;
        Ok((then(position, summary), has_tables))
    }

    /// Flushes what was frozen. Whether there was anything in it: then the flush is counted. Called
    /// with the lock of the one flush.
    pub(crate) fn flush_cut(
        &self,
        mut cut: Cut,
        mut deriver: MutexGuard<'_, Deriver>,
    ) -> Result<bool> {
        let rotate_unsynced = self.options.log.rotate_unsynced && !M::LOG_IS_KEPT;
        if !rotate_unsynced && !seeded(Bug::FlushAheadOfLog) {
            self.log.sync_aside(cut.position)?;
        }
        self.publish(cut.position);
        self.derive_to(&mut deriver, cut.position);
        let view = deriver.view.as_ref();
        assert!(
            view.is_none_or(|view| view.position() == cut.position),
            "derived trees are flushed at the position of the others"
        );
        cut.derived = self.freeze_derived(&deriver);
        drop(deriver);
        let mut edits = Vec::new();
        for slot in self.trees.iter() {
            match slot.tree.flush() {
                Ok(Some(edit)) => edits.push((slot.id, edit)),
                Ok(None) => {}
                Err(error) => {
                    self.abandon(edits);
                    return Err(error.into());
                }
            }
        }
        let has_tables = !edits.is_empty();
        if !has_tables && self.is_flushed(&cut) {
            return Ok(false);
        }
        let derived = cut.derived.clone();
        self.commit(ManifestChange {
            edits,
            cut: Some(cut),
            ..ManifestChange::default()
        })?;
        if !derived.is_empty() {
            self.note_flushed(&derived);
        }
        // That a derived tree is complete is no flush of anything.
        let counted = u64::from(has_tables);
        self.counters.flushes.fetch_add(counted, Ordering::Relaxed);
        self.schedule_compaction();
        if !M::LOG_IS_KEPT {
            self.drop_obsolete_log()?;
        }
        Ok(has_tables)
    }

    /// Whether the manifest says already what a flush without files has to say.
    fn is_flushed(&self, cut: &Cut) -> bool {
        let manifest = self.manifest.lock();
        let is_known = |(id, progress): &(TreeId, Progress)| {
            let mut trees = manifest.trees.iter();
            trees.any(|tree| tree.id == *id && tree.derived.as_ref() == Some(progress))
        };
        manifest.applied == cut.position && cut.derived.iter().all(is_known)
    }

    /// Drops all of the log that nothing needs, the newest segment too if nothing is to be kept.
    fn drop_whole_log(&self) -> Result<()> {
        if self.options.log.obsolete_bytes_kept == 0 {
            self.log.rotate()?;
        }
        self.drop_obsolete_log().map(|_| ())
    }

    /// Drops the segments of the log that no opening will replay, and that nothing else needs.
    pub(crate) fn drop_obsolete_log(&self) -> Result<u64> {
        let applied = self.manifest.lock().applied;
        let mut needed = applied.next().min(self.first_kept());
        if let Some(held) = self.log_holds.first_needed() {
            needed = needed.min(held);
        }
        let freed = self.log.drop_before(needed)?;
        let counter = &self.counters.log_bytes_reclaimed;
        counter.fetch_add(freed, Ordering::Relaxed);
        Ok(freed)
    }

    /// The first record of the newest segments, which stay even if they are obsolete.
    fn first_kept(&self) -> Position {
        let mut kept_bytes = 0;
        let mut first = Position(u64::MAX);
        for segment in self.log.segments().iter().rev() {
            if kept_bytes >= self.options.log.obsolete_bytes_kept {
                break;
            }
            kept_bytes += segment.file_bytes;
            first = segment.base;
        }
        first
    }

    /// Freezes the memtables that `apply` writes. Called with the lock of the one flush, and with
    /// that on derived trees.
    pub(crate) fn freeze(&self, writer: &mut Writer<M>) -> Cut {
        for slot in self.trees.applied() {
            slot.tree.freeze();
        }
        writer.unflushed_bytes = 0;
        writer.superseded_bytes = 0;
        let (applied, segments) = (writer.applied, self.log.segments());
        let space = writer.space.cut(&segments, applied);
        writer.superseded_bytes_max =
            superseded_bytes_max(self.options.log_live_percent, &space, &segments);
        Cut {
            position: match seeded(Bug::FlushNamesLogEnd) {
                true => self.log.last(),
                false => writer.applied,
            },
            state: writer.machine.encode(),
            space,
            derived: Vec::new(),
        }
    }

    /// Notes in the manifest where the closed log ends, so that a later cut is noticed. All is
    /// durable already: a disk without room for the note loses nothing else.
    fn note_end(&self) {
        if self.lost.is_none()
            && self.manifest.lock().synced < self.log.durable()
            && let Err(error) = self.commit(ManifestChange::default())
        {
            tracing::warn!(
                partition = %self.dir.display(),
                %error,
                "the end of the log could not be noted"
            );
        }
    }

    fn abandon(&self, edits: Vec<(TreeId, TreeEdit)>) {
        for (id, edit) in edits {
            if let Some(slot) = self.trees.find(id) {
                slot.tree.abandon(edit);
            }
        }
    }

    /// Fails if the files may be those of another process by now: then this one stops.
    fn check_ours(&self) -> Result<()> {
        Ok(self.shared.check_lock().inspect_err(|_| {
            self.read_only.store(true, Ordering::Release);
        })?)
    }

    /// Writes the manifest that makes `change`, then lets readers see it.
    pub(crate) fn commit(&self, change: ManifestChange) -> Result<()> {
        // A flush waits for this lock: a compaction that holds it is as urgent.
        let _io = IoScope::enter(IoClass::Log);
        let mut manifest = self.manifest.lock();
        let next = self.next_manifest(&manifest, &change);
        assert!(
            next.applied >= manifest.applied,
            "a manifest never takes records back out of the trees' files"
        );
        let path = manifest::path(&self.dir);
        if let Err(error) = self.check_ours().and_then(|()| self.check_volumes()) {
            self.abandon(change.edits);
            return Err(error);
        }
        if let Err(error) = self.shared.env().replace(&path, &next.encode()) {
            // The new manifest may be in place although its name is not durable. Only if the old
            // one still stands is it safe to take the new files away.
            match Manifest::read(&**self.shared.env(), &self.dir) {
                Ok(standing)
                    if standing.sequence == manifest.sequence
                        || seeded(Bug::DoubtfulManifestGivenUp) =>
                {
                    self.abandon(change.edits);
                }
                _ => self.read_only.store(true, Ordering::Release),
            }
            return Err(error.into());
        }
        *manifest = next;
        let mut superseded = Vec::new();
        for (id, edit) in change.edits {
            let slot = self.trees.find(id);
            superseded.extend(slot.map(|slot| slot.tree.install(edit)));
        }
        let emptied = change.emptied.into_iter().map(|id| (id, TreeUse::Building));
        let dropped = change.dropped.into_iter().map(|id| (id, TreeUse::Dropped));
        for (id, used) in emptied.chain(dropped) {
            if let Some(slot) = self.trees.find(id) {
                slot.set(used);
                superseded.push(slot.tree.discard());
            }
        }
        drop(manifest);
        self.renew_derived_view();
        self.release(superseded);
        Ok(())
    }

    /// The manifest after `manifest`.
    fn next_manifest(&self, manifest: &Manifest, change: &ManifestChange) -> Manifest {
        let mut next = manifest.clone();
        next.sequence += 1;
        next.synced = self.log.durable();
        next.next_file = self.files().next_number();
        for (id, edit) in &change.edits {
            let files = next.trees.iter_mut().find(|files| files.id == *id);
            let slot = self.trees.find(*id);
            assert!(
                files.is_some() && slot.is_some(),
                "a tree is named by the manifest before anything is written to it"
            );
            let (Some(files), Some(slot)) = (files, slot) else {
                continue;
            };
            if files.derived.is_none() || !seeded(Bug::RunsOfAddedTreeLost) {
                files.runs = slot.tree.preview(edit);
            }
        }
        next.trees.extend(change.added.iter().cloned());
        next.trees
            .retain(|files| !change.dropped.contains(&files.id));
        let emptied = |files: &&mut TreeFiles| change.emptied.contains(&files.id);
        for files in next.trees.iter_mut().filter(emptied) {
            files.derived = Some(Progress::none());
            files.runs.clear();
        }
        if let Some(cut) = &change.cut {
            next.applied = cut.position;
            if seeded(Bug::AppliedOneTooFar) {
                next.applied = cut.position.next();
            }
            if !seeded(Bug::StateNotReplaced) {
                next.state.clone_from(&cut.state);
            }
            next.space = cut.space.clone();
            for (id, progress) in &cut.derived {
                if let Some(files) = next.trees.iter_mut().find(|files| files.id == *id) {
                    files.derived = Some(progress.clone());
                }
            }
        } else if seeded(Bug::DeadBytesOfNow) {
            next.space = self.writer.lock().space.clone();
        }
        let ids: BTreeSet<_> = next.trees.iter().map(|tree| tree.id).collect();
        assert!(
            ids.len() == next.trees.len(),
            "a manifest names each tree once"
        );
        next
    }

    /// Waits for a short time until no write and no lookup holds these, and frees them here: else
    /// it would be that write which frees a whole memtable and the room of files. What a snapshot
    /// holds is freed with the snapshot.
    fn release(&self, mut superseded: Vec<Superseded>) {
        let mut wait = RELEASE_WAIT_MIN;
        while wait < RELEASE_WAIT_MAX {
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
    fn compact(&self, slot: &Slot, compaction: Compaction) -> Result<bool> {
        let _io = IoScope::enter(IoClass::Compaction);
        let stop = || self.closed.load(Ordering::Acquire);
        let seen = slot.seen();
        let edit = match slot.tree.compact(compaction, &stop) {
            Ok(Some(edit)) => edit,
            Ok(None) => return Ok(false),
            // It is built anew, so there is nothing to compact. Until it is emptied, which a disk
            // that fails may put off, it would be picked again at once.
            Err(error) if seen.used() != TreeUse::Applied && is_damage(&error) => {
                self.compaction_failed.store(true, Ordering::Release);
                self.rebuild_derived(slot.id, seen, &error.to_string());
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        };
        if stop() {
            slot.tree.abandon(edit);
            return Ok(false);
        }
        let ended = u64::from(!edit.is_unfinished());
        self.commit(ManifestChange::edit(slot.id, edit))?;
        self.counters
            .compactions
            .fetch_add(ended, Ordering::Relaxed);
        Ok(true)
    }

    fn compact_trees_whole(&self) -> Result<()> {
        let alone = self.compacting.write();
        self.check_open()?;
        for slot in self.trees.iter() {
            self.finish_compactions(slot)?;
            if let Some(compaction) = slot.tree.full_compaction() {
                self.compact(slot, compaction)?;
                self.finish_compactions(slot)?;
            }
        }
        drop(alone);
        // What was flushed meanwhile.
        self.schedule_compaction();
        Ok(())
    }

    /// Goes on with the compactions of a tree that were begun.
    fn finish_compactions(&self, slot: &Slot) -> Result<()> {
        while let Some(compaction) = slot.tree.unfinished_compaction() {
            if !self.compact(slot, compaction)? {
                break;
            }
        }
        Ok(())
    }

    fn may_compact(&self) -> bool {
        !self.closed.load(Ordering::Acquire) && !self.read_only.load(Ordering::Acquire)
    }

    /// A step of a compaction that a tree's policy picks.
    fn pick_compaction(&self) -> Option<(&Slot, Compaction)> {
        if !self.may_compact() {
            return None;
        }
        let mut slots = self.trees.iter();
        slots.find_map(|slot| Some((slot, slot.tree.pick_compaction()?)))
    }

    /// As [`pick_compaction`](Self::pick_compaction), of what disks let run now: a tree whose disk
    /// is busy waits without a thread.
    fn pick_admitted(&self) -> Option<(&Slot, Compaction)> {
        if !self.may_compact() {
            return None;
        }
        let mut slots = self.trees.iter();
        slots.find_map(|slot| {
            let me = self.me.clone();
            let again = move || {
                if let Some(inner) = me.upgrade() {
                    inner.schedule_next_compaction();
                }
            };
            let picked = slot.tree.pick_compaction()?;
            Some((slot, slot.tree.admit(picked, Box::new(again))?))
        })
    }

    /// Does the first step of a compaction that a tree's policy picks, or else the log's.
    /// Returns whether there was one.
    fn compact_next(&self) -> Result<bool> {
        match self.pick_compaction() {
            Some((slot, compaction)) => self.compact(slot, compaction),
            None => {
                let _one = self.compacting_log.lock();
                self.compact_log()
            }
        }
    }

    /// Compacts what is next of the log, if anything. Returns whether there was something. Called
    /// with the lock on those of the log.
    fn compact_log(&self) -> Result<bool> {
        let _io = IoScope::enter(IoClass::Compaction);
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
                inner.flush().map(drop)
            };
            inner.flush_due.store(false, Ordering::Release);
            inner.shared.flush_ended();
            if let Err(error) = result {
                tracing::error!(
                    partition = %inner.dir.display(),
                    %error,
                    "memtables could not be flushed"
                );
                if !inner.read_only.load(Ordering::Acquire) {
                    inner.schedule_flush(RETRY);
                }
                return;
            }
            // Another may be due: of what was written meanwhile, or of another store.
            inner.shared.relief.relieve();
            // A derived tree may have been completed while the flush was under way: no flush was
            // scheduled for it then.
            if inner.may_compact() && inner.has_unflushed_group() {
                inner.schedule_flush(Duration::ZERO);
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
                    tracing::error!(
                        partition = %inner.dir.display(),
                        %error,
                        "a compaction failed"
                    );
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
        if let Some((slot, compaction)) = self.pick_admitted() {
            self.schedule_next_compaction();
            return self.compact(slot, compaction);
        }
        drop(compacting);
        match self.compacting_log.try_lock() {
            Some(_one) => self.compact_log(),
            None => Ok(false),
        }
    }
}

impl<M: Machine> Flushable for Inner<M> {
    fn memory(&self) -> Memory {
        let (mut active, mut frozen, mut medium) = (0, 0, Medium::Ssd);
        for slot in self.trees.iter() {
            let of_tree = (slot.tree.memtable_bytes(), slot.tree.frozen_bytes());
            (active, frozen) = (active + of_tree.0, frozen + of_tree.1);
            // A flush takes as long as the slower disk.
            if of_tree != (0, 0) && slot.tree.medium() == Medium::Hdd {
                medium = Medium::Hdd;
            }
        }
        let is_due = self.flush_due.load(Ordering::Acquire);
        // One that has failed is tried again, and may fail again.
        let frees = is_due && self.background_error.lock().is_none();
        Memory {
            bytes: active + frozen,
            medium,
            // What is frozen already is all that one under way will free.
            flushing: frees.then_some(if frozen > 0 { frozen } else { active }),
            can_flush: !is_due && !self.closed.load(Ordering::Acquire),
        }
    }

    fn start_flush(&self) {
        self.schedule_flush(Duration::ZERO);
    }
}
