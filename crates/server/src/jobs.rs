//! Long work on the database that callers start: backups, splits and merges of partitions, and
//! verification.

pub(crate) mod backup;
pub(crate) mod due_partitions;
pub(crate) mod repartition;
mod task;
pub(crate) mod verify;
