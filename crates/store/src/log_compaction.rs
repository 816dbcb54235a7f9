//! Compacting the log: rewriting segments without the records that are no longer needed.
//!
//! # Invariants
//! 1. A segment is compacted only when all its records are at or below the manifest's `applied`: no
//!    opening will replay them.
//! 2. What is needed is judged by the trees at exactly that position. All that made a record
//!    obsolete is therefore durable, in the log and in the trees' files, and visible to every new
//!    view.
//! 3. Views made before hold the segments that were there then.
//!
//! A segment that is found damaged stays as it is, and is left alone in the background from then
//! on; a compaction by force tries again, and fails if it still is.

use crate::reclaim::{Candidate, pick, pick_all};
use crate::space::{Space, SupersededBytes};
use crate::store::Inner;
use crate::trees::Slot;
use crate::{Error, Machine, Result, TreeSnapshots};
use bytes::Bytes;
use quire_log::SegmentInfo;
use quire_model::Position;
use quire_seeded::{Bug, seeded};
use std::sync::atomic::Ordering;

/// The number of records judged at a time, where a segment is counted.
const BATCH: usize = 1024;

/// Their bytes, but for a larger record, which is judged alone.
const BATCH_BYTES: usize = 1 << 20;

/// The trees and the sums at the manifest's position.
pub(crate) struct Applied {
    pub(crate) position: Position,
    trees: TreeSnapshots,
    space: Space,
}

impl<M: Machine> Inner<M> {
    /// Has everything so far in sealed segments, if that lets anything be reclaimed.
    pub(crate) fn seal_log(&self) -> Result<()> {
        let reclaimable = {
            let writer = self.writer.lock();
            let newest = self.log.segments().pop();
            newest.is_some_and(|newest| {
                let superseded = writer.space.of(newest.base, newest.next);
                superseded.bytes > 0 || !superseded.counted
            })
        };
        match reclaimable {
            true => Ok(self.log.rotate()?),
            false => Ok(()),
        }
    }

    /// Removes all that is not needed from all segments that are eligible now. Called with the lock
    /// on those of the log.
    pub(crate) fn compact_log_whole(&self) -> Result<()> {
        // A read that came back short looks like damage: a compaction by force tries again.
        self.unreadable.lock().clear();
        self.train()?;
        self.count_all()?;
        let candidates = self.candidates();
        for range in pick_all(&candidates, self.options.log.segment_bytes) {
            if self.stops() {
                return Ok(());
            }
            self.compact_segments(candidates.get(range).unwrap_or_default())?;
        }
        Ok(())
    }

    /// Does what the policy picks next, if anything. Returns whether there was something. Called
    /// with the lock on those of the log.
    pub(crate) fn compact_log_next(&self) -> Result<bool> {
        if self.train()? {
            return Ok(true);
        }
        if let Some(segment) = self.uncounted().first() {
            self.count(segment)?;
            return Ok(true);
        }
        if self.log_compaction_held.load(Ordering::Acquire) {
            return Ok(false);
        }
        let candidates = self.candidates();
        let ratio = f64::from(self.options.log_live_percent) / 100.0;
        let segment_bytes = self.options.log.segment_bytes;
        let Some(range) = pick(&candidates, ratio, segment_bytes) else {
            return Ok(false);
        };
        let segments = candidates.get(range).unwrap_or_default();
        Ok(self.has_room(segments)? && self.compact_segments(segments)?)
    }

    /// Trains a dictionary for new segments, if it is time to. One that can't be trained is done
    /// without.
    fn train(&self) -> Result<bool> {
        match self.log.train_dictionary() {
            Err(error) if error.kind() == quire_log::ErrorKind::Corrupt => Ok(false),
            trained => Ok(trained?),
        }
    }

    /// Whether the disk has room for the new file of these segments, and as much again for those
    /// who write meanwhile.
    fn has_room(&self, segments: &[Candidate]) -> Result<bool> {
        let needed: u64 = segments.iter().map(Candidate::file_bytes_after).sum();
        Ok(self.shared.env().free_bytes(&self.dir)? / 2 >= needed)
    }

    /// Bytes of records that are known to be obsolete, and how many segments it is not known of.
    pub(crate) fn log_dead_bytes(&self) -> (u64, u64) {
        let (mut dead, mut uncounted) = (0, 0);
        let writer = self.writer.lock();
        for segment in self.log.segments() {
            let superseded = writer.space.of(segment.base, segment.next);
            match superseded.counted {
                true => dead += writer.space.dead_bytes(&segment),
                false => uncounted += 1,
            }
        }
        (dead, uncounted)
    }

    /// Segments none of whose records will be replayed, that can be counted, and that are not known
    /// to be damaged.
    fn eligible(&self, applied: Position) -> Vec<SegmentInfo> {
        let unreadable = self.unreadable.lock();
        let counts = applied.0 >= self.uncounted_until.load(Ordering::Acquire);
        let segments = self.log.segments().into_iter();
        segments
            .filter(|segment| counts && segment.sealed)
            .filter(|segment| {
                segment.next <= applied.next() || seeded(Bug::UnflushedSegmentCompacted)
            })
            .filter(|segment| !unreadable.contains(&segment.base))
            .collect()
    }

    /// Eligible segments whose dead bytes are not known.
    fn uncounted(&self) -> Vec<SegmentInfo> {
        let manifest = self.manifest.lock();
        let eligible = self.eligible(manifest.applied).into_iter();
        eligible
            .filter(|segment| !manifest.space.of(segment.base, segment.next).counted)
            .collect()
    }

    fn candidates(&self) -> Vec<Candidate> {
        let manifest = self.manifest.lock();
        let candidate = |segment: SegmentInfo| {
            let dead_bytes = manifest.space.dead_bytes(&segment);
            Candidate {
                base: segment.base,
                next: segment.next,
                live_bytes: segment.record_bytes.saturating_sub(dead_bytes),
                dead_bytes,
                file_bytes: segment.file_bytes,
            }
        };
        let eligible = self.eligible(manifest.applied);
        eligible.into_iter().map(candidate).collect()
    }

    /// The trees' files, and what was superseded, at the manifest's position.
    pub(crate) fn applied(&self) -> Applied {
        // A flush is installed under this lock, so that none comes between.
        let manifest = self.manifest.lock();
        let now = self.wall_clock();
        let snapshot = |slot: &Slot| match seeded(Bug::LivenessOfNewestTrees) {
            true => (slot.id, slot.tree.snapshot(Position(u64::MAX))),
            // Without memtables: they could not be freed before the compaction ends.
            false => (slot.id, slot.tree.snapshot_of_runs(now)),
        };
        Applied {
            position: manifest.applied,
            trees: TreeSnapshots(self.trees.applied().iter().map(snapshot).collect()),
            space: manifest.space.clone(),
        }
    }

    pub(crate) fn needed(
        &self,
        applied: &Applied,
        records: &[(Position, Bytes)],
    ) -> Result<Vec<bool>> {
        let first = records.first().map_or(Position(0), |(first, _)| *first);
        M::needed(records, &applied.trees).map_err(|error| error.at(&self.dir, first))
    }

    /// Rewrites neighbouring segments as one. Returns whether it did.
    fn compact_segments(&self, segments: &[Candidate]) -> Result<bool> {
        let (Some(first), Some(last)) = (segments.first(), segments.last()) else {
            return Ok(false);
        };
        let (base, next) = (first.base, last.next);
        let applied = self.applied();
        debug_assert!(
            next <= applied.position.next() || seeded(Bug::UnflushedSegmentCompacted),
            "replay needs what is after"
        );
        let compacted = self.log.compact(
            base,
            next,
            &mut |records| self.needed(&applied, records),
            &|bytes| self.shared.room_for_work(bytes),
            &|| self.stops(),
        );
        let compacted = match compacted {
            Ok(Some(compacted)) => compacted,
            Ok(None) => return Ok(false),
            Err(error) => {
                self.leave_alone(&error, segments.iter().map(|segment| segment.base));
                return Err(error);
            }
        };
        let removed = self.log.segments().into_iter();
        let removed = removed
            .filter(|segment| segment.base == base)
            .map(|segment| segment.removed_bytes)
            .sum();
        self.settle(&applied.space, base, next, removed);
        self.renew_derived_view();
        let counters = &self.counters;
        counters
            .segments_compacted
            .fetch_add(segments.len() as u64, Ordering::Relaxed);
        let reclaimed = compacted
            .file_bytes_before
            .saturating_sub(compacted.file_bytes_after);
        counters
            .log_bytes_reclaimed
            .fetch_add(reclaimed, Ordering::Relaxed);
        Ok(true)
    }

    fn count_all(&self) -> Result<()> {
        for segment in self.uncounted() {
            if self.stops() {
                break;
            }
            self.count(&segment)?;
        }
        Ok(())
    }

    /// Reads a segment to find out how much of it is needed.
    fn count(&self, segment: &SegmentInfo) -> Result<()> {
        let applied = self.applied();
        let last = Position(segment.next.0 - 1);
        let mut scan = self.log.scan(segment.base).until(last);
        let mut dead = 0;
        loop {
            // A large record is judged alone, with room for it and its block as stored.
            let large = Some(scan.next_block_bytes()).filter(|bytes| *bytes > BATCH_BYTES);
            let _room = large.map(|bytes| self.shared.room_for_work(2 * bytes as u64));
            let mut batch = Vec::new();
            let mut bytes = 0;
            while batch.len() < BATCH && bytes < BATCH_BYTES {
                let is_alone = batch.is_empty() || scan.next_block_bytes() <= BATCH_BYTES;
                let Some(item) = is_alone.then(|| scan.next()).flatten() else {
                    break;
                };
                let item = item.map_err(Error::from).inspect_err(|error| {
                    self.leave_alone(error, [segment.base]);
                })?;
                bytes += item.1.len();
                batch.push(item);
            }
            if batch.is_empty() {
                break;
            }
            if self.stops() {
                return Ok(());
            }
            for ((_, record), needed) in batch.iter().zip(self.needed(&applied, &batch)?) {
                if !needed {
                    dead += record.len() as u64;
                }
            }
        }
        let superseded = segment.removed_bytes + dead;
        self.settle(&applied.space, segment.base, segment.next, superseded);
        Ok(())
    }

    /// It has turned out what was superseded, from `base` up to `next`, when the sums were `then`.
    fn settle(&self, then: &Space, base: Position, next: Position, superseded: u64) {
        let then = then.of(base, next);
        let found = SupersededBytes {
            bytes: superseded,
            counted: true,
        };
        if then == found {
            return;
        }
        if then.counted {
            let dir = self.dir.display();
            let counted = then.bytes;
            tracing::error!(
                partition = %dir,
                %base,
                counted,
                superseded,
                "obsolete bytes were counted wrong"
            );
            let miscounted = &self.counters.segments_miscounted;
            miscounted.fetch_add(1, Ordering::Relaxed);
        }
        // A flush on its way would bring the old sums back.
        let _flushing = self.flushing.lock();
        self.writer
            .lock()
            .space
            .settle(then, base, next, superseded);
        self.manifest
            .lock()
            .space
            .settle(then, base, next, superseded);
    }

    fn leave_alone(&self, error: &Error, segments: impl IntoIterator<Item = Position>) {
        if error.kind() == crate::ErrorKind::Corrupt {
            self.unreadable.lock().extend(segments);
        }
    }

    fn stops(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}
