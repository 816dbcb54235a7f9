//! The partitions of a plain collection that are split or merged.

use super::merged::Merged;
use super::parts::{Copy, NEARLY_LEVEL, OwnerOf, Parts, WatchCopy};
use crate::Result;
use crate::catalog::Entry;
use crate::collection::Collection;
use crate::database::Database;
use crate::layout::Layout;
use crate::partitions_before::Before;
use crate::settings::CollectionSettings;
use crate::write_gate::{Gated, WriteGate};
use quire_collection::{IndexSettings, Partition, RetentionRule};
use quire_model::{Key, Position};
use quire_seeded::{Bug, seeded};
use std::sync::Arc;

/// See the module.
pub(super) struct PlainParts {
    collection: Collection,
    /// The partitions that are split or merged.
    layout: Arc<Layout>,
    /// The new partitions, once they are open.
    partitions: Vec<Partition>,
    /// What they had of the old ones, in a merge.
    merged: Option<Merged>,
    /// Up to where each of them has its old ones, in a merge.
    seen: Vec<Vec<Position>>,
    /// The index that they have, or are building.
    index: Option<IndexSettings>,
    /// What retention does, while it is stopped.
    rules: Vec<RetentionRule>,
}

/// The old partitions that one of `count` new ones is of: one in a split, and several in a merge.
fn sources_of(layout: &Layout, count: usize, number: usize) -> &[Partition] {
    let old = layout.partitions();
    let (first, end) = (number * old.len(), (number + 1) * old.len());
    &old[first / count..end.div_ceil(count)]
}

impl PlainParts {
    /// Those of a collection, of which the catalog has this.
    pub(super) fn new(collection: Collection, entry: &Entry) -> PlainParts {
        PlainParts {
            layout: collection.state().layout.load_full(),
            index: entry.index(),
            collection,
            partitions: Vec::new(),
            merged: None,
            seen: Vec::new(),
            rules: Vec::new(),
        }
    }

    /// As [`sources_of`] one of the new partitions.
    fn sources(&self, number: usize) -> &[Partition] {
        sources_of(&self.layout, self.partitions.len(), number)
    }

    /// Copies each old partition into the new ones that it becomes.
    fn fork(&mut self, copy: &Copy<'_>, watch: WatchCopy<'_>) -> Result<bool> {
        let mut before = 0;
        let layout = Arc::clone(&self.layout);
        let sources = layout.partitions();
        let records = |source: &Partition| source.stats().log.records;
        let total: u64 = sources.iter().map(records).sum();
        for (number, source) in sources.iter().enumerate() {
            let numbers = copy.numbers_of(number, sources.len());
            let places: Vec<_> = numbers.clone().map(|number| copy.place(number)).collect();
            let owner = |key: &Key| (copy.owner)(key).wrapping_sub(numbers.start);
            let watch = |done: u64| watch(before + done, total);
            if !source.fork(&places, &owner, &watch)? {
                return Ok(false);
            }
            before += records(source);
            for number in numbers {
                self.partitions.push(copy.open(number)?);
            }
        }
        Ok(true)
    }

    /// Has new partitions gather what the old ones have.
    fn merge(&mut self, copy: &Copy<'_>, watch: WatchCopy<'_>) -> Result<bool> {
        let (count, layout) = (
            copy.new.settings.partitions as usize,
            Arc::clone(&self.layout),
        );
        let sources = layout.partitions();
        let merged = Merged::new(count, sources.iter().map(Partition::position));
        for number in 0..count {
            let shared = &copy.database.inner.shared;
            Partition::begin_merged(shared, &copy.place(number), merged.base())?;
            self.partitions.push(copy.open(number)?);
            self.seen.push(vec![Position(0); sources.len() / count]);
        }
        self.merged = Some(merged);
        for number in 0..count {
            let mut total = 0;
            loop {
                let left = self.gather(number)?;
                total = total.max(left);
                // Each new partition has about as much to gather.
                let (parts, done) = (count as u64, number as u64);
                if !watch(total * done + (total - left), total * parts) {
                    return Ok(false);
                }
                if left < NEARLY_LEVEL {
                    break;
                }
            }
        }
        Ok(true)
    }

    /// Has a new partition take over some of what its old ones have. Returns how many positions are
    /// left.
    fn gather(&mut self, number: usize) -> Result<u64> {
        let sources = sources_of(&self.layout, self.partitions.len(), number);
        let (partition, seen) = (&self.partitions[number], &mut self.seen[number]);
        let left = partition.gather(sources, seen)?;
        if let Some(merged) = &mut self.merged {
            merged.mark(number, seen, partition.position());
        }
        Ok(left)
    }

    /// Gives the new partitions the index of these settings.
    fn set_index(&mut self, index: Option<IndexSettings>) -> Result<()> {
        for partition in &self.partitions {
            partition.set_index(index.as_ref())?;
        }
        self.index = index;
        Ok(())
    }
}

impl Parts for PlainParts {
    fn gate(&self) -> Arc<WriteGate> {
        Arc::clone(self.layout.gate())
    }

    fn copy(&mut self, copy: &Copy<'_>, watch: WatchCopy<'_>) -> Result<bool> {
        let is_whole = match copy.is_merge(self.layout.partitions().len()) {
            true => self.merge(copy, watch)?,
            false => self.fork(copy, watch)?,
        };
        if is_whole {
            self.set_index(self.index.clone())?;
        }
        Ok(is_whole)
    }

    fn follow(&mut self, owner: OwnerOf<'_>) -> Result<u64> {
        let mut left = 0;
        for number in 0..self.seen.len() {
            left = left.max(self.gather(number)?);
        }
        if self.merged.is_none() {
            for (number, partition) in self.partitions.iter().enumerate() {
                let owns = |key: &Key| owner(key) == number;
                for source in self.sources(number) {
                    left = left.max(partition.follow(source, &owns)?);
                }
            }
        }
        Ok(left)
    }

    fn indexed(&self) -> (u64, u64, bool) {
        let (mut done, mut total, mut complete) = (0, 0, true);
        for partition in self.partitions.iter().filter(|_| self.index.is_some()) {
            let figures = partition.index_figures(&partition.stats());
            complete &= figures.as_ref().is_some_and(|figures| figures.complete);
            done += figures.map_or(0, |figures| figures.documents);
            total += partition.view().map_or(0, |view| view.count());
        }
        (done, total, complete)
    }

    fn take_index(&mut self, entry: &Entry) -> Result<bool> {
        let is_same = entry.index() == self.index;
        if !is_same {
            self.set_index(entry.index())?;
        }
        Ok(is_same)
    }

    fn stop_jobs(&mut self) {
        let jobs = self.layout.retention().iter();
        self.rules = jobs.map(|one| one.stop()).collect();
    }

    fn restart_jobs(&mut self) {
        for (retention, rule) in self.layout.retention().iter().zip(self.rules.drain(..)) {
            retention.go_on(rule);
        }
    }

    fn sync_old(&self) -> Result<()> {
        let mut sources = self.layout.partitions().iter();
        sources.try_for_each(|source| Ok(source.sync()?))
    }

    fn finish(&self, settings: &CollectionSettings) -> Result<()> {
        for (number, partition) in self.partitions.iter().enumerate() {
            if !seeded(Bug::SplitNamedUnsynced) {
                partition.sync()?;
            }
            partition.set_log(settings.log())?;
            let ends = self.sources(number).iter().map(Partition::position);
            let last = ends.max().unwrap_or_default();
            if let Some(merged) = &self.merged {
                merged.check_room(last)?;
                continue;
            }
            assert!(
                partition.position() == last
                    || seeded(Bug::SplitNotLevel)
                    || seeded(Bug::SplitPositionNotHeld),
                "a new partition ends where the old one does"
            );
        }
        Ok(())
    }

    fn before(&self) -> Before {
        let partitions = self.layout.partitions().len();
        match &self.merged {
            Some(merged) => merged.before(partitions),
            None => Before::Split(partitions as u32),
        }
    }

    fn replace(&self, database: &Database, old: &Entry, new: &Entry) {
        let has_jobs = database.inner.options.retention;
        let rule = has_jobs.then(|| new.settings.retention());
        let before = new.partitions_before.clone();
        let layout = Layout::new(self.partitions.clone(), before, rule);
        self.collection.replace(layout, new.settings.clone());
        let mut opened = database.inner.opened.write();
        opened.plain.remove(&old.id);
        opened.plain.insert(new.id, self.collection.clone());
    }

    fn close_collection(&self, database: &Database, old: &Entry) {
        database.inner.opened.write().plain.remove(&old.id);
        let _ = self.collection.close();
    }

    fn close_old(&self) {
        for partition in self.layout.partitions().iter() {
            let _ = partition.close();
        }
    }

    fn close_new(&self) {
        for partition in &self.partitions {
            let _ = partition.close();
        }
    }
}
