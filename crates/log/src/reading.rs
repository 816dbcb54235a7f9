//! Reading: open segments, the blocks in them, and views of a log.

pub(crate) mod read;
pub(crate) mod scan;
pub(crate) mod segment;
pub(crate) mod view;
pub(crate) mod walk;
