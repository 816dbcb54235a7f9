//! The new database, partition by partition of the damaged one.

use super::origins::Origins;
use quire_collection::{Action, Effect, Write};
use quire_database::{Collection, Result, engine};
use quire_model::Position;
use quire_store::Durability;

/// Writes that go into the new database at once.
const BATCH_WRITES: usize = 1024;
/// Bytes of documents that do.
const BATCH_BYTES: usize = 4 << 20;

/// Where a partition's documents go, and what is known of them on the way.
pub(super) struct Target<'a> {
    pub(super) collection: &'a Collection,
    pub(super) origins: &'a mut Origins,
    /// The partition that is read.
    pub(super) partition: u32,
    pub(super) writes: Vec<Write>,
    /// Where the writes were.
    pub(super) positions: Vec<Position>,
    pub(super) bytes: usize,
}

impl Target<'_> {
    pub(super) fn add(&mut self, position: Position, write: Write) -> Result<()> {
        self.bytes += match &write.action {
            Action::Put(document) => document.as_bytes().len(),
            _ => 0,
        };
        self.writes.push(write);
        self.positions.push(position);
        if self.writes.len() >= BATCH_WRITES || self.bytes >= BATCH_BYTES {
            self.write()?;
        }
        Ok(())
    }

    /// Writes what was added into the new database.
    pub(super) fn write(&mut self) -> Result<()> {
        self.bytes = 0;
        let writes = std::mem::take(&mut self.writes);
        let results = engine::copies(self.collection)
            .writes(writes)
            .durability(Durability::None)
            .write();
        assert_eq!(
            results.len(),
            self.positions.len(),
            "each write came from one position"
        );
        for (result, position) in results.into_iter().zip(self.positions.drain(..)) {
            let written = result?;
            if written.effect != Effect::Unchanged {
                let origin = Some((self.partition, position));
                self.origins
                    .note(written.partition, written.version, origin);
            }
        }
        Ok(())
    }
}
