//! [`WideLayout`]: the partitions that a wide collection has now, and the jobs that work on them. A
//! split or a merge replaces it by another one, as that of a plain collection (see `layout.rs`).

use crate::Result;
use crate::cell_expiry::PartitionCellExpiry;
use crate::column_moving::ColumnMoving;
use crate::layout::partition_of;
use crate::log_retention::PartitionLogRetention;
use crate::partition_job::PartitionJob;
use crate::partitions_before::{Before, Zero, spread};
use crate::settings::CollectionSettings;
use crate::tiering::Tiering;
use crate::write_gate::{Gated, WriteGate};
use quire_model::{Key, Position};
use quire_wide::{Schema, WidePartition};
use std::sync::Arc;

/// The partitions of an open wide collection, and what runs with them.
#[derive(Debug)]
pub(crate) struct WideLayout {
    /// At least one.
    partitions: Arc<[WidePartition]>,
    /// What there was before each split and merge.
    before: Vec<Before>,
    /// The jobs that move cells between tiers, one a partition; none where background jobs write
    /// nothing.
    tiering: Vec<Arc<PartitionJob<Tiering>>>,
    /// The jobs that move columns to other groups, as those.
    moving: Vec<Arc<PartitionJob<ColumnMoving>>>,
    /// The jobs that remove cells which have expired, as those.
    expiry: Vec<Arc<PartitionCellExpiry>>,
    /// The jobs that drop the log that was kept long enough, one a partition. They write nothing.
    log_retention: Vec<Arc<PartitionLogRetention>>,
    gate: Arc<WriteGate>,
}

impl WideLayout {
    /// Has the partitions go by this schema, and begins the jobs, if there are to be any.
    pub(crate) fn new(
        (partitions, before): (Vec<WidePartition>, Vec<Before>),
        schema: &Arc<Schema>,
        settings: &CollectionSettings,
        has_jobs: bool,
    ) -> WideLayout {
        let durability = settings.durability;
        assert!(!partitions.is_empty(), "a collection has a partition");
        for partition in &partitions {
            partition.set_tiers(schema);
        }
        let gate: Arc<WriteGate> = Arc::default();
        let worked = || partitions.iter().filter(|_| has_jobs);
        let by = |partition: &WidePartition| (partition.clone(), Arc::clone(&gate));
        let tiering = |one| PartitionJob::start(Tiering::default(), by(one), schema, durability);
        let moving = |one| PartitionJob::start(ColumnMoving, by(one), schema, durability);
        let expiry = |one| PartitionCellExpiry::start(by(one), durability);
        let retention = partitions.iter().map(PartitionLogRetention::start);
        let layout = WideLayout {
            log_retention: retention.collect(),
            before,
            tiering: worked().map(tiering).collect(),
            moving: worked().map(moving).collect(),
            expiry: worked().map(expiry).collect(),
            partitions: partitions.into(),
            gate,
        };
        layout.set_log_retention(settings);
        layout
    }

    fn set_log_retention(&self, settings: &CollectionSettings) {
        for retention in &self.log_retention {
            retention.set(settings.log_retention());
        }
    }

    pub(crate) fn partitions(&self) -> &Arc<[WidePartition]> {
        &self.partitions
    }

    /// The partition that a key belongs to.
    pub(crate) fn of(&self, key: &Key) -> &WidePartition {
        &self.partitions[partition_of(key, self.partitions.len() as u32) as usize]
    }

    /// Goes on by this schema.
    pub(crate) fn set(&self, schema: &Arc<Schema>, settings: &CollectionSettings) -> Result<()> {
        let durability = settings.durability;
        for partition in self.partitions.iter() {
            partition.set_tiers(schema);
            partition.set_log(settings.log())?;
        }
        self.set_log_retention(settings);
        for tiering in &self.tiering {
            tiering.set(schema, durability);
        }
        for moving in &self.moving {
            moving.set(schema, durability);
        }
        for expiry in &self.expiry {
            expiry.set(durability);
        }
        Ok(())
    }

    /// How many partitions there were at first, if there were others.
    pub(crate) fn first_partitions(&self) -> Option<u32> {
        self.before.first().map(Before::partitions)
    }

    /// As [`Layout::spread`](crate::layout::Layout::spread). A log may have lost its beginning, so
    /// a reader of all that it has stays at 0.
    ///
    /// # Errors
    /// `Invalid` if there never was this number of partitions.
    pub(crate) fn spread(&self, seen: &[Position]) -> Result<Vec<Position>> {
        spread(seen, self.partitions.len(), &self.before, Zero::Stays)
    }

    /// Has a partition remove what expires, if a cell was written that does.
    pub(crate) fn expect_expiry(&self, partition: &WidePartition) {
        if partition.expects_expiry()
            && let Some(expiry) = self.expiry.get(partition.number() as usize)
        {
            expiry.expect();
        }
    }

    /// How often moves of columns waited for disks and memory, and moves between tiers.
    pub(crate) fn pauses(&self) -> (u64, u64) {
        let moving = self.moving.iter().map(|one| one.pauses()).sum();
        (moving, self.tiering.iter().map(|one| one.pauses()).sum())
    }

    /// Why the last steps of jobs failed, of those that did.
    pub(crate) fn errors(&self) -> impl Iterator<Item = String> {
        let tiering = self.tiering.iter().filter_map(|one| one.error());
        let moving = self.moving.iter().filter_map(|one| one.error());
        let expiry = self.expiry.iter().filter_map(|one| one.error());
        let retention = self.log_retention.iter().filter_map(|one| one.error());
        tiering.chain(moving).chain(expiry).chain(retention)
    }
}

impl Gated for WideLayout {
    fn gate(&self) -> &Arc<WriteGate> {
        &self.gate
    }
}
