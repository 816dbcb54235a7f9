//! When the cells of columns move to other groups: a background job for each partition of a wide
//! collection, as long as a column is to move.
//!
//! What moves is decided by the partition (`column_work.rs` of `quire-wide`).

use crate::partition_job::{Goal, Steps};
use crate::{Error, Result};
use quire_wide::{Schema, WidePartition};
use std::sync::Arc;
use std::time::Duration;

/// The moves of columns in a partition.
#[derive(Debug)]
pub(crate) struct ColumnMoving;

impl Steps for ColumnMoving {
    const NAME: &'static str = "columns";

    fn begins(&self, partition: &WidePartition, schema: &Arc<Schema>) -> Option<Duration> {
        // Of a partition that can't be read the first step tells.
        let has_moves = partition.has_column_moves(schema).unwrap_or(true);
        has_moves.then_some(Duration::ZERO)
    }

    fn step(&self, partition: &WidePartition, goal: &Goal) -> Result<Option<Duration>> {
        let step = partition.column_step(&goal.schema, goal.durability);
        let step = step.map_err(Error::from)?;
        Ok((!step.is_over).then_some(step.wait))
    }
}
