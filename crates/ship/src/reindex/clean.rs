//! Puts everything back, and ends a reindex.

use super::build::{create, remove};
use super::record::{Record, Step};
use super::release::release;
use super::session::Session;
use super::set::put_back_all;
use crate::error::{Error, Result};
use crate::topic::Source;

/// Puts back every setting that a run changed. With `drops`, the source, removes the index
/// of the two that the alias does not stand for, and what the source holds for readers into both,
/// and ends the reindex. Returns the index that was removed.
///
/// # Errors
/// Of the cluster; with `drops`, of the source.
pub(crate) fn clean(
    session: &mut Session<'_>,
    drops: Option<&dyn Source>,
) -> Result<Option<String>> {
    settle_create(session)?;
    put_back_all(session)?;
    let Some(source) = drops else {
        return Ok(None);
    };
    let begin = session.begun(None)?;
    let behind = session.cluster.alias(&begin.alias)?;
    let is_in_use = |index: &String| behind.contains_key(index);
    // The old index is removed only for the new one, never because the alias stands for neither.
    let unused = match &begin.old {
        Some(old) if is_in_use(&begin.new) && !is_in_use(old) => Some(old.clone()),
        _ if !is_in_use(&begin.new) && session.history().is_create_intended => {
            Some(begin.new.clone())
        }
        _ => None,
    };
    if let Some(index) = &unused {
        remove(session, index)?;
    }
    for index in begin.old.iter().chain([&begin.new]) {
        release(session, source, index)?;
    }
    session.record(Record::End)?;
    Ok(unused)
}

/// Creates an index that a killed process was about to create. Its request may be on its way; so it
/// comes to nothing, or has come to the same, before settings are put back.
fn settle_create(session: &mut Session<'_>) -> Result<()> {
    let history = session.history();
    let Some(begin) = history.begin.clone() else {
        return Ok(());
    };
    if !history.is_create_intended || history.is_done(Step::Created) {
        return Ok(());
    }
    match create(session, &begin) {
        // What is refused now was refused before.
        Ok(()) | Err(Error::Reindex(_)) => Ok(()),
        Err(error) => Err(error),
    }
}
