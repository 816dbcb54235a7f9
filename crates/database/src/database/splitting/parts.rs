//! What differs in splits of plain and of wide collections.

use crate::Result;
use crate::catalog::{Catalog, Entry};
use crate::database::{Database, State};
use crate::settings::CollectionSettings;
use crate::write_gate::WriteGate;
use quire_model::Key;
use std::ops::Range;
use std::sync::Arc;

/// Says which new partition has a key.
pub(super) type OwnerOf<'a> = &'a dyn Fn(&Key) -> usize;

/// The partitions that are split and those that they become, of a plain collection or a wide one.
pub(super) trait Parts {
    /// What writers to the old partitions pass.
    fn gate(&self) -> Arc<WriteGate>;

    /// How many entries there are to copy, about.
    fn total(&self) -> u64;

    /// Copies the documents of the old partitions, and opens the new ones. `watch` is told how many
    /// entries were copied. False if it ended that.
    fn copy(&mut self, copy: &Copy<'_>, watch: &dyn Fn(u64) -> bool) -> Result<bool>;

    /// Takes over some of what was written. Returns the number of positions that are left where
    /// most are.
    fn follow(&self, owner: OwnerOf<'_>) -> Result<u64>;

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

    /// Has the collection use the new partitions, which the catalog names.
    fn replace(&self, database: &Database, state: &mut State, old: &Entry, new: &Entry);

    /// Closes the collection, of which the catalog may name the old partitions or the new ones.
    fn close_collection(&self, state: &mut State, old: &Entry);

    /// Closes the old partitions, or the new ones.
    fn close_old(&self);
    fn close_new(&self);
}

/// What copying needs to know.
pub(super) struct Copy<'a> {
    pub(super) database: &'a Database,
    pub(super) catalog: &'a Catalog,
    /// The entry of the new partitions.
    pub(super) new: &'a Entry,
    pub(super) owner: OwnerOf<'a>,
}

impl Copy<'_> {
    /// The numbers of the new partitions of one of `sources` old ones.
    pub(super) fn numbers_of(&self, source: usize, sources: usize) -> Range<usize> {
        let each = self.new.settings.partitions as usize / sources;
        source * each..(source + 1) * each
    }
}
