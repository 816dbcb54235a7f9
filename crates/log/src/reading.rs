//! Reading: an open segment, its blocks in order, and views of a log.

pub(crate) mod scan;
pub(crate) mod segment;
pub(crate) mod view;
pub(crate) mod walk;
