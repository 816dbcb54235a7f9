//! How far a split of partitions is.

/// What a split does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SplitStage {
    /// Copies records.
    Copying,
    /// Builds indexes, and takes over what is written meanwhile.
    Indexing,
    /// Takes over the last records, and replaces the old partitions.
    Switching,
}

impl SplitStage {
    /// What it is called, in one word.
    pub fn name(self) -> &'static str {
        match self {
            SplitStage::Copying => "copying",
            SplitStage::Indexing => "indexing",
            SplitStage::Switching => "switching",
        }
    }
}

/// How far a split is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SplitProgress {
    /// What it does.
    pub stage: SplitStage,
    /// How much of it is done: records while it copies, or entries of trees of a wide collection;
    /// documents while it builds indexes; else 0.
    pub done: u64,
    /// How much there is to do, about.
    pub total: u64,
}
