//! Builds a run: writes what a merge gives into tables of bounded size.
//!
//! The ranges that the run deletes go into its tables too, cut where the tables end: a table has
//! what begins at or after its first key and before that of the next. A table without entries would
//! have no keys to be known by, so it gets a tombstone for the first key of its first range.

use crate::SmallBytes;
use crate::deadline::wall_clock_micros;
use crate::entry::EntryRef;
use crate::entry_kind::EntryKind;
use crate::merge::Merge;
use crate::range_tombstones::{RangeTombstone, is_before};
use crate::table::TableWriter;
use crate::{Result, TableFiles, TableMeta, TreeContext, TreeSpec};
use quire_env::{FileId, VolumeId};
use quire_seeded::{Bug, seeded};
use std::sync::Arc;

/// Entries between two looks at whether to stop.
const STOP_ENTRIES: u64 = 256;

/// Tables written and synced, with their directories. Dropped before [`keep`](Self::keep), their
/// files are removed.
#[derive(Debug)]
pub(super) struct Built {
    files: Arc<TableFiles>,
    created: Vec<FileId>,
    metas: Vec<TableMeta>,
}

impl Built {
    /// The tables, in key order.
    pub(super) fn metas(&self) -> &[TableMeta] {
        &self.metas
    }

    /// Leaves the files where they are.
    pub(super) fn keep(mut self) {
        self.created.clear();
    }
}

impl Drop for Built {
    fn drop(&mut self) {
        for &file in &self.created {
            // A file that can't be removed is an orphan, which the store removes when it opens
            // next.
            let _ = self.files.remove(file);
        }
    }
}

/// How much of a merge is in a run.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Added {
    /// All.
    All,
    /// What it has before this key.
    Before(Vec<u8>),
    /// Only a part: it was stopped.
    Stopped,
}

/// A run being written. Dropped before it is finished, its files are removed.
#[derive(Debug)]
pub(super) struct RunBuilder {
    /// The open table: it goes before the files do.
    writer: Option<TableWriter>,
    /// The ranges that are not in a table yet, the first last.
    tombstones: Vec<RangeTombstone>,
    /// The volumes of what is merged.
    inputs: Vec<VolumeId>,
    /// Where its tables go, if that is decided.
    at: Option<VolumeId>,
    built: Built,
}

impl RunBuilder {
    /// A run without entries.
    pub(super) fn new(files: &Arc<TableFiles>) -> RunBuilder {
        RunBuilder {
            writer: None,
            tombstones: Vec::new(),
            inputs: Vec::new(),
            at: None,
            built: Built {
                files: Arc::clone(files),
                created: Vec::new(),
                metas: Vec::new(),
            },
        }
    }

    /// A run of what is read from the volumes `inputs`: its tables go to the volume `at`, or apart
    /// from them where there is room.
    pub(super) fn apart_from(
        files: &Arc<TableFiles>,
        inputs: Vec<VolumeId>,
        at: Option<VolumeId>,
    ) -> RunBuilder {
        RunBuilder {
            inputs,
            at,
            ..RunBuilder::new(files)
        }
    }

    /// Adds an entry; keys ascend strictly. After an error the builder is of no use.
    pub(super) fn add(
        &mut self,
        spec: &TreeSpec,
        context: &TreeContext,
        said: EntryRef<'_>,
    ) -> Result<()> {
        self.make_room(spec, context, said.key)?;
        self.writer(spec, context)?.add(said)
    }

    /// Completes the table that is full; the next entry is that of `next`.
    fn make_room(&mut self, spec: &TreeSpec, context: &TreeContext, next: &[u8]) -> Result<()> {
        self.add_ranges(spec, context, next)?;
        match self.writer.take_if(|writer| writer.is_full()) {
            Some(full) => self.close(full, next),
            None => Ok(()),
        }
    }

    /// The open table; a new one if there is none.
    fn writer(&mut self, spec: &TreeSpec, context: &TreeContext) -> Result<&mut TableWriter> {
        match &mut self.writer {
            // It stays where it is: to move it for each entry is more than a thousand bytes.
            Some(writer) => Ok(writer),
            none => {
                let tier = spec.tier.get();
                let (file, output) = context.files.create(tier, &self.inputs, self.at)?;
                self.built.created.push(file);
                Ok(none.insert(TableWriter::new(spec, context, file, output)?))
            }
        }
    }

    /// Adds the ranges that end by `next`; all, if that is empty.
    fn add_ranges(&mut self, spec: &TreeSpec, context: &TreeContext, next: &[u8]) -> Result<()> {
        let ends =
            |tombstone: &mut RangeTombstone| !is_before(next, &tombstone.to) || next.is_empty();
        while let Some(tombstone) = self.tombstones.pop_if(ends) {
            let full = self.writer.take_if(|writer| {
                writer.is_full_of_ranges() && writer.last_key() < tombstone.from.as_ref()
            });
            if let Some(full) = full {
                self.close(full, &tombstone.from)?;
            }
            let writer = self.writer(spec, context)?;
            if writer.is_empty() {
                writer.add(EntryRef::tombstone(&tombstone.from))?;
            }
            writer.add_range(&tombstone.from, &tombstone.to);
        }
        Ok(())
    }

    /// Completes a table; the next one begins at `next`.
    fn close(&mut self, mut full: TableWriter, next: &[u8]) -> Result<()> {
        if let Some(tombstone) = self.tombstones.last_mut()
            && tombstone.from.as_ref() < next
        {
            full.add_range(&tombstone.from, next);
            tombstone.from = SmallBytes::copy_from_slice(next);
        }
        let table = full.finish()?;
        self.push(table);
        Ok(())
    }

    /// Adds all that `merge` gives: see [`add_tables`](Self::add_tables). False if `stop` said so.
    pub(super) fn add_all(
        &mut self,
        spec: &TreeSpec,
        context: &TreeContext,
        merge: &mut Merge,
        bottom: bool,
        stop: &dyn Fn() -> bool,
    ) -> Result<bool> {
        let added = self.add_tables(spec, context, merge, bottom, usize::MAX, stop)?;
        Ok(added == Added::All)
    }

    /// Adds what `merge` gives until `tables` are complete; what is past its deadline as a
    /// tombstone; with `bottom`, tombstones and ranges are left out. `stop` is called now and then.
    pub(super) fn add_tables(
        &mut self,
        spec: &TreeSpec,
        context: &TreeContext,
        merge: &mut Merge,
        bottom: bool,
        tables: usize,
        stop: &dyn Fn() -> bool,
    ) -> Result<Added> {
        if !bottom && !seeded(Bug::RangeDroppedEarly) {
            self.tombstones
                .extend(merge.range_tombstones().into_iter().rev());
        }
        let now = wall_clock_micros(&*context.env);
        let mut seen = 0u64;
        while merge.advance()? {
            if seen.is_multiple_of(STOP_ENTRIES) && stop() {
                return Ok(Added::Stopped);
            }
            seen += 1;
            let Some(said) = merge.entry_ref() else {
                continue;
            };
            let said = said.or_expired(now);
            let without = bottom || seeded(Bug::TombstoneDroppedEarly);
            if without && said.kind == EntryKind::Delete {
                continue;
            }
            self.make_room(spec, context, said.key)?;
            if self.built.metas.len() >= tables {
                // Ranges that end by this key may have begun one more.
                if let Some(begun) = self.writer.take() {
                    self.close(begun, said.key)?;
                }
                return Ok(Added::Before(said.key.to_vec()));
            }
            self.writer(spec, context)?.add(said)?;
        }
        self.add_ranges(spec, context, &[])?;
        assert!(
            self.tombstones.is_empty(),
            "each deleted range is in a table"
        );
        Ok(Added::All)
    }

    fn push(&mut self, table: TableMeta) {
        let last = self.built.metas.last();
        debug_assert!(
            last.is_none_or(|last| last.largest < table.smallest),
            "tables of a run are in key order"
        );
        self.built.metas.push(table);
    }

    /// Completes the last table, and makes the names of all durable.
    pub(super) fn finish(mut self) -> Result<Built> {
        if let Some(last) = self.writer.take() {
            let table = last.finish()?;
            self.push(table);
        }
        assert_eq!(
            self.built.created.len(),
            self.built.metas.len(),
            "each file of a run is one of its tables"
        );
        if !seeded(Bug::TableNameUnsynced) {
            let created = self.built.created.iter().copied();
            self.built.files.sync_dirs(created)?;
        }
        Ok(self.built)
    }
}
