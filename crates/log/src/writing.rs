//! Writing: pending records, the newest segment's file, and the segments that come after it.

pub(crate) mod commit;
pub(crate) mod create;
pub(crate) mod newest;
pub(crate) mod pending;
pub(crate) mod settings;
pub(crate) mod syncer;
pub(crate) mod training;
pub(crate) mod writer;
