//! What is done with sealed segments: compaction, drops, and copies.

pub(crate) mod compact;
pub(crate) mod copy;
pub(crate) mod fork;
pub(crate) mod info;
pub(crate) mod output;
