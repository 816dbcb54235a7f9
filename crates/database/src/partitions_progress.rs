//! How far a split or a merge of partitions is.

/// What a split or a merge does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartitionsStage {
    /// Copies records.
    Copying,
    /// Builds indexes, and takes over what is written meanwhile.
    Indexing,
    /// Takes over the last records, and replaces the old partitions.
    Switching,
}

impl PartitionsStage {
    /// What it is called, in one word.
    pub fn name(self) -> &'static str {
        match self {
            PartitionsStage::Copying => "copying",
            PartitionsStage::Indexing => "indexing",
            PartitionsStage::Switching => "switching",
        }
    }
}

/// How far a split or a merge is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionsProgress {
    /// What it does.
    pub stage: PartitionsStage,
    /// How much of it is done: records while it copies, or entries of trees of a wide collection;
    /// documents while it builds indexes; else 0.
    pub done: u64,
    /// How much there is to do, about.
    pub total: u64,
}
