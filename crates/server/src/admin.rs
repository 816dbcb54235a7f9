//! The server as a whole: what it is, how it is, what it holds.

pub(crate) mod cat;
pub(crate) mod cluster;
pub(crate) mod stats;
pub(crate) mod tokens;
