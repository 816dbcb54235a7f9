//! Builds a run: writes what a merge gives into tables of bounded size.

use crate::fold::Kind;
use crate::merge::Merge;
use crate::table::TableWriter;
use crate::{Result, TableFiles, TableMeta, TreeContext, TreeSpec};
use quire_env::FileId;
use quire_planted::{Bug, planted};

/// Entries between two looks at whether to stop.
const STOP_ENTRIES: u64 = 256;

/// Tables written and synced, with their directories. Dropped before [`keep`](Self::keep), their files are removed.
#[derive(Debug)]
pub(super) struct Built<'a> {
    files: &'a TableFiles,
    created: Vec<FileId>,
    metas: Vec<TableMeta>,
}

impl Built<'_> {
    /// The tables, in key order.
    pub(super) fn metas(&self) -> &[TableMeta] {
        &self.metas
    }

    /// Leaves the files where they are.
    pub(super) fn keep(mut self) {
        self.created.clear();
    }
}

impl Drop for Built<'_> {
    fn drop(&mut self) {
        for &file in &self.created {
            // A file that can't be removed is an orphan, which the store removes when it opens next.
            let _ = self.files.remove(file);
        }
    }
}

/// Writes all that `merge` gives; with `bottom`, tombstones are left out. `None` if `stop` said so.
pub(super) fn build<'a>(
    spec: &TreeSpec,
    context: &'a TreeContext,
    mut merge: Merge,
    bottom: bool,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Built<'a>>> {
    let files = context.files.as_ref();
    let mut built = Built {
        files,
        created: Vec::new(),
        metas: Vec::new(),
    };
    let mut writer: Option<TableWriter> = None;
    let mut seen = 0u64;
    while merge.advance()? {
        let Some(said) = merge.said() else {
            continue;
        };
        if seen.is_multiple_of(STOP_ENTRIES) && stop() {
            return Ok(None);
        }
        seen += 1;
        if (bottom || planted(Bug::TombstoneDroppedEarly)) && said.kind == Kind::Delete {
            continue;
        }
        if let Some(full) = writer.take_if(|writer| writer.is_full()) {
            built.metas.push(full.finish()?);
        }
        if writer.is_none() {
            let (file, output) = files.create()?;
            built.created.push(file);
            writer = Some(TableWriter::new(spec, context, file, output)?);
        }
        if let Some(writer) = &mut writer {
            writer.add(said)?;
        }
    }
    if let Some(last) = writer {
        built.metas.push(last.finish()?);
    }
    if !planted(Bug::TableNameUnsynced) {
        files.sync_dirs(built.created.iter().copied())?;
    }
    Ok(Some(built))
}
