//! Recovery of a log when it is opened, and the checks that judge a log by the same rules.

pub(crate) mod findings;
pub(crate) mod inspect;
pub(crate) mod opening;
pub(crate) mod recover;
pub(crate) mod salvage;
pub(crate) mod segment_reading;
pub(crate) mod unsynced;
pub(crate) mod verify;
