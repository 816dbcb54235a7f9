//! Builds a run: writes what a merge gives into tables of bounded size.

use crate::fold::{Kind, Said};
use crate::merge::Merge;
use crate::table::TableWriter;
use crate::{Result, TableFiles, TableMeta, TreeContext, TreeSpec};
use quire_env::FileId;
use quire_planted::{Bug, planted};
use std::sync::Arc;

/// Entries between two looks at whether to stop.
const STOP_ENTRIES: u64 = 256;

/// Tables written and synced, with their directories. Dropped before [`keep`](Self::keep), their files are removed.
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
            // A file that can't be removed is an orphan, which the store removes when it opens next.
            let _ = self.files.remove(file);
        }
    }
}

/// A run being written. Dropped before it is finished, its files are removed.
#[derive(Debug)]
pub(super) struct RunBuilder {
    /// The open table: it goes before the files do.
    writer: Option<TableWriter>,
    built: Built,
}

impl RunBuilder {
    /// A run without entries.
    pub(super) fn new(files: &Arc<TableFiles>) -> RunBuilder {
        RunBuilder {
            writer: None,
            built: Built {
                files: Arc::clone(files),
                created: Vec::new(),
                metas: Vec::new(),
            },
        }
    }

    /// Adds an entry; keys ascend strictly. After an error the builder is of no use.
    pub(super) fn add(
        &mut self,
        spec: &TreeSpec,
        context: &TreeContext,
        said: Said<'_>,
    ) -> Result<()> {
        if let Some(full) = self.writer.take_if(|writer| writer.is_full()) {
            self.built.metas.push(full.finish()?);
        }
        if self.writer.is_none() {
            let (file, output) = context.files.create()?;
            self.built.created.push(file);
            self.writer = Some(TableWriter::new(spec, context, file, output)?);
        }
        match &mut self.writer {
            Some(writer) => writer.add(said),
            None => Ok(()),
        }
    }

    /// Adds all that `merge` gives; with `bottom`, tombstones are left out. False if `stop` said so.
    pub(super) fn add_all(
        &mut self,
        spec: &TreeSpec,
        context: &TreeContext,
        merge: &mut Merge,
        bottom: bool,
        stop: &dyn Fn() -> bool,
    ) -> Result<bool> {
        let mut seen = 0u64;
        while merge.advance()? {
            if seen.is_multiple_of(STOP_ENTRIES) && stop() {
                return Ok(false);
            }
            seen += 1;
            let Some(said) = merge.said() else {
                continue;
            };
            let without = bottom || planted(Bug::TombstoneDroppedEarly);
            if !without || said.kind != Kind::Delete {
                self.add(spec, context, said)?;
            }
        }
        Ok(true)
    }

    /// Completes the last table, and makes the names of all durable.
    pub(super) fn finish(mut self) -> Result<Built> {
        if let Some(last) = self.writer.take() {
            self.built.metas.push(last.finish()?);
        }
        if !planted(Bug::TableNameUnsynced) {
            let created = self.built.created.iter().copied();
            self.built.files.sync_dirs(created)?;
        }
        Ok(self.built)
    }
}
