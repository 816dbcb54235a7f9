//! The bytes of a segment file: each file here draws and codes one part of it.

pub(crate) mod block;
pub(crate) mod dictionary;
pub(crate) mod footer;
pub(crate) mod header;
pub(crate) mod index;
pub(crate) mod le;
pub(crate) mod records;
