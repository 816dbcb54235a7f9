//! Stamp: what tells one file from another, or from itself before a change.

/// What tells a file from another one that had its name before, or from itself before it was
/// changed. Two that are equal are of one file, unchanged, as far as the machine can tell: while
/// somebody has the file open, no other one gets its identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileStamp {
    /// Its length.
    pub bytes: u64,
    /// Numbers that no other file has now.
    pub identity: [u64; 2],
    /// Another number after each change; how fine the machine tells these apart is its own affair.
    pub changed: i64,
}
