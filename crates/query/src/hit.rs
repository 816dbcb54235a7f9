//! [`Hit`]: which document.

/// A document that matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hit {
    /// The index of its shard.
    pub shard: u32,
    /// Its docid there.
    pub doc: u32,
}
