//! [`Rebuilt`]: that a derived tree was built anew, and why.

/// How often a derived tree was built anew since the store was opened, and why the last time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rebuilt {
    /// How often.
    pub count: u64,
    /// Why: what was found to be damaged, with its file.
    pub why: String,
}
