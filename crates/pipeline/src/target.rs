//! Target: where documents are written to, a collection of this process or of a server.

use quiredb::{
    Collection, CollectionSettings, Document, Durability, Key, Position, Result, Write,
    partition_of,
};
use std::sync::Arc;

/// The outcomes of a group's writes, in their order.
pub type Outcomes = Vec<Result<()>>;

/// Where documents are written to. A clone is another handle to the same.
pub trait Target: Clone + Send + 'static {
    /// The name of the collection.
    fn name(&self) -> &str;

    /// The collection's settings.
    fn settings(&self) -> Arc<CollectionSettings>;

    /// How many writers the target can use: writes of one writer keep their order.
    fn writers(&self) -> u32;

    /// Which of `writers` a key belongs to: as many as [`writers`](Target::writers) gave, now or
    /// earlier.
    fn writer_of(&self, key: &Key, writers: u32) -> u32;

    /// The key that a document carries in the collection's key field.
    ///
    /// # Errors
    /// `Invalid` if it has none, or one that can't be a key.
    fn key_of(&self, document: &Document) -> Result<Key> {
        self.settings().key_of(document)
    }

    /// Refuses a write whose document names another key than the write's.
    ///
    /// # Errors
    /// `Invalid`, with the field.
    fn check_key(&self, write: &Write) -> Result<()> {
        self.settings().check_key(write)
    }

    /// Does the writes of some groups, each with the number of its writer, and returns the outcomes
    /// of each group when all are acknowledged.
    fn write(&self, groups: &[(u32, &[Write])], durability: Option<Durability>) -> Vec<Outcomes>;

    /// Makes all that was written durable.
    ///
    /// # Errors
    /// Of the target.
    fn sync(&self) -> Result<()>;

    /// The position of each partition.
    ///
    /// # Errors
    /// Of the target.
    fn positions(&self) -> Result<Vec<Position>>;
}

impl Target for Collection {
    fn name(&self) -> &str {
        Collection::name(self)
    }

    fn settings(&self) -> Arc<CollectionSettings> {
        Collection::settings(self)
    }

    fn writers(&self) -> u32 {
        Collection::settings(self).partitions
    }

    fn writer_of(&self, key: &Key, writers: u32) -> u32 {
        partition_of(key, writers)
    }

    fn write(&self, groups: &[(u32, &[Write])], durability: Option<Durability>) -> Vec<Outcomes> {
        let outcomes = self.write_grouped(groups.to_vec(), durability).into_iter();
        let done = |group: Vec<Result<_>>| group.into_iter().map(|one| one.map(drop)).collect();
        outcomes.map(done).collect()
    }

    fn sync(&self) -> Result<()> {
        Collection::sync(self)
    }

    fn positions(&self) -> Result<Vec<Position>> {
        Ok(Collection::positions(self))
    }
}
