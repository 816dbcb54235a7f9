//! Checks of what a tree is given.

use crate::fold::Folder;
use crate::run::Run;
use crate::{Error, KEY_BYTES_MAX, Op, Result, TreeSpec, deadline};
use std::sync::Arc;

/// Refuses runs that begin at a key with nothing below that has what they had before it.
pub(super) fn check_cuts(spec: &TreeSpec, runs: &[Arc<Run>]) -> Result<()> {
    for (at, run) in runs.iter().enumerate().filter(|(_, run)| run.is_cut()) {
        if !runs.get(at + 1).is_some_and(|below| run.goes_on(below)) {
            let what = format!(
                "tree {}: run {} is merged in part, and the run below is not the other part",
                spec.name, run.id
            );
            return Err(Error::InvalidArgument(what));
        }
    }
    Ok(())
}

/// Refuses a write of what can't be stored.
pub(super) fn check_write(folder: &Folder, key: &[u8], op: Op<'_>) -> Result<()> {
    if key.is_empty() {
        return Err(Error::InvalidArgument(format!(
            "tree {}: an empty key",
            folder.tree
        )));
    }
    check_key_length(folder, key)?;
    match op {
        Op::Put(value) | Op::Merge(value) => folder.check_value(value.len()),
        Op::Delete => Ok(()),
        Op::DeleteRange(to) => check_key_length(folder, to),
        Op::PutUntil(timed) => {
            deadline::check(&folder.tree, timed)?;
            folder.check_value(timed.len())
        }
    }
}

fn check_key_length(folder: &Folder, key: &[u8]) -> Result<()> {
    if key.len() > KEY_BYTES_MAX {
        let (limit, found) = (KEY_BYTES_MAX as u64, key.len() as u64);
        return Err(Error::TooLarge {
            tree: folder.tree.clone(),
            what: "key",
            limit,
            found,
        });
    }
    Ok(())
}
