//! Stamp: what tells one file from another, or from itself before a change.

/// What tells a file from an earlier file of the same name, or from itself before a change. Two
/// equal stamps belong to one unchanged file, as far as the machine can tell. While a file is open,
/// no other file gets its identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileStamp {
    /// Its length.
    pub bytes: u64,
    /// Numbers that no other file has now.
    pub identity: [u64; 2],
    /// Another number after each change. Its resolution depends on the machine.
    pub changed: i64,
}
