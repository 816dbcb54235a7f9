//! One partition of a wide collection.

use crate::column_notes::ColumnWork;
use crate::expiry_work::ExpiryWork;
use crate::kept_log::KeptLog;
use crate::machine::{EXPIRIES, KEYS, NAMES, ROWS, Totals, WideRows, group_specs, tree_of};
use crate::record::{Head, Tailed};
use crate::row_index_work::{RowIndexWork, WideIndex};
use crate::tier_work::TierWork;
use crate::tiers::groups_of;
use crate::write::Decider;
use crate::{GROUPS_MAX, Result, RowWrite, Schema, Triggers, WideView, Written};
use quire_env::{Env, Gate, IoClass, Medium, Volume, VolumeId, Volumes};
use quire_lsm::Tier;
use quire_model::{DocId, Position};
use quire_search::{PartitionIndexes, ViewIndexes};
use quire_seeded::{Bug, seeded};
use quire_store::{AnyStore, Durability, Place, Shared, Store, StoreOptions, StoreStats, TreeId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Makes a view of some trees.
type ViewOf =
    fn(&Store<WideRows>, &[TreeId]) -> quire_store::Result<Arc<quire_store::View<Totals>>>;

/// One partition. Cheap to clone; any number of threads.
#[derive(Debug, Clone)]
pub struct WidePartition {
    number: u32,
    shared: Arc<Shared>,
    store: Store<WideRows>,
    tiers: Arc<TierWork>,
    expiry: Arc<ExpiryWork>,
    columns: Arc<ColumnWork>,
    row_index: Arc<RowIndexWork>,
    kept_log: Arc<KeptLog>,
    volumes: Arc<Volumes>,
    /// The tiers of the trees of all groups: of the hot tree and of the cold one.
    media: Arc<Vec<[Tier; 2]>>,
}

impl WidePartition {
    /// Makes a new, empty partition on disk.
    ///
    /// # Errors
    /// As of [`Store::create`].
    pub fn create(shared: &Shared, place: &Place) -> Result<()> {
        Ok(Store::<WideRows>::create(shared, place)?)
    }

    /// Opens a partition; its groups are shaped as the schema says. A search index that it has by
    /// these settings is opened too; [`set_index`](WidePartition::set_index) makes it the one that
    /// it is to have. If the options have its log
    /// [held](StoreOptions::log_held), it is tailed from the beginning on, as by
    /// [`set_log_retention`](WidePartition::set_log_retention).
    ///
    /// # Errors
    /// As of [`Store::open`].
    pub fn open(
        shared: Arc<Shared>,
        place: Place,
        number: u32,
        mut options: StoreOptions,
        (schema, index): (&Schema, Option<&WideIndex>),
        changed: Arc<dyn Gate>,
    ) -> Result<WidePartition> {
        let media: Vec<_> = (0..GROUPS_MAX).map(|_| <[Tier; 2]>::default()).collect();
        options.trees.extend(group_specs(schema, &media));
        let (log, is_tailed) = (options.log.clone(), options.log_held);
        let opened = index.map(|index| index.derived(number, &Arc::new(schema.clone())));
        options
            .derived
            .extend(opened.iter().map(|(source, _)| Arc::clone(source)));
        let store = Store::open(Arc::clone(&shared), place.clone(), options, changed)?;
        let indexes =
            PartitionIndexes::new(number, &shared, &store, index.map(|index| &index.settings));
        let columns = opened.map(|(_, columns)| columns);
        let row_index = RowIndexWork::new(indexes, store.downgrade(), columns);
        let kept_log = KeptLog::new(log, is_tailed, store.take_opening_hold());
        let partition = WidePartition {
            number,
            volumes: Arc::new(place.volumes),
            store,
            shared,
            tiers: Arc::default(),
            expiry: Arc::default(),
            columns: Arc::default(),
            row_index: Arc::new(row_index),
            kept_log: Arc::new(kept_log),
            media: Arc::new(media),
        };
        partition.set_tiers(schema);
        Ok(partition)
    }

    /// New tables of groups go to the tiers of this schema from now on.
    pub fn set_tiers(&self, schema: &Schema) {
        for (group, [hot, cold]) in schema.groups.iter().zip(&*self.media) {
            let media = group.media();
            hot.set(media.0);
            cold.set(media.1);
        }
    }

    /// The machine it runs on.
    pub fn env(&self) -> &Arc<dyn Env> {
        self.shared.env()
    }

    /// Its number in the collection.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Does a write. It is visible, and as durable as `durability` says, when this returns. The
    /// triggers run with it: what they change is in its record.
    ///
    /// # Errors
    /// What is wrong with the write, a condition that does not hold, a trigger that refuses it or
    /// fails: nothing was written. As of [`Store::write`].
    pub fn write(
        &self,
        schema: &Schema,
        write: &RowWrite,
        triggers: Triggers<'_>,
        durability: Durability,
    ) -> Result<Written> {
        let (written, position) = match seeded(Bug::WideGroupsApart) {
            true => self.write_apart(schema, write, triggers)?,
            false => self.write_unsynced(schema, write, triggers)?,
        };
        self.store.acknowledge(position, durability)?;
        Ok(written)
    }

    /// As [`write_unsynced`](WidePartition::write_unsynced), each change in a record of its own, as
    /// a seeded bug does it.
    fn write_apart(
        &self,
        schema: &Schema,
        write: &RowWrite,
        triggers: Triggers<'_>,
    ) -> Result<(Written, Position)> {
        let parts = write.clone().apart();
        let parts = parts
            .iter()
            .map(|part| self.write_unsynced(schema, part, triggers));
        let written = parts.collect::<Result<Vec<_>>>()?;
        let position = written.last().map_or(Position(0), |last| last.1);
        // One write has one part at least.
        Ok((written[0].0, position))
    }

    /// The first half of [`write`](WidePartition::write): neither durable nor visible until
    /// [`acknowledge`](WidePartition::acknowledge) is called with the position.
    ///
    /// # Errors
    /// As of [`write`](WidePartition::write).
    pub fn write_unsynced(
        &self,
        schema: &Schema,
        write: &RowWrite,
        triggers: Triggers<'_>,
    ) -> Result<(Written, Position)> {
        if seeded(Bug::TriggerApart) && !triggers.is_empty() {
            self.write(schema, write, Triggers::none(), Durability::Sync)?;
        }
        let time_micros = self.shared.env().now_micros();
        self.store.write_unsynced(|transaction| {
            let is_tailed = self.kept_log.is_tailed();
            if is_tailed && transaction.next_position() == Position(1) {
                // A follower takes a log that begins with the first record for all that there is.
                // What a split copies of a log for those who tail it never begins there.
                let first = Head::foreign(false, DocId(0), time_micros, Tailed::Key);
                transaction.append(first.encode());
            }
            let decider = Decider {
                partition: self.number,
                time_micros,
                schema,
                tiers: &self.tiers,
                expiry: &self.expiry,
                columns: &self.columns,
                triggers,
                is_tailed,
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
        self.view_by(schema, Store::view_of, false)
    }

    /// As [`view`](WidePartition::view), with the search indexes, for queries. They take what was
    /// written into them the sooner for it.
    ///
    /// # Errors
    /// As of [`view`](WidePartition::view).
    pub fn indexed_view(&self, schema: &Arc<Schema>) -> Result<WideView> {
        self.view_by(schema, Store::view_of, true)
    }

    /// As [`view`](WidePartition::view), after a flush, of table files alone: it holds no memtable,
    /// so no writer waits for its end. For reads that take long.
    ///
    /// # Errors
    /// As of [`Store::flush`].
    pub fn flushed_view(&self, schema: &Arc<Schema>) -> Result<WideView> {
        self.view_by(schema, Store::flushed_view_of, false)
    }

    fn view_by(&self, schema: &Arc<Schema>, view_of: ViewOf, is_indexed: bool) -> Result<WideView> {
        let (mut cold, mut groups) = (0, schema.groups().len() as u8);
        loop {
            let trees = self.trees_of((groups, cold), &[]);
            let view = match is_indexed {
                true => self.row_index.view(&self.store, &trees, schema, &view_of)?,
                false => (view_of(&self.store, &trees)?, self.row_index.none()),
            };
            let view = self.view_with(schema, view);
            // A cold tree without rows is left out: a view costs by its trees. A column may have
            // moved to a group that a newer schema has.
            let needed = view.moves().group_count();
            if view.cold_groups() & !cold == 0 && needed <= groups {
                return Ok(view);
            }
            cold |= view.cold_groups();
            groups = groups.max(needed);
        }
    }

    /// As [`view`](WidePartition::view), of all trees.
    pub(crate) fn view_of_all(&self, schema: &Arc<Schema>) -> Result<WideView> {
        let all = (GROUPS_MAX as u8, u16::MAX);
        self.view_of(schema, all, &[EXPIRIES], Store::view_of)
    }

    /// As [`view`](WidePartition::view), of the first `groups` groups, and of the cold trees of
    /// `cold` ones, and of others, made by `view_of`.
    pub(crate) fn view_of(
        &self,
        schema: &Arc<Schema>,
        (groups, cold): (u8, u16),
        others: &[TreeId],
        view_of: ViewOf,
    ) -> Result<WideView> {
        let view = view_of(&self.store, &self.trees_of((groups, cold), others))?;
        Ok(self.view_with(schema, (view, self.row_index.none())))
    }

    fn trees_of(&self, (groups, cold): (u8, u16), others: &[TreeId]) -> Vec<TreeId> {
        let hot_trees = (0..groups).map(|group| tree_of(group, false));
        let cold_trees = groups_of(cold).map(|group| tree_of(group, true));
        let trees = [KEYS, ROWS, NAMES].into_iter();
        let trees = trees.chain(hot_trees).chain(cold_trees);
        trees.chain(others.iter().copied()).collect()
    }

    fn view_with(
        &self,
        schema: &Arc<Schema>,
        view: (Arc<quire_store::View<Totals>>, ViewIndexes),
    ) -> WideView {
        let (tiers, row_index) = (Arc::clone(&self.tiers), Arc::clone(&self.row_index));
        WideView::new(self.number, Arc::clone(schema), view, tiers, row_index)
    }

    pub(crate) fn row_index(&self) -> &RowIndexWork {
        &self.row_index
    }

    /// The machines and the memory that its stores share.
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Whether a group has two tiers, or rows in its cold one from when it had.
    pub fn has_tiers(&self, schema: &Schema) -> bool {
        let is_tiered = schema.groups.iter().any(|group| group.tiers.is_some());
        let view = || self.store.view_of(&[ROWS]);
        is_tiered || view().is_ok_and(|view| view.summary().cold_groups() != 0)
    }

    /// Whether disks or memory have more to do than they can, so that background work waits.
    pub fn is_busy(&self) -> bool {
        let (env, memtables) = (self.shared.env(), self.shared.memtables());
        let waits = |volume: &Volume| {
            let figures = env.volume_io(&volume.path)?.figures();
            let urgent = figures
                .waiting
                .into_iter()
                .take(IoClass::Background as usize);
            Some(urgent.sum::<u64>() > 0)
        };
        memtables.used() > memtables.limit() / 2
            || self
                .volumes
                .iter()
                .any(|volume| waits(volume) == Some(true))
    }

    pub(crate) fn store(&self) -> &Store<WideRows> {
        &self.store
    }

    pub(crate) fn kept_log(&self) -> &KeptLog {
        &self.kept_log
    }

    pub(crate) fn columns(&self) -> &ColumnWork {
        &self.columns
    }

    pub(crate) fn expiry(&self) -> &ExpiryWork {
        &self.expiry
    }

    pub(crate) fn tiers(&self) -> &TierWork {
        &self.tiers
    }

    /// Why a medium has no room for cells that move to it, if it has none: each of its disks has
    /// less than `room_bytes` free beyond twice what memtables hold.
    pub(crate) fn without_room(&self, medium: Option<Medium>, room_bytes: u64) -> Option<String> {
        let env = self.shared.env();
        let of_medium = |volume: &&Volume| Some(volume.medium) == medium;
        let mut volumes: Vec<&Volume> = self.volumes.iter().filter(of_medium).collect();
        if volumes.is_empty() {
            // The first takes the files then.
            volumes.extend(self.volumes.iter().take(1));
        }
        let names: Vec<_> = volumes.iter().map(|volume| volume.name.as_str()).collect();
        let names = names.join(", ");
        volumes.retain(|volume| volume.is_there);
        if volumes.is_empty() {
            return Some(format!("no cells move to {names}, which is lost"));
        }
        let free = volumes.iter().map(|volume| env.free_bytes(&volume.path));
        let most = free.filter_map(quire_env::Result::ok).max()?;
        let needed = room_bytes + 2 * self.shared.memtables().used();
        (most < needed).then(|| {
            format!(
                "no cells move to {names}: {most} bytes are free there, and {needed} are needed"
            )
        })
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

    /// Bytes of the table files of each group of the schema, by volume: those of its hot tree, and
    /// those of its cold one.
    pub fn group_volumes(&self, schema: &Schema) -> Vec<[BTreeMap<VolumeId, u64>; 2]> {
        let trees = self.store.stats().trees;
        let of_tree = |id| {
            let tree = trees.iter().find(|tree| tree.id == id);
            tree.map(|tree| tree.volumes.clone()).unwrap_or_default()
        };
        let groups = 0..schema.groups().len() as u8;
        groups
            .map(|group| [false, true].map(|is_cold| of_tree(tree_of(group, is_cold))))
            .collect()
    }

    /// Bytes of the table files of all trees.
    pub fn tree_bytes(&self) -> u64 {
        let trees = self.store.stats().trees;
        trees.iter().map(|tree| tree.figures.table_bytes).sum()
    }

    /// Entries of all trees, about.
    pub fn tree_entries(&self) -> u64 {
        let trees = self.store.stats().trees;
        trees.iter().map(|tree| tree.figures.entries).sum()
    }

    /// Figures.
    pub fn stats(&self) -> StoreStats {
        self.store.stats()
    }
}
