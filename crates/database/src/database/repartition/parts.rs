//! What differs in splits of plain and of wide collections, and in merges.

use crate::Result;
use crate::catalog::{Catalog, Entry};
use crate::database::Database;
use crate::partitions_before::Before;
use crate::settings::CollectionSettings;
use crate::write_gate::WriteGate;
use quire_collection::Partition;
use quire_model::Key;
use quire_store::ForkPlace;
use std::ops::Range;
use std::sync::Arc;

/// With fewer records to take over than this, writers are held for the rest.
pub(super) const NEARLY_LEVEL: u64 = 1_000;

/// Says which new partition has a key.
pub(super) type OwnerOf<'a> = &'a dyn Fn(&Key) -> usize;

/// The partitions that are split or merged and those that they become, of a plain collection or a
/// wide one.
pub(super) trait Parts {
    /// What writers to the old partitions pass.
    fn gate(&self) -> Arc<WriteGate>;

    /// Copies the documents of the old partitions, and opens the new ones. `watch` is told how many
    /// entries were copied, and how many there are, about. False if it ended that.
    fn copy(&mut self, copy: &Copy<'_>, watch: WatchCopy<'_>) -> Result<bool>;

    /// Takes over some of what was written. Returns the number of positions that are left where
    /// most are.
    fn follow(&mut self, owner: OwnerOf<'_>) -> Result<u64>;

    /// How many documents the indexes of the new partitions have, and are to have; and whether that
    /// is all. Without indexes it is.
    fn indexed(&self) -> (u64, u64, bool) {
        (0, 0, true)
    }

    /// Gives the new partitions the index that this entry says. False if they do not have it yet.
    fn take_index(&mut self, _entry: &Entry) -> Result<bool> {
        Ok(true)
    }

    /// Ends what writes to the old partitions and passes no gate, if anything does, and has it go
    /// on.
    fn stop_jobs(&mut self) {}
    fn restart_jobs(&mut self) {}

    /// Makes what the old partitions have durable and visible.
    fn sync_old(&self) -> Result<()>;

    /// Makes the new partitions durable, which are level, and gives them these settings.
    fn finish(&self, settings: &CollectionSettings) -> Result<()>;

    /// What the catalog says of the old partitions, now that the new ones are level.
    fn before(&self) -> Before;

    /// Has the collection use the new partitions, which the catalog names.
    fn replace(&self, database: &Database, old: &Entry, new: &Entry);

    /// Closes the collection, of which the catalog may name the old partitions or the new ones.
    fn close_collection(&self, database: &Database, old: &Entry);

    /// Closes the old partitions, or the new ones.
    fn close_old(&self);
    fn close_new(&self);
}

/// Is told how much was copied, and how much there is; false ends it.
pub(super) type WatchCopy<'a> = &'a dyn Fn(u64, u64) -> bool;

/// What copying needs to know.
pub(super) struct Copy<'a> {
    pub(super) database: &'a Database,
    pub(super) catalog: &'a Catalog,
    /// The entry of the new partitions.
    pub(super) new: &'a Entry,
    pub(super) owner: OwnerOf<'a>,
}

impl Copy<'_> {
    /// Whether there will be fewer partitions.
    pub(super) fn is_merge(&self, sources: usize) -> bool {
        (self.new.settings.partitions as usize) < sources
    }

    /// Where a new partition of documents is made.
    pub(super) fn place(&self, number: usize) -> ForkPlace {
        let (database, new) = (self.database, self.new);
        ForkPlace {
            place: database.place(self.catalog, new, number as u32),
            options: database.store_options(&new.settings),
        }
    }

    /// Opens one that was made.
    pub(super) fn open(&self, number: usize) -> Result<Partition> {
        let (database, new) = (self.database, self.new);
        database.open_partition(self.catalog, new, number as u32)
    }

    /// The numbers of the new partitions of one of `sources` old ones.
    pub(super) fn numbers_of(&self, source: usize, sources: usize) -> Range<usize> {
        let each = self.new.settings.partitions as usize / sources;
        source * each..(source + 1) * each
    }
}
