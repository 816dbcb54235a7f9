//! Long work on the database that callers start: backups and verification.

pub(crate) mod backup;
mod task;
pub(crate) mod verify;
