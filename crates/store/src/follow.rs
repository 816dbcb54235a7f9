//! Driving derived trees: a background job builds them and has them follow the changes, and a flush
//! has them follow up to its own position.
//!
//! # Invariants
//! 1. All derived trees are at one position, that of the deriver's view, which readers learn from
//!    `derived`. What is written on the way to a later position is written at that position, so no
//!    reader sees it before `derived` is set to it.
//! 2. A flush has them at exactly its own position, and freezes them there, before anything else is
//!    written to them: a manifest's trees agree at one position.
//! 3. A tree is read from the manifest on that says that it is complete.

use crate::derived::{Difference, TreeBatch};
use crate::deriver::{Deriver, Group};
use crate::flush::ManifestChange;
use crate::manifest::{CURSOR_BYTES_MAX, Progress};
use crate::store::Inner;
use crate::trees::TreeUse;
use crate::{Error, Machine, Result, TreeId};
use quire_env::JobClass;
use quire_model::Position;
use quire_seeded::{Bug, seeded};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long building waits for memory to be freed.
const MEMORY_WAIT: Duration = Duration::from_millis(100);

/// How long after a failure building is tried again, unless something is written before.
const RETRY: Duration = Duration::from_secs(10);

/// Nobody reads derived trees of which no view was made while they followed changes this often.
pub(crate) const UNREAD_FOLLOWS: u32 = 16;

/// Trees that nobody reads may lag this many times as far: a batch of many changes writes a key
/// once that small ones write again and again.
const UNREAD_LAG: u32 = 8;

/// What a step of the background job has found to do.
enum BuildStep {
    /// There is more to build.
    More,
    /// The last part of a group was built.
    Ended,
    /// There was nothing to build.
    Nothing,
}

impl<M: Machine> Inner<M> {
    /// Has a job bring derived trees up to date, and build a part of one.
    pub(crate) fn schedule_derive(&self, after: Duration) {
        if self.derive_due.swap(true, Ordering::AcqRel) {
            return;
        }
        self.background(JobClass::Derive, after, |inner| {
            inner.derive_due.store(false, Ordering::Release);
            if inner.check_writable().is_err() {
                return;
            }
            let derived = inner.derive_in_background();
            *inner.derive_error.lock() = derived.as_ref().err().map(Error::to_string);
            if let Err(error) = derived {
                // Nothing is lost: queries read documents meanwhile.
                tracing::error!(
                    partition = %inner.dir.display(),
                    %error,
                    "a derived tree could not be built"
                );
                inner.retry_derive();
            }
        });
    }

    fn retry_derive(&self) {
        if self.derive_retry_due.swap(true, Ordering::AcqRel) {
            return;
        }
        self.background(JobClass::Derive, RETRY, |inner| {
            inner.derive_retry_due.store(false, Ordering::Release);
            inner.schedule_derive(Duration::ZERO);
        });
    }

    /// How many times as far as the options say derived trees may lag.
    pub(crate) fn lag_factor(&self) -> u32 {
        match self.follows_unread.load(Ordering::Relaxed) < UNREAD_FOLLOWS {
            true => 1,
            false => UNREAD_LAG,
        }
    }

    /// Notes that a view is made of derived trees. Those that nobody has read catch up.
    pub(crate) fn note_read(&self) {
        // Mostly it is 0: views share it then.
        if self.follows_unread.load(Ordering::Relaxed) > 0
            && self.follows_unread.swap(0, Ordering::Relaxed) >= UNREAD_FOLLOWS
        {
            self.schedule_derive(Duration::ZERO);
        }
    }

    /// Has derived trees follow what was published, after a moment in which more may be.
    pub(crate) fn schedule_follow(&self) {
        let after = self.options.derived_lag * self.lag_factor();
        if self.follow_due.swap(true, Ordering::AcqRel) {
            return;
        }
        self.background(JobClass::Derive, after, |inner| {
            // First: what is published from now on has a job of its own.
            inner.follow_due.store(false, Ordering::Release);
            inner.schedule_derive(Duration::ZERO);
        });
    }

    pub(crate) fn derive_in_background(&self) -> Result<()> {
        self.empty_broken_groups()?;
        let memtables = self.shared.memtables();
        let step = {
            let mut deriver = self.deriving.lock();
            if deriver.groups.is_empty() {
                return Ok(());
            }
            // Read under the lock: a flush publishes its position under it.
            self.derive_to(&mut deriver, self.publisher.position());
            let is_unfinished = |group: &Group| group.cursor.is_some() && !group.broken;
            // Past half of it writers are held back: they go first.
            match memtables.used() < memtables.limit() / 2 {
                true => self.build_part(&mut deriver)?,
                false if deriver.groups.iter().any(is_unfinished) => BuildStep::More,
                false => BuildStep::Nothing,
            }
        };
        match step {
            BuildStep::Nothing => {}
            BuildStep::Ended => {
                self.schedule_flush(Duration::ZERO);
                // What is next does not wait for the flush: that has nothing to say if the group is
                // dropped before it.
                self.schedule_derive(Duration::ZERO);
            }
            BuildStep::More if memtables.used() >= memtables.limit() / 2 => {
                self.schedule_flush(Duration::ZERO);
                self.schedule_derive(MEMORY_WAIT);
            }
            BuildStep::More => {
                if self.memtable_bytes() >= memtables.limit() / 4 {
                    self.schedule_flush(Duration::ZERO);
                }
                self.schedule_derive(Duration::ZERO);
            }
        }
        if self.deriving.lock().groups.iter().any(|group| group.broken) {
            self.schedule_derive(Duration::ZERO);
        }
        // What it wrote may have filled memtables, and the next write may wait for room in them.
        self.shared.relief.relieve();
        Ok(())
    }

    /// Whether a group is built, and no manifest says so yet: it may not be read before.
    pub(crate) fn has_unflushed_group(&self) -> bool {
        let is_unflushed = |group: &Group| {
            let mut slots = group.ids.iter().filter_map(|id| self.trees.find(*id));
            group.is_complete() && slots.any(|slot| slot.used() == TreeUse::Building)
        };
        self.deriving.lock().groups.iter().any(is_unflushed)
    }

    /// Has all derived trees follow the changes up to `to`. A group that fails to is built anew: it
    /// must not keep memory from being freed.
    pub(crate) fn derive_to(&self, deriver: &mut Deriver, to: Position) {
        let Some(old) = deriver.view.take() else {
            return;
        };
        assert!(
            old.position() <= to,
            "derived trees are never past what is published, nor past what is flushed"
        );
        let new = (old.position() < to)
            .then(|| self.base_view_at(to))
            .flatten();
        let Some(new) = new else {
            deriver.view = Some(old);
            return;
        };
        let begun = self.shared.env().monotonic();
        for group in &mut deriver.groups {
            let difference = Difference {
                old: match seeded(Bug::ChangesOfNewView) {
                    true => &new,
                    false => &old,
                },
                new: &new,
                built: group.cursor.as_deref(),
            };
            if !group.broken
                && let Err(error) = self.follow(group, &difference, old.position())
            {
                self.note_rebuilt(group, &error.to_string());
                self.break_group(group);
            }
        }
        self.derived.store(to.0, Ordering::Release);
        self.follows_unread.fetch_add(1, Ordering::Relaxed);
        let followed = to.0 - old.position().0;
        self.counters
            .derived_records
            .fetch_add(followed, Ordering::Relaxed);
        self.count_deriving(begun);
        deriver.view = Some(new);
    }

    /// Counts the time since `begun` as spent on derived trees.
    fn count_deriving(&self, begun: Duration) {
        let took = self.shared.env().monotonic().saturating_sub(begun);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.counters
            .derive_micros
            .fetch_add(micros, Ordering::Relaxed);
    }

    fn follow(&self, group: &Group, difference: &Difference<'_>, seen: Position) -> Result<()> {
        let mut from = seen.next();
        loop {
            let mut batch = self.batch_of(group);
            let next = group.source.follow(difference, from, &mut batch)?;
            self.write_derived(group, &batch, difference.new.position())?;
            match next {
                None => return Ok(()),
                Some(next) if next > from => from = next,
                Some(next) => {
                    let what = format!("following changes went from position {from} to {next}");
                    return Err(Error::Invalid(what));
                }
            }
        }
    }

    /// Builds a part of the first group that is not complete.
    fn build_part(&self, deriver: &mut Deriver) -> Result<BuildStep> {
        let Deriver {
            view: Some(view),
            groups,
        } = deriver
        else {
            return Ok(BuildStep::Nothing);
        };
        let mut unfinished = groups.iter_mut().filter(|group| !group.broken);
        let unfinished = unfinished.find_map(|group| Some((group.cursor.take()?, group)));
        let Some((cursor, group)) = unfinished else {
            return Ok(BuildStep::Nothing);
        };
        let begun = self.shared.env().monotonic();
        let mut batch = self.batch_of(group);
        let built = group.source.build(view, &cursor, &mut batch);
        let next = match built {
            Ok(next) => next,
            Err(error) => {
                group.cursor = Some(cursor);
                return Err(error);
            }
        };
        let too_long = next
            .as_ref()
            .is_some_and(|next| next.len() > CURSOR_BYTES_MAX);
        let written = match too_long {
            true => Err(Error::Invalid("a cursor that is too long".into())),
            false => self.write_derived(group, &batch, view.position()),
        };
        group.cursor = next;
        let building = group.ids.first().copied().zip(group.cursor.clone());
        *self.building.lock() = building;
        self.count_deriving(begun);
        if let Err(error) = written {
            self.break_group(group);
            return Err(error);
        }
        Ok(match group.cursor {
            Some(_) => BuildStep::More,
            None => BuildStep::Ended,
        })
    }

    fn batch_of(&self, group: &Group) -> TreeBatch {
        let slots = group.ids.iter().filter_map(|id| self.trees.find(*id));
        let all = Position(u64::MAX);
        TreeBatch::new(
            slots
                .map(|slot| (slot.id, slot.tree.snapshot(all)))
                .collect(),
            std::sync::Arc::clone(&self.shared),
        )
    }

    fn write_derived(&self, group: &Group, batch: &TreeBatch, at: Position) -> Result<()> {
        let mut writes = batch.writes().peekable();
        while let Some((tree, ..)) = writes.peek().copied() {
            if !group.ids.contains(&tree) {
                let what =
                    format!("tree {tree} is written with others that it is not derived with");
                return Err(Error::Invalid(what));
            }
            let of_tree = std::iter::from_fn(|| writes.next_if(|(other, ..)| *other == tree));
            let of_tree = of_tree.map(|(_, key, op)| (key, op));
            self.trees.get(tree)?.tree.write_all(at, of_tree)?;
        }
        Ok(())
    }

    /// From now on nobody reads the trees of a group: they hold a part of a step.
    pub(crate) fn break_group(&self, group: &mut Group) {
        group.broken = true;
        for id in &group.ids {
            if let Some(slot) = self.trees.find(*id) {
                slot.set(TreeUse::Building);
            }
        }
    }

    /// Freezes the memtables of derived trees, which are at the flush's position. Returns how far
    /// each is.
    pub(crate) fn freeze_derived(&self, deriver: &Deriver) -> Vec<(TreeId, Progress)> {
        for group in &deriver.groups {
            if group.cursor.is_some() && seeded(Bug::ProgressAheadOfData) {
                continue;
            }
            for slot in group.ids.iter().filter_map(|id| self.trees.find(*id)) {
                slot.tree.freeze();
            }
        }
        deriver.progress()
    }

    /// After a flush: the trees that the manifest says are complete may be read, and no memory that
    /// the flush has freed is held.
    pub(crate) fn note_flushed(&self, flushed: &[(TreeId, Progress)]) {
        let mut deriver = self.deriving.lock();
        for group in deriver.groups.iter().filter(|group| group.is_complete()) {
            let is_flushed = |id: &TreeId| {
                let mut flushed = flushed.iter();
                flushed.any(|(flushed, progress)| flushed == id && progress.cursor.is_none())
            };
            let complete = group.ids.iter().filter(|id| is_flushed(id));
            for slot in complete.filter_map(|id| self.trees.find(*id)) {
                if slot.used() == TreeUse::Building || seeded(Bug::BuildingTreeRead) {
                    slot.set(TreeUse::Derived);
                }
            }
        }
        let is_unfinished = deriver.groups.iter().any(|group| !group.is_complete());
        self.renew_view(&mut deriver);
        drop(deriver);
        if is_unfinished {
            self.schedule_derive(Duration::ZERO);
        }
    }

    /// Takes the view of derived trees anew, at the same position: what flushes and compactions
    /// have replaced is no longer held.
    pub(crate) fn renew_derived_view(&self) {
        // Somebody who is at work there takes a newer one anyway.
        if let Some(mut deriver) = self.deriving.try_lock() {
            self.renew_view(&mut deriver);
        }
    }

    fn renew_view(&self, deriver: &mut Deriver) {
        if let Some(view) = &deriver.view
            && let Some(renewed) = self.base_view_at(view.position())
        {
            deriver.view = Some(renewed);
        }
    }

    /// Empties the trees of groups that a step has left broken, so that they are built anew.
    fn empty_broken_groups(&self) -> Result<()> {
        let is_broken = |group: &Group| group.broken;
        if !self.deriving.lock().groups.iter().any(is_broken) {
            return Ok(());
        }
        // No compaction has runs of theirs, and no flush memtables.
        let _compacting = self.compacting.write();
        let _flushing = self.flushing.lock();
        let mut deriver = self.deriving.lock();
        let broken = deriver.groups.iter_mut().filter(|group| group.broken);
        let mut broken: Vec<_> = broken.collect();
        let ids = broken.iter().flat_map(|group| &group.ids).copied();
        self.commit(ManifestChange {
            emptied: ids.collect(),
            ..ManifestChange::default()
        })?;
        for group in &mut broken {
            group.broken = false;
            group.cursor = Some(Vec::new());
        }
        drop(deriver);
        // One that met their damage has put compactions off.
        self.schedule_compaction();
        Ok(())
    }
}
