//! Deletions that the engine does itself, of documents that are too old, too much or have expired.

use crate::partition::Partition;
use crate::write::Writer;
use crate::{Error, Result, Triggers, Write};
use quire_store::Durability;
use std::time::Duration;

/// Deletions are synced so much later: a crash takes what is done again.
const SYNC_AFTER: Duration = Duration::from_secs(1);

/// What a step has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retained {
    /// Documents deleted.
    pub deleted: u64,
    /// There may be more to delete now.
    pub more: bool,
}

impl Partition {
    /// Does deletions; how many were done, and not forgone because the document has changed.
    pub(crate) fn delete(&self, mut deletions: &[Write]) -> Result<u64> {
        let mut deleted = 0;
        while !deletions.is_empty() {
            let (results, position) = self.write_by(Writer::Engine, deletions, Triggers::none())?;
            self.acknowledge(position, Durability::Async(SYNC_AFTER))?;
            deletions = deletions.get(results.len()..).unwrap_or_default();
            for result in results {
                match result {
                    Ok(_) => deleted += 1,
                    Err(Error::Conflict { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(deleted)
    }
}
