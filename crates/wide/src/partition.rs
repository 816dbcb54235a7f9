//! One partition of a wide collection.

use crate::machine::{KEYS, NAMES, ROWS, WideRows, group_specs, tree_of};
use crate::write::Decider;
use crate::{Result, RowWrite, Schema, WideView, Written};
use quire_env::{Env, Gate, VolumeId};
use quire_model::Position;
use quire_seeded::{Bug, seeded};
use quire_store::{AnyStore, Durability, Place, Shared, Store, StoreOptions, StoreStats, TreeId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One partition. Cheap to clone; any number of threads.
#[derive(Debug, Clone)]
pub struct WidePartition {
    number: u32,
    shared: Arc<Shared>,
    store: Store<WideRows>,
}

impl WidePartition {
    /// Makes a new, empty partition on disk.
    ///
    /// # Errors
    /// As of [`Store::create`].
    pub fn create(shared: &Shared, place: &Place) -> Result<()> {
        Ok(Store::<WideRows>::create(shared, place)?)
    }

    /// Opens a partition; its groups are shaped as the schema says.
    ///
    /// # Errors
    /// As of [`Store::open`].
    pub fn open(
        shared: Arc<Shared>,
        place: Place,
        number: u32,
        mut options: StoreOptions,
        schema: &Schema,
        changed: Arc<dyn Gate>,
    ) -> Result<WidePartition> {
        options.trees.extend(group_specs(schema));
        Ok(WidePartition {
            number,
            store: Store::open(Arc::clone(&shared), place, options, changed)?,
            shared,
        })
    }

    /// The machine it runs on.
    pub fn env(&self) -> &Arc<dyn Env> {
        self.shared.env()
    }

    /// Its number in the collection.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Does a write. It is visible, and as durable as `durability` says, when this returns.
    ///
    /// # Errors
    /// What is wrong with the write, a condition that does not hold: nothing was written. As of
    /// [`Store::write`].
    pub fn write(
        &self,
        schema: &Schema,
        write: &RowWrite,
        durability: Durability,
    ) -> Result<Written> {
        if seeded(Bug::WideGroupsApart) {
            let parts = write.clone().apart();
            let written: Vec<_> = parts
                .iter()
                .map(|part| self.write_unsynced(schema, part))
                .collect::<Result<_>>()?;
            let last = written
                .last()
                .map_or(Position(0), |(_, position)| *position);
            self.store.acknowledge(last, durability)?;
            // One write has one part at least.
            return Ok(written[0].0);
        }
        let (written, position) = self.write_unsynced(schema, write)?;
        self.store.acknowledge(position, durability)?;
        Ok(written)
    }

    /// The first half of [`write`](WidePartition::write): neither durable nor visible until
    /// [`acknowledge`](WidePartition::acknowledge) is called with the position.
    ///
    /// # Errors
    /// As of [`write`](WidePartition::write).
    pub fn write_unsynced(&self, schema: &Schema, write: &RowWrite) -> Result<(Written, Position)> {
        let time_micros = self.shared.env().now_micros();
        self.store.write_unsynced(|transaction| {
            let decider = Decider {
                partition: self.number,
                time_micros,
                schema,
                transaction,
            };
            decider.decide(write)
        })
    }

    /// Makes everything up to `position` as durable as `durability` says, and visible.
    ///
    /// # Errors
    /// As of [`Store::acknowledge`].
    pub fn acknowledge(&self, position: Position, durability: Durability) -> Result<()> {
        Ok(self.store.acknowledge(position, durability)?)
    }

    /// A consistent read of what is acknowledged, of all groups of the schema.
    ///
    /// # Errors
    /// When the store is closed.
    pub fn view(&self, schema: &Arc<Schema>) -> Result<WideView> {
        self.view_of_groups(schema, schema.groups().len() as u8)
    }

    /// As [`view`](WidePartition::view), of the first `groups` groups.
    pub(crate) fn view_of_groups(&self, schema: &Arc<Schema>, groups: u8) -> Result<WideView> {
        let trees = [KEYS, ROWS, NAMES]
            .into_iter()
            .chain((0..groups).map(tree_of));
        let trees: Vec<TreeId> = trees.collect();
        let view = self.store.view_of(&trees)?;
        Ok(WideView::new(self.number, Arc::clone(schema), view))
    }

    /// Its store, for backups and followers.
    pub fn any_store(&self) -> Arc<dyn AnyStore> {
        Arc::new(self.store.clone())
    }

    /// The last position that views see.
    pub fn position(&self) -> Position {
        self.store.position()
    }

    /// Makes everything written durable and visible.
    ///
    /// # Errors
    /// As of [`Store::sync`].
    pub fn sync(&self) -> Result<()> {
        Ok(self.store.sync()?)
    }

    /// Writes memtables out.
    ///
    /// # Errors
    /// As of [`Store::flush`].
    pub fn flush(&self) -> Result<()> {
        Ok(self.store.flush()?)
    }

    /// Merges every tree into one run.
    ///
    /// # Errors
    /// As of [`Store::compact`].
    pub fn compact(&self) -> Result<()> {
        Ok(self.store.compact()?)
    }

    /// Syncs and closes.
    ///
    /// # Errors
    /// As of [`Store::close`].
    pub fn close(&self) -> Result<()> {
        Ok(self.store.close()?)
    }

    /// Bytes of the table files of each group of the schema, by volume.
    pub fn group_volumes(&self, schema: &Schema) -> Vec<BTreeMap<VolumeId, u64>> {
        let trees = self.store.stats().trees;
        let of_group = |number| {
            let mut trees = trees.iter();
            let tree = trees.find(|tree| tree.id == tree_of(number));
            tree.map(|tree| tree.volumes.clone()).unwrap_or_default()
        };
        (0..schema.groups().len() as u8).map(of_group).collect()
    }

    /// Figures.
    pub fn stats(&self) -> StoreStats {
        self.store.stats()
    }
}
