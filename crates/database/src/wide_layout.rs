//! [`WideLayout`]: the partitions that a wide collection has now, and the jobs that work on them. A
//! split replaces it by another one, as that of a plain collection (see `layout.rs`).

use crate::cell_expiry::PartitionCellExpiry;
use crate::column_moving::ColumnMoving;
use crate::layout::partition_of;
use crate::partition_job::PartitionJob;
use crate::tiering::Tiering;
use crate::write_gate::{Gated, WriteGate};
use quire_model::Key;
use quire_store::Durability;
use quire_wide::{Schema, WidePartition};
use std::sync::Arc;

/// The partitions of an open wide collection, and what runs with them.
#[derive(Debug)]
pub(crate) struct WideLayout {
    /// At least one.
    partitions: Arc<[WidePartition]>,
    /// The jobs that move cells between tiers, one a partition; none where background jobs write
    /// nothing.
    tiering: Vec<Arc<PartitionJob<Tiering>>>,
    /// The jobs that move columns to other groups, as those.
    moving: Vec<Arc<PartitionJob<ColumnMoving>>>,
    /// The jobs that remove cells which have expired, as those.
    expiry: Vec<Arc<PartitionCellExpiry>>,
    gate: Arc<WriteGate>,
}

impl WideLayout {
    /// Has the partitions go by this schema, and begins the jobs, if there are to be any.
    pub(crate) fn new(
        partitions: Vec<WidePartition>,
        schema: &Arc<Schema>,
        durability: Durability,
        has_jobs: bool,
    ) -> WideLayout {
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
        WideLayout {
            tiering: worked().map(tiering).collect(),
            moving: worked().map(moving).collect(),
            expiry: worked().map(expiry).collect(),
            partitions: partitions.into(),
            gate,
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
    pub(crate) fn set(&self, schema: &Arc<Schema>, durability: Durability) {
        for partition in self.partitions.iter() {
            partition.set_tiers(schema);
        }
        for tiering in &self.tiering {
            tiering.set(schema, durability);
        }
        for moving in &self.moving {
            moving.set(schema, durability);
        }
        for expiry in &self.expiry {
            expiry.set(durability);
        }
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
        tiering.chain(moving).chain(expiry)
    }
}

impl Gated for WideLayout {
    fn gate(&self) -> &Arc<WriteGate> {
        &self.gate
    }
}
