//! Writing: pending records, the newest segment's file, and the segments that come after it.

pub(crate) mod create;
pub(crate) mod making;
pub(crate) mod pending;
pub(crate) mod syncer;
pub(crate) mod writer;
