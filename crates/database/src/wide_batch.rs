//! Writes of many rows that become durable together: one sync a partition, however many there are.

use crate::wide::WideCollection;
use crate::wide_layout::WideLayout;
use crate::write_gate::Gated;
use crate::{Error, Result};
use quire_collection::Written;
use quire_model::Position;
use quire_store::Durability;
use quire_wide::RowWrite;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Writes that are decided one by one, and made durable and visible by
/// [`finish`](WideBatch::finish). Each write sees those before it.
///
/// ```
/// use quiredb::wide::{Cell, Change, ColumnType, RowWrite, Schema};
/// use quiredb::{Database, Key};
/// # let dir = tempfile::tempdir()?;
/// # let database = Database::open(dir.path())?;
/// let schema = Schema::new().with_column("title", ColumnType::String, "meta")?;
/// let pages = database.create_wide_collection("pages", schema, Default::default())?;
/// let mut batch = pages.batch();
/// for number in 0..100 {
///     let title = Change::set("title", Cell::String(format!("page {number}")));
///     batch.write(&RowWrite::put(Key::from(number)).with(title))?;
/// }
/// assert!(batch.finish().is_empty());
/// assert_eq!(pages.count()?, 100);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "what was written is not durable until it is finished"]
pub struct WideBatch<'c> {
    collection: &'c WideCollection,
    /// The partitions that are written to.
    layout: Option<Arc<WideLayout>>,
    /// The last position that was written, by partition.
    positions: BTreeMap<u32, Position>,
}

impl WideCollection {
    /// Begins a batch of writes.
    pub fn batch(&self) -> WideBatch<'_> {
        WideBatch {
            collection: self,
            layout: None,
            positions: BTreeMap::new(),
        }
    }

    /// Does writes one by one, and makes them durable together: as `durability` says, or the
    /// collection's settings. Gives a result for each, in their order.
    pub fn write_all(
        &self,
        writes: impl IntoIterator<Item = Result<RowWrite>>,
        durability: Option<Durability>,
    ) -> Vec<Result<Written>> {
        let mut batch = self.batch();
        let writes = writes.into_iter();
        let written: Vec<_> = writes.map(|write| batch.write(&write?)).collect();
        let failed = batch.finish_as(durability);
        let result = |written: Written| match failed.get(&written.partition) {
            Some(error) => Err(error.clone()),
            None => Ok(written),
        };
        let written = written.into_iter();
        written.map(|one| one.and_then(result)).collect()
    }
}

impl WideBatch<'_> {
    /// Does one write, which is neither durable nor seen by readers yet.
    ///
    /// # Errors
    /// As of [`WideCollection::write`]; the other writes of the batch are as they are.
    pub fn write(&mut self, write: &RowWrite) -> Result<Written> {
        let (written, position, layout) = self.collection.write_unsynced(write)?;
        let is_same = |before: &Arc<WideLayout>| Arc::ptr_eq(before, &layout);
        if !self.layout.as_ref().is_some_and(is_same) {
            // A split has made those before durable, and taken them over.
            self.positions.clear();
            self.layout = Some(layout);
        }
        self.positions.insert(written.partition, position);
        Ok(written)
    }

    /// Makes the writes as durable as the collection's settings say, and visible. Gives, by
    /// partition, why that failed: whether its writes survive is unknown then.
    pub fn finish(self) -> BTreeMap<u32, Error> {
        self.finish_as(None)
    }

    /// As [`finish`](WideBatch::finish), with this durability in place of the settings'.
    pub fn finish_as(self, durability: Option<Durability>) -> BTreeMap<u32, Error> {
        let usual = || self.collection.settings().durability;
        let durability = durability.unwrap_or_else(usual);
        let mut failed = BTreeMap::new();
        let Some(layout) = self.layout else {
            return failed;
        };
        for (number, position) in self.positions {
            let partition = layout.partitions().get(number as usize);
            let done = partition.map(|partition| partition.acknowledge(position, durability));
            match done {
                Some(Err(error)) if !layout.gate().is_replaced() => {
                    failed.insert(number, Error::from(error));
                }
                // What replaced partitions had is durable, and in the new ones.
                _ => {}
            }
        }
        failed
    }
}
