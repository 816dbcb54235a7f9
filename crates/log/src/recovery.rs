//! Recovery, and the offline checks that judge a log by the same rules.

pub(crate) mod recover;
pub(crate) mod salvage;
pub(crate) mod unsynced;
pub(crate) mod verify;
