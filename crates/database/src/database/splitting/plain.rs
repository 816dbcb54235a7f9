//! The partitions of a plain collection that is split.

use super::parts::{Copy, OwnerOf, Parts};
use crate::Result;
use crate::catalog::Entry;
use crate::collection::Collection;
use crate::database::{Database, State};
use crate::layout::Layout;
use crate::settings::CollectionSettings;
use crate::write_gate::{Gated, WriteGate};
use quire_collection::{IndexSettings, Partition, RetentionRule};
use quire_model::Key;
use quire_seeded::{Bug, seeded};
use quire_store::ForkPlace;
use std::sync::Arc;

/// See the module.
pub(super) struct PlainParts {
    collection: Collection,
    /// The partitions that are split.
    layout: Arc<Layout>,
    /// The new partitions, once they are open.
    partitions: Vec<Partition>,
    /// The index that they have, or are building.
    index: Option<IndexSettings>,
    /// What retention does, while it is stopped.
    rules: Vec<RetentionRule>,
}

impl PlainParts {
    /// Those of a collection, of which the catalog has this.
    pub(super) fn new(collection: Collection, entry: &Entry) -> PlainParts {
        PlainParts {
            layout: collection.state().layout.load_full(),
            index: entry.index(),
            collection,
            partitions: Vec::new(),
            rules: Vec::new(),
        }
    }

    /// The old partition that a new one is of.
    fn source(&self, number: usize) -> &Partition {
        let old = self.layout.partitions();
        &old[number * old.len() / self.partitions.len()]
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

    fn total(&self) -> u64 {
        let sources = self.layout.partitions().iter();
        sources.map(|source| source.stats().log.records).sum()
    }

    fn copy(&mut self, copy: &Copy<'_>, watch: &dyn Fn(u64) -> bool) -> Result<bool> {
        let (database, new, mut before) = (copy.database, copy.new, 0);
        let sources = self.layout.partitions();
        for (number, source) in sources.iter().enumerate() {
            let numbers = copy.numbers_of(number, sources.len());
            let place = |number: usize| ForkPlace {
                place: database.place(copy.catalog, new, number as u32),
                options: database.store_options(&new.settings),
            };
            let places: Vec<_> = numbers.clone().map(place).collect();
            let owner = |key: &Key| (copy.owner)(key).wrapping_sub(numbers.start);
            if !source.fork(&places, &owner, &|records| watch(before + records))? {
                return Ok(false);
            }
            before += source.stats().log.records;
            for number in numbers {
                let opened = database.open_partition(copy.catalog, new, number as u32)?;
                self.partitions.push(opened);
            }
        }
        self.set_index(self.index.clone())?;
        Ok(true)
    }

    fn follow(&self, owner: OwnerOf<'_>) -> Result<u64> {
        let mut left = 0;
        for (number, partition) in self.partitions.iter().enumerate() {
            let owns = |key: &Key| owner(key) == number;
            left = left.max(partition.follow(self.source(number), &owns)?);
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
            assert!(
                partition.position() == self.source(number).position()
                    || seeded(Bug::SplitNotLevel)
                    || seeded(Bug::SplitPositionNotHeld),
                "a new partition ends where the old one does"
            );
        }
        Ok(())
    }

    fn replace(&self, database: &Database, state: &mut State, old: &Entry, new: &Entry) {
        let has_jobs = database.inner.options.retention;
        let rule = has_jobs.then(|| new.settings.retention());
        let before = new.partitions_before.clone();
        let layout = Layout::new(self.partitions.clone(), before, rule);
        self.collection.replace(layout, new.settings.clone());
        state.open.remove(&old.id);
        state.open.insert(new.id, self.collection.clone());
    }

    fn close_collection(&self, state: &mut State, old: &Entry) {
        state.open.remove(&old.id);
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
