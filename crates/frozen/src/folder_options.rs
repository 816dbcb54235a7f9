//! [`FolderOptions`]: how a folder of files is opened, and the memory that it may take.

use crate::OpenOptions;

/// How a folder of files is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FolderOptions {
    /// How its files are opened.
    pub files: OpenOptions,
    /// Fields that queries use again and again on many files are merged in memory, in the
    /// background, as if the files were one. This is the limit on their bytes (default 64 MiB; 0:
    /// no field is merged). After files were replaced, they take twice as much for a moment.
    pub merged_bytes_max: u64,
    /// Where the ranges of files overlap, the files that have a value are found by a directory of
    /// the values of the field, gathered in the background when it is needed. This is the limit on
    /// the bytes of all directories (default 32 MiB; 0: none).
    pub directory_bytes_max: u64,
}

impl Default for FolderOptions {
    fn default() -> FolderOptions {
        FolderOptions {
            files: OpenOptions::default(),
            merged_bytes_max: 64 << 20,
            directory_bytes_max: 32 << 20,
        }
    }
}
