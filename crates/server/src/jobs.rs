//! Long work on the database that callers start: backups, splits and verification.

pub(crate) mod backup;
pub(crate) mod due_splits;
pub(crate) mod split;
mod task;
pub(crate) mod verify;
