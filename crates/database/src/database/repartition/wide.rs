//! The partitions of a wide collection that are split or merged.

use super::merged::Merged;
use super::parts::{Copy, OwnerOf, Parts, WatchCopy};
use crate::Result;
use crate::catalog::Entry;
use crate::database::Database;
use crate::partitions_before::Before;
use crate::settings::CollectionSettings;
use crate::wide::WideCollection;
use crate::wide_layout::WideLayout;
use crate::write_gate::{Gated, WriteGate};
use quire_model::{Key, Position};
use quire_seeded::{Bug, seeded};
use quire_store::{LogHold, Place};
use quire_wide::{Gathered, Merge, Schema, WideIndex, WidePartition};
use std::sync::Arc;

/// See the module.
pub(super) struct WideParts {
    collection: WideCollection,
    /// The partitions that are split or merged.
    layout: Arc<WideLayout>,
    /// The new partitions, once they are open.
    partitions: Vec<WidePartition>,
    /// Keeps, in the log of each old partition that is split, what the new ones have not taken over
    /// yet.
    holds: Vec<LogHold>,
    /// What the new partitions had of the old ones, in a merge.
    merged: Option<Merged>,
    /// Those that others are merged into.
    gathered: Vec<Gathered>,
    /// The index that they have, or are building.
    index: Option<WideIndex>,
}

impl WideParts {
    pub(super) fn new(collection: WideCollection, entry: &Entry) -> WideParts {
        WideParts {
            layout: collection.layout(),
            collection,
            partitions: Vec::new(),
            holds: Vec::new(),
            merged: None,
            gathered: Vec::new(),
            index: entry.wide_index(),
        }
    }

    /// Gives the new partitions the index of these settings, by this schema.
    fn set_index(&mut self, schema: &Arc<Schema>, index: Option<WideIndex>) -> Result<()> {
        for partition in &self.partitions {
            partition.set_index(schema, index.as_ref())?;
        }
        self.index = index;
        Ok(())
    }

    /// The new partitions of an old one.
    fn of_source(&self, number: usize) -> &[WidePartition] {
        let each = self.partitions.len() / self.layout.partitions().len();
        &self.partitions[number * each..(number + 1) * each]
    }

    /// Deals the rows of each old partition out to the new ones that it becomes.
    fn deal(&mut self, copy: &Copy<'_>, watch: WatchCopy<'_>) -> Result<bool> {
        let (database, new, mut before) = (copy.database, copy.new, 0);
        let schema = self.collection.schema();
        let sources = self.layout.partitions();
        let total = sources.iter().map(WidePartition::tree_entries).sum();
        for (number, source) in sources.iter().enumerate() {
            let numbers = copy.numbers_of(number, sources.len());
            let place = |number: usize| database.place(copy.catalog, new, number as u32);
            let places: Vec<Place> = numbers.clone().map(place).collect();
            let owner = |key: &Key| (copy.owner)(key).wrapping_sub(numbers.start);
            let open = |at: usize| {
                let number = (numbers.start + at) as u32;
                database.open_wide_partition(copy.catalog, new, number)
            };
            let watch = |entries: u64| watch(before + entries, total);
            let Some(dealt) = source.deal(&schema, &places, &owner, &open, &watch)? else {
                return Ok(false);
            };
            before += source.tree_entries();
            self.partitions.extend(dealt.partitions);
            self.holds.push(dealt.hold);
        }
        Ok(true)
    }

    /// Has new partitions gather what the old ones have.
    fn merge(&mut self, copy: &Copy<'_>, watch: WatchCopy<'_>) -> Result<bool> {
        let (database, new) = (copy.database, copy.new);
        let (layout, count) = (Arc::clone(&self.layout), new.settings.partitions as usize);
        let sources = layout.partitions();
        let total = sources.iter().map(WidePartition::tree_entries).sum();
        let ends = sources.iter().map(WidePartition::position);
        let merged = self.merged.insert(Merged::new(count, ends));
        let mut before = 0;
        for (number, olds) in sources.chunks(sources.len() / count).enumerate() {
            let merge = Merge {
                olds,
                place: &database.place(copy.catalog, new, number as u32),
                base: merged.base(),
                schema: &|| self.collection.schema(),
                open: &|| database.open_wide_partition(copy.catalog, new, number as u32),
                watch: &|entries| watch(before + entries, total),
            };
            let gathered = merge.gather(&mut |seen, at| merged.mark(number, seen, at))?;
            let Some(gathered) = gathered else {
                return Ok(false);
            };
            before += olds.iter().map(WidePartition::tree_entries).sum::<u64>();
            self.partitions.push(gathered.partition().clone());
            self.gathered.push(gathered);
        }
        Ok(true)
    }
}

impl Parts for WideParts {
    fn gate(&self) -> Arc<WriteGate> {
        Arc::clone(self.layout.gate())
    }

    fn copy(&mut self, copy: &Copy<'_>, watch: WatchCopy<'_>) -> Result<bool> {
        let is_whole = match copy.is_merge(self.layout.partitions().len()) {
            true => self.merge(copy, watch)?,
            false => self.deal(copy, watch)?,
        };
        if is_whole {
            self.set_index(&self.collection.schema(), self.index.clone())?;
        }
        Ok(is_whole)
    }

    fn follow(&mut self, owner: OwnerOf<'_>) -> Result<u64> {
        let (mut left, mut number) = (0, 0);
        if let Some(merged) = &mut self.merged {
            for (number, gathered) in self.gathered.iter_mut().enumerate() {
                let mut mark = |seen: &[Position], at| merged.mark(number, seen, at);
                left = left.max(gathered.follow(&mut mark)?);
            }
            return Ok(left);
        }
        for (at, (source, hold)) in self.layout.partitions().iter().zip(&self.holds).enumerate() {
            let mut seen = source.position();
            for partition in self.of_source(at) {
                let owns = |key: &Key| owner(key) == number;
                left = left.max(partition.follow(source, &owns)?);
                seen = seen.min(partition.position());
                number += 1;
            }
            hold.advance(seen);
        }
        Ok(left)
    }

    fn indexed(&self) -> (u64, u64, bool) {
        let (mut done, mut total, mut complete) = (0, 0, true);
        let schema = self.collection.schema();
        for partition in self.partitions.iter().filter(|_| self.index.is_some()) {
            let figures = partition.index_figures(&partition.stats());
            complete &= figures.as_ref().is_some_and(|figures| figures.complete);
            done += figures.map_or(0, |figures| figures.documents);
            total += partition.view(&schema).map_or(0, |view| view.count());
        }
        (done, total, complete)
    }

    fn take_index(&mut self, entry: &Entry) -> Result<bool> {
        let (index, is_same) = (entry.wide_index(), entry.wide_index() == self.index);
        if let Some(schema) = entry.settings.wide.clone() {
            self.set_index(&Arc::new(schema), index)?;
        }
        Ok(is_same)
    }

    fn sync_old(&self) -> Result<()> {
        let mut sources = self.layout.partitions().iter();
        sources.try_for_each(|source| Ok(source.sync()?))
    }

    fn finish(&self, _settings: &CollectionSettings) -> Result<()> {
        for partition in &self.partitions {
            if !seeded(Bug::SplitNamedUnsynced) {
                partition.sync()?;
            }
        }
        let sources = self.layout.partitions();
        if let Some(merged) = &self.merged {
            let last = sources.iter().map(WidePartition::position).max();
            return merged.check_room(last.unwrap_or_default());
        }
        for (number, source) in sources.iter().enumerate() {
            for partition in self.of_source(number) {
                assert!(
                    partition.position() == source.position() || seeded(Bug::SplitNotLevel),
                    "a new partition ends where the old one does"
                );
            }
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
        if let Some(schema) = new.settings.wide.clone() {
            let partitions = (self.partitions.clone(), new.partitions_before.clone());
            let settings = new.settings.clone();
            self.collection
                .replace(partitions, settings, schema, has_jobs);
        }
        let mut opened = database.inner.opened.write();
        opened.wide.remove(&old.id);
        opened.wide.insert(new.id, self.collection.clone());
    }

    fn close_collection(&self, database: &Database, old: &Entry) {
        database.inner.opened.write().wide.remove(&old.id);
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
